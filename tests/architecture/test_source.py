"""Files stay small, and say nothing that only one machine or one moment understands."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = 500

# Put together here, so that this file does not hold what it looks for.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"(?<![\w.])/(?:" + "|".join(["work", "home", "root", "Users"]) + r")/\w",
            r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b",
            "python" + "hosted",
        ]
    )
)


def _files(*folders):
    paths = [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py"))]
    assert paths
    return paths


def test_no_file_is_long():
    long = {str(p.relative_to(ROOT)): n for p in _files("mlconverter") if (n := len(p.read_text("utf-8").splitlines())) > LINES}
    assert not long, f"over {LINES} lines: {long}"


def test_no_forbidden_words():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in _files("mlconverter", "tests")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if (match := FORBIDDEN.search(line))
    ]
    assert not found, "\n".join(found)
