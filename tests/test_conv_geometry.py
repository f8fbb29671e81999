"""Convolutions and matrix products of any geometry on every device, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pylayout as pl
from pylayout import ops

STACKS = [((), ()), ((3,), ()), ((), (2,)), ((2, 1), (3,))]  # of a and of b, before rows and columns
LAYOUTS = ["NCHW", "NHWC", "nChw16c", "nChw8c"]
# Kernels take sizes as arguments, so examples cost few builds.
EXAMPLES = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])

pytestmark = pytest.mark.usefixtures("unoptimised")


def conv2d_float64(x, w, stride, padding, dilation, groups):
    n, c = x.shape[:2]
    oc, ic, kh, kw = w.shape
    top, left, bottom, right = padding
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    w = w.astype(np.float64)
    height = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    width = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = np.zeros((n, oc, height, width))
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dilation[0], i * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
            columns = slice(j * dilation[1], j * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
            seen = x[:, :, rows, columns].reshape(n, groups, c // groups, height, width)
            weights = w[:, :, i, j].reshape(groups, oc // groups, ic)
            y += np.einsum("ngihw,goi->ngohw", seen, weights).reshape(y.shape)
    return y


def conv_transpose2d_float64(x, w, stride, padding, dilation, groups):
    n, c, height, width = x.shape
    kh, kw = w.shape[2:]
    oc = w.shape[1] * groups
    top, left, bottom, right = padding
    full = np.zeros(
        (
            n,
            oc,
            (height - 1) * stride[0] + dilation[0] * (kh - 1) + 1,
            (width - 1) * stride[1] + dilation[1] * (kw - 1) + 1,
        )
    )
    grouped = x.astype(np.float64).reshape(n, groups, c // groups, height, width)
    weights = w.astype(np.float64).reshape(groups, c // groups, oc // groups, kh, kw)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dilation[0], i * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
            columns = slice(j * dilation[1], j * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
            add = np.einsum("ngihw,gio->ngohw", grouped, weights[..., i, j])
            full[:, :, rows, columns] += add.reshape(n, oc, height, width)
    return full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]


def check(y, expected):
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    assert y.shape == expected.shape
    np.testing.assert_allclose(np.asarray(y), expected, rtol=0, atol=1e-5 * scale)


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def convolutions(draw):
    groups = draw(st.sampled_from([1, 1, 2, 3, 8, 24]))
    ic, oc = draw(st.sampled_from([(1, 1), (1, 2), (2, 3), (5, 4), (16, 16)]))
    kernel, dilation, stride = draw(pairs), draw(pairs), draw(pairs)
    padding = tuple(draw(st.integers(0, 4)) for _ in range(4))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = [r + draw(st.integers(0, 17)) for r in reach]
    shape = (draw(st.integers(1, 3)), ic * groups, *sizes)
    return shape, (oc, ic, *kernel), stride, padding, dilation, groups


@given(case=convolutions(), layout=st.sampled_from(LAYOUTS), seed=st.integers(0, 1000))
@EXAMPLES
def test_conv2d_of_any_geometry(device, case, layout, seed):
    shape, (oc, ic, kh, kw), stride, padding, dilation, groups = case
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(np.float32)
    w = rng.standard_normal((oc * groups, ic, kh, kw)).astype(np.float32)
    y = ops.conv2d(
        pl.asarray(x, device=device, layout=layout), pl.asarray(w, device=device), stride=stride, padding=padding,
        dilation=dilation, groups=groups, layout=layout,
    )  # fmt: skip
    check(y, conv2d_float64(x, w, stride, padding, dilation, groups))


@given(case=convolutions(), layout=st.sampled_from(LAYOUTS), seed=st.integers(0, 1000))
@EXAMPLES
def test_conv_transpose2d_of_any_geometry(device, case, layout, seed):
    shape, (oc, ic, kh, kw), stride, padding, dilation, groups = case
    rng = np.random.default_rng(seed)
    padding = tuple(min(p, (k - 1) * d // 2) for p, k, d in zip(padding, (kh, kw) * 2, dilation * 2, strict=True))
    x = rng.standard_normal(shape).astype(np.float32)
    w = rng.standard_normal((ic * groups, oc, kh, kw)).astype(np.float32)
    y = ops.conv_transpose2d(
        pl.asarray(x, device=device, layout=layout), pl.asarray(w, device=device), stride=stride, padding=padding,
        dilation=dilation, groups=groups, layout=layout,
    )  # fmt: skip
    check(y, conv_transpose2d_float64(x, w, stride, padding, dilation, groups))


@given(
    m=st.integers(1, 40), k=st.integers(1, 70), n=st.integers(1, 70), stacks=st.sampled_from(STACKS),
    transposed=st.tuples(st.booleans(), st.booleans()), seed=st.integers(0, 1000),
)  # fmt: skip
@EXAMPLES
def test_matmul_of_any_shape(device, m, k, n, stacks, transposed, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((*stacks[0], m, k)), rng.standard_normal((*stacks[1], k, n))
    a, b = a.astype(np.float32), b.astype(np.float32)
    given_a = np.ascontiguousarray(np.swapaxes(a, -1, -2)) if transposed[0] else a
    given_b = np.ascontiguousarray(np.swapaxes(b, -1, -2)) if transposed[1] else b
    y = ops.matmul(
        pl.asarray(given_a, device=device), pl.asarray(given_b, device=device), transpose_a=transposed[0],
        transpose_b=transposed[1],
    )  # fmt: skip
    check(y, a.astype(np.float64) @ b.astype(np.float64))
