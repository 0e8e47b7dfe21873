"""Images that look like photographs to a network: smooth, with structure at every scale and correlated channels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

GRAIN = 0.02
"""Amplitude of independent noise an element: without it, neighbours could be swapped unseen."""

SHARED = 0.7
"""Part of an image that all its channels have in common."""

CONTRAST = 2.0
"""How far the mean of the octaves, which crowds around 1/2, is spread."""


def photograph(
    shape: tuple[int, ...], axes: tuple[int, int, int], rng: np.random.Generator, limit: int
) -> npt.NDArray[np.float32]:
    """A batch of random images in [0, 1].

    Args:
        shape: the tensor's shape, three or four axes.
        axes: its axes of height, width and channels; the one that is left is the batch.
        rng: where the randomness comes from.
        limit: elements to draw; a larger tensor repeats its images.
    """
    height, width, channels = (shape[a] for a in axes)
    batch_axes = tuple(a for a in range(len(shape)) if a not in axes)
    batch = shape[batch_axes[0]] if batch_axes else 1
    drawn = max(1, min(batch, limit // max(1, height * width * channels))) if batch else 0
    common = smooth_field(drawn, height, width, rng)[:, None]
    own = smooth_field(drawn * channels, height, width, rng).reshape(drawn, channels, height, width)
    image = SHARED * common + (1 - SHARED) * own
    image += GRAIN * (rng.random(image.shape, dtype=np.float32) - np.float32(0.5))
    image = np.clip((image - 0.5) * CONTRAST + 0.5, 0.0, 1.0)
    if drawn < batch:
        image = np.resize(image, (batch, channels, height, width))
    if not batch_axes:
        image = image[0]
    current = (*batch_axes, axes[2], axes[0], axes[1])
    return np.array(image.transpose(np.argsort(current)), dtype=np.float32, order="C")


def smooth_field(count: int, height: int, width: int, rng: np.random.Generator) -> Floats:
    """Fields of value noise in [0, 1]: octaves of random grids, each twice as fine and half as strong as the last.

    Args:
        count: how many fields.
        height: rows of each.
        width: columns of each.
        rng: where the randomness comes from.

    Returns:
        Array ``(count, height, width)``.
    """
    field = np.zeros((count, height, width), dtype=np.float32)
    strength, total, cells = 1.0, 0.0, 2
    while cells == 2 or cells <= min(64, max(height, width)):
        grid = rng.random((count, cells + 1, cells + 1), dtype=np.float32)
        field += np.float32(strength) * (_interpolation(height, cells) @ grid @ _interpolation(width, cells).T)
        total += strength
        strength, cells = strength / 2, cells * 2
    return field / np.float32(total)


def _interpolation(size: int, cells: int) -> Floats:
    """Matrix ``(size, cells + 1)`` from grid points to elements; smoothstep, so that the grid does not show."""
    place = (np.arange(size) + 0.5) * cells / max(size, 1)
    left = np.minimum(place.astype(np.int64), cells - 1)
    part = place - left
    part = part * part * (3 - 2 * part)
    matrix = np.zeros((size, cells + 1), dtype=np.float32)
    rows = np.arange(size)
    matrix[rows, left] = 1 - part
    matrix[rows, left + 1] = part
    return matrix
