import time

import numpy as np
import pytest

from mlconverter.errors import SignatureError
from mlconverter.signature import Quantization
from mlconverter.verification import check_inputs, sample_inputs
from mlconverter.verification.samples import LIMIT
from mlconverter.verification.shapes import batch_dims, batch_inputs, concrete_shapes
from tests.unit.verification.fakes import signature, spec

KINDS = ("natural", "edge", "noise")
DTYPES = (
    "float16 float32 float64 bfloat16 float8_e4m3fn complex64 complex128 bool str int4 uint4 int8 uint8 "
    "int16 uint16 int32 uint32 int64 uint64"
).split()


def of(*specs):
    return signature(specs, ())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (1, 3, 8, 8), (2, 8, 8, 3), (1, 2, 3, 4, 5)])
def test_samples_fit_their_signature_and_repeat(dtype, kind, shape):
    for how in (None, Quantization((0.1,), (0,))):
        sig = of(spec("x", shape, dtype, quantization=how))
        first, again = sample_inputs(sig, kind=kind, seed=3), sample_inputs(sig, kind=kind, seed=3)
        check_inputs(sig, first)
        assert first["x"].shape == shape
        np.testing.assert_array_equal(first["x"], again["x"])


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_gives_other_values(kind):
    sig = of(spec("x", (4, 16)), spec("i", (4, 16), "int64"), spec("image", (1, 3, 16, 16)))
    a, b = sample_inputs(sig, kind=kind, seed=0), sample_inputs(sig, kind=kind, seed=1)
    assert all(not np.array_equal(a[n], b[n]) for n in a)


def test_two_inputs_of_one_shape_differ_and_one_more_changes_neither():
    pair = sample_inputs(of(spec("a", (8,)), spec("b", (8,))))
    assert not np.array_equal(pair["a"], pair["b"])
    np.testing.assert_array_equal(sample_inputs(of(spec("c", (8,)), spec("b", (8,))))["b"], pair["b"])


@pytest.mark.parametrize(
    ("shape", "layout", "axes"),
    [
        ((2, 3, 32, 48), None, (2, 3)),
        ((2, 32, 48, 3), None, (1, 2)),
        ((32, 48, 3), None, (0, 1)),
        ((3, 32, 48), None, (1, 2)),
        ((1, 32, 48), "channels_first", (1, 2)),
        ((1, 3, 48, 3), "channels_last", (1, 2)),
    ],
)
def test_images_are_smooth_and_fill_their_range(shape, layout, axes):
    image = sample_inputs(of(spec("x", shape, layout=layout)))["x"]
    assert image.dtype == np.float32
    assert 0.0 <= image.min()
    assert image.max() <= 1.0
    assert image.std() > 0.1
    for axis in axes:
        if image.shape[axis] > 3:
            assert np.abs(np.diff(image, axis=axis)).mean() < 0.3 * image.std()
    assert np.unique(image).size > 0.7 * image.size, "no two neighbours are alike, so that swapping them shows"


def test_images_have_grain_at_any_size():
    image = sample_inputs(of(spec("x", (1, 1, 512, 512))))["x"][0, 0, 200:300, 200:300].astype(np.float64)
    assert 0.001 < np.median(np.abs(np.diff(image, n=2))) < 0.05


def test_images_of_a_batch_and_their_channels_differ():
    image = sample_inputs(of(spec("x", (2, 3, 16, 16))))["x"]
    flat = image.reshape(6, -1)
    assert np.unique(flat, axis=0).shape[0] == 6
    assert np.corrcoef(flat[0], flat[1])[0, 1] > 0.5


@pytest.mark.parametrize("shape", [(1, 128, 768), (4, 10), (1, 64, 20, 20), (16,)])
def test_what_is_no_image_is_normal_noise(shape):
    x = sample_inputs(of(spec("x", shape)))["x"]
    assert x.min() < -0.5
    assert x.max() > 0.5


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_the_edge_mixes_zeros_signs_and_large_values(dtype):
    x = sample_inputs(of(spec("x", (1, 3, 8, 8), dtype)), kind="edge")["x"].astype(np.float32)
    assert (x == 0).any()
    assert np.signbit(x[x == 0]).any()
    assert x.min() <= -10
    assert x.max() >= 10
    assert np.abs(x).max() == (20 if dtype == "float32" else 10)
    assert len(np.unique(x[0, 0])) > 5, "mixed, not sorted into planes"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 32, 32, 3), (4096,)])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_quantised_integers_use_their_whole_range(kind, shape, dtype):
    info = np.iinfo(dtype)
    x = sample_inputs(of(spec("x", shape, dtype, quantization=Quantization((0.1,), (0,)))), kind=kind)["x"].astype(np.float64)
    span = float(info.max) - info.min
    assert x.min() < info.min + 0.1 * span
    assert x.max() > info.max - 0.1 * span


