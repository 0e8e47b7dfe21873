"""Bundles of MONAI: its exporter takes the converters and savers of this package as they are, and the other way about."""

import json
import warnings
from functools import partial

import numpy as np
import pytest
import torch

from mlconverter import Converter, load_metadata
from mlconverter import export as exports
from mlconverter.testing import assert_same_outputs
from tests.unit.test_export import built, same_state, state

pytest.importorskip("monai", reason="monai is not installed")
pytest.importorskip("yaml", reason="pyyaml is not installed")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it says of other packages while it is imported
    from monai.bundle import ConfigParser, ckpt_export
    from monai.bundle.scripts import _export, _get_fake_input_shape
    from monai.data import load_net_with_metadata, save_net_with_metadata
    from monai.networks.utils import convert_to_onnx

NETWORKS = {
    "UNet": {"channels": [4, 8], "strides": [2], "num_res_units": 1},
    "DenseNet": {"init_features": 8, "growth_rate": 4, "block_config": [2, 2]},
}

META = {
    "version": "0.1.0",
    "changelog": {"0.1.0": "für Prüfung"},
    "monai_version": "1.6.1",
    "network_data_format": {
        "inputs": {
            "image": {
                "type": "image",
                "num_channels": 1,
                "spatial_shape": [32, 32],
                "dtype": "float32",
                "value_range": [0, 1],
                "is_patch_data": False,
                "channel_def": {"0": "image"},
            }
        },
        "outputs": {"pred": {"type": "image", "num_channels": 2, "spatial_shape": [32, 32]}},
    },
}

POSTPROCESSING = (
    "postprocessing:\n  _target_: Compose\n  transforms:\n  - _target_: Activationsd\n    keys: pred\n    softmax: true\n"
)

FORMATS = {
    "net.pt": (exports.as_it_is, exports.save_checkpoint),
    "net.safetensors": (exports.as_it_is, exports.save_checkpoint),
    "net.ts": (exports.to_torchscript, exports.save_torchscript),
    "net.pt2": (exports.to_exported_program, exports.save_exported_program),
    "net.onnx": (exports.to_onnx, exports.save_onnx),
    "net.tflite": (exports.to_tflite, exports.save_tflite),
    "net.engine": (exports.to_trt, exports.save_trt),
}


@pytest.fixture(params=NETWORKS)
def bundle(request, tmp_path):
    """A bundle of a network with a checkpoint, and the parser that MONAI reads it with."""
    network = {"_target_": request.param, "spatial_dims": 2, "in_channels": 1, "out_channels": 2, **NETWORKS[request.param]}
    (tmp_path / "inference.json").write_text(json.dumps({"network_def": network, "roi_size": [32, 32]}))
    (tmp_path / "post.yaml").write_text(POSTPROCESSING)
    (tmp_path / "metadata.json").write_text(json.dumps(META))
    (tmp_path / "out").mkdir()
    return Bundle(tmp_path)


class Bundle:
    def __init__(self, folder):
        self.folder, self.out = folder, folder / "out"
        self.configs = [str(folder / "inference.json"), str(folder / "post.yaml")]
        self.trained = trained(self.parser().get_parsed_content("network_def"))
        self.checkpoint = str(folder / "model.pt")
        torch.save({"model": self.trained.state_dict(), "epoch": 2}, self.checkpoint)

    def parser(self):
        parser = ConfigParser()
        parser.read_config(self.configs)
        parser.read_meta(str(self.folder / "metadata.json"))
        return parser

    def network(self):
        torch.manual_seed(9)
        return self.parser().get_parsed_content("network_def")

    def has_all(self, path):
        found = load_metadata(path)
        assert found.values == META
        assert {name: json.loads(content) for name, content in found.extra_files.items()} == {
            "inference.json": json.loads((self.folder / "inference.json").read_text()),
            "post.json": ConfigParser.load_config_file(self.configs[1]),
        }


def trained(network):
    """A network whose statistics are not those of a new one."""
    torch.manual_seed(1)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        network(torch.rand(4, 1, 32, 32)).square().mean().backward()
        optimiser.step()
    return network.eval()


