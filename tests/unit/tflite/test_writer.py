"""Writing files: what is written is what is read, and LiteRT reads it too."""

from dataclasses import replace

import numpy as np
import pytest

from mlconverter.errors import ConversionError
from mlconverter.formats.tflite.metadata import About
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.structure import Model, Operator, SignatureDef, Subgraph, Tensor
from mlconverter.formats.tflite.writer import ALIGNMENT, options, write

SIGNATURE = SignatureDef("serving_default", 0, {"image": 0}, {"scores": 2})


def graph(constant: Tensor, op: str = "ADD", **fields) -> Subgraph:
    tensors = (
        Tensor(0, "x", (1, 3), (-1, 3), "float32", 0),
        constant,
        Tensor(2, "y", (1, 3), (-1, 3), "float32", 0),
    )
    return Subgraph("main", tensors, (Operator(0, op, False, 1, (0, 1), (2,), options(op, **fields)),), (0,), (2,))


def constant(shape=(3,), buffer=1) -> Tensor:
    return Tensor(1, "c", shape, None, "float32", buffer)


C = np.array([1, 2, 3], np.float32)


def reread(written: Model) -> Model:
    """What reading the file gives, which is what writing it gave already."""
    found = load(written.data)
    plain = [[replace(o, options=None) for o in model.subgraphs[0].operators] for model in (found, written)]
    options = [[o.options and vars(o.options) for o in model.subgraphs[0].operators] for model in (found, written)]
    assert plain[0] == plain[1] and options[0] == options[1]
    bare = [replace(model, subgraphs=(replace(model.subgraphs[0], operators=()),)) for model in (found, written)]
    assert bare[0] == bare[1]
    return found


def test_what_is_written_is_read():
    written = graph(constant(), fusedActivationFunction=1)
    model = reread(write([written], [C], SIGNATURE, About("a test")))
    (read,) = model.subgraphs
    assert read.tensors == written.tensors
    assert (read.inputs, read.outputs, read.name) == (written.inputs, written.outputs, "main")
    assert [(o.op, o.version, o.inputs, o.outputs) for o in read.operators] == [("ADD", 1, (0, 1), (2,))]
    assert read.operators[0].options.fusedActivationFunction == 1
    assert model.signatures == (SIGNATURE,)
    assert model.description == "a test"
    np.testing.assert_array_equal(model.view(read.tensors[1]), C)


def test_a_free_batch_runs_at_any_size():
    model = TFLiteModel(write([graph(constant())], [C], SIGNATURE))
    assert model.signature.inputs[0].shape == ("batch", 3)
    for batch in (1, 4):
        x = np.ones((batch, 3), np.float32)
        np.testing.assert_array_equal(model(x), x + C)


@pytest.mark.parametrize("data", [C, lambda: C, C[::-1][::-1], np.repeat(C, 2)[::2]])
def test_constants_in_any_form(data):
    model = reread(write([graph(constant())], [data], SIGNATURE))
    np.testing.assert_array_equal(model.view(model.subgraphs[0].tensors[1]), C)
    extent = model.buffers[1]
    assert extent.offset % ALIGNMENT == 0 and extent.offset + extent.length == len(model.data)


def test_a_transposed_constant_is_written_in_its_own_order():
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    model = reread(write([graph(constant((3, 2)))], [w.T], SIGNATURE))
    np.testing.assert_array_equal(model.view(model.subgraphs[0].tensors[1]), w.T)


def test_functions_are_called_one_at_a_time():
    alive = []

    def make(value):
        def data():
            assert not alive or alive[-1]() is None, "the constant before is still there"
            import weakref

            made = np.full(3, value, np.float32)
            alive.append(weakref.ref(made))
            return made

        return data

    tensors = [Tensor(0, "x", (3,), None, "float32", 0), *(Tensor(i, f"c{i}", (3,), None, "float32", i) for i in (1, 2, 3))]
    sub = Subgraph("main", tuple(tensors), (), (0,), (1,))
    model = reread(write([sub], [make(v) for v in (1, 2, 3)], SignatureDef("s", 0, {"x": 0}, {"y": 1})))
    assert [model.view(t)[0] for t in model.subgraphs[0].tensors[1:]] == [1, 2, 3]


def test_no_constants():
    x = Tensor(0, "x", (3,), None, "float32", 0)
    model = TFLiteModel(write([Subgraph("main", (x,), (), (0,), (0,))], [], SignatureDef("s", 0, {"x": 0}, {"y": 0})))
    assert model.structure.buffers[0].length == 0


def test_a_constant_that_does_not_fit_its_tensor_is_refused():
    with pytest.raises(ConversionError, match="Buffer 1 has 16 bytes, its tensor 12"):
        write([graph(constant())], [np.zeros(4, np.float32)], SIGNATURE)


def test_options_that_do_not_exist_are_refused():
    assert options("RELU") is None
    assert options("SOFTMAX", beta=2.0).beta == 2.0
    with pytest.raises(ConversionError, match="SOFTMAX has no option 'axis'"):
        options("SOFTMAX", axis=1)
    with pytest.raises(ConversionError, match="RELU has no options"):
        options("RELU", beta=1)


def test_operators_with_a_number_that_the_old_field_cannot_hold():
    sub = graph(constant(), op="BITWISE_XOR")
    assert reread(write([sub], [C], SIGNATURE)).subgraphs[0].operators[0].op == "BITWISE_XOR"
