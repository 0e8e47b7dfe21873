"""What is found of one network, and how: one that fails in a way nobody thought of must not end the run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import torch

from mlconverter.errors import MLConverterError
from tests.architectures.specs import Architecture, architectures


@dataclass
class Row:
    """What was found of one network.

    Attributes:
        stage: how far it came, ``ok`` in the end.
        reason: why no further.
    """

    name: str
    stage: str = "export"
    reason: str = ""

    def asdict(self) -> dict[str, Any]:
        """For a report."""
        return asdict(self)

    def numbers(self) -> dict[str, str]:
        """What stands in the columns of a table."""
        raise NotImplementedError


R = TypeVar("R", bound=Row)


def filled(name: str, row: Callable[[str], R], examine: Callable[[Architecture, R], None]) -> R:
    """The row of a network, found in a process that leaves the other cores to others."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    made = row(name)
    try:
        examine(architectures()[name], made)
    except MLConverterError as error:
        made.reason = f"{type(error).__name__}: {error}"
    except AssertionError as error:
        made.reason = str(error)
    except Exception as error:
        made.reason = f"unexpected {type(error).__name__}: {error}"
    return made
