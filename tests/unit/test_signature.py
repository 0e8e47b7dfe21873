import numpy as np
import pytest

from mlconverter import IOSignature, OnnxIO, TensorSpec
from mlconverter.errors import SignatureError

SIGNATURE = IOSignature(
    (TensorSpec("image", ("batch", 3, "height", "width"), "float32"), TensorSpec("size", ("batch", 2), "int64")),
    (TensorSpec("boxes", (None, 4), "float32"),),
)


class TestTensorSpec:
    @pytest.mark.parametrize(
        ("shape", "free", "concrete", "text"),
        [
            ((1, 3), (), (1, 3), "x: int8[1, 3]"),
            (("n", 3, None), (0, 2), (7, 3, 1), "x: int8[n, 3, ?]"),
            ((), (), (), "x: int8[]"),
            (None, (), (), "x: int8[?]"),
        ],
    )
    def test_shapes(self, shape, free, concrete, text):
        spec = TensorSpec("x", shape, "int8")
        assert spec.free_axes == free
        assert spec.concrete({"n": 7}) == concrete
        assert str(spec) == text

    def test_a_default_fills_what_has_no_size(self):
        assert TensorSpec("x", ("n", None, 3), "int8").concrete(default=2) == (2, 2, 3)


class TestIOSignature:
    def test_names_and_free_dimensions(self):
        assert SIGNATURE.input_names == ("image", "size")
        assert SIGNATURE.output_names == ("boxes",)
        assert SIGNATURE.free_dims == ("batch", "height", "width")

    def test_other_names(self):
        renamed = SIGNATURE.with_names(["a", "b"], ["c"])
        assert (renamed.input_names, renamed.output_names) == (("a", "b"), ("c",))
        assert renamed.inputs[0].shape == SIGNATURE.inputs[0].shape
        assert SIGNATURE.input_names == ("image", "size")

    def test_as_many_names_as_tensors(self):
        with pytest.raises(ValueError, match="shorter"):
            SIGNATURE.with_names(["a"], ["c"])


class TestOnnxIO:
    @pytest.fixture
    def model(self):
        """Two inputs, one of them an initializer; one output."""
        from onnx import TensorProto, helper, numpy_helper

        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "g",
            [value("x", TensorProto.FLOAT, ["n", 3]), value("w", TensorProto.FLOAT, [3, 4])],
            [value("y", TensorProto.FLOAT, ["n", 4])],
            [numpy_helper.from_array(np.ones((3, 4), np.float32), "w")],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    @pytest.mark.parametrize("kind", ["proto", "path", "str", "ir"])
    def test_a_model_in_any_form(self, model, tmp_path, kind):
        import onnx
        import onnx_ir as ir

        path = tmp_path / "m.onnx"
        onnx.save(model, path)
        forms = {"proto": model, "path": path, "str": str(path), "ir": ir.from_proto(model)}
        io = OnnxIO(forms[kind])
        assert io.input_shape == ("n", 3)
        assert io.input_shapes == {"x": ("n", 3)}
        assert io.output_shapes == {"y": ("n", 4)}
        assert (io.input_names, io.output_names) == (("x",), ("y",))
        assert (io.input_dtypes, io.output_dtypes) == ({"x": "float32"}, {"y": "float32"})
        assert io.signature.free_dims == ("n",)

    def test_one_shape_of_several_inputs_is_refused(self, model):
        del model.graph.initializer[:]
        with pytest.raises(SignatureError, match=r"2 inputs \['x', 'w'\]; use input_shapes"):
            OnnxIO(model).input_shape  # noqa: B018 - the property itself raises
