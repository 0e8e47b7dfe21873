"""Orders are arithmetic: checked against numpy on every case that there is."""

import itertools

import numpy as np
import pytest

from mlconverter.formats.tflite import layout

ORDERS = [order for rank in range(1, 5) for order in itertools.permutations(range(rank))]
SIZES = (2, 3, 5, 7)


def value(rank):
    return np.arange(np.prod(SIZES[:rank])).reshape(SIZES[:rank])


@pytest.mark.parametrize("order", ORDERS)
def test_permutation_between_orders(order):
    x = value(len(order))
    for want in itertools.permutations(range(len(order))):
        moved = x.transpose(order).transpose(layout.permutation(order, want))
        np.testing.assert_array_equal(moved, x.transpose(want))
    np.testing.assert_array_equal(x.transpose(order).transpose(layout.inverse(order)), x)
    assert layout.arranged(order, x.shape) == x.transpose(order).shape


@pytest.mark.parametrize("order", ORDERS)
def test_axes_come_and_go(order):
    x = value(len(order))
    for axis in range(len(order)):
        (place,) = layout.positions(order, [axis - len(order)])
        left = layout.without(order, [axis])
        np.testing.assert_array_equal(x.transpose(order).sum(place), x.sum(axis).transpose(left))
    for axis in range(len(order) + 1):
        more, place = layout.inserted(order, axis)
        np.testing.assert_array_equal(np.expand_dims(x.transpose(order), place), np.expand_dims(x, axis).transpose(more))
    assert layout.inserted(layout.logical(len(order)), len(order))[0] == layout.logical(len(order) + 1)


@pytest.mark.parametrize("order", ORDERS)
def test_renaming(order):
    x = value(len(order))
    for perm in itertools.permutations(range(len(order))):
        np.testing.assert_array_equal(x.transpose(order), x.transpose(perm).transpose(layout.renamed(order, perm)))


@pytest.mark.parametrize("order", ORDERS)
def test_broadcasting(order):
    x = value(len(order))
    for rank in range(len(order) + 1):
        y = np.asarray(value(4)[:1, :1, :1, 0][0, 0, 0]) if rank == 0 else value(len(order))[(0,) * (len(order) - rank)]
        own = layout.trailing(order, rank)
        gaps = layout.broadcast_gaps(order, rank)
        left_away = len(order) - rank - len(gaps)
        aligned = np.expand_dims(y.transpose(own), tuple(g - left_away for g in gaps))
        np.testing.assert_array_equal(x.transpose(order) + aligned, (x + y).transpose(order))


SHAPES = [(2, 3, 4), (6, 4), (24,), (2, 12), (1, 2, 3, 4), (2, 3, 1, 4), (2, 1, 12), (4, 6), (2, 3, 2, 2), (3, 2, 4), (1, 24, 1)]


@pytest.mark.parametrize(("before", "after"), list(itertools.product(SHAPES, SHAPES)))
def test_reshape_in_every_order(before, after):
    x = np.arange(24).reshape(before)
    for order in itertools.permutations(range(len(before))):
        result = layout.through_reshape(order, before, after)
        if result is None:
            continue
        stored = x.transpose(order).reshape(layout.arranged(result, after))
        np.testing.assert_array_equal(stored, x.reshape(after).transpose(result))
    assert layout.through_reshape(layout.logical(len(before)), before, after) == layout.logical(len(after))


def test_reshape_keeps_channels_first_where_it_can():
    order = layout.channels_first(4)
    assert layout.through_reshape(order, (1, 4, 5, 3), (1, 20, 3)) == (0, 2, 1)
    assert layout.through_reshape(order, (None, 4, 5, 3), (None, 20, 3)) == (0, 2, 1)
    assert layout.through_reshape(order, (1, 4, 5, 3), (1, 4, 15)) is None
    assert layout.through_reshape(order, (1, 1, 1, 3), (1, 3)) == (0, 1)
    assert layout.through_reshape(order, (1, 4, 5, 6), (1, 4, 5, 2, 3)) == (0, 3, 4, 1, 2)
    assert layout.through_reshape(order, (None, 4, 5, 3), (1, 20, 3)) is None
    assert layout.through_reshape((0, 1), (None, None), (None, 3)) is None


def test_the_most_common_order():
    last, first = layout.logical(4), layout.channels_first(4)
    assert layout.most_common([[first], [last], [first]]) == first
    assert layout.most_common([[last], [first]]) == last
    assert layout.most_common([[first], [last, first]]) == first


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_channels_first_and_last_undo_each_other(rank):
    assert layout.inverse(layout.channels_last(rank)) == layout.channels_first(rank)


@pytest.mark.parametrize("order", ORDERS)
def test_one_axis_last(order):
    for axis in order:
        moved = layout.with_last(order, axis)
        assert moved[-1] == axis and [a for a in moved if a != axis] == [a for a in order if a != axis]


@pytest.mark.parametrize("before", SHAPES)
@pytest.mark.parametrize("after", SHAPES)
def test_the_nearest_order_for_a_reshape_is_one(before, after):
    x = np.arange(24).reshape(before)
    for order in itertools.permutations(range(len(before))):
        near = layout.for_reshape(order, before, after)
        result = layout.through_reshape(near, before, after)
        assert sorted(near) == list(range(len(before)))
        if result is not None:
            stored = x.transpose(near).reshape(layout.arranged(result, after))
            np.testing.assert_array_equal(stored, x.reshape(after).transpose(result))
        if layout.through_reshape(order, before, after) is not None:
            kept = [a for a in near if before[a] != 1]
            assert kept == [a for a in order if before[a] != 1], "what works already is not moved"


def test_a_channel_shuffle_stays_channels_last():
    """(N, C/2, 2, H, W) stored as (N, H, W, 2, C/2), before the two are joined."""
    near = layout.for_reshape((0, 3, 4, 2, 1), (1, 4, 2, 5, 6), (1, 8, 5, 6))
    assert near == (0, 3, 4, 1, 2)
    assert layout.through_reshape(near, (1, 4, 2, 5, 6), (1, 8, 5, 6)) == layout.channels_last(4)
