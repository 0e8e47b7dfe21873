"""What only training can tell: rows of padding, and weights that are frozen."""

import onnx
import pytest
import torch
from torch import nn

from mlconverter import Converter

WORDS = torch.tensor([[0, 3, 0, 5], [1, 0, 2, 2]])


class Tagger(nn.Module):
    """An embedding, one row of which is padding."""

    def __init__(self, padding):
        super().__init__()
        self.words, self.out = nn.Embedding(7, 4, padding_idx=padding), nn.Linear(4, 3)

    def forward(self, words):
        return self.out(self.words(words))


@pytest.mark.parametrize("padding", [None, 0, 2, -1])
@pytest.mark.parametrize("saved", [False, True])
def test_padding_gets_no_gradient(padding, saved, tmp_path):
    original = Tagger(padding).eval()
    proto = Converter(original, input_shape=[(WORDS.shape, "int64")]).to_onnx()
    if saved:
        onnx.save(proto, tmp_path / "tagger.onnx")
        proto = onnx.load(tmp_path / "tagger.onnx")
    module = Converter(proto).to_torch()
    for m in (original, module):
        m(WORDS).square().sum().backward()
    torch.testing.assert_close(module.words.weight.grad, original.words.weight.grad)
    assert module.words.padding_idx == original.words.padding_idx


def frozen(*names):
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    for name, p in module.named_parameters():
        p.requires_grad_(name not in names)
    return module


def there_and_back(module):
    return Converter(Converter(module, input_shape=(2, 4)).to_onnx()).to_torch()


def test_frozen_weights_stay_so():
    original = frozen("0.weight", "0.bias")
    module = there_and_back(original)
    want = [(tuple(p.shape), p.requires_grad) for p in original.parameters()]
    assert [(tuple(p.shape), p.requires_grad) for p in module.parameters()] == want


def test_a_module_for_inference_can_be_trained():
    module = there_and_back(frozen("0.weight", "0.bias", "2.weight", "2.bias"))
    assert len(list(module.parameters())) == 4 and all(p.requires_grad for p in module.parameters())
