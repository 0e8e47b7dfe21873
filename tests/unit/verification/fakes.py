"""Runners that are plain functions, and a model of two outputs that most tests compare with changed ones."""

import numpy as np

from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification import BaseRunner, verify_runners


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


SIGNATURE = signature(outputs=[("y", ("N", 3, 8, 8)), ("z", ("N", 3, 8, 8))])
FIXED = signature([("x", (1, 3, 8, 8))], [("y", (1, 3, 8, 8)), ("z", (1, 3, 8, 8))])


def model(x):
    return {"y": np.tanh(x), "z": x[:, ::-1] * 2}


SOURCE = Fake(SIGNATURE, model, "Source 1.0")


def verify(function, level="full", sig=SIGNATURE, source=SOURCE, **options):
    return verify_runners(source, Fake(sig, function, "Target 2.0"), level=level, **options)


def changed(**changes):
    """The model with some outputs changed by functions."""
    return lambda x: {n: changes.get(n, lambda v: v)(v) for n, v in model(x).items()}
