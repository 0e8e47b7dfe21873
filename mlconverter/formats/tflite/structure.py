"""A TFLite file as plain data: what :mod:`mlconverter.formats.tflite.schema` reads and the rest of the package uses.

Nothing here knows flatbuffers. Constant data are numpy views into the file: nothing is copied until somebody needs
another dtype or another memory order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mlconverter.errors import CorruptModelError
from mlconverter.signature import Quantization

Array = npt.NDArray[Any]

NUMPY_DTYPES = frozenset(
    "float32 float16 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool complex64 complex128".split()
)
"""The TFLite types that numpy stores element by element; the others (strings, 4-bit integers …) have no plain view."""


PACKED = {"int4": 4, "int2": 2}
"""Types of which a byte holds several elements, the first in its lowest bits, and how many bits each takes."""

WHOLE_DTYPES = frozenset(("int8", "uint8", "int16", "int32", "int64", *PACKED))
"""The types whose elements may stand for real numbers."""


@dataclass(frozen=True, eq=False)
class SparseDim:
    """How one traversed dimension of a sparse tensor is stored.

    Attributes:
        size: number of positions where the dimension is dense, ``None`` where it is compressed (CSR).
        segments: for compressed dimensions, where each parent's indices start and end.
        indices: for compressed dimensions, the positions that are there.
    """

    size: int | None
    segments: Array
    indices: Array


@dataclass(frozen=True)
class Sparsity:
    """A block-sparse format: dimensions in the order in which they are traversed, blocks last.

    Attributes:
        traversal_order: which dimension is traversed when; numbers from the tensor's rank on are block dimensions.
        block_map: the tensor's dimension that each block dimension subdivides.
        dims: one entry for each traversed dimension.
    """

    traversal_order: tuple[int, ...]
    block_map: tuple[int, ...]
    dims: tuple[SparseDim, ...]


@dataclass(frozen=True)
class Tensor:
    """One tensor of a subgraph.

    Attributes:
        index: its number in the subgraph.
        shape: sizes; a free dimension is given as 1.
        shape_signature: sizes with -1 for the free ones, ``None`` where the file does not say.
        dtype: numpy's name of the element type, else TFLite's in lower case (``"string"``, ``"int4"`` …).
        buffer: number of the buffer with its data; the buffer is empty for tensors that are computed.
        quantization: scales and zero points, ``None`` for plain tensors.
        quantization_details: name of an uncommon quantisation scheme (block-wise …), which ``quantization`` does not express.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...] | None
    dtype: str
    buffer: int
    quantization: Quantization | None = None
    quantization_details: str | None = None
    sparsity: Sparsity | None = None
    is_variable: bool = False

    @property
    def label(self) -> str:
        """Its name, or its number where it has none."""
        return self.name or f"tensor_{self.index}"

    @property
    def grid(self) -> Quantization | None:
        """How its integers stand for real numbers; ``None`` where it holds plain numbers."""
        return self.quantization if self.dtype in WHOLE_DTYPES else None

    @property
    def real_dtype(self) -> str:
        """The dtype of what it stands for."""
        return self.dtype if self.grid is None else "float32"

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class Operator:
    """One node of a subgraph.

    Attributes:
        op: name of the builtin operator, or the code of a custom one.
        custom: whether it is a custom operator.
        version: version of its schema.
        inputs: tensor numbers, -1 for an optional input that is left out.
        outputs: tensor numbers.
        options: the schema's options object (``Conv2DOptionsT`` …) with defaults where the file has none, or ``None``.
        custom_options: the bytes that a custom operator reads its options from.
        intermediates: tensor numbers of what it rounds on the way, of which only the grids are used.
    """

    index: int
    op: str
    custom: bool
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Subgraph:
    """Tensors and the operators that compute them, in order of execution."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class SignatureDef:
    """Names for the inputs and outputs of a subgraph; the values are tensor numbers."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True)
