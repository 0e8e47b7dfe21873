"""One step of an LSTM as TFLite has it, in real numbers and rounded to the grids of the integer kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Constant, Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.time_steps import activated, rounded
from mlconverter.signature import Quantization

INPUT, FORGET, CELL, OUTPUT = range(4)
"""The gates, in the order in which operators have their inputs."""

Four = Sequence[Operand | None]
"""What each gate has, ``None`` for those that have none."""


@dataclass(frozen=True)
class Roles:
    """The inputs of an LSTM.

    Attributes:
        data: what comes in, each with its matrices.
        recurrent: matrices for what was given before.
        peepholes: weights by which gates see the cell.
        biases: are added.
        norms: factors after normalisation.
        projection: matrix from the cells to the output.
        projection_bias: is added after it.
        hidden: position of the state with what was given before.
        cell: position of the state with the cells.
    """

    data: Sequence[tuple[Operand, Four]]
    recurrent: Four
    peepholes: Four
    biases: Four
    norms: Four
    projection: Operand | None
    projection_bias: Operand | None
    hidden: int
    cell: int

    @property
    def gates(self) -> list[int]:
        """The gates that have weights; the input gate may be what the forget gate leaves."""
        return [gate for gate, weights in enumerate(self.recurrent) if weights is not None]

    @property
    def normalised(self) -> bool:
        """Whether sums are normalised before their activation."""
        return self.norms[FORGET] is not None


@dataclass(frozen=True)
class Grids:
    """What the integer kernel rounds to; ``None`` where numbers are real.

    Attributes:
        sums: of each gate.
        gate: of the arguments of the gates' activations, to 16 bits.
        unit: of the values of activations, to 16 bits.
        cell: of the cells.
        product: of what the cells give, before it is projected, to 8 bits.
        hidden: of what is given to the next step.
        output: of what is given.
    """

    sums: Sequence[Quantization | None] = (None,) * 4
    gate: Quantization | None = None
    unit: Quantization | None = None
    cell: Quantization | None = None
    product: Quantization | None = None
    hidden: Quantization | None = None
    output: Quantization | None = None


REAL = Grids()
_GATE, _UNIT = (Quantization((2.0**-bits,), (0,)) for bits in (12, 15))


def grids_of(op: Op, roles: Roles) -> Grids:
    """The grids of an operator on integers, which come from its states and what the file says of values in between."""
    middle = [op.subgraph.tensors[i].quantization for i in op.operator.intermediates]
    return Grids(
        middle[:4] if roles.normalised else [_GATE] * 4,
        _GATE,
        _UNIT,
        op.tensor(roles.cell).grid,
        middle[4],
        op.tensor(roles.hidden).grid,
        op.outputs[0].grid,
    )


@dataclass(frozen=True)
class Cell:
    """An LSTM whose weights the graph has.

    Attributes:
        roles: its inputs.
        grids: what it rounds to.
        activation: of the cells, by its number in the schema.
        cell_clip: how large cells may be, 0 where nothing limits them.
        projection_clip: how large what is projected may be.
    """

    roles: Roles
    grids: Grids
    activation: int
    cell_clip: float
    projection_clip: float

    def sums(self, b: Builder, order: tuple[int, ...]) -> list[tuple[ir.Value, int]]:
        """For each gate what comes in makes of it, at all times, and the number of cells.

        Integers are rounded before what was given before is added.
        """
        roles, parts = self.roles, []
        for gate in roles.gates:
            terms = [b.emit("MatMul", b.ask(x, order), _matrix(b, four[gate])) for x, four in roles.data]
            if not roles.normalised:
                bias = _weight(b, self._bias(gate))
                # ONNX Runtime flattens what it makes one Gemm of, and then loses the zero point of integers.
                terms.append(bias if self.grids is REAL else b.emit("Unsqueeze", bias, b.ints(range(len(order) - 1))))
            value = terms[0]
            for term in terms[1:]:
                value = b.emit("Add", value, term)
            recurrent = roles.recurrent[gate]
            assert recurrent is not None and recurrent.dims[0] is not None
            parts.append((rounded(b, value, self.grids.sums[gate]), recurrent.dims[0]))
        return parts

    def step(self, b: Builder, there: Sequence[ir.Value], before: Sequence[ir.Value]) -> tuple[Sequence[ir.Value], ir.Value]:
        """One step: from the sums, what was given before and the cells to the states after it and the output."""
        (hidden, cells), grids = before, self.grids
        sums = dict(zip(self.roles.gates, there, strict=True))
        forget = self._gate(b, FORGET, sums, hidden, cells)
        candidate = rounded(b, activated(b, self._argument(b, CELL, sums, hidden, None), self.activation), grids.unit)
        if INPUT in sums:
            fresh = self._gate(b, INPUT, sums, hidden, cells)
        else:
            fresh = rounded(b, b.emit("Sub", b.scalar(1.0, "float32"), forget), grids.unit)
        kept = rounded(b, b.emit("Mul", forget, cells), grids.cell)
        cells = b.emit("Add", kept, rounded(b, b.emit("Mul", fresh, candidate), grids.cell))
        cells = rounded(b, cells, grids.cell)
        if self.cell_clip > 0:
            cells = _clipped(b, cells, *_bounds(self.cell_clip, grids.cell, "int16"))
        shown = rounded(b, activated(b, cells, self.activation), grids.unit)
        value = b.emit("Mul", self._gate(b, OUTPUT, sums, hidden, cells), shown)
        return self._given(b, value, cells)

    def _given(self, b: Builder, value: ir.Value, cells: ir.Value) -> tuple[Sequence[ir.Value], ir.Value]:
        """What is given, after the projection; integers are handed on whatever they stand for on the way."""
        roles, grids = self.roles, self.grids
        grid = grids.product
        if roles.projection is not None:
            value = b.emit("MatMul", rounded(b, value, grid, "int8"), _matrix(b, roles.projection))
            if roles.projection_bias is not None:
                value = b.emit("Add", value, _weight(b, self._projection_bias()))
            grid = grids.hidden
            if self.projection_clip > 0 and grid is None:
                value = _clipped(b, value, -self.projection_clip, self.projection_clip)
        if grid is None:
            return [value, cells], value
        whole = b.quantize(Stored(value, ()), grid, "int8").value
        if roles.projection is not None and self.projection_clip > 0:
            limit = _whole_limit(self.projection_clip, grids.output, "int8")
            whole = b.emit("Clip", whole, b.scalar(-limit, "int8"), b.scalar(limit, "int8"))
        assert grids.hidden is not None and grids.output is not None
        return [b.dequantize(whole, grids.hidden, "int8"), cells], b.dequantize(whole, grids.output, "int8")

    def _gate(self, b: Builder, gate: int, sums: dict[int, ir.Value], hidden: ir.Value, cells: ir.Value) -> ir.Value:
        return rounded(b, b.emit("Sigmoid", self._argument(b, gate, sums, hidden, cells)), self.grids.unit)

    def _argument(self, b: Builder, gate: int, sums: dict[int, ir.Value], hidden: ir.Value, cells: ir.Value | None) -> ir.Value:
        """What the activation of a gate is taken of."""
        roles, grid = self.roles, self.grids.sums[gate]
        value = b.emit("Add", sums[gate], b.emit("MatMul", hidden, _matrix(b, roles.recurrent[gate])))
        value = rounded(b, value, grid)
        if roles.peepholes[gate] is not None and cells is not None:
            value = rounded(b, b.emit("Add", value, b.emit("Mul", cells, _weight(b, roles.peepholes[gate]))), grid)
        if not roles.normalised:
            return value
        bias, norm = _weight(b, self._bias(gate)), _weight(b, roles.norms[gate])
        value = b.emit("LayerNormalization", value, norm, bias, axis=-1, epsilon=1e-8)
        return rounded(b, value, self.grids.gate)

    def _bias(self, gate: int) -> Operand | None:
        """The bias of a gate, on the grid of the sums that the integer kernel adds it to."""
        roles = self.roles
        if roles.normalised:
            norm = roles.norms[gate]
            return _on(roles.biases[gate], None if norm is None else norm.grid, 2.0**-10)
        x, four = roles.data[0]
        weights = four[gate]
        return _on(roles.biases[gate], None if weights is None else weights.grid, None if x.grid is None else x.grid.scale[0])

    def _projection_bias(self) -> Operand | None:
        projection, grid = self.roles.projection, self.grids.product
        assert projection is not None
        return _on(self.roles.projection_bias, projection.grid, None if grid is None else grid.scale[0])


def _on(bias: Operand | None, grid: Quantization | None, factor: float | None) -> Operand | None:
    """A bias of integers on the grid of the sums, whatever the file says of itself."""
    if not isinstance(bias, Constant) or grid is None or factor is None or bias.whole.dtype != np.int32:
        return bias
    return replace(bias, grid=Quantization((float(np.float32(grid.scale[0]) * np.float32(factor)),), (0,)), dtype="float32")


def _weight(b: Builder, weight: Operand | None) -> ir.Value:
    assert weight is not None
    return b.ask(weight, weight=True)


def _matrix(b: Builder, weight: Operand | None) -> ir.Value:
    """A matrix as it stands behind what it is multiplied with."""
    assert weight is not None
    return b.ask(weight, (1, 0), weight=True)


def _clipped(b: Builder, value: ir.Value, low: float, high: float) -> ir.Value:
    return b.emit("Clip", value, b.scalar(low, "float32"), b.scalar(high, "float32"))


def _whole_limit(limit: float, grid: Quantization | None, dtype: str) -> int:
    """A limit in steps of a grid, as the integer kernel cuts it off."""
    assert grid is not None
    return min(int(np.float32(limit) / np.float32(grid.scale[0])), int(np.iinfo(dtype).max))


def _bounds(limit: float, grid: Quantization | None, dtype: str) -> tuple[float, float]:
    if grid is None:
        return -limit, limit
    real = _whole_limit(limit, grid, dtype) * grid.scale[0]
    return -real, real
