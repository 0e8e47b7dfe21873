"""Reads a TFLite flatbuffer into plain data. With :mod:`mlconverter.formats.tflite.writer` all that knows flatbuffers.

The generated accessors trust every offset they find. So that a damaged file is refused rather than read for ever,
the number of tables is limited by the size of the file, every index is checked against what it points into, and
whatever the accessors raise becomes a :class:`CorruptModelError`.
"""

from __future__ import annotations

import importlib
import math
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from mlconverter.errors import CorruptModelError
from mlconverter.formats.tflite.structure import (
    Array,
    Extent,
    Model,
    Operator,
    SignatureDef,
    SparseDim,
    Sparsity,
    Subgraph,
    Tensor,
)
from mlconverter.signature import Quantization

MAGIC = b"TFL3"
"""File identifier at byte 4."""

OPTIONS = {
    "ADD": "Add",
    "ARG_MAX": "ArgMax",
    "ARG_MIN": "ArgMin",
    "ASSIGN_VARIABLE": "AssignVariable",
    "AVERAGE_POOL_2D": "Pool2D",
    "BATCH_MATMUL": "BatchMatMul",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTM",
    "BIDIRECTIONAL_SEQUENCE_RNN": "BidirectionalSequenceRNN",
    "BUCKETIZE": "Bucketize",
    "CALL_ONCE": "CallOnce",
    "CONCATENATION": "Concatenation",
    "CONV_2D": "Conv2D",
    "CONV_3D": "Conv3D",
    "CONV_3D_TRANSPOSE": "Conv3D",
    "CUMSUM": "Cumsum",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "DEPTH_TO_SPACE": "DepthToSpace",
    "DIV": "Div",
    "EMBEDDING_LOOKUP_SPARSE": "EmbeddingLookupSparse",
    "FAKE_QUANT": "FakeQuant",
    "FULLY_CONNECTED": "FullyConnected",
    "GATHER": "Gather",
    "GELU": "Gelu",
    "IF": "If",
    "L2_NORMALIZATION": "L2Norm",
    "L2_POOL_2D": "Pool2D",
    "LEAKY_RELU": "LeakyRelu",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalization",
    "LSTM": "LSTM",
    "MAX_POOL_2D": "Pool2D",
    "MEAN": "Reducer",
    "MIRROR_PAD": "MirrorPad",
    "MUL": "Mul",
    "ONE_HOT": "OneHot",
    "PACK": "Pack",
    "REDUCE_ALL": "Reducer",
    "REDUCE_ANY": "Reducer",
    "REDUCE_MAX": "Reducer",
    "REDUCE_MIN": "Reducer",
    "REDUCE_PROD": "Reducer",
    "REDUCE_WINDOW": "ReduceWindow",
    "RESHAPE": "Reshape",
    "RESIZE_BILINEAR": "ResizeBilinear",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighbor",
    "REVERSE_SEQUENCE": "ReverseSequence",
    "RNN": "RNN",
    "SHAPE": "Shape",
    "SOFTMAX": "Softmax",
    "SPACE_TO_DEPTH": "SpaceToDepth",
    "SPLIT": "Split",
    "SPLIT_V": "SplitV",
    "SQUEEZE": "Squeeze",
    "STABLEHLO_BROADCAST_IN_DIM": "StablehloBroadcastInDim",
    "STABLEHLO_COMPARE": "StablehloCompare",
    "STABLEHLO_COMPOSITE": "StableHLOComposite",
    "STABLEHLO_CONCATENATE": "StablehloConcatenate",
    "STABLEHLO_CONVOLUTION": "StablehloConvolution",
    "STABLEHLO_DOT_GENERAL": "StablehloDotGeneral",
    "STABLEHLO_DYNAMIC_SLICE": "StablehloDynamicSlice",
    "STABLEHLO_GATHER": "StablehloGather",
    "STABLEHLO_IOTA": "StablehloIota",
    "STABLEHLO_PAD": "StablehloPad",
    "STABLEHLO_REDUCE": "StablehloReduce",
    "STABLEHLO_REDUCE_WINDOW": "StablehloReduceWindow",
    "STABLEHLO_SCATTER": "StablehloScatter",
    "STABLEHLO_SLICE": "StablehloSlice",
    "STABLEHLO_SORT": "StablehloSort",
    "STABLEHLO_TRANSPOSE": "StablehloTranspose",
    "STRIDED_SLICE": "StridedSlice",
    "SUB": "Sub",
    "SUM": "Reducer",
    "SVDF": "SVDF",
    "TRANSPOSE_CONV": "TransposeConv",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN",
    "UNIQUE": "Unique",
    "UNPACK": "Unpack",
    "VAR_HANDLE": "VarHandle",
    "WHILE": "While",
}
"""Which options table an operator reads, for operators that have options. Another table than that counts as absent."""

