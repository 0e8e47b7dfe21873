"""What runs a model, whatever its format: dicts of numpy arrays by name, in and out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import numpy as np

from mlconverter.errors import ConversionError, MLConverterError, SignatureError
from mlconverter.signature import IOSignature, Quantization, TensorSpec
from mlconverter.verification.dtypes import Array, dtype_name


@runtime_checkable
class Runner(Protocol):
    """Runs one model.

    ``run`` raises an :class:`~mlconverter.errors.MLConverterError` where the model does not run, and nothing else.
    """

    @property
    def name(self) -> str:
        """Name and version of the runtime, ``"ONNX Runtime 1.32.0"``."""

    @property
    def signature(self) -> IOSignature:
        """What the model takes and gives."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, in the order of the signature."""

    def __enter__(self) -> Self:
        """Hold the runtime's resources."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        """Let them go."""


@runtime_checkable
class Inspectable(Protocol):
    """A runner that can show the tensors between its operators."""

    def intermediates(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Values of the model's tensors by name, outputs included, in the order in which they are computed.

        Raises:
            SignatureError: this one cannot show them.
        """


@runtime_checkable
class Stateful(Protocol):
    """A runner of a model that may keep something from call to call."""

    @property
    def keeps_state(self) -> bool:
        """Whether it does."""

    def reset(self) -> None:
        """Forget all calls: the next one is the first."""


@runtime_checkable
class Varied(Protocol):
    """A runner whose runtime has several sets of kernels: how far those are apart nobody can tell right from wrong."""

    def other_kernels(self) -> Runner:
        """Runs the same model by another set.

        Raises:
            ConversionError: that set does not run the model.
        """


class BaseRunner(ABC):
    """A runner that checks what goes in and what comes out; subclasses give :meth:`_run`.

    Args:
        name: name and version of the runtime.
        signature: what the model takes and gives.
    """

    def __init__(self, name: str, signature: IOSignature) -> None:
        self._name, self._signature = name, signature

    @property
    def name(self) -> str:
        """Name and version of the runtime."""
        return self._name

    @property
    def signature(self) -> IOSignature:
        """What the model takes and gives."""
        return self._signature

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run the model.

        Args:
            inputs: one array an input, of its dtype, rank and fixed dimensions.

        Returns:
            The outputs by name, in the order of the signature; the arrays are the caller's own.

        Raises:
            SignatureError: the inputs do not fit the signature, or the outputs do not have its names.
            ConversionError: the runtime failed on the model.
        """
        fitting = check_inputs(self.signature, inputs)
        try:
            outputs = self._run(fitting)
        except (MLConverterError, MemoryError):  # memory says something about the machine, not about the model
            raise
        except Exception as error:
            raise ConversionError(f"{self.name} failed to run the model: {type(error).__name__}: {error}") from error
        return self._checked(outputs)

    @abstractmethod
    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        """Run the model on inputs that fit, given in the order of the signature."""

    def close(self) -> None:  # noqa: B027  (most runners have nothing to let go)
        """Let go of the runtime's resources."""

    def __enter__(self) -> Self:
        """The runner itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        """Close."""
        self.close()

    def _checked(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        names = self.signature.output_names
        if set(outputs) != set(names):
            raise SignatureError(f"{self.name} gave the outputs {sorted(outputs)}, not {sorted(names)}.")
        for name, value in outputs.items():
            if not isinstance(value, (np.ndarray, np.generic)):
                raise SignatureError(f"{self.name} gave a {type(value).__name__} for output '{name}', not an array.")
        # Copies: a runtime may hand out views of memory that its next run overwrites.
        return {name: np.array(outputs[name]) for name in names}


def quantizations(source: Runner, target: Runner) -> dict[str, Quantization | None]:
    """How the integers of each output stand for real numbers, as either of two runners says; a module does not."""
    said = {spec.name: spec.quantization for spec in target.signature.outputs}
    return {spec.name: spec.quantization or said.get(spec.name) for spec in source.signature.outputs}


def intermediates_of(runner: Runner, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """What a runner shows of the tensors between its operators.

    Raises:
        SignatureError: it shows none.
    """
    if not isinstance(runner, Inspectable):
        raise SignatureError(f"{runner.name} does not show the tensors between its operators.")
    return runner.intermediates(inputs)


def check_inputs(signature: IOSignature, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs in the order of the signature.

    Raises:
        SignatureError: a name, a dtype, a rank or a fixed dimension is not the signature's.
    """
    missing = [n for n in signature.input_names if n not in inputs]
    unknown = [n for n in inputs if n not in signature.input_names]
    if missing or unknown:
        parts = [f"{what} {names}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise SignatureError(f"Inputs do not fit: {', '.join(parts)}. The model takes {list(signature.input_names)}.")
    return {spec.name: _check_input(spec, inputs[spec.name]) for spec in signature.inputs}


def _check_input(spec: TensorSpec, value: Array) -> Array:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise SignatureError(f"Input '{spec.name}' has to be a numpy array, not a {type(value).__name__}.")
    array = np.asarray(value)
    given = f"{dtype_name(array.dtype)}{list(array.shape)}"
    if dtype_name(array.dtype) != dtype_name(spec.dtype):
        raise SignatureError(f"Input '{spec.name}' is {given}; its dtype has to be {spec.dtype} ({spec}).")
    if spec.shape is None:
        return array
    if array.ndim != len(spec.shape):
        raise SignatureError(f"Input '{spec.name}' is {given}; it has to have {len(spec.shape)} axes ({spec}).")
    for axis, (size, dim) in enumerate(zip(array.shape, spec.shape, strict=True)):
        if isinstance(dim, int) and size != dim:
            raise SignatureError(f"Input '{spec.name}' is {given}; axis {axis} has to be {dim}, not {size} ({spec}).")
    return array
