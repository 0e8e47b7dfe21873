"""Recurrent operators: directions, states and lengths given or not, every attribute, and weights that the graph computes."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight

INT32 = onnx.TensorProto.INT32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, INPUT, HIDDEN = 5, 3, 4
USED = {"LSTM": 3, "GRU": 2, "RNN": 1}


@dataclass(frozen=True)
class Recurrent:
    """One node.

    Attributes:
        given: optional inputs: ``b``ias, ``l``engths, ``h``idden, ``c``ell, ``p``eepholes; capital letters are constants.
        outputs: which outputs the node has: ``y``, ``h``, ``c``.
        computed: whether the weights are computed from an input.
    """

    op: str
    attributes: dict[str, Any] = field(default_factory=dict)
    given: str = "b"
    outputs: str = ""
    opset: int = 14
    computed: bool = False
    steps: int | str = STEPS

    @property
    def id(self) -> str:
        words = [f"{k}={v}" for k, v in self.attributes.items()]
        marks = ["computed"] * self.computed + ["free steps"] * isinstance(self.steps, str)
        return " ".join([f"{self.op}-{self.opset}", self.given, self.all_outputs, *words, *marks]).replace("'", "")

    @property
    def all_outputs(self) -> str:
        return self.outputs or ("yhc" if self.op == "LSTM" else "yh")

    def build(self) -> onnx.ModelProto:
        count, gates = 2 if self.attributes.get("direction") == "bidirectional" else 1, GATES[self.op]
        batch = 3 if any(letter in self.given for letter in "LHC") else N
        weights = {"w": weight(count, gates * HIDDEN, INPUT, seed=1), "r": weight(count, gates * HIDDEN, HIDDEN, seed=2)}
        inputs: dict[str, Any] = {"x": (self.steps, batch, INPUT)}
        names = ["x", "w", "r"]
        states = (count, batch, HIDDEN)
        for letter in "blhcp":
            if letter.upper() in self.given:
                known = {"l": np.array([3, 5, 1], np.int32), "h": weight(*[1, 3, HIDDEN]), "c": weight(*[1, 3, HIDDEN], seed=9)}
                weights[letter] = known[letter] if letter == "l" else np.repeat(known[letter], count, 0)
            elif letter == "b" and letter in self.given:
                weights["b"] = weight(count, 2 * gates * HIDDEN, seed=3)
            elif letter == "p" and letter in self.given:
                weights["p"] = weight(count, 3 * HIDDEN, seed=4)
            elif letter in self.given:
                inputs[letter] = (INT32, (batch,)) if letter == "l" else states
            names.append(letter if letter in self.given.lower() else "_")
        while names[-1] == "_":
            names.pop()
        outputs = {"y": "y", "h": "y_h", "c": "y_c"}
        made = [outputs[o] if o in self.all_outputs else "_" for o in ("yhc" if self.op == "LSTM" else "yh")]
        while made[-1] == "_":
            made.pop()
        moving = []
        if self.computed:
            inputs["scale"] = (1,)
            moving = [node("Mul", f"{n} scale", f"{n}_scaled") for n in "wrb" if n in weights]
            names = [f"{n}_scaled" if n in "wrb" and n in weights else n for n in names]
        body = node(self.op, " ".join(names), " ".join(made), hidden_size=HIDDEN, **self.attributes)
        body.output[:] = ["" if n == "_" else n for n in made]
        return model([*moving, body], inputs, {n: FLOAT for n in made if n != "_"}, weights, self.opset)


def _all() -> list[Recurrent]:
    cases = []
    for op in GATES:
        plain = {"linear_before_reset": 1} if op == "GRU" else {}
        states = "hc" if op == "LSTM" else "h"
        for direction in ("forward", "reverse", "bidirectional"):
            way = {**plain, "direction": direction}
            count = 2 if direction == "bidirectional" else 1
            cases += [Recurrent(op, way, given) for given in ("", "b", "b" + states, "bl", "bl" + states, "bL", "bL" + states)]
            cases += [Recurrent(op, way, "b" + states.upper()), Recurrent(op, way, "b", steps="steps")]
            cases += [Recurrent(op, way, "bl" + states, steps="steps"), Recurrent(op, way, "b", computed=True)]
            cases += [Recurrent(op, way, "bl" + states, outputs=o) for o in ("y", "h")]
            # from here on: what the layers of torch do not say
            for given in ("b", "", "bl" + states):
                cases.append(Recurrent(op, {**way, "clip": 0.4}, given))
                functions = ["HardSigmoid", "Softsign", "Elu"] if op == "LSTM" else ["HardSigmoid", "Softsign"]
                functions = (functions if op != "RNN" else ["LeakyRelu"]) * count
                cases.append(Recurrent(op, {**way, "activations": functions}, given))
            if op == "GRU":
                cases += [Recurrent(op, {"direction": direction}, given) for given in ("", "b", "blh", "bL")]
                cases += [Recurrent(op, {"direction": direction, "clip": 0.4}, "blh")]
            if op == "LSTM":
                cases += [Recurrent(op, way, given) for given in ("bp", "blhcp")]
                cases += [Recurrent(op, {**way, "input_forget": 1}, given) for given in ("b", "bp", "bl")]
                cases += [Recurrent(op, way, "b", outputs="c"), Recurrent(op, way, "blh"), Recurrent(op, way, "bc")]
        scales = {"activation_alpha": [0.3, 0.7, 0.5], "activation_beta": [0.4, 0.6, 0.9]}
        for functions in (
            ["Affine", "ScaledTanh", "ScaledTanh"],
            ["HardSigmoid", "ThresholdedRelu", "LeakyRelu"],
            ["ThresholdedRelu", "Tanh", "Tanh"],
            ["Sigmoid", "Elu", "Softplus"],
        ):
            cases.append(Recurrent(op, {**plain, **scales, "activations": functions[: USED[op]]}))
        for functions in (["LeakyRelu", "Tanh", "Elu"], ["Sigmoid", "Softsign", "HardSigmoid"]):
            cases.append(Recurrent(op, {**plain, "activations": functions[: USED[op]]}))
        cases += [Recurrent(op, plain, "b", opset=opset) for opset in (7, 13, 22)]
    cases.append(Recurrent("RNN", {"activations": ["Relu"]}, "blh"))
    cases += [
        Recurrent("LSTM", {"activations": ["sigmoid", "tanh", "tanh"]}),
        Recurrent("GRU", {"activations": ["sigmoid", "tanh"]}),
    ]
    both = {"direction": "bidirectional"}
    cases += [Recurrent("RNN", {**both, "activations": ["Relu", a]}, "blh") for a in ("Relu", "Tanh")]
    return cases


CASES = _all()
