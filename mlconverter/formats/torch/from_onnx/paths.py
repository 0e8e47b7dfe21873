"""Where layers and weights stand in a converted module: paths of attributes, made of names of the ONNX graph."""

from __future__ import annotations

import keyword
import re
from typing import Any

from torch import nn

from mlconverter.formats.torch.module import ConvertedModule


def lookup(root: nn.Module, path: str) -> Any:
    """What stands at a path, ``None`` where nothing does."""
    thing: Any = root
    for name in path.split("."):
        thing = getattr(thing, name, None)
        if thing is None:
            return None
    return thing


_TAKEN = frozenset((*dir(ConvertedModule), *vars(nn.Module()), "self", "meta", "stored"))
"""What a part of a path cannot be called."""


def dotted(name: str) -> str:
    """A name of the ONNX graph as a path of attributes."""
    parts = [re.sub(r"\W+", "_", part).strip("_") for part in re.sub(r":\d+$", "", name).split(".")]
    # A leading underscore would hide the weight; keywords and attributes that a module has cannot be its name.
    safe = [f"{part}_" if part in _TAKEN or keyword.iskeyword(part) else part for part in parts if part]
    return ".".join(safe) or "constant"
