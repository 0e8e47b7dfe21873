"""The networks that Keras brings, with random weights and sensible statistics, as TFLite files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlconverter.cache import atomic_write
from tests.tf.build import converted, vary
from tests.tf.entry import Lazy, Mode, keras, tf
from tests.tf.files import folder, reason_of
from tests.tf.workers import one_by_one

applications = Lazy("keras.applications")

MODES: tuple[Mode, ...] = ("float", "int8")

LEARNT_FROM, CALIBRATED_BY = 16, 8
"""Photographs from which statistics and ranges are taken."""


@dataclass(frozen=True)
class Network:
    """One of them.

    Attributes:
        name: its name in ``keras.applications``.
        size: rows and columns of its input.
        low: what black is.
        high: what white is.
    """

    name: str
    size: int = 160
    low: float = -1.0
    high: float = 1.0

    def photographs(self, count: int, seed: int) -> np.ndarray:
        """Random parts of two photographs."""
        from PIL import Image
        from sklearn.datasets import load_sample_images

        rng = np.random.default_rng(seed)
        parts = []
        for number in range(count):
            whole = load_sample_images().images[number % 2]
            side = int(rng.integers(200, 427))
            top, left = (int(rng.integers(0, limit - side + 1)) for limit in whole.shape[:2])
            part = Image.fromarray(whole[top : top + side, left : left + side]).resize((self.size, self.size))
            parts.append(np.asarray(part, np.float32) / 255 * (self.high - self.low) + self.low)
        return np.stack(parts)


NETWORKS = {
    network.name: network
    for network in (
        Network("MobileNet"),
        Network("MobileNetV2"),
        Network("MobileNetV3Small", low=0, high=255),
        Network("EfficientNetB0", low=0, high=255),
        Network("EfficientNetV2B0", low=0, high=255),
        Network("DenseNet121"),
        Network("ResNet50V2"),
        Network("InceptionV3"),
        Network("Xception"),
        Network("NASNetMobile"),
        Network("ConvNeXtTiny", low=0, high=255),
    )
}


def path_of(name: str, mode: Mode) -> Path | None:
    """Where a network's file is kept; ``None`` where it is not there and nothing can make it."""
    place = folder(Path(__file__))
    return None if place is None else place / f"{name}.{mode}.tflite"


def build(names: Iterable[str]) -> Iterator[str]:
    """Make the files that are missing; gives the name of each network when its files are there."""
    return one_by_one(_build, names, lambda name: name)


def _build(name: str) -> str:
    paths = {mode: path_of(name, mode) for mode in MODES}
    missing = {mode: path for mode, path in paths.items() if path and not path.exists() and not reason_of(path).exists()}
    if not missing:
        return name
    network = NETWORKS[name]
    with tempfile.TemporaryDirectory() as saved:
        _save(network, saved)
        samples = [{"image": image[None]} for image in network.photographs(CALIBRATED_BY, seed=1)]
        for mode, path in missing.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                atomic_write(path, converted(saved, mode, samples))
            except Exception as error:
                atomic_write(reason_of(path), f"{type(error).__name__}: {error}"[:500].encode())
    return name


def _save(network: Network, place: str) -> None:
    keras.utils.set_random_seed(0)
    # Without the softmax, behind which a thousand classes are zero on a grid of 8 bits.
    shape = (network.size, network.size, 3)
    model = getattr(applications, network.name)(weights=None, input_shape=shape, classifier_activation=None)
    vary(model)
    _wake(model)
    _settle(model, network.photographs(LEARNT_FROM, seed=0))
    held: Any = tf.Module()
    held.variables_held = [variable.value for variable in model.variables]
    spec = tf.TensorSpec((None, network.size, network.size, 3), tf.float32, name="image")
    call = tf.function(lambda image: {"scores": model(image, training=False)}, autograph=False)
    tf.saved_model.save(held, place, signatures=call.get_concrete_function(spec))


def _wake(model: Any) -> None:
    """Random values for scales so small that what they scale would not matter."""
    rng = np.random.default_rng(1)
    for variable in model.weights:
        value = variable.numpy()
        if value.size and value.dtype.kind == "f" and 0 < np.abs(value).max() < 1e-4:
            variable.assign(rng.uniform(0.1, 0.4, value.shape).astype(value.dtype))


def _settle(model: Any, images: np.ndarray) -> None:
    """Statistics of batch normalisations as training would leave them."""
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    model(images, training=True)
