"""What ai.onnx.ml does to features before a model sees them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Array, Ints, Tensor, length
from mlconverter.hub.nodes import Call


@translates("ai.onnx.ml::ArrayFeatureExtractor", 1)
def array_feature_extractor(g: Builder, x: Tensor, indices: Tensor) -> Tensor:
    """ArrayFeatureExtractor → x.index_select along the last axis."""
    picked = x.index_select(-1, indices.reshape(-1))
    return picked.unsqueeze(0) if x.ndim == 1 else picked


@translates("ai.onnx.ml::Binarizer", 1)
def binarizer(g: Builder, x: Tensor, *, threshold: float) -> Tensor:
    """Binarizer → x > threshold."""
    return (x > threshold).to(x.dtype)


@translates("ai.onnx.ml::Scaler", 1)
def scaler(g: Builder, x: Tensor, *, offset: list[float] | None = None, scale: list[float] | None = None) -> Any:
    """Scaler → (x - offset) * scale."""
    y: Any = x
    if offset:
        y = y - g.table("offset", np.array(offset, np.float32))
    if scale:
        y = y * g.table("scale", np.array(scale, np.float32))
    return y.to(torch.float32)


def _check_normalizer(call: Call) -> str | None:
    return None if call.attributes["norm"] in ("MAX", "L1", "L2") else f"norm={call.attributes['norm']}"


@translates("ai.onnx.ml::Normalizer", 1, check=_check_normalizer)
def normalizer(g: Builder, x: Tensor, *, norm: str) -> Tensor:
    """Normalizer → x over the maximum, torch.linalg.vector_norm of 1 or 2 of each row; rows without one stay."""
    y, axis = x.to(torch.float32), min(x.ndim - 1, 1)
    size = torch.amax(y, axis, keepdim=True) if norm == "MAX" else torch.linalg.vector_norm(y, int(norm[1]), axis, keepdim=True)
    return torch.where(size == 0, y, y / size)


def _check_imputer(call: Call) -> str | None:
    given = [bool(call.attributes.get(f"imputed_value_{kind}")) for kind in ("floats", "int64s")]
    kind = call.inputs[0].dtype if isinstance(call.inputs[0], ir.Value) else None
    if kind is not None and not given[0 if kind.is_floating_point() else 1]:
        return "no values of the type of the input to put in"
    return None


@translates("ai.onnx.ml::Imputer", 1, check=_check_imputer)
def imputer(
    g: Builder,
    x: Tensor,
    *,
    replaced_value_float: float,
    replaced_value_int64: int,
    imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None,
) -> Tensor:
    """Imputer → torch.where."""
    real = x.is_floating_point()
    replaced = replaced_value_float if real else replaced_value_int64
    values = np.array(imputed_value_floats if real else imputed_value_int64s, np.float32 if real else np.int64)
    missing = torch.isnan(x) if math.isnan(replaced) else x == replaced
    return torch.where(missing, g.table("values", values).to(x.dtype), x)


@translates("ai.onnx.ml::FeatureVectorizer", 1)
def feature_vectorizer(g: Builder, *xs: Tensor, inputdimensions: list[int] | None = None) -> Tensor:
    """FeatureVectorizer → torch.cat of the rows."""
    rows = [x.unsqueeze(0) if x.ndim == 1 else x for x in xs]
    sizes = [length(x, -1) for x in xs] if inputdimensions is None else inputdimensions
    return g.call(runtime.features, rows, Ints(sizes)).to(torch.float32)


# -- words for words ---------------------------------------------------------------------------------------------------

_KINDS = {"int64s": np.int64, "floats": np.float32}


def _listed(attributes: dict[str, Any], name: str) -> Array | None:
    """Keys or values, from whichever of the attributes holds them; ``None`` where those are strings."""
    tensor = attributes.get(f"{name}_tensor")
    if tensor is not None:
        return None if tensor.dtype.kind in "OSU" else np.asarray(tensor).reshape(-1)
    for kind, dtype in _KINDS.items():
        if attributes.get(f"{name}_{kind}"):
            return np.array(attributes[f"{name}_{kind}"], dtype)
    return None


def _check_label_encoder(call: Call) -> str | None:
    keys, values = (_listed(call.attributes, name) for name in ("keys", "values"))
    if keys is None or values is None:
        return "torch has no strings: keys or values"
    if call.version < 4 and len(np.unique(keys)) < len(keys):
        return "a key that stands in the list twice, which version 2 does not explain"
    return None


@translates("ai.onnx.ml::LabelEncoder", 2, 4, check=_check_label_encoder)
def label_encoder(g: Builder, x: Tensor, **attributes: Any) -> Tensor:
    """LabelEncoder → torch.searchsorted in the keys."""
    keys, values = _listed(attributes, "keys"), _listed(attributes, "values")
    assert keys is not None and values is not None
    default = attributes.get("default_tensor")
    if default is None:
        default = attributes["default_float"] if values.dtype.kind == "f" else attributes["default_int64"]
    # Of equal keys the last one counts; NaNs are one key.
    last = {key: i for i, key in enumerate(keys.tolist()) if not math.isnan(key)}
    nans = [i for i, key in enumerate(keys.tolist()) if math.isnan(key)]
    other = np.asarray(default, values.dtype).reshape(-1)[0]
    others = np.array([other, values[nans[-1]] if nans else other], values.dtype)
    order = [last[key] for key in sorted(last)]
    tables = [keys[order], values[order], others]
    return g.call(runtime.look_up, x, *(g.table(name, t) for name, t in zip(("keys", "values", "others"), tables, strict=True)))


def _check_one_hot(call: Call) -> str | None:
    return None if call.attributes.get("cats_int64s") else "torch has no strings: categories"


@translates("ai.onnx.ml::OneHotEncoder", 1, check=_check_one_hot)
def one_hot_encoder(g: Builder, x: Tensor, *, cats_int64s: list[int], zeros: int) -> Tensor:
    """OneHotEncoder → a comparison with all categories."""
    return g.call(runtime.one_hot_of, x, g.table("categories", np.array(cats_int64s, np.int64)), not zeros)
