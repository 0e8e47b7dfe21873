"""Converted modules that quantise, as exporters want them: with ONNX's operators in the place of arithmetic."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.module import ConvertedModule
from mlconverter.formats.torch.outputs import Flat
from mlconverter.formats.torch.runner import QUANTIZED_KEY
from mlconverter.formats.torch.storage import storages
from mlconverter.hub.weights import Array, Grid, storage_grid
from mlconverter.hub.whole_weights import SIXTEEN_BITS_SINCE

_EIGHT_BITS = (torch.int8, torch.uint8)
_SIXTEEN_BITS = (torch.int16, torch.uint16)


@torch.library.custom_op("mlconverter::quantize_linear", mutates_args=())
def _quantize(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, axis: int, name: str) -> torch.Tensor:
    limits = torch.iinfo(zero.dtype)
    return runtime.quantize(x, scale, zero, runtime.Grid(axis, 0, torch.float32), limits.min, limits.max, zero.dtype)


@_quantize.register_fake
def _(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, axis: int, name: str) -> torch.Tensor:
    return torch.empty_like(x, dtype=zero.dtype)


@torch.library.custom_op("mlconverter::dequantize_linear", mutates_args=())
def _dequantize(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, axis: int) -> torch.Tensor:
    return runtime.dequantize(x, scale, zero, runtime.Grid(axis, 0, torch.float32))


@_dequantize.register_fake
def _(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.empty_like(x, dtype=scale.dtype)


@dataclass(frozen=True)
class Form:
    """A module as an exporter is handed it.

    Attributes:
        module: the module.
        opset: that is asked for.
        grids: of weights that the graph is to have as integers, by their names.
    """

    module: Flat
    opset: int | None
    grids: Mapping[str, Grid] = field(default_factory=dict)


def quantised_form(module: nn.Module, plain: Form) -> Form:
    """The form of a module in which it quantises by operators that the exporter knows, see :func:`translations`.

    It is the plain one where the module, or a part of it that was converted, does not round what it computes to integers, or
    to such as the opset does not know.
    """
    nodes = [node for part in module.modules() if isinstance(part, fx.GraphModule) for node in part.graph.nodes]
    if not any(QUANTIZED_KEY in node.meta for node in nodes):
        return plain
    wide = any(argument in _SIXTEEN_BITS for node in nodes for argument in node.args)
    opset = plain.opset or (SIXTEEN_BITS_SINCE if wide else None)
    if wide and opset is not None and opset < SIXTEEN_BITS_SINCE:
        return plain
    return Form(_with_operators(plain.module), opset, _grids_of(module))


def _with_operators(module: Flat) -> Flat:
    twin = copy.deepcopy(module)
    for part in [p for p in twin.modules() if isinstance(p, fx.GraphModule)]:
        changed = False
        for node in part.graph.nodes:
            instead = _OPERATORS.get(node.target) if node.op == "call_function" else None
            if instead is not None:
                node.target, changed = instead, True
                if QUANTIZED_KEY in node.meta:
                    node.kwargs = {**node.kwargs, "name": node.meta[QUANTIZED_KEY]}
        if changed:
            part.recompile()
    return twin


def _quantized(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor | None,
    grid: runtime.Grid,
    low: int,
    high: int,
    dtype: torch.dtype,
    name: str = "",
) -> torch.Tensor:
    if not _is_plain(x, scale, grid) or dtype not in _EIGHT_BITS + _SIXTEEN_BITS:
        return runtime.quantize(x, scale, zero, grid, low, high, dtype)
    result: torch.Tensor = _quantize(x, *_settings(scale, zero, dtype), grid.axis, name)
    return result


def _dequantized(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, grid: runtime.Grid) -> torch.Tensor:
    if not _is_plain(scale, scale, grid) or x.dtype not in _EIGHT_BITS + _SIXTEEN_BITS:
        return runtime.dequantize(x, scale, zero, grid)
    result: torch.Tensor = _dequantize(x, *_settings(scale, zero, x.dtype), grid.axis)
    return result


def _fake_quantized(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor | None,
    grid: runtime.Grid,
    low: int,
    high: int,
    dtype: torch.dtype,
    name: str = "",
) -> torch.Tensor:
    return _dequantized(_quantized(x, scale, zero, grid, low, high, dtype, name), scale, zero, grid)


_OPERATORS: Mapping[Any, Callable[..., torch.Tensor]] = {
    runtime.quantize: _quantized,
    runtime.dequantize: _dequantized,
    runtime.fake_quantize: _fake_quantized,
}


def _is_plain(x: torch.Tensor, scale: torch.Tensor, grid: runtime.Grid) -> bool:
    return not grid.block and grid.dtype is x.dtype is scale.dtype is torch.float32


def _settings(scale: torch.Tensor, zero: torch.Tensor | None, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points as the operators of ONNX have them: one number without an axis, or several along one."""
    zero = torch.zeros_like(scale, dtype=dtype) if zero is None else zero
    return (scale.reshape(()), zero.reshape(())) if scale.numel() == 1 else (scale, zero)


@cache
def translations() -> Mapping[Callable[..., Any], Callable[..., Any]]:
    """What the operators are in ONNX, for ``torch.onnx.export(custom_translation_table=…)``."""
    from onnxscript import opset18, opset21

    def operators_for(zero: Any) -> Any:
        return opset21 if zero.dtype.bitwidth > 8 else opset18

    def quantize(x: Any, scale: Any, zero: Any, axis: int, name: str) -> Any:
        return operators_for(zero).QuantizeLinear(x, scale, zero, axis=axis)

    def dequantize(x: Any, scale: Any, zero: Any, axis: int) -> Any:
        return operators_for(zero).DequantizeLinear(x, scale, zero, axis=axis)

    operators = torch.ops.mlconverter
    return {operators.quantize_linear.default: quantize, operators.dequantize_linear.default: dequantize}


def names_of(program: torch.export.ExportedProgram) -> dict[str, str]:
    """By the record that the exporter keeps of where a node comes from: what the integers are called that it gives."""
    target = torch.ops.mlconverter.quantize_linear.default
    nodes = [node for node in program.graph.nodes if node.target is target]
    return {f"{node.name}: mlconverter.quantize_linear.default": str(node.args[-1]) for node in nodes}


def _grids_of(module: nn.Module) -> dict[str, Grid]:
    """The grids of integers on which a module's weights and constants stand, by their names."""
    found = {}
    for name, storage in storages(module).items():
        if storage.grid is not None and storage._rounds:
            scale, low, high = (setting.cpu().numpy() for setting in storage.grid)
            found[name] = Grid(scale, low, high, storage.integers)
    for path, part in module.named_modules():
        buffers = dict(part.named_buffers()) if isinstance(part, ConvertedModule) and part.knows_its_origin else {}
        for link in part.origin.links if buffers else ():
            grid = storage_grid(link) if link.target in buffers else None
            if grid is not None and _is_on(grid, buffers[link.target].cpu().numpy()):
                found[f"{path}.{link.target}".lstrip(".")] = grid
    return found


def _is_on(grid: Grid, values: Array) -> bool:
    """Whether values, which are not rounded when they are used, are numbers that integers stand for."""
    fits = all(size in (1, there) for size, there in zip(grid.scale.shape, values.shape, strict=False))
    if values.dtype != np.float32 or grid.scale.ndim not in (0, values.ndim) or not fits:
        return False
    return bool(np.array_equal(np.clip(np.rint(values / grid.scale), grid.low, grid.high) * grid.scale, values))
