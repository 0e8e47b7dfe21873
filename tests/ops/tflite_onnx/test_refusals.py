"""What cannot be said in ONNX, or what LiteRT does not compute as it says, is refused with the reason."""

import itertools

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as S
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from mlconverter.errors import UnsupportedOpsError
from mlconverter.formats.tflite.to_onnx.convert import convert
from mlconverter.formats.tflite.to_onnx.ops import translates
from tests.ops.tflite_onnx.cases import ints
from tests.ops.tflite_onnx.cases_stablehlo import body
from tests.ops.tflite_onnx.files import OPERATORS, File


def simple(name, dtype="float32", out=None, options=None, inputs=1):
    """One operator on inputs of one shape."""
    return lambda f: f.op(name, [f.input((3, 4), dtype) for _ in range(inputs)], out or dtype, options=options, shapes=[(3, 4)])


def spectrum(f):
    return f.op("RFFT2D", [f.input((4, 4)), f.constant(ints(4, 4))], "complex64", shapes=[(4, 3)])


def soft_boxes(f, sigma=0.5, overlap=0.5):
    limits = [np.int32(3), np.float32(overlap), np.float32(0), np.float32(sigma)]
    operands = [f.input((5, 4)), f.input((5,)), *map(f.constant, limits)]
    return f.op("NON_MAX_SUPPRESSION_V5", operands, ["int32", "float32", "int32"], shapes=[(3,), (3,), ()])[0]


def reduction(f, op="STABLEHLO_SUBTRACT", dtype="float32"):
    options = S.StablehloReduceOptionsT(dimensions=[0], bodySubgraphIndex=body(f, op, dtype))
    return f.op(
        "STABLEHLO_REDUCE", [f.input((3, 4), dtype), f.constant(np.asarray(0, dtype))], dtype, options=options, shapes=[(4,)]
    )


def blocks(f):
    options = S.DepthToSpaceOptionsT(blockSize=2)
    return f.op("DEPTH_TO_SPACE", [f.input((1, 2, 2, 4), "int64")], "int64", options=options, shapes=[(1, 4, 4, 1)])


def sort(f, direction=0):
    def comparator():
        options = S.StablehloCompareOptionsT(comparisonDirection=direction)
        return f.op("STABLEHLO_COMPARE", [f.input(()), f.input(())], "bool", options=options, shapes=[()])

    options = S.StablehloSortOptionsT(dimension=0, comparatorSubgraphIndex=f.subgraph(comparator))
    return f.op("STABLEHLO_SORT", [f.input((4,))], options=options, shapes=[(4,)])


def pad_of_other_axes(f):
    options = S.StablehloPadOptionsT(edgePaddingLow=[1, 0], edgePaddingHigh=[0], interiorPadding=[0])
    return f.op("STABLEHLO_PAD", [f.input((3, 4)), f.constant(np.float32(0))], options=options, shapes=[(4, 4)])


def body_that_is_missing(f):
    options = S.StablehloReduceOptionsT(dimensions=[0], bodySubgraphIndex=7)
    return f.op("STABLEHLO_REDUCE", [f.input((3, 4)), f.constant(np.float32(0))], options=options, shapes=[(4,)])


