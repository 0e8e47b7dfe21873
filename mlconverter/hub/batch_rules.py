"""What each operator does to the batch: where its result has it, or why items of the batch would meet."""

from __future__ import annotations

from mlconverter.hub.batch_axis import Batch, Mixes, Op, aligned, apart_from, normal, product, rule

# -- element by element ------------------------------------------------------------------------------------------------


@rule(
    *"Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity "
    "IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt "
    "Swish Tan Tanh ThresholdedRelu".split(),
    *"Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Clip Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod "
    "Mul Or PRelu Pow Sub Sum SwiGLU Where Xor".split(),
)
def _elementwise(op: Op) -> Batch:
    if len({len(s) for s in op.shapes if s is not None}) > 1 and op.attribute("broadcast"):
        raise Mixes("broadcasts as operators did before opset 7")
    return aligned(op, range(len(op.shapes)), len(op.result))


@rule("BitCast", "Cast", "Dropout", "CastLike")
def _first(op: Op) -> Batch | tuple[Batch | None, ...]:
    if op.batches[0] is None:  # the batch is in the value whose dtype is wanted
        return (None,) * len(op.results)
    return op.batches[0]


@rule("QuantizeLinear", "DequantizeLinear")
def _quantised(op: Op) -> Batch:
    batch = op.sole(0)
    per_axis = len(op.shape(1)) > 0 and product(op.shape(1)) != 1
    return apart_from(op, [op.attribute("axis", 1)], "has a scale for each item of") if per_axis else batch


@rule("Shape", "Size")
def _sizes(op: Op) -> tuple[None, ...]:
    return (None,) * len(op.results)  # how many items there are, and nothing of what is in them


@rule("Constant")
def _constant(op: Op) -> tuple[None, ...]:
    return (None,) * len(op.results)


@rule("CumSum", "CumProd")
def _running(op: Op) -> Batch:
    return apart_from(op, op.ints(1) or (), "accumulates along")


# -- along axes --------------------------------------------------------------------------------------------------------


@rule("Softmax", "LogSoftmax", "Hardmax")
def _softmax(op: Op) -> Batch:
    # Before opset 13 all axes from this one on are one.
    return apart_from(op, range(op.axis, op.rank()) if op.call.version < 13 else [op.axis], "normalises over")


@rule("DFT")
def _dft(op: Op) -> Batch:
    axis = op.attribute("axis", (op.ints(2) or [-2])[0])
    return apart_from(op, [axis, -1], "transforms")


@rule("TfIdfVectorizer")
def _n_grams(op: Op) -> Batch:
    return apart_from(op, [-1], "counts along")


@rule("LpNormalization")
def _lp_normalization(op: Op) -> Batch:
    return apart_from(op, [op.axis], "normalises over")


@rule("LayerNormalization", "RMSNormalization")
def _layer_normalization(op: Op) -> Batch:
    return apart_from(op, range(op.axis, op.rank()), "normalises over")


@rule("MeanVarianceNormalization")
def _mean_variance(op: Op) -> Batch:
    return apart_from(op, op.attribute("axes"), "normalises over")


@rule(*(f"Reduce{k}" for k in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()))
def _reduce(op: Op) -> Batch:
    axes = op.ints(1)
    if not axes:
        if op.attribute("noop_with_empty_axes"):
            return op.sole(0)
        axes = list(range(op.rank()))
    batch = apart_from(op, axes, "reduces")
    return batch if op.attribute("keepdims") else _without(batch, axes, op.rank())


@rule("ArgMax", "ArgMin")
def _arg(op: Op) -> Batch:
    axes = [op.axis]
    batch = apart_from(op, axes, "picks one item of")
    return batch if op.attribute("keepdims") else _without(batch, axes, op.rank())


@rule("TopK", "Split")
def _parts(op: Op) -> Batch:
    return apart_from(op, [op.axis], "sorts" if op.call.op == "TopK" else "splits")


@rule("Concat")
def _concat(op: Op) -> Batch:
    batch = op.sole(*range(len(op.batches)))
    if batch.axis == op.axis:
        raise Mixes("joins values along the batch")
    return batch


