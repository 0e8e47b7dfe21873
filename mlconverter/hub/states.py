"""What a model keeps from call to call: inputs of its graph that are fed with outputs of the call before."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mlconverter.hub.weights import Array
from mlconverter.signature import IOSignature

if TYPE_CHECKING:
    import onnx_ir as ir

STATES_KEY = "mlconverter.states"
"""Metadata key of a model: its states, as JSON. A list of objects with the name of the ``input``, the name of the ``output``
that is fed into it in the next call, and the ``initial`` value: one number for all elements, or base64 of them all."""


def state_names(name: str) -> tuple[str, str]:
    """What the input and the output are called by which a variable comes in and goes out."""
    return name, f"{name}_next"


def say_states(model: ir.Model, signature: IOSignature, initial: Mapping[str, Array]) -> None:
    """Note the states of a model in its metadata."""
    entries = [{"input": i, "output": o, "initial": _written(initial[i])} for i, o in signature.states]
    if entries:
        model.metadata_props[STATES_KEY] = json.dumps(entries)


def _written(value: Array) -> Any:
    first = value.reshape(-1)[:1]
    if first.size and (value == first).all():
        return first.item()
    return base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")


def said_states(metadata: Mapping[str, str]) -> list[dict[str, Any]]:
    """The states that a model's metadata name; none where they are no list of such."""
    try:
        entries = json.loads(metadata.get(STATES_KEY, "[]"))
        return [{key: entry[key] for key in ("input", "output", "initial")} for entry in entries]
    except (ValueError, TypeError, KeyError):
        return []


def initial_value(written: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """The value that a state has before the first call."""
    if isinstance(written, str):
        return np.frombuffer(base64.b64decode(written), dtype).reshape(shape)
    return np.full(shape, written, dtype)
