"""8- and 16-bit arithmetic by LiteRT's own integer kernels.

What was collected computes quantised models in single precision: integers are dequantised, an operator computes, its result is
quantised anew. Where LiteRT has a kernel that does all three at once, this puts it in their place; everything else stays as it
is, exact and slower.

Real numbers are *on a grid* if integers stand for them: they were dequantised, and nothing but moving elements was done to
them since. An operator becomes native if its operands are on grids, or constants that can be, and if its result is quantised
and used in no other way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from mlconverter.formats.tflite.from_onnx.grids import EIGHT_BITS, bias_on, constant_on, filter_on, moved
from mlconverter.formats.tflite.from_onnx.kernels import DATA_INPUT
from mlconverter.formats.tflite.from_onnx.values import Graph, Operation, Wire
from mlconverter.signature import Quantization

FILTERS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
"""Operators of data, a filter and a bias, and the axis of the filter that is output channels."""

OPERANDS = frozenset(("ADD", "SUB", "MUL"))
"""Operators all of whose inputs are data."""

ONE = frozenset(("MEAN", "RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH"))
"""Operators of one operand whose result may be on another grid."""

JOINED = frozenset(("CONCATENATION",))
"""Those all of whose operands have to be on the grid of the result, which integers can be brought to."""

SAME = frozenset(("AVERAGE_POOL_2D",))
"""Those whose result has to be on the operand's."""

FIXED = {
    "LOGISTIC": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "SOFTMAX": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
}
"""Those whose result is on one grid always."""

MOVES = frozenset(
    "RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE STRIDED_SLICE SPLIT SPLIT_V GATHER CONCATENATION PAD PADV2 MAX_POOL_2D "
    "RESIZE_NEAREST_NEIGHBOR SPACE_TO_DEPTH DEPTH_TO_SPACE".split()
)
"""Operators that move elements, or pick the largest, and change none."""

REORDERS = frozenset(("TRANSPOSE", "RESHAPE", "SQUEEZE", "EXPAND_DIMS"))
"""Those that integers may go through on their way to an output."""

SIXTEEN_BITS = frozenset(
    "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED ADD MUL RESHAPE TRANSPOSE PAD MAX_POOL_2D CONCATENATION".split()
)
"""Operators with a kernel for 16 bits."""

_VERSIONS = {
    "int8": {
        "CONV_2D": 3,
        "DEPTHWISE_CONV_2D": 3,
        "FULLY_CONNECTED": 5,
        "RESHAPE": 1,
        "SQUEEZE": 1,
        "EXPAND_DIMS": 1,
        "HARD_SWISH": 1,
    },
    "int16": {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 5, "FULLY_CONNECTED": 7, "ADD": 3, "MUL": 4, "MAX_POOL_2D": 3, "RESHAPE": 1},
}
"""The oldest versions that have such kernels, where it is not the second; those of ``uint8`` are the first."""


def with_native_kernels(graph: Graph, grids: Mapping[str, Quantization]) -> Graph:
    """The graph with integer kernels wherever LiteRT has them.

    Args:
        graph: the model.
        grids: what constants were dequantised by, by their names.
    """
    if not any(wire.meaning for operation in graph.operations for wire in operation.outputs):
        return graph
    # Filters with a sign are multiplied by numbers with one; where filters have none, nothing has.
    return max((_Rewriting(graph, grids, dtype) for dtype in EIGHT_BITS), key=lambda r: len(r.native)).run()