@rule("Pad")
def _pad(op: Op) -> Batch:
    pads, axes = op.ints(1) or [], op.ints(3)
    along = range(op.rank()) if axes is None else axes
    padded = [a for i, a in enumerate(along) if pads[i] or pads[i + len(pads) // 2]]
    return apart_from(op, padded, "pads")


@rule("Slice")
def _slice(op: Op) -> Batch:
    axes = op.ints(3)
    return apart_from(op, range(len(op.ints(1) or ())) if axes is None else axes, "takes a part of")


@rule("CenterCropPad")
def _center_crop_pad(op: Op) -> Batch:
    axes = op.attribute("axes")
    return apart_from(op, range(op.rank()) if axes is None else axes, "crops or pads")


@rule("Trilu", "Det", "com.microsoft::Inverse")
def _matrices(op: Op) -> Batch:
    return apart_from(op, (-2, -1), "takes matrices across")


@rule("Tile")
def _tile(op: Op) -> Batch:
    return apart_from(op, [a for a, n in enumerate(op.ints(1) or ()) if n != 1], "repeats")


@rule("ReverseSequence")
def _reverse_sequence(op: Op) -> Batch:
    along, time = op.attribute("batch_axis"), op.attribute("time_axis")
    if op.batches[1] is None:
        return apart_from(op, (along, time), "reverses a length for each item of")
    if op.batches[0] is None or op.batches[0].axis != along or op.batches[1] != op.batches[0].at(0):
        raise Mixes("reverses sequences whose lengths are those of other items")
    return op.batches[0]


# -- picking -----------------------------------------------------------------------------------------------------------


@rule("Gather")
def _gather(op: Op) -> Batch:
    axis = op.axis
    if op.batches[0] is None:
        batch = op.sole(1)
        return batch.at(axis + batch.axis)
    batch = apart_from(op, [axis], "picks from")
    return batch if batch.axis < axis else batch.at(batch.axis - 1 + op.rank(1))


@rule("GatherElements", "ScatterElements", "Scatter")
def _elements(op: Op) -> Batch:
    batch = op.sole(*range(len(op.batches)))
    if batch.axis == op.axis:
        raise Mixes("picks from the batch")
    return batch


@rule("GatherND")
def _gather_nd(op: Op) -> Batch:
    depth, batches = op.shape(1)[-1], op.attribute("batch_dims", 0)
    if op.batches[0] is None:
        batch = op.sole(1)
        if batch.axis < batches or batch.axis == op.rank(1) - 1:
            raise Mixes("picks for each item of the batch from one value")
        return batch
    if op.batches[1] is not None:
        batch = op.sole(0, 1)
        if batch.axis >= batches:
            raise Mixes("picks from the batch")
        return batch
    batch = op.sole(0)
    if depth is None or batch.axis < batches + depth:
        raise Mixes("picks from the batch")
    return batch.at(op.rank(1) - 1 + batch.axis - batches - depth)


@rule("OneHot")
def _one_hot(op: Op) -> Batch:
    batch = op.sole(0)
    return batch if batch.axis < normal(op.attribute("axis"), op.rank() + 1) else batch.at(batch.axis + 1)


@rule("Compress")
def _compress(op: Op) -> Batch:
    axis = op.attribute("axis")
    return apart_from(op, range(op.rank()) if axis is None else [axis], "picks from")


@rule(
    "NonZero",
    "Unique",
    "ScatterND",
    "NonMaxSuppression",
    "RoiAlign",
    "MaxRoiPool",
    "AffineGrid",
    "MelWeightMatrix",
    "MaxUnpool",
    "DynamicQuantizeLinear",
    "Range",
    "ConstantOfShape",
    "EyeLike",
)
def _across(op: Op) -> Batch:
    raise Mixes("gives one result for all items of the batch together")


@rule("If", "Loop", "Scan", "SequenceMap")
def _graphs(op: Op) -> Batch:
    raise Mixes("runs graphs of its own, in which the batch is not followed")


@rule(
    *"SequenceConstruct SequenceEmpty SequenceInsert SequenceErase SequenceAt SequenceLength SplitToSequence".split(),
    *"ConcatFromSequence Optional OptionalGetElement OptionalHasElement".split(),
)
def _sequences(op: Op) -> Batch:
    raise Mixes("works on sequences or optional values, in which the batch is not followed")


# -- shapes ------------------------------------------------------------------------------------------------------------


@rule("Reshape")
def _reshape(op: Op) -> Batch:
    """The items stay apart wherever the axes before the batch are the same; the sizes are adapted to it afterwards."""
    batch, shape, result = op.sole(0), op.shape(0), op.result
    op.ints(1)
    before = product(shape[: batch.axis])
    places = [axis for axis in range(len(result)) if before is not None and product(result[:axis]) == before]
    if not places:
        raise Mixes("merges the batch with other axes")
    axis = batch.axis if batch.axis in places and result[: batch.axis] == shape[: batch.axis] else places[0]
    return Batch(axis, _known(result[axis]))


@rule("Flatten")
def _flatten(op: Op) -> Batch:
    batch, shape = op.sole(0), op.shape(0)
    axis = op.axis
    front = batch.axis < axis
    start, end = (0, axis) if front else (axis, len(shape))
    if product(shape[start : batch.axis]) != 1:
        raise Mixes("merges the batch with other axes")
    return Batch(0 if front else 1, _known(product(shape[start:end])))


@rule("Transpose")
def _transpose(op: Op) -> Batch:
    batch = op.sole(0)
    perm = op.attribute("perm") or list(reversed(range(op.rank())))
    return batch.at(perm.index(batch.axis))


@rule("Squeeze")
def _squeeze(op: Op) -> Batch:
    axes = op.ints(1)
    batch = apart_from(op, range(op.rank()) if axes is None else axes, "drops")
    return _without(batch, axes or [], op.rank())


@rule("Unsqueeze")
def _unsqueeze(op: Op) -> Batch:
    batch, axes = op.sole(0), op.ints(1) or []
    rank = op.rank() + len(axes)
    new = {normal(a, rank) for a in axes}
    return batch.at([a for a in range(rank) if a not in new][batch.axis])


@rule("Expand")
def _expand(op: Op) -> Batch:
    batch, target = op.sole(0), op.ints(1) or []
    axis = batch.axis + len(op.result) - op.rank()
    entry = axis - len(op.result) + len(target)
    if entry >= 0 and target[entry] != 1:
        raise Mixes("expands the batch to a fixed size")
    return batch.at(axis)


def _without(batch: Batch, axes: list[int], rank: int) -> Batch:
    """The batch of what is left when axes are dropped."""
    dropped = {normal(a, rank) for a in axes}
    return batch.at(batch.axis - sum(a < batch.axis for a in dropped))


def _known(size: int | None) -> int:
    if size is None:
        raise Mixes("gives each item of the batch a number of rows that is not known")
    return size
