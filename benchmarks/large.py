"""A model beyond what a protobuf or a flatbuffer can hold, there and run once."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from ai_edge_litert.interpreter import Interpreter
from onnx import TensorProto, helper

from benchmarks.measure import peak_memory, timed

SIDE, LAYERS = 8192, 10
"""Square matrices and how many: 2.7 GB."""

_CODE = "Converter(model_path={source!r}, verify=False).save({target!r})"


@dataclass
class Large:
    """What was measured: bytes of weights and of memory, seconds of converting and of a run, the largest difference."""

    weights: int
    memory: int
    seconds: float
    run: float
    difference: float


def large() -> Large:
    """Build the model, convert it in a process of its own, and run what came out."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "large.onnx", Path(folder) / "large.tflite"
        x = np.random.default_rng(0).standard_normal((1, SIDE), np.float32)
        want = _write(source, x)
        setup, code = "from mlconverter import Converter", _CODE.format(source=str(source), target=str(target))
        seconds = timed(setup, code, 1)[0][0]
        memory = peak_memory(f"{setup}\n{code}")
        interpreter = Interpreter(model_path=str(target), num_threads=1)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        start = time.perf_counter()
        interpreter.invoke()
        run = time.perf_counter() - start
        got = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return Large(LAYERS * SIDE * SIDE * 4, memory, seconds, run, float(np.abs(got - want).max() / np.abs(want).max()))


def _write(path: Path, x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Write products of x with one matrix after another, which lie in a file beside the model; what they give."""
    rng, size, y = np.random.default_rng(1), SIDE * SIDE * 4, x
    nodes, tensors = [], []
    with path.with_suffix(".data").open("wb") as file:
        for layer in range(LAYERS):
            matrix = rng.standard_normal((SIDE, SIDE), np.float32) / np.float32(np.sqrt(SIDE))
            file.write(matrix.tobytes())
            y = y @ matrix
            tensor = TensorProto(
                name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[SIDE, SIDE], data_location=TensorProto.EXTERNAL
            )
            for key, value in (("location", f"{path.stem}.data"), ("offset", layer * size), ("length", size)):
                tensor.external_data.add(key=key, value=str(value))
            tensors.append(tensor)
            before = f"h{layer - 1}" if layer else "x"
            nodes.append(helper.make_node("MatMul", [before, tensor.name], [f"h{layer}" if layer < LAYERS - 1 else "y"]))
    border = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIDE]) for name in "xy"]
    graph = helper.make_graph(nodes, "large", border[:1], border[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return y
