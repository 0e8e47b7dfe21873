"""What a model takes and gives: names, shapes, dtypes, axis layout and quantisation of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Dim = int | str | None
"""A dimension: its size, the name of a free one, or ``None`` where nothing is known."""

Layout = Literal["channels_first", "channels_last"]


@dataclass(frozen=True)
class Quantization:
    """Affine quantisation: ``real = scale * (stored - zero_point)``.

    Attributes:
        scale: one scale, or one for each index along ``axis``.
        zero_point: as many zero points as scales.
        axis: the axis of per-channel scales, ``None`` for per-tensor.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    Attributes:
        name: name in the source model.
        shape: dimensions, ``None`` where not even the rank is known.
        dtype: numpy's name of the element type (``"float32"``, ``"int8"`` …).
        layout: where the channels of an image-like tensor are, ``None`` where that has no meaning.
        quantization: how stored integers become real numbers, ``None`` for plain tensors.
    """

    name: str
    shape: tuple[Dim, ...] | None
    dtype: str
    layout: Layout | None = None
    quantization: Quantization | None = None

    @property
    def free_axes(self) -> tuple[int, ...]:
        """Axes whose size is not fixed by the model."""
        return tuple(i for i, d in enumerate(self.shape or ()) if not isinstance(d, int))

    def concrete(self, sizes: Mapping[str, int] | None = None, default: int = 1) -> tuple[int, ...]:
        """The shape with every free dimension put in: from ``sizes`` by name, else ``default``."""
        return tuple(d if isinstance(d, int) else (sizes or {}).get(d or "", default) for d in self.shape or ())

    def __str__(self) -> str:
        shape = "?" if self.shape is None else ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name}: {self.dtype}[{shape}]"


@dataclass(frozen=True)
class IOSignature:
    """Inputs and outputs of a model, in the order in which it is called.

    Attributes:
        inputs: one spec an input.
        outputs: one spec an output.
        key: name of the signature, as TFLite's SignatureDefs have it.
        states: inputs that are fed with an output of the call before, with that output, by name.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    key: str = "serving_default"
    states: tuple[tuple[str, str], ...] = ()

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(s.name for s in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(s.name for s in self.outputs)

    @property
    def free_dims(self) -> tuple[str, ...]:
        """Names of the free dimensions of the inputs, each once."""
        return tuple(dict.fromkeys(d for s in self.inputs for d in s.shape or () if isinstance(d, str)))

    @property
    def without_states(self) -> IOSignature:
        """What is left where a model keeps its states itself."""
        came, went = {i for i, _ in self.states}, {o for _, o in self.states}
        inputs = tuple(s for s in self.inputs if s.name not in came)
        outputs = tuple(s for s in self.outputs if s.name not in went)
        return replace(self, inputs=inputs, outputs=outputs, states=())

    def laid_out(self, layout: Layout) -> IOSignature:
        """The same signature with image-like tensors, those of rank 4, said to be in a layout."""

        def said(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
            return tuple(replace(s, layout=layout if s.shape is not None and len(s.shape) == 4 else s.layout) for s in specs)

        return replace(self, inputs=said(self.inputs), outputs=said(self.outputs))

    def as_dict(self) -> dict[str, Any]:
        """The signature in types that JSON has."""
        return asdict(self)

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> IOSignature:
        """The signature that :meth:`as_dict` gave, also after a way through JSON.

        Raises:
            KeyError: an entry is missing.
            TypeError: one is too many.
        """

        def specs(entries: Iterable[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
            return tuple(_spec(entry) for entry in entries)

        states = tuple((came, went) for came, went in said["states"])
        return cls(specs(said["inputs"]), specs(said["outputs"]), said["key"], states)

    def with_names(self, inputs: Iterable[str], outputs: Iterable[str]) -> IOSignature:
        """The same signature under other names."""
        return replace(
            self,
            inputs=tuple(replace(s, name=n) for s, n in zip(self.inputs, inputs, strict=True)),
            outputs=tuple(replace(s, name=n) for s, n in zip(self.outputs, outputs, strict=True)),
        )


def _spec(said: Mapping[str, Any]) -> TensorSpec:
    shape, grid = said["shape"], said["quantization"]
    quantization = grid and Quantization(tuple(grid["scale"]), tuple(grid["zero_point"]), grid["axis"])
    return TensorSpec(**{**said, "shape": None if shape is None else tuple(shape), "quantization": quantization})