MOST_ELEMENTS = 1 << 48
"""More than any tensor has; a damaged file may claim them."""

_ACCESS_ERRORS = (struct.error, ValueError, IndexError, TypeError, KeyError, AttributeError, OverflowError, AssertionError)


def looks_like_tflite(data: Any) -> bool:
    """Whether bytes carry the identifier of a TFLite file."""
    return bytes(data[4:8]) == MAGIC


def load(data: Any) -> Model:
    """Read a file.

    Args:
        data: the bytes of the file, or anything with the buffer protocol (``mmap`` …).

    Raises:
        CorruptModelError: the bytes are no TFLite file, or a damaged one.
    """
    if not looks_like_tflite(data):
        raise CorruptModelError("The data are not a TFLite model: the identifier 'TFL3' is missing at byte 4.")
    try:
        return _Reader(data).model()
    except _ACCESS_ERRORS as error:
        raise CorruptModelError(f"The TFLite file is damaged or cut off ({len(data)} bytes): {error}") from error


@cache
def generated() -> Any:
    """The classes generated from TFLite's schema; importing them takes a noticeable time, so it happens on first use."""
    return importlib.import_module("ai_edge_litert.schema_py_generated")


@cache
def names(enum: str) -> dict[int, str]:
    """The names of an enumeration of the schema by number."""
    return {v: k for k, v in vars(getattr(generated(), enum)).items() if not k.startswith("_")}


