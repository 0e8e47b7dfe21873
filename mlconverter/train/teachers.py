"""A teacher: outputs to be like, from the runtime of the model that was converted, or from a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from mlconverter.errors import SignatureError
from mlconverter.hub.border import border_change, inverted
from mlconverter.verification.runner import Runner


def origin_of(model: Any) -> Any:
    """What a converted module knows of its conversion, ``None`` for others."""
    return model.origin if getattr(model, "knows_its_origin", False) else None


def as_function(teacher: Any, model: nn.Module) -> Callable[[Any], Any]:
    """A teacher as a function of the inputs.

    Raises:
        SignatureError: it is nothing that can teach.
    """
    runner = teacher.source_runner() if hasattr(teacher, "source_runner") else teacher
    if isinstance(runner, Runner):
        return _RunnerTeacher(runner, model)
    if isinstance(teacher, nn.Module):
        return _ModuleTeacher(teacher)
    if not callable(teacher):
        raise SignatureError(f"A teacher is a converter, a module or a function of the inputs, not a {type(teacher).__name__}.")
    return teacher  # type: ignore[no-any-return]


class _ModuleTeacher:
    def __init__(self, module: nn.Module) -> None:
        self.module = module.eval()

    @torch.no_grad()
    def __call__(self, *inputs: Any) -> Any:
        return self.module.to(inputs[0].device)(*inputs)


class _RunnerTeacher:
    """Feeds a runtime in its own layout, dtype and batch, and gives what the converted module would."""

    def __init__(self, runner: Runner, model: nn.Module) -> None:
        origin = origin_of(model)
        self.runner, self.change = runner, border_change(runner.signature, origin and origin.options.io_layout)

    def __call__(self, *inputs: Any) -> Any:
        arrays = {}
        for spec, value in zip(self.runner.signature.inputs, inputs, strict=True):
            array, grid = value.detach().cpu().numpy(), spec.quantization
            if spec.name in self.change.inputs:
                array = array.transpose(inverted(self.change.inputs[spec.name]))
            if grid is not None and array.dtype.kind == "f":
                limits = np.iinfo(spec.dtype)
                array = np.clip(np.rint(array / grid.scale[0]) + grid.zero_point[0], limits.min, limits.max)
            arrays[spec.name] = np.ascontiguousarray(array, spec.dtype)
        batch = len(inputs[0])
        step = min((s.shape[0] for s in self.runner.signature.inputs if s.shape and isinstance(s.shape[0], int)), default=batch)
        parts = [self.runner.run({n: a[i : i + step] for n, a in arrays.items()}) for i in range(0, batch, step)]
        outputs = []
        for spec in self.runner.signature.outputs:
            array, grid = np.concatenate([part[spec.name] for part in parts]), spec.quantization
            if grid is not None and inputs[0].is_floating_point():
                array = (array.astype(np.float32) - grid.zero_point[0]) * np.float32(grid.scale[0])
            if spec.name in self.change.outputs:
                array = array.transpose(self.change.outputs[spec.name])
            outputs.append(torch.from_numpy(np.ascontiguousarray(array)).to(inputs[0].device))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
