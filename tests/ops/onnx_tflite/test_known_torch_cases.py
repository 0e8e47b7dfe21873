"""Torch modules that converters to TFLite have got wrong, each with its neighbours, compared with torch itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mlconverter import Converter
from mlconverter.formats.tflite.model import TFLiteModel
from tests.ops.onnx_torch.check import compare
from tests.unit.torch.exports import Does, normal, run, seeded

RTOL = 1e-4
IMAGES = pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 6, 7)], ids=["equal", "unequal"])


def tflite(module: nn.Module, given: Callable[[int], tuple[torch.Tensor, ...]], *batches: int, **options: Any) -> TFLiteModel:
    """Convert, and compare at batches; with more than one the batch is free."""
    batches = batches or (1,)
    shapes = [(("batch", *x.shape[1:]) if len(batches) > 1 else tuple(x.shape), x.dtype) for x in given(1)]
    made = Converter(module.eval(), input_shape=shapes, verify=False, **options).to_tflite()
    with made.runner(num_threads=1) as runner:
        for batch in batches:
            inputs = given(batch)
            feeds = {name: x.numpy() for name, x in zip(made.signature.input_names, inputs, strict=True)}
            compare(list(runner.run(feeds).values()), run(module, inputs), RTOL)
    return made


class Beside(nn.Module):
    """Modules that read the same input."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(module(x) for module in self.parts)


# -- weights -----------------------------------------------------------------------------------------------------------


class Strided(nn.Module):
    """Weights whose elements do not stand in the order of their axes."""

    def __init__(self, side: int) -> None:
        super().__init__()
        make = torch.Generator().manual_seed(0)
        self.turned = nn.Parameter(torch.randn(side, 6, generator=make).t())
        self.moved = nn.Buffer(torch.randn(6, side, 4, generator=make).permute(2, 0, 1))
        self.some = nn.Parameter(torch.randn(4, 12, generator=make)[:, ::2])
        self.repeated = nn.Buffer(torch.randn(1, 6, generator=make).expand(4, 6))
        self.flipped = nn.Buffer(torch.randn(4, 6, generator=make).flip(0).T)
        self.conv = nn.Conv2d(4, 4, (2, 3))
        with torch.no_grad():
            self.conv.weight.set_(torch.randn(2, 3, 4, 4, generator=make).permute(3, 2, 0, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (self.conv(x) @ self.turned.t()[: x.shape[3] - 2]) * self.some[:, None]
        x = x + self.repeated[:, None] + self.flipped.T[:, None]
        return torch.cat([x @ self.moved, x @ self.turned], 3)


@pytest.mark.parametrize("side", [4, 6, 5])
def test_weights_that_are_not_contiguous(side):
    """They were written in the order in which they lie in memory, not in that of their axes."""
    module = Strided(side)
    assert not module.turned.is_contiguous() and not module.conv.weight.is_contiguous()
    tflite(module, normal(4, 5, side + 2), 1, 3)


def test_weights_in_the_memory_layout_of_images():
    """``channels_last`` is a memory layout to torch, and no other shape."""
    module = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, (2, 3), groups=2))
    tflite(seeded(module).to(memory_format=torch.channels_last), normal(4, 8, 8), 1, 3)


TRANSPOSED = {
    "line": (nn.ConvTranspose1d, nn.BatchNorm1d, (7,)),
    "equal": (nn.ConvTranspose2d, nn.BatchNorm2d, (4, 4)),
    "unequal": (nn.ConvTranspose2d, nn.BatchNorm2d, (6, 7)),
    "cube": (nn.ConvTranspose3d, nn.BatchNorm3d, (3, 4, 5)),
}


@pytest.mark.parametrize("given", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "stride": 2}], ids=str)
@pytest.mark.parametrize("kind", TRANSPOSED)
def test_a_transposed_convolution_with_a_normalisation(kind, given):
    """The normalisation was folded into a bias that was not there, or along the wrong axis of the filter."""
    layer, norm, sizes = TRANSPOSED[kind]
    made = [nn.Sequential(layer(4, 6, 3, bias=bias, **given), norm(6), nn.ReLU()) for bias in (False, True)]
    tflite(seeded(Beside(*made)), normal(4, *sizes))


