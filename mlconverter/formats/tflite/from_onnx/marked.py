"""Quantised tensors in a graph: which real numbers integers stand for, and which operators can compute with integers instead.

Real numbers are *on a grid* if integers stand for them: they were dequantised, and nothing but moving elements was done to
them since. An operator becomes native if its operands are on grids, or constants that can be, and if its result is quantised
and used in no other way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from mlconverter.formats.tflite.from_onnx.grids import EIGHT_BITS, bias_on, constant_on, filter_on, grid_of_one, moved
from mlconverter.formats.tflite.from_onnx.integer_kernels import (
    FILTERS,
    FIXED,
    JOINED,
    MOVES,
    ONE,
    OPERANDS,
    REORDERS,
    SAME,
    SIXTEEN_BITS,
)
from mlconverter.formats.tflite.from_onnx.kernels import DATA_INPUT
from mlconverter.formats.tflite.from_onnx.values import Graph, Operation, Wire
from mlconverter.signature import Quantization


class Marked:
    """A graph with what its quantised tensors say.

    Args:
        graph: the model.
        grids: what constants were dequantised by, by their names.
        eight_bits: the type that 8-bit integers have everywhere.

    Attributes:
        operations: those that an output needs, in order.
        readers: of each tensor.
        makers: of each tensor that is computed.
        quantized: the integers that real numbers become.
        native: operators that become native, and the integers that each gives.
        constants: of native operators, by position; ``None`` for what is computed.
        kept: the integers that stay integers.
    """

    def __init__(self, graph: Graph, grids: Mapping[str, Quantization], eight_bits: str) -> None:
        self.graph, self._grids, self.eight_bits = graph, grids, eight_bits
        self.operations = graph.needed()
        self.readers: dict[Wire, list[Operation]] = defaultdict(list)
        self.makers: dict[Wire, Operation] = {}
        self.quantized: dict[Wire, list[Wire]] = defaultdict(list)
        self._meant: dict[Wire, set[Quantization]] = defaultdict(set)  # by who quantises integers, and by who dequantises them
        for operation in self.operations:
            for wire in {i for i in operation.inputs if i is not None}:
                self.readers[wire].append(operation)
            for wire in operation.outputs:
                self.makers[wire] = operation
                if wire.meaning is not None and wire.dtype != "float32":
                    self.quantized[wire.meaning.other].append(wire)
                    self._meant[wire].add(wire.meaning.grid)
                elif wire.meaning is not None:
                    self._meant[wire.meaning.other].add(wire.meaning.grid)
        self._known: dict[Wire, Quantization | None] = {}
        self.constants: dict[Operation, list[Wire | None]] = {}
        self.native = {o: found for o in self.operations if (found := self._result_of(o)) is not None}
        self.kept = self._integers_kept()

    # -- what is on which grid ---------------------------------------------------------------------------------------

    def grid(self, wire: Wire) -> Quantization | None:
        """The grid that real numbers are on, in the type of the native kernels."""
        if wire not in self._known:
            self._known[wire] = self._grid_of_dequantized(wire) if wire.meaning else self._grid_of_moved(wire)
        return self._known[wire]

    def _grid_of_dequantized(self, wire: Wire) -> Quantization | None:
        meaning = wire.meaning
        if meaning is None or wire.dtype != "float32":
            return None
        return self.native_grid(meaning.other, meaning.grid)

    def native_grid(self, integers: Wire, grid: Quantization) -> Quantization | None:
        """What integers stand for as native kernels take them; ``None`` where others take them for something else."""
        if len(grid.scale) > 1 or self._meant[integers] != {grid}:
            return None
        if integers.dtype not in (*EIGHT_BITS, "int16") or (integers.dtype == "int16" and grid.zero_point != (0,)):
            return None
        if not self._only_moved(integers):
            return None  # a kernel may take them for something else if the file says what they stand for
        return grid if integers.dtype == "int16" else moved(grid, integers.dtype, self.eight_bits)

    def _only_moved(self, integers: Wire) -> bool:
        """Whether integers are only converted, or moved about first."""
        readers = self.readers[integers]
        return all(o.op == "CAST" or (o.op in REORDERS and self._only_moved(o.outputs[0])) for o in readers)

    def _grid_of_moved(self, wire: Wire) -> Quantization | None:
        maker = self.makers.get(wire)
        if maker is None or maker.op not in MOVES or maker.options.get("fusedActivationFunction"):
            return None
        if maker.op == "PADV2" and not self._pads_below(maker):
            return None
        grids = {self.grid(i) for i in data_of(maker)}
        (grid,) = grids if len(grids) == 1 else (None,)
        sixteen = grid is not None and self.type_of(wire) == "int16"
        return grid if not sixteen or maker.op in SIXTEEN_BITS else None

    def _pads_below(self, pad: Operation) -> bool:
        """Whether what is padded with is below everything else, and only the largest elements are picked then."""
        filler = pad.inputs[2]
        only = all(o.op == "MAX_POOL_2D" for o in self.readers[pad.outputs[0]])
        return only and filler is not None and filler.data is not None and bool(np.all(filler.array <= np.finfo(np.float32).min))

    def sources(self, wire: Wire) -> set[Wire]:
        """The integers that stand for real numbers which are on a grid."""
        if wire.meaning is not None:
            return {wire.meaning.other}
        return set().union(*(self.sources(i) for i in data_of(self.makers[wire])))

    def type_of(self, wire: Wire) -> str:
        """The type of the integers that stand for real numbers on a grid."""
        (first, *_) = self.sources(wire) if wire.meaning is None else [wire.meaning.other]
        return "int16" if first.dtype == "int16" else self.eight_bits

    # -- what becomes native -----------------------------------------------------------------------------------------

    def _result_of(self, operation: Operation) -> Wire | None:
        """The integers that a native operator gives in place of one, ``None`` where it stays."""
        wire = operation.outputs[0]
        results = self.quantized.get(wire, [])
        if len(results) != 1 or len(operation.outputs) > 1 or not self._only_quantized(wire, results[0]):
            return None
        (result,) = results
        assert result.meaning is not None
        grid = self.native_grid(result, result.meaning.grid)
        if grid is None:
            return None
        dtype = "int16" if result.dtype == "int16" else self.eight_bits
        if dtype == "int16" and operation.op not in SIXTEEN_BITS:
            return None
        return result if self._takes(operation, grid, dtype) else None

    def _only_quantized(self, wire: Wire, result: Wire) -> bool:
        """Whether nothing but the operators up to the integers reads real numbers."""
        while wire is not result:
            readers = self.readers[wire]
            if len(readers) != 1 or wire in self.graph.outputs:
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
                self.constants[operation] = rest
            return rest is not None
        if op in OPERANDS:
            constants = [None if i is None or i.data is None else self._constant(i, dtype) for i in inputs]
            self.constants[operation] = constants
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
        grid = self.grid(wire)
        return grid if grid is not None and self.type_of(wire) == dtype else None

    def _constant(self, wire: Wire, dtype: str) -> Wire | None:
        grid = self._grids.get(wire.name) or grid_of_one(wire)
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
        """The integers that stay integers: in a model that computes with some, all that can be.

        What is halfway between two of them LiteRT rounds away from zero, and ONNX to the even one: a step, as native
        operators are off. Where there are none nothing is.
        """
        if not self.native:
            return set()
        results = {r for found in self.quantized.values() for r in found}
        kept = {r for r in results if r.meaning is not None and self.native_grid(r, r.meaning.grid) is not None}
        for operation in self.operations:
            for wire in operation.outputs:
                if wire.meaning is not None and wire.dtype == "float32" and self.grid(wire) is not None:
                    kept.add(wire.meaning.other)
        return kept


def data_of(operation: Operation) -> list[Wire]:
    """The inputs of an operator that moves elements which hold these."""
    if operation.op == "CONCATENATION":
        return [i for i in operation.inputs if i is not None]
    data = operation.inputs[DATA_INPUT.get(operation.op, 0)]
    return [] if data is None else [data]
