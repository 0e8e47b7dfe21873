"""ONNX's own node cases on the route ONNX → TFLite: each is right or refused, and those that are right stay so.

``python -m tests.conformance.test_onnx_tflite`` writes the list of those that are right anew.
"""

import numpy as np
import pytest

from mlconverter import Converter
from mlconverter.errors import MLConverterError
from mlconverter.formats.tflite.model import TFLiteModel
from tests.conformance.node_cases import NodeCase, difference
from tests.conformance.pinned import PARTS, Pinned


def run(model: TFLiteModel, inputs: list[np.ndarray]) -> list[np.ndarray]:
    interpreter = model.interpreter(num_threads=1)
    details = interpreter.get_input_details()
    assert len(details) == len(inputs)
    for detail, array in zip(details, inputs, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def outcome(case: NodeCase) -> str:
    """``right``, ``refused: …`` or ``wrong: …``."""
    try:
        model = Converter(case.model, verify=False).to_tflite()
    except MLConverterError as error:
        return f"refused: {error}"
    try:
        found = difference(run(model, [np.asarray(a) for a in case.inputs]), case)
    except Exception as error:
        if any(not o.size for o in case.outputs) and "Invalid tensor size" in str(error):
            return "refused: LiteRT hands out no empty tensor whose size it has computed"
        return f"wrong: fails at run time: {type(error).__name__}: {error}"
    return "right" if found is None else f"wrong: {found}"


PINNED = Pinned("onnx_tflite", outcome)


@pytest.mark.parametrize("part", range(PARTS))
def test_each_case_is_right_or_refused(part):
    PINNED.check(part)


def test_the_list_names_each_case_once():
    assert PINNED.names() == sorted(set(PINNED.names()))


if __name__ == "__main__":
    PINNED.write()
