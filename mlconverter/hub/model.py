"""What crosses formats: an ONNX graph, its signature, and where its weights come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlconverter.hub.weights import WeightLink
from mlconverter.signature import IOSignature

if TYPE_CHECKING:
    import onnx_ir as ir

WEIGHT_KEY = "mlconverter.weight"
"""Metadata key of an initializer that is a weight: the name under which its links know it."""

ROLE_KEY = "mlconverter.role"
"""Metadata key of an initializer whose source says what it is: ``parameter`` or ``buffer``."""

BATCH = "batch"
"""Name of a batch that this package frees."""


@dataclass(frozen=True)
class HubModel:
    """A model on its way between formats.

    Attributes:
        model: the graph.
        signature: names, shapes, dtypes and layouts at its border.
        links: for every weight of the source, how an initializer's value comes from it.
        notes: sentences about the conversion that the report passes on.
    """

    model: ir.Model
    signature: IOSignature
    links: tuple[WeightLink, ...] = ()
    notes: tuple[str, ...] = ()

    def noting(self, *notes: str) -> HubModel:
        """The same model with more notes."""
        return replace(self, notes=(*self.notes, *notes))
