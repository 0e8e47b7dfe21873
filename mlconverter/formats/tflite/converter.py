"""TFLite models: into the hub, and trained weights back into the original file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlconverter.base import BaseConverter
from mlconverter.batching import converted
from mlconverter.conversion import Conversion
from mlconverter.errors import CorruptModelError, SignatureError
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Array
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner

if TYPE_CHECKING:
    from mlconverter.formats.tflite.model import TFLiteModel


class TFLiteConverter(BaseConverter, format="tflite", extensions=(".tflite", ".lite"), model_modules=()):
    """A TFLite (LiteRT) model: a path, the bytes of a file, or a ``TFLiteModel``."""

    target_options: ClassVar[frozenset[str]] = frozenset({"allow_custom", "dynamic_batch", "weights"})
    source_options: ClassVar[frozenset[str]] = frozenset({"dequantize", "signature"})
    op_routes: ClassVar[Mapping[str, str]] = {
        "tflite-onnx": "mlconverter.formats.tflite.to_onnx.convert:translates",
        "onnx-tflite": "mlconverter.formats.tflite.from_onnx:translates",
    }

    @classmethod
    def owns_model(cls, model: Any) -> bool:
        """Whether an object is a ``TFLiteModel``, or bytes with TFLite's mark."""
        if isinstance(model, bytes):
            return model[4:8] == b"TFL3"
        return type(model).__module__ == "mlconverter.formats.tflite.model"

    @classmethod
    def owns_path(cls, path: Path) -> bool:
        """Whether a file has TFLite's mark."""
        with path.open("rb") as file:
            return file.read(8)[4:] == b"TFL3"

    def _load(self, model: Any) -> None:
        from mlconverter.formats.tflite.model import TFLiteModel

        if self._input_shape is not None:
            raise SignatureError("input_shape of a TFLite model comes from the file; it is for torch models.")
        if model is None:
            assert self.model_path is not None
            try:
                model = TFLiteModel.load(self.model_path)
            except CorruptModelError as error:
                raise CorruptModelError(f"'{self.model_path}' cannot be read. {error}") from error
        self._model: TFLiteModel = model if isinstance(model, TFLiteModel) else TFLiteModel(bytes(model))

    @property
    def source(self) -> TFLiteModel:
        """The model as it was given."""
        return self._model

    def _state(self) -> str:
        return ""

    def _source_hash(self) -> str:
        return hashlib.sha256(bytes(self._model)).hexdigest()

    def _to_onnx(self, options: ConvertOptions) -> HubModel:
        from mlconverter.formats.tflite.hybrid import hybrid_operators
        from mlconverter.formats.tflite.to_onnx.convert import convert

        hub = convert(self._model.structure, options.signature, whole=options.dequantize)
        hybrid = sorted(set(hybrid_operators(self._model.structure)))
        if hybrid:
            return hub.noting(
                f"Integer weights of {', '.join(hybrid)} are dequantised. LiteRT also quantises what they are given, as "
                "it runs; that is not carried over, and the comparison is with the file whose weights are dequantised."
            )
        return hub

    def _signature(self, options: ConvertOptions) -> IOSignature:
        return self._model.signature_of(options.signature)

    def _features(self) -> dict[str, Any]:
        from mlconverter.formats.tflite.features import features_of

        return features_of(self._model.structure)

    def _own_options(self) -> dict[str, Any]:
        tensors = [t for graph in self._model.structure.subgraphs for t in graph.tensors]
        return {"weights": "float16"} if any(t.dtype == "float16" for t in tensors) else {}

    @classmethod
    def _refuse(cls, hub: HubModel) -> None:
        from mlconverter.formats.tflite.from_onnx import translates
        from mlconverter.hub.expand import expand
        from mlconverter.hub.normalise import normalise
        from mlconverter.hub.refusing import refuse_unsupported

        refuse_unsupported(expand(normalise(hub.model), translates), translates)

    @classmethod
    def _from_hub(cls, hub: HubModel, options: ConvertOptions, source_hash: str) -> Conversion:
        from mlconverter.formats.tflite.from_onnx import convert

        # A phone's model keeps the batch that it had, unless somebody asks for another.
        return converted(hub, options, lambda hub: convert(hub, options), cls._runner, unasked=False)

    @classmethod
    def _runner(cls, model: Any, signature: IOSignature) -> Runner:
        from mlconverter.formats.tflite.hybrid import hybrid_operators, with_real_weights
        from mlconverter.formats.tflite.runner import LiteRTRunner

        hybrid = hybrid_operators(model.structure)
        return LiteRTRunner(with_real_weights(model.structure) if hybrid else bytes(model), key=signature.key)

    @classmethod
    def _write(cls, model: Any, path: Path) -> None:
        path.write_bytes(bytes(model))

    @classmethod
    def _read(cls, path: Path) -> Conversion:
        from mlconverter.formats.tflite.model import TFLiteModel

        model = TFLiteModel.load(path)
        return Conversion(model, model.signature)

    def _stored_weights(self, sources: Iterable[str]) -> dict[str, Array]:
        from mlconverter.formats.tflite.buffers import stored_weights

        return stored_weights(self._model.structure, sources)

    def _with_weights(self, changed: Mapping[str, Array]) -> TFLiteModel:
        from mlconverter.formats.tflite.buffers import patch
        from mlconverter.formats.tflite.model import TFLiteModel

        return TFLiteModel(patch(bytes(self._model), changed))
