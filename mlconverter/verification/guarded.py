"""The verification of a conversion, whose models may be ones that nothing here can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlconverter.errors import CorruptModelError, NotRunnableError
from mlconverter.verification.check import verify_runners
from mlconverter.verification.result import VerificationResult
from mlconverter.verification.runner import Runner


def compared(source: Callable[[], Runner], target: Callable[[], Runner], **choices: Any) -> VerificationResult:
    """As :func:`verify_runners`, for runners that are yet to be made.

    Where one of them cannot be made for want of a kernel or a device, nothing is known and the result is unverified. A
    target that its runtime finds to be no valid model is wrong.

    Args:
        source: makes the runner of the model that is right by definition.
        target: makes the runner of the model that was made from it.
        **choices: those of :func:`verify_runners`.
    """
    try:
        runs_source = source()
    except (NotRunnableError, CorruptModelError) as error:
        return VerificationResult.unverified(f"{error}")
    with runs_source:
        try:
            runs_target = target()
        except NotRunnableError as error:
            return VerificationResult.unverified(f"{error}", source=runs_source.name)
        except CorruptModelError as error:
            return VerificationResult("wrong", f"{error}", source=runs_source.name)
        with runs_target:
            return verify_runners(runs_source, runs_target, **choices)
