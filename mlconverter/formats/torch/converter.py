"""Torch modules: exported to ONNX with their input shapes, and made from the hub as trainable modules."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlconverter.base import BaseConverter
from mlconverter.batching import converted
from mlconverter.conversion import Conversion, TrainedWeights
from mlconverter.errors import (
    CorruptModelError,
    MissingDependencyError,
    NotConvertibleError,
    SignatureError,
    UnsafeModelError,
)
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Array
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner

if TYPE_CHECKING:
    from torch import nn


class TorchConverter(BaseConverter, format="torch", extensions=(".pt", ".pth"), model_modules=("torch",)):
    """A ``torch.nn.Module``, or a file of its weights together with the module.

    Args:
        input_shape: one shape, several, a dict by name, or example inputs; see
            :func:`~mlconverter.formats.torch.inputs.example_inputs`.
    """

    digest_is_whole = False  # functions that a forward calls are not in it
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
        """Whether a file is a torch checkpoint: a zip archive with torch's records in it."""
        import zipfile

        if not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(("data.pkl", "serialized_exported_program.json")) for name in archive.namelist())

    def _load(self, model: Any) -> None:
        require_torch()
        from torch import nn

        if model is None:
            raise SignatureError(
                "A torch checkpoint holds weights, not the code that uses them: give the module too, as "
                "Converter(model=module, model_path='weights.pt', input_shape=…)."
            )
        if not isinstance(model, nn.Module):
            raise SignatureError(f"A torch model is an nn.Module, not {type(model).__name__}.")
        if self.model_path is not None:
            try:
                model.load_state_dict(_weights_of(self.model_path, self.options.trust))
            except (RuntimeError, TypeError, AttributeError) as error:
                raise SignatureError(f"The weights in '{self.model_path}' do not fit the module: {error}") from error
        self._module: nn.Module = model

    @property
    def source(self) -> nn.Module:
        """The module as it was given."""
        return self._module

    def _source_hash(self) -> str:
        from mlconverter.formats.torch.inputs import described
        from mlconverter.formats.torch.state import state_hash, structure_hash

        return f"{state_hash(self._module)}-{structure_hash(self._module)}-{described(self._input_shape)}"

    def _to_onnx(self, options: ConvertOptions) -> HubModel:
        from mlconverter.formats.torch.inputs import example_inputs
        from mlconverter.formats.torch.to_onnx import export

        return export(self._module, example_inputs(self._module, self._input_shape, options.input_names), options)

    def _signature(self, options: ConvertOptions) -> IOSignature:
        from mlconverter.formats.torch.inputs import example_inputs
        from mlconverter.formats.torch.observed import observed_signature

        inputs = example_inputs(self._module, self._input_shape, options.input_names)
        return observed_signature(self._module, inputs, options)

    @classmethod
    def _from_hub(cls, hub: HubModel, options: ConvertOptions, source_hash: str) -> Conversion:
        require_torch()
        from mlconverter.formats.torch.from_onnx import convert

        def made(hub: HubModel) -> Conversion:
            module, notes = convert(hub, options, source_hash)
            return Conversion(module, hub.signature, (*hub.notes, *notes))

        return converted(hub, options, made, cls._runner, unasked=True)

    @classmethod
    def _refuse(cls, hub: HubModel) -> None:
        require_torch()
        from mlconverter.formats.torch.from_onnx.translate import refuse_unsupported
        from mlconverter.hub.normalise import normalise

        refuse_unsupported(normalise(hub.model))

    @classmethod
    def _runner(cls, model: Any, signature: IOSignature) -> Runner:
        from mlconverter.formats.torch.runner import TorchRunner

        return TorchRunner(model, signature)

    @classmethod
    def _write(cls, model: Any, path: Path) -> None:
        import torch

        torch.save(model.state_dict(), path)

    @classmethod
    def _read(cls, path: Path) -> Conversion:
        raise NotConvertibleError("A torch file holds weights only; the module is made anew.")

    @classmethod
    def trained_weights(cls, trained: Any, reference: Any) -> TrainedWeights:
        """See :meth:`BaseConverter.trained_weights`."""
        require_torch()
        from mlconverter.formats.torch.trained import read

        return read(trained, reference)

    def _stored_weights(self, sources: Iterable[str]) -> dict[str, Array]:
        from mlconverter.formats.torch.runner import to_numpy
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


def _weights_of(path: Path, trust: bool) -> Any:
    """The state dict in a file; nothing in it is run unless ``trust``."""
    import pickle

    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=not trust)
    except pickle.UnpicklingError as error:
        raise UnsafeModelError(
            f"'{path}' holds more than weights, and loading it would run code from the file. Pass trust=True if you trust it."
        ) from error
    except (EOFError, RuntimeError) as error:
        raise CorruptModelError(f"'{path}' is not a readable torch checkpoint: {str(error) or 'it is empty'}.") from error
    return found.state_dict() if hasattr(found, "state_dict") else found
