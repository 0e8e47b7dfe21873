"""Which layers are trained, and a new one at the end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx, nn

from mlconverter.errors import SignatureError


def freeze(model: nn.Module, what: str | Sequence[str] | int) -> None:
    """Make parameters untrainable, by what their names begin with, or by the depth of their layers.

    Raises:
        SignatureError: a name fits no parameter.
    """
    if isinstance(what, int):
        found = [p for layer in _layers(model)[:what] for p in layer.parameters()]
    else:
        parameters = dict(model.named_parameters())
        names = [what] if isinstance(what, str) else list(what)
        found = [p for key, p in parameters.items() if any(f"{key}.".startswith(name.rstrip(".") + ".") for name in names)]
        for name in names:
            if not any(f"{key}.".startswith(name.rstrip(".") + ".") for key in parameters):
                raise SignatureError(f"freeze='{name}' names no parameter. The model has: {', '.join(parameters)}.")
    for parameter in found:
        parameter.requires_grad_(False)


def _layers(model: nn.Module) -> list[nn.Module]:
    """Layers with parameters of their own, in the order in which they run, where the model says it."""
    named = dict(model.named_modules())
    order = list(named)
    if isinstance(model, fx.GraphModule):
        order = [str(node.target) for node in model.graph.nodes if node.op == "call_module"]
    inner = [part for name in order for part in named[name].modules()]
    return [
        part
        for part in dict.fromkeys(inner)
        if any(True for _ in part.parameters(recurse=False)) or hasattr(part, "parametrizations")
    ]


def new_head(model: nn.Module, num_classes: int) -> None:
    """Put a new layer in the place of the last linear one or 1×1 convolution.

    Raises:
        SignatureError: there is none.
    """
    kinds = (nn.Linear, nn.Conv2d)
    heads = [
        p
        for p in _layers(model)
        if isinstance(p, kinds) and getattr(p, "kernel_size", (1, 1)) == (1, 1) and getattr(p, "groups", 1) == 1
    ]
    if not heads:
        raise SignatureError("The model has neither a linear layer nor a 1×1 convolution: there is no head to replace.")
    old = heads[-1]
    name = next(key for key, part in model.named_modules() if part is old)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same head each time: resuming needs it
        bias = old.bias is not None
        head = (
            nn.Linear(old.in_features, num_classes, bias)
            if isinstance(old, nn.Linear)
            else nn.Conv2d(old.in_channels, num_classes, 1, old.stride, bias=bias)  # type: ignore[arg-type]
        )
    model.set_submodule(name, head.to(old.weight.device).train(old.training))
    if isinstance(model, fx.GraphModule):
        _follow(model, name, old.weight.shape[0], num_classes)


def _follow(model: fx.GraphModule, name: str, old: int, new: int) -> None:
    """Let reshapes behind the head follow it, where they have its size as a number."""
    behind = {node for node in model.graph.nodes if node.target == name}
    for node in model.graph.nodes:
        if behind.intersection(node.all_input_nodes):
            behind.add(node)
            if node.target in ("reshape", "view", "expand", torch.reshape):
                node.args = fx.node.map_aggregate(node.args, lambda size: new if isinstance(size, int) and size == old else size)
    model.recompile()
