"""Where two models part: the first tensor between their operators that differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mlconverter.errors import SignatureError
from mlconverter.verification.compare import TensorComparison, compare_tensors
from mlconverter.verification.dtypes import Array
from mlconverter.verification.runner import Inspectable
from mlconverter.verification.tolerance import Tolerances

Values = Mapping[str, Array] | Iterable[tuple[str, Array]]


def first_difference(
    source_values: Values,
    target_values: Values,
    order: Iterable[str],
    *,
    tolerances: Tolerances | None = None,
    names: Mapping[str, str] | None = None,
    perms: Mapping[str, Sequence[int]] | None = None,
) -> TensorComparison | None:
    """The first tensor that differs, ``None`` where none does.

    Args:
        source_values: the source's tensors by name.
        target_values: the target's tensors by name.
        order: the source's names in the order in which they are computed. Those that only one of the two has are passed
            over: conversions fuse operators.
        tolerances: how far the values may be apart; the table's by default.
        names: the target's name of a tensor of the source, where it is another.
        perms: axis orders of tensors that the target has in another order, ``target = source.transpose(perm)``, by the
            source's name.

    Raises:
        SignatureError: the two have no tensor in common, so that nothing was compared.
    """
    source, target = dict(source_values), dict(target_values)
    limits, compared = tolerances or Tolerances(), 0
    for name in order:
        other = (names or {}).get(name, name)
        if name not in source or other not in target:
            continue
        compared += 1
        want, perm = source[name], (perms or {}).get(name)
        if perm is not None and sorted(perm) == list(range(np.ndim(want))):
            want = want.transpose(perm)
        comparison = compare_tensors(name, target[other], want, limits)
        if not comparison:
            return comparison
    if not compared:
        raise SignatureError(
            f"No tensor can be compared: the source has {len(source)}, the target {len(target)}, none by one name."
        )
    return None


def bisect_runners(
    source: Inspectable,
    target: Inspectable,
    inputs: Mapping[str, Array],
    *,
    tolerances: Tolerances | None = None,
    names: Mapping[str, str] | None = None,
    perms: Mapping[str, Sequence[int]] | None = None,
) -> TensorComparison | None:
    """The first tensor in the source's order in which two models differ on ``inputs``, ``None`` where they agree.

    Raises:
        SignatureError: they have no tensor in common.
    """
    values = dict(source.intermediates({n: v.copy() for n, v in inputs.items()}))
    other = target.intermediates({n: v.copy() for n, v in inputs.items()})
    return first_difference(values, other, values, tolerances=tolerances, names=names, perms=perms)
