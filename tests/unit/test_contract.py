"""The promise of a model, and the folder from which trained weights find back in another process or on another day."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from mlconverter import Converter, CorruptModelError, NotConvertibleError, SaveError, SignatureError
from mlconverter.contract import Contract
from tests import zoo
from tests.contract.test_formats import small_onnx

ELSEWHERE = """
import sys
from mlconverter import Converter

back = Converter.from_contract(sys.argv[1]).to_origin_type(sys.argv[2])
open(sys.argv[3], "wb").write(bytes(back) if sys.argv[3].endswith(".tflite") else back.SerializeToString())
"""


def trained(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 1.25
    return module


def weights_of(module: nn.Module, path: Path) -> Path:
    state = {name: tensor.clone().contiguous() for name, tensor in module.state_dict().items()}
    save_file(state, path) if path.suffix == ".safetensors" else torch.save({"epoch": 3, "state_dict": state}, path)
    return path


@pytest.fixture(params=["onnx", "tflite"])
def origin(request, tmp_path: Path) -> Path:
    """A file, with something of its own beside the graph."""
    path = tmp_path / f"net.{request.param}"
    model = small_onnx()
    onnx.helper.set_model_props(model, {"author": "me"})
    model.doc_string = "what it is for"
    Converter(model).save(path)
    return path


class TestTheFolder:
    """What is written, and what it leads to."""

    @pytest.mark.parametrize("file", ["trained.safetensors", "trained.pt"])
    def test_another_process_finds_the_way_back(self, origin: Path, tmp_path: Path, file: str) -> None:
        converter = Converter(origin, io_layout="channels_last")
        module = trained(converter.to_torch())
        want = converter.to_origin_type(module)
        folder = converter.save_contract(tmp_path / "model.contract")
        weights, result = weights_of(module, tmp_path / file), tmp_path / f"back{origin.suffix}"
        origin.unlink()
        subprocess.run([sys.executable, "-c", ELSEWHERE, folder, weights, result], check=True, capture_output=True)
        assert result.read_bytes() == (bytes(want) if origin.suffix == ".tflite" else want.SerializeToString())

    def test_the_module_itself_and_its_state_find_back_too(self, origin: Path, tmp_path: Path) -> None:
        converter = Converter(origin)
        module = trained(converter.to_torch())
        want = converter.to_origin_type(module)
        for handed in (module, module.state_dict()):
            assert Converter.from_contract(converter.save_contract(tmp_path / "c")).to_origin_type(handed) == want

    def test_what_it_says(self, origin: Path, tmp_path: Path) -> None:
        converter = Converter(origin)
        converter.to_torch()
        folder = converter.save_contract(tmp_path / "c")
        said = json.loads((folder / "contract.json").read_text())
        assert Contract.from_dict(said["contract"]).as_dict() == converter.contract.as_dict() == said["contract"]
        assert (folder / said["origin"]["file"]).read_bytes() == origin.read_bytes()
        sources = {entry["source"] for entries in said["weights"].values() for entry in entries}
        assert {"conv.weight", "head"} <= sources or origin.suffix == ".tflite"
        assert set(said["weights"]) == set(converter.to_torch().state_dict())

    def test_without_the_origin_it_says_where_that_is(self, origin: Path, tmp_path: Path) -> None:
        converter = Converter(origin)
        module = trained(converter.to_torch())
        folder = converter.save_contract(tmp_path / "c", embed_origin=False)
        assert [p.name for p in folder.iterdir()] == ["contract.json"]
        assert Converter.from_contract(folder).to_origin_type(module.state_dict()) == converter.to_origin_type(module)
        origin.write_bytes(origin.read_bytes() + b" ")
        with pytest.raises(CorruptModelError, match="changed"):
            Converter.from_contract(folder)
        origin.unlink()
        with pytest.raises(FileNotFoundError, match="Put it there"):
            Converter.from_contract(folder)

    def test_a_contract_is_replaced_and_nothing_else_is(self, origin: Path, tmp_path: Path) -> None:
        converter = Converter(origin)
        converter.to_torch()
        folder = converter.save_contract(tmp_path / "c")
        assert converter.save_contract(folder) == folder and len(list(folder.iterdir())) == 2
        other = tmp_path / "other"
        other.mkdir()
        (other / "mine.txt").write_text("mine")
        before = sorted(p.name for p in tmp_path.iterdir())
        for place in (other, tmp_path / "nowhere" / "c"):
            with pytest.raises(SaveError):
                converter.save_contract(place)
        assert (other / "mine.txt").read_text() == "mine" and sorted(p.name for p in tmp_path.iterdir()) == before

    @pytest.mark.parametrize(
        ("damage", "error"),
        [
            (lambda folder: (folder / "contract.json").write_text("{}"), CorruptModelError),
            (lambda folder: (folder / "contract.json").write_text("no json"), CorruptModelError),
            (lambda folder: (folder / "contract.json").unlink(), FileNotFoundError),
            (lambda folder: shutil.rmtree(folder), FileNotFoundError),
            (lambda folder: next(folder.glob("origin.*")).write_bytes(b"another"), CorruptModelError),
        ],
    )
    def test_a_damaged_one_is_refused(self, origin: Path, tmp_path: Path, damage, error) -> None:
        converter = Converter(origin)
        converter.to_torch()
        folder = converter.save_contract(tmp_path / "c")
        damage(folder)
        with pytest.raises(error, match=r"c'|contract"):
            Converter.from_contract(folder)

    def test_what_has_none(self, tmp_path: Path) -> None:
        with pytest.raises(SignatureError, match="to_torch"):
            Converter(small_onnx()).save_contract(tmp_path / "c")
        converter = Converter(small_onnx())
        converter.to_torch()
        with pytest.raises(SignatureError, match="memory"):
            converter.save_contract(tmp_path / "c", embed_origin=False)
        own = Converter(nn.Linear(2, 2), input_shape=(1, 2))
        own.to_torch()
        with pytest.raises(NotConvertibleError, match="torch module"):
            own.save_contract(tmp_path / "c")
        assert not list(tmp_path.iterdir())

    def test_weights_of_another_model_name_the_difference(self, origin: Path, tmp_path: Path) -> None:
        converter = Converter(origin)
        state = converter.to_torch().state_dict()
        folder = converter.save_contract(tmp_path / "c")
        name = next(iter(state))
        for change, said in (
            (lambda s: s.pop(name), name),
            (lambda s: s.update(surplus=torch.zeros(1)), "surplus"),
            (lambda s: s.update({name: torch.zeros(99)}), name),
        ):
            other = {key: tensor.clone() for key, tensor in state.items()}
            change(other)
            save_file(other, tmp_path / "other.safetensors")
            with pytest.raises(SignatureError, match=said):
                Converter.from_contract(folder).to_origin_type(tmp_path / "other.safetensors")


class TestThePromise:
    """It is kept on the way back, and told where it is not."""

    def test_written_back_it_is_the_same(self, origin: Path) -> None:
        converter = Converter(origin)
        back = converter.to_origin_type(trained(converter.to_torch()))
        assert Converter(back).contract.as_dict() == converter.contract.as_dict()

    def test_made_anew_it_holds_but_for_the_head(self, origin: Path) -> None:
        converter = Converter(origin)
        module = converter.to_torch()
        name, old = next((n, m) for n, m in reversed(list(module.named_modules())) if isinstance(m, nn.Conv2d))
        module.set_submodule(name, nn.Conv2d(old.in_channels, old.out_channels, 1, padding="same"))
        back = converter.to_origin_type(module)
        differences = converter.contract.differences(Converter(back).contract)
        assert converter.report.way_back.startswith("converted anew")
        assert all(d.startswith(("features.ir_version", "features.opset")) for d in differences), differences
        assert all(d in str(converter.report) for d in differences)

    def test_of_a_real_file(self) -> None:
        converter = Converter(zoo.model("mediapipe", "face_detection_short_range.tflite"))
        features = converter.contract.features
        assert features["half_precision_weights"] and set(features["metadata"]) == {"TFLITE_METADATA"}

    def test_differences_are_named_entry_by_entry(self) -> None:
        converter = Converter(small_onnx())
        other = small_onnx()
        other.graph.input[0].name = other.graph.node[0].input[0] = "picture"
        other.opset_import[0].version -= 1
        said = converter.contract.differences(Converter(other).contract)
        assert said[0].startswith("features.opset") and said[1] == "signature.inputs[0].name: 'image' became 'picture'"
        assert not converter.contract.differences(Converter(small_onnx()).contract)


def test_a_lightning_module_around_it_is_looked_through() -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")

    class Loop(lightning.LightningModule):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network, self.weight = network, nn.Parameter(torch.ones(1))

        def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
            return self.network(batch).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.network.parameters(), 0.1)

    converter = Converter(small_onnx())
    loop = Loop(converter.to_torch())
    images = torch.from_numpy(np.random.default_rng(0).random((4, 3, 8, 6), np.float32))
    fit = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    lightning.Trainer(max_steps=2, accelerator="cpu", **fit).fit(loop, torch.utils.data.DataLoader(images, 2))
    back = converter.to_origin_type(loop)
    assert back == converter.to_origin_type(loop.network) and back != small_onnx()
    twice = Loop(nn.ModuleList([converter.to_torch(), copy.deepcopy(converter.to_torch())]))
    with pytest.raises(SignatureError, match="Loop"):
        converter.to_origin_type(twice)
