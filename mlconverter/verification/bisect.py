"""Where two models part: the first tensor between their operators that differs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlconverter.errors import SignatureError
from mlconverter.verification.compare import TensorComparison, compare_tensors
from mlconverter.verification.dtypes import Array
from mlconverter.verification.runner import Runner, intermediates_of
from mlconverter.verification.tolerance import Tolerances


def bisect_runners(
    source: Runner, target: Runner, inputs: Mapping[str, Array], tolerances: Tolerances | None = None
) -> TensorComparison | None:
    """The first tensor in the source's order in which two models differ on ``inputs``, ``None`` where they agree in all.

    Raises:
        SignatureError: one of them does not show its tensors, or they have none by one name.
    """
    values = [intermediates_of(runner, {n: v.copy() for n, v in inputs.items()}) for runner in (source, target)]
    return first_difference(values[0], values[1], tolerances)


def first_difference(
    source: Mapping[str, Array], target: Mapping[str, Array], tolerances: Tolerances | None = None
) -> TensorComparison | None:
    """The first tensor that differs, ``None`` where none does.

    Tensors that only one of the two has are passed over: conversions fuse operators. One whose axes the target stores
    in the order of the other layout, channels first or last, is compared in that order.

    Args:
        source: the source's tensors by name, in the order in which they are computed.
        target: the target's tensors by name.
        tolerances: how far the values may be apart; the table's by default.

    Raises:
        SignatureError: the two have no tensor in common, so that nothing was compared.
    """
    common = [name for name in source if name in target]
    if not common:
        raise SignatureError(
            f"No tensor can be compared: the source has {len(source)}, the target {len(target)}, none by one name."
        )
    for name in common:
        comparisons = [
            compare_tensors(name, target[name], want, tolerances or Tolerances()) for want in _layouts(source[name], target[name])
        ]
        if not any(comparisons):
            return comparisons[0]
    return None


def _layouts(want: Array, got: Array) -> list[Array]:
    """A tensor as it is, and in those orders of the other layout in which it has the shape of ``got``."""
    orders = [want.transpose(p) for p in _perms(want.ndim)]
    fitting = [np.asarray(w) for w in (want, *orders) if w.shape == got.shape]
    return fitting or [want]


def _perms(rank: int) -> list[tuple[int, ...]]:
    if rank not in (3, 4, 5):
        return []
    middle = tuple(range(1, rank - 1))
    return [(0, rank - 1, *middle), (0, *range(2, rank), 1)]
