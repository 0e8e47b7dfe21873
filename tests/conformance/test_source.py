"""Modules written as source give what ONNX's node cases expect, in a process that has no ONNX: no interpreter in disguise."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from mlconverter import Converter
from tests.conformance.node_cases import difference, node_cases, structured_cases
from tests.conformance.test_onnx_torch import PINNED, given, taken

PARTS = 8

ALONE = """
import importlib.util, sys
from pathlib import Path
sys.modules.update(dict.fromkeys(("onnx", "onnx_ir", "onnxruntime", "mlconverter")))
import torch
folder = Path(sys.argv[1])
results = {}
for file in sorted(folder.glob("*.py")):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    written = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    inputs = torch.load(file.with_suffix(".inputs"))
    try:
        with torch.no_grad():
            outputs = written.load()(*inputs)
    except Exception as error:
        outputs = f"{type(error).__name__}: {error}"
    results[file.stem] = outputs
torch.save(results, folder / "results")
"""


@pytest.mark.parametrize("part", range(PARTS))
def test_written_modules(part: int, tmp_path: Path):
    known = node_cases() | structured_cases()
    names = sorted(set(PINNED.names()) & known.keys())[part::PARTS]
    cases = {f"case_{i}": known[name] for i, name in enumerate(names)}
    for stem, case in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Converter(case.model, verify=False).to_torch(save_source=tmp_path / f"{stem}.py")
        torch.save(given(case.inputs), tmp_path / f"{stem}.inputs")
    subprocess.run([sys.executable, "-W", "ignore", "-c", ALONE, str(tmp_path)], check=True)
    results = torch.load(tmp_path / "results")
    wrong = []
    for stem, case in cases.items():
        found = results[stem]
        if not isinstance(found, str):
            found = difference(taken(found, case), case)
        if found is not None:
            wrong.append(f"{case.name}: {found}")
    assert not wrong, "\n".join(wrong)
