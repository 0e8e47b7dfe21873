"""A classifier gets a new head in PyTorch and comes back as TFLite under the contract of its file."""

import numpy as np
import pytest
import torch

from mlconverter import Converter
from tests import zoo

CLASSES = 10


@pytest.mark.parametrize("layout", [None, "channels_first"])
def test_ten_classes_instead_of_a_thousand(layout, tmp_path) -> None:
    """Names, order, layout, dtypes and the fixed batch stay; the report says what changed."""
    network = zoo.torch_models()["mobilenet_v3_small"]()
    first = Converter(
        model=network,
        input_shape=(1, 3, 224, 224),
        dynamic_batch=False,
        input_names="picture",
        output_names="scores",
        verify=False,
    )
    path = first.save(tmp_path / "classifier.tflite", io_layout="channels_last")
    converter = Converter(model_path=path)
    assert str(converter.signature.inputs[0]) == "picture: float32[1, 224, 224, 3]"
    module = converter.to_torch(io_layout=layout)
    name, head = next((n, m) for n, m in module.named_modules() if isinstance(m, torch.nn.Linear) and m.out_features == 1000)
    module.set_submodule(name, torch.nn.Linear(head.in_features, CLASSES))
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-3)
    photograph = zoo.photograph(224, 224)
    x = torch.from_numpy(photograph if layout is None else photograph.transpose(0, 3, 1, 2).copy())
    module.train()
    torch.nn.functional.cross_entropy(module(torch.cat([x, x.flip(2)])), torch.tensor([1, 2])).backward()
    optimiser.step()
    module.eval()

    back = converter.to_origin_type(module)
    assert converter.report.verdict == "verified", converter.report
    assert converter.report.way_back.startswith("converted anew")
    assert any("scores: float32[1, 1000] became scores: float32[1, 10]" in note for note in converter.report.steps[-1].notes)
    assert back.signature.inputs == converter.signature.inputs
    assert str(back.signature.outputs[0]) == "scores: float32[1, 10]"
    with torch.no_grad():
        want = module(x).numpy()
    assert np.abs(back(photograph) - want).max() <= 1e-3 * np.abs(want).max() + 1e-6
