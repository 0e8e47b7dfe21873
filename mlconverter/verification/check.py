"""The verification of one conversion: run source and target on the same inputs and compare all that comes out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from mlconverter.errors import ConversionError
from mlconverter.signature import IOSignature
from mlconverter.verification.adapters import Permuted
from mlconverter.verification.result import VerificationResult
from mlconverter.verification.runner import Runner, Varied
from mlconverter.verification.samples import SampleKind, sample_inputs
from mlconverter.verification.session import Inputs, Sample, Session
from mlconverter.verification.shapes import batch_inputs
from mlconverter.verification.successive import keeps_state, successive
from mlconverter.verification.tolerance import OTHER, Tolerances

Level = Literal["fast", "full", False]

FAST_SECONDS = 60.0
"""After so long, a fast verification starts no further run."""

SECOND_BATCH = 3
"""The other batch size of a full verification: odd, and no divisor of usual sizes."""

FAST_CALLS, FULL_CALLS = 4, 20
"""Successive calls of models that keep something from one to the next."""

SEEDS_APART = 100
"""Between successive calls: more than the seeds of one verification."""

_FAST: tuple[tuple[SampleKind, int, float], ...] = (("natural", 0, 1.0), ("edge", 0, 1.0))
_FAST_SECOND_BATCH: tuple[tuple[SampleKind, int, float], ...] = (("natural", 1, 1.0),)
_FULL: tuple[tuple[SampleKind, int, float], ...] = (
    *_FAST,
    ("noise", 0, 1.0),
    ("natural", 1, 1.0),
    ("edge", 1, 1.0),
    ("noise", 1, 1.0),
)
_FULL_SECOND_BATCH: tuple[tuple[SampleKind, int, float], ...] = (("natural", 2, 1.0), ("noise", 2, 1.0))
_WHERE_WEAK: tuple[tuple[SampleKind, int, float], ...] = (
    ("noise", 3, 1.0),
    ("natural", 3, 0.1),
    ("natural", 4, -1.0),
    ("edge", 3, 1.0),
    ("natural", 5, 10.0),
    ("natural", 6, 255.0),  # pictures as many applications feed them
)
"""Samples by kind, seed and factor of their floats; the last ones where those before prove too little."""


def verify_runners(
    source: Runner,
    target: Runner,
    *,
    level: Level = "fast",
    target_format: str = OTHER,
    rtol: float | None = None,
    rounded: str = "",
    inputs: Inputs | Sequence[Inputs] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    input_perms: Mapping[str, Sequence[int]] | None = None,
    output_perms: Mapping[str, Sequence[int]] | None = None,
    bisect: bool = False,
) -> VerificationResult:
    """Whether ``target`` computes what ``source`` computes.

    Args:
        source: runs the model that is right by definition.
        target: runs the model that was made from it.
        level: ``"fast"``: a natural and an edge input, and a second batch size where the batch is free in both; no further
            run after a minute. ``"full"``: two seeds of natural, edge and noise inputs, two more at the second batch size,
            and the source by its runtime's other kernels, which shows the source's own spread. Where that proves too
            little, both try a few samples more. ``False``: nothing is run.
        target_format: name of the target's format, which picks the tolerance.
        rtol: relative tolerance instead of the table's. Integers, bools and text stay exact, except quantised integers,
            which get it on top of one step.
        rounded: what the target was asked to round to, which has a tolerance of its own.
        inputs: the caller's own inputs, one set or several, instead of samples.
        sizes: sizes of free dimensions by name; one without a name is called ``"<input>:<axis>"``.
        seed: first seed of the samples.
        input_perms: axis orders of inputs that the target has in another order, ``target = source.transpose(perm)``.
        output_perms: the same for outputs.
        bisect: whether to find, where the target is wrong, the first tensor between the operators that differs.

    Raises:
        SignatureError: the caller's inputs, sizes or permutations do not fit the models.
        ValueError: there is no such ``level``.
    """
    if level not in ("fast", "full", False):
        raise ValueError(f"Verification is 'fast', 'full' or False, not {level!r}.")
    if level is False:
        return VerificationResult.unverified("verify=False", source=source.name, target=target.name)
    if input_perms or output_perms:
        target = Permuted(target, input_perms or {}, output_perms or {})
    seen, calls = (source.signature, target.signature), 0
    if keeps_state(source) or keeps_state(target):
        calls = 1 if inputs is not None else FULL_CALLS if level == "full" else FAST_CALLS
        source, target = successive(source, calls), successive(target, calls)
        inputs = None if inputs is None else _as_one_call(inputs)
    with contextlib.ExitStack() as stack:
        limit = FAST_SECONDS if level == "fast" and inputs is None else None
        session = Session(source, target, Tolerances(target_format, rtol, rounded), limit)
        session.bisects = bisect
        reason = _border_difference(source.signature, target.signature)
        if reason is not None:
            return session.result(reason)
        unranked = [s.name for s in source.signature.inputs if s.shape is None]
        if inputs is None and unranked:
            return session.result(unverified=f"nothing is known about the shape of {unranked}; give inputs to verify with")
        if level == "full" and isinstance(source, Varied):
            _vary(session, source, stack)
        if inputs is not None:
            for given in [inputs] if isinstance(inputs, Mapping) else inputs:
                session.run(Sample("given", None, {n: np.asarray(v) for n, v in given.items()}))
            return session.result()
        for sample in _samples(session, *seen, level=level, sizes=sizes, seed=seed, calls=calls):
            if session.late():
                break
            session.run(sample)
        session.look_between()
        return session.result()


def _as_one_call(inputs: Inputs | Sequence[Inputs]) -> Sequence[Inputs]:
    """Inputs of single calls, as inputs of successive ones of which there is one."""
    sets = [inputs] if isinstance(inputs, Mapping) else inputs
    return [{name: np.asarray(value)[None] for name, value in given.items()} for given in sets]


def _vary(session: Session, source: Varied, stack: contextlib.ExitStack) -> None:
    """Let a session run the source by its other kernels, too."""
    try:
        session.other = stack.enter_context(source.other_kernels())
    except ConversionError as error:
        session.notes.append(f"The source runs by one set of kernels only: {error}")


def _border_difference(source: IOSignature, target: IOSignature) -> str | None:
    """How the names of two signatures differ; their shapes and dtypes show when they run."""
    for what, want, got in (
        ("inputs", source.input_names, target.input_names),
        ("outputs", source.output_names, target.output_names),
    ):
        if want != got:
            return f"the {what} are {list(got)}, not {list(want)}; where only the names differ, compare by position"
    return None


def _samples(
    session: Session,
    source: IOSignature,
    target: IOSignature,
    *,
    level: Level,
    sizes: Mapping[str, int] | None,
    seed: int,
    calls: int,
) -> Iterator[Sample]:
    """The inputs of all runs, made one at a time; the last ones only as long as the session wants more.

    Where a run is some successive calls, they are those of all its calls.
    """

    def made(plan: tuple[tuple[SampleKind, int, float], ...], batch: int | None = None) -> Iterator[Sample]:
        for kind, offset, factor in plan:
            seeds = [seed + offset + call * SEEDS_APART for call in range(max(1, calls))]
            sets = [sample_inputs(source, kind=kind, seed=s, sizes=sizes, batch=batch, factor=factor) for s in seeds]
            inputs = {name: np.stack([given[name] for given in sets]) for name in sets[0]} if calls else sets[0]
            yield Sample(kind, seed + offset, inputs, factor)

    yield from made(_FULL if level == "full" else _FAST)
    if batch_is_free(source, target):
        yield from made(_FULL_SECOND_BATCH if level == "full" else _FAST_SECOND_BATCH, SECOND_BATCH)
    elif batch_inputs(source):
        session.notes.append("The target fixes a batch that is free in the source.")
    for sample in made(_WHERE_WEAK):
        if not session.wants_more:
            return
        yield sample


def batch_is_free(source: IOSignature, target: IOSignature) -> bool:
    """Whether some inputs of the source have a free batch, and the target leaves the first axis of all those free."""
    names = batch_inputs(source)
    shapes = {s.name: s.shape for s in target.inputs}
    return bool(names) and all(not shapes[n] or not isinstance((shapes[n] or (None,))[0], int) for n in names)
