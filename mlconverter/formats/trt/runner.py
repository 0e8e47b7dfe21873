"""Runs engines where there is a GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlconverter.cache import content_hash
from mlconverter.errors import MissingDependencyError
from mlconverter.verification import BaseRunner
from mlconverter.verification.dtypes import Array

if TYPE_CHECKING:
    from mlconverter.formats.trt.engine import TRTEngine


class TRTRunner(BaseRunner):
    """TensorRT on the first GPU.

    Args:
        engine: what is run.
        cuda_graph: whether launches are recorded once for each shape and replayed.

    Raises:
        NotRunnableError: there is no GPU, or this one cannot run the engine.
        MissingDependencyError: the engine's runtime, or torch, which holds tensors on the GPU, is not installed.
    """

    def __init__(self, engine: TRTEngine, *, cuda_graph: bool = False) -> None:
        if importlib.util.find_spec("torch") is None:
            raise MissingDependencyError("torch", "torch", "Running TensorRT engines")
        import torch

        from mlconverter.formats.trt.execution import Engine, require_gpu, session

        require_gpu()
        super().__init__(engine.info.runtime_name, engine.signature)
        self._engine = Engine(
            content_hash(engine.content),
            engine.info.runtime,
            engine.signature.input_names,
            tuple((o.name, o.dtype) for o in engine.signature.outputs),
            torch.device("cuda", torch.cuda.current_device()),
            cuda_graph,
            engine.content,
        )
        session(self._engine)  # what does not load is said here, and not by the first run

    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        from mlconverter.formats.trt.execution import run

        return run(self._engine, inputs)
