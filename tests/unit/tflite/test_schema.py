"""Reading files: what is read, and that no damage gets past as anything but CorruptModelError."""

import contextlib
import random

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as S

from mlconverter.errors import ConversionError, CorruptModelError, MLConverterError
from mlconverter.formats.tflite.buffers import patch, source_key, stored_weights
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.to_onnx.convert import convert
from tests.ops.tflite_onnx.files import File


def small_file() -> bytes:
    f = File()
    x = f.input((1, 4, 5, 3), name="image")
    w = f.constant(np.arange(2 * 3 * 3 * 3, dtype=np.float32).reshape(2, 3, 3, 3), name="w")
    b = f.constant(np.asarray([1, 2], np.float16), name="half")
    y = f.op(
        "CONV_2D",
        [x, w, f.op("DEQUANTIZE", [b])],
        options=S.Conv2DOptionsT(padding=0, strideH=1, strideW=2, fusedActivationFunction=1),
        version=3,
    )
    y = f.op("RESHAPE", [y, f.constant(np.asarray([1, -1], np.int32))])
    f.signature({"in": x}, {"out": y})
    return f.finish(y)


DATA = small_file()


def test_everything_is_read():
    model = load(DATA)
    graph = model.subgraphs[0]
    assert [o.op for o in graph.operators] == ["DEQUANTIZE", "CONV_2D", "RESHAPE"]
    conv = graph.operators[1]
    assert (conv.version, conv.custom, conv.options.strideW, conv.options.dilationHFactor) == (3, False, 2, 1)
    assert graph.operators[2].options.newShape is None, "an absent options table is filled in"
    assert [graph.tensors[i].name for i in conv.inputs[:2]] == ["image", "w"]
    w = graph.tensors[conv.inputs[1]]
    assert (w.shape, w.dtype, model.is_constant(w)) == ((2, 3, 3, 3), "float32", True)
    view = model.view(w)
    np.testing.assert_array_equal(view.reshape(-1), np.arange(54))
    assert not view.flags.owndata
    assert dict(model.signatures[0].inputs) == {"in": conv.inputs[0]}
    extent = model.buffers[w.buffer]
    assert DATA[extent.offset : extent.offset + extent.length] == view.tobytes()


def test_buffers_behind_the_flatbuffer():
    f = File()
    y = f.op("ADD", [f.input((3,)), w := f.constant(np.zeros(3, np.float32))], options=S.AddOptionsT())
    flat = f.finish(y)
    padded = flat + b"\0" * (-len(flat) % 16)
    buffer = f._model.buffers[f._graph.tensors[w].buffer]
    for _ in range(2):  # the offset is known once the length is
        buffer.data, buffer.offset, buffer.size = None, len(padded), 12
        flat = f.finish(y, shapes=False)
        padded = flat + b"\0" * (-len(flat) % 16)
    values = np.asarray([1, 2, 3], np.float32)
    data = padded + values.tobytes()
    model = load(data)
    np.testing.assert_array_equal(model.view(model.subgraphs[0].tensors[w]), values)
    with pytest.raises(CorruptModelError, match="cut off"):
        load(data[:-1])
    patched = patch(data, {source_key(model.subgraphs[0].tensors[w].buffer): values * 2})
    assert patched == padded + (values * 2).tobytes()


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\0" * 8 + b"TFL3", b"\x08\0\0\0PK12" + b"\0" * 40])
def test_other_bytes(data):
    with pytest.raises(CorruptModelError, match="TFL3"):
        load(data)


@pytest.mark.parametrize("length", range(8, len(DATA), 7))
def test_cut_off_files(length):
    try:
        convert(DATA[:length])
    except MLConverterError:
        return
    assert DATA[length:].strip(b"\0") == b"", "what was cut off was padding"


@pytest.mark.parametrize("seed", range(300))
def test_damaged_files(seed):
    rng = random.Random(seed)
    damaged = bytearray(DATA)
    for _ in range(rng.choice([1, 2, 5, 20])):
        damaged[rng.randrange(8, len(damaged))] = rng.randrange(256)
    with contextlib.suppress(MLConverterError):
        convert(bytes(damaged))


def test_a_constant_that_does_not_fill_its_shape():
    f = File()
    w = f.tensor((4,), buffer=f.buffer(np.zeros(3, np.float32)))
    y = f.op("ADD", [f.input((4,)), w], options=S.AddOptionsT(), shapes=[(4,)])
    with pytest.raises(CorruptModelError, match="needs 16 bytes; its buffer 1 has 12"):
        convert(f.finish(y))


def test_patching_nothing_changes_nothing():
    model = load(DATA)
    keys = [source_key(t.buffer) for t in model.subgraphs[0].tensors if model.is_constant(t)]
    assert patch(DATA, {}) == DATA
    assert patch(DATA, stored_weights(model, keys)) == DATA


def test_patching_changes_one_buffer_only():
    model = load(DATA)
    w = model.subgraphs[0].tensors[1]
    key = source_key(w.buffer)
    patched = patch(DATA, {key: -model.view(w)})
    np.testing.assert_array_equal(load(patched).view(w), -model.view(w))
    extent = model.buffers[w.buffer]
    assert patched[: extent.offset] == DATA[: extent.offset]
    assert patched[extent.offset + extent.length :] == DATA[extent.offset + extent.length :]


@pytest.mark.parametrize("array", [np.zeros(53, np.float32), np.zeros(54, np.float64), np.zeros(27, np.float64)])
def test_patching_what_does_not_fit(array):
    key = source_key(load(DATA).subgraphs[0].tensors[1].buffer)
    with pytest.raises(ConversionError, match="do not fit"):
        patch(DATA, {key: array})


@pytest.mark.parametrize("key", ["buffer:0", "buffer:999", "buffer:x", "w", "buffer:-1"])
def test_patching_what_is_not_there(key):
    with pytest.raises(ConversionError, match="no weight"):
        patch(DATA, {key: np.zeros(1, np.float32)})
