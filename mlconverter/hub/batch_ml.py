"""What the operators of ``ai.onnx.ml`` do to the batch: most take it for the rows of a matrix."""

from __future__ import annotations

from mlconverter.hub.batch_axis import Batch, Mixes, Op, apart_from, rule
from mlconverter.hub.ml_types import DOMAIN


def _ops(names: str) -> list[str]:
    return [f"{DOMAIN}::{name}" for name in names.split()]


@rule(*_ops("Binarizer LabelEncoder OneHotEncoder"))
def _elementwise(op: Op) -> Batch:
    return op.sole(0)


@rule(*_ops("ArrayFeatureExtractor Imputer Scaler"))
def _along_features(op: Op) -> Batch:
    return apart_from(op, [-1], "takes the features from")


@rule(*_ops("Normalizer"))
def _normalizer(op: Op) -> Batch:
    return apart_from(op, [min(op.rank() - 1, 1)], "normalises over")


@rule(*_ops("FeatureVectorizer"))
def _side_by_side(op: Op) -> Batch:
    return _rows(op, *range(len(op.batches)))


@rule(*_ops("LinearClassifier LinearRegressor SVMClassifier SVMRegressor"))
@rule(*_ops("TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor"))
def _model(op: Op) -> Batch:
    return _rows(op, 0)


def _rows(op: Op, *positions: int) -> Batch:
    batch = op.sole(*positions)
    if batch.axis != 0 or any(op.rank(i) != 2 for i in positions):
        raise Mixes("takes the batch for another axis")
    return batch
