"""Conversions leave the garbage collector as they found it."""

import gc

import pytest

from mlconverter.collecting import uncollected


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before(enabled):
    (gc.enable if enabled else gc.disable)()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
        with pytest.raises(ZeroDivisionError), uncollected():
            1 / 0  # noqa: B018
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
