"""The two runtimes that build and run engines, behind one small interface.

TensorRT tunes an engine on the GPU that is there. TensorRT for RTX compiles one ahead of time for named compute
capabilities, which takes no GPU, and finishes it on the machine that loads it. Their Python interfaces are the same
but for what stands here.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlconverter.errors import MissingDependencyError, NotRunnableError

CAPABILITIES = ("SM80", "SM86", "SM89", "SM120")
"""Compute capabilities that an engine is compiled for ahead of time: from Ampere to Blackwell, hardly larger than one alone."""

FP8_CAPABILITIES = ("SM89", "SM120")
"""Those that multiply numbers of 8 bits."""

_MAJOR, _MINOR = 75, 76
"""Numbers of two attributes of a device, as CUDA's driver interface has them."""


@dataclass(frozen=True)
class TensorRT:
    """One of the runtimes.

    Attributes:
        package: its name for import.
        extra: the extra of this package that installs it.
        title: how people call it.
        ahead_of_time: whether it builds without a GPU.
    """

    package: str
    extra: str
    title: str
    ahead_of_time: bool

    @property
    def is_installed(self) -> bool:
        """Whether it can be imported."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def module(self) -> Any:
        """The package, imported.

        Raises:
            MissingDependencyError: it is not installed.
        """
        if not self.is_installed:
            raise MissingDependencyError(self.package, self.extra, "Building and running TensorRT engines")
        return importlib.import_module(self.package)

    @property
    def name(self) -> str:
        """Title and version."""
        return f"{self.title} {self.module.__version__}"


RUNTIMES = {
    runtime.package: runtime
    for runtime in (
        TensorRT("tensorrt", "tensorrt", "TensorRT", ahead_of_time=False),
        TensorRT("tensorrt_rtx", "tensorrt-rtx", "TensorRT for RTX", ahead_of_time=True),
    )
}


def chosen(wanted: str = "auto") -> TensorRT:
    """The runtime that builds an engine.

    Args:
        wanted: its package, or ``"auto"``: TensorRT where it is installed and there is a GPU, else TensorRT for RTX.

    Raises:
        MissingDependencyError: it is not installed; the message names the extra that brings it.
        NotRunnableError: it takes a GPU, and there is none.
    """
    own, rtx = RUNTIMES["tensorrt"], RUNTIMES["tensorrt_rtx"]
    if wanted != "auto":
        runtime = RUNTIMES[wanted]
    else:
        runtime = own if own.is_installed and local_capability() is not None else rtx
    assert runtime.module
    if not runtime.ahead_of_time and local_capability() is None:
        raise NotRunnableError(
            f"{runtime.title} tunes an engine on the GPU that it is for, and there is none here. "
            f"{rtx.title} (pip install 'mlconverter[{rtx.extra}]', runtime='{rtx.package}') builds without one."
        )
    return runtime


@cache
def local_capability() -> str | None:
    """Compute capability of the first GPU of this machine, such as ``"SM89"``; ``None`` where there is no GPU."""
    for library in ("libcuda.so.1", "nvcuda.dll"):
        try:
            cuda = ctypes.CDLL(library)
        except OSError:
            continue
        count, device = ctypes.c_int(), ctypes.c_int()
        if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
            return None
        numbers = [ctypes.c_int(), ctypes.c_int()]
        failed = cuda.cuDeviceGet(ctypes.byref(device), 0)
        for number, attribute in zip(numbers, (_MAJOR, _MINOR), strict=True):
            failed = failed or cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        return None if failed else f"SM{numbers[0].value}{numbers[1].value}"
    return None
