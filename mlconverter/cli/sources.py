"""What a person types for models and shapes, as the library takes it."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any, Literal

import typer

from mlconverter.errors import SaveError, UnknownFormatError
from mlconverter.registry import formats

ExportFormat = Literal["torch", "torchscript", "onnx", "tflite", "trt", "ckpt"]

_DIM = r"(?:\d+|[A-Za-z_]\w*|\?)"
_SHAPE = re.compile(rf"(?:(?P<name>[A-Za-z_][\w.]*)=)?(?P<dims>{_DIM}(?:,{_DIM})*)(?::(?P<dtype>\w+))?")
_FACTORY = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.\w+)*):(?P<attribute>[A-Za-z_]\w*(?:\.\w+)*)")


def input_shapes(given: list[str]) -> Any:
    """``["1,3,224,224"]`` as one shape, several as a list, ``["x=1,3", "n=1,16:int64"]`` as a dict by name.

    A dimension that is a word or ``?`` is free; ``:dtype`` after the dimensions gives the element type.

    Raises:
        BadParameter: a text is no shape, or only some have names.
    """
    if not given:
        return None
    parsed = [_shape(text) for text in given]
    names = [name for name, _ in parsed]
    if not any(names):
        return parsed[0][1] if len(parsed) == 1 else [shape for _, shape in parsed]
    if not all(names) or len(set(names)) != len(names):
        raise typer.BadParameter("give every input a name of its own, or none", param_hint="--input-shape")
    return dict(parsed)


def _shape(text: str) -> tuple[str, Any]:
    match = _SHAPE.fullmatch(text.replace(" ", ""))
    if match is None:
        raise typer.BadParameter(
            f"'{text}' is no shape; examples: 1,3,224,224 or x=batch,3,224,224 or ids=1,16:int64", param_hint="--input-shape"
        )
    dims = tuple(int(d) if d.isdigit() else None if d == "?" else d for d in match["dims"].split(","))
    return match["name"] or "", dims if match["dtype"] is None else (dims, match["dtype"])


def size_ranges(given: list[str]) -> dict[str, tuple[int, ...]] | None:
    """``["batch=1,8,64"]`` as smallest, usual and largest sizes by name.

    Raises:
        BadParameter: a text is no range.
    """
    found = {}
    for text in given:
        name, _, sizes = text.replace(" ", "").rpartition("=")
        if not name or re.fullmatch(r"\d+,\d+,\d+", sizes) is None:
            raise typer.BadParameter(f"'{text}' is no range; an example: batch=1,8,64", param_hint="--size-range")
        found[name] = tuple(map(int, sizes.split(",")))
    return found or None


def model_of(source: str, weights: Path | None) -> dict[str, Any]:
    """The arguments ``model`` and ``model_path`` of a converter for what was typed as the source.

    Args:
        source: a file, or ``package.module:function`` that gives a torch module.
        weights: a torch checkpoint for that module.

    Raises:
        BadParameter: there is no such file, or the function cannot be called.
    """
    path = Path(source)
    if not path.is_file() and (match := _FACTORY.fullmatch(source)):
        return {"model": _made(match["module"], match["attribute"]), "model_path": weights}
    if weights is not None:
        raise typer.BadParameter("goes with package.module:function as the source", param_hint="--weights")
    return {"model_path": existing_file(source, "SRC")}


def module_of(source: str) -> Any:
    """What ``package.module:function`` gives.

    Raises:
        BadParameter: it is not written so, or the function cannot be called.
    """
    match = _FACTORY.fullmatch(source)
    if match is None:
        raise typer.BadParameter(f"'{source}' is not package.module:function", param_hint="SRC")
    return _made(match["module"], match["attribute"])


def export_options(format: str, shapes: list[str], *, verify: bool) -> dict[str, Any]:
    """The options of an export's converter for what was typed.

    Raises:
        BadParameter: a text is no shape, or weights alone are written, for which no network runs.
    """
    options = {"input_shape": input_shapes(shapes)} if shapes else {}
    if not verify:
        options["verify"] = False
    if format == "ckpt" and options:
        hint = "--input-shape" if shapes else "--no-verify"
        raise typer.BadParameter("does nothing for a checkpoint: the network is not run", param_hint=hint)
    return options


def export_place(path: Path, saver: Any) -> Path:
    """The path of a file that is to be exported, with the extension of its format.

    Raises:
        BadParameter: it has another one.
    """
    from mlconverter.savers import placed

    try:
        return placed(path, saver.keywords["extensions"])
    except SaveError as error:
        raise typer.BadParameter(str(error), param_hint="DST") from error


def target_format(path: Path, named: str | None) -> str:
    """The format of a file that is to be written, by what was named or by its extension.

    Raises:
        BadParameter: there is no such format.
    """
    try:
        return formats[named].format if named is not None else formats.of_extension(path)
    except UnknownFormatError as error:
        raise typer.BadParameter(str(error), param_hint="--to") from error
    except SaveError as error:
        raise typer.BadParameter(str(error), param_hint="DST") from error


def existing_file(text: str, hint: str) -> Path:
    """The path of a file.

    Raises:
        BadParameter: there is none.
    """
    path = Path(text)
    if not path.is_file():
        raise typer.BadParameter(f"there is no file '{text}'", param_hint=hint)
    return path


def _made(module: str, attribute: str) -> Any:
    # As with ``python -m``, modules of the working directory can be named.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"'{module}:{attribute}' cannot be imported: {error}", param_hint="SRC") from error
    is_module = hasattr(found, "forward") and not isinstance(found, type)
    return found() if callable(found) and not is_module else found
