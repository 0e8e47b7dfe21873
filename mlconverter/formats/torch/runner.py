"""Runs torch modules on numpy arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.arrays import to_numpy, to_tensor
from mlconverter.formats.torch.outputs import flatten
from mlconverter.formats.torch.state import device_of, evaluating
from mlconverter.formats.torch.states import as_before, states_of
from mlconverter.signature import IOSignature
from mlconverter.verification import BaseRunner, check_inputs

VALUE_KEY = "mlconverter.value"
"""Key in a node's ``meta``: the name of the value in the graph from which the module was converted."""

QUANTIZED_KEY = "mlconverter.quantized"
"""Key in the ``meta`` of a node that quantises: the name of the integers in that graph."""


class TorchRunner(BaseRunner):
    """A module in ``eval()`` mode; the mode that it was in is put back after each run, and what it keeps from call to call.

    Args:
        module: called with its inputs by position, in the order of the signature.
        signature: names and order of inputs and outputs.
    """

    def __init__(self, module: nn.Module, signature: IOSignature) -> None:
        super().__init__(f"torch {torch.__version__}", signature)
        self._module = module
        self._held: list[torch.Tensor] | None = None  # what its states are for the next run; None for the first one

    @property
    def keeps_state(self) -> bool:
        """Whether what the module gives depends on the calls before; one that was converted says so."""
        return bool(states_of(self._module))

    def reset(self) -> None:
        """Forget all calls."""
        self._held = None

    def _run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        outputs = flatten(self._call(inputs))
        return {spec.name: to_numpy(value, spec.dtype) for spec, value in zip(self.signature.outputs, outputs, strict=True)}

    def _call(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Any:
        device = device_of(self._module)
        arguments = [to_tensor(inputs[name]).to(device) for name in self.signature.input_names]
        with evaluating(self._module), torch.no_grad(), as_before(self._module) as states:
            held = [state.initial for state in states] if self._held is None else self._held
            for state, value in zip(states, held, strict=True):
                state.value = value.clone()
            results = self._module(*arguments)
            self._held = [state.value for state in states]
            return results

    def intermediates(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Values of a converted module by the names that they have in the graph that it was made of."""
        watched = self._watched()
        outputs = self._interpreted(watched, inputs)
        return {**_seen(watched), **outputs}

    @property
    def quantized(self) -> list[str]:
        """Names of the values that a converted module quantises between its operators."""
        nodes = (node for part in _converted_parts(self._module) for node in part.graph.nodes)
        return [node.meta[QUANTIZED_KEY] for node in nodes if QUANTIZED_KEY in node.meta]

    def resumed(
        self, inputs: Mapping[str, np.ndarray[Any, Any]], values: Mapping[str, np.ndarray[Any, Any]]
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs, and each of some quantised values as it follows from the others."""
        watched = self._watched(values)
        outputs = self._interpreted(watched, inputs)
        seen = _seen(watched)
        return {**outputs, **{name: seen[name] for name in values}}

    def _watched(self, values: Mapping[str, np.ndarray[Any, Any]] | None = None) -> list[_Watched]:
        parts = _converted_parts(self._module)
        if not parts:
            raise SignatureError("Only modules that were converted name the tensors between their operators.")
        return [_Watched(part, values) for part in parts]

    def _interpreted(
        self, watched: Iterable[_Watched], inputs: Mapping[str, np.ndarray[Any, Any]]
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs of the module, with what was converted of it run node by node."""
        with contextlib.ExitStack() as stack:
            for by in watched:
                by.module.forward = by.run  # called by the module itself, so that its hooks see to the weights
                stack.callback(delattr, by.module, "forward")
            outputs = flatten(self._call(check_inputs(self.signature, inputs)))
        return {spec.name: to_numpy(value, spec.dtype) for spec, value in zip(self.signature.outputs, outputs, strict=True)}


def _converted_parts(module: nn.Module) -> list[fx.GraphModule]:
    """The module itself if it was converted, else those parts of it that were."""
    if isinstance(module, fx.GraphModule):
        return [module]
    return [part for child in module.children() for part in _converted_parts(child)]


def _seen(watched: Iterable[_Watched]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: value for by in watched for name, value in by.seen.items()}


class _Watched(fx.Interpreter):
    """Runs a module node by node, and keeps what has a name in the original graph.

    Args:
        module: the module.
        values: integers by name, from which it goes on wherever it quantises.

    Attributes:
        seen: values by name; in the place of integers that were given, those that the module has itself.
    """

    def __init__(self, module: fx.GraphModule, values: Mapping[str, np.ndarray[Any, Any]] | None = None) -> None:
        super().__init__(module)
        self._values = values or {}
        self.seen: dict[str, np.ndarray[Any, Any]] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if QUANTIZED_KEY in n.meta:
            return self._quantized(n, value)
        if VALUE_KEY in n.meta and isinstance(value, torch.Tensor):
            self.seen[n.meta[VALUE_KEY]] = to_numpy(value)
        return value

    def _quantized(self, n: fx.Node, value: torch.Tensor) -> torch.Tensor:
        """The given integers, or the real numbers that they stand for, in the place of what the module has itself."""
        from mlconverter.formats.torch.from_onnx import runtime

        settings, _ = self.fetch_args_kwargs_from_env(n)
        _, scale, zero, grid, *_ = settings
        own = runtime.quantize(*settings)
        name = n.meta[QUANTIZED_KEY]
        self.seen[name] = to_numpy(own)
        if name not in self._values:
            return value
        given = to_tensor(self._values[name]).to(own)
        return runtime.dequantize(given, scale, zero, grid) if n.target is runtime.fake_quantize else given
