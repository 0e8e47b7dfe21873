"""One model in every direction: each file and module, converted to each other format and compared with what it came from.

python examples/every_direction.py
"""

import time
from pathlib import Path

from real_models import face_detection
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from mlconverter import Converter, MissingDependencyError

FOLDER = Path("build/demo")


def directions(source: Path, folder: Path) -> Table:
    """A row for each direction: seconds, size of the file, largest difference, verdict.

    Args:
        source: a TFLite file.
        folder: where the files go.
    """
    table = Table(title=f"{source.name}: every direction", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("from → to", no_wrap=True)
    for column in ("seconds", "file size", "largest\ndifference"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    origin = Converter(model_path=source)
    onnx_file = origin.save(folder / "every.onnx")
    module = origin.to_torch()
    sources = {"TFLite": source, "ONNX": onnx_file, "PyTorch": module}
    for name, given in sources.items():
        for target, file in (("ONNX", "onnx"), ("TFLite", "tflite"), ("PyTorch", "pt"), ("TensorRT", "engine")):
            if target == name:
                continue
            converter, start = Converter(given), time.perf_counter()
            try:
                path = converter.save(folder / f"{name.lower()}_to.{file}")
            except MissingDependencyError as error:
                table.add_row(f"{name} → {target}", "", "", "", f"not installed: extra {error.extra}")
                continue
            seconds = time.perf_counter() - start
            step = converter.report.steps[-1]
            worst = step.verification.worst if step.verification else None
            difference = "" if worst is None else f"{worst.max_abs_error:.1e}"
            table.add_row(f"{name} → {target}", f"{seconds:.2f}", decimal(path.stat().st_size), difference, step.verdict)
    return table


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    Console().print(directions(face_detection(), FOLDER))
