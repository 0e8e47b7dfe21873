"""How engines are handed their tensors, told by a runtime of our own that works on the same addresses."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mlconverter import ConversionError, MissingDependencyError, NotRunnableError, SignatureError
from mlconverter.formats.trt import execution
from mlconverter.formats.trt.execution import Engine, Session, run

LARGEST = 4


class Context:
    """Doubles ``x`` into ``y``, and counts its elements into ``n``."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self.addresses: dict[str, int] = {}
        self.fails = False

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.shape = shape
        return shape[0] <= LARGEST

    def set_tensor_address(self, name: str, address: int) -> None:
        self.addresses[name] = address

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return {"y": self.shape, "n": (1,), "unknown": (-1, 2)}[name]

    def execute_async_v3(self, stream: int) -> bool:
        count = int(np.prod(self.shape))
        x, y = ((ctypes.c_float * count).from_address(self.addresses[name]) for name in "xy")
        y[:] = [2 * v for v in x]
        if "n" in self.addresses:
            ctypes.c_int64.from_address(self.addresses["n"]).value = count
        return not self.fails


class Loaded:
    """An engine."""

    context = Context()

    def create_execution_context(self) -> Context:
        return self.context

    def get_tensor_profile_shape(self, name: str, profile: int) -> tuple[tuple[int, ...], ...]:
        return (1, 3), (2, 3), (LARGEST, 3)


class Logger:
    """One that says nothing."""

    ERROR = 1

    def __init__(self, level: int) -> None:
        self.level = level


class Runtime:
    """Loads what begins as an engine does."""

    def __init__(self, logger: Logger) -> None:
        self.logger = logger

    def deserialize_cuda_engine(self, content: bytes) -> Loaded | None:
        return Loaded() if bytes(content) == b"engine" else None


@pytest.fixture
def runtime(monkeypatch) -> Context:
    """A runtime, and a GPU that is the CPU."""
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(Logger=Logger, Runtime=Runtime, __version__="0"))
    cuda = SimpleNamespace(
        device=lambda device: contextlib.nullcontext(),
        current_stream=lambda: SimpleNamespace(cuda_stream=0),
        is_available=lambda: True,
        get_device_name=lambda device: "a GPU",
    )
    monkeypatch.setattr(execution.torch, "cuda", cuda)
    monkeypatch.setattr(Loaded, "context", Context())
    execution.session.cache_clear()
    yield Loaded.context
    execution.session.cache_clear()


def engine(*outputs: tuple[str, str], content: bytes = b"engine", digest: str = "digest") -> Engine:
    return Engine(digest, "tensorrt", ("x",), outputs, torch.device("cpu"), content=content)


def test_tensors_are_handed_over_by_their_addresses(runtime) -> None:
    made = engine(("y", "float32"), ("n", "int64"))
    for shape in ((2, 3), (4, 3)):
        x = torch.arange(float(np.prod(shape))).reshape(shape).t().contiguous().t()  # rows are not contiguous
        y, n = Session(made)([x])
        assert torch.equal(y, 2 * x) and n.tolist() == [x.numel()] and n.dtype == torch.int64


def test_an_engine_is_loaded_once(runtime) -> None:
    made = engine(("y", "float32"))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(made, {"x": x})["y"], 2 * x)
    run(engine(("y", "float32"), content=b"is not looked at"), {"x": x})
    assert execution.session.cache_info().misses == 1
    with pytest.raises(NotRunnableError, match="same version"):
        run(engine(("y", "float32"), content=b"another", digest="another"), {"x": x})


def test_what_does_not_fit_is_said(runtime) -> None:
    with pytest.raises(SignatureError, match=r"from \(1, 3\) to \(4, 3\), not \(5, 3\)"):
        Session(engine(("y", "float32")))([torch.zeros(5, 3)])
    with pytest.raises(NotRunnableError, match="'unknown'"):
        Session(engine(("unknown", "float32")))([torch.zeros(2, 3)])
    runtime.fails = True
    with pytest.raises(ConversionError, match="failed"):
        Session(engine(("y", "float32")))([torch.zeros(2, 3)])


def test_without_its_runtime_the_extra_is_named(runtime, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(MissingDependencyError, match=r"mlconverter\[tensorrt\]"):
        Session(engine(("y", "float32")))
