"""Runs torch modules on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from mlconverter.formats.torch.state import evaluating
from mlconverter.signature import IOSignature
from mlconverter.verification import BaseRunner


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
        device = next((p.device for p in self._module.parameters()), torch.device("cpu"))
        arguments = [torch.from_numpy(np.array(inputs[name])).to(device) for name in self.signature.input_names]
        with evaluating(self._module), torch.no_grad():
            results = self._module(*arguments)
        outputs = flatten(results)
        return {name: to_numpy(value) for name, value in zip(self.signature.output_names, outputs, strict=True)}


def flatten(results: Any) -> list[torch.Tensor]:
    """The tensors of a module's result, in order."""
    if isinstance(results, torch.Tensor):
        return [results]
    values = results.values() if isinstance(results, Mapping) else results
    return [tensor for value in values for tensor in flatten(value)]


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A tensor's values as an array of the same dtype."""
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return np.asarray(tensor.numpy())
