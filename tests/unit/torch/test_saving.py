"""A converted module that was saved, copied or pickled is the module that it was, in another process too."""

import copy
import io
import pickle
import subprocess
import sys

import onnx
import pytest
import torch

from mlconverter import Converter, SignatureError
from mlconverter.formats.torch.fingerprint import fingerprint
from mlconverter.formats.torch.module import ConvertedModule
from tests import zoo
from tests.unit.torch.test_converted_module import IMAGES, TOKENS, attention, convolutional
from tests.unit.torch.test_storage import X, half_stored, nudge, with_vectors


def saved(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = {"saved": saved, "pickled": lambda m: pickle.loads(pickle.dumps(m)), "deepcopy": copy.deepcopy, "copy": copy.copy}
MODULES = {
    "convolutional": (convolutional, IMAGES),
    "attention": (attention, TOKENS),
    "half precision": (lambda: Converter(half_stored(), verify=False).to_torch(), X),
    "vectors": (lambda: Converter(with_vectors(), verify=False).to_torch(), X),
}


def halve(module, arguments, result):
    """A hook of somebody's own; a function of a module, as whatever is pickled has to be."""
    return result / 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_lost(name: str, way: str) -> None:
    make, x = MODULES[name]
    module = make().train()
    nudge(module)
    module.round_to_storage = False
    module.note = "somebody's own"
    hook = module.register_forward_hook(halve)
    twin = WAYS[way](module.eval())
    assert isinstance(twin, ConvertedModule) and type(twin).__name__ == "ConvertedModule"
    assert twin.code == module.code
    assert twin.note == module.note and twin.training == module.training
    assert twin.round_to_storage == module.round_to_storage
    assert torch.equal(twin(x), module(x))
    hook.remove()
    module.round_to_storage = True
    assert twin.weight_origins == module.weight_origins
    assert twin.origin.source_hash == module.origin.source_hash and twin.origin.options == module.origin.options
    assert twin.origin.signature == module.origin.signature
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in module.named_parameters()]
    assert {n for n, d in fingerprint(twin).items() if d != module.origin.fingerprint[n]} == {""}, "but for the hook"


def test_a_graph_that_was_changed_by_hand_stays_changed() -> None:
    module = convolutional()
    node = next(n for n in module.graph.nodes if n.target is torch.nn.functional.relu)
    node.target = torch.nn.functional.leaky_relu
    module.recompile()
    twin = saved(module)
    assert torch.equal(twin(IMAGES), module(IMAGES)) and twin.code == module.code
    assert fingerprint(twin) != twin.origin.fingerprint


def test_a_copy_has_a_graph_of_its_own() -> None:
    module = convolutional()
    for twin in (copy.copy(module), copy.deepcopy(module), saved(module)):
        for node in twin.graph.nodes:
            if node.target is torch.nn.functional.relu:
                node.target = torch.nn.functional.leaky_relu
        twin.recompile()
        assert fingerprint(module) == module.origin.fingerprint and "relu" in module.code


def test_a_subclass_is_not_copied_without_its_forward() -> None:
    module = convolutional()
    module.__class__ = type("Sub", (type(module),), {"forward": lambda self, x: x})
    for way in WAYS.values():
        with pytest.raises(SignatureError, match="Sub"):
            way(module)


BACK = """
import sys, torch, onnx
from mlconverter import Converter
model, module, tuned = sys.argv[1:]
converter = Converter(model_path=model)
result = converter.to_origin_type(torch.load(module, weights_only=False))
assert converter.report.verdict == "verified", converter.report
open(tuned, "wb").write(result.SerializeToString() if hasattr(result, "SerializeToString") else bytes(result))
"""


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_the_way_back_in_another_process(kind: str, tmp_path) -> None:
    """Trained and saved here, put back there."""
    path = tmp_path / f"model.{kind}"
    if kind == "onnx":
        onnx.save(half_stored(), path)
    else:
        path.write_bytes(zoo.model("mediapipe", "face_detection_short_range.tflite").read_bytes())
    converter = Converter(model_path=path)
    module = converter.to_torch()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.001)
    torch.save(module.train(), tmp_path / "module.pt")
    tuned = tmp_path / f"tuned.{kind}"
    command = [sys.executable, "-c", BACK, str(path), str(tmp_path / "module.pt"), str(tuned)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    here = converter.to_origin_type(module)
    if kind == "onnx":
        assert onnx.load(tuned) == here
    else:
        assert tuned.read_bytes() == bytes(here)
    assert tuned.read_bytes() != path.read_bytes()
