"""Operators of ai.onnx.ml: what they do to features, linear models, support vectors and tree ensembles."""

from typing import Any

import numpy as np

from tests.ops.onnx_torch.cases_more import Fed, always, normal
from tests.ops.onnx_torch.models import FLOAT, INT64, ints

ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ")
"""Without BRANCH_NEQ: of a NaN ONNX Runtime takes it for true whatever the node says."""


def floats(*shape: int, seed: int = 0) -> list[float]:
    return [float(v) for v in normal(*shape, seed=seed).reshape(-1)]


def whole(*shape: int, kind: type = np.int64) -> np.ndarray:
    return np.random.default_rng(shape[0]).integers(-2, 5, shape).astype(kind)


# -- features ----------------------------------------------------------------------------------------------------------


def _features() -> list[Fed]:
    def case(name: str, op: str, *inputs: Any, opset: int = 1, kind: int = FLOAT, **attributes: Any) -> Fed:
        return Fed(f"{name} {attributes}", op, inputs, attributes, opset, (kind,), ML)

    x, y, z = (lambda b: normal(b, 4)), (lambda b: whole(b, 4)), (lambda b: normal(b, 4).astype(np.float64))
    cases = [
        case("rows", "ArrayFeatureExtractor", x, ints(3, 0, 1)),
        case("whole", "ArrayFeatureExtractor", y, always(ints(2)), kind=INT64),
        case("row", "ArrayFeatureExtractor", always(normal(5)), ints(3, 0)),
        case("deep", "ArrayFeatureExtractor", lambda b: normal(b, 2, 4), ints(1, 1).reshape(1, 2)),
        case("plain", "Binarizer", x),
        case("above", "Binarizer", x, threshold=0.5),
    ]
    for name, given in (("float", x), ("whole", y), ("double", z)):
        cases.append(case(name, "Scaler", given, offset=[0.5], scale=[2.0]))
        cases.append(case(name, "Scaler", given, offset=floats(4), scale=floats(4, seed=2)))
        cases += [case(name, "Normalizer", given, **more) for more in ({}, {"norm": "MAX"}, {"norm": "L1"}, {"norm": "L2"})]
    cases.append(case("row", "Normalizer", always(normal(4)), norm="L2"))
    cases.append(case("zeros", "Normalizer", lambda b: np.zeros((b, 3), np.float32), norm="L1"))
    holes = lambda b: np.where(normal(b, 4) > 0, np.float32(np.nan), normal(b, 4))  # noqa: E731
    cases.append(case("nan", "Imputer", holes, imputed_value_floats=floats(4), replaced_value_float=float("nan")))
    cases.append(case("nan", "Imputer", holes, imputed_value_floats=[7.0], replaced_value_float=float("nan")))
    cases.append(case("whole", "Imputer", y, kind=INT64, imputed_value_int64s=[9], replaced_value_int64=1))
    cases.append(case("zero", "Imputer", y, kind=INT64, imputed_value_int64s=[9, 8, 7, 6]))
    cases.append(case("two", "FeatureVectorizer", x, lambda b: normal(b, 2), inputdimensions=[4, 2]))
    cases.append(case("whole", "FeatureVectorizer", y, lambda b: whole(b, 3), inputdimensions=[4, 3]))
    for opset in (2, 4):
        numbers = {"keys_int64s": [3, -1, 4], "values_floats": [0.5, 2.5, -1.0]}
        cases.append(case("numbers", "LabelEncoder", y, opset=opset, **numbers))
        cases.append(case("numbers", "LabelEncoder", y, opset=opset, default_float=9.0, **numbers))
        back = {"keys_floats": [0.5, 2.5, float("nan")], "values_int64s": [4, 5, 6]}
        given = np.array([[2.5, 0.5, np.nan, 3]], np.float32)[:, : 4 if opset == 4 else 2]  # of old opsets it misses NaN
        cases.append(case("back", "LabelEncoder", always(given), opset=opset, kind=INT64, **back))
        same = {"keys_int64s": [3, -1], "values_int64s": [1, 2], "default_int64": 77}
        cases.append(case("same", "LabelEncoder", y, opset=opset, kind=INT64, **same))
    for name, given in (("whole", y), ("real", lambda b: whole(b, 4).astype(np.float32) + np.float32(0.25) * (whole(b, 4) > 0))):
        cases.append(case(name, "OneHotEncoder", given, cats_int64s=[3, 0, 1]))
        cases.append(case(name, "OneHotEncoder", given, cats_int64s=[-2, -1, 0, 1, 2, 3, 4], zeros=0))
    cases.append(case("row", "OneHotEncoder", always(whole(4)), cats_int64s=[3, 0, 1]))
    return cases


