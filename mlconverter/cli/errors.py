"""Errors as one clear panel and an exit code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

FAILED = 1
"""Exit code of a conversion that failed; 2, a wrong command line, is given by typer."""

WRONG = 3
"""Exit code of a verification that did not come out as verified."""

Parameters = ParamSpec("Parameters")


def console(*, stderr: bool = False) -> Console:
    """A console on the streams as they are now: tests and pipes replace them."""
    return Console(stderr=stderr, highlight=False)


def reported(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """The command, with errors shown as a panel instead of a traceback; ``mlconverter --debug`` shows both."""

    @functools.wraps(command)
    def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:  # whatever it is, a person at a terminal is told in words
            debug = bool(getattr(kwargs.get("context"), "obj", False))
            raise typer.Exit(_show(error, debug=debug)) from error

    return wrapped


def _show(error: Exception, *, debug: bool) -> int:
    from mlconverter.errors import MLConverterError, VerificationError
    from mlconverter.logs import get_logger

    get_logger().error("{}: {}", type(error).__name__, error)
    out = console(stderr=True)
    if debug:
        out.print_exception()
    title, text = type(error).__name__, str(error)
    if isinstance(error, ModuleNotFoundError):
        text = f"'{error.name}' is not installed. If it belongs to an extra: pip install 'mlconverter[torch]'."
    elif not isinstance(error, (MLConverterError, OSError)):
        hint = "" if debug else " 'mlconverter --debug …' shows where it comes from."
        title, text = "unexpected error", f"{title}: {text}\n\nmlconverter does not mean to raise this: please report it.{hint}"
    out.print(Panel(escape(text), title=title, title_align="left", border_style="red"))
    return WRONG if isinstance(error, VerificationError) else FAILED
