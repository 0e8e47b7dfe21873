"""What a module keeps from call to call."""

from __future__ import annotations

import torch
from torch import nn


class State(nn.Module):
    """A value that one call leaves for the next.

    In training every call is the first: what is learned from one batch must not depend on the batch before it.

    Args:
        shape: of the value.
        dtype: of the value, as torch calls it.
        batched: whether its first axis is the batch; of another size than before, a call is the first one.
        names: of the input and the output that it was in the graph from which the module was converted.
    """

    _is_impure = True  # for torch.fx: calling it does something, whether its result is used or not
    initial: torch.Tensor
    value: torch.Tensor

    def __init__(
        self, shape: tuple[int, ...], dtype: str, batched: bool = False, names: tuple[str, str] = ("state", "state_next")
    ) -> None:
        super().__init__()
        self.shape, self.dtype, self.batched, self.names = shape, dtype, batched, names
        self.register_buffer("initial", torch.zeros(shape, dtype=getattr(torch, dtype)))
        self.register_buffer("value", torch.zeros(shape, dtype=getattr(torch, dtype)), persistent=False)

    def forward(self, x: torch.Tensor, new: torch.Tensor | None = None) -> torch.Tensor:
        """What the call before has left, for as many items as ``x`` has; or, given that, keep it for the next call."""
        if new is not None:
            if not self.training:
                self._keep(new.detach())
            return new
        if self.training or (self.batched and self.value.shape[0] != x.shape[0]):
            return self.initial.expand(x.shape[0], *self.shape[1:]) if self.batched else self.initial
        # A copy: what is kept is written in its place.
        return self.value.clone()

    def _keep(self, new: torch.Tensor) -> None:
        if self.value.shape == new.shape:
            self.value.copy_(new)
        else:
            self.value = new.clone()

    def reset(self) -> None:
        """Forget all calls."""
        self.value = self.initial.clone()

    def extra_repr(self) -> str:
        """What stands between the brackets."""
        return f"{self.shape}, {self.dtype!r}, {self.batched}, {self.names}"
