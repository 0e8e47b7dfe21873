"""The code of a recorded graph as a person would write it."""

from __future__ import annotations

import re
from typing import Any

from torch import fx

RUNTIME = "mlconverter.formats.torch.from_onnx.runtime"
"""The package whose functions are called ``runtime.<name>`` in readable code."""

_FREED = re.compile(r";(  \w+ = (\w+ = )*None)$", re.MULTILINE)
_KEYWORD = re.compile(r"([(,] ?)(\w+) = ")
_NUMBERED = re.compile(r'getattr\((self[\w.\[\]]*), "(\d+)"\)')


def readable(graph: fx.Graph, prefix: str = "runtime.") -> str:
    """The definition of ``forward``: names of run-time helpers cut short, layers by number, nothing set to ``None``.

    Args:
        graph: of a converted module.
        prefix: what stands before the names of run-time helpers.
    """
    made = graph.python_code("self")
    text = _FREED.sub("", made.src)
    for mangled, thing in made.globals.items():
        text = re.sub(rf"\b{re.escape(mangled)}\b", _short(mangled, thing, prefix), text)
    text = _KEYWORD.sub(r"\1\2=", text)
    while _NUMBERED.search(text):
        text = _NUMBERED.sub(r"\1[\2]", text)
    lines = [line.rstrip() for line in text.replace("torch.nn.functional.", "F.").replace("torch._C._nn.", "F.").splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def _short(mangled: str, thing: Any, prefix: str) -> str:
    module, name = getattr(thing, "__module__", None) or "", getattr(thing, "__qualname__", mangled)
    if module == RUNTIME or module.startswith(f"{RUNTIME}."):
        return f"{prefix}{name}"
    return f"{module.lstrip('_')}.{name}" if module in ("math", "_operator", "operator") else mangled
