"""What cannot be translated from the hub: found before anything is, and reported all at once."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.errors import UnsupportedOp, UnsupportedOpsError
from mlconverter.hub.fused import refusal
from mlconverter.hub.model import CUSTOM_DOMAIN
from mlconverter.hub.nodes import call_of, op_name, opset_of, version_of
from mlconverter.registry import OpRegistry


class Refusals:
    """What cannot be translated, and why.

    Args:
        route: for example ``"onnx-torch"``.
    """

    def __init__(self, route: str) -> None:
        self._route = route
        self._found: dict[tuple[str, int, str], list[str]] = {}
        self._known: set[tuple[ir.Node, str]] = set()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._found)

    def add(self, node: ir.Node, version: int | None, reason: str) -> None:
        """One more node; the steps of a loop are the same nodes again and again."""
        if (node, reason) in self._known:
            return
        self._known.add((node, reason))
        name = node.name or (node.outputs[0].name if node.outputs else "") or "?"
        self._found.setdefault((op_name(node), version or 0, reason), []).append(name)

    def raise_if_any(self) -> None:
        """Raise for all of them.

        Raises:
            UnsupportedOpsError: with every operator, how often and where it stands, and why it is refused.
        """
        if self._found:
            ops = [UnsupportedOp(op, version, len(n), n[0], reason) for (op, version, reason), n in self._found.items()]
            raise UnsupportedOpsError(self._route, ops)


def refuse_unsupported(model: ir.Model, translates: OpRegistry) -> None:
    """Raise for all operators without a translator, before anything is translated.

    Args:
        model: a normalised graph.
        translates: the operators of a route. The shape of a value is evaluated and needs no translator.

    Raises:
        UnsupportedOpsError: there are some.
    """
    refusals = Refusals(translates.route)
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain == CUSTOM_DOMAIN:
            continue
        version, opset = version_of(node, model.opset_imports), opset_of(node, model.opset_imports)
        fused = refusal(node, model.opset_imports)
        if version is None or fused is not None:
            refusals.add(node, version, fused or f"the installed onnx has no specification of it at opset {opset}")
        elif op_name(node) not in ("Shape", "Size"):
            translator = translates.find(op_name(node), version)
            reason = translates.refusal(op_name(node), version)
            if translator is not None and translator.check is not None:
                reason = translator.check(call_of(node, opset, version))
            if reason is not None:
                refusals.add(node, version, reason)
    refusals.raise_if_any()
