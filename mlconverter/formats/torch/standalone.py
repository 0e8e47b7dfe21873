"""What a written module file holds besides the module: its containers, and how it reads its weights. Needs torch alone.

:mod:`mlconverter.formats.torch.source` copies these definitions into the files that it writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Group(nn.Module):
    """Layers under a common name; numbered ones are reached by their number."""

    def __getitem__(self, number: int) -> Any:
        return getattr(self, str(number))


def put(root: nn.Module, path: str, thing: nn.Module | torch.Tensor) -> None:
    """Put a layer, a parameter or a buffer below a module, in groups where its path has several parts."""
    *groups, name = path.split(".")
    for group in groups:
        if group not in root._modules:
            root.add_module(group, Group())
        root = root.get_submodule(group)
    for table in (root._parameters, root._buffers):
        table.pop(name, None)
    if isinstance(thing, nn.Module):
        root.add_module(name, thing)
    elif isinstance(thing, nn.Parameter):
        root.register_parameter(name, thing)
    else:
        root.register_buffer(name, thing)


def read_weights(model: nn.Module, path: str | Path) -> None:
    """Give a module that was made on the ``meta`` device its weights from a safetensors file."""
    places: dict[int, list[tuple[Any, str]]] = {}
    for part in model.modules():
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                places.setdefault(id(tensor), []).append((table, name))
    named = dict((*model.named_parameters(), *model.named_buffers()))
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            file.seek(start + begin)
            old, data = named[name], bytearray(file.read(end - begin))
            value = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
            value = value.view(old.dtype).reshape(old.shape)
            new = nn.Parameter(value, old.requires_grad) if isinstance(old, nn.Parameter) else value
            for table, key in places[id(old)]:
                table[key] = new
