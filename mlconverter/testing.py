"""For integration test scripts: any two models, files or runtimes, compared as strictly as a conversion is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from mlconverter.converter import format_of
from mlconverter.verification import Renamed, Runner, VerificationResult, verify_runners
from mlconverter.verification.check import Level


def verify(
    a: Any,
    b: Any,
    *,
    level: Level = "full",
    rtol: float | None = None,
    inputs: Any = None,
    sizes: Mapping[str, int] | None = None,
    input_shape: Any = None,
    match: str = "names",
    input_perms: Mapping[str, Sequence[int]] | None = None,
    output_perms: Mapping[str, Sequence[int]] | None = None,
    bisect: bool = False,
) -> VerificationResult:
    """Whether ``b`` computes what ``a`` computes.

    Args:
        a: what is right: a model of any format, a path, or a runner.
        b: what is in question: the same.
        level: ``"fast"`` or ``"full"``.
        rtol: relative tolerance instead of the table's.
        inputs: inputs to compare on: a dict by name, or several, instead of samples.
        sizes: sizes of free dimensions by name.
        input_shape: shapes of the inputs where one side is a plain torch module.
        match: ``"names"``: inputs and outputs have to have the same names in the same order; ``"position"``: names may differ.
        input_perms: axis orders of inputs that ``b`` has in another order, ``b = a.transpose(perm)``, by name.
        output_perms: the same for outputs.
        bisect: where ``b`` is wrong, whether to find the first tensor between its operators that differs from that of ``a`` by
            the same name; ``first_difference`` of the result, or a note why it cannot be found.

    Returns:
        The verdict; true only where it is ``"verified"``.

    Raises:
        NotRunnableError: one of the two cannot be run here.
        SignatureError: inputs or sizes do not fit.
    """
    source, _ = _runner(a, input_shape)
    target, format = _runner(b, input_shape)
    if match == "position":
        target = Renamed(target, source.signature.input_names, source.signature.output_names)
    elif match != "names":
        raise ValueError(f"match is 'names' or 'position', not {match!r}.")
    with source, target:
        return verify_runners(
            source,
            target,
            level=level,
            target_format=format,
            rtol=rtol,
            inputs=inputs,
            sizes=sizes,
            input_perms=input_perms,
            output_perms=output_perms,
            bisect=bisect,
        )


def assert_same_outputs(a: Any, b: Any, **choices: Any) -> VerificationResult:
    """Fail unless ``b`` computes what ``a`` computes; arguments are those of :func:`verify`.

    Raises:
        AssertionError: the verdict is not ``"verified"``; its message is the summary.
    """
    result = verify(a, b, **choices)
    if not result:
        raise AssertionError(result.summary())
    return result


def _runner(model: Any, input_shape: Any) -> tuple[Runner, str]:
    if isinstance(model, Runner):
        return model, "*"
    is_path = isinstance(model, (str, os.PathLike))
    cls = format_of(None, model) if is_path else format_of(model)
    given = {} if cls.format != "torch" else {"input_shape": input_shape}
    converter = cls(model_path=model, **given) if is_path else cls(model, **given)
    return converter.source_runner(), cls.format