class _Reader:
    def __init__(self, data: Any) -> None:
        self._data = data
        self._size = len(data)
        self._tables_left = self._size // 4

    def model(self) -> Model:
        root = generated().Model.GetRootAs(self._data, 0)
        self._buffers = tuple(map(self._extent, self._each(root.BuffersLength(), root.Buffers)))
        self._codes = [self._code(c) for c in self._each(root.OperatorCodesLength(), root.OperatorCodes)]
        subgraphs = tuple(map(self._subgraph, self._each(root.SubgraphsLength(), root.Subgraphs)))
        if not subgraphs:
            raise CorruptModelError("The TFLite file has no subgraph.")
        signatures = tuple(self._signature(s, subgraphs) for s in self._each(root.SignatureDefsLength(), root.SignatureDefs))
        metadata = {_text(m.Name()): int(m.Buffer()) for m in self._each(root.MetadataLength(), root.Metadata)}
        return Model(
            data=self._data,
            version=root.Version(),
            description=_text(root.Description()),
            subgraphs=subgraphs,
            buffers=self._buffers,
            signatures=signatures,
            metadata=metadata,
        )

    def _each(self, length: int, get: Callable[[int], Any]) -> Iterator[Any]:
        # Every table takes at least four bytes, so more tables than that are a sign of offsets that run in circles.
        self._tables_left -= length
        if self._tables_left < 0:
            raise CorruptModelError("The TFLite file is damaged: it counts more tables than it can hold.")
        return map(get, range(length))

    def _extent(self, buffer: Any) -> Extent:
        # Offset and size are set where the data stand after the flatbuffer, which cannot address beyond 2 GB itself.
        offset, size = buffer.Offset(), buffer.Size()
        if offset > 1:
            extent = Extent(offset, size)
        elif buffer.DataLength():
            tab = buffer._tab
            extent = Extent(tab.Vector(tab.Offset(4)), buffer.DataLength())
        else:
            return Extent(0, 0)
        if extent.offset + extent.length > self._size:
            raise CorruptModelError(
                f"The TFLite file is cut off: a buffer ends at byte {extent.offset + extent.length} of {self._size}."
            )
        return extent

    def _code(self, code: Any) -> tuple[str, bool, int]:
        # Files older than builtin_code have the number in the deprecated field, newer ones a placeholder there.
        known = names("BuiltinOperator")
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = known.get(number, f"BUILTIN_{number}")
        if name == "CUSTOM":
            return _text(code.CustomCode()), True, code.Version()
        return name, False, code.Version()

    def _subgraph(self, graph: Any) -> Subgraph:
        tensors = tuple(self._tensor(i, t) for i, t in enumerate(self._each(graph.TensorsLength(), graph.Tensors)))
        operators = tuple(
            self._operator(i, o, len(tensors)) for i, o in enumerate(self._each(graph.OperatorsLength(), graph.Operators))
        )
        return Subgraph(
            name=_text(graph.Name()),
            tensors=tensors,
            operators=operators,
            inputs=_indices(graph.InputsAsNumpy(), len(tensors)),
            outputs=_indices(graph.OutputsAsNumpy(), len(tensors)),
        )

    def _tensor(self, index: int, tensor: Any) -> Tensor:
        number = tensor.Type()
        name = _text(tensor.Name())
        shape = _ints(tensor.ShapeAsNumpy())
        if any(d < 0 for d in shape):
            # A free dimension stands in the shape itself where a tool did not know of signatures.
            signature: tuple[int, ...] | None = shape
            shape = tuple(max(d, 1) for d in shape)
        else:
            signature = _ints(tensor.ShapeSignatureAsNumpy()) or None
        if signature is not None and len(signature) != len(shape):
            raise CorruptModelError(f"Tensor '{name}' has shape {list(shape)} and shape signature {list(signature)}.")
        if math.prod(d for d in shape if d) > MOST_ELEMENTS:
            raise CorruptModelError(f"Tensor '{name}' of shape {list(shape)} is larger than any memory.")
        buffer = tensor.Buffer()
        if buffer >= len(self._buffers):
            raise CorruptModelError(f"Tensor '{name}' refers to buffer {buffer} of {len(self._buffers)}.")
        quantization, details = self._quantization(tensor.Quantization())
        return Tensor(
            index=index,
            name=name,
            shape=shape,
            shape_signature=signature,
            dtype=names("TensorType").get(number, f"type_{number}").lower(),
            buffer=buffer,
            quantization=quantization,
            quantization_details=details,
            sparsity=self._sparsity(tensor.Sparsity()),
            is_variable=bool(tensor.IsVariable()),
        )

    def _quantization(self, table: Any) -> tuple[Quantization | None, str | None]:
        if table is None:
            return None, None
        kind = table.DetailsType()
        details = names("QuantizationDetails").get(kind, f"details_{kind}") if kind else None
        scale = table.ScaleAsNumpy()
        if isinstance(scale, int) or not len(scale):
            return None, details
        zero_point = _ints(table.ZeroPointAsNumpy())
        per_channel = len(scale) > 1
        return (
            Quantization(
                scale=tuple(float(s) for s in scale),
                zero_point=zero_point if len(zero_point) == len(scale) else (zero_point or (0,))[:1] * len(scale),
                axis=table.QuantizedDimension() if per_channel else None,
            ),
            details,
        )

    def _sparsity(self, table: Any) -> Sparsity | None:
        if table is None:
            return None
        dims = tuple(map(self._sparse_dim, self._each(table.DimMetadataLength(), table.DimMetadata)))
        order = _ints(table.TraversalOrderAsNumpy())
        if not dims:
            return None
        if len(order) != len(dims):
            raise CorruptModelError(f"A sparse tensor traverses {len(order)} dimensions and describes {len(dims)}.")
        return Sparsity(order, _ints(table.BlockMapAsNumpy()), dims)

    def _sparse_dim(self, dim: Any) -> SparseDim:
        if dim.Format() == generated().DimensionType.DENSE:
            empty: Array = np.zeros(0, np.int64)
            return SparseDim(int(dim.DenseSize()), empty, empty)
        return SparseDim(
            None,
            _index_vector(dim.ArraySegmentsType(), dim.ArraySegments()),
            _index_vector(dim.ArrayIndicesType(), dim.ArrayIndices()),
        )

    def _operator(self, index: int, operator: Any, tensors: int) -> Operator:
        op, custom, version = self._codes[operator.OpcodeIndex()]
        return Operator(
            index=index,
            op=op,
            custom=custom,
            version=version,
            inputs=_indices(operator.InputsAsNumpy(), tensors, optional=True),
            outputs=_indices(operator.OutputsAsNumpy(), tensors),
            options=None if custom else _options(op, operator),
            custom_options=self._custom_options(operator) if custom else b"",
            intermediates=_indices(operator.IntermediatesAsNumpy(), tensors),
        )

    def _custom_options(self, operator: Any) -> bytes:
        offset, size = operator.LargeCustomOptionsOffset(), operator.LargeCustomOptionsSize()
        if offset > 1:
            return bytes(self._data[offset : offset + size])
        options = operator.CustomOptionsAsNumpy()
        return b"" if isinstance(options, int) else options.tobytes()

    def _signature(self, table: Any, subgraphs: tuple[Subgraph, ...]) -> SignatureDef:
        number = table.SubgraphIndex()
        tensors = len(subgraphs[number].tensors)
        inputs = self._tensor_map(self._each(table.InputsLength(), table.Inputs), tensors)
        outputs = self._tensor_map(self._each(table.OutputsLength(), table.Outputs), tensors)
        return SignatureDef(_text(table.SignatureKey()), number, inputs, outputs)

    def _tensor_map(self, entries: Iterator[Any], tensors: int) -> dict[str, int]:
        return {_text(e.Name()): _index(e.TensorIndex(), tensors) for e in entries}


