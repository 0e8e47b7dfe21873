"""Every choice that a conversion takes, in one frozen object."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, get_args

from mlconverter.signature import Layout

VerifyLevel = Literal["fast", "full", False]
Precision = Literal["fp32", "fp16", "bf16", "int8", "fp8"]
Compatibility = Literal["ampere_plus", "same_compute_capability"]
Range = tuple[Any, Any, Any]
"""Smallest, usual and largest size of a dimension, or shape of an input."""


@dataclass(frozen=True)
class Samples:
    """Inputs to calibrate on; equal where their content is.

    Attributes:
        digest: SHA-256 of them.
        inputs: of one run each: arrays by name, or in the order of the signature.
    """

    digest: str
    inputs: tuple[Mapping[str, Any] | tuple[Any, ...], ...] = field(repr=False, compare=False)


@dataclass(frozen=True)
class EngineOptions:
    """Choices of a TensorRT engine.

    Attributes:
        precision: number type in which a TensorRT engine computes. Inputs, outputs and what is sensitive to rounding stay in
            single precision; ``"int8"`` and ``"fp8"`` need ``calibration``, unless the model is quantised already.
        calibration: inputs on which ranges are measured: a list of arrays, of dicts by name, or of tuples in order.
        dynamic_shapes: smallest, usual and largest size of free dimensions of an engine by the dimension's name,
            ``{"height": (32, 640, 1024)}``, or shapes by the input's name; ranges by what a dimension is by default.
        runtime: the package that builds an engine: ``"tensorrt"`` where it and a GPU are there, else ``"tensorrt_rtx"``.
        compute_capability: GPUs that TensorRT for RTX compiles an engine for, ``"SM89"`` or several.
        hardware_compatibility: whether an engine of TensorRT also runs on newer GPUs than the one it is built on.
        builder_optimization_level: how long TensorRT searches, 0 to 5.
        workspace: bytes of GPU memory that an operator of an engine may use beside its tensors.
        timing_cache: file in which TensorRT keeps what it measured, for the next engine.
        refittable: whether an engine of TensorRT can be given other weights without being built anew.
        embed_source: whether the graph that an engine is built from is kept beside it, which leads back from an engine.
        partial: whether what TensorRT cannot take of a torch module stays in torch, by torch_tensorrt.
    """

    precision: Precision = "fp32"
    calibration: Samples | None = None
    dynamic_shapes: tuple[tuple[str, Range], ...] | None = None
    runtime: Literal["auto", "tensorrt", "tensorrt_rtx"] = "auto"
    compute_capability: tuple[str, ...] | None = None
    hardware_compatibility: Compatibility | None = None
    builder_optimization_level: int | None = None
    workspace: int | None = None
    timing_cache: str | None = None
    refittable: bool = False
    embed_source: bool = True
    partial: bool = False


@dataclass(frozen=True)
class ConvertOptions(EngineOptions):
    """Choices of a conversion; each can be given to ``Converter(...)`` or to one ``to_…`` call. Engines have more of them.

    Attributes:
        io_layout: axis layout of image-like inputs and outputs: one for all of rank 4, or by name. As in the source by default.
        dynamic_batch: whether a batch of 1 that the source bakes in is freed: ``"auto"`` where running the result proves that
            every batch is treated item by item, ``True`` to insist (an error where it cannot be proved), ``False`` to leave it.
        weights: element type in which a TFLite model stores its weights: ``"float16"`` halves the file and rounds them.
        allow_custom: operators that become custom operators of TFLite as they stand, named as an error names them, for example
            ``"com.example::Thing"``: for kernels that the caller has.
        dequantize: whether a quantised TFLite or ONNX model becomes the plain model of real numbers: nothing is rounded between
            its operators; inputs, outputs and states that were integers are what those stood for.
        signature: which of a TFLite file's signatures is converted; ``serving_default``, else the first one, by default.
        opset: ONNX opset that torch models are exported at; the exporter's own by default.
        input_names: names of a torch model's inputs; those of ``forward`` by default.
        output_names: names of a torch model's outputs; ``output`` or ``output_0`` … by default.
        trust: allow loading files that run code of their own.
        verify: ``"fast"``, ``"full"`` or ``False``.
        rtol: relative tolerance of the verification instead of the table's.
    """

    io_layout: Layout | tuple[tuple[str, Layout], ...] | None = None
    dynamic_batch: Literal["auto"] | bool = "auto"
    weights: Literal["float32", "float16"] = "float32"
    allow_custom: tuple[str, ...] | None = None
    dequantize: bool = False
    signature: str | None = None
    opset: int | None = None
    input_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    trust: bool = False
    verify: VerifyLevel = "fast"
    rtol: float | None = None

    def having(self, **choices: Any) -> ConvertOptions:
        """The same options with some choices changed.

        Raises:
            TypeError: there is no such option, or names are no text.
            ValueError: an option has no such value.
        """
        known = [f.name for f in fields(self)]
        unknown = sorted(set(choices) - set(known))
        if unknown:
            raise TypeError(f"There is no option {', '.join(map(repr, unknown))}. Options: {', '.join(known)}.")
        return replace(self, **{name: _PLAIN[name](value) if name in _PLAIN else value for name, value in choices.items()})

    def __post_init__(self) -> None:
        """Refuse values that nothing would act on."""
        layouts = [v for _, v in self.io_layout] if isinstance(self.io_layout, tuple) else [self.io_layout]
        allowed: tuple[tuple[str, list[Any], tuple[Any, ...]], ...] = (
            ("io_layout", layouts, ("channels_first", "channels_last", None)),
            ("dynamic_batch", [self.dynamic_batch], ("auto", True, False)),
            ("weights", [self.weights], ("float32", "float16")),
            ("dequantize", [self.dequantize], (True, False)),
            ("precision", [self.precision], get_args(Precision)),
            ("runtime", [self.runtime], ("auto", "tensorrt", "tensorrt_rtx")),
            ("hardware_compatibility", [self.hardware_compatibility], (*get_args(Compatibility), None)),
            ("builder_optimization_level", [self.builder_optimization_level], (*range(6), None)),
            ("refittable", [self.refittable], (True, False)),
            ("embed_source", [self.embed_source], (True, False)),
            ("partial", [self.partial], (True, False)),
            ("verify", [self.verify], ("fast", "full", False)),
        )
        if self.workspace is not None and (type(self.workspace) is not int or self.workspace < 1):
            raise ValueError(f"workspace is a number of bytes, at least 1, not {self.workspace!r}.")
        for name, values, choices in allowed:
            for value in values:
                if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
                    raise ValueError(f"{name} is one of {', '.join(map(repr, choices))}, not {value!r}.")

    @property
    def rounded(self) -> str:
        """What a target is asked to round to, empty where it is not."""
        return "float16" if self.weights == "float16" else "" if self.precision == "fp32" else self.precision

    @property
    def reading(self) -> ConvertOptions:
        """What decides on the source's graph in the hub."""
        return ConvertOptions(**{name: getattr(self, name) for name in _READING})

    @property
    def conversion(self) -> ConvertOptions:
        """What decides on the converted model itself: everything but how it is verified."""
        return replace(self, verify="fast", rtol=None, trust=False)

    def chosen(self) -> dict[str, Any]:
        """The choices that are not the defaults, in types that JSON has; inputs to calibrate on are none."""
        defaults = ConvertOptions()
        names = [f.name for f in fields(self) if f.name != "calibration"]
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(defaults, name)}

    def as_text(self) -> dict[str, str]:
        """The choices that decide on the converted model, as text by name."""
        chosen = self.conversion
        return {f.name: repr(getattr(chosen, f.name)) for f in fields(chosen) if f.name not in ("verify", "rtol", "trust")}


