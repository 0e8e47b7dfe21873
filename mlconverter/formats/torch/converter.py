"""Torch modules: exported to ONNX with their input shapes, and made from the hub as trainable modules."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlconverter.base import BaseConverter
from mlconverter.batching import converted
from mlconverter.conversion import Conversion, TrainedWeights
from mlconverter.errors import (
    MissingDependencyError,
    NotConvertibleError,
    SignatureError,
)
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Array
from mlconverter.options import ConvertOptions
from mlconverter.registry import formats
from mlconverter.signature import IOSignature, Layout
from mlconverter.verification import Runner

if TYPE_CHECKING:
    from torch import nn

    from mlconverter.formats.torch.refresh import Exported


class TorchConverter(BaseConverter, format="torch", extensions=(".pt", ".pth", ".safetensors"), model_modules=("torch",)):
    """A ``torch.nn.Module``, or a file of its weights together with the module.

    Args:
        input_shape: one shape, several, a dict by name, or example inputs; see
            :func:`~mlconverter.formats.torch.inputs.example_inputs`.
    """

    digest_is_whole = False  # functions that a forward calls are not in it
    is_trained: ClassVar[bool] = True
    source_options: ClassVar[frozenset[str]] = frozenset({"opset", "input_names", "output_names", "dynamic_batch", "trust"})
    target_options: ClassVar[frozenset[str]] = frozenset({"dynamic_batch"})
    op_routes: ClassVar[Mapping[str, str]] = {"onnx-torch": "mlconverter.formats.torch.from_onnx:translates"}

    @classmethod
    def _takes_both(cls) -> bool:
        return True

    @classmethod
    def owns_model(cls, model: Any) -> bool:
        """Whether an object is a module; subclasses of ``nn.Module`` have torch in their method resolution order."""
        return any(c.__module__.startswith("torch.nn") for c in type(model).__mro__)

    @classmethod
    def owns_path(cls, path: Path) -> bool:
        """Whether a file is a torch checkpoint: an archive with torch's records in it, or safetensors."""
        from mlconverter.formats.torch.files import is_archive, is_safetensors

        return is_archive(path) or is_safetensors(path)

    def _load(self, model: Any) -> None:
        require_torch()
        from mlconverter.formats.torch.checkpoint import load_checkpoint
        from mlconverter.formats.torch.files import refuse_program
        from mlconverter.formats.torch.state import refuse_other, refuse_unready

        if self.model_path is not None:
            refuse_program(self.model_path)
        if model is None:
            raise SignatureError(
                "A torch checkpoint holds weights, not the code that uses them: give the module too, as "
                "Converter(model=module, model_path='weights.pt', input_shape=…)."
            )
        refuse_other(model)
        if self.model_path is not None:
            load_checkpoint(model, self.model_path, self.options.trust)
        refuse_unready(model)
        self._module: nn.Module = model
        self._layouts: dict[str, Layout | None] = {}
        self._exported: dict[ConvertOptions, Exported] = {}
        if self._input_shape is None:
            self._take_border_of(model)

    def _take_border_of(self, module: nn.Module) -> None:
        """Names, shapes and layouts of a module that a conversion gave; of others they are the caller's to say."""
        from mlconverter.formats.torch.fingerprint import fingerprint
        from mlconverter.formats.torch.trained import unwrap

        converted = unwrap(module)
        if converted is None:
            return
        known = converted.origin.signature
        self._input_shape = list(known.inputs)
        self._layouts = {spec.name: spec.layout for spec in (*known.inputs, *known.outputs)}
        if self.options.input_names is None:
            self.options = self.options.having(input_names=known.input_names)
        if self.options.output_names is None and fingerprint(converted) == converted.origin.fingerprint:
            self.options = self.options.having(output_names=known.output_names)

    def _laid_out(self, signature: IOSignature) -> IOSignature:
        """A signature with the layouts that are known; of others torch's convention holds."""
        inputs, outputs = (
            tuple(replace(s, layout=self._layouts.get(s.name, s.layout)) for s in specs)
            for specs in (signature.inputs, signature.outputs)
        )
        return replace(signature, inputs=inputs, outputs=outputs)

    @property
    def source(self) -> nn.Module:
        """The module as it was given."""
        return self._module

    def _source_hash(self) -> str:
        from mlconverter.formats.torch.inputs import described
        from mlconverter.formats.torch.state import refuse_unready, state_hash, structure_hash

        refuse_unready(self._module)
        return f"{state_hash(self._module)}-{structure_hash(self._module)}-{described(self._input_shape)}"

    def _to_onnx(self, options: ConvertOptions) -> HubModel:
        from mlconverter.formats.torch.inputs import example_inputs
        from mlconverter.formats.torch.refresh import Exported
        from mlconverter.formats.torch.to_onnx import export

        known = self._exported.get(options)
        hub = None if known is None else known.refreshed(self._module)
        if hub is None:
            inputs = example_inputs(self._module, self._input_shape, options.input_names)
            hub, free = export(self._module, inputs, options)
            if free:
                self._exported[options] = Exported.of(self._module, hub)
        return replace(hub, signature=self._laid_out(hub.signature))

    def _to_trt(self, options: ConvertOptions) -> Conversion:
        if not options.partial:
            return super()._to_trt(options)
        from mlconverter.formats.torch.programs import exported_program

        program, _ = exported_program(self._module, self._input_shape, level=False, rtol=None)
        made: Conversion = formats["trt"].partly(program, self._signature(options), options)
        return made

    def _signature(self, options: ConvertOptions) -> IOSignature:
        from mlconverter.formats.torch.inputs import example_inputs
        from mlconverter.formats.torch.observed import observed_signature

        exported = self._hubs.get((options.having(io_layout=None).reading, self._state()))
        if exported is not None:
            return exported.signature.without_states  # an export knows which of the names that were given are the same size
        inputs = example_inputs(self._module, self._input_shape, options.input_names)
        return self._laid_out(observed_signature(self._module, inputs, options))

    @classmethod
    def _from_hub(cls, hub: HubModel, options: ConvertOptions, source_hash: str) -> Conversion:
        require_torch()
        from mlconverter.formats.torch.from_onnx import convert

        def made(hub: HubModel) -> Conversion:
            module, notes = convert(hub, options, source_hash)
            return Conversion(module, hub.signature.without_states, (*hub.notes, *notes))

        return converted(hub, options, made, cls._runner, unasked=True)

    @classmethod
    def _refuse(cls, hub: HubModel) -> None:
        require_torch()
        from mlconverter.formats.torch.from_onnx import translates
        from mlconverter.hub.expand import expand
        from mlconverter.hub.normalise import normalise
        from mlconverter.hub.refusing import refuse_unsupported

        refuse_unsupported(expand(normalise(hub.model), translates), translates)

    @classmethod
    def _runner(cls, model: Any, signature: IOSignature) -> Runner:
        from mlconverter.formats.torch.runner import TorchRunner

        return TorchRunner(model, signature)

    @classmethod
    def _write(cls, model: Any, path: Path) -> None:
        from mlconverter.formats.torch.checkpoint import write_checkpoint

        write_checkpoint(model, path)

    @classmethod
    def write_source(cls, module: Any, path: str | os.PathLike[str]) -> Path:
        """Write a converted module as source; see :func:`~mlconverter.formats.torch.source.write_source`."""
        require_torch()
        from mlconverter.formats.torch.source import write_source

        return write_source(module, path)

    @classmethod
    def _read(cls, path: Path) -> Conversion:
        raise NotConvertibleError("A torch file holds weights only; the module is made anew.")

    @classmethod
    def trained_weights(cls, trained: Any, reference: Any) -> TrainedWeights:
        """See :meth:`BaseConverter.trained_weights`."""
        require_torch()
        from mlconverter.formats.torch.trained import read

        return read(trained, reference)

    def to_origin_type(self, model: Any = None) -> Any:
        """See :meth:`BaseConverter.to_origin_type`; a state of the source itself is loaded into a copy of it."""
        if not isinstance(model, Mapping) or self._handed_out not in (None, self._module):
            return super().to_origin_type(model)
        import copy

        from mlconverter.formats.torch.state_dict import load_state

        trained = copy.deepcopy(self._module)
        load_state(trained, model, "The trained weights")
        return trained

    def _stored_weights(self, sources: Iterable[str]) -> dict[str, Array]:
        from mlconverter.formats.torch.arrays import to_numpy
        from mlconverter.formats.torch.state import state_of

        state = state_of(self._module)
        return {name: to_numpy(state[name]) for name in sources}

    def _with_weights(self, changed: Mapping[str, Array]) -> nn.Module:
        import copy

        from mlconverter.formats.torch.state import put_values

        return put_values(copy.deepcopy(self._module), changed)


def require_torch() -> None:
    """Raise where torch is not installed.

    Raises:
        MissingDependencyError: naming the extra to install.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingDependencyError("torch", "torch", "Converting from or to PyTorch")
