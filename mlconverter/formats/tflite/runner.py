"""Runs TFLite models in LiteRT."""

from __future__ import annotations

import importlib
import os
import textwrap
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mlconverter.errors import NotRunnableError, SignatureError
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.signature import border_of
from mlconverter.formats.tflite.structure import NUMPY_DTYPES, Array, Model
from mlconverter.signature import IOSignature
from mlconverter.verification.runner import BaseRunner, check_inputs

Kernels = Literal["default", "reference"]

_RESOLVERS = {"default": "AUTO", "reference": "BUILTIN_REF", "open": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"}
"""Delegates keep what is between their operators to themselves; the last set does without."""

_CRASHING = frozenset("ADD SUB EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL".split())
"""Operators whose kernels end the process on 8-bit tensors that are not quantised."""


class LiteRTRunner(BaseRunner):
    """A TFLite model, ready to be called; inputs with free dimensions may have any size there.

    Args:
        model: the file's bytes, or its path.
        kernels: ``"default"`` is what applications run (XNNPACK where it can), ``"reference"`` the plain kernels.
        num_threads: threads that the kernels may use.
        signature: what to show in place of the file's own signature: the same tensors, with other dimensions free. LiteRT
            resizes what a file says is fixed, which the file's operators may or may not bear.
        key: of the file's signature that is run, where it has several.

    Raises:
        CorruptModelError: the file is damaged.
        NotRunnableError: LiteRT does not run the model; the message says why.

    Example:
        >>> with LiteRTRunner("model.tflite") as runner:
        ...     outputs = runner.run({"image": image})
    """

    def __init__(
        self,
        model: bytes | str | os.PathLike[str],
        *,
        kernels: Kernels = "default",
        num_threads: int | None = None,
        signature: IOSignature | None = None,
        key: str | None = None,
    ) -> None:
        content = model if isinstance(model, bytes) else Path(model).read_bytes()
        structure = load(content)
        border = border_of(structure, key if any(s.key == key for s in structure.signatures) else None)
        super().__init__(f"LiteRT {version('ai-edge-litert')}", signature or border.signature)
        _refuse_crashing(structure)
        # Only the first subgraph's tensors can be reached by number; others are run by their signature.
        self._key = border.key if border.subgraph else None
        self._inputs = dict(zip(border.signature.input_names, border.inputs, strict=True))
        self._outputs = dict(zip(border.signature.output_names, border.outputs, strict=True))
        self._content, self._structure, self._kernels, self._num_threads = content, structure, kernels, num_threads
        self._interpreter: Any = self._load(kernels)
        self._shown: Any = None
        self._called = False

    def _load(self, kernels: str, keep: bool = False) -> Any:
        litert = importlib.import_module("ai_edge_litert.interpreter")
        try:
            interpreter = litert.Interpreter(
                model_content=self._content,
                experimental_op_resolver_type=getattr(litert.OpResolverType, _RESOLVERS[kernels]),
                experimental_preserve_all_tensors=keep,
                num_threads=self._num_threads,
            )
            interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            reason = textwrap.shorten(str(error), 300, placeholder=" …")
            raise NotRunnableError(f"{self.name} does not run the model ({kernels} kernels): {reason}") from error
        return interpreter

    @property
    def keeps_state(self) -> bool:
        """Whether what the model gives depends on the calls before."""
        return self._structure.keeps_state

    def reset(self) -> None:
        """Forget all calls; LiteRT itself forgets what its operators keep, and not what is assigned to variables."""
        if self._called:
            self._interpreter, self._shown, self._called = self._load(self._kernels), None, False

    def other_kernels(self) -> LiteRTRunner:
        """Runs the same model by the other set of kernels."""
        other: Kernels = "reference" if self._kernels == "default" else "default"
        return LiteRTRunner(self._content, kernels=other, num_threads=self._num_threads, signature=self.signature)

    def intermediates(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Tensors of the first subgraph by name, in the order of its operators, by kernels without delegates."""
        if self._key is not None:
            raise SignatureError("Tensors of other subgraphs than the first cannot be read.")
        fitting = check_inputs(self.signature, inputs)
        self._called = True
        if self._shown is None:
            self._shown = self._load("open", keep=True)
        before, self._interpreter = self._interpreter, self._shown
        try:
            self._run(fitting)
            graph = self._structure.subgraphs[0]
            indices = (i for operator in graph.operators for i in operator.outputs)
            # Asked for a handle, LiteRT ends the process.
            tensors = [(graph.tensors[i].label, i) for i in indices if graph.tensors[i].dtype in NUMPY_DTYPES]
            often = Counter(name for name, _ in tensors)  # a name that two tensors have tells neither
            return {name: np.array(self._interpreter.get_tensor(i)) for name, i in tensors if often[name] == 1} | {
                name: np.array(self._interpreter.get_tensor(i)) for name, i in self._outputs.items()
            }
        finally:
            self._interpreter = before

    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        interpreter = self._interpreter
        self._called = True
        if self._key is not None:
            outputs: Mapping[str, Array] = interpreter.get_signature_runner(self._key)(**inputs)
            return outputs
        self._resize({self._inputs[name]: array.shape for name, array in inputs.items()})
        for name, array in inputs.items():
            interpreter.set_tensor(self._inputs[name], array)
        interpreter.invoke()
        return {name: interpreter.get_tensor(index) for name, index in self._outputs.items()}

    def _resize(self, shapes: Mapping[int, tuple[int, ...]]) -> None:
        interpreter = self._interpreter
        current = {detail["index"]: tuple(detail["shape"]) for detail in interpreter.get_input_details()}
        changed = {index: shape for index, shape in shapes.items() if current[index] != shape}
        for index, shape in changed.items():
            interpreter.resize_tensor_input(index, shape)
        if changed:
            interpreter.allocate_tensors()

    def close(self) -> None:
        """Free the runtime's memory."""
        self._interpreter = self._shown = None


def _refuse_crashing(model: Model) -> None:
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            tensors = [subgraph.tensors[i] for i in operator.inputs if i >= 0]
            if operator.op in _CRASHING and any(t.dtype in ("int8", "uint8") and t.quantization is None for t in tensors):
                dtype = tensors[0].dtype
                raise NotRunnableError(f"LiteRT does not run {operator.op} on plain {dtype} tensors: its kernel would crash.")
