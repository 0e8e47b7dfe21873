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
from mlconverter.formats.tflite.metadata import About, attach
from mlconverter.formats.tflite.schema import MAGIC, OPTIONS, generated, names
from mlconverter.formats.tflite.structure import Array, Extent, Model, Operator, SignatureDef, Subgraph, Tensor
from mlconverter.signature import Quantization

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
    subgraphs: Sequence[Subgraph],
    buffers: Sequence[Array | Callable[[], Array]],
    signature: SignatureDef,
    about: About | None = None,
) -> Model:
    """A file with one signature, as reading it gives it back.

    Args:
        subgraphs: the first is the model; tensors refer to ``buffers`` by number, and 0 is "no data".
        buffers: the constants from number 1 on, in any memory layout, or functions that make them, called when their turn
            comes to be written. Each is as large as the tensors that refer to it.
        signature: names of inputs and outputs.
        about: what the file says of itself. Its metadata stand within the flatbuffer, where their readers look for them.

    Raises:
        ConversionError: a constant does not fit its tensor.
    """
    about = about or About()
    flat = bytearray(_pack(subgraphs, len(buffers) + 1, signature, about))
    extents, end = _extents(subgraphs, len(buffers), len(flat))
    places, inner = _places(flat, len(buffers))
    for place, extent in zip(places, extents, strict=True):
        for at, value in zip(place, (extent.offset, extent.length), strict=True):
            struct.pack_into("<Q", flat, at, value)
    output = io.BytesIO()
    output.write(flat)
    if end > len(flat):
        output.seek(end - 1)
        output.write(b"\0")
    with output.getbuffer() as memory:
        for number, (buffer, extent) in enumerate(zip(buffers, extents, strict=True), 1):
            _put(memory, extent, buffer() if callable(buffer) else buffer, number)
    if about.files:
        attach(output, about.files)
    return Model(
        data=output.getvalue(),  # the same memory, not a copy of it
        version=SCHEMA_VERSION,
        description=about.description,
        subgraphs=tuple(subgraphs),
        buffers=(Extent(0, 0), *extents, *inner),
        signatures=(signature,),
        metadata={name: number for number, name in enumerate(about.entries, len(buffers) + 1)},
    )


def _extents(subgraphs: Sequence[Subgraph], count: int, start: int) -> tuple[list[Extent], int]:
    """Where each constant comes to stand, and where the file ends."""
    sizes = {t.buffer: t.size * np.dtype(t.dtype).itemsize for s in subgraphs for t in s.tensors if t.buffer}
    extents, end = [], start
    for number in range(1, count + 1):
        offset = -(-end // ALIGNMENT) * ALIGNMENT
        end = offset + sizes[number]
        extents.append(Extent(offset, sizes[number]))
    return extents, end


def _put(memory: memoryview, extent: Extent, array: Array, number: int) -> None:
    """A constant into its place; its axes are brought into order on the way."""
    if array.nbytes != extent.length:
        raise ConversionError(f"Buffer {number} has {array.nbytes} bytes, its tensor {extent.length}.")
    place = np.frombuffer(memory, array.dtype, array.size, extent.offset).reshape(array.shape)
    place[...] = array


def _places(flat: bytearray, count: int) -> tuple[list[tuple[int, int]], list[Extent]]:
    """Where in the flatbuffer the offset and the size of each constant stand, and where the data of the other buffers."""
    schema = generated()
    root = schema.Model.GetRootAs(flat, 0)
    tables = [root.Buffers(i) for i in range(1, root.BuffersLength())]
    places = [(t._tab.Pos + t._tab.Offset(6), t._tab.Pos + t._tab.Offset(8)) for t in tables[:count]]
    lengths = [t.DataLength() for t in tables[count:]]
    starts = [t._tab.Vector(t._tab.Offset(4)) if n else 0 for t, n in zip(tables[count:], lengths, strict=True)]
    return places, list(map(Extent, starts, lengths))


def _pack(subgraphs: Sequence[Subgraph], buffers: int, signature: SignatureDef, about: About) -> bytes:
    schema = generated()
    codes: dict[tuple[str, bool, int], int] = {}
    graphs = [
        schema.SubGraphT(
            tensors=[_tensor(t) for t in subgraph.tensors],
            inputs=list(subgraph.inputs),
            outputs=list(subgraph.outputs),
            operators=[_operator(o, codes.setdefault((o.op, o.custom, o.version), len(codes))) for o in subgraph.operators],
            name=subgraph.name,
        )
        for subgraph in subgraphs
    ]
    model = schema.ModelT(
        version=SCHEMA_VERSION,
        operatorCodes=[_code(*code) for code in codes],
        subgraphs=graphs,
        description=about.description,
        buffers=[
            schema.BufferT(),
            *(schema.BufferT(offset=_UNKNOWN, size=_UNKNOWN) for _ in range(buffers - 1)),
            *(schema.BufferT(data=np.frombuffer(content, np.uint8)) for content in about.entries.values()),
        ],
        metadata=[schema.MetadataT(name=name, buffer=number) for number, name in enumerate(about.entries, buffers)],
        signatureDefs=[
            schema.SignatureDefT(
                inputs=_tensor_map(signature.inputs),
                outputs=_tensor_map(signature.outputs),
                signatureKey=signature.key,
                subgraphIndex=signature.subgraph,
            )
        ],
    )
    return packed(model)


def packed(model: Any) -> bytes:
    """A model of the schema's objects as a flatbuffer."""
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=MAGIC)
    return bytes(builder.Output())


def _tensor_map(entries: Mapping[str, int]) -> list[Any]:
    return [generated().TensorMapT(name=name, tensorIndex=index) for name, index in entries.items()]


def _code(op: str, custom: bool, version: int) -> Any:
    number = _numbers("BuiltinOperator")["CUSTOM" if custom else op]
    old = min(number, _LARGEST_OLD_CODE)
    code = op if custom else None
    return generated().OperatorCodeT(deprecatedBuiltinCode=old, customCode=code, version=version, builtinCode=number)


def _tensor(tensor: Tensor) -> Any:
    return generated().TensorT(
        shape=list(tensor.shape),
        type=_numbers("TensorType")[tensor.dtype.upper()],
        buffer=tensor.buffer,
        name=tensor.name,
        shapeSignature=None if tensor.shape_signature is None else list(tensor.shape_signature),
        hasRank=True,
        quantization=_quantization(tensor.quantization),
    )


def _quantization(quantization: Quantization | None) -> Any:
    if quantization is None:
        return None
    return generated().QuantizationParametersT(
        scale=list(quantization.scale),
        zeroPoint=list(quantization.zero_point),
        quantizedDimension=quantization.axis or 0,
    )


def _operator(operator: Operator, code: int) -> Any:
    kind = None if operator.options is None else type(operator.options).__name__.removesuffix("T")
    return generated().OperatorT(
        opcodeIndex=code,
        inputs=list(operator.inputs),
        outputs=list(operator.outputs),
        builtinOptionsType=_numbers("BuiltinOptions")[kind] if kind else 0,
        builtinOptions=operator.options,
        customOptions=np.frombuffer(operator.custom_options, np.uint8) if operator.custom else None,
    )


@cache
def _numbers(enum: str) -> dict[str, int]:
    return {name: number for number, name in names(enum).items()}
