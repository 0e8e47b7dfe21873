"""Runs ONNX models with ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlconverter.errors import CorruptModelError, NotRunnableError
from mlconverter.formats.onnx.cut import GIVEN, cut, quantized_values
from mlconverter.hub.io import save_proto
from mlconverter.hub.protobuf import serialized
from mlconverter.hub.states import initial_states
from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification import BaseRunner

if TYPE_CHECKING:
    import onnx


class OnnxRuntimeRunner(BaseRunner):
    """ONNX Runtime on the CPU.

    Args:
        model: the model, serialized or not; one beyond 2 GB is handed over in a temporary folder, which :meth:`close` removes.
        signature: its inputs and outputs.
        optimise: whether ONNX Runtime may rewrite the graph; without, every operator runs as it stands.

    Raises:
        NotRunnableError: ONNX Runtime does not take the model.
        CorruptModelError: nor does ONNX's own checker.
    """

    def __init__(self, model: onnx.ModelProto | bytes, signature: IOSignature, *, optimise: bool = True) -> None:
        import onnxruntime as ort

        super().__init__(f"ONNX Runtime {ort.__version__}", signature)
        self._model, self._optimise = model, optimise
        options = ort.SessionOptions()
        options.log_severity_level = 4
        if not optimise:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        handed = self._handed_over(model)
        try:
            self._session: Any = ort.InferenceSession(handed, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime raises classes of its own, one for each status, without a common base
            try:
                _check(handed)
            finally:
                self.close()
            raise NotRunnableError(f"ONNX Runtime does not load the model: {error}") from error

    def _handed_over(self, model: onnx.ModelProto | bytes) -> bytes | str:
        """The model as ONNX Runtime takes it: from memory, or from a file where a protobuf cannot hold the weights."""
        if isinstance(model, bytes):
            return model
        data = serialized(model)
        if data is not None:
            return data
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="mlconverter-")
            path = Path(self._folder.name) / "model.onnx"
            save_proto(model, path)
        except OSError as error:
            self.close()
            raise NotRunnableError(f"ONNX Runtime takes a model beyond 2 GB from a file alone, and {error}.") from error
        return str(path)

    @property
    def initial_states(self) -> dict[str, np.ndarray[Any, Any]]:
        """What the model's states are before the first call, by the names of their inputs."""
        return initial_states(self._session.get_modelmeta().custom_metadata_map, self.signature)

    def other_kernels(self) -> OnnxRuntimeRunner:
        """Runs the same model with the graph rewritten where it was not, and as it stands where it was."""
        return OnnxRuntimeRunner(self._model, self.signature, optimise=not self._optimise)

    def intermediates(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """The values of the graph by name, in the order of its nodes; those in graphs of nodes are not among them."""
        from onnx import ModelProto, TypeProto, ValueInfoProto, shape_inference

        model = ModelProto()
        model.CopyFrom(self._proto())
        known = {v.name: v.type for v in shape_inference.infer_shapes(model).graph.value_info}
        there = {v.name for v in model.graph.output}
        names = [name for node in model.graph.node for name in node.output if name]
        others = [n for n in names if n not in there and known.get(n, TypeProto()).WhichOneof("value") in (None, "tensor_type")]
        model.graph.output.extend(ValueInfoProto(name=name) for name in others)
        specs = tuple(TensorSpec(name, None, "unknown") for name in others)
        shown = IOSignature(self.signature.inputs, (*self.signature.outputs, *specs))
        values = OnnxRuntimeRunner(model, shown, optimise=False).run(inputs)
        return {name: values[name] for name in names if name in values}

    @property
    def quantized(self) -> list[str]:
        """Names of the values that are quantised between the operators of the main graph."""
        return quantized_values(self._proto())

    def resumed(
        self, inputs: Mapping[str, np.ndarray[Any, Any]], values: Mapping[str, np.ndarray[Any, Any]]
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs, and each of some quantised values as it follows from the others."""
        model = cut(self._proto(), values)
        handed = tuple(TensorSpec(name + GIVEN, None, value.dtype.name) for name, value in values.items())
        more = tuple(TensorSpec(name, None, "unknown") for name in values if name not in self.signature.output_names)
        shown = IOSignature((*self.signature.inputs, *handed), (*self.signature.outputs, *more))
        given = {name + GIVEN: value for name, value in values.items()}
        return OnnxRuntimeRunner(model, shown, optimise=False).run({**inputs, **given})

    def _proto(self) -> onnx.ModelProto:
        from onnx import ModelProto

        if not isinstance(self._model, bytes):
            return self._model
        model: ModelProto = ModelProto.FromString(self._model)
        return model

    def _run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        names = [o.name for o in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, dict(inputs)), strict=True))

    def close(self) -> None:
        """Let go of the session, and of the files that it reads."""
        self._session = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _check(model: bytes | str) -> None:
    """Tell a model that is none from one that this runtime merely has no kernels for.

    Raises:
        CorruptModelError: the model does not follow ONNX's specification.
    """
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError) as error:
        raise CorruptModelError(f"This is no valid ONNX model: {error}") from error
