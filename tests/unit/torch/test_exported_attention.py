"""Attention that torch's exporter refuses, or writes wrongly."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mlconverter import Converter
from tests.unit.torch.exports import Does, there_and_back

QUERIES, KEYS, WIDTH, GIVES = 5, 6, 8, 7


def given(*front, mask=None):
    def make(batch):
        generator = torch.Generator().manual_seed(batch)
        shapes = ((batch, *front, n, w) for n, w in ((QUERIES, WIDTH), (KEYS, WIDTH), (KEYS, GIVES)))
        return (*(torch.randn(s, generator=generator) for s in shapes), *(() if mask is None else (mask(batch, generator),)))

    return make


def attend(**settings):
    return Does(lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, mask, **settings))


@pytest.mark.parametrize("front", [(), (3,), (3, 2)], ids=len)
@pytest.mark.parametrize("settings", [{}, {"scale": 0.3}, {"is_causal": True}], ids=str)
def test_any_rank(front, settings):
    proto = there_and_back(attend(**settings), given(*front))
    assert sum(n.op_type == "Softmax" for n in proto.graph.node) == 1
    assert "F.scaled_dot_product_attention(" in Converter(proto, verify=False).to_torch().code


def hides(batch, generator):
    mask = torch.rand(batch, 1, QUERIES, KEYS, generator=generator) > 0.4
    mask[:, :, 2] = False
    mask[0, :, 0] = True
    return mask


def test_rows_that_a_mask_hides_whole_give_nothing():
    """The exporter's own translation gives the mean of all values there."""
    module = attend()
    there_and_back(module, given(3, mask=hides))
    assert not module(*given(3, mask=hides)(2))[:, :, 2].any()


def adds(batch, generator):
    return torch.randn(batch, 1, QUERIES, KEYS, generator=generator)


def test_a_mask_that_is_added():
    there_and_back(attend(), given(3, mask=adds))


def test_groups_of_queries():
    def make(batch):
        generator = torch.Generator().manual_seed(batch)
        return tuple(torch.randn(batch, heads, QUERIES, WIDTH, generator=generator) for heads in (6, 2, 2))

    there_and_back(attend(enable_gqa=True), make)


def test_lengths_that_are_free():
    module = attend(is_causal=True).eval()
    shapes = [(1, 2, "queries", WIDTH), (1, 2, "keys", WIDTH), (1, 2, "keys", GIVES)]
    made = Converter(Converter(module, input_shape=shapes).to_onnx()).to_torch()
    for queries, keys in ((3, 3), (2, 9), (9, 2)):
        q, k, v = torch.randn(1, 2, queries, WIDTH), torch.randn(1, 2, keys, WIDTH), torch.randn(1, 2, keys, GIVES)
        torch.testing.assert_close(made(q, k, v), module(q, k, v), rtol=1e-4, atol=1e-6)


class Heads(nn.Module):
    """Self-attention, as models write it."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = (t.view(*x.shape[:2], -1, 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def test_code_is_what_a_person_writes():
    module = Heads().eval()
    made = Converter(Converter(module, input_shape=[("batch", 6, 16)]).to_onnx()).to_torch()
    assert "F.scaled_dot_product_attention(" in made.code
    assert "size(" not in made.code and "runtime." not in made.code
    x = np.random.default_rng(0).normal(size=(3, 6, 16)).astype(np.float32)
    torch.testing.assert_close(made(torch.from_numpy(x)), module(torch.from_numpy(x)), rtol=1e-4, atol=1e-6)
