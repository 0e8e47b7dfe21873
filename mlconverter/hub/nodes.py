"""A node as translators see it: with its schema version, its defaults filled in, and attributes that became inputs moved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    from onnx.defs import OpSchema

DEFAULT_DOMAINS = ("", "ai.onnx")

RUNTIMES_DOMAIN = "com.microsoft"
"""Operators that ONNX Runtime adds to the specification, each in one version and without a schema."""


@cache
def schema(op: str, domain: str, opset: int) -> OpSchema | None:
    """The specification of an operator at an opset, ``None`` where the installed ``onnx`` knows none."""
    from onnx.defs import SchemaError, get_schema, onnx_opset_version

    if domain in DEFAULT_DOMAINS and opset > onnx_opset_version():
        return None
    try:
        return get_schema(op, opset, "" if domain in DEFAULT_DOMAINS else domain)
    except SchemaError:
        return None


def op_name(node: ir.Node) -> str:
    """Operator type, prefixed with its domain outside the default one."""
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}::{node.op_type}"


def opset_of(node: ir.Node, opsets: dict[str, int]) -> int:
    """The opset under which a node is read."""
    if node.version is not None:
        return node.version
    return opsets.get(node.domain, opsets.get("" if node.domain in DEFAULT_DOMAINS else node.domain, 1))


def version_of(node: ir.Node, opsets: dict[str, int]) -> int | None:
    """The schema version of a node, ``None`` where the installed ``onnx`` has no specification of it."""
    if node.domain == RUNTIMES_DOMAIN:
        return 1
    return _since(node.op_type, node.domain, opset_of(node, opsets))


@cache
def _since(op: str, domain: str, opset: int) -> int | None:
    found = schema(op, domain, opset)
    return None if found is None else int(found.since_version)


def stops_gradient(node: ir.Node) -> bool:
    """Whether a node is the Identity that torch's exporter makes of ``Tensor.detach``."""
    return node.op_type == "Identity" and ".detach" in node.metadata_props.get("namespace", "").rpartition("/")[2]


def specified(model: ir.Model, graph: ir.Graph | ir.Function) -> list[ir.Node]:
    """The nodes of a graph whose operators the specification knows; reading a model has checked those against it."""
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 1))
    return [n for n in graph if n.domain in DEFAULT_DOMAINS and _since(n.op_type, "", n.version or opset) is not None]


@cache
def _defaults(op: str, domain: str, opset: int) -> dict[str, Any]:
    from onnx.helper import get_attribute_value

    found = schema(op, domain, opset)
    if found is None:
        return {}
    return {
        name: _plain(get_attribute_value(attribute.default_value))
        for name, attribute in found.attributes.items()
        if attribute.default_value.name
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def attributes_of(node: ir.Node, opset: int) -> dict[str, Any]:
    """The attributes of a node as plain Python values, the specification's defaults filled in.

    Tensors become numpy arrays; graphs stay ``onnx_ir.Graph``. Optional attributes without a default are
    absent, so that a translator's own ``None`` says so.
    """
    result = dict(_defaults(node.op_type, node.domain, opset))
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            raise ValueError(f"attribute '{name}' refers to the function's '{attribute.ref_attr_name}', which nothing supplies")
        if attribute.type is ir.AttributeType.TENSOR:
            result[name] = attribute.value.numpy()
        elif attribute.type is ir.AttributeType.GRAPH:
            result[name] = attribute.value
        else:
            result[name] = _plain(attribute.value)
    return result


@dataclass(frozen=True)
class Call:
    """A node in the calling form of the newest opset.

    Attributes:
        op: operator, with its domain outside the default one.
        version: schema version of the node as it stands in the model.
        inputs: values, ``None`` for absent optional ones; attributes that later became inputs are arrays.
        attributes: everything else by name.
    """

    op: str
    version: int
    inputs: tuple[ir.Value | np.ndarray[Any, Any] | None, ...]
    attributes: dict[str, Any]


BECAME_INPUTS: dict[str, tuple[int, tuple[str, ...], type]] = {
    # operator: (version from which they are inputs, the attributes in the order of the inputs they became, their dtype)
    "Squeeze": (13, ("axes",), np.int64),
    "Unsqueeze": (13, ("axes",), np.int64),
    "ReduceSum": (13, ("axes",), np.int64),
    **{f"Reduce{kind}": (18, ("axes",), np.int64) for kind in "Max Min Mean Prod L1 L2 LogSum LogSumExp SumSquare".split()},
    "Slice": (10, ("starts", "ends", "axes"), np.int64),
    "Clip": (11, ("min", "max"), np.float32),
    "Pad": (11, ("pads", "value"), np.int64),
    "Split": (13, ("split",), np.int64),
    "Reshape": (5, ("shape",), np.int64),
    "Tile": (6, ("tiles",), np.int64),
    "TopK": (10, ("k",), np.int64),
    "Upsample": (9, ("scales",), np.float32),
    "Dropout": (12, ("ratio",), np.float32),
}


def call_of(node: ir.Node, opset: int, version: int) -> Call:
    """The node in the calling form of the newest opset: same meaning, attributes that became inputs moved there."""
    attributes = attributes_of(node, opset)
    inputs: list[Any] = list(node.inputs)
    since, moved, dtype = BECAME_INPUTS.get(node.op_type, (0, (), np.int64))
    if node.domain in DEFAULT_DOMAINS and version < since:
        for name in moved:
            value = attributes.pop(name, None)
            if value is not None:
                value = np.asarray(value, np.float32 if name == "value" else dtype)
                value = value.reshape(1) if name == "k" else value
            inputs.append(value)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return Call(op_name(node), version, tuple(inputs), attributes)