@pytest.mark.parametrize("name", [pytest.param(n, marks=[built] if n == "net.engine" else []) for n in FORMATS])
def test_monais_exporter_with_the_converters_and_savers_of_this_package(name, bundle):
    converter, saver = FORMATS[name]
    parser = bundle.parser()
    options = {} if converter is exports.as_it_is else {"input_shape": _get_fake_input_shape(parser)}
    _export(
        converter,
        saver,
        parser,
        net_id="network_def",
        filepath=str(bundle.out / name.removesuffix(".pt")),  # without an extension, as MONAI allows
        ckpt_file=bundle.checkpoint,
        config_file=bundle.configs,
        key_in_ckpt="model",
        **options,
    )
    bundle.has_all(bundle.out / name)
    same_outputs(bundle, bundle.out / name)


def same_outputs(bundle, path):
    if path.suffix == ".engine":
        return  # it takes a GPU to run one
    if path.suffix in (".onnx", ".tflite"):
        assert_same_outputs(bundle.trained, path, input_shape=(1, 1, 32, 32))
        return
    x = torch.rand(1, 1, 32, 32)
    if path.suffix in (".pt", ".safetensors"):
        loaded = bundle.network()
        Converter(loaded, path, input_shape=(1, 1, 32, 32))
        loaded.eval()
    else:
        loaded = torch.jit.load(path) if path.suffix == ".ts" else torch.export.load(path).module()
    with torch.no_grad():
        np.testing.assert_allclose(loaded(x), bundle.trained(x), rtol=1e-4, atol=1e-5)


def test_a_checkpoint_goes_through_monais_exporter_again(bundle):
    """What one export wrote, MONAI reads as a checkpoint: nested, by its key."""
    first = exports.ckpt_export(bundle.network(), bundle.out / "first.pt", checkpoint=bundle.checkpoint, meta=META)
    _export(
        exports.as_it_is,
        exports.save_checkpoint,
        bundle.parser(),
        net_id="network_def",
        filepath=str(bundle.out / "second.pt"),
        ckpt_file=str(first),
        config_file=bundle.configs,
        key_in_ckpt="state_dict",
    )
    assert same_state(torch.load(bundle.out / "second.pt")["state_dict"], state(bundle.trained))
    bundle.has_all(bundle.out / "second.pt")


@pytest.mark.parametrize("own", [True, False], ids=["monai writes", "this package writes"])
def test_torchscript_is_the_same_file_to_both(own, bundle):
    saver = partial(save_net_with_metadata, include_config_vals=False) if own else exports.save_torchscript
    path = exports.export(
        bundle.network(),
        bundle.out / "net",
        converter=exports.to_torchscript,
        saver=saver,
        checkpoint=bundle.checkpoint,
        key_in_checkpoint="model",
        meta=bundle.folder / "metadata.json",
        config_files=bundle.configs,
        input_shape=("batch", 1, 32, 32),
    )
    assert [p.name for p in bundle.out.iterdir()] == ["net.ts"]
    bundle.has_all(path)
    loaded, values, files = load_net_with_metadata(str(path), more_extra_files=("inference.json", "post.json"))
    assert values == META and json.loads(files["inference.json"])["roi_size"] == [32, 32] and files["post.json"]
    x = torch.rand(3, 1, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), bundle.trained(x))


def test_what_monai_exports_by_itself_is_read(bundle):
    path = bundle.out / "net.ts"
    ckpt_export(
        net_id="network_def",
        filepath=str(path),
        ckpt_file=bundle.checkpoint,
        meta_file=str(bundle.folder / "metadata.json"),
        config_file=bundle.configs,
        key_in_ckpt="model",
        input_shape=[1, 1, 32, 32],
        use_trace=True,
    )
    bundle.has_all(path)


def test_monais_converter_with_a_saver_of_this_package(bundle):
    path = exports.export(
        bundle.network(),
        bundle.out / "net",
        converter=partial(convert_to_onnx, inputs=[torch.rand(1, 1, 32, 32)], input_names=["x"], output_names=["output"]),
        saver=exports.save_onnx,
        checkpoint=bundle.checkpoint,
        meta=META,
        config_files=bundle.configs,
    )
    bundle.has_all(path)
    assert_same_outputs(bundle.trained, path, input_shape=(1, 1, 32, 32), match="position")
