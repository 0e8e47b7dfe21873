"""In which forms a translator wants its inputs: that is what their annotations say."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

Form = frozenset[Any]
"""The classes in which an input is taken."""


@dataclass(frozen=True)
class Forms:
    """The forms of all inputs of a translator.

    Attributes:
        positional: of each input.
        rest: of whatever comes behind those, ``None`` where nothing may.
    """

    positional: tuple[Form, ...]
    rest: Form | None

    def of(self, count: int) -> list[Form]:
        """The forms of so many inputs, or of as many as the translator takes."""
        more = max(0, count - len(self.positional))
        return [*self.positional, *([self.rest] * more if self.rest is not None else [])]


@cache
def forms_of(function: Callable[..., Any]) -> Forms:
    """The forms in which a translator takes its inputs, from the second parameter on."""
    hints = typing.get_type_hints(function)
    positional, rest = [], None
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            continue
        form = frozenset(_classes(hints[parameter.name]))
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = form
        else:
            positional.append(form)
    return Forms(tuple(positional), rest)


def _classes(hint: Any) -> Iterator[Any]:
    arguments = typing.get_args(hint)
    if arguments:
        for argument in arguments:
            yield from _classes(argument)
    else:
        yield hint
