"""The files of the table, made by TensorFlow's converter."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mlconverter.cache import atomic_write
from mlconverter.formats.tflite.schema import load
from tests.tf.entry import Entry, Mode, keras, tf
from tests.tf.files import file_of, folder, reason_of
from tests.tf.table import entries, source_of
from tests.tf.workers import one_by_one

SAMPLES = 16
"""Inputs from which the converter learns ranges."""

NOTHING = "nothing in it is quantised"


def build(names: Iterable[str]) -> Iterator[str]:
    """Make the files that are missing; gives the name of each entry when its files are there."""
    missing = []
    for name in names:
        if _missing(entries()[name]):
            missing.append(name)
        else:
            yield name
    yield from one_by_one(_build, missing, _died)


def _missing(entry: Entry) -> list[tuple[Mode, Path]]:
    place = folder(source_of(entry.name))
    assert place is not None, "TensorFlow is not installed"
    paths = [(mode, file_of(place, entry, mode)) for mode in entry.modes]
    return [(mode, path) for mode, path in paths if not path.exists() and not reason_of(path).exists()]


def _died(name: str) -> str:
    """Note the first file that is missing as the one that ended the process, and make the others."""
    missing = _missing(entries()[name])
    for _, path in missing[:1]:
        atomic_write(reason_of(path), b"TensorFlow's converter ends the process")
    if len(missing) > 1:
        list(one_by_one(_build, [name], _died))
    return name


def _build(name: str) -> str:
    warnings.simplefilter("ignore")
    entry = entries()[name]
    missing = _missing(entry)
    missing[0][1].parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as saved:
        try:
            save(entry, saved)
        except Exception as error:
            for _, path in missing:
                atomic_write(reason_of(path), f"cannot be built: {_short(error)}".encode())
            return name
        for mode, path in missing:
            try:
                content = converted(saved, mode, [entry.feeds(100 + i) for i in range(SAMPLES)])
            except Exception as error:
                atomic_write(reason_of(path), _short(error).encode())
                continue
            if mode == "float" or _quantised(content):
                atomic_write(path, content)
            else:
                atomic_write(reason_of(path), NOTHING.encode())
    return name


def save(entry: Entry, place: str) -> None:
    """Write an entry as a SavedModel."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(entry.seed % 2**32)
    specs = [tf.TensorSpec(given.shape, given.dtype, name=f"x{i}") for i, given in enumerate(entry.inputs)]
    held: Any = tf.Module()
    if entry.kind == "function":
        calls = {"serving_default": entry.make}
    elif entry.kind == "module":
        held = entry.make()
        calls = {"serving_default": held, **getattr(held, "more", {})}
    else:
        model = _model(entry)
        vary(model)
        calls = {"serving_default": _inference(model)}
        # A SavedModel knows TensorFlow's own variables; those of Keras 3 hold one each.
        held.variables_held = [getattr(v, "value", v) if entry.kind == "keras" else v for v in model.variables]
    traced = {key: _traced(call, entry.kind in ("function", "module"), specs) for key, call in calls.items()}
    tf.saved_model.save(held, place, signatures=traced)


def _traced(call: Callable[..., Any], autograph: bool, specs: list[Any]) -> Any:
    return tf.function(lambda *given: call(*given), autograph=autograph).get_concrete_function(*specs)


def _inference(model: Any) -> Callable[..., Any]:
    return lambda *given: model(list(given) if len(given) > 1 else given[0], training=False)


def _model(entry: Entry) -> Any:
    if entry.kind == "keras2":
        import tf_keras

        inputs = [tf_keras.Input(batch_shape=given.shape, dtype=given.dtype) for given in entry.inputs]
        return tf_keras.Model(inputs, entry.make(*inputs))
    inputs = [keras.Input(batch_shape=given.shape, dtype=given.dtype) for given in entry.inputs]
    return keras.Model(inputs, entry.make(*inputs))


def vary(model: Any) -> None:
    """Random values for the weights of which all elements are equal, as training would leave them."""
    rng = np.random.default_rng(0)
    for variable in model.weights:
        value = variable.numpy()
        if value.size and value.dtype.kind == "f" and (value == value.flat[0]).all():
            base = float(value.flat[0])
            spread = rng.uniform(0.6, 1.4, value.shape) * base if base else rng.normal(0, 0.2, value.shape)
            variable.assign(spread.astype(value.dtype))


def converted(saved: str, mode: Mode, samples: list[dict[str, np.ndarray]]) -> bytes:
    """A SavedModel as a TFLite file; what it takes and gives are integers where the converter can do that."""
    if mode not in ("int8", "int16"):
        return _converter(saved, mode).convert()
    for border in (mode, "float32"):
        converter = _converter(saved, mode)
        converter.representative_dataset = lambda: iter(samples)
        converter.inference_input_type = converter.inference_output_type = getattr(tf, border)
        try:
            return converter.convert()
        except RuntimeError as error:
            if border == "float32" or not re.search(r"Unsupported (in|out)put type", str(error)):
                raise
    raise AssertionError


def _converter(saved: str, mode: Mode) -> Any:
    lite = tf.lite
    converter = lite.TFLiteConverter.from_saved_model(saved)
    converter.experimental_enable_resource_variables = True
    if mode != "float":
        converter.optimizations = [lite.Optimize.DEFAULT]
    if mode == "float16":
        converter.target_spec.supported_types = [tf.float16]
    kernels = {
        "int8": lite.OpsSet.TFLITE_BUILTINS_INT8,
        "int16": lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
    }
    if mode in kernels:
        # What has no quantised kernel stays as it is.
        converter.target_spec.supported_ops = [kernels[mode], lite.OpsSet.TFLITE_BUILTINS]
    return converter


def _quantised(content: bytes) -> bool:
    tensors = [t for graph in load(content).subgraphs for t in graph.tensors]
    return any(t.quantization is not None or t.dtype == "float16" for t in tensors)


def _short(error: Exception) -> str:
    """What of an exception's text says why."""
    text = str(error)
    operator = re.search(r"'tf\.\w+' op [^\n]*", text)
    lines = [operator.group()] if operator else text.strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"
