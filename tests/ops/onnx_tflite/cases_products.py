"""Sums of products, and transforms that are products with a constant matrix."""

import itertools

import numpy as np
import onnx

from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import N, weight

INT32 = onnx.TensorProto.INT32


def _einsums() -> list[Case]:
    a, c = (N, 3, 4), (N, 4, 5)
    equations: list[tuple[str, tuple]] = [
        ("bij,bjk->bik", (a, c)),
        ("bij,bjk->bki", (a, c)),
        ("bij,bjk", (a, c)),
        ("bij,bjk->ik", (a, c)),
        ("bij->bji", (a,)),
        ("bij->j", (a,)),
        ("bij->", (a,)),
        ("bij,bij->bij", (a, a)),
        ("bij,bij->b", (a, a)),
        ("bij,bij->i", (a, a)),
        ("bi,bj->bij", ((N, 3), (N, 4))),
        ("i,j->ij", ((3,), (4,))),
        ("bij,jk->bik", (a, weight(4, 6))),
        ("bij,ijk->bk", (a, weight(3, 4, 6))),
        ("...ij,...jk->...ik", ((N, 2, 3, 4), (N, 2, 4, 5))),
        ("...ij,jk->...ik", ((N, 2, 3, 4), (4, 5))),
        ("i...,j...->ij...", ((3, 2), (4, 1))),
        ("bhqd,bhkd->bhqk", ((N, 2, 3, 4), (N, 2, 5, 4))),
        ("bqhd,bkhd->bhqk", ((N, 3, 2, 4), (N, 5, 2, 4))),
        ("bhwc,hkc->bhwk", ((N, 3, 4, 5), (3, 6, 5))),
        ("bii->bi", ((N, 4, 4),)),
        ("bii->b", ((N, 4, 4),)),
        ("iii->i", ((3, 3, 3),)),
        ("bii,bij->bj", ((N, 4, 4), (N, 4, 3))),
        ("ab,bc,cd->ad", ((N, 3), (3, 4), (4, 5))),
        ("ab,cb,cd,a->da", ((2, 3), (4, 3), (4, 5), (2,))),
        (" b i j , b j k -> b i k ", (a, c)),
    ]
    cases = [Case("Einsum", inputs, {"equation": equation}) for equation, inputs in equations]
    kinds = {"kind": INT32, "outputs": (INT32,), "low": -9, "high": 9}
    cases += [
        Case("Einsum", (a, c), {"equation": "bij,bjk->bik"}, **kinds),
        Case("Einsum", (a,), {"equation": "bij->i"}, **kinds),
    ]
    return cases


def _transforms() -> list[Case]:
    cases = []
    for parts, axis, inverse in itertools.product((1, 2), (1, 2, -2), (0, 1)):
        x = (N, 5, 6, parts)
        cases.append(Case("DFT", (x, None, np.array(axis)), {"inverse": inverse}, opset=20))
        cases.append(Case("DFT", (x, np.array(8), np.array(axis)), {"inverse": inverse}, opset=20))
        cases.append(Case("DFT", (x, np.array(4)), {"inverse": inverse, "axis": axis}, opset=17))
    cases += [Case("DFT", ((N, n, 1),), {"onesided": 1}, opset=opset) for n in (6, 7) for opset in (17, 20)]
    for length, window in ((6, None), (6, np.hanning(6).astype(np.float32)), (5, np.hamming(5).astype(np.float32))):
        for onesided, step in itertools.product((0, 1), (1, 3)):
            signal = ((N, 16, 1), np.array(step), window, np.array(length))
            cases.append(Case("STFT", signal, {"onesided": onesided}, opset=17))
    cases += [Case("STFT", ((N, 16, 1), np.array(4), (5,)), opset=17)]
    cases += [Case("STFT", ((N, 16, 2), np.array(4), None, np.array(8)), {"onesided": 0}, opset=17)]
    numbers = (np.array(8), np.array(64), np.array(16000), np.array(20.0, np.float32), np.array(7600.0, np.float32))
    cases += [Case("MelWeightMatrix", numbers, opset=17)]
    return cases


CASES = [*_einsums(), *_transforms()]
