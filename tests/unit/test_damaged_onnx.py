"""Whatever happened to an ONNX model on its way, it is converted or refused: no other error than ours comes out."""

import contextlib
import random
from typing import Any

import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from mlconverter import Converter
from mlconverter.errors import MLConverterError
from mlconverter.hub.protobuf import messages
from tests.ops.onnx_torch.models import FLOAT, INT64, N, ints, model, node, weight

ROUNDS = 12
"""Damaged models a test; several hundred in all, the same ones every time."""


def sound() -> onnx.ModelProto:
    """A small network with what real ones have: shape arithmetic, constants of all kinds, a function, inferred shapes."""
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("", FLOAT, [2], [5.0, 2.0]), helper.make_tensor("", INT64, [2, 2], [0, 1, 2, 2]), [3, 3]
    )
    layer = helper.make_function(
        "local",
        "F",
        ["a"],
        ["b"],
        [helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weight(3, 3), "")), node("MatMul", "a w", "b")],
        [helper.make_opsetid("", 21)],
    )
    nodes = [
        node("Conv", "x kernel bias", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", "p", "s"),
        node("Slice", "s zero one", "batch"),
        node("Concat", "batch minus", "target", axis=0),
        node("Reshape", "p target", "flat"),
        node("Gemm", "flat dense scale", "h", transB=1),
        helper.make_node("Constant", [], ["shift"], value_floats=[1.0, 2.0, 3.0]),
        node("Add", "h shift", "i"),
        helper.make_node("F", ["i"], ["j"], domain="local"),
        helper.make_node("Constant", [], ["mix"], sparse_value=sparse),
        node("MatMul", "j mix", "k"),
        node("Cast", "k", "l", to=FLOAT),
        node("Split", "l sizes", "l1 l2", axis=1),
        node("Concat", "l1 l2", "m", axis=1),
        node("Transpose", "m", "n", perm=[0, 1]),
        node("Softmax", "n", "y", axis=-1),
    ]
    weights = {
        "kernel": weight(3, 2, 3, 3),
        "bias": weight(3),
        "dense": weight(3, 12),
        "scale": weight(3),
        "zero": ints(0),
        "one": ints(1),
        "minus": ints(-1),
        "sizes": ints(1, 2),
    }
    made = model(nodes, {"x": (N, 2, 4, 4)}, {"y": FLOAT}, weights)
    made.functions.append(layer)
    made.opset_import.append(helper.make_opsetid("local", 1))
    return onnx.shape_inference.infer_shapes(made)


def cut(proto: onnx.ModelProto, rng: random.Random) -> bytes:
    """Some bytes are missing."""
    data = proto.SerializeToString()
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice([1, 2, 10, 200, len(data)]) :]


def flipped(proto: onnx.ModelProto, rng: random.Random) -> bytes:
    """Some bytes are others."""
    data = bytearray(proto.SerializeToString())
    for _ in range(rng.choice([1, 1, 2, 5])):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 255, rng.randrange(256)])
    return bytes(data)


def edited(proto: onnx.ModelProto, rng: random.Random) -> bytes:
    """Some fields are missing, doubled or others."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        message = rng.choice([m for m in messages(proto) if m.ListFields()])
        field, value = rng.choice(message.ListFields())
        if rng.random() < 0.3:
            message.ClearField(field.name)
        elif not hasattr(value, "extend"):
            if field.message_type is None:
                setattr(message, field.name, other(value, rng, field))
        elif rng.random() < 0.3:
            del value[rng.randrange(len(value))]
        elif field.message_type is not None:
            value.add().CopyFrom(rng.choice(value))
        elif rng.random() < 0.5:
            value.append(rng.choice(value))
        else:
            place = rng.randrange(len(value))
            value[place] = other(value[place], rng, field)
    return proto.SerializeToString()


def other(value: Any, rng: random.Random, field: Any) -> Any:
    """Another value of the same type."""
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    if isinstance(value, int):
        return rng.choice([0, -1, 1, 2, 3, 7, 8, 99, -(2**31)])
    if isinstance(value, float):
        return rng.choice([0.0, -1.0, float("nan"), float("inf")])
    if isinstance(value, bytes):
        return rng.choice([b"", value[:-1], value + b"x", b"\xff\xfe"])
    return rng.choice(
        [*"xycw", "", "N+1", "axis", "to", "value", "ai.onnx", "local", *"Relu Conv Cast Shape Gather Constant If".split()]
    )


def convert(given: Any) -> None:
    """To both formats; errors of ours are as good as a result."""
    for target in ("to_onnx", "to_torch"):
        with contextlib.suppress(MLConverterError):
            getattr(Converter(given), target)(verify=False)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("damage", [cut, flipped, edited])
def test_only_errors_of_ours_come_out(damage, seed, tmp_path):
    rng, whole = random.Random(seed), sound().SerializeToString()
    damaged = {damage(sound(), rng) for _ in range(ROUNDS)} - {whole}
    assert len(damaged) > ROUNDS / 2
    for data in sorted(damaged):
        (tmp_path / "net.onnx").write_bytes(data)
        convert(tmp_path / "net.onnx")
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(data)
        except DecodeError:
            continue
        before = proto.SerializeToString()
        convert(proto)
        assert proto.SerializeToString() == before


def test_the_model_itself_is_sound():
    converter = Converter(sound())
    converter.to_torch()
    assert converter.report.verdict == "verified"
    assert converter.to_origin_type() == sound()


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("MatMul", "x w", {}),
        ("Conv", "x w", {}),
        ("Gather", "x w", {}),
        ("Reshape", "x w", {}),
        ("Slice", "x w w", {}),
        ("Concat", "w w", {"axis": 0}),
        ("Add", "w w", {}),
        ("Where", "w w w", {}),
        ("Tile", "w w", {}),
        ("Range", "w w w", {}),
        ("Split", "x w", {}),
        ("SplitToSequence", "x w", {}),
        ("SplitToSequence", "w w", {}),
        ("Resize", "x _ w", {}),
        ("BatchNormalization", "x w w w w", {}),
        ("Cast", "w", {"to": FLOAT}),
    ],
    ids=str,
)
def test_text_in_the_place_of_numbers(op, inputs, attributes):
    nodes = [node(op, inputs, "a", **attributes)]
    if op == "SplitToSequence":
        nodes.append(node("SequenceAt", "a w", "b"))
    proto = model([*nodes, node("Relu", "x", "z")], {"x": (N, 3)}, {"b" if op == "SplitToSequence" else "a": FLOAT, "z": FLOAT})
    proto.graph.initializer.add(name="w", data_type=onnx.TensorProto.STRING, dims=[1]).string_data.append(b"a")
    with pytest.raises(MLConverterError):
        Converter(proto).to_torch()
