"""Names, shapes, slices and paddings that graphs lost elsewhere."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.unit.torch.exports import Does, normal, seeded, there_and_back

# -- names -------------------------------------------------------------------------------------------------------------


class Adding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.linear(x) + 1), x.sum(1)


@pytest.mark.parametrize(
    "names",
    [["add", "relu"], ["relu", "add"], ["Add", "Gemm"], ["linear", "sum"], ["linear_1", "val_0"], ["add_1", "node_add"]],
    ids=str,
)
def test_outputs_that_are_called_like_operators(names: list[str]) -> None:
    """A value of the graph had the name already, and the model was none."""
    proto = there_and_back(seeded(Adding()), normal(4), output_names=names)
    assert [o.name for o in proto.graph.output] == names


@pytest.mark.parametrize("name", ["linear.weight", "add", "batch"])
def test_inputs_that_are_called_like_what_is_in_the_graph(name: str) -> None:
    """The same at the other end: a weight, an operator or a size has the name of the input."""
    proto = there_and_back(seeded(Adding()), normal(4), input_names=[name])
    assert [i.name for i in proto.graph.input] == [name]


# -- what optimisers have broken ---------------------------------------------------------------------------------------


SHAPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a size of two": lambda x: x.reshape(x.shape[0], x.shape[1] * x.shape[2], -1),
    "sizes in another order": lambda x: x.reshape(x.shape[3], x.shape[0], -1),
    "the rest first": lambda x: x.reshape(-1, x.shape[2] * x.shape[3], x.shape[1]),
    "half of a size": lambda x: x.reshape(x.shape[0], 2, x.shape[1] // 2, x.shape[2], x.shape[3]).transpose(1, 2).flatten(1, 2),
    "batch and channels": lambda x: x.reshape(x.shape[0] * x.shape[1], 1, *x.shape[2:]).mean(1).reshape(x.shape),
    "unflatten": lambda x: x.unflatten(1, (2, -1)).flatten(0, 1),
    "a tensor of sizes": lambda x: torch.zeros(x.shape[0], x.shape[3]) + x.sum((1, 2)),
}


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 3, 6)], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_of_several_sizes(name: str, sizes: tuple[int, ...]) -> None:
    """Numbers that were joined to a shape were taken apart again wrongly, or the batch among them was fixed."""
    there_and_back(Does(SHAPES[name]), normal(*sizes))


SLICED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a step after a step": lambda x: x[:, 1::2][:, ::3],
    "an end after a step": lambda x: x[:, ::3][:, :-1],
    "a begin after a step": lambda x: x[:, ::2][:, 2:],
    "from the end": lambda x: x[:, -7:-1][:, 1:-2:2],
    "two axes after one": lambda x: x[:, 2:][:, 1::2, ::3],
    "one axis after two": lambda x: x[:, 1::2, 2:][:, :, 1::2],
    "backwards": lambda x: x[:, 2::2].flip(1)[:, 1:],
    "backwards twice": lambda x: x.flip(1)[:, 1:].flip(1)[:, 1:],
    "beyond the end": lambda x: x[:, 3:100][:, 2:50],
    "two readers": lambda x: x[:, 1::2][:, 1:4] + x[:, 1::2][:, :3],
    "narrow and select": lambda x: x.narrow(1, 2, 5)[:, ::2].select(1, -1),
    "batch and axis": lambda x: x[:, ::2][:1][:, 1:],
}


@pytest.mark.parametrize("sizes", [(9, 9), (9, 11)], ids=str)
@pytest.mark.parametrize("name", SLICED)
def test_a_slice_of_a_slice(name: str, sizes: tuple[int, ...]) -> None:
    """Two slices were made one, with begin, end and step added as if there were no step."""
    there_and_back(Does(SLICED[name]), normal(*sizes))


class Padded(nn.Module):
    """One padded value that two convolutions read, whose windows have other sizes and paddings of their own."""

    def __init__(self, mode: str, value: float, pads: tuple[int, ...]) -> None:
        super().__init__()
        self.mode, self.value, self.pads = mode, value, pads
        self.small, self.large = nn.Conv2d(3, 4, 2, stride=2, padding=1), nn.Conv2d(3, 5, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        padded = F.pad(x, self.pads, self.mode, self.value) if self.mode == "constant" else F.pad(x, self.pads, self.mode)
        return self.small(padded), self.large(padded)


@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (1, 2, 0, 3)], ids=str)
@pytest.mark.parametrize(
    ("mode", "value"), [("constant", 0.0), ("constant", 1.5), ("reflect", 0.0), ("replicate", 0.0), ("circular", 0.0)]
)
def test_a_padding_that_two_convolutions_read(mode: str, value: float, pads: tuple[int, ...]) -> None:
    """The padding went into the one that was looked at, and was missing in the other."""
    there_and_back(seeded(Padded(mode, value, pads)), normal(3, 5, 6))
