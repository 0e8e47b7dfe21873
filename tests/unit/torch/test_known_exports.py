"""Modules whose exports were wrong elsewhere: the graph computes what the module computes, and its weights come back."""

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mlconverter import ConversionError, Converter
from tests.ops.onnx_torch.check import compare

Given = Callable[[int], tuple[torch.Tensor, ...]]
RTOL = 1e-4


class Does(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def seeded(module: nn.Module) -> nn.Module:
    """The module in eval mode, no weight and no statistic of it being what leaves a mistake unseen."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in (*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())):
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.3)
    return module.eval()


def normal(*shape: int) -> Given:
    """One input of this shape behind the batch."""
    return lambda batch: (torch.randn(batch, *shape, generator=torch.Generator().manual_seed(batch)),)


def run(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[np.ndarray]:
    with torch.no_grad():
        result = module(*(x.clone() for x in inputs))
    return [t.numpy() for t in (result if isinstance(result, tuple) else (result,))]


def there_and_back(module: nn.Module, given: Given, **options) -> onnx.ModelProto:
    """Export, compare with the module at a batch of 1 and of 3, convert back, compare that and its parameters; the graph."""
    converter = Converter(module, input_shape=given(2), **options)
    proto = converter.to_onnx()
    onnx.checker.check_model(proto)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    back = Converter(proto).to_torch()
    for batch in (1, 3):
        inputs = given(batch)
        want = run(module, inputs)
        feeds = {info.name: x.numpy() for info, x in zip(session.get_inputs(), inputs, strict=True)}
        compare(session.run(None, feeds), want, RTOL)
        compare(run(back, inputs), want, RTOL)
    same_parameters(module, back)
    return proto


def same_parameters(module: nn.Module, back: nn.Module) -> None:
    """All parameters of the module are parameters of what came back, each with its own values, and there are no others.

    What two layers share has two names, of which the graph keeps one; a matrix may have become that of a linear layer.
    """
    ours, theirs = dict(back.named_parameters()), dict(module.named_parameters(remove_duplicate=False))
    links = [link for link in back.origin.links if link.source in theirs]
    assert len(ours) == len({id(theirs[link.source]) for link in links}) == len(list(module.parameters()))
    for link in links:
        got, want = back.get_parameter(link.target), theirs[link.source]
        assert got.requires_grad
        assert torch.equal(got, want) or torch.equal(got, want.mT), link.source


# -- layers with a normalisation behind them ---------------------------------------------------------------------------


class Branches(nn.Module):
    """Layers side by side, each with a normalisation of its own, read the same value."""

    def __init__(self, layers: list[nn.Module], norms: list[nn.Module], first: nn.Module | None = None) -> None:
        super().__init__()
        self.first = first or nn.Identity()
        self.layers, self.norms = nn.ModuleList(layers), nn.ModuleList(norms)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.first(x)
        pairs = zip(self.layers, self.norms, strict=True)
        return tuple(norm(layer(x)) * (i + 1) for i, (layer, norm) in enumerate(pairs))


CONVOLUTIONS = {
    "line": (nn.Conv1d, nn.BatchNorm1d, (7,)),
    "plane": (nn.Conv2d, nn.BatchNorm2d, (6, 7)),
    "equal sizes": (nn.Conv2d, nn.BatchNorm2d, (4, 4)),
    "cube": (nn.Conv3d, nn.BatchNorm3d, (5, 4, 6)),
    "transposed line": (nn.ConvTranspose1d, nn.BatchNorm1d, (7,)),
    "transposed plane": (nn.ConvTranspose2d, nn.BatchNorm2d, (6, 7)),
    "transposed cube": (nn.ConvTranspose3d, nn.BatchNorm3d, (3, 4, 5)),
}


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_two_convolutions_with_normalisations_read_one_input(kind: str, bias: bool) -> None:
    """Folded biases were given one name, and one of the two was lost."""
    layer, norm, sizes = CONVOLUTIONS[kind]
    made = Branches([layer(4, 4, 3, bias=bias) for _ in range(2)], [norm(4) for _ in range(2)])
    there_and_back(seeded(made), normal(4, *sizes))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_convolutions_with_normalisations_read_one_input(groups: int) -> None:
    """The same, where a filter sees some of the channels only."""
    layers = [nn.Conv2d(4, 8, 3, groups=groups, bias=False), nn.ConvTranspose2d(4, 8, 3, groups=groups, bias=False)]
    there_and_back(seeded(Branches(layers, [nn.BatchNorm2d(8), nn.BatchNorm2d(8)])), normal(4, 5, 6))


@pytest.mark.parametrize("shared", ["layer", "norm", "scale", "equal values"])
def test_normalisations_that_share(shared: str) -> None:
    """A weight that two layers have was changed for the one, and the other computed with the changed one."""
    layers, norms = [nn.Conv2d(4, 4, 3, bias=False) for _ in range(2)], [nn.BatchNorm2d(4) for _ in range(2)]
    if shared == "layer":
        layers[1] = layers[0]
    elif shared == "norm":
        norms[1] = norms[0]
    elif shared == "scale":
        norms[1].weight = norms[0].weight
    made = seeded(Branches(layers, norms))
    if shared == "equal values":
        made.layers[1].load_state_dict(made.layers[0].state_dict())
        made.norms[1].load_state_dict(made.norms[0].state_dict())
    there_and_back(made, normal(4, 5, 6))


class Looking(nn.Module):
    """Rows of a table."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, columns)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids)


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("columns", [(5, 5), (5, 6)], ids=["equal sizes", "unequal sizes"])
def test_two_products_with_normalisations_read_one_lookup(columns: tuple[int, int], bias: bool) -> None:
    """Two linear layers behind one Gather got the folded bias of one of them."""
    layers = [nn.Linear(5, n, bias=bias) for n in columns]
    made = seeded(Branches(layers, [nn.BatchNorm1d(n) for n in columns], Looking(9, 5)))
    there_and_back(made, lambda batch: (torch.arange(batch) * 2 + 1,))


@pytest.mark.parametrize("columns", [(3, 3), (5, 6)], ids=["equal sizes", "unequal sizes"])
def test_two_products_with_normalisations_over_the_middle_axis_read_one_lookup(columns: tuple[int, int]) -> None:
    """A normalisation behind a product of rank 3 is of the axis before the last, where no product keeps its bias."""
    made = seeded(Branches([nn.Linear(5, n) for n in columns], [nn.BatchNorm1d(3) for _ in columns], Looking(9, 5)))
    there_and_back(made, lambda batch: ((torch.arange(batch * 3) % 9).reshape(batch, 3),))


class Summing(nn.Module):
    """One of torch's products with something added, both scaled, and a normalisation behind it."""

    def __init__(self, bias: tuple[int, ...], beta: float, alpha: float) -> None:
        super().__init__()
        self.bias, self.weight = nn.Parameter(torch.empty(bias)), nn.Parameter(torch.empty(5, 4))
        self.beta, self.alpha = beta, alpha
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.addmm(self.bias, x, self.weight, beta=self.beta, alpha=self.alpha))


