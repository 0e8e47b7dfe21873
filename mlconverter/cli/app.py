"""The commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mlconverter import __version__
from mlconverter.cli import sources
from mlconverter.cli.errors import WRONG, console, reported
from mlconverter.registry import formats as registered

if TYPE_CHECKING:
    from mlconverter.converter import Converter

app = typer.Typer(
    name="mlconverter",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        console().print(f"mlconverter {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Convert models between ONNX, PyTorch and TFLite, checked numerically.

    Exit codes: 0 done, 1 conversion failed, 2 wrong command line, 3 verification failed.
    """
    context.obj = debug


@app.command()
@reported
def convert(
    context: typer.Context,
    src: Annotated[str, typer.Argument(help="A model file, or `package.module:function` that gives a torch module.")],
    dst: Annotated[Path, typer.Argument(help="The file to write; its extension says the format.")],
    to: Annotated[str | None, typer.Option(help="The target format, where the extension does not say it.")] = None,
    input_shape: Annotated[
        list[str] | None,
        typer.Option(help="Input shape of a torch module: `1,3,224,224`, `x=batch,3,224,224` or `ids=1,16:int64`. Repeatable."),
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="A checkpoint for the torch module.", exists=True, dir_okay=False)] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not compare the result with the source.")] = False,
    verify: Annotated[Literal["fast", "full"], typer.Option(help="How thoroughly to compare.")] = "fast",
    io_layout: Annotated[
        Literal["channels_first", "channels_last"] | None,
        typer.Option(help="Axis layout of images; the source's by default."),
    ] = None,
    dynamic_batch: Annotated[
        bool | None,
        typer.Option(
            "--dynamic-batch/--no-dynamic-batch",
            help="Insist on freeing a batch of 1, or leave it; by default it is freed where that is proved.",
        ),
    ] = None,
    allow_custom: Annotated[
        list[str] | None,
        typer.Option(help="An operator that becomes a custom operator of TFLite: `com.example::Thing`. Repeatable."),
    ] = None,
    precision: Annotated[
        Literal["fp32", "fp16", "bf16"], typer.Option(help="What a TensorRT engine computes in; int8 takes samples, in Python.")
    ] = "fp32",
    size_range: Annotated[
        list[str] | None,
        typer.Option(help="Sizes of a free dimension of an engine: `batch=1,8,64`, the smallest, usual and largest. Repeatable."),
    ] = None,
) -> None:
    """Convert a model file to another format and check it against the source."""
    if not dst.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder '{dst.parent}'", param_hint="DST")
    shapes, ranges = sources.input_shapes(input_shape or []), sources.size_ranges(size_range or [])
    sources.target_format(dst, to)
    from mlconverter.cli import show
    from mlconverter.logs import get_logger

    _log()
    get_logger().info("convert {} → {}", src, dst)
    out = console()
    with _progress(f"{src} → {dst}"):
        converter = _converter(
            **sources.model_of(src, weights),
            input_shape=shapes,
            verify=False if no_verify else verify,
        )
        try:
            batch = "auto" if dynamic_batch is None else dynamic_batch
            converter.save(
                dst,
                to,
                io_layout=io_layout,
                dynamic_batch=batch,
                allow_custom=allow_custom or None,
                precision=precision,
                dynamic_shapes=ranges,
            )
        finally:
            # A wrong result has a step too: how far it is off is shown before the error says so.
            if converter.report.steps:
                out.print(show.steps(converter.report))
    for note in converter.report.notes:
        out.print(f"  • {note}", markup=False)
    out.print(show.written(dst))


@app.command()
@reported
def export(
    context: typer.Context,
    src: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="What gives the network, a torch module.")],
    dst: Annotated[Path, typer.Argument(help="The file to write; without an extension it gets that of the format.")],
    format: Annotated[sources.ExportFormat, typer.Option(help="What to write; `torch` is an exported program.")],
    checkpoint: Annotated[Path | None, typer.Option(help="Weights for the network.", exists=True, dir_okay=False)] = None,
    key_in_checkpoint: Annotated[str | None, typer.Option(help="Where in the checkpoint the weights are.")] = None,
    meta: Annotated[
        Path | None, typer.Option(help="A JSON or YAML file of values that go along.", exists=True, dir_okay=False)
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option(help="A JSON or YAML file that goes along. Repeatable.", exists=True, dir_okay=False)
    ] = None,
    input_shape: Annotated[
        list[str] | None, typer.Option(help="Input shape of the network, as for `convert`. Repeatable.")
    ] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not compare the result with the network.")] = False,
) -> None:
    """Write a network with its checkpoint, metadata and configuration as one file."""
    if not dst.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder '{dst.parent}'", param_hint="DST")
    options = sources.export_options(format, input_shape or [], verify=not no_verify)
    from mlconverter import export as exports

    exporter = getattr(exports, f"{format}_export")
    dst = sources.export_place(dst, exporter.keywords["saver"])
    from mlconverter.cli import show
    from mlconverter.logs import get_logger
    from mlconverter.report import Report

    _log()
    get_logger().info("export {} → {}", src, dst)
    out, report = console(), Report()
    with _progress(f"{src} → {dst}"):
        try:
            exporter(
                sources.module_of(src),
                dst,
                checkpoint=checkpoint,
                key_in_checkpoint=key_in_checkpoint,
                meta=meta,
                config_files=config or (),
                report=report,
                **options,
            )
        finally:
            if report.steps:
                out.print(show.steps(report))
    for note in report.notes:
        out.print(f"  • {note}", markup=False)
    out.print(show.written(dst))


