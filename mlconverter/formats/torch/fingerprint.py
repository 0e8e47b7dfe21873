"""What a module computes, apart from the values of its weights, as digests that tell what was changed by hand."""

from __future__ import annotations

import hashlib
from typing import Any

from torch import fx, nn

from mlconverter.formats.torch.storage import StoredWeights


def fingerprint(module: fx.GraphModule) -> dict[str, str]:
    """What a module computes, not the values of its weights: a digest of its code (``""``) and of each layer and part by name.

    A changed activation or stride leaves the state-dict keys as they are and changes this; so does a hook or a
    forward of somebody's own.
    """
    digests = {}
    for name, layer in module.named_modules(remove_duplicate=False):
        kind = f"{type(layer).__module__}.{type(layer).__qualname__}"
        does = f"{type(layer).__name__} {_code(layer)}" if isinstance(layer, fx.GraphModule) else f"{kind} {configuration(layer)}"
        kept = layer._non_persistent_buffers_set  # which may be of another size in every call
        own = (*layer._parameters.items(), *((n, t) for n, t in layer._buffers.items() if n not in kept))
        holds = [(n, tuple(t.shape), t.is_floating_point()) for n, t in own if t is not None]
        digests[name] = hashlib.sha256(f"{does} {interference(layer)} {holds}".encode()).hexdigest()
    return digests


def _code(module: fx.GraphModule) -> str:
    """What torch.fx compiled, which is at hand; to print it for people takes as long again."""
    return str(fx.GraphModule.code.fget(module))  # type: ignore[attr-defined]


def configuration(layer: nn.Module) -> list[tuple[str, Any]]:
    """Attributes of a layer that are plain values: strides, epsilons, modes."""
    plain = (int, float, str, bool, tuple, type(None))
    values = vars(layer).items()
    return sorted((n, v) for n, v in values if not n.startswith("_") and n != "training" and isinstance(v, plain))


def interference(layer: nn.Module) -> tuple[int, bool]:
    """How many hooks change what a layer computes, those of the conversion left out, and whether its forward was replaced."""
    hooks = (*layer._forward_hooks.values(), *layer._forward_pre_hooks.values())
    foreign = [hook for hook in hooks if not isinstance(getattr(hook, "__self__", None), StoredWeights)]
    return len(foreign), "forward" in vars(layer)