_READING = ("io_layout", "dynamic_batch", "dequantize", "signature", "opset", "input_names", "output_names")

GENERAL = frozenset({"io_layout", "verify", "rtol"})
"""Options that mean something in every conversion."""


def asked_for(choices: Mapping[str, Any]) -> tuple[str, ...]:
    """The choices that are not the defaults, by name."""
    defaults, chosen = ConvertOptions(), ConvertOptions().having(**choices)
    return tuple(name for name in choices if getattr(chosen, name) != getattr(defaults, name))


def _names(option: str, given: Any) -> tuple[str, ...] | None:
    """Names as a tuple; one may be given as it is."""
    if given is None or isinstance(given, str):
        return None if given is None else (given,)
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, (bytes, Mapping, Set)) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{option} is one name or a list of names, not {given!r}.")
    return names


def _layouts(given: Any) -> Any:
    """One layout as it is, those of single inputs and outputs as sorted pairs."""
    if given is None or isinstance(given, str):
        return given
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, (tuple, list)) or not all(isinstance(p, (tuple, list)) and len(p) == 2 for p in pairs):
        raise TypeError(f"io_layout is one layout, or layouts by name such as {{'image': 'channels_first'}}, not {given!r}.")
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError(f"io_layout has a name more than once: {given!r}.")
    return tuple(sorted((name, layout) for name, layout in pairs))


