"""An engine as an ExportedProgram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from mlconverter.formats.trt.engine import TRTEngine


def exported(engine: TRTEngine) -> torch.export.ExportedProgram:
    """A program that runs an engine and nothing else.

    Nothing is run to make it: what the operator gives is told from what it is said to give. Sizes that the engine leaves free
    are free in the program, within the engine's range.
    """
    ranges: dict[str, Any] = {}
    examples, free = [], []
    for spec in engine.signature.inputs:
        low, usual, high = engine.info.profile.get(spec.name) or (spec.concrete(),) * 3
        axes = {}
        for axis in spec.free_axes:
            if low[axis] == high[axis]:
                continue
            key = spec.shape[axis] if spec.shape is not None else None
            name = key if isinstance(key, str) else f"{spec.name}:{axis}"
            # Names of torch's have to be words.
            axes[axis] = ranges.setdefault(name, torch.export.Dim(f"free_{len(ranges)}", min=low[axis], max=high[axis]))
        # From a 1 torch would take it that the size is always 1.
        sizes = [min(max(s, 2), high[i]) if i in axes else s for i, s in enumerate(usual)]
        examples.append(torch.empty(sizes, dtype=getattr(torch, spec.dtype)))
        free.append(axes)
    return torch.export.export(engine.to_module(), tuple(examples), dynamic_shapes=(tuple(free),) if any(free) else None)
