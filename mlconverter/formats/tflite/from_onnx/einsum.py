"""Sums of products over any axes: pair by pair, as products of matrices."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.slicing import gathered
from mlconverter.formats.tflite.from_onnx.values import Operand, Runtime, Size, Stored, Wire, broadcast_dims

Labels = tuple[str, ...]
Lengths = dict[str, int | Size]


@dataclass(frozen=True)
class Term:
    """An operand of the equation.

    Attributes:
        wire: its elements.
        labels: of its axes, as they are stored.
        lengths: of its axes.
    """

    wire: Wire
    labels: Labels
    lengths: Lengths


@translates("Einsum", 12, 28)
def einsum(b: Builder, *xs: Operand, equation: str) -> Stored:
    """Einsum → BATCH_MATMUL of each two operands, MUL where nothing is summed over, SUM."""
    inputs, result = _parsed(equation, [x.rank for x in xs])
    terms = [_without_repetition(b, _term(b, x, labels)) for x, labels in zip(xs, inputs, strict=True)]
    while len(terms) > 1:
        needed = set(result).union(*(t.labels for t in terms[2:]))
        x, y = terms[:2]
        left, right = _summed(b, x, needed | set(y.labels)), _summed(b, y, needed | set(x.labels))
        terms[:2] = [_product(b, left, right, needed)]
    total = _summed(b, terms[0], set(result))
    return Stored(total.wire, tuple(result.index(label) for label in total.labels))


def _parsed(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of the operands and of the result; axes under an ellipsis are numbered from the end."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        raise ValueError(f"'{equation}' has {len(texts)} operands, the node {len(ranks)}")
    inputs = [_labels(text, rank) for text, rank in zip(texts, ranks, strict=True)]
    every = [label for labels in inputs for label in labels]
    hidden = sorted({label for label in every if len(label) > 1}, reverse=True)
    if arrow:
        before, dots, behind = right.partition("...")
        return inputs, (*before, *(hidden if dots else ()), *behind)
    return inputs, (*hidden, *sorted(label for label in set(every) if len(label) == 1 and every.count(label) == 1))


def _labels(text: str, rank: int) -> Labels:
    before, dots, behind = text.partition("...")
    count = rank - len(before) - len(behind)
    if count < 0 or (count and not dots):
        raise ValueError(f"'{text}' names the axes of no tensor of rank {rank}")
    return (*before, *(f"…{i:02}" for i in range(count, 0, -1)), *behind)


def _term(b: Builder, x: Operand, labels: Labels) -> Term:
    wire, order = b.as_is(x)
    sizes: Sequence[int | Size] = x.sizes if isinstance(x, Runtime) else x.dims
    return Term(wire, tuple(labels[axis] for axis in order), dict(zip(labels, sizes, strict=True)))


def _without_repetition(b: Builder, term: Term) -> Term:
    """The diagonal where a label stands twice."""
    for label in sorted(set(term.labels)):
        while (count := term.labels.count(label)) > 1:
            size = term.lengths[label]
            if not isinstance(size, int):
                raise Refused("a diagonal whose length only the run time knows")
            here = [i for i, one in enumerate(term.labels) if one == label][count - 2 :]
            rest = [i for i in range(len(term.labels)) if i not in here]
            wire = b.transpose(term.wire, [*here, *rest])
            flat = b.reshape(wire, [size * size, *(term.lengths[term.labels[i]] for i in rest)])
            labels = (label, *(term.labels[i] for i in rest))
            term = Term(gathered(b, flat, np.arange(size) * (size + 1), 0), labels, term.lengths)
    return term


def _summed(b: Builder, term: Term, needed: Collection[str]) -> Term:
    """A term without the axes that nothing else has."""
    gone = [i for i, label in enumerate(term.labels) if label not in needed]
    if not gone:
        return term
    kept = [i for i in range(len(term.labels)) if i not in gone]
    wire = b.move("SUM", term.wire, b.ints(gone), dims=tuple(term.wire.dims[i] for i in kept), keepDims=False)
    return Term(wire, tuple(term.labels[i] for i in kept), term.lengths)


def _product(b: Builder, x: Term, y: Term, needed: Collection[str]) -> Term:
    """Two terms multiplied, and summed over what only they have."""
    shared = [label for label in x.labels if label in y.labels]
    broad = any(x.lengths[label] != y.lengths[label] and 1 in (x.lengths[label], y.lengths[label]) for label in shared)
    lengths = y.lengths | x.lengths | {label: y.lengths[label] for label in shared if x.lengths[label] == 1}
    summed = [label for label in shared if label not in needed]
    if not summed or broad or x.wire.dtype != "float32":
        return _summed(b, replace(_elementwise(b, x, y), lengths=lengths), needed)
    batch = [label for label in shared if label in needed]
    rows = [label for label in x.labels if label not in shared]
    columns = [label for label in y.labels if label not in shared]
    left = _matrices(b, x, [batch, rows, summed])
    right = _matrices(b, y, [batch, summed, columns])
    dims = (*broadcast_dims(left.dims[:-2], right.dims[:-2]), left.dims[-2], right.dims[-1])
    product = b.emit("BATCH_MATMUL", left, right, dims=dims)
    labels = (*batch, *rows, *columns)
    return Term(b.reshape(product, [lengths[label] for label in labels]), labels, lengths)


def _matrices(b: Builder, term: Term, groups: list[list[str]]) -> Wire:
    """A term's axes in three groups, each of them one axis."""
    wire = b.transpose(term.wire, [term.labels.index(label) for group in groups for label in group])
    sizes = [math.prod(term.lengths[label] for label in group) for group in groups]
    return b.reshape(wire, sizes if groups[0] else sizes[1:])


def _elementwise(b: Builder, x: Term, y: Term) -> Term:
    labels = (*x.labels, *(label for label in y.labels if label not in x.labels))
    wires = [_spread(b, term, labels) for term in (x, y)]
    return Term(b.compute("MUL", *wires, dims=broadcast_dims(*(w.dims for w in wires))), labels, x.lengths)


def _spread(b: Builder, term: Term, labels: Labels) -> Wire:
    """A term with the axes of all labels, of size 1 where it has none."""
    own = [label for label in labels if label in term.labels]
    wire = b.transpose(term.wire, [term.labels.index(label) for label in own])
    for position, label in enumerate(labels):
        if label not in own:
            wire = b.expand_dims(wire, position)
    return wire
