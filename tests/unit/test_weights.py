"""The two laws of the way back, on random steps and random chains."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mlconverter.errors import ConversionError
from mlconverter.hub.weights import (
    Cast,
    Densify,
    Dequantize,
    Parts,
    Reshape,
    Slice,
    Transpose,
    WeightLink,
    compose,
    simplify,
    stored_mask,
    write_back,
)

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, max_side=4)


def bits(array):
    return (array.dtype, array.shape, np.ascontiguousarray(array).tobytes())


@st.composite
def exact_steps(draw, shape):
    """A step that loses nothing, for a source of this shape."""
    kind = draw(st.sampled_from(["transpose", "reshape", "slice", "parts"]))
    if kind == "parts":
        cuts = sorted(draw(st.sets(st.integers(0, math.prod(shape)), min_size=2, max_size=6)))
        ranges = draw(st.permutations(list(itertools.pairwise(cuts))))
        ranges = tuple(ranges[: draw(st.integers(1, len(ranges)))])
        return Parts(ranges, (sum(stop - start for start, stop in ranges), 1))
    if kind == "transpose":
        return Transpose(tuple(draw(st.permutations(range(len(shape))))))
    if kind == "reshape":
        factors = [f for side in shape for f in ([2, 2] if side == 4 else [side])]
        groups = draw(st.lists(st.integers(0, 2), min_size=len(factors), max_size=len(factors)))
        sides = [math.prod(f for f, g in zip(factors, groups, strict=True) if g == group) for group in range(3)]
        return Reshape(tuple(sides))
    index = []
    for side in shape:
        start = draw(st.integers(0, side - 1))
        stop = draw(st.integers(start + 1, side))
        step = draw(st.sampled_from([None, 1, 2, -1]))
        index.append((stop - 1, start - 1 if start else None, -1) if step == -1 else (start, stop, step))
    return Slice(tuple(index))


@st.composite
def exact_chains(draw, shape, longest=5):
    steps, view = [], np.empty(shape, np.int8)
    for _ in range(draw(st.integers(0, longest))):
        steps.append(draw(exact_steps(view.shape)))
        view = steps[-1].get(view)
    return tuple(steps)


@st.composite
def storages(draw):
    """How an origin stores a weight: the stored array, and the steps that make float32 of it."""
    kind = draw(
        st.sampled_from(["float32", "float16", "bfloat16", "int8", "uint8", "int8 by channel", "sparse", "sparse float16"])
    )
    shape = draw(SHAPES)
    if kind == "float32":
        # NaN and both zeros too: what is not changed keeps its bits, whatever they are.
        return draw(hnp.arrays(np.float32, shape)), ()
    if kind == "float16":
        return draw(hnp.arrays(np.float16, shape)), (Cast("float32"),)
    if kind == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        return draw(hnp.arrays(np.int16, shape)).view(ml_dtypes.bfloat16), (Cast("float32"),)
    scales = st.floats(2**-10, 2**3, width=32)
    if kind in ("int8", "uint8"):
        zero_point = draw(st.integers(-5, 5)) + (128 if kind == "uint8" else 0)
        return draw(hnp.arrays(kind, shape)), (Dequantize((draw(scales),), (zero_point,)),)
    if kind == "int8 by channel":
        axis = draw(st.integers(0, len(shape) - 1))
        scale = tuple(draw(st.lists(scales, min_size=shape[axis], max_size=shape[axis])))
        return draw(hnp.arrays(np.int8, shape)), (Dequantize(scale, (0,) * shape[axis], axis),)
    size = math.prod(shape)
    positions = np.array(draw(st.lists(st.integers(0, size - 1), unique=True, max_size=size)), np.int64)
    densify = Densify(shape, positions)
    if kind == "sparse":
        return draw(hnp.arrays(np.float32, len(positions))), (densify,)
    return draw(hnp.arrays(np.float16, len(positions))), (Cast("float32"), densify)


@st.composite
def links(draw):
    """A stored array and a link from it through its storage and a random chain."""
    stored, decode = draw(storages())
    value = WeightLink("s", "t", decode).get(stored)
    return stored, WeightLink("s", "t", (*decode, *draw(exact_chains(value.shape))))


class TestLaws:
    @given(links())
    def test_an_untouched_view_gives_the_source_bit_for_bit(self, case):
        stored, link = case
        assert bits(link.put(stored, link.get(stored))) == bits(stored)
        assert write_back({"s": stored}, [link], {"t": link.get(stored)}) == {}

    @given(SHAPES.flatmap(lambda s: st.tuples(hnp.arrays(np.float32, s), exact_chains(s), st.integers(0, 2**32 - 1))))
    def test_a_changed_view_is_read_back_exactly(self, case):
        stored, steps, seed = case
        link = WeightLink("s", "t", steps)
        view = np.random.default_rng(seed).standard_normal(link.get(stored).shape).astype(np.float32)
        before = bits(stored)
        assert bits(link.get(link.put(stored, view))) == bits(view)
        assert bits(stored) == before

    @given(SHAPES.flatmap(lambda s: st.tuples(hnp.arrays(np.float32, s), exact_steps(s))))
    def test_each_step_alone(self, case):
        stored, step = case
        view = step.get(stored)
        assert bits(step.put(stored, view)) == bits(stored)
        changed = np.arange(view.size, dtype=np.float32).reshape(view.shape)
        assert bits(step.get(step.put(stored, changed))) == bits(changed)

    @given(links(), st.data())
    def test_elements_that_did_not_change_keep_their_bits(self, case, data):
        stored, link = case
        view = link.get(stored)
        assume(view.size and not any(isinstance(s, Densify) for s in link.steps))  # a zero outside the pattern must stay
        changed = view.copy()
        place = data.draw(st.integers(0, view.size - 1))
        changed.flat[place] = 1.0
        after = link.put(stored, changed)
        differing = np.flatnonzero(after.reshape(-1).view(np.uint8) != np.ascontiguousarray(stored).reshape(-1).view(np.uint8))
        assert len({d // stored.itemsize for d in differing}) <= 1


class TestCast:
    def test_values_are_rounded_to_the_storage(self):
        stored = np.array([1, 2], np.float16)
        after = Cast("float32").put(stored, np.array([1.0001, 3.5], np.float32))
        assert after.dtype == np.float16
        assert after.tolist() == [1, 3.5]

    @pytest.mark.parametrize("value", [70000.0, -1e30])
    def test_what_half_precision_cannot_hold_is_refused(self, value):
        with pytest.raises(ConversionError, match="beyond the range of the origin's float16"):
            Cast("float32").put(np.zeros(2, np.float16), np.array([0, value], np.float32))

    def test_an_infinity_that_was_there_is_no_overflow(self):
        stored = np.array([np.inf, 1], np.float16)
        assert Cast("float32").put(stored, np.array([np.inf, 2], np.float32)).tolist() == [np.inf, 2]

    def test_a_nan_keeps_its_payload(self):
        stored = np.array([0x7E01, 0x3C00], np.uint16).view(np.float16)
        after = Cast("float32").put(stored, Cast("float32").get(stored))
        assert bits(after) == bits(stored)


class TestDequantize:
    STEP = Dequantize((0.5,), (3,))

    def test_the_formula(self):
        assert self.STEP.get(np.array([3, 5, -128], np.int8)).tolist() == [0, 1, -65.5]

    def test_one_scale_an_index_of_the_axis(self):
        step = Dequantize((1, 10), (0, 1), axis=1)
        assert step.get(np.array([[1, 2], [3, 4]], np.int8)).tolist() == [[1, 10], [3, 30]]

    @given(hnp.arrays(np.int8, 20), st.floats(2**-20, 2**10, width=32), st.integers(-128, 127))
    def test_untouched_elements_keep_their_bits_and_changed_ones_are_nearest(self, stored, scale, zero_point):
        step = Dequantize((scale,), (zero_point,))
        view = step.get(stored)
        view[7] += np.float32(2.2) * np.float32(scale)
        after = step.put(stored, view)
        assert np.array_equal(np.delete(after, 7), np.delete(stored, 7))
        assert after[7] == min(int(stored[7]) + 2, 127)

    def test_values_beyond_the_range_become_its_ends(self):
        assert self.STEP.put(np.zeros(2, np.int8), np.array([1e9, -1e9], np.float32)).tolist() == [127, -128]

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_what_is_no_number_is_refused(self, value):
        with pytest.raises(ConversionError, match="finite"):
            self.STEP.put(np.zeros(2, np.int8), np.array([0, value], np.float32))

    def test_a_scale_of_zero_holds_zero_alone(self):
        step = Dequantize((0.0, 1.0), (0, 0), axis=0)
        stored = np.array([[5], [6]], np.int8)
        assert step.put(stored, np.array([[0], [7]], np.float32)).tolist() == [[5], [7]]
        with pytest.raises(ConversionError, match="scale of zero"):
            step.put(stored, np.array([[1], [7]], np.float32))


class TestDensify:
    STEP = Densify((2, 3), np.array([4, 0]))

    def test_values_stand_at_their_positions(self):
        assert self.STEP.get(np.array([7, 9], np.float32)).tolist() == [[9, 0, 0], [0, 7, 0]]
        assert self.STEP.mask.tolist() == [[True, False, False], [False, True, False]]

    def test_values_come_back_in_the_stored_order(self):
        view = np.array([[1, 0, -0.0], [0, 2, 0]], np.float32)
        assert self.STEP.put(np.array([7, 9], np.float32), view).tolist() == [2, 1]

    def test_a_value_outside_the_pattern_is_refused(self):
        with pytest.raises(ConversionError, match="2 elements outside the sparsity pattern"):
            self.STEP.put(np.zeros(2, np.float32), np.array([[1, 5, 0], [0, 2, np.nan]], np.float32))


class TestSimplify:
    @given(SHAPES.flatmap(lambda s: st.tuples(st.just(s), exact_chains(s, longest=8))))
    def test_the_view_stays_the_same(self, case):
        shape, steps = case
        stored = np.arange(math.prod(shape)).reshape(shape)
        short = simplify(steps)
        assert len(short) <= len(steps)
        assert np.array_equal(WeightLink("s", "t", short).get(stored), WeightLink("s", "t", steps).get(stored))
        assert simplify(short) == short

    def test_opposite_transposes_vanish(self):
        there, back = Transpose((2, 3, 1, 0)), Transpose((3, 2, 0, 1))
        assert simplify([there, back]) == ()
        assert simplify([Reshape((2, 3)), Transpose((1, 0)), Transpose((1, 0)), Reshape((6,))]) == (Reshape((6,)),)

    def test_steps_that_change_values_stay(self):
        steps = (Cast("float32"), Transpose((1, 0)), Dequantize((1.0,), (0,)))
        assert simplify(steps) == steps


class TestCompose:
    def test_chains_are_joined(self):
        first = [WeightLink("buffer", "init", (Transpose((1, 0)),))]
        second = [WeightLink("init", "layer.weight", (Reshape((6,)),))]
        assert compose(first, second) == (WeightLink("buffer", "layer.weight", (Transpose((1, 0)), Reshape((6,)))),)

    def test_a_source_that_the_first_does_not_know_starts_there(self):
        assert compose([], [WeightLink("init", "p")]) == (WeightLink("init", "p"),)

    def test_a_target_of_several_sources_and_a_source_of_several_targets(self):
        first = [WeightLink("a", "x"), WeightLink("b", "x")]
        second = [WeightLink("x", "p"), WeightLink("x", "q")]
        assert {(c.source, c.target) for c in compose(first, second)} == {(s, t) for s in "ab" for t in "pq"}

    def test_what_the_second_does_not_use_is_left_out(self):
        assert compose([WeightLink("a", "x"), WeightLink("b", "y")], [WeightLink("x", "p")]) == (WeightLink("a", "p"),)


class TestStoredMask:
    def test_parts_of_a_sparse_weight_have_parts_of_its_mask(self):
        densify = Densify((2, 3), np.array([4, 0]))
        link = WeightLink("s", "t", (densify, Parts(((3, 6), (0, 1)), (2, 2))))
        assert stored_mask(link).tolist() == [[False, True], [False, True]]


class TestWriteBack:
    def test_only_changed_arrays_come_back_in_the_origins_dtype(self):
        stored = {"a": np.ones(2, np.float16), "b": np.ones(2, np.float16)}
        chain = (Cast("float32"),)
        values = {"p": np.ones(2, np.float32), "q": np.array([1, 5], np.float32)}
        changed = write_back(stored, [WeightLink("a", "p", chain), WeightLink("b", "q", chain)], values)
        assert list(changed) == ["b"]
        assert bits(changed["b"]) == bits(np.array([1, 5], np.float16))
        assert stored["b"].tolist() == [1, 1]

    def test_parts_of_one_source_are_all_written(self):
        stored = {"gates": np.zeros(6, np.float32)}
        parts = [WeightLink("gates", name, (Slice(((2 * i, 2 * i + 2, None),)),)) for i, name in enumerate("ifo")]
        values = {name: np.full(2, i, np.float32) for i, name in enumerate("ifo", 1)}
        assert write_back(stored, parts, values)["gates"].tolist() == [1, 1, 2, 2, 3, 3]

    @pytest.mark.parametrize("order", [1, -1])
    def test_a_nan_in_one_part_is_no_conflict_with_another(self, order):
        stored = {"s": np.array([np.nan, 1, 2], np.float32)}
        parts = [WeightLink("s", "p", (Slice(((0, 2, None),)),)), WeightLink("s", "q", (Slice(((2, 3, None),)),))]
        values = {"p": np.array([np.nan, 5], np.float32), "q": np.array([7], np.float32)}
        assert write_back(stored, parts[::order], values)["s"].tolist()[1:] == [5, 7]

    @pytest.mark.parametrize("values", [(5, 7), (5, 1), (1, 5)], ids=["both", "first", "second"])
    def test_tied_targets_trained_apart_are_refused_in_any_order(self, values):
        ties = [WeightLink("s", "p"), WeightLink("s", "q")]
        trained = {n: np.array([v], np.float32) for n, v in zip("pq", values, strict=True)}
        for order in (ties, ties[::-1]):
            with pytest.raises(ConversionError, match="share the origin's tensor 's'") as caught:
                write_back({"s": np.ones(1, np.float32)}, order, trained)
            assert "'p'" in str(caught.value)
            assert "'q'" in str(caught.value)

    @pytest.mark.parametrize(
        ("stored", "chain"),
        [
            (np.ones(1, np.float32), ()),
            (np.ones(1, np.float16), (Cast("float32"),)),
            (np.ones(1, np.int8), (Dequantize((1.0,), (0,)),)),
        ],
        ids=["float32", "float16", "int8"],
    )
    def test_tied_targets_trained_alike_are_written_once(self, stored, chain):
        ties = [WeightLink("s", "p", chain), WeightLink("s", "q", chain)]
        value = np.array([3.14159], np.float32)  # which half precision and integers cannot hold exactly
        changed = write_back({"s": stored}, ties, {"p": value, "q": value.copy()})
        assert changed["s"].dtype == stored.dtype
        assert abs(float(changed["s"][0]) - 3.14159) < 0.2

    def test_a_missing_target_is_named(self):
        with pytest.raises(ConversionError, match=r"no tensor 'p'.*'s'"):
            write_back({"s": np.ones(1, np.float32)}, [WeightLink("s", "p")], {})

    @pytest.mark.parametrize(
        "chain", [(), (Transpose((1, 0)),), (Reshape((6,)),), (Slice(((0, 1, None), (0, 3, None))),), (Parts(((0, 2),), (2,)),)]
    )
    def test_a_value_of_another_shape_does_not_fit(self, chain):
        with pytest.raises(ConversionError, match="does not fit"):
            write_back({"s": np.ones((2, 3), np.float32)}, [WeightLink("s", "p", chain)], {"p": np.ones(1, np.float32)})

    @given(links(), st.integers(0, 2**32 - 1))
    def test_a_second_write_back_changes_nothing_more(self, case, seed):
        stored, link = case
        view = link.get(stored)
        assume(not any(isinstance(s, Densify) for s in link.steps))
        value = np.random.default_rng(seed).standard_normal(view.shape).astype(view.dtype)
        after = write_back({"s": stored}, [link], {"t": value}).get("s", stored)
        again = write_back({"s": after}, [link], {"t": link.get(after)})
        assert again == {}