class _Rewriting:
    """One way to write a graph anew.

    Args:
        graph: the model.
        grids: of constants.
        eight_bits: the type that 8-bit integers have everywhere.

    Attributes:
        native: operators that become native, and the integers that each gives.
    """

    def __init__(self, graph: Graph, grids: Mapping[str, Quantization], eight_bits: str) -> None:
        self._graph, self._grids, self._eight_bits = graph, grids, eight_bits
        self._operations = graph.needed()
        self._readers: dict[Wire, list[Operation]] = defaultdict(list)
        self._makers: dict[Wire, Operation] = {}
        self._quantized: dict[Wire, list[Wire]] = defaultdict(list)
        for operation in self._operations:
            for wire in {i for i in operation.inputs if i is not None}:
                self._readers[wire].append(operation)
            for wire in operation.outputs:
                self._makers[wire] = operation
                if wire.meaning is not None and wire.dtype != "float32":
                    self._quantized[wire.meaning.other].append(wire)
        self._known: dict[Wire, Quantization | None] = {}
        self._filters: dict[Operation, list[Wire | None]] = {}
        self.native = {o: found for o in self._operations if (found := self._result_of(o)) is not None}
        self._kept = self._integers_kept()
        self._held: dict[Wire, Wire] = {}
        self._whole: dict[Wire, Wire] = {}
        self._written: list[Operation] = []

    # -- what is on which grid ---------------------------------------------------------------------------------------

    def _grid(self, wire: Wire) -> Quantization | None:
        """The grid that real numbers are on, in the type of the native kernels."""
        if wire not in self._known:
            self._known[wire] = self._grid_of_dequantized(wire) if wire.meaning else self._grid_of_moved(wire)
        return self._known[wire]

    def _grid_of_dequantized(self, wire: Wire) -> Quantization | None:
        meaning = wire.meaning
        if meaning is None or wire.dtype != "float32":
            return None
        return self._native_grid(meaning.other, meaning.grid)

    def _native_grid(self, integers: Wire, grid: Quantization) -> Quantization | None:
        """What integers stand for as native kernels take them; ``None`` where they do not, or somebody else reads them."""
        if len(grid.scale) > 1 or (integers.meaning is not None and integers.meaning.grid != grid):
            return None
        if integers.dtype not in (*EIGHT_BITS, "int16") or (integers.dtype == "int16" and grid.zero_point != (0,)):
            return None
        if not self._only_moved(integers):
            return None  # a kernel may take them for something else if the file says what they stand for
        return grid if integers.dtype == "int16" else moved(grid, integers.dtype, self._eight_bits)

    def _only_moved(self, integers: Wire) -> bool:
        """Whether integers are only converted, or moved about first."""
        readers = self._readers[integers]
        return all(o.op == "CAST" or (o.op in REORDERS and self._only_moved(o.outputs[0])) for o in readers)

    def _grid_of_moved(self, wire: Wire) -> Quantization | None:
        maker = self._makers.get(wire)
        if maker is None or maker.op not in MOVES or maker.options.get("fusedActivationFunction"):
            return None
        if maker.op == "PADV2" and not self._pads_below(maker):
            return None
        grids = {self._grid(i) for i in _data(maker)}
        (grid,) = grids if len(grids) == 1 else (None,)
        sixteen = grid is not None and self._type(wire, grid) == "int16"
        return grid if not sixteen or maker.op in SIXTEEN_BITS else None

    def _pads_below(self, pad: Operation) -> bool:
        """Whether what is padded with is below everything else, and only the largest elements are picked then."""
        filler = pad.inputs[2]
        only = all(o.op == "MAX_POOL_2D" for o in self._readers[pad.outputs[0]])
        return only and filler is not None and filler.data is not None and bool(np.all(filler.array <= np.finfo(np.float32).min))

    def _sources(self, wire: Wire) -> set[Wire]:
        """The integers that stand for real numbers which are on a grid."""
        if wire.meaning is not None:
            return {wire.meaning.other}
        return set().union(*(self._sources(i) for i in _data(self._makers[wire])))

    def _type(self, wire: Wire, grid: Quantization) -> str:
        (first, *_) = self._sources(wire) if wire.meaning is None else [wire.meaning.other]
        return "int16" if first.dtype == "int16" else self._eight_bits

    # -- what becomes native -----------------------------------------------------------------------------------------

    def _result_of(self, operation: Operation) -> Wire | None:
        """The integers that a native operator gives in place of one, ``None`` where it stays."""
        wire = operation.outputs[0]
        results = self._quantized.get(wire, [])
        if len(results) != 1 or len(operation.outputs) > 1 or not self._only_quantized(wire, results[0]):
            return None
        (result,) = results
        assert result.meaning is not None
        grid = self._native_grid(result, result.meaning.grid)
        if grid is None:
            return None
        dtype = "int16" if result.dtype == "int16" else self._eight_bits
        if dtype == "int16" and operation.op not in SIXTEEN_BITS:
            return None
        return result if self._takes(operation, grid, dtype) else None

    def _only_quantized(self, wire: Wire, result: Wire) -> bool:
        """Whether nothing but the operators up to the integers reads real numbers."""
        while wire is not result:
            readers = self._readers[wire]
            if len(readers) != 1 or wire in self._graph.outputs:
                return False
            wire = readers[0].outputs[0]
        return True

    def _takes(self, operation: Operation, result: Quantization, dtype: str) -> bool:
        """Whether there is a native kernel for the operands of an operator; those that are constants are noted."""
        op, inputs = operation.op, operation.inputs
        if op in FILTERS:
            data = self._operand(inputs[0], dtype)
            rest = None if data is None else self._filter_and_bias(operation, data, dtype)
            if rest is not None:
                self._filters[operation] = rest
            return rest is not None
        if op in OPERANDS:
            constants = [None if i is None or i.data is None else self._constant(i, dtype) for i in inputs]
            self._filters[operation] = constants
            return all(c is not None or self._operand(i, dtype) for i, c in zip(inputs, constants, strict=True))
        if op in JOINED:
            return all(self._operand(i, dtype) is not None for i in inputs)
        if op in ONE:
            return self._operand(inputs[0], dtype) is not None
        if op in SAME:
            return self._operand(inputs[0], dtype) == result
        if op in FIXED:
            scale, zero = FIXED[op][dtype]
            return self._operand(inputs[0], dtype) is not None and result == Quantization((scale,), (zero,))
        return False

    def _operand(self, wire: Wire | None, dtype: str) -> Quantization | None:
        if wire is None or wire.data is not None:
            return None
        grid = self._grid(wire)
        return grid if grid is not None and self._type(wire, grid) == dtype else None

    def _constant(self, wire: Wire, dtype: str) -> Wire | None:
        grid = self._grids.get(wire.name)
        return None if grid is None or len(grid.scale) > 1 else constant_on(wire, grid, dtype)

    def _filter_and_bias(self, operation: Operation, data: Quantization, dtype: str) -> list[Wire | None] | None:
        filters, bias = operation.inputs[1], operation.inputs[2] if len(operation.inputs) > 2 else None
        if filters is None or filters.data is None or filters.name not in self._grids or (bias is not None and bias.data is None):
            return None
        axis = FILTERS[operation.op]
        whole = filter_on(filters, self._grids[filters.name], axis, dtype)
        count = filters.dims[axis]
        assert count is not None
        terms = None if whole is None else bias_on(bias, count, data, whole, dtype)
        return None if whole is None or terms is None else [None, whole, terms]

    def _integers_kept(self) -> set[Wire]:
        """The integers that stay integers: what native operators take and give, and what moving such elements gives."""
        kept = set(self.native.values())
        for operation in self.native:
            for wire in operation.inputs:
                if wire is not None and wire.data is None and self._grid(wire) is not None:
                    kept |= self._sources(wire)
        while True:
            before = len(kept)
            for real, results in self._quantized.items():
                if self._makers.get(real) in self.native or self._grid(real) is None:
                    continue
                sources = self._sources(real)
                fitting = {r for r in results if r.meaning is not None and self._native_grid(r, r.meaning.grid) is not None}
                if kept.intersection(sources | fitting):
                    kept |= sources | fitting
            if len(kept) == before:
                return kept

    # -- writing -----------------------------------------------------------------------------------------------------

    def run(self) -> Graph:
        """The graph written anew; the same one where nothing becomes native."""
        if not self.native:
            return self._graph
        given = set(self.native.values())
        for operation in self._operations:
            wire = operation.outputs[0]
            if operation in self.native:
                self._write_native(operation, self.native[operation])
            elif wire.meaning is None:
                self._written.append(operation)
            elif wire in given:
                continue  # a native operator gives it
            elif wire.dtype != "float32" and wire in self._kept:
                self._write_quantized(wire)
            elif wire.dtype == "float32" and wire.meaning.other in self._kept and self._grid(wire) is not None:
                self._write("DEQUANTIZE", [self._hold(wire.meaning.other, wire.meaning.grid)], [wire])
            else:
                self._written.append(operation)
        return Graph(self._graph.name, self._written, self._graph.inputs, self._graph.outputs)

    def _write_native(self, operation: Operation, result: Wire) -> None:
        assert result.meaning is not None
        constants = self._filters.get(operation, [None] * len(operation.inputs))
        padded = [*operation.inputs, *[None] * (len(constants) - len(operation.inputs))]
        data = range(len(padded)) if operation.op in OPERANDS | JOINED else (0,)
        inputs: list[Wire | None] = []
        for position, wire in enumerate(padded):
            constant = constants[position] if position < len(constants) else None
            if constant is None and wire is not None and wire.data is None and position in data:
                constant = self._integers(wire)
            inputs.append(wire if constant is None else constant)
        held = self._new(result, result.meaning.grid)
        if operation.op in JOINED:
            inputs = [self._brought(i, held) for i in inputs if i is not None]
        self._write(operation.op, inputs, [held], operation)
        self._also_plain(result, held)

    def _brought(self, wire: Wire, to: Wire) -> Wire:
        """Integers on the grid of others."""
        if wire.quantization == to.quantization:
            return wire
        brought = Wire(f"{wire.name}/QUANTIZE", wire.dims, wire.dtype, quantization=to.quantization)
        self._write("QUANTIZE", [wire], [brought])
        return brought

    def _write_quantized(self, result: Wire) -> None:
        """Quantise real numbers; those that are on a grid already by integers alone."""
        assert result.meaning is not None
        real = result.meaning.other
        whole = real if self._grid(real) is None or not self._sources(real) <= self._kept else self._integers(real)
        if result in self._held:
            return  # moving the elements gave them
        held = self._new(result, result.meaning.grid)
        self._write("QUANTIZE", [whole], [held])
        self._also_plain(result, held)

    def _also_plain(self, result: Wire, held: Wire) -> None:
        """The integers in the type that the model has them in, for who reads those."""
        if held is not result:
            self._write("QUANTIZE", [held], [result])

    def _integers(self, wire: Wire) -> Wire:
        """The integers that stand for real numbers on a grid, moved as those were."""
        if wire.meaning is not None:
            return self._hold(wire.meaning.other, wire.meaning.grid)
        if wire not in self._whole:
            maker, grid = self._makers[wire], self._grid(wire)
            assert grid is not None
            data = {id(i) for i in _data(maker)}
            inputs = [self._integers(i) if id(i) in data and i is not None else i for i in maker.inputs]
            dtype = self._type(wire, grid)
            if maker.op == "PADV2":
                lowest = np.asarray(np.iinfo(dtype).min, dtype)
                inputs[2] = Wire("lowest", (), dtype, lowest, quantization=grid)
            outputs = []
            for output in maker.outputs:
                self._whole[output] = self._moved(output, grid, dtype)
                outputs.append(self._whole[output])
            self._write(maker.op, inputs, outputs, maker)
            for output in maker.outputs:
                for result in self._quantized.get(output, []):
                    if self._held.get(result) is self._whole[output]:
                        self._also_plain(result, self._whole[output])
        return self._whole[wire]

    def _moved(self, wire: Wire, grid: Quantization, dtype: str) -> Wire:
        """The integers of moved elements: those that they are quantised to, if that changes nothing."""
        for result in self._quantized.get(wire, []):
            if result in self._kept and result.meaning and self._native_grid(result, result.meaning.grid) == grid:
                return self._new(result, result.meaning.grid)
        return Wire(f"{wire.name}/{dtype}", wire.dims, dtype, quantization=grid)

    def _hold(self, integers: Wire, grid: Quantization) -> Wire:
        """Integers in the type of the native kernels."""
        if integers not in self._held:
            held = self._new(integers, grid)
            if held is not integers:
                self._write("QUANTIZE", [integers], [held])
        return self._held[integers]

    def _new(self, integers: Wire, grid: Quantization) -> Wire:
        """The tensor that holds integers in the type of the native kernels; the file says what they stand for."""
        self._say(integers, grid)
        dtype = "int16" if integers.dtype == "int16" else self._eight_bits
        held = integers
        if integers.dtype != dtype:
            held = Wire(integers.name, integers.dims, dtype, quantization=moved(grid, integers.dtype, dtype))
        self._held[integers] = held
        return held

    def _say(self, integers: Wire, grid: Quantization) -> None:
        """Have the file say what integers stand for, and what those do that are the same in another order."""
        integers.quantization = grid
        for operation in self._readers[integers]:
            if operation.op in REORDERS:
                self._say(operation.outputs[0], grid)

    def _write(self, op: str, inputs: list[Wire | None], outputs: list[Wire], like: Operation | None = None) -> None:
        options = {} if like is None else like.options
        dtype = next(i.dtype for i in inputs if i is not None and i.dtype in (*EIGHT_BITS, "int16", "float32"))
        version = 1 if dtype not in _VERSIONS else _VERSIONS[dtype].get(op, 2)
        self._written.append(Operation(op, list(inputs), outputs, options, 1 if op == "QUANTIZE" else version))


def _data(operation: Operation) -> list[Wire]:
    """The inputs of an operator that moves elements which hold these."""
    if operation.op == "CONCATENATION":
        return [i for i in operation.inputs if i is not None]
    data = operation.inputs[DATA_INPUT.get(operation.op, 0)]
    return [] if data is None else [data]
