"""Models with states, and what ONNX Runtime gives for them call by call."""

import base64
import json
from collections.abc import Iterable, Iterator

import numpy as np
import onnx
import onnxruntime as ort

from mlconverter.hub.states import STATES_KEY

States = dict[str, tuple[str, np.ndarray]]
"""By input: the output of the call before that it is fed with, and what the first call is given."""

Feeds = dict[str, np.ndarray]


def stateful(model: onnx.ModelProto, states: States) -> onnx.ModelProto:
    """The model with a note of its states."""
    entries = [{"input": i, "output": o, "initial": base64.b64encode(v.tobytes()).decode()} for i, (o, v) in states.items()]
    onnx.helper.set_model_props(model, {STATES_KEY: json.dumps(entries)})
    return model


def calls(model: onnx.ModelProto, states: States, feeds: Iterable[Feeds]) -> Iterator[Feeds]:
    """What ONNX Runtime gives for one call after the other, but for the states."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    held = {name: initial for name, (_, initial) in states.items()}
    following = {output for output, _ in states.values()}
    for given in feeds:
        results = dict(zip(names, session.run(None, {**given, **held}), strict=True))
        held = {name: results[output] for name, (output, _) in states.items()}
        yield {name: value for name, value in results.items() if name not in following}
