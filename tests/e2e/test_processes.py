"""Several processes that keep their conversions in one folder, and processes that are ended in the middle."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from mlconverter import Converter
from mlconverter.cache import IntermediateStore, content_hash
from tests.contract.test_formats import small_onnx

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are ended by a signal")

AT_ONCE = 8
ENDED = 50

CONVERT = """
import sys
from mlconverter import Converter

converter = Converter(sys.argv[1], output_dir=sys.argv[2], load_intermediate_models_from_disk=True)
converter.to_tflite()
print(converter.report.verdict)
"""

STORE = """
import sys
from pathlib import Path
from mlconverter.cache import IntermediateStore, ManifestKey

store, content = IntermediateStore(sys.argv[1]), bytes(1 << 22)
print("ready", flush=True)
for number in range(10**6):
    key = ManifestKey("net", "onnx", ".onnx", str(number % 7), {}, {})
    store.store(key, lambda path: path.write_bytes(bytes([number % 7]) + content))
"""


def test_eight_at_once_all_succeed(tmp_path: Path) -> None:
    source, folder = tmp_path / "net.onnx", tmp_path / "kept"
    onnx.save(small_onnx(), source)
    command = [sys.executable, "-c", CONVERT, source, folder]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(AT_ONCE)]
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out.strip()) == (0, "verified"), err
    (kept,) = IntermediateStore(folder).held()
    assert kept.read_bytes() == bytes(Converter(source).to_tflite())
    assert [p.name for p in folder.iterdir() if not p.name.startswith(".")] == [kept.name]


def test_what_is_left_by_processes_that_were_ended_is_whole(tmp_path: Path) -> None:
    folder, moments = tmp_path / "kept", random.Random(0)
    for _ in range(ENDED):
        process = subprocess.Popen([sys.executable, "-c", STORE, folder], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
    files = [p for p in folder.iterdir() if p.is_file()]
    whole = {content_hash(bytes([number]) + bytes(1 << 22)) for number in range(7)}
    assert files and {content_hash(p) for p in files} <= whole
    store = IntermediateStore(folder)
    assert set(store.held()) <= set(files)
    assert store.clear() > 0 and not [p for p in folder.iterdir() if p.is_dir() and p.name != ".mlconverter"]
