"""What crosses formats: an ONNX graph, its signature, and where its weights come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlconverter.hub.weights import WeightLink
from mlconverter.signature import IOSignature

if TYPE_CHECKING:
    import onnx_ir as ir

    from mlconverter.hub.original import Original

WEIGHT_KEY = "mlconverter.weight"
"""Metadata key of an initializer that is a weight: the name under which its links know it."""

SOURCE_KEY = "mlconverter.source"
"""Metadata key of a constant that its source knows by another name than its value's; empty where it has no place there."""

STORED_KEY = "mlconverter.stored"
"""Metadata key of integers that their source stores in a narrower type, which is the value."""

ROLE_KEY = "mlconverter.role"
"""Metadata key of an initializer whose source says what it is: ``parameter``, ``frozen`` or ``buffer``."""

PARAMETERS = ("parameter", "frozen")
"""Roles of what was learned; what is frozen is not trained any further until somebody says so."""

PADDING_KEY = "mlconverter.padding_index"
"""Metadata key of a Gather that is an embedding: the row that is padding, and that no gradient changes."""

WEIGHTED = frozenset(
    "Conv ConvTranspose DeformConv Gemm MatMul BatchNormalization InstanceNormalization LayerNormalization GroupNormalization "
    "RMSNormalization PRelu LSTM GRU RNN".split()
)
"""Operators of layers: what they are given as a constant was learned."""

CUSTOM_DOMAIN = "mlconverter.custom"
"""Domain of nodes that the target gets as they stand, without anybody knowing what they compute."""

BATCH = "batch"
"""Name of a batch that this package frees."""


def is_weight(value: ir.Value | None) -> bool:
    """Whether a value is an initializer that holds a weight."""
    return value is not None and WEIGHT_KEY in value.metadata_props


@dataclass(frozen=True)
class HubModel:
    """A model on its way between formats.

    Attributes:
        model: the graph.
        signature: names, shapes, dtypes and layouts at its border.
        links: for every weight of the source, how an initializer's value comes from it.
        notes: sentences about the conversion that the report passes on.
        origin: the ONNX model that was read, and the graph that it gave; others are made from that by changing it.
    """

    model: ir.Model
    signature: IOSignature
    links: tuple[WeightLink, ...] = ()
    notes: tuple[str, ...] = ()
    origin: tuple[Original, ir.Model] | None = None

    def as_onnx(self) -> Original:
        """The graph as an ONNX model; where one was read and nothing changed, that one."""
        from mlconverter.hub.io import to_proto
        from mlconverter.hub.original import Original

        if self.origin is not None and self.origin[1] is self.model:
            return self.origin[0]
        return Original(to_proto(self.model))

    def noting(self, *notes: str) -> HubModel:
        """The same model with more notes."""
        return replace(self, notes=(*self.notes, *notes))