def _ranges(given: Any) -> tuple[tuple[str, Range], ...] | None:
    """Ranges of sizes or of shapes by name, as sorted pairs of tuples."""
    if given is None:
        return None
    pairs = list(given.items()) if isinstance(given, Mapping) else list(given)
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], (tuple, list)) or len(pair[1]) != 3:
            raise TypeError(f"dynamic_shapes are (smallest, usual, largest) by name, not {given!r}.")
    return tuple(sorted((name, _range(bounds)) for name, bounds in pairs))


def _range(bounds: Iterable[Any]) -> Range:
    low, usual, high = (tuple(map(_size, b)) if isinstance(b, (tuple, list)) else _size(b) for b in bounds)
    return low, usual, high


def _size(given: Any) -> Any:
    """A size as Python's own integer, where it is one of another library."""
    return given if isinstance(given, (bool, str)) or not hasattr(given, "__index__") else operator.index(given)


def _samples(given: Any) -> Samples | None:
    """Inputs to calibrate on, as arrays."""
    if given is None or isinstance(given, Samples):
        return given
    import hashlib

    import numpy as np

    if not isinstance(given, Iterable):
        raise TypeError(f"calibration is a list of inputs, not {given!r}.")
    digest = hashlib.sha256()
    inputs: list[Mapping[str, Any] | tuple[Any, ...]] = []
    for sample in given:
        if isinstance(sample, Mapping):
            arrays = {name: _array(value) for name, value in sample.items()}
            inputs.append(arrays)
        else:
            inputs.append(tuple(map(_array, sample if isinstance(sample, (tuple, list)) else (sample,))))
            arrays = {str(position): array for position, array in enumerate(inputs[-1])}
        for name, array in arrays.items():
            if not array.size or (array.dtype.kind == "f" and not np.isfinite(array).all()):
                raise ValueError(f"Input {name} of a sample to calibrate on is empty, or not finite.")
            digest.update(f"{name}:{array.dtype}:{array.shape}:".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return Samples(digest.hexdigest(), tuple(inputs))


def _array(value: Any) -> Any:
    """A value as an array, a tensor that is trained or lies on a GPU as well."""
    import numpy as np

    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _path(given: Any) -> str | None:
    return None if given is None else os.fspath(given)


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "io_layout": _layouts,
    "allow_custom": partial(_names, "allow_custom"),
    "calibration": _samples,
    "compute_capability": partial(_names, "compute_capability"),
    "dynamic_shapes": _ranges,
    "timing_cache": _path,
    "input_names": partial(_names, "input_names"),
    "output_names": partial(_names, "output_names"),
}
"""How options that can be given in several forms become plain values that can be compared and hashed."""
