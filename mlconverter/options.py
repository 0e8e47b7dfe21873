"""Every choice that a conversion takes, in one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
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
    opset: int | None = None
    input_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    trust: bool = False
    verify: VerifyLevel = "fast"
    rtol: float | None = None

    def having(self, **choices: Any) -> ConvertOptions:
        """The same options with some choices changed.

        Raises:
            TypeError: there is no such option.
            ValueError: an option has no such value.
        """
        known = [f.name for f in fields(self)]
        unknown = sorted(set(choices) - set(known))
        if unknown:
            raise TypeError(f"There is no option {', '.join(map(repr, unknown))}. Options: {', '.join(known)}.")
        return replace(self, **{name: _frozen(value) for name, value in choices.items()})

    def __post_init__(self) -> None:
        """Refuse values that nothing would act on."""
        layouts = [v for _, v in self.io_layout] if isinstance(self.io_layout, tuple) else [self.io_layout]
        allowed: tuple[tuple[str, list[Any], tuple[Any, ...]], ...] = (
            ("io_layout", layouts, ("channels_first", "channels_last", None)),
            ("dynamic_batch", [self.dynamic_batch], ("auto", True, False)),
            ("weights", [self.weights], ("float32", "float16")),
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
    defaults = ConvertOptions()
    return tuple(name for name, value in choices.items() if _frozen(value) != getattr(defaults, name))


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    return tuple(value) if isinstance(value, list) else value