@pytest.mark.parametrize("depth", [1, 3])
def test_a_generator_of_images(depth):
    """Transposed convolutions, normalisations and a Tanh, as a DCGAN has them, from a single point on."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True)]
    for _ in range(depth):
        layers += [nn.ConvTranspose2d(16, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True)]
    tflite(random(nn.Sequential(*layers, nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh())), normal(8, 1, 1), 1, 3)


def random(module: nn.Module) -> nn.Module:
    """The module with statistics that are not those of a new one."""
    generator = torch.Generator().manual_seed(0)
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point():
            buffer.copy_(torch.rand(buffer.shape, generator=generator) * 0.5 + ("var" in name) * 0.5)
    return module.eval()


class Skipping(nn.Module):
    """An encoder and a decoder with a connection between them, as pix2pix has it."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2))
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.InstanceNorm2d(8))
        self.up = nn.ConvTranspose2d(16, 3, 4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        return torch.tanh(self.up(torch.cat([self.deep(x), x], 1)))


@pytest.mark.parametrize("size", [(16, 16), (16, 24)], ids=["equal", "unequal"])
def test_an_encoder_and_a_decoder(size):
    tflite(random(Skipping()), normal(3, *size), 1, 3)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d], ids=lambda c: c.__name__)
def test_groups_and_biases(layer, groups):
    """Groups were one, and a transposed convolution's bias was lost."""
    sizes = (7,) if layer in (nn.Conv1d, nn.ConvTranspose1d) else (6, 7)
    tflite(Beside(*(layer(4, 8, 3, stride=2, groups=groups, bias=bias) for bias in (False, True))), normal(4, *sizes))


# -- the batch ---------------------------------------------------------------------------------------------------------


FLATTENED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "reshape to its size": lambda x: x.reshape(x.shape[0], -1),
    "view to its size": lambda x: x.view(x.size(0), -1),
    "flatten": lambda x: x.flatten(1),
    "reshape to -1": lambda x: x.reshape(-1, 12),
    "unflatten": lambda x: x.reshape(-1, 3, 2, 2),
    "all of it": lambda x: x.reshape(-1),
    "rows": lambda x: x.reshape(-1, 4).softmax(-1).reshape(x.shape),
    "to the mean of its batch": lambda x: x.reshape(x.shape[0], -1).mean(1, keepdim=True).expand(-1, 5),
}


@pytest.mark.parametrize("kind", FLATTENED)
def test_a_layer_and_a_reshape_with_a_free_batch(kind):
    """The batch of the example stood in the target of the reshape, or the conversion failed."""
    module = nn.Sequential(nn.Linear(5, 4), Does(FLATTENED[kind]))
    made = tflite(module, normal(3, 5), 1, 3, 5)
    assert made.structure.subgraphs[0].tensors[made.structure.subgraphs[0].inputs[0]].shape_signature == (-1, 3, 5)


