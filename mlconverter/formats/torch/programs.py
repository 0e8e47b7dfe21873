"""Modules as programs that need no Python class: exported programs and TorchScript, each held against its module."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from mlconverter.errors import ConversionError
from mlconverter.formats.torch.exporters import dynamic_shapes
from mlconverter.formats.torch.inputs import ExampleInput, example_inputs
from mlconverter.formats.torch.observed import observed_signature
from mlconverter.formats.torch.runner import TorchRunner
from mlconverter.formats.torch.state import evaluating, refuse_other, refuse_unready
from mlconverter.formats.torch.trace_check import SEEDS, probes
from mlconverter.options import ConvertOptions, VerifyLevel
from mlconverter.report import Step
from mlconverter.verification import VerificationResult, compared


def exported_program(
    module: nn.Module, input_shape: Any, level: VerifyLevel, rtol: float | None
) -> tuple[torch.export.ExportedProgram, Step]:
    """A module in ``eval()`` mode as an exported program; dimensions that have a name or are ``None`` are free in it.

    Raises:
        ConversionError: ``torch.export`` does not take the module.
        SignatureError: the inputs do not fit it.
    """
    refuse_other(module)
    refuse_unready(module)
    inputs = example_inputs(module, input_shape)
    free = dynamic_shapes(inputs)
    start = time.perf_counter()
    with _converting(module, "an exported program"):
        program = torch.export.export(module, tuple(i.example for i in inputs), dynamic_shapes=free)
    seconds = time.perf_counter() - start
    return program, Step("torch → program", seconds, _compared(module, inputs, program.module(), level=level, rtol=rtol))


def torchscript(
    module: nn.Module, input_shape: Any, use_trace: bool, level: VerifyLevel, rtol: float | None
) -> tuple[torch.jit.ScriptModule, Step]:
    """A module in ``eval()`` mode as TorchScript: one run of it recorded, or its code compiled.

    Raises:
        ConversionError: TorchScript does not take the module.
        SignatureError: the inputs do not fit it.
    """
    refuse_other(module)
    refuse_unready(module)
    inputs = example_inputs(module, input_shape) if use_trace or input_shape is not None else None
    start = time.perf_counter()
    with _converting(module, "TorchScript"):
        if use_trace:
            trace: Any = torch.jit.trace
            script = trace(module, tuple(i.example for i in inputs or ()), check_trace=False, strict=False)
        else:
            script = torch.jit.script(module)
    seconds = time.perf_counter() - start
    return script, Step(
        "torch → TorchScript", seconds, _compared(module, inputs, script, level=level, rtol=rtol, recorded=use_trace)
    )


@contextmanager
def _converting(module: nn.Module, what: str) -> Iterator[None]:
    """What torch makes of a module is made in ``eval()`` mode, and errors of whichever kind are one.

    Raises:
        ConversionError: torch does not take the module.
    """
    with evaluating(module), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what tracing fixes is found by running it; that TorchScript is old is known
        try:
            yield
        except Exception as error:
            reason = (str(error).strip().splitlines() or [""])[0]
            raise ConversionError(f"The module does not become {what}: {type(error).__name__}: {reason}") from error


def _compared(
    module: nn.Module,
    inputs: list[ExampleInput] | None,
    made: nn.Module,
    *,
    level: VerifyLevel,
    rtol: float | None,
    recorded: bool = False,
) -> VerificationResult:
    """How a program compares with its module, on sizes that it was asked to take."""
    if level is False:
        return VerificationResult.unverified("verify=False")
    if inputs is None:
        return VerificationResult.unverified("nothing says what the module takes: give input_shape")
    signature = observed_signature(module, inputs, ConvertOptions(dynamic_batch=False))
    return compared(
        lambda: TorchRunner(module, signature),
        lambda: TorchRunner(made, signature),
        level=level,
        target_format="torch",
        rtol=rtol,
        # A record holds every decision as the example took it: inputs unlike the example show where it would be another one.
        inputs=list(probes(signature, SEEDS if level == "full" else SEEDS[:1])) if recorded else None,
    )
