"""Logging through loguru: silent until somebody asks for it.

Other modules take the logger where they use it, so that importing them does not import loguru::

    from mlconverter.logs import get_logger

    get_logger().info("{} nodes translated", len(nodes))
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mlconverter.errors import SaveError

if TYPE_CHECKING:
    from loguru import Logger

_FORMAT = "{time:YYYY-MM-DD HH:mm:ss.SSS} | {level: <8} | {name}:{line} | {message}"

_sinks: dict[Path, tuple[str, int]] = {}
"""Level and loguru's handle of each file that is being written: loguru cannot be asked for it."""


@cache
def get_logger() -> Logger:
    """The logger of this package; its messages go nowhere until they are enabled.

    An application turns them on for all its loguru sinks with ``get_logger().enable("mlconverter")``, or for one
    file with :func:`enable_logging`.
    """
    from loguru import logger

    logger.disable("mlconverter")
    return logger


def enable_logging(path: str | os.PathLike[str] = "logs/converter.log", level: str = "INFO") -> Path:
    """Write what this package does to a file. Calling it again changes nothing but the level.

    The messages also reach the sinks that the application itself has given to loguru.

    Args:
        path: the file, relative to the working directory; its folder is made, and the file is appended to.
        level: the lowest level that is written.

    Returns:
        The absolute path of the file.

    Raises:
        SaveError: the file cannot be written.
    """
    target = Path(path).absolute()
    logger = get_logger()
    logger.enable("mlconverter")
    known = _sinks.get(target)
    if known is not None and known[0] == level:
        return target
    try:
        handle = logger.add(target, level=level, format=_FORMAT, filter="mlconverter", encoding="utf-8")
    except OSError as error:
        raise SaveError(f"Cannot write the log to '{target}': {error.strerror or error}.") from error
    if known is not None:
        logger.remove(known[1])
    _sinks[target] = (level, handle)
    return target


def disable_logging() -> None:
    """Stop what :func:`enable_logging` has started and close its files."""
    logger = get_logger()
    for _, handle in _sinks.values():
        logger.remove(handle)
    _sinks.clear()
    logger.disable("mlconverter")