@IMAGES
def test_convolutions_that_end_in_a_layer_with_a_free_batch(sizes):
    c, h, w = sizes
    module = nn.Sequential(
        nn.Conv2d(c, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(3 * h * w, 5), nn.Unflatten(1, (5, 1))
    )
    tflite(module, normal(*sizes), 1, 3, 5)


# -- names -------------------------------------------------------------------------------------------------------------


class Masked(nn.Module):
    """Two inputs whose names are no alphabetical order, and whose shapes are alike."""

    def forward(self, mask: torch.Tensor, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"shown": image * (mask > 0), "hidden": image - mask}


def test_inputs_have_the_names_of_forward():
    """They were called args_0 and args_1, in an order of their own."""
    made = Converter(Masked(), input_shape=[(1, 3, 4, 4), (1, 3, 4, 4)], verify=False).to_tflite()
    assert made.signature.input_names == ("mask", "image")
    assert made.signature.output_names == ("shown", "hidden")
    mask, image = (np.random.default_rng(i).normal(size=(1, 3, 4, 4)).astype(np.float32) for i in range(2))
    got = made.interpreter().get_signature_runner()(image=image, mask=mask)
    compare([got["shown"], got["hidden"]], [image * (mask > 0), image - mask])


def test_inputs_and_outputs_have_the_names_that_are_asked_for():
    module = Converter(Masked(), input_shape=[(1, 3), (1, 3)], input_names=["z", "a"], output_names=["y", "b"], verify=False)
    signature = module.to_tflite().signature
    assert (signature.input_names, signature.output_names) == (("z", "a"), ("y", "b"))


# -- recurrence --------------------------------------------------------------------------------------------------------


class Output(nn.Module):
    """What a recurrent layer gives, and its last states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, states = self.layer(x)
        return (y, *(states if isinstance(states, tuple) else (states,)))


@pytest.mark.parametrize("given", [{}, {"bidirectional": True}, {"num_layers": 2}, {"bias": False}], ids=str)
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda c: c.__name__)
def test_recurrent_layers(layer, given):
    """They could not be converted at all, or for the batch of the example alone."""
    tflite(Output(layer(8, 16, batch_first=True, **given)), normal(5, 8), 1, 3)


# -- views -------------------------------------------------------------------------------------------------------------

SPLITS: dict[str, Callable[[torch.Tensor], Any]] = {
    "one part by sizes": lambda x: x.split([4], 1)[0] * 2,
    "one part by a size": lambda x: x.split(4, 1)[0] * 2,
    "a part larger than all": lambda x: x.split(9, 1)[0] * 2,
    "one chunk": lambda x: x.chunk(1, 1)[0] * 2,
    "tensor_split": lambda x: x.tensor_split(1, 1)[0] * 2,
    "uneven": lambda x: tuple(p + 1 for p in x.split([1, 3], 1)),
    "uneven, in reverse": lambda x: tuple(p + 1 for p in x.split([1, 2, 1], 1)[::-1]),
    "unbound": lambda x: x.unbind(1)[::-1],
    "along the columns": lambda x: tuple(p * 2 for p in x.split(3, 3)),
}


@pytest.mark.parametrize("kind", SPLITS)
@IMAGES
def test_parts(sizes, kind):
    """One part alone failed, since what has one output was no list of outputs."""
    tflite(nn.Sequential(nn.Conv2d(4, 4, 1), Does(SPLITS[kind])), normal(*sizes), 1, 3)


def written(change: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        change(y)
        return y + x

    return forward


def _set(place: Any, value: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(y: torch.Tensor) -> None:
        y[place] = value(y) if callable(value) else value

    return written(change)


WRITES = {
    "a channel": _set((slice(None), 0), 1.0),
    "the last channel": _set((slice(None), -1), 1.0),
    "some columns": _set((..., slice(1, 3)), 0.0),
    "every other row": _set((slice(None), slice(None), slice(None, None, 2)), -1.0),
    "a block": _set((slice(None), slice(1, 3), slice(0, 2), slice(1, None)), 5.0),
    "another slice": _set((slice(None), 0), lambda y: y[:, 1]),
    "what it is itself": _set((slice(None), slice(0, 2)), lambda y: y[:, 2:4] * y[:, :2]),
    "where a mask says so": written(lambda y: y.masked_fill_(y < 0, 3.0)),
    "added": written(lambda y: y[:, 1].add_(1)),
    "multiplied": written(lambda y: y[:, :, 1:].mul_(2)),
    "filled": written(lambda y: y[:, 2].fill_(4)),
    "copied": written(lambda y: y[:, 2].copy_(y[:, 0])),
    "clamped": written(lambda y: y.clamp_(-0.5, 0.5)),
    "a view of a view": written(lambda y: y[:, 1:][:, 0].zero_()),
    "a list of channels": written(lambda y: y.index_fill_(1, torch.tensor([2, 0]), 7.0)),
}


@pytest.mark.parametrize("kind", WRITES)
@IMAGES
def test_writes_in_place(sizes, kind):
    """What was written into a part of a tensor was lost."""
    tflite(nn.Sequential(nn.Conv2d(4, 4, 1), Does(WRITES[kind])), normal(*sizes), 1, 3)


# -- windows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("sizes", [(7, 7), (8, 9)], ids=str)
def test_averages_with_sizes_rounded_up(sizes, counted):
    """The windows at the end were divided by what they do not hold, or were left out."""
    windows = [(3, 2, 1), (3, 2, 0), (2, 3, 1), ((3, 2), (2, 3), (1, 0)), (3, 1, 1)]
    tflite(Beside(*(nn.AvgPool2d(*w, ceil_mode=True, count_include_pad=counted) for w in windows)), normal(7, *sizes))


@pytest.mark.parametrize("layer", ["AvgPool1d", "MaxPool1d", "MaxPool2d", "AvgPool3d", "MaxPool3d"])
def test_poolings_with_sizes_rounded_up(layer):
    rank = int(layer[-2])
    tflite(getattr(nn, layer)(3, 2, 1, ceil_mode=True), normal(3, *(8, 7, 6)[:rank]))


@pytest.mark.parametrize("stride", [10, (10, 4), (2, 7)], ids=str)
@pytest.mark.parametrize("sizes", [(17, 18), (20, 20)], ids=str)
def test_strides_longer_than_the_window(sizes, stride):
    """LiteRT's padding to the same size gives zeros there."""
    tflite(Beside(nn.Conv2d(4, 6, 3, stride), nn.Conv2d(4, 6, 3, stride, padding=1)), normal(4, *sizes), 1, 3)