# -- linear models and support vectors ---------------------------------------------------------------------------------

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _models() -> list[Fed]:
    def case(name: str, op: str, x: Any, outputs: tuple[int, ...], **attributes: Any) -> Fed:
        listed = {k: v for k, v in attributes.items() if not isinstance(v, list)}
        return Fed(f"{name} {listed}", op, (x,), attributes, 1, outputs, ML)

    x, cases = lambda b: normal(b, 3), []
    inputs = {"float": x, "whole": lambda b: whole(b, 3), "double": lambda b: normal(b, 3).astype(np.float64)}
    both = (INT64, FLOAT)
    cases.append(case("1", "LinearRegressor", x, (FLOAT,), coefficients=floats(3), intercepts=[0.5]))
    for classes in (2, 3):
        labels = [4, 9, 7][:classes]
        for transform in TRANSFORMS:
            shared = {"coefficients": floats(classes, 3), "post_transform": transform}
            cases.append(case(f"{classes}", "LinearRegressor", x, (FLOAT,), targets=classes, **shared))
            shared |= {"intercepts": floats(classes, seed=3)}
            cases.append(case(f"{classes} shifted", "LinearRegressor", x, (FLOAT,), targets=classes, **shared))
            cases.append(case(f"{classes}", "LinearClassifier", x, both, classlabels_ints=labels, **shared))
    for kind, given in inputs.items():
        shared = {"coefficients": floats(3), "intercepts": [0.2], "classlabels_ints": [3, 5]}
        cases.append(case(kind, "LinearClassifier", given, both, post_transform="LOGISTIC", **shared))
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        shared = {"kernel_type": kind, "kernel_params": [0.4, 0.3, 2.0]}
        for one in (0, 1):
            more = {"coefficients": floats(5), "support_vectors": floats(5, 3, seed=2), "n_supports": 5, "rho": [0.1]}
            cases.append(case("vectors", "SVMRegressor", x, (FLOAT,), one_class=one, **more, **shared))
            cases.append(case("none", "SVMRegressor", x, (FLOAT,), coefficients=floats(3), rho=[0.1], one_class=one, **shared))
        for classes in (2, 3, 4):
            per_class = [3, 2, 4, 1][:classes]
            pairs, vectors = classes * (classes - 1) // 2, sum(per_class)
            more = {"classlabels_ints": [7, 3, 5, 4][:classes], "vectors_per_class": per_class, "rho": floats(pairs, seed=4)}
            more |= {"coefficients": floats(classes - 1, vectors), "support_vectors": floats(vectors, 3, seed=2), **shared}
            sure = {"prob_a": [-abs(v) for v in floats(pairs, seed=5)], "prob_b": floats(pairs, seed=6)}
            for transform in TRANSFORMS if kind == "RBF" else TRANSFORMS[:1]:
                cases.append(case(f"{classes} sure", "SVMClassifier", x, both, post_transform=transform, **more, **sure))
                if classes > 2 or transform in ("NONE", "LOGISTIC"):
                    cases.append(case(f"{classes}", "SVMClassifier", x, both, post_transform=transform, **more))
    more = {"kernel_params": [0.0] * 3, "classlabels_ints": [7, 3, 5], "coefficients": floats(3, 3), "rho": [0.1]}
    cases.append(case("none", "SVMClassifier", x, both, **more))
    return cases


