"""Torch architectures to ONNX and back to torch, with their parameters in number and value."""

import numpy as np
import pytest
import torch

from mlconverter import Converter
from mlconverter.testing import assert_same_outputs
from tests import zoo

RTOL = 1e-4


@pytest.mark.parametrize("name", sorted(zoo.torch_models()))
def test_there_and_back(name: str) -> None:
    """The module that comes out has the original's parameters, and computes the same at batch 1 and 3."""
    original = zoo.torch_models()[name]()
    example = zoo.torch_input(name)
    converter = Converter(model=original, input_shape=tuple(example.shape), rtol=RTOL)
    exported = converter.to_onnx()
    assert converter.report.steps[-1].verdict == "verified", converter.report
    assert converter.signature.inputs[0].shape[0] == "batch"

    module = Converter(model=exported, rtol=RTOL).to_torch()
    ours = dict(module.named_parameters())
    theirs = dict(original.named_parameters())
    assert len(ours) == len(theirs)
    came_from = {link.source: link.target for link in module.origin.links}
    for key, parameter in theirs.items():
        np.testing.assert_array_equal(ours[came_from[key]].detach().numpy(), parameter.detach().numpy(), err_msg=key)

    for batch in (1, 3):
        x = torch.from_numpy(np.concatenate([np.roll(example[:1], i, -1) for i in range(batch)]))
        with torch.no_grad():
            want, got = original(x), module(x)
        for w, g in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,), strict=True):
            assert g.shape == w.shape
            assert float((g - w).abs().max()) <= RTOL * float(w.abs().max()) + 1e-6


def test_a_module_against_its_export() -> None:
    """The public verifier compares a plain module with the file that was made of it."""
    module = zoo.torch_models()["resnet18"]()
    exported = Converter(model=module, input_shape=(1, 3, 64, 64), verify=False).to_onnx()
    assert_same_outputs(module, exported, input_shape=(1, 3, 64, 64), rtol=RTOL)
