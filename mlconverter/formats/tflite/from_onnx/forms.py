"""In which forms a translator wants its inputs: that is what their annotations say."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlconverter.formats.tflite.from_onnx.values import Constant, Ints, Runtime


@dataclass(frozen=True)
class Kind:
    """The forms in which a translator takes one input, read off its annotation."""

    runtime: bool
    constant: bool
    ints: bool


@dataclass(frozen=True)
class Kinds:
    """The forms of all inputs of a translator."""

    positional: tuple[Kind, ...]
    rest: Kind | None


@cache
def kinds_of(function: Callable[..., Any]) -> Kinds:
    """The forms in which a translator takes its inputs, from the second parameter on."""
    hints = typing.get_type_hints(function)
    positional, rest = [], None
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY:
            continue
        forms = set(_forms(hints[parameter.name]))
        kind = Kind(Runtime in forms, Constant in forms, Ints in forms)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = kind
        else:
            positional.append(kind)
    return Kinds(tuple(positional), rest)


def _forms(hint: Any) -> Iterator[Any]:
    arguments = typing.get_args(hint)
    if arguments:
        for argument in arguments:
            yield from _forms(argument)
    else:
        yield hint
