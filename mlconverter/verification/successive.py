"""Models that keep something from call to call, as functions: several successive calls, from the first state on, are one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification.dtypes import Array
from mlconverter.verification.runner import BaseRunner, Runner, Stateful, Varied, check_inputs, intermediates_of
from mlconverter.verification.steps import Resumable

_AT = "@"
"""Between the name of a tensor and the number of the call."""


class Carrying(BaseRunner):
    """A runner whose states are inputs and outputs, as one that keeps them itself.

    Args:
        runner: the runner itself; the names of its states are in its signature.
        initial: the states before the first call.
    """

    keeps_state = True

    def __init__(self, runner: Runner, initial: Mapping[str, Array]) -> None:
        super().__init__(runner.name, runner.signature.without_states)
        self._runner, self._initial = runner, initial
        self._next = dict(runner.signature.states)
        self._held: dict[str, Array] = {}

    def reset(self) -> None:
        """Forget all calls."""
        self._held = {}

    def _given(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        batch = next((v.shape[0] for v in inputs.values() if v.ndim), 1)
        specs = {s.name: s for s in self._runner.signature.inputs}
        for name in self._next:
            if name not in self._held:
                self._held[name] = _of_batch(self._initial[name], specs[name], batch)
        return {**check_inputs(self.signature, inputs), **self._held}

    def _kept(self, outputs: Mapping[str, Array], given: Mapping[str, Array]) -> dict[str, Array]:
        """What is not a state; the states are what comes in next."""
        self._held = {i: np.array(given.get(o, outputs[o])) for i, o in self._next.items()}
        states = set(self._next.values())
        return {name: value for name, value in outputs.items() if name not in states}

    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        return self._kept(self._runner.run(self._given(inputs)), {})

    def intermediates(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the runner itself shows."""
        shown = intermediates_of(self._runner, self._given(inputs))
        self._kept(shown, {})
        return shown

    @property
    def quantized(self) -> list[str]:
        """Names of the values that are quantised between the model's operators."""
        return self._runner.quantized if isinstance(self._runner, Resumable) else []

    def resumed(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> Mapping[str, Array]:
        """As :class:`~mlconverter.verification.steps.Resumable` says; states go on from what is given, too."""
        assert isinstance(self._runner, Resumable)
        results = self._runner.resumed(self._given(inputs), values)
        return self._kept(results, values) | {name: results[name] for name in values}

    def close(self) -> None:
        """Close the runner."""
        _close(self._runner)


def _of_batch(initial: Array, spec: TensorSpec, batch: int) -> Array:
    free = spec.shape is not None and spec.shape and not isinstance(spec.shape[0], int)
    return np.repeat(initial, batch, 0) if free and initial.shape[0] == 1 else initial


class Afresh(BaseRunner):
    """A runner for which every call is the first.

    Args:
        runner: the runner itself.
    """

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner.name, runner.signature)
        self._runner = runner

    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        reset(self._runner)
        return self._runner.run(inputs)


class Successive(BaseRunner):
    """Successive calls of a runner as one: inputs and outputs have a new first axis, of the calls.

    Args:
        runner: the runner itself.
        calls: how many.
    """

    def __init__(self, runner: Runner, calls: int) -> None:
        old = runner.signature
        super().__init__(runner.name, IOSignature(_each(old.inputs, calls), _each(old.outputs, calls), old.key))
        self._runner, self._calls = runner, calls

    def _over_calls(
        self, inputs: Mapping[str, Array], call: Callable[[int, dict[str, Array]], Mapping[str, Array]]
    ) -> dict[str, Array]:
        """What each call gives, under its own name with the number of the call; what it outputs, put together."""
        reset(self._runner)
        given = check_inputs(self.signature, inputs)
        names = self.signature.output_names
        found: dict[str, Array] = {}
        outputs: dict[str, list[Array]] = {name: [] for name in names}
        for i in range(self._calls):
            results = call(i, {name: value[i] for name, value in given.items()})
            found |= {f"{name}{_AT}{i}": value for name, value in results.items()}
            for name in names:
                outputs[name].append(results[name])
        return found | {name: np.stack(values) for name, values in outputs.items()}

    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        results = self._over_calls(inputs, lambda i, given: self._runner.run(given))
        return {name: results[name] for name in self.signature.output_names}

    def intermediates(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the runner itself shows in each call."""
        return self._over_calls(inputs, lambda i, given: intermediates_of(self._runner, given))

    @property
    def quantized(self) -> list[str]:
        """Names of the values that are quantised between the model's operators, of each call."""
        names = self._runner.quantized if isinstance(self._runner, Resumable) else []
        return [f"{name}{_AT}{i}" for i in range(self._calls) for name in names]

    def resumed(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> Mapping[str, Array]:
        """As :class:`~mlconverter.verification.steps.Resumable` says."""
        runner = self._runner
        assert isinstance(runner, Resumable)
        split = [(*name.rpartition(_AT)[::2], value) for name, value in values.items()]

        def call(i: int, given: dict[str, Array]) -> Mapping[str, Array]:
            return runner.resumed(given, {name: value for name, number, value in split if number == str(i)})

        return self._over_calls(inputs, call)

    def close(self) -> None:
        """Close the runner."""
        _close(self._runner)


class VariedSuccessive(Successive):
    """Successive calls of a runner whose runtime has other kernels."""

    def other_kernels(self) -> Successive:
        """The same calls by other kernels."""
        assert isinstance(self._runner, Varied)
        return Successive(self._runner.other_kernels(), self._calls)


def successive(runner: Runner, calls: int) -> Successive:
    """Successive calls of a runner as one."""
    return (VariedSuccessive if isinstance(runner, Varied) else Successive)(runner, calls)


def keeps_state(runner: Runner) -> bool:
    """Whether what a runner gives depends on the calls before."""
    return isinstance(runner, Stateful) and runner.keeps_state


def reset(runner: Runner) -> None:
    """Let a runner forget all calls."""
    if isinstance(runner, Stateful) and runner.keeps_state:
        runner.reset()


def _each(specs: tuple[TensorSpec, ...], calls: int) -> tuple[TensorSpec, ...]:
    return tuple(replace(s, shape=None if s.shape is None else (calls, *s.shape), layout=None) for s in specs)


def _close(runner: Runner) -> None:
    runner.__exit__(None, None, None)
