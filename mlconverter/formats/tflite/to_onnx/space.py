"""Moving elements between the axes of an image: depth, space and batch."""

from __future__ import annotations

from mlconverter.formats.tflite.layout import channels_first
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import needs_rank, translates

IMAGE = channels_first(4)


@translates("DEPTH_TO_SPACE", 1, 2, check=needs_rank(4))
def depth_to_space(b: Builder, op: Op, image: Operand) -> Stored:
    """DEPTH_TO_SPACE → DepthToSpace, depth-column-row."""
    return Stored(b.emit("DepthToSpace", b.ask(image, IMAGE), blocksize=op.options.blockSize, mode="DCR"), IMAGE)


@translates("SPACE_TO_DEPTH", 1, 2, check=needs_rank(4))
def space_to_depth(b: Builder, op: Op, image: Operand) -> Stored:
    """SPACE_TO_DEPTH → SpaceToDepth."""
    return Stored(b.emit("SpaceToDepth", b.ask(image, IMAGE), blocksize=op.options.blockSize), IMAGE)
