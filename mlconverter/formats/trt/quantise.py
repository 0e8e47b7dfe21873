"""Quantisation after training: integers, or floats of eight bits, put into a graph by QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mlconverter.errors import ConversionError
from mlconverter.formats.trt.batch_norms import fold_batch_norms
from mlconverter.formats.trt.calibrate import Array, largest
from mlconverter.formats.trt.constants import array_of, constant
from mlconverter.formats.trt.newer import raise_opset
from mlconverter.formats.trt.sensitive import is_real
from mlconverter.hub.fused.writer import Writer
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import DEFAULT_DOMAINS
from mlconverter.hub.walk import drop_unused

LARGEST = {ir.DataType.INT8: 127.0, ir.DataType.FLOAT8E4M3FN: 448.0}
"""What the largest number becomes. Integers are symmetric: -128 is not used."""

_SINCE = {ir.DataType.INT8: 13, ir.DataType.FLOAT8E4M3FN: 19}
"""The opset in which several scales along an axis, and the type, are there."""

_PRODUCTS = frozenset("Conv ConvTranspose Gemm MatMul".split())

_SMALLEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class _Product:
    """A node that multiplies by a constant.

    Attributes:
        node: the node.
        computed: which input is computed.
        weight: the elements of the other.
    """

    node: ir.Node
    computed: int
    weight: Array


def quantise(model: ir.Model, samples: Iterable[Mapping[str, Array]], dtype: ir.DataType) -> tuple[str, ...]:
    """Have a model multiply in eight bits, in place.

    Convolutions and products with constant matrices get their operands in eight bits: weights with a scale for each channel
    of the result, values with one scale, by the range that they have on the samples. Products of two computed values, which
    are those of attention, stay as they are: probabilities are not spread evenly, and TensorRT has kernels of their own for
    the whole in half precision. Biases stay numbers.

    Args:
        model: as ``normalise`` gives it, in single precision.
        samples: inputs by name, each for one run.
        dtype: INT8 or FLOAT8E4M3FN.

    Returns:
        Notes for the report.

    Raises:
        SignatureError: there are no samples, or one does not fit the inputs of the model.
        NotRunnableError: ONNX Runtime does not run the model.
        ConversionError: the model is of an opset that has no such operators.
    """
    reason = raise_opset(model, _SINCE[dtype])
    if reason is not None:
        raise ConversionError(
            f"{dtype.name.lower()} with one scale a channel needs opset {_SINCE[dtype]}, to which the model cannot be raised: "
            f"{reason}. Export it anew with a newer opset."
        )
    fold_batch_norms(model)
    products = list(_products(model))
    values = list(dict.fromkeys(v for v in (*(p.node.inputs[p.computed] for p in products), *_sums(model, products)) if v))
    ranges = largest(model, samples, values)
    writer = _Quantising(model, dtype, {v: ranges[v] for v in values if ranges[v] > 0})
    left = [p.node for p in products if not writer.multiply(p)]
    for value, readers in _sums(model, products).items():
        writer.round(value, readers)
    drop_unused(model)
    notes = [f"{len(products) - len(left)} convolutions and products of matrices are computed in {dtype.name.lower()}."]
    if left:
        notes.append(f"{len(left)} are not, whose operands were zero on all samples, the first being '{left[0].name}'.")
    return tuple(notes)


def _products(model: ir.Model) -> Iterator[_Product]:
    for node in model.graph:
        if node.domain not in DEFAULT_DOMAINS or node.op_type not in _PRODUCTS or not is_real(node.outputs[0]):
            continue
        arrays = [array_of(v, model.opset_imports) for v in node.inputs[:2]]
        computed = 0 if arrays[0] is None else 1
        weight = arrays[1 - computed]
        if arrays[computed] is None and weight is not None and weight.size and (computed == 0 or node.op_type == "MatMul"):
            yield _Product(node, computed, weight)


def _sums(model: ir.Model, products: list[_Product]) -> dict[ir.Value, list[ir.Node]]:
    """Values that are added to the result of a product, with the additions.

    With both operands in eight bits TensorRT adds where it multiplies; otherwise the result of the product is written
    in full and read again.
    """
    made = {p.node for p in products}
    found: dict[ir.Value, list[ir.Node]] = {}
    for node in model.graph:
        if node.op_type != "Add" or node.domain not in DEFAULT_DOMAINS:
            continue
        a, b = node.inputs
        if a is None or b is None or a.const_value is not None or b.const_value is not None or a.shape != b.shape:
            continue
        added = b if a.producer() in made else a if b.producer() in made else None
        if added is not None:
            found.setdefault(added, []).append(node)
    return found


class _Quantising:
    """Writes QuantizeLinear and DequantizeLinear.

    Args:
        model: it is changed.
        dtype: of eight bits.
        ranges: what the largest number stands for, of values that are not always zero.
    """

    def __init__(self, model: ir.Model, dtype: ir.DataType, ranges: Mapping[ir.Value, float]) -> None:
        self._model, self._dtype, self._ranges = model, dtype, ranges
        self._names = Names(model)
        self._rounded: dict[ir.Value, ir.Value] = {}
        self._order = {node: place for place, node in enumerate(model.graph)}

    def multiply(self, product: _Product) -> bool:
        """Have a product multiply eight bits; whether it does."""
        node, value = product.node, product.node.inputs[product.computed]
        if value not in self._ranges or value is None:
            return False
        self.round(value, [node])
        node.replace_input_with(1 - product.computed, self._weight(product))
        return True

    def round(self, value: ir.Value, readers: list[ir.Node]) -> None:
        """Hand a value to nodes in eight bits."""
        if value not in self._ranges:
            return
        if value not in self._rounded:
            uses = [use.node for use in value.uses() if use.node in self._order]
            w = Writer(self._model, min(uses, key=self._order.__getitem__), self._names)
            scale, zero = self._grid(f"{value.name}", np.array(self._ranges[value]))
            whole = w("QuantizeLinear", value, scale, zero)
            whole.type, whole.shape = ir.TensorType(self._dtype), value.shape
            self._rounded[value] = self._real(w, whole, scale, zero, None)
        for node in readers:
            for position, given in enumerate(node.inputs):
                if given is value and (node.op_type not in _PRODUCTS or position < 2):
                    node.replace_input_with(position, self._rounded[value])

    def _weight(self, product: _Product) -> ir.Value:
        """The constant operand as eight bits that are made real."""
        axis, weight = _channels(product), product.weight
        others = tuple(a for a in range(weight.ndim) if a != axis)
        largest = np.abs(weight).max() if axis is None else np.abs(weight).max(others)
        name = product.node.inputs[1 - product.computed]
        base = f"{'' if name is None else name.name}/{self._dtype.name.lower()}"
        scale, zero = self._grid(base, np.where(largest > 0, largest, 1.0))
        assert scale.const_value is not None
        along = (1,) * weight.ndim if axis is None else tuple(-1 if a == axis else 1 for a in range(weight.ndim))
        steps = weight / scale.const_value.numpy().reshape(along)
        end = LARGEST[self._dtype]
        steps = np.clip(np.rint(steps) if self._dtype is ir.DataType.INT8 else steps, -end, end)
        whole = constant(self._model, self._names, base, steps.astype(self._dtype.numpy()), self._dtype)
        return self._real(Writer(self._model, product.node, self._names), whole, scale, zero, axis)

    def _grid(self, name: str, largest: Array) -> tuple[ir.Value, ir.Value]:
        """Scale and zero point."""
        scale = np.maximum(largest / LARGEST[self._dtype], _SMALLEST).astype(np.float32)
        zero = np.zeros(scale.shape, self._dtype.numpy())
        return (
            constant(self._model, self._names, f"{name}/scale", scale),
            constant(self._model, self._names, f"{name}/zero", zero, self._dtype),
        )

    @staticmethod
    def _real(w: Writer, whole: ir.Value, scale: ir.Value, zero: ir.Value, axis: int | None) -> ir.Value:
        real = w("DequantizeLinear", whole, scale, zero, axis=axis)
        real.type, real.shape = ir.TensorType(ir.DataType.FLOAT), whole.shape
        return real


def _channels(product: _Product) -> int | None:
    """The axis of a weight along which the channels of the result lie; ``None`` for one scale for all."""
    node = product.node
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1 if "group" not in node.attributes or node.attributes["group"].as_int() == 1 else None
    if node.op_type == "Gemm":
        return 0 if "transB" in node.attributes and node.attributes["transB"].as_int() else 1
    return 1 if product.computed == 0 and product.weight.ndim == 2 else None