class Extent:
    """Where the bytes of a buffer are in the file."""

    offset: int
    length: int


@dataclass(frozen=True)
class Model:
    """A whole file.

    Attributes:
        data: the file's bytes, which all views refer to.
        buffers: where each buffer's bytes are.
        metadata: buffer numbers by name.
    """

    data: Any = field(repr=False)
    version: int
    description: str
    subgraphs: tuple[Subgraph, ...]
    buffers: tuple[Extent, ...] = field(repr=False)
    signatures: tuple[SignatureDef, ...]
    metadata: Mapping[str, int]

    @cached_property
    def keeps_state(self) -> bool:
        """Whether anything is kept from call to call."""
        operators = [operator for graph in self.subgraphs for operator in graph.operators]
        once = {operator.options.initSubgraphIndex for operator in operators if operator.op == "CALL_ONCE"}
        every = [graph for number, graph in enumerate(self.subgraphs) if number not in once]
        return any(
            operator.op == "ASSIGN_VARIABLE" or any(graph.tensors[i].is_variable for i in operator.inputs if i >= 0)
            for graph in every
            for operator in graph.operators
        )

    @cached_property
    def stored_otherwise(self) -> Mapping[int, frozenset[int]]:
        """For each subgraph, by its identity, the tensors that are constants stored in another form: sparse, half precision."""
        found = {}
        for graph in self.subgraphs:
            made: set[int] = set()
            for operator in graph.operators:
                if operator.op in ("DEQUANTIZE", "DENSIFY"):
                    source = graph.tensors[operator.inputs[0]]
                    if source.index in made or self.is_constant(source):
                        made.update(operator.outputs)
            found[id(graph)] = frozenset(made)
        return found

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether the file holds the tensor's data."""
        return not tensor.is_variable and self.buffers[tensor.buffer].length > 0

    def view(self, tensor: Tensor) -> Array:
        """The stored elements of a constant: of its shape, or one-dimensional where it is sparse; of packed ones the bytes.

        Raises:
            CorruptModelError: the elements have no plain numpy form, or the data do not fill the shape.
        """
        extent = self.buffers[tensor.buffer]
        if tensor.dtype in PACKED:
            wanted = -(-tensor.size * PACKED[tensor.dtype] // 8)
            if extent.length != wanted:
                raise CorruptModelError(f"Tensor '{tensor.name}' needs {wanted} bytes; its buffer has {extent.length}.")
            return np.frombuffer(self.data, np.uint8, extent.length, extent.offset)
        if tensor.dtype not in NUMPY_DTYPES:
            raise CorruptModelError(f"Tensor '{tensor.name}' holds {tensor.dtype}, which has no plain array form.")
        dtype = np.dtype(tensor.dtype)
        count, rest = divmod(extent.length, dtype.itemsize)
        if rest or (tensor.sparsity is None and count != tensor.size):
            raise CorruptModelError(
                f"Tensor '{tensor.name}' of {tensor.dtype}{list(tensor.shape)} needs {tensor.size * dtype.itemsize} bytes; "
                f"its buffer {tensor.buffer} has {extent.length}."
            )
        flat: Array = np.frombuffer(self.data, dtype, count, extent.offset)
        return flat if tensor.sparsity is not None else flat.reshape(tensor.shape)

    @cached_property
    def owners(self) -> Mapping[int, Tensor]:
        """For each buffer the tensor whose dtype and shape are taken as the form in which it is stored.

        That is the first floating-point tensor of the file that reads it, else the first of any kind: converters
        let an all-zero bias and an integer constant of the same bytes share a buffer.
        """
        first: dict[int, Tensor] = {}
        for subgraph in self.subgraphs:
            for tensor in subgraph.tensors:
                known = first.get(tensor.buffer)
                if known is None or (not known.dtype.startswith("float") and tensor.dtype.startswith("float")):
                    first[tensor.buffer] = tensor
        return first
