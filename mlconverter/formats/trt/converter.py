"""TensorRT engines, as a target only: nothing that went into one can be read from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlconverter.base import BaseConverter
from mlconverter.conversion import Conversion
from mlconverter.errors import NotConvertibleError, NotRunnableError
from mlconverter.hub.model import HubModel
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner

_NO_SOURCE = (
    "A TensorRT engine cannot be converted: it holds machine code for one kind of GPU. Convert the model it was built from."
)


class TRTConverter(BaseConverter, format="trt", extensions=(".engine", ".plan"), model_modules=()):
    """TensorRT engines in single precision, built without a GPU."""

    @classmethod
    def owns_model(cls, model: Any) -> bool:
        """Whether an object is a ``TRTEngine``."""
        return type(model).__module__ == "mlconverter.formats.trt.engine"

    def _load(self, model: Any) -> None:
        raise NotConvertibleError(_NO_SOURCE)

    @property
    def source(self) -> Any:
        """There is none."""
        raise NotConvertibleError(_NO_SOURCE)

    def _source_hash(self) -> str:
        raise NotConvertibleError(_NO_SOURCE)

    def _to_onnx(self, options: ConvertOptions) -> HubModel:
        raise NotConvertibleError(_NO_SOURCE)

    @classmethod
    def _refuse(cls, hub: HubModel) -> None:
        from mlconverter.formats.trt.build import require_runtime

        require_runtime()

    @classmethod
    def _from_hub(cls, hub: HubModel, options: ConvertOptions, source_hash: str) -> Conversion:
        from mlconverter.formats.trt.build import CAPABILITIES, build

        engine = build(hub)
        notes = [f"The engine is for {engine.runtime} on GPUs of compute capability {', '.join(CAPABILITIES)}."]
        if engine.batches is not None:
            notes.append("It takes batches of {} to {}.".format(*engine.batches))
        return Conversion(engine, hub.signature, (*hub.notes, *notes))

    @classmethod
    def _runner(cls, model: Any, signature: IOSignature) -> Runner:
        raise NotRunnableError("Engines are not run here, which takes a GPU.")

    @classmethod
    def _write(cls, model: Any, path: Path) -> None:
        path.write_bytes(bytes(model))

    @classmethod
    def _read(cls, path: Path) -> Conversion:
        raise NotConvertibleError("An engine file does not say what it takes and gives; it is built anew.")
