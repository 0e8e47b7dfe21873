"""One model in one format, and the ways from there: what every format's converter shares."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from mlconverter.cache import atomic_write
from mlconverter.collecting import uncollected
from mlconverter.contract import Contract
from mlconverter.conversion import Conversion, Trained, TrainedWeights, hub_runner
from mlconverter.errors import NotConvertibleError, SignatureError
from mlconverter.hub.border import border_change
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Array
from mlconverter.intermediates import Intermediates
from mlconverter.options import GENERAL, ConvertOptions, VerifyLevel, asked_for
from mlconverter.registry import formats
from mlconverter.report import Report, Step
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner, VerificationResult, compared
from mlconverter.wayback import way_back

ResultKey = tuple[str, ConvertOptions, str]
"""Format, options and state of the source: what a result depends on."""


class BaseConverter(ABC):
    """A model in one format.

    A subclass registers its format by class keywords::

        class KerasConverter(BaseConverter, format="keras", extensions=(".keras",), model_modules=("keras",)): ...

    and gives :meth:`_load`, :meth:`_to_onnx`, :meth:`_from_hub`, :meth:`_runner`, :meth:`_write` and :meth:`_read`; with
    :meth:`_stored_weights` and :meth:`_with_weights` trained weights find their way back into it.

    Args:
        model: a model in memory.
        model_path: a file instead.
        input_shape: shapes of the inputs, for formats that do not carry them.
        load_intermediate_models_from_disk: reuse the files of earlier conversions where they are still right.
        output_dir: folder of those files; the user's cache folder by default.
        **options: see :class:`~mlconverter.options.ConvertOptions`.
    """

    format: ClassVar[str] = ""
    extensions: ClassVar[tuple[str, ...]] = ()
    model_modules: ClassVar[tuple[str, ...]] = ()
    digest_is_whole: ClassVar[bool] = True
    """Whether the digest of a source covers all that decides on its results, code that it calls included."""
    is_trained: ClassVar[bool] = False
    """Whether models of this format are trained, and have to know the digest of what they were made of."""
    source_options: ClassVar[frozenset[str]] = frozenset()
    """Options, beside the general ones, that decide on how a model of this format is read."""
    target_options: ClassVar[frozenset[str]] = frozenset()
    """Options, beside the general ones, that decide on how a model of this format is made."""
    op_routes: ClassVar[Mapping[str, str]] = {}
    """Routes whose operators this format translates: name to ``"module:attribute"`` of the registry."""

    def __init_subclass__(
        cls, *, format: str = "", extensions: tuple[str, ...] = (), model_modules: tuple[str, ...] = (), **keywords: Any
    ) -> None:
        super().__init_subclass__(**keywords)
        if format:
            cls.format, cls.extensions, cls.model_modules = format, extensions, model_modules
            formats.register(format, cls)

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
        if (model is None) == (model_path is None) and not self._takes_both():
            given = "both were given" if model is not None else "neither was given"
            raise SignatureError(f"{type(self).__name__} takes a model or a model_path: {given}.")
        if model_path is not None and not Path(model_path).is_file():
            raise FileNotFoundError(f"There is no file '{os.fspath(model_path)}'.")
        self.options = ConvertOptions().having(**options)
        self._refuse_idle(options, *formats)
        self.report = Report()
        self.model_path = None if model_path is None else Path(model_path)
        self._input_shape = input_shape
        self._intermediates = Intermediates.of(output_dir, load_intermediate_models_from_disk)
        self._results: dict[ResultKey, Conversion] = {}
        self._checked: dict[ResultKey, set[tuple[VerifyLevel, float | None]]] = {}
        self._handed_out: Any = None
        self._agreed: Mapping[str, Any] | None = None  # how the module of a contract was converted
        self._hubs: dict[tuple[ConvertOptions, str], HubModel] = {}
        with uncollected():
            self._load(model)

    @classmethod
    def _takes_both(cls) -> bool:
        """Whether a model and a file make sense together, as weights for a module do."""
        return False

    # -- what a format gives -----------------------------------------------------------------------------------------

    @classmethod
    def owns_model(cls, model: Any) -> bool:
        """Whether an object is a model of this format, told by the modules of its classes: no framework is imported to ask."""
        modules = {c.__module__.split(".")[0] for c in type(model).__mro__}
        return bool(modules & set(cls.model_modules))

    @classmethod
    def owns_path(cls, path: Path) -> bool:
        """Whether a file looks like this format by its content."""
        return False

    @abstractmethod
    def _load(self, model: Any) -> None:
        """Take the model, or read ``self.model_path``."""

    @property
    @abstractmethod
    def source(self) -> Any:
        """The model as it was given."""

    def _copy_of_source(self) -> Any:
        """The source as it may be handed out: itself where nobody can change it, or where changing it is what it is for."""
        return self.source

    def _runnable(self) -> Any:
        """The source in the form in which it is run."""
        return self.source

    @abstractmethod
    def _source_hash(self) -> str:
        """A digest of the source as it is now, weights included."""

    def _state(self) -> str:
        """What tells the source's present state from others that this converter has seen; constant where it cannot change."""
        return self._source_hash()

    @abstractmethod
    def _to_onnx(self, options: ConvertOptions) -> HubModel:
        """The source in the hub."""

    @classmethod
    @abstractmethod
    def _from_hub(cls, hub: HubModel, options: ConvertOptions, source_hash: str) -> Conversion:
        """A model of this format made from the hub."""

    @classmethod  # noqa: B027 (a format that takes everything has nothing to raise)
    def _refuse(cls, hub: HubModel) -> None:
        """Raise what :meth:`_from_hub` is known to raise, before anything is translated.

        Raises:
            UnsupportedOpsError: with every operator that cannot be translated.
            NotConvertibleError: there is no way from the hub to this format.
            MissingDependencyError: a package that it takes is not installed.
        """

    def _signature(self, options: ConvertOptions) -> IOSignature:
        """What the source takes and gives in its own layout; formats that can tell without a conversion do."""
        return self.hub(options.having(io_layout=None)).signature

    def _contract(self, options: ConvertOptions) -> IOSignature:
        """What conversions start from: the source's own, or that of the model without its quantisation."""
        return self.hub(options.having(io_layout=None)).signature if options.dequantize else self._signature(options)

    def _features(self) -> dict[str, Any]:
        """What a model of this format promises beside its signature, in types that JSON has."""
        return {}

    def _own_options(self) -> dict[str, Any]:
        """Options under which a new model becomes one like the source."""
        return {}

    @classmethod
    @abstractmethod
    def _runner(cls, model: Any, signature: IOSignature) -> Runner:
        """Runs a model of this format.

        Raises:
            NotRunnableError: nothing here can.
            CorruptModelError: the model is no valid one.
        """

    @classmethod
    @abstractmethod
    def _write(cls, model: Any, path: Path) -> None:
        """Write a model of this format to a file."""

    def _write_source(self, path: Path) -> None:
        """Write the source to a file that reads as the very same."""
        self._write(self.source, path)

    @classmethod
    @abstractmethod
    def _read(cls, path: Path) -> Conversion:
        """Read a model of this format that :meth:`_write` wrote.

        Raises:
            NotConvertibleError: files of this format do not hold a whole model.
        """

    def _stored_weights(self, sources: Iterable[str]) -> dict[str, Array]:
        """The source's weights as it stores them, by the names that weight links use."""
        raise NotConvertibleError(f"Trained weights cannot be written back into {self.format} models.")

    def _with_weights(self, changed: Mapping[str, Array]) -> Any:
        """A model of this format: the source with other weights in its own storage and nothing else touched."""
        raise NotConvertibleError(f"Trained weights cannot be written back into {self.format} models.")

    @classmethod
    def trained_weights(cls, trained: Trained, reference: Any) -> TrainedWeights:
        """What a trained model holds, for a format that can be trained.

        Args:
            trained: the trained model, or its state by name.
            reference: the model as it was converted, for a state that says nothing of its own.

        Raises:
            NotConvertibleError: models of this format are not trained.
        """
        raise NotConvertibleError(f"{cls.format} models are not trained here.")

    # -- the ways to other formats -----------------------------------------------------------------------------------

    def _to(self, format: str, options: ConvertOptions) -> Conversion:
        target = formats[format]
        source_hash = self._source_hash() if target.is_trained else ""  # which takes as long as many a conversion
        return target._from_hub(self.hub(options), options, source_hash)  # type: ignore[no-any-return]

    def _to_torch(self, options: ConvertOptions) -> Conversion:
        return self._to("torch", options)

    def _to_tflite(self, options: ConvertOptions) -> Conversion:
        return self._to("tflite", options)

    def _to_trt(self, options: ConvertOptions) -> Conversion:
        return self._to("trt", options)

    def hub(self, options: ConvertOptions | None = None) -> HubModel:
        """The source in the hub, under the border that the options ask for."""
        chosen = (options or self.options).reading
        key = (chosen, self._state())
        self._hubs = {k: hub for k, hub in self._hubs.items() if k[1] == key[1]}  # a source that was trained on is another one
        if key not in self._hubs:
            plain = (chosen.having(io_layout=None), key[1])
            if plain not in self._hubs:
                read = self._to_onnx(chosen)
                if chosen.dequantize:
                    from mlconverter.hub.dequantised import dequantised

                    read = dequantised(read)
                self._hubs[plain] = read
            hub = self._hubs[plain]
            change = border_change(hub.signature, chosen.io_layout)
            if change:
                from mlconverter.hub.relayout import change_border

                hub = change_border(hub, change)
            self._hubs[key] = hub
        return self._hubs[key]

    def to(self, format: str, **options: Any) -> Any:
        """The model in another format; the same object again for the same options.

        Args:
            format: name of the format.
            **options: see :class:`~mlconverter.options.ConvertOptions`.

        Raises:
            UnknownFormatError: there is no such format.
            ConversionError: the model cannot be converted.
            VerificationError: the result does not compute what the source computes.
        """
        return self.conversion(format, **options).model

    def to_onnx(self, **options: Any) -> Any:
        """The model as an ``onnx.ModelProto``."""
        return self.to("onnx", **options)

    def to_torch(self, *, save_source: str | os.PathLike[str] | None = None, **options: Any) -> Any:
        """The model as a trainable ``torch.nn.Module`` in ``eval()`` mode.

        Args:
            save_source: where to write the module as a Python file that needs torch alone; its weights go beside it.
            **options: see :class:`~mlconverter.options.ConvertOptions`.
        """
        module = self.to("torch", **options)
        if save_source is not None:
            formats["torch"].write_source(module, save_source)
        return module

    def to_tflite(self, **options: Any) -> Any:
        """The model as a ``TFLiteModel``."""
        return self.to("tflite", **options)

    def to_trt(self, **options: Any) -> Any:
        """The model as a ``TRTEngine``.

        Args:
            **options: see :class:`~mlconverter.options.EngineOptions`: ``precision``, ``dynamic_shapes``, ``calibration`` …

        Raises:
            MissingDependencyError: TensorRT is not installed; the message names the extra that brings it.
            UnsupportedOpsError: its parser refuses operators.
        """
        return self.to("trt", **options)

    def conversion(self, format: str, **options: Any) -> Conversion:
        """As :meth:`to`, with the signature and the notes of the result."""
        chosen = self.options.having(**options)
        self._refuse_idle(options, formats[format])
        key = (format, chosen.conversion, self._state())
        self._results = {k: result for k, result in self._results.items() if k[2] == key[2]}
        known = self._results.get(key)
        if known is None or not self._is_checked(key, chosen):
            known = self._converted(formats[format], key, chosen, known)
        if format == "torch":
            self._handed_out = known.model
        return known

    def _converted(
        self, target: type[BaseConverter], key: ResultKey, options: ConvertOptions, known: Conversion | None
    ) -> Conversion:
        """Convert and compare; a result that was there already stays the one that is handed out.

        It may have been trained since, so what is compared is the conversion itself, made once more.
        """
        start = time.perf_counter()
        stored = self._intermediates.get(self, target.format, options)
        own = target.format == self.format and not (options.dequantize or self._changes_border(options))
        if own:
            result = Conversion(self._copy_of_source(), self._signature(options))
        elif stored is not None:
            result = stored
        else:
            ways = {"torch": self._to_torch, "tflite": self._to_tflite, "trt": self._to_trt}
            with uncollected():
                result = ways.get(target.format, partial(self._to, target.format))(options)
        if not own:
            seconds = time.perf_counter() - start
            verification = self._verify(target, result, options)
            self.report.record(Step(f"{self.format} → {target.format}", seconds, verification, result.notes))
            verification.raise_if_wrong()
            if stored is None:
                self._intermediates.put(self, target.format, options, result)
        self._checked = {k: levels for k, levels in self._checked.items() if k[2] == key[2]}
        self._checked.setdefault(key, set()).add((options.verify, options.rtol))
        return self._results.setdefault(key, known or result)

    def _refuse_idle(self, choices: Mapping[str, Any], *targets: type[BaseConverter]) -> None:
        """Refuse options on which no conversion to one of the targets acts: whoever gives one counts on what it does."""
        meant = GENERAL.union(self.source_options, *(target.target_options for target in targets))
        idle = sorted(set(asked_for(choices)) - meant)
        if idle:
            route = f"{self.format} → {targets[0].format}" if len(targets) == 1 else f"{self.format} models"
            raise SignatureError(
                f"The option {', '.join(map(repr, idle))} does nothing for {route}; options there: {', '.join(sorted(meant))}."
            )

    def _changes_border(self, options: ConvertOptions) -> bool:
        """Whether the options ask for another layout than the source has."""
        return options.io_layout is not None and bool(border_change(self._contract(options), options.io_layout))

    def _is_checked(self, key: ResultKey, options: ConvertOptions) -> bool:
        """Whether a result was compared at least as thoroughly as the options ask."""
        levels = {level for level, rtol in self._checked.get(key, ()) if rtol == options.rtol}
        return options.verify is False or options.verify in levels or "full" in levels

    def save(self, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Path:
        """Convert to the format of a file's extension and write it.

        Args:
            path: the file; it is written whole or not at all.
            format: the format, where the extension does not say it.
            **options: see :class:`~mlconverter.options.ConvertOptions`.

        Returns:
            The path.

        Raises:
            SaveError: no format has this extension, or the file cannot be written.
        """
        target = Path(path)
        name = format or formats.of_extension(target)
        model = self.to(name, **options)
        cls = formats[name]
        atomic_write(target, lambda temporary: cls._write(model, temporary))
        return target

    # -- the way back ------------------------------------------------------------------------------------------------

    def to_origin_type(self, model: Trained | None = None) -> Any:
        """The trained model in the format, and under the contract, of the source.

        Args:
            model: the trained module, its ``state_dict``, or a file of that; by default the module that :meth:`to_torch` gave,
                trained in place.

        Returns:
            A model of the source's format: the source itself with the trained weights written into it. An untouched
            model comes back as the identical file.

        Raises:
            NotConvertibleError: the model's graph was changed and this format cannot be converted to anew.
            SignatureError: the module was converted from something else.
        """
        start = time.perf_counter()
        reference = self._latest_torch() if model is None or isinstance(model, (Mapping, str, os.PathLike)) else None
        if (model if model is not None else reference) is self.source:
            return self.source  # the origin was trained itself: nothing has to find a way back
        trained = formats["torch"].trained_weights(model if model is not None else reference, reference)
        if trained.source_hash != self._source_hash():
            raise SignatureError(
                "The trained module was converted from another model than this converter's; go back with a Converter of that one."
            )
        returned = way_back(self, trained)
        self.report.way_back = returned.way
        notes = (returned.way, *returned.notes)
        self.report.record(Step(f"torch → {self.format} (way back)", time.perf_counter() - start, returned.verification, notes))
        returned.verification.raise_if_wrong()
        return returned.model

    def _latest_torch(self) -> Any:
        """The torch module that was handed out last, or the one that a contract speaks of."""
        if self._handed_out is None and self._agreed is not None:
            self.to_torch(**{**self._agreed, "verify": False})
        if self._handed_out is None:
            raise SignatureError(
                "This converter has made no torch module yet: call to_torch() first, or pass the trained module."
            )
        return self._handed_out

    @property
    def contract(self) -> Contract:
        """What the source promises to whoever runs it, beside what it computes."""
        return Contract(self.format, self._signature(self.options), self._features())

    # -- verification and files --------------------------------------------------------------------------------------

    @property
    def signature(self) -> IOSignature:
        """What the source takes and gives, in the layout that the options ask for."""
        plain = self._contract(self.options)
        return border_change(plain, self.options.io_layout).of(plain)

    def source_runner(self) -> Runner:
        """Runs the source.

        Raises:
            NotRunnableError: nothing here can.
        """
        return self._runner(self._runnable(), self._signature(self.options))

    def _verify(self, target: type[BaseConverter], result: Conversion, options: ConvertOptions) -> VerificationResult:
        if options.verify is False:
            return VerificationResult.unverified("verify=False")
        plain = self._contract(options)
        change = border_change(plain, options.io_layout)
        return compared(
            partial(self._runs, self._runnable(), options),
            partial(target._runner, result.model, result.signature),
            level=options.verify,
            target_format=target.format,
            rtol=options.rtol,
            rounded=options.rounded,
            input_perms=change.inputs,
            output_perms=change.outputs,
        )

    def _runs(self, model: Any, options: ConvertOptions) -> Runner:
        """Runs a model of the source's format; without its quantisation where the options ask for that."""
        if not options.dequantize:
            return self._runner(model, self._signature(options))
        own = self if model is self._runnable() else type(self)(model)
        return hub_runner(own.hub(options.having(io_layout=None)))
