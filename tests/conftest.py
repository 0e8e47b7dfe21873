"""What holds for every test."""

import os

# Workers share the cores: with a thread pool each they would wait for one another. Before any framework is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

import hypothesis
import pytest

# Shared machines are slow at times, which is no failure; what CI finds, everybody finds again.
hypothesis.settings.register_profile("default", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("default")


@pytest.fixture(autouse=True)
def _seeded():
    """Every test starts from the same random state, in whatever order it runs."""
    import random
    import sys

    import numpy as np

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - for libraries that still use the global state
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
