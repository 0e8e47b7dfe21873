"""The facade: give it a model or a file, ask for another format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mlconverter.base import BaseConverter
from mlconverter.cache import atomic_folder, content_hash
from mlconverter.contract import ENTRY, Contract, StoredContract
from mlconverter.errors import NotConvertibleError, SignatureError, UnknownFormatError
from mlconverter.options import ConvertOptions
from mlconverter.registry import formats
from mlconverter.report import Report
from mlconverter.signature import IOSignature
from mlconverter.verification.runner import Runner


class Converter:
    """Converts a model to any other format, and back to the one that it came from.

    Args:
        model: a ``torch.nn.Module``, a ``ModelProto``, a ``TFLiteModel``, the bytes of a TFLite file, or a path.
        model_path: a file instead; the format is told by its content, then by its extension.
        input_shape: shapes of a torch model's inputs: one, several, a dict by name, or example inputs.
        load_intermediate_models_from_disk: reuse the files of earlier conversions where they are still right.
        output_dir: keep converted models in this folder.
        verify: ``"fast"`` (default), ``"full"`` or ``False``: how the result is compared with the source.
        **options: see :class:`~mlconverter.options.ConvertOptions`.

    Raises:
        UnknownFormatError: no format owns the model or the file.
        FileNotFoundError: there is no such file.
        CorruptModelError: the file is damaged.

    Example:
        >>> converter = Converter(model_path="model.tflite")
        >>> module = converter.to_torch(io_layout="channels_first")
        >>> train(module)
        >>> converter.to_origin_type(module).save("tuned.tflite")
    """

    def __init__(
        self,
        model: Any = None,
        model_path: str | os.PathLike[str] | None = None,
        *,
        input_shape: Any = None,
        load_intermediate_models_from_disk: bool = False,
        output_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        if model_path is None and isinstance(model, (str, os.PathLike)):
            model, model_path = None, model
        cls = format_of(model, model_path)
        self._inner: BaseConverter = cls(
            model,
            model_path,
            input_shape=input_shape,
            load_intermediate_models_from_disk=load_intermediate_models_from_disk,
            output_dir=output_dir,
            **options,
        )

    @property
    def origin_format(self) -> str:
        """Name of the format that the model came in."""
        return self._inner.format

    @property
    def signature(self) -> IOSignature:
        """Inputs and outputs of the model."""
        return self._inner.signature

    @property
    def source(self) -> Any:
        """The model as it was given."""
        return self._inner.source

    @property
    def options(self) -> ConvertOptions:
        """The choices under which the model is converted where a call gives no others."""
        return self._inner.options

    @property
    def report(self) -> Report:
        """What each step did."""
        return self._inner.report

    def source_runner(self) -> Runner:
        """Runs the model as it was given, by its format's own runtime; see :meth:`BaseConverter.source_runner`."""
        return self._inner.source_runner()

    def to(self, format: str, **options: Any) -> Any:
        """The model in a format by its name; see :meth:`BaseConverter.to`."""
        return self._inner.to(format, **options)

    def to_onnx(self, **options: Any) -> Any:
        """The model as an ``onnx.ModelProto``."""
        return self._inner.to_onnx(**options)

    def to_torch(self, *, save_source: str | os.PathLike[str] | None = None, **options: Any) -> Any:
        """The model as a trainable ``torch.nn.Module`` in ``eval()`` mode; see :meth:`BaseConverter.to_torch`."""
        return self._inner.to_torch(save_source=save_source, **options)

    def to_tflite(self, **options: Any) -> Any:
        """The model as a ``TFLiteModel``."""
        return self._inner.to_tflite(**options)

    def to_trt(self, **options: Any) -> Any:
        """The model as a ``TRTEngine``; options are those of :class:`~mlconverter.options.EngineOptions`."""
        return self._inner.to_trt(**options)

    def to_origin_type(self, model: Any = None) -> Any:
        """The trained model in the format it came from; see :meth:`BaseConverter.to_origin_type`."""
        return self._inner.to_origin_type(model)

    @property
    def contract(self) -> Contract:
        """What the model promises to whoever runs it, beside what it computes."""
        return self._inner.contract

    def save_contract(self, folder: str | os.PathLike[str], *, embed_origin: bool = True) -> Path:
        """Write what the way back needs, for another process or another day: see :meth:`from_contract`.

        Args:
            folder: where to; a contract that is there is replaced.
            embed_origin: whether the origin's file goes along. Without, the contract says where it is and its digest.

        Returns:
            The folder.

        Raises:
            SignatureError: no torch module was made yet, or the origin is no file and is not to go along.
            NotConvertibleError: the origin is a torch module, which no file holds whole.
            SaveError: the folder cannot be written.
        """
        inner, module = self._inner, self._inner._latest_torch()
        if inner.format == "torch":
            raise NotConvertibleError("A torch module is its own origin: keep its code and its state_dict.")
        if not embed_origin and inner.model_path is None:
            raise SignatureError("The origin was given in memory, so there is no file to speak of: let it go along.")
        weights = {name: [o.as_dict() for o in found] for name, found in module.weight_origins.items()}
        settings = {"options": inner.options.chosen(), "conversion": module.origin.options.chosen()}

        def write(place: Path) -> None:
            origin = inner.model_path
            if embed_origin or origin is None:
                origin = place / f"origin{inner.extensions[0]}"
                inner._write_source(origin)
            StoredContract(inner.contract, origin, content_hash(origin), settings, weights).write(place)

        return atomic_folder(folder, write, ENTRY)

    @classmethod
    def from_contract(cls, folder: str | os.PathLike[str], **options: Any) -> Converter:
        """A converter of a contract's origin, as it was when the contract was saved.

        ``to_origin_type`` takes the trained module, its ``state_dict``, or a file of that.

        Args:
            folder: what :meth:`save_contract` wrote.
            **options: other choices than those of the converter that saved it.

        Raises:
            FileNotFoundError: there is no contract, or no origin where it says.
            CorruptModelError: what is there is none, or the origin is another file.
        """
        stored = StoredContract.read(folder)
        converter = cls(model_path=stored.origin, **{**stored.settings["options"], **options})
        converter._inner._agreed = stored.settings["conversion"]
        return converter

    def save(self, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Path:
        """Convert to the format of a file's extension and write it; see :meth:`BaseConverter.save`."""
        return self._inner.save(path, format, **options)

    def __getattr__(self, name: str) -> Any:
        """``to_<format>`` for every registered format."""
        if name.startswith("to_") and name.removeprefix("to_") in formats:
            return lambda **options: self._inner.to(name.removeprefix("to_"), **options)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        place = "" if self._inner.model_path is None else f" '{self._inner.model_path.name}'"
        return f"<Converter of a {self.origin_format} model{place}>"


def format_of(model: Any = None, model_path: str | os.PathLike[str] | None = None) -> type[BaseConverter]:
    """The converter class that owns a model or, without one, a file.

    Raises:
        UnknownFormatError: none does.
        FileNotFoundError: there is no such file.
    """
    if model is not None:
        owners = [cls for cls in formats if cls.owns_model(model)]
        if not owners:
            kind = f"{type(model).__module__}.{type(model).__qualname__}"
            raise UnknownFormatError(f"No format owns objects of type {kind}.", known=formats.names())
        return owners[0]
    if model_path is None:
        raise UnknownFormatError("Give a model or a model_path.", known=formats.names())
    path = Path(model_path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file '{path}'.")
    # What a file holds outranks what it is called; a damaged one is known by its name alone.
    by_content = [cls for cls in formats if cls.owns_path(path)]
    by_extension = [cls for cls in formats if path.suffix.lower() in cls.extensions]
    for found in (by_content, by_extension):
        if found:
            return found[0]
    raise UnknownFormatError(f"No format owns '{path}'.", known=formats.names())
