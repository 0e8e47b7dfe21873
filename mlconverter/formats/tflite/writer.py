"""Writes plain data as a TFLite file: the counterpart of :mod:`mlconverter.formats.tflite.schema`.

Constants stand after the flatbuffer, each at an aligned offset that its ``Buffer`` table names. A flatbuffer cannot
address beyond 2 GB, what stands behind it can; and nothing is copied into the flatbuffer first.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import flatbuffers
import numpy as np

from mlconverter.errors import ConversionError
from mlconverter.formats.tflite.schema import MAGIC, OPTIONS, generated, names
from mlconverter.formats.tflite.structure import Array, Operator, SignatureDef, Subgraph, Tensor

ALIGNMENT = 64
"""Of constants in the file, in bytes; LiteRT asks for 16, and reads whole cache lines fastest."""

SCHEMA_VERSION = 3

_LARGEST_OLD_CODE = 127
"""Operators with a larger number do not fit into the field that old runtimes read."""

_UNKNOWN = 1 << 40
"""Stands for offsets and sizes until they are known; a default value would get no place in the flatbuffer."""


def options(op: str, **fields: Any) -> Any:
    """The options object of an operator with some fields set, ``None`` for an operator without options.

    Raises:
        ConversionError: it has no such field.
    """
    table = OPTIONS.get(op)
    if table is None:
        if fields:
            raise ConversionError(f"{op} has no options; {', '.join(fields)} cannot be set.")
        return None
    made = getattr(generated(), f"{table}OptionsT")()
    for name, value in fields.items():
        if not hasattr(made, name):
            raise ConversionError(f"{op} has no option '{name}'.")
        setattr(made, name, value)
    return made


def write(
    subgraph: Subgraph, buffers: Sequence[Array | Callable[[], Array]], signature: SignatureDef, description: str = "mlconverter"
) -> bytes:
    """A file with one subgraph and one signature.

    Args:
        subgraph: the graph; tensors refer to ``buffers`` by number, and 0 is "no data".
        buffers: the constants from number 1 on, in any memory layout, or functions that make them; each is made
            contiguous when its turn comes to be written, and let go again.
        signature: names of inputs and outputs.
        description: what wrote the file.
    """
    flat = bytearray(_pack(subgraph, len(buffers) + 1, signature, description))
    places = _places(flat)
    output = io.BytesIO()
    output.seek(_aligned(len(flat)))
    for place, buffer in zip(places[1:], buffers, strict=True):
        offset = output.seek(_aligned(output.tell()))
        output.write(memoryview(np.ascontiguousarray(buffer() if callable(buffer) else buffer).reshape(-1)).cast("B"))
        for at, value in zip(place, (offset, output.tell() - offset), strict=True):
            struct.pack_into("<Q", flat, at, value)
    output.seek(0)
    output.write(flat)
    return output.getvalue()


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _places(flat: bytearray) -> list[tuple[int, int]]:
    """Where in the flatbuffer the offset and the size of each buffer stand; the first buffer has neither."""
    schema = generated()
    root = schema.Model.GetRootAs(flat, 0)
    tables = [root.Buffers(i)._tab for i in range(root.BuffersLength())]
    return [(0, 0), *((t.Pos + t.Offset(6), t.Pos + t.Offset(8)) for t in tables[1:])]


def _pack(subgraph: Subgraph, buffers: int, signature: SignatureDef, description: str) -> bytes:
    schema = generated()
    codes: dict[tuple[str, int], int] = {}
    graph = schema.SubGraphT(
        tensors=[_tensor(t) for t in subgraph.tensors],
        inputs=list(subgraph.inputs),
        outputs=list(subgraph.outputs),
        operators=[_operator(o, codes.setdefault((o.op, o.version), len(codes))) for o in subgraph.operators],
        name=subgraph.name,
    )
    model = schema.ModelT(
        version=SCHEMA_VERSION,
        operatorCodes=[_code(op, version) for op, version in codes],
        subgraphs=[graph],
        description=description,
        buffers=[schema.BufferT(), *(schema.BufferT(offset=_UNKNOWN, size=_UNKNOWN) for _ in range(buffers - 1))],
        signatureDefs=[
            schema.SignatureDefT(
                inputs=_tensor_map(signature.inputs),
                outputs=_tensor_map(signature.outputs),
                signatureKey=signature.key,
                subgraphIndex=signature.subgraph,
            )
        ],
    )
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=MAGIC)
    return bytes(builder.Output())


def _tensor_map(entries: Mapping[str, int]) -> list[Any]:
    return [generated().TensorMapT(name=name, tensorIndex=index) for name, index in entries.items()]


def _code(op: str, version: int) -> Any:
    number = _numbers("BuiltinOperator")[op]
    old = min(number, _LARGEST_OLD_CODE)
    return generated().OperatorCodeT(deprecatedBuiltinCode=old, version=version, builtinCode=number)


def _tensor(tensor: Tensor) -> Any:
    return generated().TensorT(
        shape=list(tensor.shape),
        type=_numbers("TensorType")[tensor.dtype.upper()],
        buffer=tensor.buffer,
        name=tensor.name,
        shapeSignature=None if tensor.shape_signature is None else list(tensor.shape_signature),
        hasRank=True,
    )


def _operator(operator: Operator, code: int) -> Any:
    kind = None if operator.options is None else type(operator.options).__name__.removesuffix("T")
    return generated().OperatorT(
        opcodeIndex=code,
        inputs=list(operator.inputs),
        outputs=list(operator.outputs),
        builtinOptionsType=_numbers("BuiltinOptions")[kind] if kind else 0,
        builtinOptions=operator.options,
    )


@cache
def _numbers(enum: str) -> dict[str, int]:
    return {name: number for number, name in names(enum).items()}
