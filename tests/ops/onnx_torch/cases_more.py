"""Operators of vision, signals, text and numbers on inputs that mean something to them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, model, node, weight

DOUBLE, UINT64 = onnx.TensorProto.DOUBLE, onnx.TensorProto.UINT64
BATCHES = (1, 3)


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def one(value: float, kind: type = np.float32) -> np.ndarray:
    return np.array(value, kind)


@dataclass(frozen=True)
class Fed:
    """One node on arrays that mean something to it: run-time inputs are functions of the batch, constant ones arrays."""

    name: str
    op: str
    inputs: tuple[np.ndarray | Callable[[int], np.ndarray] | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    outputs: tuple[int, ...] = (FLOAT,)
    domain: str = ""
    judge: int | None = None
    """Another opset of the same meaning, where ONNX Runtime does not have this one."""

    @property
    def id(self) -> str:
        return f"{self.op}-{self.opset} {self.name}"

    def feeds(self, batch: int) -> dict[str, np.ndarray]:
        return {f"i{n}": i(batch) for n, i in enumerate(self.inputs) if callable(i)}

    @property
    def batches(self) -> tuple[int, ...]:
        one, more = (self.feeds(batch) for batch in BATCHES)
        return BATCHES if any(one[name].shape != more[name].shape for name in one) else BATCHES[:1]

    def build(self, opset: int | None = None) -> onnx.ModelProto:
        opset = opset or self.opset
        names = [f"i{n}" if i is not None else "_" for n, i in enumerate(self.inputs)]
        one, more = (self.feeds(batch) for batch in BATCHES)
        shapes = {}
        for name, array in more.items():
            sizes = [N if size != fixed else size for size, fixed in zip(array.shape, one[name].shape, strict=True)]
            shapes[name] = (onnx.helper.np_dtype_to_tensor_dtype(array.dtype), sizes)
        known = {name: i for name, i in zip(names, self.inputs, strict=True) if isinstance(i, np.ndarray)}
        outputs = {f"o{n}": kind for n, kind in enumerate(self.outputs)}
        made = node(self.op, " ".join(names), " ".join(outputs), domain=self.domain, **self.attributes)
        built = model([made], shapes, outputs, known, 21 if self.domain else opset)
        if self.domain:
            built.opset_import.append(onnx.helper.make_opsetid(self.domain, opset))
        return built


def always(array: np.ndarray) -> Callable[[int], np.ndarray]:
    """A run-time input that is the same at every batch."""
    return lambda batch: array


# -- regions -----------------------------------------------------------------------------------------------------------


def boxes(batch: int, count: int, seed: int = 0, centred: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, size = rng.uniform(0, 5, (batch, count, 2)), rng.uniform(0.5, 4, (batch, count, 2))
    if centred:
        return np.concatenate([low, size], 2).astype(np.float32)
    corners = np.stack([low, low + size], 2)
    flipped = rng.integers(0, 2, (batch, count, 1, 2)).astype(bool)  # any two opposite corners
    return np.where(flipped, corners[:, :, ::-1], corners).reshape(batch, count, 4).astype(np.float32)


def rois(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, size = rng.uniform(-2, 9, (count, 2)), rng.uniform(-0.5, 12, (count, 2))
    return np.concatenate([low, low + size], 1).astype(np.float32)


def _regions() -> list[Fed]:
    cases = []
    for classes, count in ((1, 6), (3, 20)):
        for centred in (0, 1):
            for extra in (
                (),
                (ints(4),),
                (one(3, np.int64), one(0.4)),
                (ints(50), np.array([0.5], np.float32), np.array([0.2], np.float32)),
                (ints(50), one(0.0), one(-9.0)),
                (ints(2), one(0.6), one(2.0)),
                (ints(-1), one(0.6)),
            ):
                name = f"{classes} classes, centred={centred}, {[e.tolist() for e in extra]}"
                places = lambda b, n=count, f=centred: boxes(b, n, centred=bool(f))  # noqa: E731
                given = (places, lambda b, c=classes, n=count: normal(b, c, n))
                attributes = {"center_point_box": centred} if centred else {}
                cases.append(Fed(name, "NonMaxSuppression", (*given, *extra), attributes, outputs=(INT64,)))

    def equal(batch: int) -> np.ndarray:
        return np.round(normal(batch, 2, 12), 1)  # equal scores keep the order of the boxes

    given = (lambda b: boxes(b, 12), equal, ints(9), one(0.3))
    cases.append(Fed("equal scores", "NonMaxSuppression", given, {}, 10, (INT64,)))
    settings = map(always, (ints(3), np.array([0.3], np.float32), np.array([0.1], np.float32)))
    given = (lambda b: boxes(b, 9), lambda b: normal(b, 2, 9), *settings)
    cases.append(Fed("settings at run time", "NonMaxSuppression", given, outputs=(INT64,)))

    x, where = always(normal(3, 2, 9, 11)), ints(2, 0, 1, 2, 1)
    for attributes in (
        {},
        {"output_height": 3, "output_width": 2},
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2},
        {"output_height": 4, "output_width": 4, "spatial_scale": 0.5},
        {"output_height": 2, "output_width": 2, "sampling_ratio": 3, "mode": "max"},
        {"output_height": 2, "output_width": 2, "mode": "max"},
    ):
        cases.append(Fed(f"{attributes}", "RoiAlign", (x, always(rois(5)), always(where)), attributes, 10))
        for mode, opset in (("half_pixel", 16), ("output_half_pixel", 22)):
            more = {**attributes, "coordinate_transformation_mode": mode}
            cases.append(Fed(f"{more}", "RoiAlign", (x, always(rois(5)), where), more, opset, judge=16))
    double = tuple(always(a.astype(np.float64)) for a in (normal(3, 2, 7, 6), rois(2)))
    cases.append(Fed("double", "RoiAlign", (*double, ints(1, 2)), opset=16, outputs=(DOUBLE,)))
    regions = np.concatenate([np.array([[2.0], [0], [1], [1]]), np.abs(rois(4))], 1).astype(np.float32)
    for attributes in ({"pooled_shape": [1, 1]}, {"pooled_shape": [3, 2]}, {"pooled_shape": [2, 4], "spatial_scale": 0.5}):
        for opset in (11, 22):
            cases.append(Fed(f"{attributes}", "MaxRoiPool", (x, always(regions)), attributes, opset, judge=11))
    return cases


# -- windows -----------------------------------------------------------------------------------------------------------


def _windows() -> list[Fed]:
    cases = []
    for c, out, group, offset_group in ((4, 6, 1, 1), (4, 6, 2, 1), (4, 4, 4, 2), (3, 5, 1, 3)):
        for attributes, size in (
            ({}, (5, 7)),
            ({"pads": [1, 0, 1, 2]}, (7, 9)),
            ({"strides": [2, 3], "dilations": [2, 1], "pads": [1, 1, 0, 1]}, (2, 3)),
        ):
            more = {"group": group, "offset_group": offset_group, **attributes} if group * offset_group > 1 else attributes
            w, x = weight(out, c // group, 3, 2), lambda b, c=c: normal(b, c, 7, 8)
            offset = lambda b, o=offset_group, s=size: normal(b, o * 12, *s)  # noqa: E731
            mask = lambda b, o=offset_group, s=size: normal(b, o * 6, *s, seed=2)  # noqa: E731
            cases.append(Fed(f"{c}-{out} {more}", "DeformConv", (x, w, offset), more, 19))
            cases.append(Fed(f"{c}-{out} {more} mask", "DeformConv", (x, w, offset, weight(out), mask), more, 22))
            cases.append(Fed(f"{c}-{out} {more} computed", "DeformConv", (x, always(w), offset, None, mask), more, 19))
    places = ints(0, 7, 9, 22, 25, 28, 37, 49).reshape(1, 2, 2, 2)
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2]}
    for opset in (9, 11, 22):
        cases.append(Fed("3 of 2", "MaxUnpool", (always(normal(1, 2, 2, 2)), always(places)), attributes, opset))
    line = ints(0, 2, 5, 7, 8, 11).reshape(1, 2, 3)
    cases.append(Fed("axis", "MaxUnpool", (always(normal(1, 2, 3)), always(line)), {"kernel_shape": [2], "strides": [2]}, 11))
    padded = {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}
    cases.append(Fed("padded", "MaxUnpool", (always(normal(1, 2, 3)), always(line)), padded, 11))
    for attributes in ({}, {"align_corners": 1}):
        plane, cube = (
            (lambda b: normal(b, 2, 3), lambda b: ints(b, 2, 5, 6)),
            (lambda b: normal(b, 3, 4), lambda b: ints(b, 2, 4, 5, 3)),
        )
        cases.append(Fed(f"plane {attributes}", "AffineGrid", plane, attributes, 20))
        cases.append(Fed(f"cube {attributes}", "AffineGrid", cube, attributes, 20))
        known = (always(normal(2, 2, 3)), ints(2, 1, 3, 4))
        cases.append(Fed(f"known {attributes}", "AffineGrid", known, attributes, 20))
    # Free sizes: how much is cut off is known while the model runs.
    for auto_pad in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        for kernel in ((3, 3), (1, 2)):
            attributes = {"strides": [2, 2], "output_shape": [8, 9], "group": 2, "auto_pad": auto_pad}
            inputs = (lambda b: normal(1, 4, 3 + b, 3 + b), weight(4, 2, *kernel), weight(4))
            cases.append(Fed(f"{kernel} {auto_pad}", "ConvTranspose", inputs, attributes, 11))
    return cases


def _shapes() -> list[Case]:
    cases = []
    for image, block, attributes, blocks in (
        ((5, 5), (1, 5), {}, 5),
        ((6, 7), (3, 2), {"strides": [1, 2], "pads": [0, 1, 0, 1]}, 16),
        ((6, 7), (3, 2), {"pads": [1, 0, 2, 1]}, 49),
        ((6, 7), (2, 2), {"dilations": [2, 3], "pads": [1, 1, 1, 1]}, 36),
        ((4, 5, 6), (2, 1, 3), {"strides": [2, 1, 1]}, 40),
    ):
        count = 2 * int(np.prod(block))
        cases.append(Case("Col2Im", ((N, count, blocks), ints(*image), ints(*block)), attributes, opset=18))
    for auto_pad in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        for kernel in ((3, 3), (1, 2)):
            attributes = {"strides": [2, 2], "output_shape": [8, 9], "group": 2, "auto_pad": auto_pad}
            cases.append(Case("ConvTranspose", ((1, 4, 4, 4), weight(4, 2, *kernel), weight(4)), attributes, opset=11))
    return cases


# -- signals, text, numbers --------------------------------------------------------------------------------------------


def _signals() -> list[Fed]:
    cases = []
    for parts in (1, 2):
        for attributes in ({}, {"inverse": 1}, {"onesided": 1}):
            if parts == 2 and "onesided" in attributes:
                continue
            x = lambda b, p=parts: normal(b, 5, 6, p)  # noqa: E731
            for length in (None, one(4, np.int64), one(9, np.int64)):
                name = f"{parts} {attributes} {length}"
                for axis in (1, 2, -2):
                    cases.append(Fed(f"{name} {axis}", "DFT", (x, length), {**attributes, "axis": axis}, 17))
                    cases.append(Fed(f"{name} {axis}", "DFT", (x, length, one(axis, np.int64)), attributes, 20))
                cases.append(Fed(name, "DFT", (x, length), attributes, 17))
                cases.append(Fed(name, "DFT", (x, length), attributes, 20))
    settings = (always(one(7, np.int64)), always(one(1, np.int64)))
    cases.append(Fed("settings at run time", "DFT", (lambda b: normal(b, 5, 3, 2), *settings), {}, 20))
    double = lambda b: normal(b, 6, 1).astype(np.float64)  # noqa: E731
    cases.append(Fed("double", "DFT", (double,), {"onesided": 1}, 17, (DOUBLE,)))
    window, x = np.hanning(6).astype(np.float32), lambda b: normal(b, 20, 1)
    for given in ((window,), (window, one(6, np.int64)), (None, one(7, np.int64))):
        for attributes in ({}, {"onesided": 0}):
            for step in (one(1, np.int64), one(4, np.int64)):
                name = f"{len(given)} {attributes} {step}"
                cases.append(Fed(name, "STFT", (x, step, *given), attributes, 17))
    settings = (always(one(3, np.int64)), always(window), always(one(6, np.int64)))
    cases.append(Fed("settings at run time", "STFT", (x, *settings), {}, 17))
    cases.append(Fed("complex", "STFT", (lambda b: normal(b, 20, 2), one(3, np.int64), window), {"onesided": 0}, 17))
    for bands, length, rate, low, high in ((8, 16, 8192, 0, 4096), (20, 512, 16000, 125, 7500), (3, 32, 8000, 0, 200)):
        numbers = (*(one(v, np.int64) for v in (bands, length, rate)), one(low), one(high))
        cases.append(Fed(f"{bands}", "MelWeightMatrix", tuple(map(always, numbers)), {}, 17))
        known = (*numbers[:4], always(numbers[4]))
        cases.append(Fed(f"{bands} known", "MelWeightMatrix", known, {"output_datatype": 11}, 17, (DOUBLE,)))
    return cases


def _text() -> list[Fed]:
    cases = []
    x = lambda b: np.random.default_rng(b).integers(1, 8, (b, 12))  # noqa: E731
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 1, 2, 3, 2, 2, 5]
    words = {"ngram_counts": [0, 4, 10], "ngram_indexes": [4, 0, 2, 1, 3, 6, 7, 5, 8], "pool_int64s": pool}
    words["ngram_indexes"] = words["ngram_indexes"][: 4 + 3 + 2]
    for mode, weights in (("TF", None), ("IDF", None), ("TFIDF", None), ("IDF", [0.5] * 9), ("TFIDF", [2.0] * 9)):
        for low, high, skips in ((1, 1, 0), (1, 2, 0), (1, 2, 3), (2, 2, 5), (2, 3, 1), (1, 3, 2), (3, 3, 4)):
            more = {"mode": mode, "min_gram_length": low, "max_gram_length": high, "max_skip_count": skips}
            more |= {} if weights is None else {"weights": weights}
            name = f"{more}"
            cases.append(Fed(name, "TfIdfVectorizer", (x,), {**words, **more}, 9))
    more = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 2}
    cases.append(Fed("one row", "TfIdfVectorizer", (always(x(1)[0].astype(np.int32)),), {**words, **more}, 9))
    return cases


def _numbers() -> list[Fed]:
    cases = []
    a = np.array([2**64 - 1, 2**63, 2**63 + 7, 5, 0, 2**64 - 1, 10**19, 17], np.uint64)
    b = np.array([2**63, 2**63, 3, 2**63, 9, 1, 2**64 - 1, 5], np.uint64)
    for op, opset in (("Div", 14), ("Mod", 13)):
        cases.append(Fed("large", op, (always(a), always(b)), {}, opset, (UINT64,)))
        cases.append(Fed("by a constant", op, (always(a), b[2:3]), {}, opset, (UINT64,)))
    for rank in (2, 3, 4):
        shape, weights = (4, 3, 2)[: rank - 1], [normal(4, seed=s) for s in range(4)]
        given = (lambda b, s=shape: normal(b + 1, *s), *weights[:3], np.abs(weights[3]))
        for opset in (14, 15):
            for attributes in ({}, {"momentum": 0.7, "epsilon": 0.1}):
                more = {"training_mode": 1, **attributes}
                cases.append(Fed(f"{rank} {more}", "BatchNormalization", given, more, opset, (FLOAT,) * 3))
    for outputs in ((FLOAT,), (FLOAT, BOOL)):
        cases.append(Fed(f"{len(outputs)}", "Dropout", (lambda b: normal(b, 5), always(one(0.3))), {}, 13, outputs))
    return cases


FED: list[Fed] = [*_regions(), *_windows(), *_signals(), *_text(), *_numbers()]
MORE: list[Case] = _shapes()
