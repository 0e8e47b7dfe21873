"""Where the stored values of a sparse tensor stand in the dense one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mlconverter.errors import CorruptModelError
from mlconverter.formats.tflite.structure import SparseDim, Sparsity

Positions = npt.NDArray[np.int64]


def flat_positions(sparsity: Sparsity, shape: tuple[int, ...]) -> Positions:
    """The flat index into the dense tensor of each stored value, in storage order.

    The format is a tree: each traversed dimension is a level, a dense level has a child for every position, a
    compressed one (CSR) for the positions listed between two segment bounds. The leaves are the stored values. A
    dimension that is cut into blocks is traversed twice, by block and within the block.

    Args:
        sparsity: the format.
        shape: shape of the dense tensor.

    Raises:
        CorruptModelError: the format contradicts itself or the shape.
    """
    rank = len(shape)
    if sorted(sparsity.traversal_order) != list(range(rank + len(sparsity.block_map))):
        raise CorruptModelError(f"A sparse tensor of rank {rank} is traversed in the order {list(sparsity.traversal_order)}.")
    if list(sparsity.block_map) != sorted(set(sparsity.block_map)):
        # The schema does not forbid it, and LiteRT then reads something else than it describes.
        raise CorruptModelError(f"A sparse tensor's blocks {list(sparsity.block_map)} are not in the order of its dimensions.")
    coordinates: dict[int, Positions] = {}
    nodes = 1
    for dimension, level in zip(sparsity.traversal_order, sparsity.dims, strict=True):
        parent, position = _children(level, nodes)
        coordinates = {d: c[parent] for d, c in coordinates.items()}
        coordinates[dimension] = position
        nodes = len(position)
    for block, dimension in enumerate(sparsity.block_map, start=rank):
        size = sparsity.dims[sparsity.traversal_order.index(block)].size
        if size is None or not 0 <= dimension < rank:
            raise CorruptModelError("A block of a sparse tensor has no size, or subdivides no dimension of it.")
        coordinates[dimension] = coordinates[dimension] * size + coordinates[block]
    if any(len(c := coordinates[d]) and c.max() >= shape[d] for d in range(rank)):
        raise CorruptModelError(f"A sparse tensor has values outside its shape {list(shape)}.")
    flat = np.ravel_multi_index(tuple(coordinates[d] for d in range(rank)), shape) if rank else np.zeros(nodes, np.int64)
    taken = np.zeros(int(np.prod(shape)), np.bool_)
    taken[flat] = True
    if np.count_nonzero(taken) != len(flat):
        raise CorruptModelError("A sparse tensor stores two values for one element.")
    return flat.astype(np.int64, copy=False)


def _children(level: SparseDim, nodes: int) -> tuple[Positions, Positions]:
    """The parent and the position of every child of a level's nodes."""
    if level.size is not None:
        return np.repeat(np.arange(nodes), level.size), np.tile(np.arange(level.size), nodes)
    segments, indices = level.segments, level.indices
    if len(segments) != nodes + 1 or segments[0] != 0 or segments[-1] != len(indices) or np.any(np.diff(segments) < 0):
        raise CorruptModelError(f"A compressed dimension of a sparse tensor has {len(segments)} segment bounds for {nodes} rows.")
    if len(indices) and indices.min() < 0:
        raise CorruptModelError("A compressed dimension of a sparse tensor has negative positions.")
    return np.repeat(np.arange(nodes), np.diff(segments)), indices
