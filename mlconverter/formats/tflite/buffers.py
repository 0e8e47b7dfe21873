"""Weights of a TFLite file by their identity, which is the buffer: tensors that share one are tied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mlconverter.errors import ConversionError
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.structure import PACKED, Array, Model, Tensor

_PREFIX = "buffer:"


def source_key(buffer: int) -> str:
    """The name under which weight links know a buffer."""
    return f"{_PREFIX}{buffer}"


def stored_weights(model: Model, keys: Iterable[str]) -> dict[str, Array]:
    """The stored arrays behind source keys, as views into the file; sparse ones are the list of their values.

    Raises:
        ConversionError: a key names no buffer with data.
    """
    return {key: model.view(_owner(model, key)) for key in keys}


def patch(data: bytes, arrays: Mapping[str, Array]) -> bytes:
    """The file with other values in some of its buffers, and every other byte as it was.

    Args:
        data: the file.
        arrays: new values by source key, each of the dtype and size that the buffer has.

    Raises:
        ConversionError: an array does not fit its buffer.
    """
    model = load(data)
    patched = bytearray(data)
    for key, array in arrays.items():
        owner = _owner(model, key)
        extent = model.buffers[owner.buffer]
        if array.dtype != np.dtype("uint8" if owner.dtype in PACKED else owner.dtype) or array.nbytes != extent.length:
            raise ConversionError(
                f"'{key}' ('{owner.name}') holds {extent.length} bytes of {owner.dtype}; "
                f"{array.nbytes} bytes of {array.dtype} do not fit in their place."
            )
        patched[extent.offset : extent.offset + extent.length] = array.tobytes()
    return bytes(patched)


def _owner(model: Model, key: str) -> Tensor:
    number = key.removeprefix(_PREFIX)
    owner = model.owners.get(int(number)) if key.startswith(_PREFIX) and number.isdigit() else None
    if owner is None or not model.is_constant(owner):
        raise ConversionError(f"The TFLite file has no weight '{key}'.")
    return owner
