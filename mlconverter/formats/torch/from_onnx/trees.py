"""Tree ensembles of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.forest import Forest, numbers_of, of_leaves, of_nodes
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Tensor, UnknownAtConversion
from mlconverter.hub.nodes import Call

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_NOTHING = {"AVERAGE": 0.0, "SUM": 0.0, "MIN": np.inf, "MAX": -np.inf}


def _votes(g: Builder, x: Tensor, forest: Forest, aggregate: str, base: Any = None) -> Tensor:
    """What all trees give to each target."""
    branches = forest.branches
    kinds = sorted({int(mode) for mode in forest.modes[:branches]}) or [0]
    tables = [g.table(name, getattr(forest, name)) for name in ("roots", "features", "splits", "children")]
    missing = g.table("missing", forest.missing) if forest.missing.any() else None
    modes = g.table("modes", forest.modes) if len(kinds) > 1 else None
    leaves = g.call(runtime.tree_leaves, x, *tables, missing, modes, kinds, forest.depth) - branches
    votes = np.where(np.isnan(forest.votes), np.asarray(_NOTHING[aggregate], forest.votes.dtype), forest.votes)
    return g.call(runtime.tree_votes, leaves, g.table("votes", votes), aggregate, base)


@translates("ai.onnx.ml::TreeEnsemble", 5)
def tree_ensemble(g: Builder, x: Tensor, **attributes: Any) -> Tensor:
    """TreeEnsemble → F.embedding_bag of the leaves to which all trees come, level by level."""
    forest = of_leaves(attributes, attributes["n_targets"])
    aggregate, transform = AGGREGATES[attributes["aggregate_function"]], TRANSFORMS[attributes["post_transform"]]
    votes = _votes(g, x, forest, aggregate)
    return g.call(runtime.post_transform, votes, transform).to(x.dtype)


def _check_regressor(call: Call) -> str | None:
    return lone_transform(call.attributes["n_targets"], call.attributes["post_transform"])


def lone_transform(targets: int, transform: str) -> str | None:
    """Why the transformation of a single score is refused: implementations leave most of them out."""
    if targets == 1 and transform not in ("NONE", "PROBIT"):
        return f"post_transform={transform} of a single target, which ONNX Runtime leaves as it is"
    return None


@translates("ai.onnx.ml::TreeEnsembleRegressor", 1, 3, 5, check=_check_regressor)
def tree_ensemble_regressor(
    g: Builder, x: Tensor, *, n_targets: int, aggregate_function: str, post_transform: str, **attributes: Any
) -> Tensor:
    """TreeEnsembleRegressor → F.embedding_bag of the leaves to which all trees come, level by level."""
    forest, base = of_nodes(attributes, "target", n_targets), numbers_of(attributes, "base_values")
    if base.any() and not forest.always_votes:
        raise UnknownAtConversion("whether a target without a vote gets its base value is not said")
    votes = _votes(g, x, forest, aggregate_function, g.table("base", base) if base.size else None)
    return g.call(runtime.post_transform, votes.to(torch.float32), post_transform)


def _check_classifier(call: Call) -> str | None:
    attributes = call.attributes
    labels, voted = attributes.get("classlabels_int64s") or (), set(attributes["class_ids"])
    base = numbers_of(attributes, "base_values").size
    if attributes.get("classlabels_strings"):
        return "torch has no strings: class labels"
    if len(labels) < 2:
        return "a single class, for which it is not said what the other one is called"
    if len(labels) == 2:
        if voted != {0} or base > 1:
            return "two classes are told apart by votes for the first one alone; with others ONNX Runtime makes up its labels"
        if attributes["post_transform"] not in ("NONE", "LOGISTIC"):
            return f"post_transform={attributes['post_transform']} of two classes, which ONNX Runtime leaves as they are"
    elif base not in (0, len(labels)):
        return f"{base} base values for {len(labels)} classes"
    return None


@translates("ai.onnx.ml::TreeEnsembleClassifier", 1, 3, 5, check=_check_classifier)
def tree_ensemble_classifier(
    g: Builder, x: Tensor, *, classlabels_int64s: list[int], post_transform: str, **attributes: Any
) -> Any:
    """TreeEnsembleClassifier → F.embedding_bag of the leaves to which all trees come, and the label of the largest score."""
    many = len(classlabels_int64s) > 2
    forest, base = of_nodes(attributes, "class", len(classlabels_int64s) if many else 1), numbers_of(attributes, "base_values")
    scores = _votes(g, x, forest, "SUM", g.table("base", base) if base.size else None).to(torch.float32)
    labels = g.table("labels", np.array(classlabels_int64s, np.int64))
    if many:
        if not base.size and not forest.always_votes and (np.nan_to_num(forest.votes) < 0).any():
            raise UnknownAtConversion("whether a class that gets no vote stands above those with negative ones is not said")
        return labels[scores.argmax(1)], g.call(runtime.post_transform, scores, post_transform)
    # Votes that cannot be negative are taken for probabilities.
    share = not (np.nan_to_num(forest.votes) < 0).any()
    first = 1 - scores if share and post_transform == "NONE" else -scores
    label = labels[(scores > (0.5 if share else 0.0)).squeeze(1).to(torch.int64)]
    return label, g.call(runtime.post_transform, torch.cat([first, scores], 1), post_transform)
