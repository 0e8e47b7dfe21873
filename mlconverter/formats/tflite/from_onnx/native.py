"""8- and 16-bit arithmetic by LiteRT's own integer kernels.

What was collected computes quantised models in single precision: integers are dequantised, an operator computes, its result is
quantised anew. Where LiteRT has a kernel that does all three at once, this puts it in their place; everything else stays as it
is, exact and slower.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlconverter.formats.tflite.from_onnx.grids import EIGHT_BITS, moved
from mlconverter.formats.tflite.from_onnx.integer_kernels import JOINED, OPERANDS, REORDERS, version_of
from mlconverter.formats.tflite.from_onnx.marked import Marked, data_of
from mlconverter.formats.tflite.from_onnx.values import Graph, Operation, Wire
from mlconverter.signature import Quantization


def with_native_kernels(graph: Graph, grids: Mapping[str, Quantization]) -> Graph:
    """The graph with integer kernels wherever LiteRT has them.

    Args:
        graph: the model.
        grids: what constants were dequantised by, by their names.
    """
    if not any(wire.meaning for operation in graph.operations for wire in operation.outputs):
        return graph
    # Filters with a sign are multiplied by numbers with one; where filters have none, nothing has.
    return _Writing(max((Marked(graph, grids, dtype) for dtype in EIGHT_BITS), key=lambda m: len(m.native))).run()


class _Writing:
    """Writes a graph anew, in the same order.

    Args:
        marked: what is known of its tensors.
    """

    def __init__(self, marked: Marked) -> None:
        self._marked = marked
        self._held: dict[Wire, Wire] = {}  # integers as native kernels take them
        self._whole: dict[Wire, Wire] = {}  # integers for real numbers that were moved
        self._written: list[Operation] = []

    def run(self) -> Graph:
        """The graph written anew; the same one where nothing becomes native."""
        if not self._marked.native:
            return self._marked.graph
        given = set(self._marked.native.values())
        for operation in self._marked.operations:
            wire = operation.outputs[0]
            if operation in self._marked.native:
                self._write_native(operation, self._marked.native[operation])
            elif wire.meaning is None:
                self._written.append(operation)
            elif wire in given:
                continue  # a native operator gives it
            elif wire.dtype != "float32" and wire in self._marked.kept:
                self._write_quantized(wire)
            elif wire.dtype == "float32" and wire.meaning.other in self._marked.kept and self._marked.grid(wire) is not None:
                self._write("DEQUANTIZE", [self._hold(wire.meaning.other, wire.meaning.grid)], [wire])
            else:
                self._written.append(operation)
        return Graph(self._marked.graph.name, self._written, self._marked.graph.inputs, self._marked.graph.outputs)

    def _write_native(self, operation: Operation, result: Wire) -> None:
        assert result.meaning is not None
        constants = self._marked.constants.get(operation, [None] * len(operation.inputs))
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
        on_grid = self._marked.grid(real) is not None and self._marked.sources(real) <= self._marked.kept
        whole = self._integers(real) if on_grid else real
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
            maker, grid = self._marked.makers[wire], self._marked.grid(wire)
            assert grid is not None
            data = {id(i) for i in data_of(maker)}
            inputs = [self._integers(i) if id(i) in data and i is not None else i for i in maker.inputs]
            dtype = self._marked.type_of(wire)
            if maker.op == "PADV2":
                lowest = np.asarray(np.iinfo(dtype).min, dtype)
                inputs[2] = Wire("lowest", (), dtype, lowest, quantization=grid)
            outputs = []
            for output in maker.outputs:
                self._whole[output] = self._moved(output, grid, dtype)
                outputs.append(self._whole[output])
            self._write(maker.op, inputs, outputs, maker)
            for output in maker.outputs:
                for result in self._marked.quantized.get(output, []):
                    if self._held.get(result) is self._whole[output]:
                        self._also_plain(result, self._whole[output])
        return self._whole[wire]

    def _moved(self, wire: Wire, grid: Quantization, dtype: str) -> Wire:
        """The integers of moved elements: those that they are quantised to, if that changes nothing."""
        for result in self._marked.quantized.get(wire, []):
            if result in self._marked.kept and result.meaning and self._marked.native_grid(result, result.meaning.grid) == grid:
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
        dtype = "int16" if integers.dtype == "int16" else self._marked.eight_bits
        held = integers
        if integers.dtype != dtype:
            held = Wire(integers.name, integers.dims, dtype, quantization=moved(grid, integers.dtype, dtype))
        self._held[integers] = held
        return held

    def _say(self, integers: Wire, grid: Quantization) -> None:
        """Have the file say what integers stand for, and what those do that are the same in another order."""
        integers.quantization = grid
        for operation in self._marked.readers[integers]:
            if operation.op in REORDERS:
                self._say(operation.outputs[0], grid)

    def _write(self, op: str, inputs: list[Wire | None], outputs: list[Wire], like: Operation | None = None) -> None:
        options = {} if like is None else like.options
        dtype = next(i.dtype for i in inputs if i is not None and i.dtype in (*EIGHT_BITS, "int16", "float32"))
        self._written.append(Operation(op, list(inputs), outputs, options, version_of(op, dtype)))
