"""What a model file holds, and which formats it can be converted to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlconverter.base import BaseConverter
from mlconverter.converter import format_of
from mlconverter.errors import FormatError, UnsupportedOp, UnsupportedOpsError
from mlconverter.hub.walk import graphs
from mlconverter.registry import formats
from mlconverter.signature import IOSignature

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class OperatorCount:
    """One operator of a model, at one version; 0 where nothing says which version there is."""

    op: str
    version: int
    count: int


@dataclass(frozen=True)
class TensorCount:
    """The constants of one element type."""

    dtype: str
    tensors: int
    values: int
    size: int


@dataclass(frozen=True)
class Outlook:
    """Whether a model can be converted to a format.

    Attributes:
        target: the format.
        refusal: why not, empty where its operators are all supported.
        ops: the operators that are refused.
        route: where they are refused.
    """

    target: str
    refusal: str = ""
    ops: tuple[UnsupportedOp, ...] = ()
    route: str = ""


@dataclass(frozen=True)
class Facts:
    """What :func:`inspect` finds.

    Attributes:
        path: the file.
        format: its format.
        about: version, producer, description …: title and text.
        signature: inputs and outputs, ``None`` where the file does not say.
        operators: by operator and version, the most frequent first.
        constants: by element type.
        outlooks: one for every other format.
    """

    path: Path
    format: str
    about: tuple[tuple[str, str], ...]
    signature: IOSignature | None
    operators: tuple[OperatorCount, ...]
    constants: tuple[TensorCount, ...]
    outlooks: tuple[Outlook, ...]


def inspect(path: Path) -> Facts:
    """Read a model file.

    Raises:
        UnknownFormatError: no format owns it.
        CorruptModelError: it is damaged.
    """
    cls = format_of(model_path=path)
    if cls.format == "torch":
        return _torch(path)
    converter = cls(model_path=path, verify=False)
    describe = {"onnx": _onnx, "tflite": _tflite}.get(cls.format, _other)
    about, signature, operators, constants = describe(converter)
    outlooks = tuple(_outlook(converter, target) for target in formats.names() if target != cls.format)
    return Facts(path, cls.format, about, signature, operators, constants, outlooks)


_Description = tuple[tuple[tuple[str, str], ...], IOSignature | None, tuple[OperatorCount, ...], tuple[TensorCount, ...]]


def _tflite(converter: BaseConverter) -> _Description:
    model = converter.source
    structure = model.structure
    operators = Counter((f"custom::{o.op}" if o.custom else o.op, o.version) for s in structure.subgraphs for o in s.operators)
    # Tensors that share a buffer are one constant.
    stored = {t.buffer: t for s in structure.subgraphs for t in s.tensors if structure.is_constant(t)}
    constants = ((t.dtype, t.size, structure.buffers[t.buffer].length) for t in stored.values())
    about = [("schema version", str(structure.version)), ("description", structure.description)]
    about += [("signatures", ", ".join(s.key for s in structure.signatures))]
    about += [("subgraphs", str(len(structure.subgraphs)) if len(structure.subgraphs) > 1 else "")]
    about += [("metadata", ", ".join(structure.metadata))]
    return _filled(about), model.signature, _counted(operators), _summed(constants)


def _onnx(converter: BaseConverter) -> _Description:
    import onnx_ir as ir

    from mlconverter.hub.io import numpy_name
    from mlconverter.hub.nodes import op_name, version_of

    hub = converter.hub()
    model = hub.model
    roots: tuple[ir.Graph | ir.Function, ...] = (model.graph, *model.functions.values())
    nodes = [n for root in roots for n in ir.traversal.RecursiveGraphIterator(root)]
    opsets = model.opset_imports
    operators = Counter((op_name(n), version_of(n, opsets) or 0) for n in nodes if n.op_type != "Constant")
    about = [
        ("opset", ", ".join(f"{domain} {version}".strip() for domain, version in opsets.items())),
        ("IR version", str(model.ir_version)),
        ("producer", " ".join(filter(None, (model.producer_name, model.producer_version)))),
        ("functions", str(len(model.functions) or "")),
    ]
    constants = ((numpy_name(t.dtype), t.size, t.nbytes) for t in _onnx_constants(model, nodes))
    return _filled(about), hub.signature, _counted(operators), _summed(constants)


def _onnx_constants(model: ir.Model, nodes: Iterable[ir.Node]) -> Iterable[Any]:
    for graph in graphs(model):
        yield from (v.const_value for v in graph.initializers.values() if v.const_value is not None)
    yield from (n.attributes["value"].as_tensor() for n in nodes if n.op_type == "Constant" and "value" in n.attributes)


def _other(converter: BaseConverter) -> _Description:
    return (), converter.signature, (), ()


def _torch(path: Path) -> Facts:
    from mlconverter.formats.torch.converter import require_torch

    require_torch()
    import torch

    state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    tensors = [t for t in (state.values() if isinstance(state, dict) else ()) if isinstance(t, torch.Tensor)]
    constants = _summed((str(t.dtype).removeprefix("torch."), t.numel(), t.numel() * t.element_size()) for t in tensors)
    reason = "a checkpoint holds weights, not the code that uses them: give package.module:function and --weights to convert"
    outlooks = tuple(Outlook(target, reason) for target in formats.names() if target != "torch")
    return Facts(path, "torch", (("holds", f"weights only, {len(tensors)} tensors"),), None, (), constants, outlooks)


def _outlook(converter: BaseConverter, target: str) -> Outlook:
    """Whether the operators are supported all the way; nothing is converted for it beyond the hub."""
    try:
        formats[target]._refuse(converter.hub())
    except UnsupportedOpsError as error:
        kinds = len({op.op for op in error.ops})
        return Outlook(target, f"{kinds} operator{'s' * (kinds > 1)} not supported", error.ops, error.route)
    except FormatError as error:
        return Outlook(target, str(error))
    return Outlook(target)


def _filled(about: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((title, text) for title, text in about if text)


def _counted(operators: Counter[tuple[str, int]]) -> tuple[OperatorCount, ...]:
    ranked = sorted(operators.items(), key=lambda item: (-item[1], item[0]))
    return tuple(OperatorCount(op, version, count) for (op, version), count in ranked)


def _summed(constants: Iterable[tuple[str, int, int]]) -> tuple[TensorCount, ...]:
    tensors: Counter[str] = Counter()
    values: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for dtype, count, size in constants:
        tensors[dtype] += 1
        values[dtype] += count
        sizes[dtype] += size
    return tuple(TensorCount(d, tensors[d], values[d], sizes[d]) for d, _ in sizes.most_common())
