"""Runners that show another runner under the source's names or in the source's axis order.

Only what the caller says is changed; nothing here looks at values or shapes to find out what might fit.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self, TypeVar

import numpy as np

from mlconverter.errors import ConversionError, SignatureError
from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification.dtypes import Array
from mlconverter.verification.runner import BaseRunner, Runner, Stateful, Varied, check_inputs, intermediates_of
from mlconverter.verification.steps import Resumable

T = TypeVar("T")


class _Wrapped(BaseRunner):
    """A runner around another one, whose states, kernels and quantised values are the other's."""

    _runner: Runner
    _owns_runner = False

    @property
    def keeps_state(self) -> bool:
        """Whether the runner itself does."""
        return isinstance(self._runner, Stateful) and self._runner.keeps_state

    def reset(self) -> None:
        """Let the runner itself forget all calls."""
        if isinstance(self._runner, Stateful):
            self._runner.reset()

    def other_kernels(self) -> Self:
        """The same around the runner's other kernels.

        Raises:
            ConversionError: it has none, or those do not run the model.
        """
        if not isinstance(self._runner, Varied):
            raise ConversionError(f"{self.name} has one set of kernels.")
        twin = copy.copy(self)
        twin._runner, twin._owns_runner = self._runner.other_kernels(), True
        return twin

    def close(self) -> None:
        """Close the runner of other kernels; one that was given stays its owner's to close."""
        if self._owns_runner and isinstance(self._runner, BaseRunner):
            self._runner.close()


class Renamed(_Wrapped):
    """A runner under other names. The one that is wrapped stays its owner's to close.

    Args:
        runner: the runner itself.
        inputs: new names of its inputs, in the order of its signature.
        outputs: new names of its outputs, in the order of its signature.

    Raises:
        SignatureError: there are more or fewer names than inputs or outputs, or a name is given twice.
    """

    def __init__(self, runner: Runner, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        old = runner.signature
        for what, new, had in (("input", inputs, old.inputs), ("output", outputs, old.outputs)):
            if len(new) != len(had) or len(set(new)) != len(new):
                raise SignatureError(f"{len(had)} {what} names are needed, each another one; given: {list(new)}.")
        super().__init__(runner.name, old.with_names(inputs, outputs))
        self._runner = runner

    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        old = self._runner.signature
        outputs = self._runner.run(dict(zip(old.input_names, inputs.values(), strict=True)))
        return {new: outputs[name] for new, name in zip(self.signature.output_names, old.output_names, strict=True)}

    def intermediates(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the runner itself shows, under its own names; the outputs under those that they have here."""
        old = self._runner.signature
        given = check_inputs(self.signature, inputs)
        new = dict(zip(old.output_names, self.signature.output_names, strict=True))
        shown = intermediates_of(self._runner, dict(zip(old.input_names, given.values(), strict=True)))
        return {new.get(n, n): v for n, v in shown.items()}


class Permuted(_Wrapped):
    """A target whose tensors are transposes of the source's, shown in the source's axis order.

    Axis ``i`` of the target's tensor is axis ``perm[i]`` of the source's: ``target = source.transpose(perm)``. An image
    that the source takes as ``(N, H, W, C)`` and the target as ``(N, C, H, W)`` has the permutation ``(0, 3, 1, 2)``.

    Args:
        runner: runs the target.
        input_perms: permutations of inputs by name; the others are as they are.
        output_perms: permutations of outputs by name; the others are as they are.

    Raises:
        SignatureError: a name is not the target's, or a permutation does not fit its tensor.
    """

    def __init__(
        self, runner: Runner, input_perms: Mapping[str, Sequence[int]], output_perms: Mapping[str, Sequence[int]]
    ) -> None:
        old = runner.signature
        inputs, outputs = _permuted_specs(old.inputs, input_perms), _permuted_specs(old.outputs, output_perms)
        super().__init__(runner.name, IOSignature(inputs, outputs, old.key))
        self._runner = runner
        self._input_perms = {n: tuple(p) for n, p in input_perms.items()}
        self._output_perms = {n: _inverse(p) for n, p in output_perms.items()}

    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        given = {n: _transposed(n, v, self._input_perms.get(n)) for n, v in inputs.items()}
        return {n: _transposed(n, v, self._output_perms.get(n)) for n, v in self._runner.run(given).items()}

    def intermediates(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the runner itself shows, in its own axis orders; the outputs in those that they have here."""
        given = {n: _transposed(n, v, self._input_perms.get(n)) for n, v in inputs.items()}
        shown = intermediates_of(self._runner, given)
        return {n: _transposed(n, v, self._output_perms.get(n)) for n, v in shown.items()}

    @property
    def quantized(self) -> list[str]:
        """Names of the values that are quantised between the model's operators."""
        return self._runner.quantized if isinstance(self._runner, Resumable) else []

    def resumed(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the runner itself gives, values in its own axis orders; the outputs in those that they have here."""
        assert isinstance(self._runner, Resumable)
        given = {n: _transposed(n, v, self._input_perms.get(n)) for n, v in inputs.items()}
        results = self._runner.resumed(given, values)
        return {n: v if n in values else _transposed(n, v, self._output_perms.get(n)) for n, v in results.items()}


def _permuted_specs(specs: tuple[TensorSpec, ...], perms: Mapping[str, Sequence[int]]) -> tuple[TensorSpec, ...]:
    unknown = [n for n in perms if n not in {s.name for s in specs}]
    if unknown:
        raise SignatureError(f"Axis orders are given for {unknown}; the tensors are {[s.name for s in specs]}.")
    return tuple(_as_source(s, perms[s.name]) if s.name in perms else s for s in specs)


def _as_source(spec: TensorSpec, perm: Sequence[int]) -> TensorSpec:
    """The spec that the source has for a tensor which the target has as ``spec``."""
    rank = len(perm) if spec.shape is None else len(spec.shape)
    if sorted(perm) != list(range(rank)):
        raise SignatureError(f"{tuple(perm)} is no order of the {rank} axes of {spec}.")
    shape = None if spec.shape is None else _reordered(spec.shape, _inverse(perm))
    how = spec.quantization
    if how is not None and how.axis is not None:
        how = replace(how, axis=perm[how.axis])
    return replace(spec, shape=shape, quantization=how, layout=None)


def _inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(perm.index(i) for i in range(len(perm)))


def _reordered(values: Sequence[T], order: Sequence[int]) -> tuple[T, ...]:
    return tuple(values[i] for i in order)


def _transposed(name: str, value: Array, perm: tuple[int, ...] | None) -> Array:
    if perm is None:
        return value
    if value.ndim != len(perm):
        raise SignatureError(f"'{name}' has {value.ndim} axes, and the axis order {perm} is for {len(perm)}.")
    return np.array(value.transpose(perm), order="C")
