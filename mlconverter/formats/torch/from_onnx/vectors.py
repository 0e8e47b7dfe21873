"""Support vector machines and linear models of ai.onnx.ml."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.trees import lone_transform
from mlconverter.formats.torch.from_onnx.values import Tensor
from mlconverter.hub.nodes import Call


def _real(x: Tensor) -> Any:
    """The input as single-precision numbers, which is what coefficients in attributes are."""
    return x if x.dtype is torch.float32 else x.to(torch.float32)


def _matrix(g: Builder, name: str, numbers: list[float], rows: int) -> Tensor:
    return g.table(name, np.array(numbers, np.float32).reshape(rows, -1))


def _vector(g: Builder, name: str, numbers: list[float] | None) -> Tensor | None:
    return g.table(name, np.array(numbers, np.float32)) if numbers else None


# -- linear ------------------------------------------------------------------------------------------------------------


def _check_linear_regressor(call: Call) -> str | None:
    return lone_transform(call.attributes["targets"], call.attributes["post_transform"])


@translates("ai.onnx.ml::LinearRegressor", 1, check=_check_linear_regressor)
def linear_regressor(
    g: Builder, x: Tensor, *, coefficients: list[float], targets: int, post_transform: str, intercepts: list[float] | None = None
) -> Tensor:
    """LinearRegressor → F.linear."""
    weight = _matrix(g, "coefficients", coefficients, targets)
    return g.call(runtime.post_transform, F.linear(_real(x), weight, _vector(g, "intercepts", intercepts)), post_transform)


def _no_labels(attributes: dict[str, Any]) -> str | None:
    labels = attributes.get("classlabels_ints") or ()
    if attributes.get("classlabels_strings"):
        return "torch has no strings: class labels"
    return "a single class, for which it is not said what the other one is called" if len(labels) < 2 else None


def _check_linear_classifier(call: Call) -> str | None:
    labels, rows = call.attributes.get("classlabels_ints") or (), len(call.attributes.get("intercepts") or ())
    if rows == 1 and len(labels) == 2 and call.attributes["post_transform"] != "LOGISTIC":
        return "one score for two classes, of which the other one is said with post_transform=LOGISTIC alone"
    if rows not in (1, len(labels)) or (rows == 1 and len(labels) > 2):
        return f"{rows} intercepts for {len(labels)} classes"
    return _no_labels(call.attributes)


@translates("ai.onnx.ml::LinearClassifier", 1, check=_check_linear_classifier)
def linear_classifier(
    g: Builder,
    x: Tensor,
    *,
    coefficients: list[float],
    intercepts: list[float],
    classlabels_ints: list[int],
    post_transform: str,
    multi_class: int,
) -> Any:
    """LinearClassifier → F.linear, and the label of the largest score."""
    labels = g.table("labels", np.array(classlabels_ints, np.int64))
    weight = _matrix(g, "coefficients", coefficients, len(intercepts))
    scores = F.linear(_real(x), weight, _vector(g, "intercepts", intercepts))
    if len(intercepts) == 1:
        scores = torch.cat([-scores, scores], 1)
    return labels[scores.argmax(1)], g.call(runtime.post_transform, scores, post_transform)


# -- with support vectors ----------------------------------------------------------------------------------------------


def _alike(g: Builder, x: Tensor, vectors: Tensor, kind: str, parameters: list[float] | None) -> Tensor:
    gamma, shift, degree = parameters or (0.0, 0.0, 0.0)
    return g.call(runtime.kernel, _real(x), vectors, kind, gamma, shift, degree)


def _check_svm_regressor(call: Call) -> str | None:
    transform = call.attributes["post_transform"]
    return None if transform == "NONE" else f"post_transform={transform}, which ONNX Runtime leaves out"


@translates("ai.onnx.ml::SVMRegressor", 1, check=_check_svm_regressor)
def svm_regressor(
    g: Builder,
    x: Tensor,
    *,
    coefficients: list[float],
    rho: list[float],
    n_supports: int,
    one_class: int,
    kernel_type: str,
    post_transform: str,
    kernel_params: list[float] | None = None,
    support_vectors: list[float] | None = None,
) -> Any:
    """SVMRegressor → a sum of kernels; a product with the coefficients where there are no support vectors."""
    weight, added = _matrix(g, "coefficients", coefficients, 1), rho[0]
    alike: Any = _real(x)
    if n_supports:
        vectors = _matrix(g, "vectors", support_vectors or [], n_supports)
        alike = _alike(g, x, vectors, kernel_type, kernel_params)
    y = F.linear(alike, weight) + added
    return torch.where(y > 0, 1.0, -1.0) if one_class else y


def _check_svm_classifier(call: Call) -> str | None:
    attributes = call.attributes
    labels = attributes.get("classlabels_ints") or ()
    if attributes.get("vectors_per_class"):
        if len(labels) == 2 and not attributes.get("prob_a"):
            if attributes["post_transform"] not in ("NONE", "LOGISTIC"):
                return f"post_transform={attributes['post_transform']} of two classes, which ONNX Runtime leaves as they are"
            if min(attributes["coefficients"]) >= 0:
                return "coefficients of two classes none of which is negative, where implementations give other labels"
    elif len(labels) == 2 or len(set(attributes["rho"])) > 1:
        return "no support vectors, and two classes or more than one rho, where implementations give other labels"
    return _no_labels(attributes)


@translates("ai.onnx.ml::SVMClassifier", 1, check=_check_svm_classifier)
def svm_classifier(
    g: Builder,
    x: Tensor,
    *,
    classlabels_ints: list[int],
    coefficients: list[float],
    rho: list[float],
    kernel_type: str,
    post_transform: str,
    kernel_params: list[float] | None = None,
    support_vectors: list[float] | None = None,
    vectors_per_class: list[int] | None = None,
    prob_a: list[float] | None = None,
    prob_b: list[float] | None = None,
) -> Any:
    """SVMClassifier → duels of all pairs of classes by sums of kernels; probabilities as libsvm couples them."""
    labels, classes = g.table("labels", np.array(classlabels_ints, np.int64)), len(classlabels_ints)
    if not vectors_per_class:
        scores: Any = F.linear(_real(x), _matrix(g, "coefficients", coefficients, classes)) + rho[0]
        return labels[scores.argmax(1)], g.call(runtime.post_transform, scores, post_transform)
    ends = [0, *accumulate(vectors_per_class)]
    alike = _alike(g, x, _matrix(g, "vectors", support_vectors or [], ends[-1]), kernel_type, kernel_params)
    weight, added = _matrix(g, "coefficients", coefficients, classes - 1), _vector(g, "rho", rho)
    scores = g.call(runtime.duels, alike, weight, added, ends)
    label = labels[g.call(runtime.winner, scores, classes)]
    if prob_a:
        scores = g.call(runtime.coupled, scores, _vector(g, "prob_a", prob_a), _vector(g, "prob_b", prob_b), classes)
    elif classes == 2:
        scores = torch.cat([-scores, scores], 1)
    return label, g.call(runtime.post_transform, scores, post_transform)