def test_plain_integers_can_be_tokens_indices_lengths_and_masks():
    names = ("input_ids", "attention_mask", "token_type_ids", "lengths", "indices")
    sig = of(*(spec(n, (2, 64), "int64") for n in names))
    for kind in KINDS:
        x = sample_inputs(sig, kind=kind)
        assert all(v.min() >= 0 for v in x.values())
        assert x["input_ids"].max() < 100
        assert x["lengths"].min() >= 1
        assert set(np.unique(x["token_type_ids"])) <= {0, 1}
        assert x["indices"].max() <= 3
        assert set(np.unique(x["attention_mask"])) == ({0, 1} if kind == "edge" else {1})
    for seed in range(20):
        assert sample_inputs(of(spec("k", (), "int64")), seed=seed)["k"] >= 1, "0 is no length"
    assert sample_inputs(of(spec("input_ids", (64,), "int4")))["input_ids"].astype(int).min() >= 0, "99 is no int4"


def test_a_huge_tensor_is_made_quickly():
    sig = of(spec("x", (3 * LIMIT // 2,), "int8", quantization=Quantization((1.0,), (0,))), spec("v", (40, 3, 512, 512)))
    start = time.perf_counter()
    x = sample_inputs(sig)
    assert time.perf_counter() - start < 30
    assert x["x"].shape == (3 * LIMIT // 2,)
    assert x["v"].std() > 0.1


def test_free_dimensions_get_sensible_sizes():
    sig = of(
        spec("image", ("N", 3, "h", "w")),
        spec("tokens", ("batch", "seq"), "int64"),
        spec("mask", ("batch", "past + seq"), "int64"),
        spec("nhwc", (None, None, None, None), layout="channels_last"),
        spec("seq_only", ("seq",)),
    )
    assert concrete_shapes(sig) == {
        "image": (1, 3, 64, 64),
        "tokens": (1, 16),
        "mask": (1, 32),
        "nhwc": (1, 64, 64, 3),
        "seq_only": (16,),
    }
    chosen = concrete_shapes(sig, batch=2, sizes={"seq": 5, "past": 3, "nhwc:1": 7, "h": 9})
    assert chosen == {"image": (2, 3, 9, 64), "tokens": (2, 5), "mask": (2, 8), "nhwc": (2, 7, 64, 3), "seq_only": (5,)}


def test_a_name_has_one_size_whatever_the_order_of_the_inputs():
    image, other = spec("image", (1, 3, "s0", "s1")), spec("other", (1, "s0"))
    for specs in ((image, other), (other, image)):
        assert concrete_shapes(of(*specs)) == {"image": (1, 3, 64, 64), "other": (1, 64)}


@pytest.mark.parametrize(
    ("shape", "batch"),
    [
        (("N", 4), True),
        (("batch_size",), True),
        (("s77", 4), True),
        ((None, 4), True),
        (("unk__12", 4), True),
        (("seq",), False),
        (("seq_len", 8), False),
        (("h", "w", 3), False),
        (("n_boxes", 4), False),
        ((None,), False),
        ((1, 4), False),
        ((), False),
        (None, False),
        (("2*k", 4), False),
    ],
)
def test_which_axis_is_the_batch(shape, batch):
    sig = of(spec("x", shape))
    assert bool(batch_dims(sig)) is batch
    assert batch_inputs(sig) == (("x",) if batch else ())


@pytest.mark.parametrize("arguments", [{"sizes": {"nope": 3}}, {"sizes": {"seq": 0}}, {"batch": 0}])
def test_sizes_that_fit_nothing_are_refused(arguments):
    with pytest.raises(SignatureError):
        sample_inputs(of(spec("x", ("N", "seq"))), **arguments)


def test_an_unknown_rank_and_an_unknown_kind_are_refused():
    with pytest.raises(SignatureError, match="'x'"):
        sample_inputs(of(spec("x", None)))
    with pytest.raises(ValueError, match="nice"):
        sample_inputs(of(), kind="nice")
