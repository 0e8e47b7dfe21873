"""Libraries that report by log lines what is none of the user's business."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_TALKERS = ("onnx_ir.passes.common.shape_inference", "onnx_ir.serde")


@contextmanager
def quiet() -> Iterator[None]:
    """No log lines of graph passes and of writing graphs meanwhile; translators check what they need themselves."""
    loggers = [logging.getLogger(name) for name in _TALKERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
