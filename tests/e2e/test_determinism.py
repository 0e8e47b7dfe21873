"""The same input gives the same bytes, whatever order a process keeps its sets in."""

from __future__ import annotations

import os
import subprocess
import sys

CONVERT = """
import hashlib
import torch
import torchvision
from mlconverter import Converter
from tests import zoo


def say(content):
    print(hashlib.sha256(content).hexdigest())


torch.manual_seed(0)
network = torchvision.models.mobilenet_v3_small().eval()
graph = Converter(network, input_shape=("batch", 3, 64, 64), verify=False).to_onnx()
say(graph.SerializeToString())
say(bytes(Converter(graph, verify=False).to_tflite()))
say(bytes(Converter(graph, verify=False).to_tflite(weights="float16")))
for package, member in (("mediapipe", "pose_landmark_full.tflite"), ("pymicro-wakeword", "alexa.tflite")):
    converter = Converter(zoo.model(package, member), verify=False)
    say(converter.to_onnx().SerializeToString())
    module = converter.to_torch()
    say((module.code + repr(list(module.state_dict()))).encode())
    say(bytes(Converter(converter.to_onnx(), verify=False).to_tflite()))
"""


def test_two_processes_write_the_same_bytes() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", CONVERT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    assert said[0] == said[1] and len(said[0].split()) == 9
