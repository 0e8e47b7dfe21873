"""Runs ONNX models with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mlconverter.errors import CorruptModelError, NotRunnableError
from mlconverter.signature import IOSignature
from mlconverter.verification import BaseRunner

if TYPE_CHECKING:
    import onnx

LARGEST_IN_MEMORY = 2**31 - 1
"""A protobuf beyond this many bytes cannot be handed over in memory."""


class OnnxRuntimeRunner(BaseRunner):
    """ONNX Runtime on the CPU.

    Args:
        model: the model.
        signature: its inputs and outputs.
        optimise: whether ONNX Runtime may rewrite the graph; without, every operator runs as it stands.

    Raises:
        NotRunnableError: ONNX Runtime does not take the model.
        CorruptModelError: nor does ONNX's own checker.
    """

    def __init__(self, model: onnx.ModelProto, signature: IOSignature, *, optimise: bool = True) -> None:
        import onnxruntime as ort

        super().__init__(f"ONNX Runtime {ort.__version__}", signature)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        if not optimise:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        if model.ByteSize() > LARGEST_IN_MEMORY:
            raise NotRunnableError("The model is larger than 2 GB, which ONNX Runtime cannot take from memory.")
        try:
            self._session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime raises classes of its own, one for each status, without a common base
            _check(model)
            raise NotRunnableError(f"ONNX Runtime does not load the model: {error}") from error

    def _run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        names = [o.name for o in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, dict(inputs)), strict=True))


def _check(model: onnx.ModelProto) -> None:
    """Tell a model that is none from one that this runtime merely has no kernels for.

    Raises:
        CorruptModelError: the model does not follow ONNX's specification.
    """
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError) as error:
        raise CorruptModelError(f"This is no valid ONNX model: {error}") from error
