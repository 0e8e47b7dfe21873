"""The main job on a real model, step by step: TFLite → ONNX, TFLite → PyTorch, training, and back into the same file.

A network that separates people from their background learns to find handwriting on real photographs. What is written
back is measured where it will run, under LiteRT. The files are left in build/demo.

    python examples/demo.py
"""

import time
from pathlib import Path

import finetune_tflite
import numpy as np
from every_direction import directions
from handwriting import TEST, scenes
from PIL import Image
from real_models import selfie_segmentation
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from mlconverter import Converter, VerificationResult

FOLDER = Path("build/demo")
TESTED = 16


def main() -> None:
    console = Console()
    FOLDER.mkdir(parents=True, exist_ok=True)
    source = selfie_segmentation()
    table = Table(title=f"{source.name}: trained in PyTorch, back in its file", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("step", no_wrap=True)
    for column in ("seconds", "file size", "largest\ndifference"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    with console.status("reading the model") as status:

        def row(name: str, start: float, size: str, verification: VerificationResult | None, verdict: str) -> None:
            worst = verification.worst if verification else None
            difference = "" if worst is None else f"{worst.max_abs_error:.1e}"
            table.add_row(name, f"{time.perf_counter() - start:.2f}", size, difference, verdict)
            status.update(f"after: {name}")

        start = time.perf_counter()
        converter = Converter(model_path=source)
        before = converter.to_tflite()
        row("read the file", start, decimal(len(before)), None, "")

        start = time.perf_counter()
        onnx_file = converter.save(FOLDER / "model.onnx")
        row("TFLite → ONNX", start, decimal(onnx_file.stat().st_size), *last(converter))

        start = time.perf_counter()
        model = converter.to_torch()
        row("TFLite → PyTorch", start, "", *last(converter))

        start = time.perf_counter()
        untouched = converter.to_origin_type(model)
        verification, _ = last(converter)
        identical = bytes(untouched) == bytes(before)
        row(
            "untouched, back again",
            start,
            decimal(len(untouched)),
            verification,
            "the identical bytes" if identical else "CHANGED",
        )

        start = time.perf_counter()
        first = finetune_tflite.test_loss(model)
        finetune_tflite.train(model)
        trained = finetune_tflite.test_loss(model)
        steps = finetune_tflite.STEPS
        row(f"training, {steps} steps", start, "", None, f"test loss {first:.3f} → {trained:.3f}")

        start = time.perf_counter()
        after = converter.to_origin_type(model)
        after.save(FOLDER / "tuned.tflite")
        verification, verdict = last(converter)
        inside, outside = changed_bytes(before, after)
        where = f"{inside:,} bytes of weights differ, {outside} others"
        row("PyTorch → same file", start, decimal(len(after)), verification, f"{verdict}\n{where}")

        start = time.perf_counter()
        pictures, masks = scenes(TESTED, TEST, seed=1_000_000)
        seen_before, seen_after = predictions(before, pictures), predictions(after, pictures)
        loss_before, loss_after = loss(seen_before, masks), loss(seen_after, masks)
        losses = f"test loss {loss_before:.3f} → {loss_after:.3f}"
        overlaps = f"overlap {overlap(seen_before, masks):.2f} → {overlap(seen_after, masks):.2f}"
        row("both files in LiteRT", start, "", None, f"{losses}\n{overlaps}")
    console.print(table)
    console.print(f"way back: {converter.report.way_back}")
    with console.status("every direction"):
        console.print(directions(source, FOLDER))
    draw(FOLDER / "before_after.png", pictures, seen_before, seen_after)
    console.print(f"{FOLDER}: model.onnx, tuned.tflite, before_after.png (picture, found before, found after)")
    if not (identical and not outside and len(after) == len(before) and loss_after < loss_before / 5):
        raise SystemExit("The demo did not come out as promised.")


def last(converter: Converter) -> tuple[VerificationResult | None, str]:
    """How the latest step compares with the source, and the verdict."""
    step = converter.report.steps[-1]
    return step.verification, step.verdict


def changed_bytes(before, after) -> tuple[int, int]:
    """How many bytes of two files differ inside weights, and outside, which is the contract with the app."""
    differs = np.frombuffer(bytes(before), np.uint8) != np.frombuffer(bytes(after), np.uint8)
    weights = np.zeros(len(before), bool)
    for extent in before.structure.buffers:
        weights[extent.offset : extent.offset + extent.length] = True
    return int(np.count_nonzero(differs & weights)), int(np.count_nonzero(differs & ~weights))


def predictions(model, pictures: np.ndarray) -> np.ndarray:
    """What LiteRT makes of pictures with a TFLite model, one by one, as the file has it."""
    (name,), (result,) = model.signature.input_names, model.signature.output_names
    with model.runner() as runner:
        return np.concatenate([runner.run({name: picture[None]})[result] for picture in pictures])


def loss(prediction: np.ndarray, mask: np.ndarray) -> float:
    """Binary cross-entropy, as in training."""
    p = prediction.clip(1e-6, 1 - 1e-6)
    return float(-(mask * np.log(p) + (1 - mask) * np.log(1 - p)).mean())


def overlap(prediction: np.ndarray, mask: np.ndarray) -> float:
    """Intersection over union of what was found and what is there."""
    found, there = prediction > 0.5, mask > 0.5
    return float((found & there).sum() / (found | there).sum())


def draw(path: Path, pictures: np.ndarray, *masks: np.ndarray, rows: int = 4) -> None:
    """A picture a row, beside it what each file found."""
    columns = [pictures[:rows], *(np.repeat(m[:rows], 3, axis=3) for m in masks)]
    sheet = np.concatenate([np.concatenate(list(column)) for column in columns], axis=1)
    Image.fromarray((sheet * 255).astype(np.uint8)).save(path)


if __name__ == "__main__":
    main()
