"""Runs torch modules on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.arrays import to_numpy, to_tensor
from mlconverter.formats.torch.outputs import flatten
from mlconverter.formats.torch.state import device_of, evaluating
from mlconverter.signature import IOSignature
from mlconverter.verification import BaseRunner, check_inputs

VALUE_KEY = "mlconverter.value"
"""Key in a node's ``meta``: the name of the value in the graph from which the module was converted."""


class TorchRunner(BaseRunner):
    """A module in ``eval()`` mode; the mode that it was in is put back after each run.

    Args:
        module: called with its inputs by position, in the order of the signature.
        signature: names and order of inputs and outputs.
    """

    def __init__(self, module: nn.Module, signature: IOSignature) -> None:
        super().__init__(f"torch {torch.__version__}", signature)
        self._module = module

    def _run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        outputs = flatten(self._call(inputs))
        return {spec.name: to_numpy(value, spec.dtype) for spec, value in zip(self.signature.outputs, outputs, strict=True)}

    def _call(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Any:
        device = device_of(self._module)
        arguments = [to_tensor(inputs[name]).to(device) for name in self.signature.input_names]
        with evaluating(self._module), torch.no_grad():
            return self._module(*arguments)

    def intermediates(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Values of a converted module by the names that they have in the graph that it was made of."""
        if not isinstance(self._module, fx.GraphModule):
            raise SignatureError("Only modules that were converted name the tensors between their operators.")
        recorder = _Recorder(self._module)
        self._module.forward = recorder.run  # called by the module itself, so that its hooks see to the weights
        try:
            outputs = flatten(self._call(check_inputs(self.signature, inputs)))
        finally:
            del self._module.forward
        named = zip(self.signature.output_names, outputs, strict=True)
        return {**recorder.seen, **{name: to_numpy(value) for name, value in named}}


class _Recorder(fx.Interpreter):
    """Runs a module node by node, and keeps what has a name in the original graph."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.seen: dict[str, np.ndarray[Any, Any]] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if VALUE_KEY in n.meta and isinstance(value, torch.Tensor):
            self.seen[n.meta[VALUE_KEY]] = to_numpy(value)
        return value
