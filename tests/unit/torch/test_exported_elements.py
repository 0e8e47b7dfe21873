"""Elements that are picked, put, scattered and repeated, whose exports were wrong elsewhere, and what is refused."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from mlconverter import ConversionError, Converter
from tests.unit.torch.exports import Does, Given, normal, there_and_back

# -- elements that are picked and put ----------------------------------------------------------------------------------


MASKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "its shape": lambda x: x > 0,
    "a row": lambda x: torch.tensor([[True, False, True, True]]),
    "a vector": lambda x: torch.tensor([False, True, True, False]),
    "a computed row": lambda x: x[:1] > 0,
    "a column": lambda x: x[..., :1] > 0,
    "one": lambda x: torch.tensor([[True]]),
    "none": lambda x: torch.tensor([[False, False, False, False]]),
}


@pytest.mark.parametrize("shape", [(4,), (3, 4), (4, 4)], ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_that_is_broadcast_takes_elements_in_their_order(mask: str, shape: tuple[int, ...]) -> None:
    """The elements to put were counted over the small mask, not over the values that it covers."""

    def given(batch: int) -> tuple[torch.Tensor, ...]:
        return *normal(*shape)(batch), torch.arange(batch * 20.0).reshape(batch, 20) + 100

    there_and_back(Does(lambda x, s: x.masked_scatter(MASKS[mask](x), s)), given)


def scattered(batch: int) -> tuple[torch.Tensor, ...]:
    """Some places are hit twice, some once, some never; none of the values is neutral."""
    places = torch.tensor([[0, 0, 2, 3], [3, 3, 3, 1], [1, 2, 2, 0]])[:batch]
    return torch.randn(batch, 5) + 3, places, torch.randn(batch, 4) * 2


@pytest.mark.parametrize("include_self", [True, False], ids=["with self", "without self"])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scattered_values_are_reduced(dim: int, reduce: str, include_self: bool) -> None:
    """Means, and values that do not take part themselves, were written as if the last one simply won."""

    def given(batch: int) -> tuple[torch.Tensor, ...]:
        x, places, values = scattered(batch)
        return (x, places % batch if dim == 0 else places, values)

    function = Does(lambda x, i, s: x.scatter_reduce(dim, i, s, reduce, include_self=include_self))
    there_and_back(function, given)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_infinities_that_are_scattered(reduce: str) -> None:
    """The largest of what is put was never below the lowest finite number."""
    far = torch.tensor([[float("inf"), -float("inf"), -float("inf"), float("inf")]])

    def given(batch: int) -> tuple[torch.Tensor, ...]:
        x, places, _ = scattered(batch)
        return x, places, torch.tensor([1.0, 1, 1, -1]).repeat(batch, 1)

    function = Does(lambda x, i, s: x.scatter_reduce(1, i, s * far, reduce, include_self=False))
    there_and_back(function, given, verify=False)


PUT: dict[str, tuple[Callable[..., torch.Tensor], Given]] = {
    "scatter": (lambda x, i, s: x.scatter(1, torch.cat([i[:, :1], i[:, :1] + 1], 1), s[:, :2]), scattered),
    "scatter a number": (lambda x, i, s: x.scatter(1, i, 7.0), scattered),
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s), scattered),
    "index_add": (lambda x, i, s: x.index_add(1, i[0], s, alpha=0.5), scattered),
    "index_copy": (lambda x, i, s: x.index_copy(1, torch.tensor([4, 0, 2, 1]), s), scattered),
    "index_fill": (lambda x, i, s: x.index_fill(1, i[0], 9.0), scattered),
    "index_put": (lambda x, i, s: x.index_put((torch.arange(len(x))[:, None], i[:, 1:3]), s[:, 1:3] * 0 + 4), scattered),
    "index_put and add": (lambda x, i, s: x.index_put((torch.arange(len(x))[:, None], i), s, accumulate=True), scattered),
    "index_put of a mask": (lambda x, i, s: x.index_put((x > 3,), torch.tensor(-1.0)), scattered),
    "index_put of columns": (
        lambda x, i, s: x.index_put((torch.tensor([0]), torch.tensor([3])), torch.tensor([-1.0])),
        scattered,
    ),
    "select_scatter": (lambda x, i, s: x.select_scatter(s[:, 0], 1, 2), scattered),
    "slice_scatter": (lambda x, i, s: x.slice_scatter(s[:, :2], 1, 1, 5, 2), scattered),
    "masked_fill": (lambda x, i, s: x.masked_fill(x > 3, -2.0), scattered),
    "where": (lambda x, i, s: torch.where(x > 3, x, x.mean(1, keepdim=True)), scattered),
}


@pytest.mark.parametrize("name", PUT)
def test_elements_that_are_put_elsewhere(name: str) -> None:
    """The neighbours of the reduction: every way of torch to put values at places."""
    function, given = PUT[name]
    there_and_back(Does(function), given)


def written(change: Callable[[torch.Tensor], None]) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        change(y)
        return y

    return function


def set_column(x: torch.Tensor) -> None:
    x[:, 0] = 1


def set_every_other(x: torch.Tensor) -> None:
    x[:, 1::2, -1] = x[:, :1, 0] * 2


def set_by_list(x: torch.Tensor) -> None:
    x[:, [2, 0]] = 5


def set_by_lists_apart(x: torch.Tensor) -> None:
    x[:, [2, 0], :, [1, 3]] = -5


def set_by_mask(x: torch.Tensor) -> None:
    x[x > 0] = 0.5


def add_to_view(x: torch.Tensor) -> None:
    x[:, 1].transpose(-1, -2).mul_(3)


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 3, 5)], ids=str)
@pytest.mark.parametrize(
    "change", [set_column, set_every_other, set_by_list, set_by_lists_apart, set_by_mask, add_to_view], ids=lambda f: f.__name__
)
def test_what_is_written_into_a_view_is_not_lost(change: Callable[[torch.Tensor], None], sizes: tuple[int, ...]) -> None:
    """Assignments to a part of a tensor left no trace in the graph, or came out with axes in another order."""
    there_and_back(Does(written(change)), normal(*sizes))


REPEATED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a number of times": lambda x: x.repeat_interleave(2, 1),
    "the last axis": lambda x: x.repeat_interleave(3, -1),
    "the batch": lambda x: x.repeat_interleave(2, 0),
    "flattened": lambda x: x.repeat_interleave(2),
    "each its own number": lambda x: x.repeat_interleave(torch.tensor([1, 0, 3, 2]), 1),
    "by what is computed": lambda x: x.repeat_interleave(torch.tensor([2]), 2),
    "repeat": lambda x: x.repeat(1, 2, 3),
    "repeat with an axis more": lambda x: x.repeat(2, 1, 1, 2),
    "expand": lambda x: x[:, :1].expand(-1, 5, -1),
    "tile": lambda x: x.tile(3),
}


@pytest.mark.parametrize("sizes", [(4, 4), (4, 6)], ids=str)
@pytest.mark.parametrize("name", REPEATED)
def test_repeated_elements(name: str, sizes: tuple[int, ...]) -> None:
    """Elements came side by side where whole rows were to be repeated, and the other way round."""
    there_and_back(Does(REPEATED[name]), normal(*sizes))


# -- what is refused ---------------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[Callable[..., torch.Tensor], Given]] = {
    "a mean in a single number": (lambda x, i, s: x.sum().scatter_reduce(0, i[0, 0] * 0, s.sum(), "mean"), scattered),
    "a mean of integers": (
        lambda x, i, s: x.long().scatter_reduce(1, i, s.long(), "mean", include_self=False),
        scattered,
    ),
    "a divisor of cut windows": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        lambda b: tuple(x + 5 for x in normal(2, 6, 6)(b)),
    ),
    "windows of several sizes": (lambda x: F.adaptive_max_pool2d(x, (3, 5)), normal(2, 7, 8)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_exporter_can_write_is_refused(name: str) -> None:
    """No verification is needed for that: the graphs that were written instead were wrong."""
    function, given = REFUSED[name]
    with pytest.raises(ConversionError, match="cannot be exported"):
        Converter(Does(function), input_shape=given(2), verify=False).to_onnx()
