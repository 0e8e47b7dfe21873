"""Writes a converted module as a Python file that needs torch alone, with its weights beside it."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import os
import pkgutil
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from mlconverter.cache import atomic_write
from mlconverter.errors import ConversionError
from mlconverter.formats.torch import standalone
from mlconverter.formats.torch.dtypes import name_of
from mlconverter.formats.torch.fingerprint import configuration, interference
from mlconverter.formats.torch.module import ConvertedModule, as_stored
from mlconverter.formats.torch.readable import RUNTIME, readable
from mlconverter.formats.torch.states import reset_states, states_of

_PLAIN = frozenset(
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool float8_e4m3fn float8_e5m2".split()
)
"""Element types that safetensors names; others are written as their bytes."""

_HEAD = '''"""A model converted from ONNX by mlconverter. The weights are in '{weights}'.

>>> model = load()
"""

from __future__ import annotations

import dataclasses
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import device, inf, nan, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

SignatureError = ValueError
'''

_TAIL = '''

def load(weights: str | Path = Path(__file__).with_name("{weights}")) -> Model:
    """The model with its weights, in eval mode."""
    with torch.device("meta"):
        model = Model()
    read_weights(model, weights)
    return model.eval()
'''


def write_source(module: nn.Module, path: str | os.PathLike[str]) -> Path:
    """Write a module file, and the weights beside it as ``<name>.safetensors``.

    Args:
        module: a converted module; weights that its origin keeps in half precision are written rounded to it.
        path: the file; its folder must exist.

    Raises:
        ConversionError: a layer was put in whose construction cannot be told.
        SaveError: a file cannot be written.
    """
    if not isinstance(module, ConvertedModule):
        raise ConversionError("Only a module that was converted has source to write; this one has its own already.")
    target, stored = Path(path), as_stored(module)
    weights = target.with_suffix(".safetensors")
    assert isinstance(stored, ConvertedModule)
    if states_of(stored):
        stored = copy.deepcopy(stored)
        reset_states(stored)
    text = source_of(stored, weights.name)
    _save(stored, weights)
    return atomic_write(target, text.encode())


def source_of(module: fx.GraphModule, weights: str) -> str:
    """The text of the file."""
    parts = {path: part for path, part in module.named_modules() if isinstance(part, fx.GraphModule)}
    names = {path: _class_name(path) for path in parts}
    classes = [_class(part, names[path], path, names) for path, part in reversed(parts.items())]
    used = sorted(set(re.findall(r"\bruntime\.(\w+)", "\n".join(classes))))
    helpers = list(_helpers(used))
    if used:
        helpers.append(f"runtime = SimpleNamespace({', '.join(f'{name}={name}' for name in used)})")
    body = "\n\n\n".join([*helpers, *map(_plain_source, (standalone.Group, standalone.put, standalone.read_weights)), *classes])
    text = (
        _HEAD.format(title="A model converted from ONNX", weights=weights) + "\n\n" + body + "\n" + _TAIL.format(weights=weights)
    )
    return re.sub(r"\brt_(\w+)", r"\1", text)


def _class_name(path: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[._]+", path)) or "Model"


def _class(module: fx.GraphModule, name: str, path: str, names: dict[str, str]) -> str:
    """The text of the class of a module or of one of its parts."""
    lines = [f"class {name}(nn.Module):", "    def __init__(self) -> None:", "        super().__init__()"]
    lines += [f"        {line}" for line in _construction(module, path, names)]
    return "\n".join(lines) + "\n\n" + textwrap.indent(readable(_without_storage(module.graph)), "    ").rstrip()


def _without_storage(graph: fx.Graph) -> fx.Graph:
    """The graph with weights read as they are."""
    twin, values = fx.Graph(), dict[fx.Node, fx.Node]()
    twin.graph_copy(graph, values)
    result = next(node for node in graph.nodes if node.op == "output")
    twin.output(fx.map_arg(result.args[0], lambda node: values[node]))
    for node in list(twin.nodes):
        if node.op == "call_module" and str(node.target).startswith("stored."):
            node.replace_all_uses_with(node.args[0])
            twin.erase_node(node)
    return twin


def _construction(module: fx.GraphModule, path: str, names: dict[str, str]) -> Iterator[str]:
    """Lines that make the layers, parameters and buffers of a module."""
    layers = {str(node.target) for node in module.graph.nodes if node.op == "call_module"}
    inner = {name for name, part in module.named_modules() if name and isinstance(part, fx.GraphModule)}
    for name, part in module.named_modules(remove_duplicate=False):
        if _is_below(name, layers | inner) or name.startswith("stored"):
            continue
        if name in inner:
            yield f"self.{name} = {names[f'{path}.{name}' if path else name]}()"
        elif name in layers:
            made, text = _layer(part)
            yield f"self.{name} = {text}" if name.isidentifier() else f'put(self, "{name}", {text})'
            yield from _unlike(name, part, made)
    for name, tensor in _state(module):
        if not _is_below(name, layers | inner):
            yield _put(name, tensor)
    if not path:
        yield from _ties(module)


def _is_below(name: str, outer: Iterable[str]) -> bool:
    return any(name.startswith(f"{o}.") for o in outer)


def _state(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """All parameters and buffers by all their names, but for what the conversion notes on them."""
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return ((name, tensor) for name, tensor in named if "stored" not in name.split("."))


def _layer(layer: nn.Module) -> tuple[nn.Module, str]:
    """A layer of the same kind, and the text that makes it."""
    kind, said = type(layer).__name__, layer.extra_repr()
    own = type(layer).__module__.startswith(f"{RUNTIME}.")
    try:
        call = ast.parse(f"_({said})", mode="eval").body
        assert isinstance(call, ast.Call)
        keywords = {k.arg or "": ast.literal_eval(k.value) for k in call.keywords}
        with torch.device("meta"):
            made = getattr(importlib.import_module(RUNTIME) if own else nn, kind)(*map(ast.literal_eval, call.args), **keywords)
    except (AttributeError, TypeError, ValueError, SyntaxError) as error:
        raise ConversionError(f"A layer of type {type(layer).__qualname__} cannot be written as source: {error}") from error
    if configuration(made) != configuration(layer) or any(interference(layer)):
        raise ConversionError(f"{kind}({said}) has something that its text does not say, so it cannot be written as source.")
    return made, f"{'runtime' if own else 'nn'}.{kind}({said})"


def _unlike(name: str, layer: nn.Module, made: nn.Module) -> Iterator[str]:
    """Lines for what the construction of a layer does not say."""
    state, fresh = (dict((*m.named_parameters(), *m.named_buffers())) for m in (layer, made))
    for key, tensor in state.items():
        like = fresh.get(key)
        if like is None or (type(like), like.shape, like.dtype) != (type(tensor), tensor.shape, tensor.dtype):
            yield _put(f"{name}.{key}", tensor)
    for key in sorted(fresh.keys() - state.keys()):
        yield f'self.get_submodule("{name}").{key} = None'


def _put(path: str, tensor: torch.Tensor) -> str:
    empty = f"torch.empty({tuple(tensor.shape)}, dtype={tensor.dtype})"
    if isinstance(tensor, nn.Parameter):
        empty = f"nn.Parameter({empty}{'' if tensor.requires_grad else ', requires_grad=False'})"
    return f'put(self, "{path}", {empty})'


def _ties(module: nn.Module) -> Iterator[str]:
    """Lines that make one tensor of what is one in the module, in whichever parts of it."""
    first: dict[int, str] = {}
    for name, tensor in _state(module):
        known = first.setdefault(id(tensor), name)
        if known != name:
            getter = "get_parameter" if isinstance(tensor, nn.Parameter) else "get_buffer"
            yield f'put(self, "{name}", self.{getter}("{known}"))'


def _save(module: nn.Module, path: Path) -> None:
    from safetensors.torch import save

    tensors, seen = {}, set()
    for name, tensor in _state(module):
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        plain = tensor.detach().cpu().contiguous()
        named = name_of(plain.dtype) in _PLAIN
        tensors[name] = plain.clone() if named else plain.reshape(-1).view(torch.uint8)
    atomic_write(path, save(tensors))


# -- helpers -----------------------------------------------------------------------------------------------------------


@cache
def _definitions() -> dict[str, str]:
    """The text of everything that the run-time helpers define, by name."""
    package = importlib.import_module(RUNTIME)
    found = {}
    for info in pkgutil.iter_modules(package.__path__, f"{RUNTIME}."):
        text = inspect.getsource(importlib.import_module(info.name))
        for node in ast.parse(text).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                names: Iterable[str] = [node.name]
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                start, targets = node.lineno, node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [t.id for t in targets if isinstance(t, ast.Name)]
            else:
                continue
            lines = text.splitlines()[start - 1 : node.end_lineno]
            found.update({name: "\n".join(lines) for name in names if name != "__all__"})
    return found


def _helpers(used: Iterable[str]) -> Iterator[str]:
    """The text of run-time helpers and of all that they use, each after what it needs."""
    known, seen = _definitions(), set()

    def of(name: str) -> Iterator[str]:
        if name in seen or name not in known:
            return
        seen.add(name)
        for node in ast.walk(ast.parse(known[name])):
            if isinstance(node, ast.Name):
                yield from of(node.id)
        yield known[name]

    for name in used:
        yield from of(name)


def _plain_source(thing: Any) -> str:
    return inspect.getsource(thing).rstrip()
