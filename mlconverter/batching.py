"""A batch of 1 that a source bakes in, freed where running the result proves that every item is treated by itself."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlconverter.conversion import Conversion
from mlconverter.errors import ConversionError
from mlconverter.hub.model import HubModel
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner, batch_failure
from mlconverter.verification.shapes import batch_inputs

PROOF_BATCH = 3
"""Batch with which a freed batch is proved: odd, and no divisor of usual sizes."""


def converted(
    hub: HubModel,
    options: ConvertOptions,
    convert: Callable[[HubModel], Conversion],
    runner: Callable[[Any, IOSignature], Runner],
    *,
    unasked: bool,
) -> Conversion:
    """A conversion of the hub, with its batch free where that is wanted and proved.

    Args:
        hub: the model.
        options: ``dynamic_batch`` says whether to free the batch.
        convert: from the hub to the format.
        runner: runs what that gives.
        unasked: whether this format frees the batch by itself, where the options leave that open.

    Raises:
        ConversionError: the model cannot be converted, or ``dynamic_batch=True`` and its batch cannot be freed.
    """
    from mlconverter.hub.rebatch import free_batch, unbaked

    insists = options.dynamic_batch is True
    if not insists and not (options.dynamic_batch == "auto" and unasked):
        return convert(hub)
    other = unbaked(hub)
    if other is not None:
        if insists and not batch_inputs(hub.signature):
            raise ConversionError(f"The batch cannot be freed: {other}.")
        return convert(hub)
    try:
        made = convert(free_batch(hub))
        with contextlib.redirect_stderr(io.StringIO()):  # torch.fx prints the code of a forward that fails
            reason = batch_failure(runner(made.model, made.signature), PROOF_BATCH)
    except ConversionError as error:
        reason = f"it cannot be converted with a free batch: {error}"
    if reason is None:
        proof = f"The batch of 1 is freed: a batch of {PROOF_BATCH} gives what {PROOF_BATCH} single runs give."
        return replace(made, notes=(*made.notes, proof))
    if insists:
        raise ConversionError(f"The batch of 1 cannot be freed: {reason}.")
    made = convert(hub)
    return replace(made, notes=(*made.notes, f"The batch stays fixed at 1: {reason}."))
