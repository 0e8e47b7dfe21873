"""Runners that are plain functions."""

import numpy as np

from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification import BaseRunner


class Fake(BaseRunner):
    """Runs a function of the inputs that gives a dict, or one array for the only output."""

    def __init__(self, signature, function, name="Fake 1.0"):
        super().__init__(name, signature)
        self.function, self.calls = function, 0

    def _run(self, inputs):
        self.calls += 1
        result = self.function(**inputs)
        return result if isinstance(result, dict) else {self.signature.output_names[0]: np.asarray(result)}


def spec(name, shape, dtype="float32", **more):
    return TensorSpec(name, shape, dtype, **more)


def signature(inputs=(("x", ("N", 3, 8, 8)),), outputs=(("y", ("N", 3, 8, 8)),)):
    make = lambda given: tuple(s if isinstance(s, TensorSpec) else spec(*s) for s in given)  # noqa: E731
    return IOSignature(make(inputs), make(outputs))
