"""What layers do to the batch: convolutions, pools, products, resizing and recurrence."""

from __future__ import annotations

from mlconverter.hub.batch_axis import Batch, Mixes, Op, apart_from, beside, rule

# -- the batch in front ------------------------------------------------------------------------------------------------


@rule(
    *"AveragePool Col2Im Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool".split(),
    *"GroupNormalization InstanceNormalization LRN LpPool QLinearConv STFT SpaceToDepth".split(),
)
def _layer(op: Op) -> Batch:
    return _in_front(op, 0)


@rule("MaxPool")
def _max_pool(op: Op) -> Batch:
    if len(op.results) > 1 and op.results[1] is not None:
        raise Mixes("counts the elements of the whole batch in its indices")
    return _in_front(op, 0)


@rule("GridSample")
def _paired(op: Op) -> Batch:
    return _in_front(op, 0, 1)


@rule("DeformConv")
def _deform_conv(op: Op) -> Batch:
    return _in_front(op, 0, 2, 4)  # the input, offsets and masks


@rule("TensorScatter", "LinearAttention")
def _kept(op: Op) -> Batch:
    return _in_front(op, *range(len(op.batches)))


@rule("BatchNormalization")
def _batch_normalization(op: Op) -> Batch:
    if op.attribute("training_mode") or (op.call.version < 7 and not op.attribute("is_test")):
        raise Mixes("normalises with the statistics of the batch")
    return _in_front(op, 0)


def _in_front(op: Op, *positions: int) -> Batch:
    batch = op.sole(*positions)
    if batch.axis != 0:
        raise Mixes("takes the batch for another axis")
    return batch


# -- sizes -------------------------------------------------------------------------------------------------------------


@rule("Resize", "Upsample")
def _resize(op: Op) -> Batch:
    """Inputs: x, roi, scales, sizes; before opset 11 x and scales alone."""
    if op.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Mixes("crops by a region that may cut the batch")
    axes = op.attribute("axes")
    along = list(range(op.rank()) if axes is None else axes)
    if op.ints(3):
        return apart_from(op, along, "gives a fixed size to")
    scales = op.floats(1 if op.call.version < 11 else 2)
    return apart_from(op, [a for a, scale in zip(along, scales, strict=True) if scale != 1], "resizes")


# -- products ----------------------------------------------------------------------------------------------------------


@rule("MatMul")
def _matmul(op: Op) -> Batch:
    return _product(op, 0, 1)


@rule("MatMulInteger")
def _matmul_integer(op: Op) -> Batch:
    return _product(op, 0, 1)


@rule("QLinearMatMul")
def _qlinear_matmul(op: Op) -> Batch:
    return _product(op, 0, 3)


def _product(op: Op, first: int, second: int) -> Batch:
    """Rows of the first, columns of the second, or an axis in front of both; all axes are counted from the end."""
    for i, shape in enumerate(op.shapes):
        if i not in (first, second) and (op.batches[i] is not None or (shape is not None and any(s != 1 for s in shape))):
            raise Mixes("has a scale or zero point for each row or column")
    a, b, left, right = op.batches[first], op.batches[second], op.rank(first), op.rank(second)
    of_a = None if a is None else a.axis - left
    of_b = None if b is None else b.axis - right - int(right == 1)  # a vector on the right is a column
    if of_a == -1 or of_b == -2:
        raise Mixes("adds up over the batch")
    if a is not None and b is not None and (of_a != of_b or of_a == -2 or of_b == -1):
        raise Mixes("multiplies every item of the batch with every other")
    batch, place = (a, of_a) if a is not None else (b, of_b)
    assert batch is not None and place is not None
    rank = max(left, right, 2)
    if place < -2:
        for i, given in ((first, a), (second, b)):
            if given is None:
                beside(batch.at(rank + place), op.shape(i), rank)
    return batch.at(rank + place - int(place == -1 and left == 1))


@rule("Gemm")
def _gemm(op: Op) -> Batch:
    a, b = op.batches[:2]
    if a is not None and b is not None:
        raise Mixes("multiplies every item of the batch with every other")
    if a is not None and a.axis == int(bool(op.attribute("transA"))):
        batch = a.at(0)
    elif b is not None and b.axis == 1 - int(bool(op.attribute("transB"))):
        batch = b.at(1)
    else:
        raise Mixes("adds up over the batch" if a or b else "adds a value for each item to one for all")
    if op.has(2):
        c = op.batches[2]
        if c is None:
            beside(batch, op.shape(2), 2)
        elif c.at(c.axis + 2 - op.rank(2)) != batch:
            raise Mixes("pairs the items of one value with other axes of another")
    return batch


@rule("Einsum")
def _einsum(op: Op) -> Batch:
    terms, _, result = op.attribute("equation").replace(" ", "").partition("->")
    if "." in terms or not result:
        raise Mixes("is written in a way in which the batch cannot be followed")
    letters = terms.split(",")
    found = {(letters[i][b.axis], b.rows) for i, b in enumerate(op.batches) if b is not None}
    letter, rows = next(iter(found))
    alone = all((letter in term) == (op.batches[i] is not None) and term.count(letter) < 2 for i, term in enumerate(letters))
    if len(found) > 1 or not alone or letter not in result:
        raise Mixes("adds up over the batch, or pairs its items")
    return Batch(result.index(letter), rows)


# -- recurrence --------------------------------------------------------------------------------------------------------


@rule("LSTM", "GRU", "RNN")
def _recurrent(op: Op) -> tuple[Batch, ...]:
    """Inputs: x, W, R, B, lengths, first states, peepholes. Outputs: all states, the last ones."""
    front = bool(op.attribute("layout", 0))
    wanted = {0: 1 - front, 4: 0, **dict.fromkeys((5, 6), 1 - front)}
    for position, batch in enumerate(op.batches):
        axis = wanted.get(position)
        if batch is not None and batch.axis != axis:
            raise Mixes("takes the batch for another axis")
        if batch is None and axis is not None and op.has(position):
            raise Mixes("takes a value for each item that is one for all")
    batch = op.batches[0]
    assert batch is not None
    return tuple(batch.at(axis) for axis in ((0, 0, 0) if front else (2, 1, 1))[: len(op.results)])
