"""TensorRT engines within torch programs: an operator, a module around it, and nothing else.

A program that holds an engine is saved and loaded by ``torch.export.save`` and ``torch.export.load`` as any other. The
process that loads it imports torch and this module, which makes the operator known::

    import torch
    import mlconverter.formats.trt.program

    program = torch.export.load("net.pt2")

Only running it takes a GPU and TensorRT's runtime.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from mlconverter.errors import SignatureError
from mlconverter.formats.trt.execution import Engine, require_gpu, session

BUFFER = "engine"
"""Name of the buffer in which a module holds its engine."""


@torch.library.custom_op(
    "mlconverter::run_engine", mutates_args=(), schema="(Tensor[] inputs, Tensor engine, str spec) -> Tensor[]"
)
def run_engine(inputs: Sequence[torch.Tensor], engine: torch.Tensor, spec: str) -> list[torch.Tensor]:
    """Run a TensorRT engine.

    Args:
        inputs: on one GPU.
        engine: the engine's bytes, uint8, anywhere.
        spec: JSON: what :func:`spec_of` says.

    Raises:
        NotRunnableError: there is no GPU, or its runtime does not load the engine.
        MissingDependencyError: its runtime is not installed.
        SignatureError: an input lies elsewhere.
    """
    require_gpu()
    said = json.loads(spec)
    devices = {tensor.device for tensor in inputs}
    if len(devices) != 1 or next(iter(devices)).type != "cuda":
        raise SignatureError(f"The inputs of an engine lie on one GPU, not on {', '.join(sorted(map(str, devices)))}.")
    known = Engine(
        said["sha256"],
        said["runtime"],
        tuple(said["inputs"]),
        tuple((o["name"], o["dtype"]) for o in said["outputs"]),
        next(iter(devices)),
        said["cuda_graph"],
        content=engine.cpu().numpy(),
    )
    return session(known)(inputs)


@run_engine.register_fake
def _shapes(inputs: Sequence[torch.Tensor], engine: torch.Tensor, spec: str) -> list[torch.Tensor]:
    """What the operator gives, without running it."""
    device = inputs[0].device if inputs else engine.device

    def size(dim: Any) -> Any:
        if isinstance(dim, list):
            return inputs[dim[0]].shape[dim[1]]
        return torch.library.get_ctx().new_dynamic_size() if dim is None else dim

    outputs = json.loads(spec)["outputs"]
    return [torch.empty([size(d) for d in o["shape"]], dtype=getattr(torch, o["dtype"]), device=device) for o in outputs]


def _sized(output: Any) -> Sequence[Any]:
    if output.shape is None:
        raise SignatureError(f"Nothing is known about the rank of the output '{output.name}', which a program has to know.")
    shape: Sequence[Any] = output.shape
    return shape


def spec_of(content: bytes, runtime: str, inputs: Sequence[Any], outputs: Sequence[Any], *, cuda_graph: bool = False) -> str:
    """What the operator has to know of an engine.

    Args:
        content: the engine.
        runtime: name of the package that loads it.
        inputs: names and shapes, as a signature has them.
        outputs: names, shapes and element types.
        cuda_graph: whether the launches of a run are recorded once for each shape and then replayed.

    Returns:
        JSON. A size is a number, the input and axis that has the same one, or null where only a run can tell.
    """
    places = {dim: [n, axis] for n, i in enumerate(inputs) for axis, dim in enumerate(i.shape or ()) if isinstance(dim, str)}
    return json.dumps(
        {
            "runtime": runtime,
            "cuda_graph": cuda_graph,
            "sha256": hashlib.sha256(content).hexdigest(),
            "inputs": [i.name for i in inputs],
            "outputs": [
                {"name": o.name, "dtype": o.dtype, "shape": [d if isinstance(d, int) else places.get(d) for d in _sized(o)]}
                for o in outputs
            ],
        },
        sort_keys=True,
    )


class TRTModule(nn.Module):
    """A TensorRT engine as a module: tensors on a GPU in the order of its signature, one tensor or a tuple of several back.

    Args:
        content: the engine.
        spec: what :func:`spec_of` says of it.
    """

    def __init__(self, content: bytes, spec: str) -> None:
        super().__init__()
        # A copy that is aligned and may be written to: torch warns of anything else.
        self.register_buffer(BUFFER, torch.frombuffer(bytearray(content), dtype=torch.uint8))
        self.spec = spec

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Run the engine."""
        # Nothing in an engine can be trained, and gradients end before it.
        outputs = torch.ops.mlconverter.run_engine([i.detach() for i in inputs], self.engine, self.spec)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def engines_in(program: torch.export.ExportedProgram) -> list[tuple[bytes, str]]:
    """The engines that a program runs, each with what is said of it."""
    state: Mapping[str, Any] = program.state_dict | program.constants
    buffers = program.graph_signature.inputs_to_buffers
    found = []
    for node in program.graph.nodes:
        if node.target is torch.ops.mlconverter.run_engine.default:
            _, engine, spec = node.args
            found.append((state[buffers[engine.name]].cpu().numpy().tobytes(), spec))
    return found