@app.command()
@reported
def metadata(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A model file that was exported.")],
) -> None:
    """Show the metadata and the extra files that go along with a model."""
    path = sources.existing_file(file, "FILE")
    from mlconverter.cli import show
    from mlconverter.export import load_metadata

    with _progress(f"reading {path.name}"):
        found = load_metadata(path)
    console().print(show.metadata(found), soft_wrap=True)  # JSON is for programs too: no line is cut


@app.command()
@reported
def inspect(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A model file.")],
) -> None:
    """Show what a model takes and gives, its operators, and which formats it can be converted to."""
    path = sources.existing_file(file, "FILE")
    from mlconverter.cli import inspection, show

    with _progress(f"reading {path.name}"):
        facts = inspection.inspect(path)
    console().print(show.facts(facts))


@app.command()
@reported
def verify(
    context: typer.Context,
    a: Annotated[str, typer.Argument(help="The model that is right.")],
    b: Annotated[str, typer.Argument(help="The model in question.")],
    level: Annotated[Literal["fast", "full"], typer.Option(help="How thoroughly to compare.")] = "full",
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance instead of the table's.", min=0)] = None,
    match: Annotated[Literal["names", "position"], typer.Option(help="How inputs and outputs find each other.")] = "names",
) -> None:
    """Compare what two model files compute."""
    left, right = sources.existing_file(a, "A"), sources.existing_file(b, "B")
    from mlconverter.cli import show
    from mlconverter.testing import verify as compare

    with _progress(f"{left.name} against {right.name}"):
        result = compare(left, right, level=level, rtol=rtol, match=match)
    console().print(show.comparisons(result))
    if not result:
        raise typer.Exit(WRONG)


@app.command()
@reported
def cache(
    context: typer.Context,
    size: Annotated[bool, typer.Option("--size", help="Show how much is kept; what happens without options, too.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove what is kept.")] = False,
    folder: Annotated[Path | None, typer.Option(help="The folder; the user's cache by default.", file_okay=False)] = None,
) -> None:
    """Show or remove converted models that are kept for `load_intermediate_models_from_disk`."""
    from mlconverter.cache import IntermediateStore

    store = IntermediateStore(folder or IntermediateStore.default_folder())
    held = store.held()
    out = console()
    out.print(f"{len(held)} files, {sum(held.values()) / 1e6:.1f} MB in {store.folder}", markup=False)
    if clear:
        out.print(f"{store.clear() / 1e6:.1f} MB removed", markup=False)


@app.command()
@reported
def formats(context: typer.Context) -> None:
    """List the formats."""
    from mlconverter.cli import show

    console().print(show.formats(registered))


@app.command()
@reported
def ops(
    context: typer.Context,
    route: Annotated[str | None, typer.Option(help="For example `onnx-torch`; without it, the routes are listed.")] = None,
) -> None:
    """List the operators that a route translates."""
    from mlconverter.cli import show, tables

    known = tables.routes()
    if route is None:
        console().print(show.routes(known))
        return
    if route not in known:
        raise typer.BadParameter(f"there is no route '{route}'; routes: {', '.join(sorted(known))}", param_hint="--route")
    with _progress(f"reading {route}"):
        rows = tables.operators(known[route])
    console().print(show.operators(route, rows))


def _converter(**choices: Any) -> Converter:
    from mlconverter.converter import Converter

    return Converter(**choices)


def _log() -> None:
    """Write the log file, and nothing to the terminal; a folder that cannot be written to is no reason not to convert."""
    from mlconverter.errors import SaveError
    from mlconverter.logs import enable_logging, get_logger

    with suppress(ValueError):  # loguru's own sink, which writes to the terminal, may be gone already
        get_logger().remove(0)
    try:
        enable_logging()
    except SaveError as error:
        console(stderr=True).print(f"No log is written: {error}", style="yellow", markup=False)


@contextmanager
def _progress(what: str) -> Iterator[None]:
    """A spinner and the time so far, where somebody watches."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        progress.add_task(what)
        yield
