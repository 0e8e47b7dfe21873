"""Every choice that a conversion takes, in one frozen object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from mlconverter.signature import Layout

VerifyLevel = Literal["fast", "full", False]


@dataclass(frozen=True)
class ConvertOptions:
    """Choices of a conversion; each can be given to ``Converter(...)`` or to one ``to_…`` call.

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
            ("verify", [self.verify], ("fast", "full", False)),
        )
        for name, values, choices in allowed:
            for value in values:
                if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
                    raise ValueError(f"{name} is one of {', '.join(map(repr, choices))}, not {value!r}.")

    @property
    def conversion(self) -> ConvertOptions:
        """What decides on the converted model itself: everything but how it is verified."""
        return replace(self, verify="fast", rtol=None, trust=False)

    def as_text(self) -> dict[str, str]:
        """The choices that decide on the converted model, as text by name."""
        chosen = self.conversion
        return {f.name: repr(getattr(chosen, f.name)) for f in fields(chosen) if f.name not in ("verify", "rtol", "trust")}


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


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "io_layout": _layouts,
    "allow_custom": partial(_names, "allow_custom"),
    "input_names": partial(_names, "input_names"),
    "output_names": partial(_names, "output_names"),
}
"""How options that can be given in several forms become plain values that can be compared and hashed."""
