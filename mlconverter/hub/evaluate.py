"""What an operator does to plain arrays: for constants that hold no weight, and for shapes.

Every function works on numpy arrays of numbers and, where it only moves elements or does integer
arithmetic, on object arrays whose elements are symbolic integers as well. That is what keeps
``Shape → Gather → Concat → Reshape`` out of the translated model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mlconverter.hub.sizes import divided, equal

Array = npt.NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])

LARGEST = 1 << 22
"""Results with more elements than this are left to the run time."""


@dataclass(frozen=True)
class _Evaluator:
    """What computes an operator.

    Attributes:
        function: takes arrays by position and attributes by name.
        symbolic: whether the elements may be symbolic integers.
        elementwise: whether the operands are broadcast to one shape.
    """

    function: Callable[..., Any]
    symbolic: bool = False
    elementwise: bool = False


_EVALUATORS: dict[str, _Evaluator] = {}

_BAD_NODE = (ValueError, IndexError, KeyError, AttributeError, ArithmeticError, MemoryError)
"""What numpy raises where shapes, axes or values make no sense together."""


def _evaluates(op: str, *, symbolic: bool = False, elementwise: bool = False) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        _EVALUATORS[op] = _Evaluator(function, symbolic, elementwise)
        return function

    return register


def evaluates(op: str, symbolic: bool = False) -> bool:
    """Whether an operator can be evaluated here (``symbolic``: on object arrays too)."""
    found = _EVALUATORS.get(op)
    return found is not None and (found.symbolic or not symbolic)


def evaluate(op: str, inputs: list[Array | None], attributes: dict[str, Any]) -> list[Array]:
    """The outputs of an operator for these inputs, in the calling form of the newest opset.

    Raises:
        TypeError: the result is for the run time to compute, or the node makes no sense.
    """
    evaluator = _EVALUATORS[op]
    try:
        if evaluator.elementwise:
            _bounded(np.broadcast_shapes(*(i.shape for i in inputs if i is not None)))
        result = evaluator.function(*inputs, **attributes)
    except _BAD_NODE as error:
        raise TypeError(f"{op} of these inputs cannot be computed: {error}") from error
    return [_as_array(r) for r in (result if isinstance(result, (list, tuple)) else [result])]


def _bounded(shape: tuple[int, ...]) -> None:
    if math.prod(shape) > LARGEST:
        raise TypeError("too large to fold")


def object_array(items: list[Any]) -> Array:
    """A one-dimensional object array; numpy would look into items that seem to be sequences."""
    array = np.empty(len(items), object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def _as_array(result: Any) -> Array:
    if isinstance(result, (np.ndarray, np.generic, int, float, bool)):
        return np.asarray(result)
    return object_array([result]).reshape(())


def _ints(value: Array | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(int(v) for v in value.reshape(-1))


@_evaluates("Identity", symbolic=True)
def _identity(x: Array) -> Array:
    return x


@_evaluates("Gather", symbolic=True)
def _gather(x: Array, indices: Array, *, axis: int) -> Array:
    _bounded((x.size // max(x.shape[axis], 1), indices.size))
    return np.take(x, indices.astype(np.int64), axis=axis)


@_evaluates("Concat", symbolic=True)
def _concat(*xs: Array, axis: int) -> Array:
    _bounded((sum(x.size for x in xs),))
    return np.concatenate(xs, axis=axis)


@_evaluates("Unsqueeze", symbolic=True)
def _unsqueeze(x: Array, axes: Array) -> Array:
    return np.expand_dims(x, _ints(axes) or ())


@_evaluates("Squeeze", symbolic=True)
def _squeeze(x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x, _ints(axes))


@_evaluates("Reshape", symbolic=True)
def _reshape(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    sizes = [x.shape[i] if s == 0 and not allowzero else int(s) for i, s in enumerate(shape)]
    return x.reshape(sizes)


@_evaluates("Flatten", symbolic=True)
def _flatten(x: Array, *, axis: int) -> Array:
    if not -x.ndim <= axis <= x.ndim:
        raise ValueError(f"there is no axis {axis}")
    return x.reshape(math.prod(x.shape[: axis if axis >= 0 else axis + x.ndim]), -1)


@_evaluates("Transpose", symbolic=True)
def _transpose(x: Array, *, perm: list[int] | None = None) -> Array:
    return x.transpose(perm)


@_evaluates("Slice", symbolic=True)
def _slice(x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    index = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(_ints(starts) or (), _ints(ends) or (), strict=True)):
        axis = i if axes is None else int(axes[i])
        step = 1 if steps is None else int(steps[i])
        # Going backwards, a start before the first element is the first, and an end there stays "before": None in Python.
        backwards, size = step < 0, x.shape[axis]
        index[axis] = slice(max(start, -size) if backwards else start, None if backwards and end < -size else end, step)
    return x[tuple(index)]


@_evaluates("Split", symbolic=True)
def _split(x: Array, split: Array | None = None, *, axis: int, num_outputs: int | None = None) -> list[Array]:
    if split is None:
        if num_outputs is None:
            raise ValueError("Split without sizes needs num_outputs")
        size = -(-x.shape[axis] // num_outputs)
        return np.split(x, list(range(size, x.shape[axis], size)), axis=axis)
    sizes = _ints(split) or ()
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise ValueError(f"the parts {sizes} do not make up {x.shape[axis]}")
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


@_evaluates("Cast", symbolic=True)
def _cast(x: Array, *, to: int, saturate: int = 1, round_mode: str = "up") -> Array:
    wanted = ir.DataType(to)
    if x.dtype == object:
        if wanted not in (ir.DataType.INT64, ir.DataType.INT32):
            raise TypeError("a symbolic size stays an integer")
        return x
    if wanted.bitwidth < 8 or wanted.name.startswith("FLOAT8") or wanted is ir.DataType.STRING:
        raise TypeError(f"conversion to {wanted.name} is left to the run time")
    return x.astype(wanted.numpy())


@_evaluates("CastLike")
def _cast_like(x: Array, like: Array, *, saturate: int = 1, round_mode: str = "up") -> Array:
    return x.astype(like.dtype)


@_evaluates("ConstantOfShape")
def _constant_of_shape(shape: Array, *, value: Array | None = None) -> Array:
    filler = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    _bounded(_ints(shape) or ())
    return np.full(_ints(shape) or (), filler[0], filler.dtype)


@_evaluates("Range")
def _range(start: Array, limit: Array, delta: Array) -> Array:
    count = max(0, math.ceil((limit.item() - start.item()) / delta.item()))
    _bounded((count,))
    return np.asarray(start + np.arange(count) * delta, start.dtype)


@_evaluates("Expand")
def _expand(x: Array, shape: Array) -> Array:
    full = np.broadcast_shapes(x.shape, _ints(shape) or ())
    _bounded(full)
    return np.broadcast_to(x, full)


@_evaluates("Tile")
def _tile(x: Array, repeats: Array) -> Array:
    times = _ints(repeats) or ()
    if len(times) != x.ndim:
        raise ValueError(f"{len(times)} repeats for {x.ndim} axes")
    _bounded((x.size, *times))
    return np.tile(x, times)


@_evaluates("Add", symbolic=True, elementwise=True)
def _add(a: Array, b: Array) -> Array:
    return a + b


@_evaluates("Sub", symbolic=True, elementwise=True)
def _sub(a: Array, b: Array) -> Array:
    return a - b


@_evaluates("Mul", symbolic=True, elementwise=True)
def _mul(a: Array, b: Array) -> Array:
    return a * b


@_evaluates("Div", symbolic=True, elementwise=True)
def _div(a: Array, b: Array) -> Any:
    if a.dtype == object or b.dtype == object:
        return np.frompyfunc(divided, 2, 1)(a, b)
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if not b.all():
        raise ZeroDivisionError("division by zero")
    floor = a // b
    return np.asarray(floor + ((a % b != 0) & ((a < 0) != (b < 0))), a.dtype)


@_evaluates("Mod", symbolic=True, elementwise=True)
def _mod(a: Array, b: Array, *, fmod: int = 0) -> Array:
    if a.dtype.kind in "iu" and not b.all():
        raise ZeroDivisionError("division by zero")
    return np.fmod(a, b) if fmod else a % b


@_evaluates("Pow", elementwise=True)
def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu" and b.dtype.kind in "iu" and (b < 0).any():
        raise TypeError("what an integer to a negative power is depends on the run time")
    return np.power(a, b).astype(a.dtype)


@_evaluates("Where", symbolic=True, elementwise=True)
def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition.astype(bool), a, b)


@_evaluates("Equal", symbolic=True, elementwise=True)
def _equal(a: Array, b: Array) -> Array:
    if a.dtype == object or b.dtype == object:
        pairs = np.broadcast(a, b)
        return np.array([equal(x, y) for x, y in pairs], bool).reshape(pairs.shape)
    return np.equal(a, b)


@_evaluates("Trilu")
def _trilu(x: Array, k: Array | None = None, *, upper: int) -> Array:
    diagonal = 0 if k is None else int(k)
    return np.triu(x, diagonal) if upper else np.tril(x, diagonal)


@_evaluates("ReduceProd", symbolic=True)
def _reduce_prod(x: Array, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
    if noop_with_empty_axes and not (axes is not None and axes.size):
        return x
    result = np.prod(x, axis=_ints(axes) or None, keepdims=bool(keepdims))
    return np.asarray(result, x.dtype)


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(x).astype(x.dtype)


for _op, _function in {
    "Neg": np.negative,
    "Abs": np.abs,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Reciprocal": np.reciprocal,
    "Not": np.logical_not,
    "Sin": np.sin,
    "Cos": np.cos,
}.items():
    _evaluates(_op)(_unary(_function))

for _op, _comparison in {
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}.items():
    _evaluates(_op, elementwise=True)(_comparison)


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: reduce(pick, xs)


_evaluates("Max", elementwise=True)(_extreme(np.maximum))
_evaluates("Min", elementwise=True)(_extreme(np.minimum))
