"""Runs torch modules on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from mlconverter.formats.torch.arrays import to_numpy, to_tensor
from mlconverter.formats.torch.outputs import flatten
from mlconverter.formats.torch.state import device_of, evaluating
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
        device = device_of(self._module)
        arguments = [to_tensor(inputs[name]).to(device) for name in self.signature.input_names]
        with evaluating(self._module), torch.no_grad():
            outputs = flatten(self._module(*arguments))
        return {name: to_numpy(value) for name, value in zip(self.signature.output_names, outputs, strict=True)}
