"""Which axis layout a model's inputs and outputs have, and how they change to another. Signatures only, no graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mlconverter.errors import SignatureError
from mlconverter.signature import IOSignature, Layout, TensorSpec

Perm = tuple[int, ...]
Wanted = Layout | tuple[tuple[str, Layout], ...] | None

RANKS = (3, 4, 5)
"""Ranks with one batch axis, one channel axis and at least one axis of positions."""


@dataclass(frozen=True)
class BorderChange:
    """How the tensors at a border are permuted: ``new = old.transpose(perm)``, by name; unchanged ones are absent."""

    inputs: dict[str, Perm]
    outputs: dict[str, Perm]

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.inputs or self.outputs)

    @property
    def inverse(self) -> BorderChange:
        """The change that undoes this one."""
        inputs, outputs = ({n: inverted(perm) for n, perm in perms.items()} for perms in (self.inputs, self.outputs))
        return BorderChange(inputs, outputs)

    def of(self, signature: IOSignature) -> IOSignature:
        """A signature after the change."""
        inputs = tuple(_permuted(s, self.inputs.get(s.name)) for s in signature.inputs)
        outputs = tuple(_permuted(s, self.outputs.get(s.name)) for s in signature.outputs)
        return replace(signature, inputs=inputs, outputs=outputs)


def inverted(perm: Perm) -> Perm:
    """The permutation that undoes another."""
    return tuple(perm.index(i) for i in range(len(perm)))


def _permuted(spec: TensorSpec, perm: Perm | None) -> TensorSpec:
    if perm is None or spec.shape is None:
        return spec
    layout: Layout = "channels_first" if perm == layout_perm(len(perm), "channels_first") else "channels_last"
    return replace(spec, shape=tuple(spec.shape[p] for p in perm), layout=layout)


def layout_perm(rank: int, to: Layout) -> Perm:
    """The axes of a tensor in the other layout, seen in layout ``to``."""
    return (0, rank - 1, *range(1, rank - 1)) if to == "channels_first" else (0, *range(2, rank), 1)


def border_change(signature: IOSignature, wanted: Wanted) -> BorderChange:
    """Which tensors at the border have to be permuted.

    One layout for all means the inputs and outputs of rank 4, image-like tensors; by name any of rank 3 to 5. States stay.

    Raises:
        SignatureError: a name is unknown, a rank has no layout, or nothing at the border has one.
    """
    if wanted is None:
        return BorderChange({}, {})
    signature = signature.without_states
    specs = (*signature.inputs, *signature.outputs)
    if isinstance(wanted, str):
        names: dict[str, Layout] = {s.name: wanted for s in specs if s.shape is not None and len(s.shape) == 4}
        if not names:
            raise SignatureError(f"io_layout={wanted!r} has no meaning here: no input or output has rank 4 ({_list(specs)}).")
    else:
        names = dict(wanted)
        for name in names:
            spec = next((s for s in specs if s.name == name), None)
            if spec is None:
                raise SignatureError(f"io_layout names '{name}', which is neither input nor output ({_list(specs)}).")
            if spec.shape is None or len(spec.shape) not in RANKS:
                raise SignatureError(f"io_layout has no meaning for {spec}: ranks 3 to 5 have a channel axis beside positions.")

    def perms(tensors: Iterable[TensorSpec]) -> dict[str, Perm]:
        return {
            s.name: layout_perm(len(s.shape or ()), names[s.name])
            for s in tensors
            if s.name in names and (s.layout or _assumed(names[s.name])) != names[s.name]
        }

    return BorderChange(perms(signature.inputs), perms(signature.outputs))


def _assumed(wanted: Layout) -> Layout:
    """A tensor whose layout nobody stated, and that somebody asks to have in one, is in the other."""
    return "channels_last" if wanted == "channels_first" else "channels_first"


def _list(specs: Iterable[TensorSpec]) -> str:
    return "; ".join(str(s) for s in specs)
