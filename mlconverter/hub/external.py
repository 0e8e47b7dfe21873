"""Weights of ONNX models that lie in files beside them: reading them in, and writing them out."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

import onnx_ir as ir

from mlconverter.errors import CorruptModelError
from mlconverter.hub.protobuf import LARGEST_PROTOBUF, describe, is_plain, nbytes, tensors, transcribe
from mlconverter.hub.wire import SMALLEST

if TYPE_CHECKING:
    import onnx

ALIGNMENT = 4096
"""Weights start at multiples of this, so that runtimes can map them into memory."""


def load(proto: onnx.ModelProto, path: Path | None, held: dict[str, memoryview] | None = None) -> None:
    """Read the weights that lie in other files into a model, wherever in it they are used.

    Args:
        proto: the model; it is changed.
        path: its file, ``None`` where it has none.
        held: takes initializers of the main graph by name, which the model still says to lie elsewhere; a protobuf would be
            another copy of them.

    Raises:
        CorruptModelError: a file is missing, too short, or outside the model's folder; or there is no folder.
    """
    if held is not None:
        _hold(proto.graph, path, held)
    for tensor in tensors(proto):
        if tensor.data_location == tensor.EXTERNAL and not (held and tensor.name in held and not tensor.external_data):
            tensor.raw_data = _elements(tensor, path)
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")


def _hold(graph: onnx.GraphProto, path: Path | None, held: dict[str, memoryview]) -> None:
    """Read initializers, and leave them out of the graph."""
    for tensor in graph.initializer:
        if tensor.data_location == tensor.EXTERNAL and is_plain(tensor) and tensor.name not in held:
            held[tensor.name] = memoryview(_elements(tensor, path))
            tensor.ClearField("external_data")


def _elements(tensor: onnx.TensorProto, path: Path | None) -> bytes:
    """What the file that a tensor lies in holds of it."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    location = said.get("location", "")
    weight = f"The weight '{tensor.name}'" if tensor.name else "A weight in an attribute"
    what = f"{weight} lies in '{location}'"
    if path is None:
        raise CorruptModelError(
            f"{what}, and a model in memory does not say in which folder that is. Load it with onnx.load, or give its path."
        )
    size = nbytes(tensor)
    start, length = (
        _number(said.get(key, default), f"{what}, but its {key}") for key, default in (("offset", 0), ("length", size))
    )
    if tensor.data_type == tensor.STRING or length != size:
        raise CorruptModelError(f"{what} with {length} bytes, which is not what {_kind(tensor)} takes. Export the model anew.")
    return _read(_found(path, location, what), start, length, what)


def _number(text: Any, what: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise CorruptModelError(f"{what} is '{text}', which is no number of bytes. Export the model anew.")
    return number


def _kind(tensor: onnx.TensorProto) -> str:
    return f"{ir.DataType(tensor.data_type).name.lower()}{list(tensor.dims)}"


def _found(path: Path, location: str, what: str) -> Path:
    """The file of weights: in the folder of the model, or of the file that the model's path is a link to."""
    named = PurePath(location)
    if (
        not location
        or "\0" in location
        or named.is_absolute()
        or named.drive
        or ".." in PurePath(location.replace("\\", "/")).parts
    ):
        raise CorruptModelError(
            f"{what}, which is not below the model's folder and is not read. Put it there, or load it yourself."
        )
    folders = [path.parent, Path(os.path.realpath(path)).parent]
    inside = [Path(os.path.realpath(folder)) for folder in folders]
    for folder in folders:
        file = Path(os.path.realpath(folder / named))
        if file.is_file():
            if not any(file.is_relative_to(i) for i in inside):
                raise CorruptModelError(f"{what}, a link to '{file}' outside of the model's folder, which is not read.")
            return file
    raise CorruptModelError(f"{what}, which is missing in '{path.parent}'. It has to be copied along with the model.")


def _read(file: Path, start: int, length: int, what: str) -> bytes:
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_size < start + length:  # asked first: a wrong length may be huge
                data = b""
            else:
                opened.seek(start)
                data = opened.read(length)
    except OSError as error:
        raise CorruptModelError(f"{what}, which cannot be read: {error.strerror or error}.") from error
    if len(data) != length:
        raise CorruptModelError(
            f"{what} from byte {start} to {start + length}, and the file ends before. Was it cut off in a download?"
        )
    return data


def save(proto: onnx.ModelProto, path: Path) -> None:
    """Write a model with its weights in one file beside it, ``<name>.data``.

    Args:
        proto: the model; it is not changed.
        path: the file of the graph.

    Raises:
        OSError: a file cannot be written, or the graph alone is too large for a protobuf.
    """
    from google.protobuf.message import EncodeError
    from onnx import ModelProto

    graph, data = ModelProto(), path.with_name(f"{path.name}.data")
    with data.open("wb") as file:
        transcribe(proto, graph, {"TensorProto": partial(_put_out, file, data.name), "SparseTensorProto": _copy})
    try:
        content = graph.SerializeToString()
    except EncodeError:
        content = None
    if content is None or len(content) > LARGEST_PROTOBUF:
        raise OSError(errno.EFBIG, "the graph is larger than 2 GB even without its weights", str(path))
    path.write_bytes(content)


def _copy(source: Any, target: Any) -> None:
    target.CopyFrom(source)


def _put_out(file: BinaryIO, name: str, source: onnx.TensorProto, target: onnx.TensorProto) -> None:
    """Write the elements of a tensor into a file and describe where they are; those of a small one stay."""
    if source.data_type == source.STRING or nbytes(source) < SMALLEST:
        target.CopyFrom(source)
        return
    describe(source, target)
    file.write(bytes(-file.tell() % ALIGNMENT))
    target.data_location = target.EXTERNAL
    for key, value in (("location", name), ("offset", file.tell()), ("length", nbytes(source))):
        target.external_data.add(key=key, value=str(value))
    file.write(ir.serde.TensorProtoTensor(source).tobytes())
