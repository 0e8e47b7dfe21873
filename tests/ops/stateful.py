"""Models with states, and what ONNX Runtime gives for them call by call."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
import onnxruntime as ort

from mlconverter.hub.states import STATES_KEY

CALLS = 6


def stateful(model: onnx.ModelProto, states: dict[str, tuple[str, np.ndarray]]) -> onnx.ModelProto:
    """The model with states: by input, the output of the call before and what the first call is given."""
    entries = [{"input": i, "output": o, "initial": _written(initial)} for i, (o, initial) in states.items()]
    onnx.helper.set_model_props(model, {STATES_KEY: json.dumps(entries)})
    return model


def _written(initial: np.ndarray) -> object:
    from mlconverter.hub.states import _written as written

    return written(initial)


def called(
    model: onnx.ModelProto, states: dict[str, tuple[str, np.ndarray]], feeds: Sequence[dict[str, np.ndarray]]
) -> Iterator[dict[str, np.ndarray]]:
    """What ONNX Runtime gives for one call after the other, the states left out."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    state = {name: initial for name, (_, initial) in states.items()}
    for given in feeds:
        results = dict(zip(names, session.run(None, {**given, **state}), strict=True))
        state = {name: results[output] for name, (output, _) in states.items()}
        kept = {output for output, _ in states.values()}
        yield {name: value for name, value in results.items() if name not in kept}
