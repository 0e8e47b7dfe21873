"""Other converters, each in an environment of its own in the user's cache folder: installing one changes nothing here."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import platformdirs


def python_with(package: str, *others: str, apart: bool = False, interpreter: str = sys.executable) -> str:
    """The interpreter of an environment that has a peer, made where it is not there yet.

    Args:
        package: the peer.
        *others: what else it needs and does not say.
        apart: whether it brings all that it depends on. Otherwise the environment sees the packages of this one and adds
            the peer alone, so that both run on the same versions of everything else.
        interpreter: the Python of the environment, for a peer that does not run on this one; it has to be apart.

    Raises:
        RuntimeError: the peer cannot be installed.
    """
    try:
        version = _output(interpreter, "import sys; print('%d.%d' % sys.version_info[:2])")
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"'{interpreter}' is no Python that runs: {error}") from error
    folder = Path(platformdirs.user_cache_dir("mlconverter-benchmarks", appauthor=False)) / f"{package}-py{version}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        subprocess.run([interpreter, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = Path(_output(str(python), "import sysconfig; print(sysconfig.get_path('purelib'))"))
    if not apart:
        (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    if not all(list(site.glob(f"{name.replace('-', '_')}-*.dist-info")) for name in (package, *(others if apart else ()))):
        alone = [] if apart else ["--no-deps"]
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *alone, package, *others]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError((result.stderr.strip() or "pip failed").splitlines()[-1])
    return str(python)


def version_of(python: str, package: str) -> str:
    """The version that an environment has."""
    return _output(python, f"import importlib.metadata as m; print(m.version({package!r}))")


def _output(python: str, code: str) -> str:
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
