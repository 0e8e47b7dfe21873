"""mlconverter: a model in any of ONNX, PyTorch or TFLite, back in any other, out to TensorRT too, checked numerically.

Names are imported when they are first used: ``import mlconverter`` loads no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "BaseConverter": "base",
    "Converter": "converter",
    "ConvertOptions": "options",
    "IOSignature": "signature",
    "Metadata": "metadata",
    "OnnxIO": "hub.onnx_io",
    "Quantization": "signature",
    "Report": "report",
    "TFLiteModel": "formats.tflite.model",
    "TRTEngine": "formats.trt.engine",
    "TensorSpec": "signature",
    "VerificationResult": "verification.result",
    "enable_logging": "logs",
    "load_metadata": "savers",
    "BaseTrainer": "train",
    "Trainer": "train",
    "verify": "testing",
    **dict.fromkeys(
        (
            "MLConverterError",
            "FormatError",
            "UnknownFormatError",
            "CorruptModelError",
            "NotConvertibleError",
            "UnsafeModelError",
            "MissingDependencyError",
            "SignatureError",
            "ConversionError",
            "NotRunnableError",
            "UnsupportedOpsError",
            "TranslationError",
            "VerificationError",
            "SaveError",
            "TrainingError",
        ),
        "errors",
    ),
}

if TYPE_CHECKING:
    from mlconverter.base import BaseConverter
    from mlconverter.converter import Converter
    from mlconverter.errors import (
        ConversionError,
        CorruptModelError,
        FormatError,
        MissingDependencyError,
        MLConverterError,
        NotConvertibleError,
        NotRunnableError,
        SaveError,
        SignatureError,
        TrainingError,
        TranslationError,
        UnknownFormatError,
        UnsafeModelError,
        UnsupportedOpsError,
        VerificationError,
    )
    from mlconverter.formats.tflite.model import TFLiteModel
    from mlconverter.formats.trt.engine import TRTEngine
    from mlconverter.hub.onnx_io import OnnxIO
    from mlconverter.logs import enable_logging
    from mlconverter.metadata import Metadata
    from mlconverter.options import ConvertOptions
    from mlconverter.report import Report
    from mlconverter.savers import load_metadata
    from mlconverter.signature import IOSignature, Quantization, TensorSpec
    from mlconverter.testing import verify
    from mlconverter.train import BaseTrainer, Trainer
    from mlconverter.verification.result import VerificationResult

__all__ = [
    "BaseConverter",
    "BaseTrainer",
    "ConversionError",
    "ConvertOptions",
    "Converter",
    "CorruptModelError",
    "FormatError",
    "IOSignature",
    "MLConverterError",
    "Metadata",
    "MissingDependencyError",
    "NotConvertibleError",
    "NotRunnableError",
    "OnnxIO",
    "Quantization",
    "Report",
    "SaveError",
    "SignatureError",
    "TFLiteModel",
    "TRTEngine",
    "TensorSpec",
    "Trainer",
    "TrainingError",
    "TranslationError",
    "UnknownFormatError",
    "UnsafeModelError",
    "UnsupportedOpsError",
    "VerificationError",
    "VerificationResult",
    "enable_logging",
    "load_metadata",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'mlconverter' has no attribute '{name}'")
    return getattr(importlib.import_module(f"mlconverter.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
