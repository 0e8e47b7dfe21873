"""Tree ensembles as tables: what the attributes of three operators say, in one form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlconverter.formats.torch.from_onnx.values import Array, UnknownAtConversion

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_EQUAL, _MEMBER = MODES.index("BRANCH_EQ"), MODES.index("BRANCH_MEMBER")


@dataclass(frozen=True)
class Forest:
    """All trees at once. Nodes are numbered: branches first, then leaves, which are their own children.

    Attributes:
        features: the element of the input that a node looks at.
        splits: what it is compared with.
        modes: by which of :data:`MODES`.
        missing: whether a NaN counts as true.
        children: where to go if that is false, and if it is true.
        roots: the root of each tree.
        votes: what each leaf gives to each target; NaN where it gives nothing.
    """

    features: Array
    splits: Array
    modes: Array
    missing: Array
    children: Array
    roots: Array
    votes: Array

    @property
    def branches(self) -> int:
        """How many nodes are no leaves."""
        return len(self.features) - len(self.votes)

    @property
    def always_votes(self) -> bool:
        """Whether every target gets a vote, whatever the input."""
        voting = ~np.isnan(self.votes)
        trees = [voting[leaves - self.branches].all(0) for leaves in self._leaves_by_tree()]
        return bool(np.any(trees, 0).all())

    def _leaves_by_tree(self) -> Iterator[Array]:
        for root in self.roots:
            level, found = np.array([root]), []
            while level.size:
                found.append(level[level >= self.branches])
                level = np.unique(self.children[level[level < self.branches]])
            yield np.concatenate(found)

    @property
    def depth(self) -> int:
        """How many branches there are on the longest way to a leaf.

        Raises:
            UnknownAtConversion: a way does not end.
        """
        level, depth = np.unique(self.roots), 0
        while (level < self.branches).any():
            level, depth = np.unique(self.children[level]), depth + 1
            if depth > self.branches:
                raise UnknownAtConversion("a tree whose branches go round in a circle")
        return depth


@dataclass(frozen=True)
class _Branch:
    """A node that is no leaf; children are numbers of branches, or of leaves as they come behind all branches."""

    feature: int
    split: float
    mode: int
    missing: bool
    children: tuple[int, int]


def _forest(branches: Sequence[_Branch], roots: Sequence[int], votes: Array, dtype: np.dtype[Any]) -> Forest:
    leaves = range(len(branches), len(branches) + len(votes))
    padding = [0] * len(leaves)
    return Forest(
        np.array([*(b.feature for b in branches), *padding], np.int64),
        np.array([*(b.split for b in branches), *padding], dtype),
        np.array([*(b.mode for b in branches), *padding], np.int64),
        np.array([*(b.missing for b in branches), *padding], np.bool_),
        np.array([*(b.children for b in branches), *((leaf, leaf) for leaf in leaves)], np.int64).reshape(-1, 2),
        np.array(roots, np.int64),
        votes,
    )


def of_nodes(attributes: dict[str, Any], votes: str, targets: int) -> Forest:
    """The trees of ``TreeEnsembleClassifier`` and ``TreeEnsembleRegressor``, whose leaves are nodes as others are.

    Args:
        attributes: those of the operator.
        votes: what the attributes of its votes begin with: ``class`` or ``target``.
        targets: how many classes or targets there are.
    """
    names = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    modes = attributes["nodes_modes"]
    leaf = [mode == "LEAF" for mode in modes]
    order = sorted(range(len(names)), key=lambda i: leaf[i])
    numbers = {names[i]: number for number, i in enumerate(order)}
    splits = numbers_of(attributes, "nodes_values")
    missing = attributes.get("nodes_missing_value_tracks_true") or [0] * len(names)
    branches = []
    for i in (i for i in order if not leaf[i]):
        tree = names[i][0]
        no, yes = (numbers[tree, attributes[f"nodes_{side}nodeids"][i]] for side in ("false", "true"))
        mode = MODES.index(modes[i])
        branches.append(_Branch(attributes["nodes_featureids"][i], splits[i], mode, bool(missing[i]), (no, yes)))
    first: dict[int, int] = {}
    for name in names:
        first.setdefault(name[0], numbers[name])
    weights = numbers_of(attributes, f"{votes}_weights")
    given = np.full((sum(leaf), targets), np.nan, weights.dtype)
    voters = zip(attributes[f"{votes}_treeids"], attributes[f"{votes}_nodeids"], strict=True)
    for voter, target, weight in zip(voters, attributes[f"{votes}_ids"], weights, strict=True):
        place = numbers[voter] - len(branches), target
        if place[0] < 0:
            continue  # what is said of a branch counts for nothing
        if not np.isnan(given[place]):
            raise UnknownAtConversion("a leaf that votes for the same target twice")
        given[place] = weight
    return _forest(branches, list(first.values()), given, splits.dtype)


def numbers_of(attributes: dict[str, Any], name: str) -> Array:
    """Real numbers of single precision in an attribute, or of any in a tensor."""
    tensor = attributes.get(f"{name}_as_tensor")
    return np.array(attributes.get(name) or (), np.float32) if tensor is None else np.asarray(tensor).reshape(-1)


def of_leaves(attributes: dict[str, Any], targets: int) -> Forest:
    """The trees of ``TreeEnsemble``, whose leaves are numbered apart from its nodes."""
    modes, splits = (np.asarray(attributes[f"nodes_{name}"]).reshape(-1) for name in ("modes", "splits"))
    weights = np.asarray(attributes["leaf_weights"]).reshape(-1)
    missing = attributes.get("nodes_missing_value_tracks_true") or [0] * len(modes)
    members = _members(attributes.get("membership_values"))
    sets = {i: next(members) for i, mode in enumerate(modes) if mode == _MEMBER}
    # A set of several members is a chain of comparisons with each of them, whose others come behind all nodes.
    more = sum(max(0, len(found) - 1) for found in sets.values())
    count, behind = len(modes) + more, len(modes)
    branches: dict[int, _Branch] = {}
    for i in range(len(modes)):
        no, yes = (
            attributes[f"nodes_{side}nodeids"][i] + (count if attributes[f"nodes_{side}leafs"][i] else 0)
            for side in ("false", "true")
        )
        feature, mode, tracked = attributes["nodes_featureids"][i], int(modes[i]), bool(missing[i])
        values = sets.get(i, [splits[i]])
        if mode == _MEMBER and not values:
            branches[i] = _Branch(feature, np.nan, _EQUAL, tracked, (no, yes))
            continue
        places = [i, *range(behind, behind + len(values) - 1)]
        behind += len(values) - 1
        for place, value, following in zip(places, values, [*places[1:], no], strict=True):
            branches[place] = _Branch(feature, value, _EQUAL if mode == _MEMBER else mode, tracked, (following, yes))
    given = np.full((len(weights), targets), np.nan, weights.dtype)
    given[np.arange(len(weights)), attributes["leaf_targetids"]] = weights
    return _forest([branches[i] for i in range(count)], attributes["tree_roots"], given, splits.dtype)


def _members(values: Array | None) -> Iterator[list[float]]:
    """The sets that stand one behind the other, each ended by a NaN."""
    members: list[float] = []
    for value in () if values is None else np.asarray(values).reshape(-1):
        if np.isnan(value):
            yield members
            members = []
        else:
            members.append(value)
