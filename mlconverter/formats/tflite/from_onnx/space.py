"""Operators that trade channels for positions."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.slicing import gathered
from mlconverter.formats.tflite.from_onnx.values import Runtime, Stored, Wire
from mlconverter.formats.tflite.layout import channels_last


@translates("DepthToSpace", 1, 11, 13, 28)
def depth_to_space(b: Builder, x: Runtime, *, blocksize: int, mode: str = "DCR") -> Stored:
    """DepthToSpace → DEPTH_TO_SPACE, behind a GATHER of the channels for mode CRD."""
    image = b.image(x)
    channels = image.dims[3]
    if channels is None:
        raise Refused("the number of channels is only known at run time")
    if mode == "CRD":
        image = gathered(b, image, np.arange(channels).reshape(-1, blocksize * blocksize).T.reshape(-1), 3)
    dims = (image.dims[0], *(_times(d, blocksize) for d in image.dims[1:3]), channels // blocksize**2)
    return Stored(_moved(b, "DEPTH_TO_SPACE", image, dims, blocksize), channels_last(4))


@translates("SpaceToDepth", 1, 13, 28)
def space_to_depth(b: Builder, x: Runtime, *, blocksize: int, mode: str = "DCR") -> Stored:
    """SpaceToDepth → SPACE_TO_DEPTH, before a GATHER of the channels for mode CRD."""
    image = b.image(x)
    channels = image.dims[3]
    if channels is None:
        raise Refused("the number of channels is only known at run time")
    dims = (image.dims[0], *(None if d is None else d // blocksize for d in image.dims[1:3]), channels * blocksize**2)
    y = _moved(b, "SPACE_TO_DEPTH", image, dims, blocksize)
    if mode == "CRD":
        y = gathered(b, y, np.arange(channels * blocksize**2).reshape(blocksize * blocksize, -1).T.reshape(-1), 3)
    return Stored(y, channels_last(4))


def _times(size: int | None, factor: int) -> int | None:
    return None if size is None else size * factor


def _moved(b: Builder, op: str, image: Wire, dims: tuple[int | None, ...], block: int) -> Wire:
    return b.move(op, image, dims=dims, blockSize=block)
