"""Sparse tensors: positions against LiteRT's DENSIFY, over traversal orders, blocks and formats."""

import itertools

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as S

from mlconverter.errors import CorruptModelError
from mlconverter.formats.tflite.buffers import stored_weights
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.sparsity import flat_positions
from mlconverter.formats.tflite.structure import SparseDim, Sparsity
from mlconverter.formats.tflite.to_onnx.convert import convert
from mlconverter.hub.weights import write_back
from tests.ops.tflite_onnx.files import File


def sparse_dense(shape, density=0.4, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape).astype(np.float32)
    return np.where(rng.random(shape) < density, values, 0).astype(np.float32)


def encode(dense, order, block_map, blocks, compressed, kind="Int32Vector"):
    """The values and the schema's description of a dense tensor in a sparse format; plain recursion over the levels."""
    rank = dense.ndim
    sizes = list(dense.shape)
    for dimension, size in zip(block_map, blocks, strict=True):
        sizes[dimension] //= size
    sizes += blocks
    expanded = dense.reshape(
        [n for d in range(rank) for n in ([sizes[d], sizes[rank + block_map.index(d)]] if d in block_map else [sizes[d]])]
    )
    axes, position = {}, 0
    for d in range(rank):
        axes[d] = position
        position += 1
        if d in block_map:
            axes[rank + block_map.index(d)] = position
            position += 1
    tree = expanded.transpose([axes[d] for d in order])
    segments = [[0] for _ in order]
    indices = [[] for _ in order]
    values = []

    def walk(node, level):
        if level == len(order):
            values.append(node)
            return
        for i in range(node.shape[0]):
            if level in compressed:
                if not np.any(node[i]):
                    continue
                indices[level].append(i)
            walk(node[i], level + 1)
        if level in compressed:
            segments[level].append(len(indices[level]))

    walk(tree, 0)
    dims = []
    vector = getattr(S, f"{kind}T")
    number = getattr(S.SparseIndexVector, kind)
    dtype = {"Int32Vector": np.int32, "Uint16Vector": np.uint16, "Uint8Vector": np.uint8}[kind]
    for level, dimension in enumerate(order):
        if level in compressed:
            dims.append(
                S.DimensionMetadataT(
                    format=S.DimensionType.SPARSE_CSR,
                    arraySegmentsType=number,
                    arraySegments=vector(values=np.asarray(segments[level], dtype)),
                    arrayIndicesType=number,
                    arrayIndices=vector(values=np.asarray(indices[level], dtype)),
                )
            )
        else:
            dims.append(S.DimensionMetadataT(format=S.DimensionType.DENSE, denseSize=int(sizes[dimension])))
    sparsity = S.SparsityParametersT(
        traversalOrder=np.asarray(order, np.int32),
        blockMap=np.asarray(block_map, np.int32) if block_map else None,
        dimMetadata=dims,
    )
    return np.asarray(values, np.float32), sparsity


FORMATS = [
    *[((3, 5), order, [], [], {level}) for order in itertools.permutations(range(2)) for level in range(2)],
    *[((4, 3, 2), order, [], [], {2}) for order in itertools.permutations(range(3))],
    ((3, 5), (0, 1), [], [], {0, 1}),
    ((8, 1, 1, 6), (0, 1, 2, 3), [], [], {3}),
    ((4, 6), (0, 1, 2), [1], [3], {1}),
    ((4, 6), (0, 1, 2, 3), [0, 1], [2, 3], {1}),
    ((4, 6), (0, 1, 3, 2), [0, 1], [2, 3], {1}),
    ((4, 6), (1, 0, 2, 3), [0, 1], [2, 3], {1}),
]


@pytest.mark.parametrize("kind", ["Int32Vector", "Uint16Vector", "Uint8Vector"])
@pytest.mark.parametrize(("shape", "order", "block_map", "blocks", "compressed"), FORMATS)
def test_positions(shape, order, block_map, blocks, compressed, kind):
    dense = sparse_dense(shape)
    values, sparsity = encode(dense, order, block_map, blocks, compressed, kind)
    f = File()
    w = f.sparse(shape, values, sparsity)
    y = f.op("ADD", [f.input(shape, name="x"), f.op("DENSIFY", [w], shapes=[shape])], options=S.AddOptionsT(), shapes=[shape])
    data = f.finish(y)
    model = load(data)
    tensor = model.subgraphs[0].tensors[w]
    restored = np.zeros(dense.size, np.float32)
    restored[flat_positions(tensor.sparsity, shape)] = model.view(tensor)
    np.testing.assert_array_equal(restored.reshape(shape), dense)

    (link,) = convert(data).links
    stored = stored_weights(model, [link.source])
    np.testing.assert_array_equal(link.get(stored[link.source]), dense)
    assert write_back(stored, [link], {link.target: dense}) == {}
    changed = write_back(stored, [link], {link.target: dense * 2})
    np.testing.assert_array_equal(changed[link.source], values * 2)

    with LiteRTRunner(data, kernels="reference") as runner:
        result = runner.run({"x": np.zeros(shape, np.float32)})
    np.testing.assert_array_equal(next(iter(result.values())), dense)


def csr(segments, indices):
    return SparseDim(None, np.asarray(segments, np.int64), np.asarray(indices, np.int64))


def dense_dim(size):
    return SparseDim(size, np.zeros(0, np.int64), np.zeros(0, np.int64))


@pytest.mark.parametrize(
    "sparsity",
    [
        Sparsity((0, 0), (), (dense_dim(2), dense_dim(3))),
        Sparsity((0, 1), (), (dense_dim(2), csr([0, 1], [0]))),
        Sparsity((0, 1), (), (dense_dim(2), csr([0, 1, 3], [0, 1]))),
        Sparsity((0, 1), (), (dense_dim(2), csr([0, 2, 1], [0]))),
        Sparsity((0, 1), (), (dense_dim(2), csr([0, 1, 2], [0, 3]))),
        Sparsity((0, 1), (), (dense_dim(2), csr([0, 1, 2], [0, -1]))),
        Sparsity((0, 1), (), (dense_dim(2), csr([0, 2, 3], [1, 1, 0]))),
        Sparsity((0, 1), (), (dense_dim(3), dense_dim(3))),
        Sparsity((0, 1, 2), (5,), (dense_dim(2), dense_dim(3), dense_dim(1))),
        Sparsity((0, 1, 2, 3), (1, 0), (dense_dim(1), dense_dim(1), dense_dim(3), dense_dim(2))),
    ],
)
def test_formats_that_contradict_themselves(sparsity):
    with pytest.raises(CorruptModelError):
        flat_positions(sparsity, (2, 3))
