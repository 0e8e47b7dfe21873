"""The inputs and outputs of an ONNX model at a glance."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import onnx_ir as ir

from mlconverter.errors import SignatureError
from mlconverter.hub.io import load_model, signature_of
from mlconverter.signature import Dim, IOSignature

if TYPE_CHECKING:
    import onnx


class OnnxIO:
    """The inputs and outputs of an ONNX model, initializers left out.

    Args:
        onnx_model: a ``ModelProto``, an ``onnx_ir.Model`` or a path.

    Example:
        ``OnnxIO("net.onnx").input_shape`` gives ``("batch", 3, 224, 224)``.
    """

    def __init__(self, onnx_model: onnx.ModelProto | ir.Model | bytes | str | os.PathLike[str]) -> None:
        self._signature = signature_of(onnx_model if isinstance(onnx_model, ir.Model) else load_model(onnx_model))

    @property
    def signature(self) -> IOSignature:
        """Everything at once."""
        return self._signature

    @property
    def input_shape(self) -> tuple[Dim, ...] | None:
        """Shape of the only input.

        Raises:
            SignatureError: the model has no input or several.
        """
        if len(self._signature.inputs) != 1:
            raise SignatureError(
                f"The model has {len(self._signature.inputs)} inputs {list(self.input_names)}; use input_shapes."
            )
        return self._signature.inputs[0].shape

    @property
    def input_shapes(self) -> dict[str, tuple[Dim, ...] | None]:
        """Shapes of the inputs by name, in order."""
        return {s.name: s.shape for s in self._signature.inputs}

    @property
    def output_shapes(self) -> dict[str, tuple[Dim, ...] | None]:
        """Shapes of the outputs by name, in order."""
        return {s.name: s.shape for s in self._signature.outputs}

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return self._signature.input_names

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return self._signature.output_names

    @property
    def input_dtypes(self) -> dict[str, str]:
        """Dtypes of the inputs by name, in order."""
        return {s.name: s.dtype for s in self._signature.inputs}

    @property
    def output_dtypes(self) -> dict[str, str]:
        """Dtypes of the outputs by name, in order."""
        return {s.name: s.dtype for s in self._signature.outputs}
