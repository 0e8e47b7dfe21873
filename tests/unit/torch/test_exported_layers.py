"""Layers whose exports were wrong elsewhere: with a normalisation behind them, and recurrent ones."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.unit.torch.exports import Does, Given, normal, seeded, there_and_back

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