RANDOM = "random numbers"
TABLE = "a table that outlives a call"
QUANTISED = "takes for quantised ones"
REFUSED = {
    "RANDOM_UNIFORM": (simple("RANDOM_UNIFORM"), RANDOM),
    "RANDOM_STANDARD_NORMAL": (simple("RANDOM_STANDARD_NORMAL"), RANDOM),
    "MULTINOMIAL": (simple("MULTINOMIAL"), RANDOM),
    "STABLEHLO_RNG_BIT_GENERATOR": (simple("STABLEHLO_RNG_BIT_GENERATOR"), RANDOM),
    "HASHTABLE": (simple("HASHTABLE"), TABLE),
    "HASHTABLE_FIND": (simple("HASHTABLE_FIND"), TABLE),
    "HASHTABLE_IMPORT": (simple("HASHTABLE_IMPORT"), TABLE),
    "HASHTABLE_SIZE": (simple("HASHTABLE_SIZE"), TABLE),
    "LSH_PROJECTION": (simple("LSH_PROJECTION"), "hashes"),
    "SKIP_GRAM": (simple("SKIP_GRAM"), "text"),
    "CONCAT_EMBEDDINGS": (simple("CONCAT_EMBEDDINGS"), "no kernel"),
    "STABLEHLO_CUSTOM_CALL": (simple("STABLEHLO_CUSTOM_CALL"), "does not hold"),
    "FAKE_QUANT": (simple("FAKE_QUANT", options=S.FakeQuantOptionsT(max=1, numBits=8, narrowRange=True)), "a narrow range"),
    "BITCAST": (simple("BITCAST", out="int32"), "operator set 26"),
    "BITCAST of another width": (simple("BITCAST", "int8", "int32"), "operator set 26"),
    "ATAN2": (simple("ATAN2", "float64", inputs=2), "float64"),
    "MUL": (simple("MUL", "int8", inputs=2, options=S.MulOptionsT()), QUANTISED),
    "RELU": (simple("RELU", "int8"), "int8"),
    "SUM": (lambda f: f.op("SUM", [f.input((3, 4), "int8"), f.constant(ints(1))], "int8", shapes=[(3,)]), QUANTISED),
    "NOT_EQUAL": (simple("NOT_EQUAL", "int16", "bool", inputs=2), "whether they are equal"),
    "MATRIX_DIAG": (simple("MATRIX_DIAG", "float64"), "float64"),
    "DEPTH_TO_SPACE": (blocks, "no such kernel"),
    "RFFT2D": (spectrum, "used whole"),
    "NON_MAX_SUPPRESSION_V5": (soft_boxes, "scores that decay"),
    "NON_MAX_SUPPRESSION_V5 without a limit": (lambda f: soft_boxes(f, 0, 0), "overlap by 0"),
    "STABLEHLO_REDUCE": (reduction, "a body that is not a single"),
    "STABLEHLO_REDUCE of bits": (lambda f: reduction(f, "STABLEHLO_AND", "int32"), "of the bits"),
    "STABLEHLO_REDUCE without a body": (body_that_is_missing, "do not fit its tensors"),
    "STABLEHLO_PAD": (pad_of_other_axes, "do not fit its tensors"),
    "STABLEHLO_SORT": (sort, "neither less nor greater"),
    "STABLEHLO_COMPARE": (
        simple("STABLEHLO_COMPARE", out="bool", inputs=2, options=S.StablehloCompareOptionsT(compareType=2)),
        "NaN",
    ),
    "STABLEHLO_POWER": (simple("STABLEHLO_POWER", "int32", inputs=2), "int32"),
    "STABLEHLO_CONVOLUTION": (
        simple("STABLEHLO_CONVOLUTION", inputs=2, options=S.StablehloConvolutionOptionsT(batchGroupCount=2)),
        "groups of the batch",
    ),
}


@pytest.mark.parametrize(("build", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_refused(build, reason):
    f = File()
    data = f.finish(build(f), shapes=False)
    with pytest.raises(UnsupportedOpsError, match=reason):
        convert(data)


def litert_knows(name: str, version: int) -> bool:
    f = File()
    data = f.finish(f.op(name, [f.input((2, 3))], shapes=[(2, 3)], version=version))
    try:
        Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    except (RuntimeError, ValueError) as error:
        return "Didn't find op" not in str(error)
    return True


@pytest.mark.parametrize("name", sorted(set(translates.ops()) & set(OPERATORS)))
def test_every_version_that_litert_runs_is_translated(name: str):
    first = translates.versions(name)[0]
    known = itertools.takewhile(lambda version: litert_knows(name, version), itertools.count(first))
    assert set(known) <= set(translates.versions(name))
