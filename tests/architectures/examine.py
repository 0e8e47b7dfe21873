"""What becomes of a network on its way torch → ONNX → torch: its results, its weights, and how it trains."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mlconverter import Converter
from tests.architectures.row import Row, filled
from tests.architectures.specs import Architecture

RTOL = 1e-4
OWN_ROUNDING = 4
"""How often a difference may exceed torch's own from float64: untrained networks amplify rounding."""

STEPS, MOVES, SAME_LOSS = 10, 0.05, 1e-3
MOST_RATES = 9


@dataclass
class Trained(Row):
    """What was found of one network.

    Attributes:
        stage: how far it came: ``export``, ``convert``, ``outputs``, ``parameters``, ``gradients``, ``training`` or ``ok``.
        reason: why no further.
        to_onnx: seconds, unverified.
        to_torch: seconds, unverified.
        difference: of the outputs, as part of their largest value.
        parameters: trainable numbers.
        moved: by which part of it ten steps moved the loss.
        losses: largest relative difference between the losses of the two modules in ten steps.
    """

    to_onnx: float = math.nan
    to_torch: float = math.nan
    difference: float = math.nan
    parameters: int = 0
    moved: float = math.nan
    losses: float = math.nan

    def numbers(self) -> dict[str, str]:
        """What stands in the columns of a table."""
        return {
            "to ONNX, s": f"{self.to_onnx:.1f}",
            "to torch, s": f"{self.to_torch:.2f}",
            "outputs": f"{self.difference:.0e}",
            "parameters": f"{self.parameters:,}",
            "loss moved": f"{self.moved:.0%}",
            "losses": f"{self.losses:.0e}",
        }


def examine_alone(name: str) -> Trained:
    """Take a network there and back."""
    return filled(name, Trained, _examine)


def _examine(architecture: Architecture, row: Trained) -> None:
    original = architecture.make()
    shapes = shapes_of(architecture)
    start = time.perf_counter()
    exported = Converter(copy.deepcopy(original), input_shape=shapes, verify=False).to_onnx()
    row.stage, row.to_onnx = "convert", time.perf_counter() - start
    start = time.perf_counter()
    module = Converter(exported, verify=False).to_torch()
    row.stage, row.to_torch = "outputs", time.perf_counter() - start

    inputs = architecture.inputs(1)
    row.difference, allowed = _difference(original, module, inputs)
    assert row.difference <= allowed, f"outputs differ by {row.difference:.1e} of the largest, allowed {allowed:.1e}"

    row.stage = "parameters"
    used = _with_gradient(original, inputs)
    trained = [p for p in module.parameters() if p.requires_grad]
    row.parameters = sum(p.numel() for p in trained)
    assert _values(used) == _values(trained), (
        f"{row.parameters} trainable numbers, the network uses {sum(p.numel() for p in used)}, or other values"
    )
    row.stage = "gradients"
    reached = _with_gradient(module, inputs)
    unreached = [n for n, p in module.named_parameters() if p.requires_grad and not any(p is r for r in reached)]
    assert not unreached, f"no gradient reaches {unreached[:3]}"

    row.stage = "training"
    losses, row.moved = _losses(original, architecture, None)
    again, _ = _losses(module, architecture, losses.rate)
    row.losses = max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(losses.values, again.values, strict=True))
    assert row.moved >= MOVES, f"the loss moved by {row.moved:.1%} only"
    assert row.losses <= SAME_LOSS, f"losses differ by {row.losses:.1e}"
    row.stage = "ok"


def shapes_of(architecture: Architecture) -> list[Any]:
    """What a converter is told about the inputs."""
    return [(s, "int64") if i in architecture.integers else s for i, s in enumerate(architecture.shapes)]


def _flat(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    values = result.values() if isinstance(result, dict) else result
    return [tensor for value in values for tensor in _flat(value)]


def _difference(original: nn.Module, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[float, float]:
    """The largest difference of any output as part of its largest value, and what is allowed."""
    with torch.no_grad():
        want, got = _flat(original(*inputs)), _flat(module(*inputs))
    exact = in_double(original, inputs) or want
    assert [w.shape for w in want] == [g.shape for g in got], "outputs have other shapes"
    worst, allowed = 0.0, RTOL
    for w, g, e in zip(want, got, exact, strict=True):
        scale = float(w.abs().max()) or 1.0
        worst = max(worst, float((w - g).abs().max()) / scale)
        allowed = max(allowed, OWN_ROUNDING * float((w - e).abs().max()) / scale)
    return worst, allowed


def in_double(original: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor] | None:
    """What a network gives in double precision; ``None`` where it makes single-precision tensors of its own."""
    try:
        with torch.no_grad():
            return _flat(copy.deepcopy(original).double()(*(i.double() if i.is_floating_point() else i for i in inputs)))
    except RuntimeError:
        return None


def _loss(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """A loss that depends on every element of every output, and differently."""
    parts = []
    for i, output in enumerate(_flat(module(*inputs))):
        if output.is_floating_point():
            wanted = torch.rand(output.shape, generator=torch.Generator().manual_seed(i))
            parts.append(((output - wanted) ** 2).mean())
    return torch.stack(parts).sum()


def _with_gradient(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[nn.Parameter]:
    """The parameters that a gradient reaches; it may be zero."""
    module.zero_grad(set_to_none=True)
    _loss(module, inputs).backward()
    reached = [p for p in module.parameters() if p.grad is not None]
    module.zero_grad(set_to_none=True)
    return reached


def _values(parameters: list[nn.Parameter]) -> tuple[int, int, int]:
    """How many numbers there are, and two sums over their mixed bits, which do not depend on their order."""
    bits = torch.cat([torch.zeros(0), *(p.detach().reshape(-1) for p in parameters)]).view(torch.int32).to(torch.int64)
    mixed = (bits * 0x45D9F3B) ^ (bits >> 11)
    return bits.numel(), int(mixed.sum()), int((mixed * mixed).sum())


@dataclass(frozen=True)
class _Losses:
    rate: float
    values: tuple[float, ...]


def _losses(module: nn.Module, architecture: Architecture, rate: float | None) -> tuple[_Losses, float]:
    """Losses before each of ten steps, and how far they moved; at a rate by which that should be enough where none is given."""
    state = copy.deepcopy(module.state_dict())
    tried = _rate(module, architecture.inputs(1)) if rate is None else rate
    moved, values = 0.0, []
    for _ in range(1 if rate is not None else MOST_RATES):
        module.load_state_dict(state)
        values = _train(module, architecture, tried)
        moved = abs(values[-1] - values[0]) / max(abs(values[0]), 1e-12)
        if moved >= MOVES or not math.isfinite(moved):
            break
        tried *= 3
    module.load_state_dict(state)
    return _Losses(tried, tuple(values)), moved


def _rate(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    """The rate at which a step along the gradient takes a fiftieth off the loss, as long as that is straight."""
    module.zero_grad(set_to_none=True)
    loss = _loss(module, inputs)
    loss.backward()
    steepness = sum(float(p.grad.double().square().sum()) for p in module.parameters() if p.grad is not None)
    return 0.02 * loss.item() / max(steepness, 1e-30)


def _train(module: nn.Module, architecture: Architecture, rate: float) -> list[float]:
    optimizer = torch.optim.SGD(module.parameters(), rate)
    inputs, values = architecture.inputs(1), []
    for _ in range(STEPS):
        loss = _loss(module, inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values
