"""What the commands print, as rich tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.json import JSON
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from mlconverter.base import BaseConverter
    from mlconverter.cli.inspection import Facts, OperatorCount, Outlook
    from mlconverter.cli.tables import OperatorRow
    from mlconverter.metadata import Metadata
    from mlconverter.report import Report
    from mlconverter.signature import IOSignature, Quantization
    from mlconverter.verification.result import VerificationResult

_STYLES = {"verified": "green", "wrong": "bold red", "inconclusive": "yellow", "unverified": "yellow"}


def number(value: int) -> str:
    """A count that can be read: ``837``, ``101.4 K``, ``11.7 M``."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("K", 10**3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return str(value)


def table(*columns: str, title: str | None = None, right: Iterable[str] = ()) -> Table:
    """An empty table in the style of all of them."""
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def verdict(text: str) -> Text:
    """A verdict in its colour."""
    return Text(text or "-", style=_STYLES.get(text, ""))


def steps(report: Report) -> RenderableType:
    """The steps of a conversion, and why those that are not verified are not."""
    made = table("step", "time", "largest difference", "allowed", "verdict", right=("time", "largest difference", "allowed"))
    reasons = []
    for step in report.steps:
        result = step.verification
        worst = None if result is None else result.worst
        made.add_row(
            escape(step.name),
            f"{step.seconds:.2f} s",
            "-" if worst is None else f"{worst.max_abs_error:.2g}",
            "-" if worst is None else f"{worst.tolerance:.2g}",
            verdict(step.verdict),
        )
        if result is not None and not result:
            reasons.append(Text(f"{step.name} is {result.verdict}: {result.reason}", style=_STYLES[result.verdict]))
    return Group(made, *reasons)


def written(path: Path) -> Text:
    """The line that says what was written."""
    return Text(f"{path} written, {decimal(path.stat().st_size)}", style="green")


def facts(found: Facts) -> RenderableType:
    """Everything about a file."""
    head = Table.grid(padding=(0, 2))
    head.add_row("format", found.format)
    head.add_row("size", decimal(found.path.stat().st_size))
    for title, text in found.about:
        head.add_row(title, escape(text))
    parts: list[RenderableType] = [Text(found.path.name, style="bold"), head, Text()]
    if found.signature is not None:
        parts.append(_signature(found.signature))
    if found.constants:
        made = table("constants", "tensors", "values", "size", right=("tensors", "values", "size"))
        for c in found.constants:
            made.add_row(c.dtype, number(c.tensors), number(c.values), decimal(c.size))
        parts.append(made)
    if found.operators:
        parts.append(_operators(found.operators, found.outlooks, found.format))
    return Group(*parts, _outlooks(found.outlooks))


def _outlooks(outlooks: Iterable[Outlook]) -> Table:
    """Whether each format can be reached; what stops several of them is said once."""
    made = table("to", "possible", "why not")
    said: dict[tuple[object, ...], str] = {}
    for outlook in outlooks:
        first = said.setdefault(outlook.ops, outlook.target) if outlook.ops else outlook.target
        lines = [f"{outlook.refusal} ({outlook.route})" if outlook.route else outlook.refusal]
        if first == outlook.target:
            lines += [f"{o.op} (version {o.version}), {o.count}x: {o.reason}" for o in outlook.ops]
        else:
            lines = [f"what is in the way to {first}"]
        answer = Text("no", style="red") if outlook.refusal else Text("yes", style="green")
        made.add_row(outlook.target, answer, escape("\n".join(lines)))
    return made


def _signature(signature: IOSignature) -> Table:
    specs = [("input", spec) for spec in signature.inputs] + [("output", spec) for spec in signature.outputs]
    columns = ["", "name", "dtype", "shape", "layout"]
    # Most models have no quantised border: an empty column is left out.
    quantised = any(spec.quantization for _, spec in specs)
    made = table(*columns, *(["quantised"] if quantised else []))
    for title, spec in specs:
        shape = "?" if spec.shape is None else " × ".join("?" if d is None else str(d) for d in spec.shape) or "scalar"
        cells = [title, spec.name, spec.dtype, shape, spec.layout or ""]
        made.add_row(*map(escape, cells + ([_quantised(spec.quantization)] if quantised else [])))
    return made


def _quantised(quantization: Quantization | None) -> str:
    if quantization is None:
        return ""
    if quantization.axis is not None:
        return f"per channel, axis {quantization.axis}"
    return f"scale {quantization.scale[0]:.4g}, zero point {quantization.zero_point[0]}"


def _operators(operators: Iterable[OperatorCount], outlooks: Iterable[Outlook], format: str) -> Table:
    """Operators with a column for every format that is reached by translating these very operators."""
    direct = [o for o in outlooks if not o.refusal or o.route == f"{format}-{o.target}"]
    # Beyond ONNX the operators are ONNX's, not the file's.
    direct = [o for o in direct if format == "onnx" or o.target == "onnx"]
    made = table("operator", "version", "count", *(f"to {o.target}" for o in direct), right=("version", "count"))
    for row in operators:
        cells = []
        for outlook in direct:
            refused = sum(o.count for o in outlook.ops if (o.op, o.version) == (row.op, row.version))
            cells.append(Text(f"{refused} refused", style="red") if refused else Text("yes", style="green"))
        made.add_row(escape(row.op), str(row.version or "-"), str(row.count), *cells)
    return made


def comparisons(result: VerificationResult) -> RenderableType:
    """Every comparison of a verification, and its summary."""
    numbers = ("seed", "batch", "difference", "allowed")
    made = table("inputs", "seed", "batch", "output", "difference", "allowed", "", right=numbers)
    for row in result.rows():
        error, allowed = row["max_abs_error"], row["tolerance"]
        made.add_row(
            *("-" if row[c] is None else escape(str(row[c])) for c in ("inputs", "seed", "batch", "output")),
            *("-" if v is None else f"{v:.3g}" for v in (error, allowed)),
            Text("ok", style="green") if row["ok"] else Text("wrong", style="red"),
        )
    summary = Text(result.summary(), style=_STYLES[result.verdict])
    return Group(made, summary) if result.runs else summary


def metadata(found: Metadata) -> RenderableType:
    """What goes along with a model; of files that are JSON what is in them, of others how large they are."""
    parts: list[RenderableType] = [JSON.from_data(dict(found.values))] if found.values else []
    for name, content in found.extra_files.items():
        parts += [Text(f"\n{name}, {decimal(len(content))}", style="bold")]
        with suppress(ValueError):
            parts.append(JSON(content.decode()))
    return Group(*parts) if parts else Text("No metadata, and no extra files.")


def formats(known: Iterable[type[BaseConverter]]) -> Table:
    """The formats with their extensions."""
    made = table("format", "extensions", "operators are translated")
    for cls in sorted(known, key=lambda c: c.format):
        made.add_row(cls.format, " ".join(cls.extensions), ", ".join(cls.op_routes) or "-")
    return made


def routes(places: Mapping[str, str]) -> RenderableType:
    """The routes, and how to see one."""
    made = table("route")
    for route in sorted(places):
        made.add_row(route)
    return Group(made, Text("mlconverter ops --route <route> lists its operators."))


def operators(route: str, rows: list[OperatorRow]) -> RenderableType:
    """The operators of a route."""
    made = table("operator", "versions", "becomes", "", title=f"{route}: {len({row.op for row in rows})} operators")
    for row in rows:
        versions = ", ".join(map(str, row.versions))
        made.add_row(escape(row.op), versions, escape(row.mapping), "with conditions" if row.conditional else "")
    return made
