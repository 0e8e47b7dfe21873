"""What a TFLite file takes and gives, by which names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlconverter.errors import SignatureError
from mlconverter.formats.tflite.structure import Model, SignatureDef, Tensor
from mlconverter.signature import Dim, IOSignature, TensorSpec

DEFAULT_KEY = "serving_default"


@dataclass(frozen=True)
class Border:
    """The signature of the subgraph that is run, and the tensors that it names.

    Attributes:
        signature: names, shapes and dtypes.
        subgraph: number of the subgraph.
        inputs: tensor numbers, one for each input of the signature.
        outputs: tensor numbers, one for each output.
        key: key of the file's signature, ``None`` where it has none.
    """

    signature: IOSignature
    subgraph: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    key: str | None

    @property
    def free_batch(self) -> bool:
        """Whether the first dimension of an input is free."""
        return any(0 in spec.free_axes for spec in self.signature.inputs)

    @property
    def free_sizes(self) -> bool:
        """Whether another dimension of an input is free."""
        return any(set(spec.free_axes) - {0} for spec in self.signature.inputs)


def border_of(model: Model, key: str | None = None) -> Border:
    """The border of a model.

    Args:
        model: the file.
        key: the signature to take; by default ``serving_default``, else the first one. A file without signatures has
            the inputs and outputs of its first subgraph, by the names of their tensors.

    Raises:
        SignatureError: there is none of that name.
    """
    chosen = _chosen(model.signatures, key)
    if key is not None and chosen is None:
        there = ", ".join(f"'{s.key}'" for s in model.signatures) or "none"
        raise SignatureError(f"The file has no signature '{key}'; there are: {there}.")
    graph = model.subgraphs[chosen.subgraph if chosen else 0]
    inputs = _named(graph.tensors, graph.inputs, chosen.inputs if chosen else {})
    if chosen:
        outputs = list(chosen.outputs.items())
    else:
        outputs = _named(graph.tensors, graph.outputs, {})
    free_batch = any(_signature_of(graph.tensors[i])[:1] == (-1,) for _, i in inputs)
    specs = [tuple(_spec(name, graph.tensors[i], free_batch=free_batch) for name, i in entries) for entries in (inputs, outputs)]
    return Border(
        signature=IOSignature(specs[0], specs[1], chosen.key if chosen else DEFAULT_KEY),
        subgraph=chosen.subgraph if chosen else 0,
        inputs=tuple(i for _, i in inputs),
        outputs=tuple(i for _, i in outputs),
        key=chosen.key if chosen else None,
    )


def _chosen(signatures: Sequence[SignatureDef], key: str | None) -> SignatureDef | None:
    wanted = key or DEFAULT_KEY
    return next((s for s in signatures if s.key == wanted), signatures[0] if signatures and key is None else None)


def _named(tensors: Sequence[Tensor], indices: Iterable[int], known: dict[str, int] | object) -> list[tuple[str, int]]:
    """Tensors with their names, those of a signature first; names that are missing or not unique are made so."""
    named = list(known.items()) if isinstance(known, dict) else []
    taken = {name for name, _ in named}
    covered = {i for _, i in named}
    for index in indices:
        if index in covered:
            continue
        name = base = tensors[index].label
        number = 1
        while name in taken:
            number += 1
            name = f"{base}__{number}"
        taken.add(name)
        named.append((name, index))
    return named


def _signature_of(tensor: Tensor) -> tuple[int, ...]:
    return tensor.shape_signature or tensor.shape


def _spec(name: str, tensor: Tensor, *, free_batch: bool) -> TensorSpec:
    shape: list[Dim] = []
    for axis, size in enumerate(_signature_of(tensor)):
        if size >= 0:
            shape.append(size)
        else:
            shape.append("batch" if axis == 0 and free_batch else f"{name}_dim{axis}")
    return TensorSpec(
        name=name,
        shape=tuple(shape),
        dtype=tensor.dtype,
        layout="channels_last" if tensor.rank == 4 else None,
        quantization=tensor.quantization if not tensor.dtype.startswith("float") else None,
    )
