"""Where the examples get their models from: the same packages as the tests, fetched once into the user's cache folder."""

import sys
from pathlib import Path

# Examples are run as files (python examples/demo.py): what stands beside their folder is not on the path by itself.
sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest

from tests import zoo


def selfie_segmentation() -> Path:
    """A trained network that separates people from what is behind them: 250 kB, half-precision weights, Apache-2.0."""
    return _model("selfie_segmentation_landscape.tflite")


def face_detection() -> Path:
    """A trained network that finds faces: 230 kB, half-precision weights, Apache-2.0."""
    return _model("face_detection_short_range.tflite")


def _model(name: str) -> Path:
    try:
        return zoo.model("mediapipe", name)
    except (pytest.skip.Exception, pytest.fail.Exception) as reason:  # how the tests say that there is no network
        raise SystemExit(str(reason)) from None
