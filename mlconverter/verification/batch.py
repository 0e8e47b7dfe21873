"""The proof that a model with a free batch treats every item of a batch by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlconverter.errors import MLConverterError
from mlconverter.signature import IOSignature
from mlconverter.verification.compare import compare_tensors
from mlconverter.verification.dtypes import Array
from mlconverter.verification.runner import Runner
from mlconverter.verification.samples import sample_inputs
from mlconverter.verification.shapes import batch_dims, batch_inputs
from mlconverter.verification.tolerance import Tolerances


def batch_failure(
    runner: Runner,
    n: int = 3,
    *,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    tolerances: Tolerances | None = None,
) -> str | None:
    """Why a batch of ``n`` is not the same as ``n`` single runs; ``None`` where it is.

    Every output has to be the single runs' joined along its first axis, or, where its shape does not depend on the
    batch, the same for all of them.

    Args:
        runner: runs a model whose inputs have a free batch.
        n: size of the batch, at least 2.
        seed: seed of the first item's inputs.
        sizes: sizes of the other free dimensions.
        tolerances: how far the values may be apart; the table's by default.

    Raises:
        ValueError: ``n`` is below 2.
    """
    if n < 2:
        raise ValueError(f"A batch of {n} proves nothing; at least 2 are needed.")
    signature, limits = runner.signature, tolerances or Tolerances()
    names = batch_inputs(signature)
    if not names:
        return "no input has a free batch"
    twice = _batch_elsewhere(signature)
    if twice is not None:
        return twice
    items = [sample_inputs(signature, kind="natural", seed=seed + i, sizes=sizes, batch=1) for i in range(n)]
    # An input without a batch is one for all items.
    items = [{k: v if k in names else items[0][k] for k, v in item.items()} for item in items]
    joined = {k: np.concatenate([item[k] for item in items]) if k in names else items[0][k] for k in items[0]}
    try:
        singles = [runner.run(item) for item in items]
        together = runner.run(joined)
    except MLConverterError as error:
        return f"the model does not run: {error}"
    how = {s.name: s.quantization for s in signature.outputs}
    for name, value in together.items():
        reason = _difference(name, value, [s[name] for s in singles])
        if reason is not None:
            return reason
        want = np.concatenate([s[name] for s in singles]) if _is_joined(value, singles[0][name], n) else singles[0][name]
        compared = compare_tensors(name, value, want, limits, how[name])
        if not compared:
            return f"output '{name}' of a batch of {n} is not that of {n} single runs: {compared.reason}"
    changing = any(not compare_tensors(k, single[k], singles[0][k], limits, how[k]) for single in singles[1:] for k in together)
    return None if changing else "no output changes with the input, so that mixed-up items would not show"


def _batch_elsewhere(signature: IOSignature) -> str | None:
    dims = batch_dims(signature)
    for spec in signature.inputs:
        if any(d in dims for d in (spec.shape or ())[1:]):
            return f"the batch is also a later axis of input '{spec.name}' ({spec})"
    return None


def _is_joined(together: Array, single: Array, n: int) -> bool:
    return single.ndim > 0 and together.shape == (n * single.shape[0], *single.shape[1:])


def _difference(name: str, together: Array, singles: list[Array]) -> str | None:
    """Why an output is neither the joined outputs of the single runs nor one for all; values are judged elsewhere."""
    shapes = {s.shape for s in singles}
    if len(shapes) > 1:
        return f"output '{name}' has the shapes {sorted(shapes)} in single runs, which cannot be compared with a batch"
    if _is_joined(together, singles[0], len(singles)):
        return None
    if together.shape != singles[0].shape:
        return f"output '{name}' has the shape {singles[0].shape} for one item and {together.shape} for {len(singles)}"
    if any(not np.array_equal(s, singles[0]) for s in singles[1:]):
        return f"output '{name}' has no batch axis and differs from item to item"
    return None
