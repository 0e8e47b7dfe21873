"""Learning curves and confusion matrices, as files or in a notebook."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from mlconverter.cache import atomic_write
from mlconverter.errors import MissingDependencyError


class Picture:
    """What can be drawn: notebooks show it where it stands last in a cell."""

    def _draw(self, figure: Any) -> None:
        raise NotImplementedError

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a PNG file."""
        picture = self._repr_png_()
        atomic_write(Path(path), lambda temporary: temporary.write_bytes(picture))

    def _repr_png_(self) -> bytes:
        try:
            from matplotlib.figure import Figure  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise MissingDependencyError("matplotlib", "train", "A plot") from error
        figure, picture = Figure(figsize=(8, 4.5), layout="constrained"), io.BytesIO()  # no pyplot: no window, no state
        self._draw(figure)
        figure.savefig(picture, format="png", dpi=120)
        return picture.getvalue()


class History(list[dict[str, float]], Picture):
    """One dict of numbers an epoch; ``plot(path)`` draws the learning curves."""

    def _draw(self, figure: Any) -> None:
        names = [name for name in dict.fromkeys(key for row in self for key in row) if name != "epoch"]
        for place, losses in enumerate((True, False), 1):
            axes = figure.add_subplot(1, 2, place, xlabel="epoch", title="loss" if losses else "metrics")
            for name in [n for n in names if n.endswith("loss") == losses]:
                points = [(row["epoch"], row[name]) for row in self if name in row]
                axes.plot(*zip(*points, strict=True), marker=".", label=name)
                axes.legend()


class ConfusionMatrix(Picture):
    """Counts by true class (rows) and given class (columns); ``plot(path)`` draws them.

    Args:
        counts: a square array.
        labels: names of the classes.
    """

    def __init__(self, counts: Any, labels: list[str] | None = None) -> None:
        self.counts, self.labels = counts, labels

    def _draw(self, figure: Any) -> None:
        axes = figure.add_subplot(xlabel="given", ylabel="true")
        figure.colorbar(axes.imshow(self.counts, cmap="Blues"))
        names = self.labels or [str(number) for number in range(len(self.counts))]
        if len(names) <= 20:  # beyond that they overlap
            axes.set_xticks(range(len(names)), names, rotation=45)
            axes.set_yticks(range(len(names)), names)
            for (row, column), count in np.ndenumerate(self.counts):
                axes.text(
                    column, row, count, ha="center", va="center", color="white" if count > self.counts.max() / 2 else "black"
                )