@pytest.mark.parametrize("bias", [(4,), (1, 4), (1, 1), (1,)], ids=str)
@pytest.mark.parametrize(("beta", "alpha"), [(0.5, 1), (1, 2.0), (0.5, 2.0), (0, 1), (-1, -0.5)])
def test_a_scaled_bias_in_front_of_a_normalisation(bias: tuple[int, ...], beta: float, alpha: float) -> None:
    """The normalisation was folded into the bias as if it were added unscaled."""
    there_and_back(seeded(Summing(bias, beta, alpha)), normal(5))


PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], Given]] = {
    "baddbmm": (
        lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2),
        lambda b: (torch.randn(b, 3, 5), torch.randn(b, 3, 4), torch.randn(b, 4, 5)),
    ),
    "baddbmm with a row": (
        lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2),
        lambda b: (torch.randn(b, 1, 4), torch.randn(b, 4, 4), torch.randn(b, 4, 4)),
    ),
    "addbmm": (
        lambda x, y: torch.addbmm(torch.arange(5.0), x, y, beta=0.5, alpha=2),
        lambda b: (torch.randn(b, 3, 4), torch.randn(b, 4, 5)),
    ),
    "addmv": (
        lambda c, x: torch.addmv(c, x, torch.arange(4.0), beta=0.5, alpha=2),
        lambda b: (torch.randn(b), torch.randn(b, 4)),
    ),
    "addr": (lambda x: torch.addr(torch.arange(4.0), x, torch.arange(4.0) - 1, beta=0.5, alpha=2), lambda b: (torch.randn(b),)),
    "addcmul": (lambda x: torch.addcmul(x, x + 1, x * 2, value=0.5), normal(4)),
    "addcdiv": (lambda x: torch.addcdiv(x, x + 1, x.abs() + 2, value=0.5), normal(4)),
    "add": (lambda x: torch.add(x, x.square(), alpha=0.5), normal(4)),
    "rsub": (lambda x: torch.rsub(x, x.square(), alpha=0.5), normal(4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_scales_of_what_is_added(name: str) -> None:
    """The neighbours of the scaled bias: each operator of torch that scales what it adds."""
    function, given = PRODUCTS[name]
    there_and_back(Does(function), given)


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


# -- windows and sizes -------------------------------------------------------------------------------------------------

AVERAGES = [
    *((3, 1, 2, ceil, counted) for ceil in (True, False) for counted in (True, False)),
    *((2, 1, 3, True, counted) for counted in (True, False)),
    (3, 0, 2, True, True),
]


@pytest.mark.parametrize("sizes", [(6, 6), (7, 8)], ids=str)
@pytest.mark.parametrize(("size", "padding", "stride", "ceil", "counted"), AVERAGES)
def test_averages_at_the_border(sizes, size, padding, stride, ceil, counted) -> None:
    """What a window reaches beyond the padding was counted, or the padding was not."""
    pool = nn.AvgPool2d(size, stride, padding, ceil_mode=ceil, count_include_pad=counted)
    there_and_back(Does(pool), lambda b: tuple(x + 5 for x in normal(2, *sizes)(b)))


OWN_DIVISORS = [
    nn.AvgPool2d(3, 2, 1, count_include_pad=False, divisor_override=5),
    nn.AvgPool2d((3, 2), 1, (1, 0), divisor_override=5),
    nn.AvgPool2d(3, divisor_override=2),
    nn.AvgPool3d(3, 2, 1, divisor_override=5),
    nn.AvgPool3d((1, 2, 3), divisor_override=7),
]


@pytest.mark.parametrize("pool", OWN_DIVISORS, ids=str)
def test_averages_with_a_divisor_of_their_own(pool: nn.Module) -> None:
    """The divisor was not written at all."""
    sizes = (2, 6, 7, 8) if isinstance(pool, nn.AvgPool3d) else (2, 7, 8)
    there_and_back(Does(pool), lambda b: tuple(x + 5 for x in normal(*sizes)(b)))


@pytest.mark.parametrize(
    ("pool", "sizes"),
    [
        (nn.AvgPool1d(3, 2, 1, ceil_mode=True), (2, 8)),
        (nn.AvgPool1d(3, 2, 1, ceil_mode=True, count_include_pad=False), (2, 8)),
        (nn.AvgPool3d(3, 2, 1, ceil_mode=True), (2, 6, 7, 8)),
        (nn.AvgPool3d(2, 3, 1, ceil_mode=True, count_include_pad=False), (2, 6, 7, 8)),
        (nn.MaxPool1d(3, 2, 1, ceil_mode=True), (2, 8)),
        (nn.MaxPool2d(3, 2, 1, ceil_mode=True), (2, 8, 7)),
        (nn.MaxPool2d(2, 3, 1, dilation=2, ceil_mode=True), (2, 8, 7)),
        (nn.MaxPool3d(3, 2, 1, ceil_mode=True), (2, 6, 7, 8)),
        (nn.LPPool2d(2, 3, 2, ceil_mode=True), (2, 8, 8)),
        (nn.AdaptiveAvgPool2d((3, 2)), (2, 6, 8)),
        (nn.AdaptiveAvgPool2d((3, 5)), (2, 7, 8)),
        (nn.AdaptiveAvgPool2d((None, 1)), (2, 7, 8)),
        (nn.AdaptiveMaxPool2d((3, 2)), (2, 6, 8)),
    ],
    ids=str,
)
def test_other_pools_at_the_border(pool: nn.Module, sizes: tuple[int, ...]) -> None:
    """The neighbours: every rank, the largest in place of the average, and pools that choose their windows themselves."""
    there_and_back(Does(pool), lambda b: tuple(x - 5 for x in normal(*sizes)(b)))


INTERPOLATED = [
    *({"size": (8, 9), "mode": mode} for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")),
    *({"size": (3, 4), "mode": mode} for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")),
    *({"size": (8, 3), "mode": mode, "align_corners": True} for mode in ("bilinear", "bicubic")),
    *({"scale_factor": 1.7, "mode": mode} for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")),
    *({"scale_factor": (0.6, 2.3), "mode": mode} for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")),
    *({"scale_factor": 1.7, "mode": mode, "recompute_scale_factor": True} for mode in ("nearest", "bilinear", "bicubic")),
    *({"scale_factor": 2, "mode": mode, "align_corners": True} for mode in ("bilinear", "bicubic")),
    *({"size": (3, 4), "mode": mode, "antialias": True} for mode in ("bilinear", "bicubic")),
]


@pytest.mark.parametrize("sizes", [(5, 5), (5, 7)], ids=str)
@pytest.mark.parametrize("how", INTERPOLATED, ids=str)
def test_images_of_another_size(how: dict, sizes: tuple[int, ...]) -> None:
    """The scale that was given and the one that the sizes have differ, and so do the ways to round a place."""
    there_and_back(Does(lambda x: F.interpolate(x, **how)), normal(2, *sizes))


@pytest.mark.parametrize(
    ("how", "sizes"),
    [
        ({"scale_factor": 1.7, "mode": "linear"}, (2, 5)),
        ({"scale_factor": 2, "mode": "nearest"}, (2, 5)),
        ({"size": 7, "mode": "linear", "align_corners": True}, (2, 5)),
        ({"scale_factor": 1.7, "mode": "trilinear"}, (2, 3, 4, 5)),
        ({"size": (5, 2, 7), "mode": "nearest"}, (2, 3, 4, 5)),
        ({"size": (5, 2, 7), "mode": "trilinear", "align_corners": True}, (2, 3, 4, 5)),
    ],
    ids=str,
)
def test_lines_and_cubes_of_another_size(how: dict, sizes: tuple[int, ...]) -> None:
    """The same along one axis and along three."""
    there_and_back(Does(lambda x: F.interpolate(x, **how)), normal(*sizes))


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


# -- recurrences -------------------------------------------------------------------------------------------------------


class Recurring(nn.Module):
    def __init__(self, **choices) -> None:
        super().__init__()
        self.core = nn.GRU(5, 4, batch_first=True, **choices)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.core(x)


@pytest.mark.parametrize("choices", [{}, {"bidirectional": True}, {"num_layers": 2}, {"bias": False}], ids=str)
def test_the_reset_gate_acts_on_what_has_its_bias(choices: dict) -> None:
    """Torch resets the product with its bias; without saying so, the graph resets the state in front of the product."""
    made = Recurring(**choices)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    there_and_back(made.eval(), normal(6, 5))


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