# -- trees -------------------------------------------------------------------------------------------------------------


def trees(kind: str, votes: list[int], count: int = 4, depth: int = 3, modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """Random trees over four features, as attributes; every leaf votes for these targets."""
    rng = np.random.default_rng(0)
    nodes: list[tuple[Any, ...]] = []
    given: list[tuple[int, int, int, float]] = []
    for tree in range(count):
        todo, made = [(0, 0)], 1
        while todo:
            node, level = todo.pop(0)
            if level == depth or (level and rng.random() < 0.2):
                nodes.append((tree, node, 0, 0.0, "LEAF", 0, 0, 0))
                given += [(tree, node, target, float(np.float32(rng.normal()))) for target in votes]
                continue
            split = float(np.float32(round(rng.normal(), 1)))
            nodes.append((tree, node, int(rng.integers(4)), split, str(rng.choice(modes)), made, made + 1, int(rng.integers(2))))
            todo += [(made, level + 1), (made + 1, level + 1)]
            made += 2
    names = "treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true".split()
    attributes = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*nodes, strict=True), strict=True)}
    columns = zip(("treeids", "nodeids", "ids", "weights"), zip(*given, strict=True), strict=True)
    return attributes | {f"{kind}_{name}": list(column) for name, column in columns}


def rows(batch: int) -> np.ndarray:
    x = normal(batch + 4, 4).round(1)
    x[1, 2] = x[3, 0] = np.nan
    return x


def _trees() -> list[Fed]:
    cases = []

    def add(name: str, op: str, x: Any, opset: int, outputs: tuple[int, ...], attributes: dict[str, Any]) -> None:
        cases.append(Fed(name, op, (x,), attributes, opset, outputs, ML))

    for targets in (1, 3):
        for opset, base in ((1, None), (3, floats(targets))):
            for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
                for transform in TRANSFORMS if targets > 1 else ("NONE", "PROBIT"):
                    more = {"n_targets": targets, "aggregate_function": aggregate, "post_transform": transform}
                    more |= {} if base is None else {"base_values": base}
                    attributes = trees("target", list(range(targets)), modes=MODES if opset == 3 else MODES[:1]) | more
                    name = f"{targets} {aggregate} {transform} {base is None}"
                    add(name, "TreeEnsembleRegressor", rows, opset, (FLOAT,), attributes)
    both = (INT64, FLOAT)
    for base in ({}, {"base_values": floats(3)}):
        for transform in TRANSFORMS:
            more = {"classlabels_int64s": [4, 9, 7], "post_transform": transform} | base
            add(f"3 {transform} {not base}", "TreeEnsembleClassifier", rows, 1, both, trees("class", [0, 1, 2]) | more)
    for base in ({}, {"base_values": [0.3]}):
        for transform in ("NONE", "LOGISTIC"):
            more = {"classlabels_int64s": [4, 9], "post_transform": transform} | base
            voted = trees("class", [0])
            add(f"2 {transform} {not base}", "TreeEnsembleClassifier", rows, 3, both, voted | more)
            voted["class_weights"] = [abs(w) / 4 for w in voted["class_weights"]]
            add(f"2 {transform} {not base} shares", "TreeEnsembleClassifier", rows, 3, both, voted | more)
    lone = trees("target", [0], count=2, depth=0) | {"n_targets": 1}
    add("leaves alone", "TreeEnsembleRegressor", rows, 3, (FLOAT,), lone)
    voted = trees("class", [0, 1, 2]) | {"classlabels_int64s": [4, 9, 7]}
    for name, given in (("whole", lambda b: whole(b, 4)), ("double", lambda b: rows(b).astype(np.float64))):
        add(name, "TreeEnsembleClassifier", given, 1, both, voted)
    double = lambda b: rows(b).astype(np.float64)  # noqa: E731
    add("double", "TreeEnsembleRegressor", double, 1, (FLOAT,), trees("target", [0, 1]) | {"n_targets": 2})
    return cases


ML_CASES: list[Fed] = [*_features(), *_models(), *_trees()]
