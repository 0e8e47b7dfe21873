"""Verification: does a converted model compute what its source computes? Numpy only; formats bring their runners."""

from mlconverter.verification.adapters import Permuted, Renamed
from mlconverter.verification.batch import batch_failure
from mlconverter.verification.bisect import bisect_runners, first_difference
from mlconverter.verification.check import Level, batch_is_free, verify_runners
from mlconverter.verification.compare import TensorComparison, compare_outputs, compare_tensors
from mlconverter.verification.guarded import compared
from mlconverter.verification.result import RunComparison, VerificationResult
from mlconverter.verification.runner import BaseRunner, Inspectable, Runner, Varied, check_inputs
from mlconverter.verification.samples import sample_inputs
from mlconverter.verification.successive import Carrying, Successive, reset, successive
from mlconverter.verification.tolerance import Tolerance, Tolerances

__all__ = [
    "BaseRunner",
    "Carrying",
    "Inspectable",
    "Level",
    "Permuted",
    "Renamed",
    "RunComparison",
    "Runner",
    "Successive",
    "TensorComparison",
    "Tolerance",
    "Tolerances",
    "Varied",
    "VerificationResult",
    "batch_failure",
    "batch_is_free",
    "bisect_runners",
    "check_inputs",
    "compare_outputs",
    "compare_tensors",
    "compared",
    "first_difference",
    "reset",
    "sample_inputs",
    "successive",
    "verify_runners",
]
