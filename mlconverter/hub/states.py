"""What a model keeps from call to call: inputs of its graph that are fed with outputs of the call before."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlconverter.hub.weights import Array
from mlconverter.signature import IOSignature, TensorSpec

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


def with_states(signature: IOSignature, metadata: Mapping[str, str]) -> IOSignature:
    """The signature with the states that a model's metadata name, where it has the inputs and outputs for them.

    States have no layout that anybody could ask for another than: they are nobody's but the model's.
    """
    names = [(entry["input"], entry["output"]) for entry in _said(metadata)]
    known = [(i, o) for i, o in names if i in signature.input_names and o in signature.output_names]
    states = {name for pair in known for name in pair}

    def plain(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        return tuple(replace(spec, layout=None) if spec.name in states else spec for spec in specs)

    return replace(signature, inputs=plain(signature.inputs), outputs=plain(signature.outputs), states=tuple(known))


def initial_states(metadata: Mapping[str, str], signature: IOSignature) -> dict[str, Array]:
    """What the states of a model are before the first call, by the names of their inputs; of free sizes one."""
    written = {entry["input"]: entry["initial"] for entry in _said(metadata)}
    specs = {spec.name: spec for spec in signature.inputs}
    return {i: _value(written[i], specs[i]) for i, _ in signature.states}


def _said(metadata: Mapping[str, str]) -> list[dict[str, Any]]:
    try:
        entries = json.loads(metadata.get(STATES_KEY, "[]"))
        return [{key: entry[key] for key in ("input", "output", "initial")} for entry in entries]
    except (ValueError, TypeError, KeyError):
        return []  # somebody else's, or no states at all


def _value(written: Any, spec: TensorSpec) -> Array:
    shape = spec.concrete()
    if isinstance(written, str):
        return np.frombuffer(base64.b64decode(written), spec.dtype).reshape(shape)
    return np.full(shape, written, spec.dtype)