def _options(op: str, operator: Any) -> Any:
    expected = OPTIONS.get(op)
    schema = generated()
    number, second = operator.BuiltinOptionsType(), operator.BuiltinOptions2Type()
    # Operators that came after the first union of options was full have theirs in a second one.
    if second and expected in (None, names("BuiltinOptions2").get(second, "").removesuffix("Options")):
        return schema.BuiltinOptions2Creator(second, operator.BuiltinOptions2())
    if number and expected in (None, names("BuiltinOptions").get(number, "").removesuffix("Options")):
        return schema.BuiltinOptionsCreator(number, operator.BuiltinOptions())
    return None if expected is None else getattr(schema, f"{expected}OptionsT")()


def _index_vector(kind: int, table: Any) -> Array:
    name = names("SparseIndexVector").get(kind, "NONE")
    if name == "NONE" or table is None:
        raise CorruptModelError("A compressed dimension of a sparse tensor has no segments or no indices.")
    vector = getattr(generated(), name)()
    vector.Init(table.Bytes, table.Pos)
    values = vector.ValuesAsNumpy()
    return np.zeros(0, np.int64) if isinstance(values, int) else values.astype(np.int64)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def _ints(values: Any) -> tuple[int, ...]:
    # The generated accessors give 0 for a vector that is not there.
    return () if isinstance(values, int) else tuple(values.tolist())


def _indices(values: Any, limit: int, *, optional: bool = False) -> tuple[int, ...]:
    return tuple(i if optional and i == -1 else _index(i, limit) for i in _ints(values))


def _index(value: int, limit: int) -> int:
    if not 0 <= value < limit:
        raise CorruptModelError(f"The TFLite file is damaged: it refers to tensor {value} of {limit}.")
    return int(value)
