"""Engines on a GPU, their inputs and outputs torch's tensors there. Torch alone is imported, the runtime when one is loaded."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from mlconverter.errors import ConversionError, MissingDependencyError, NotRunnableError, SignatureError

LOADED = 8
"""Engines that stay on the GPU after they ran; the one that was not used for the longest goes first."""

EXTRAS = {"tensorrt": "tensorrt", "tensorrt_rtx": "tensorrt-rtx"}
"""The extra that installs each runtime."""


def require_gpu() -> None:
    """Raise where there is nothing to run an engine on.

    Raises:
        NotRunnableError: torch finds no GPU.
    """
    if not torch.cuda.is_available():
        raise NotRunnableError("no GPU: a TensorRT engine runs on an NVIDIA GPU, and torch finds none here")


@dataclass(frozen=True)
class Engine:
    """What is run.

    Attributes:
        digest: SHA-256 of the engine, by which it is known.
        package: the runtime that loads it.
        inputs: names in the order in which tensors are given.
        outputs: names in the order in which they come back, and their element types.
        device: the GPU.
        cuda_graph: whether the launches of a run are recorded once for each shape and then replayed.
        content: a buffer that holds the engine.
    """

    digest: str
    package: str
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    device: torch.device
    cuda_graph: bool = False
    content: Any = field(default=None, repr=False, compare=False)


class Session:
    """An engine on the GPU, ready to run.

    Raises:
        MissingDependencyError: its runtime is not installed.
        NotRunnableError: its runtime does not load it, for it was built by another version or for other GPUs.
    """

    def __init__(self, engine: Engine) -> None:
        try:
            trt: Any = importlib.import_module(engine.package)
        except ImportError as error:
            raise MissingDependencyError(engine.package, EXTRAS[engine.package], "Running this TensorRT engine") from error
        self._said = engine
        self._logger = trt.Logger(trt.Logger.ERROR)
        self._runtime = trt.Runtime(self._logger)
        with torch.cuda.device(engine.device):
            self._engine = self._runtime.deserialize_cuda_engine(engine.content)
            if self._engine is None:
                raise NotRunnableError(
                    f"{engine.package} {trt.__version__} does not load the engine: it has to be built by the same version, for "
                    f"this GPU ({torch.cuda.get_device_name(engine.device)}). Build it anew from its source."
                )
            self._context = self._engine.create_execution_context()
        self._recorded: dict[tuple[tuple[int, ...], ...], _Recorded] = {}
        self._lock = threading.Lock()  # a context is for one caller at a time

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run it on the current stream.

        Raises:
            SignatureError: the shapes are outside of the range that the engine was built for.
            ConversionError: the runtime fails.
        """
        with self._lock, torch.cuda.device(self._said.device):
            if not self._said.cuda_graph:
                return self._enqueue([i.contiguous() for i in inputs])
            key = tuple(tuple(i.shape) for i in inputs)
            if key not in self._recorded:
                self._recorded[key] = self._record(inputs)
            return self._recorded[key](inputs)

    def _enqueue(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        context = self._context
        for name, tensor in zip(self._said.inputs, inputs, strict=True):
            if not context.set_input_shape(name, tuple(tensor.shape)):
                low, _, high = self._engine.get_tensor_profile_shape(name, 0)
                raise SignatureError(
                    f"The engine takes '{name}' of shapes from {tuple(low)} to {tuple(high)}, not {tuple(tensor.shape)}."
                )
            context.set_tensor_address(name, tensor.data_ptr())
        outputs = []
        for name, dtype in self._said.outputs:
            shape = tuple(context.get_tensor_shape(name))
            if any(size < 0 for size in shape):
                raise NotRunnableError(
                    f"The shape of output '{name}' depends on the values that are computed, which is not supported."
                )
            outputs.append(torch.empty(shape, dtype=getattr(torch, dtype), device=self._said.device))
            context.set_tensor_address(name, outputs[-1].data_ptr())
        if not context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise ConversionError("TensorRT failed to run the engine; its log says why.")
        return outputs

    def _record(self, inputs: Sequence[torch.Tensor]) -> _Recorded:
        held = [i.clone(memory_format=torch.contiguous_format) for i in inputs]
        self._enqueue(held)  # what is compiled or allocated by the first run must not be recorded
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self._enqueue(held)
        return _Recorded(held, outputs, graph)


@dataclass(frozen=True)
class _Recorded:
    """A run on tensors that stay where they are."""

    inputs: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor]
    graph: Any

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for held, given in zip(self.inputs, inputs, strict=True):
            held.copy_(given)
        self.graph.replay()
        return [o.clone() for o in self.outputs]


session = lru_cache(maxsize=LOADED)(Session)
"""The session of an engine, which is loaded once."""


def run(engine: Engine, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Run an engine on numpy arrays by name.

    Raises:
        NotRunnableError: there is no GPU, or its runtime does not load the engine.
        MissingDependencyError: its runtime is not installed.
    """
    require_gpu()
    given = [torch.as_tensor(arrays[name]).to(engine.device) for name in engine.inputs]
    outputs = session(engine)(given)
    return {name: value.cpu().numpy() for (name, _), value in zip(engine.outputs, outputs, strict=True)}
