"""Arguments for every converter: what it must run in a plan, and what PyTorch is asked for, too."""

from __future__ import annotations

from typing import Any

import torch
from torch_case_tensors import (
    ANY,
    BY_NUMBERS,
    BYTES,
    CLOSED,
    COUNTS,
    EDGES,
    ENDS,
    FUNCTIONS,
    IMAGE,
    INTEGERS,
    LEVELS,
    MANY,
    SEED,
    WIDE,
    A,
    B,
    X,
    b,
    halves,
    i,
    ints,
    level,
    level_backward,
    once,
    p,
    r,
)

import pylayout.torch.recurrent  # noqa: F401  # defines its ops

# Arguments by op, a dict at the end being keywords. Each call must run in a plan alone.
CASES: dict[str, list[tuple[Any, ...]]] = {
    **{f"{op}.default": CLOSED for op in FUNCTIONS},
    "acosh.default": [(p(3, 4) + 1,)],
    **{f"{op}.default": ANY for op in ("abs", "ceil", "floor", "neg", "relu", "round", "sign", "trunc")},
    "sign.default": [*ANY, (EDGES,), (EDGES.bfloat16(),), (EDGES.half(),), (i(9, 4) - 5,)],
    "nan_to_num.default": [(EDGES,), (EDGES, 2.0, 7.0), (EDGES, None, None, -7.0), (i(9, 4) - 5,)],
    "isnan.default": [(torch.tensor([1.0, float("nan")]),)],
    "isinf.default": [(torch.tensor([1.0, float("inf")]),)],
    "logical_not.default": [(b(3, 4),), (i(2, 3),)],
    "bitwise_not.default": [(b(3, 4),), *((ints(dtype),) for dtype in INTEGERS)],
    "gelu.default": [(X,), (X, {"approximate": "tanh"})],
    "elu.default": [(X,), (X, 1.6732, 1.0507), (X, 0.5, 2.0, 1.5)],
    "celu.default": [(X, 1.5)],
    "leaky_relu.default": [(X, 0.2)],
    "softplus.default": [(X, 2.0, 10.0)],
    "threshold.default": [(X, 0.1, 20.0)],
    "fill.Scalar": [(X, 2.5), (i(3, 4), 7), (b(3, 4), True)],
    "fill.Tensor": [(X, torch.tensor(2.5)), (i(3, 4), torch.tensor(7.5))],
    "hardtanh.default": [(X, 0.0, 6.0), (X, -0.5, 0.5)],
    "clamp.default": [(X, -0.5, 0.5), (X, None, 0.2), (i(9, 4), 2, 5), (BYTES, -3, 5), (BYTES, None, -1)],
    "clamp.Tensor": [(X, r(4) - 1, r(4) + 1), (X, None, r(3, 1))],
    "clamp_min.default": [(X, 0.1), (BYTES, -2)],
    "clamp_max.default": [(X, 0.1)],
    "_prelu_kernel.default": [(X, r(1, 3, 1)), (X, r(1, 1, 1)), (r(4), r(1)), (r(2, 1, 3), r(1, 1, 1))],
    "erfc.default": [(X * 3,), (EDGES,)],
    "special_erfc.default": [(X,)],
    "erfinv.default": [(r(9, 9).tanh(),), (torch.tensor([0.0, -0.0, 1, -1, 1.5, 0.999999, 1e-6, float("nan")]),)],
    "lgamma.default": [(X * 3,), (p(9),), (EDGES,)],
    "digamma.default": [(p(9) * 20,), (p(9) - 3,), (EDGES,)],
    "polygamma.default": [
        *((order, values) for order in range(4) for values in (p(9) * 20, torch.tensor([-2.3, -0.6, 0.2, 0.5, 1, 7]))),
        (1, torch.tensor([0.0, float("inf"), float("nan")])),
    ],
    "signbit.default": [(EDGES,), (i(9, 4) - 5,)],
    "angle.default": [(EDGES,), (i(9, 4) - 5,)],
    "round.decimals": [(X, {"decimals": 2}), (X * 1000, {"decimals": -2}), (X, {"decimals": 0})],
    "_cdist_forward.default": [(r(2, 5, 3), r(2, 4, 3), norm, None) for norm in (0.0, 1.0, 1.5, 2.0, float("inf"))],
    "_cdist_backward.default": [
        (r(2, 5, 4), A, B, norm, torch.cdist(A, B, norm)) for norm in (1.0, 1.5, 2.0, 3.0, float("inf"))
    ],
    "add.Tensor": [(X, r(3, 1)), (X, r(4), {"alpha": 0.5}), (X, i(9, 4)), (i(9, 4), i(9, 4)), (b(4), b(4))],
    "add.Scalar": [(X, 2), (i(9, 4), 2), (i(9, 4), 2.5)],
    "sub.Tensor": [(X, r(3, 1)), (X, r(4), {"alpha": 2})],
    "sub.Scalar": [(X, 2.5)],
    "rsub.Tensor": [(X, r(4), {"alpha": 2})],
    "rsub.Scalar": [(X, 2.5)],
    "mul.Tensor": [(X, r(3, 1)), (i(9, 4), r(4)), (b(4), b(4)), *BY_NUMBERS],
    "mul.Scalar": [(X, 2.5), *BY_NUMBERS[:-2]],
    "div.Tensor": [(X, p(4)), (i(9, 4), i(9, 4) + 1), *BY_NUMBERS],
    "div.Scalar": [(X, 3), (i(9, 4), 3), *BY_NUMBERS[:-2]],
    "div.Tensor_mode": [
        (i(90, 4), 7, {"rounding_mode": "floor"}),
        (X, 3.0, {"rounding_mode": None}),
        *((X, r(4), {"rounding_mode": mode}) for mode in ("floor", "trunc")),
        *((EDGES[:, None], EDGES, {"rounding_mode": mode}) for mode in ("floor", "trunc")),
        *((MANY.bfloat16(), 0.3, {"rounding_mode": mode}) for mode in ("floor", "trunc")),
    ],
    "floor_divide.default": [(X, r(4)), (i(90, 4) - 45, 7), (X, -0.3), (MANY.half(), 0.3)],
    "div.Scalar_mode": [(i(90, 4) - 45, 7, {"rounding_mode": "trunc"})],
    "slice_scatter.default": [
        (X, r(2, 2, 4), 1, 1, 3),
        (X, r(2, 3, 4), 1),
        (IMAGE, r(2, 8, 4, 6), 2, 0, 9223372036854775807, 2),
        (IMAGE, r(2, 2, 7, 6), 1, 1, -1, 3),
        (IMAGE, r(2, 8, 7, 2), -1, 1, 3, 1),
        (X, r(2, 1, 4), 1, 1, 3, 2),
        (X, r(2, 2, 4), 1, 0, None, 2),
    ],
    "select_scatter.default": [(X, r(2, 4), 1, -1)],
    "pylayout.slice_scatter.default": [
        (X, r(1, 2, 2), [1, 0, 1], [0, 1, 2], [1, 2, 2]),
        (X, r(2, 3, 4), [0], [1], [1]),
        (IMAGE, r(2, 2, 1, 6), [1, 4], [1, 2], [3, 1]),
    ],
    "maximum.default": [(X, r(4)), (i(9, 4), i(9, 4)), (X > 0, r(4) > 0)],
    "minimum.default": [(X, r(4)), (X > 0, r(4) > 0)],
    "pow.Tensor_Scalar": [
        *((p(4), exponent) for exponent in (2, 0.5, -0.5, 2.3)),
        (X, 3),
        *((ints(dtype), exponent) for dtype in (torch.int32, torch.int64) for exponent in (0, 1, 2, 5, 64)),
    ],
    "pow.Tensor_Tensor": [(p(4), r(4))],
    "pow.Scalar": [
        (2.0, r(4)),
        *((base, torch.arange(-3, 71).to(dtype)) for base in (2, -6, 0, 1, -1) for dtype in (torch.int32, torch.int64)),
        (2, i(9, 2, 3)),
    ],
    "fmod.Tensor": [(X, p(4)), (EDGES[:, None], EDGES)],
    "fmod.Scalar": [(X, 0.7), (i(90, 4) - 45, 7)],
    "remainder.Tensor": [(X, p(4)), (EDGES[:, None], EDGES)],
    "remainder.Scalar": [(X, 0.7), (i(90, 4) - 45, -7)],
    "remainder.Scalar_Tensor": [(0.7, X)],
    **{f"{op}.default": [(X, r(4)), (EDGES[:, None], EDGES)] for op in ("atan2", "fmax", "fmin", "hypot")},
    "copysign.Tensor": [(X, r(4)), (EDGES[:, None], EDGES)],
    "copysign.Scalar": [(X, -2.0)],
    **{f"{op}.Tensor": [(i(3, 4), i(3, 4)), (X, i(2, 4))] for op in ("eq", "ge", "gt", "le", "lt", "ne")},
    **{f"{op}.Scalar": [(i(3, 4), 1), (i(3, 4), 0.5), (X, 0)] for op in ("eq", "ge", "gt", "le", "lt", "ne")},
    **{f"logical_{op}.default": [(b(9), b(9)), (i(2, 9), b(9))] for op in ("and", "or", "xor")},
    **{
        f"bitwise_{op}.Tensor": [
            (b(9), b(9)),
            (b(9), i(9, 9)),
            *((ints(dtype), ints(dtype, 4)) for dtype in INTEGERS),
            (ints(torch.int64), ints(torch.uint8)),
        ]
        for op in ("and", "or", "xor")
    },
    **{
        f"bitwise_{op}.Scalar": [(b(9), True), *((ints(dtype), number) for dtype in INTEGERS for number in (5, -8))]
        for op in ("and", "or", "xor")
    },
    **{
        f"bitwise_{op}.Scalar_Tensor": [(True, b(9)), *((77, ints(dtype)) for dtype in INTEGERS)]
        for op in ("and", "or", "xor")
    },
    **{
        f"{op}.Tensor": [
            *((ints(dtype)[..., None], COUNTS.to(dtype)) for dtype in INTEGERS),
            (ints(torch.uint8)[..., None], COUNTS.to(torch.int64)),
        ]
        for op in ("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__")
    },
    **{
        f"{op}.{form}": [(ints(dtype), count) for dtype in INTEGERS for count in (0, 3, 7, 8, 40, -1)]
        for op, form in (
            ("bitwise_left_shift", "Tensor_Scalar"),
            ("bitwise_right_shift", "Tensor_Scalar"),
            ("__lshift__", "Scalar"),
            ("__rshift__", "Scalar"),
        )
    },
    **{f"bitwise_{op}_shift.Scalar_Tensor": [(-77, COUNTS), (77, COUNTS.to(torch.uint8))] for op in ("left", "right")},
    "where.self": [(b(3, 4), X, r(4)), (b(4), X, i(9, 4))],
    "masked_fill.Scalar": [(X, b(3, 4), -1e9)],
    "masked_fill.Tensor": [(X, b(3, 4), torch.tensor(2.0))],
    "addcmul.default": [(X, r(4), r(3, 1), {"value": 0.3})],
    "prims.fma.default": [(r(3, 4), r(3, 4), r(3, 4))],
    "addcdiv.default": [(X, r(4), p(3, 1), {"value": 0.3})],
    "lerp.Scalar": [(X, r(2, 3, 4), 0.2), (X, r(2, 3, 4), 0.8)],
    "convolution.default": [
        (IMAGE, r(6, 8, 3, 3), r(6), [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
        (IMAGE.to(memory_format=torch.channels_last), r(8, 1, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 8),
        (IMAGE, r(8, 6, 3, 3), r(6), [2, 2], [1, 1], [1, 1], True, [1, 0], 1),
        (r(1, 8, 9), r(6, 8, 3), r(6), [1], [1], [1], False, [0], 1),
        (r(1, 4, 5, 6, 7), r(3, 4, 3, 3, 3), None, [1, 1, 1], [1, 1, 1], [1, 1, 1], False, [0, 0, 0], 1),
    ],
    "mm.default": [(r(3, 4), r(4, 5))],
    "addmm.default": [
        (r(5), r(3, 4), r(4, 5)),
        (r(3, 5), r(3, 4), r(4, 5), {"beta": 0.5, "alpha": 2}),
        (torch.full((3, 5), float("nan")), r(3, 4), r(4, 5), {"beta": 0}),
        (halves(3, 5), halves(3, 4), halves(4, 5), {"beta": 0.5, "alpha": 2}),
        (halves(5), halves(3, 4), halves(4, 5), {"alpha": 0.25}),
        (torch.zeros(3, 5).half(), *(torch.full(shape, 400.0).half() for shape in ((3, 4), (4, 5))), {"alpha": 0.01}),
    ],
    "baddbmm.default": [
        (r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)),
        (r(5), r(2, 3, 4), r(2, 4, 5), {"beta": 0.5, "alpha": 2}),
        (halves(3, 1), halves(2, 3, 4), halves(2, 4, 5), {"beta": 2, "alpha": 0.5}),
    ],
    "bmm.default": [(r(2, 3, 4), r(2, 4, 5))],
    "_grouped_mm.default": [
        (halves(9, 16), halves(3, 16, 8), ENDS),
        (halves(9, 16), halves(3, 8, 16).mT, ENDS),
        (halves(9, 16).T, halves(9, 8), ENDS),
    ],
    "transformers.grouped_mm_fallback.default": [(r(9, 6), r(3, 6, 4), ENDS.long()), (r(9, 6), r(3, 4, 6).mT, ENDS)],
    "transformers.grouped_mm_fallback_backward.default": [(r(9, 6), r(3, 6, 4), ENDS, r(9, 4))],
    "mv.default": [(r(3, 4), r(4))],
    "addmv.default": [
        (r(3), r(3, 4), r(4)),
        (torch.tensor(float("nan")), r(3, 4), r(4), {"beta": 0, "alpha": 2}),
        (halves(3), halves(3, 4), halves(4), {"beta": 0.5, "alpha": 2}),
    ],
    "addbmm.default": [
        (r(3, 5), r(2, 3, 4), r(2, 4, 5)),
        (r(5), r(2, 3, 4), r(2, 4, 5), {"beta": 0.5, "alpha": 2}),
        (halves(3, 5), halves(2, 3, 4), halves(2, 4, 5), {"alpha": 0.5}),
    ],
    "dot.default": [(r(4), r(4)), (halves(9), halves(9)), (halves(8).half() * 300, torch.full((8,), 300.0).half())],
    "_scaled_dot_product_flash_attention_for_cpu.default": [
        (r(2, 4, 5, 8), r(2, 4, 7, 8), r(2, 4, 7, 8)),
        (r(2, 4, 5, 8), r(2, 4, 5, 8), r(2, 4, 5, 8), 0.0, True),
        (r(2, 4, 5, 8), r(2, 2, 7, 8), r(2, 2, 7, 8)),
        (r(2, 4, 5, 8), r(2, 4, 7, 8), r(2, 4, 7, 8), {"attn_mask": r(5, 7), "scale": 0.3}),
    ],
    "_native_batch_norm_legit_no_training.default": [
        (IMAGE, r(8), r(8), r(8), p(8), 0.1, 1e-5),
        (IMAGE.half(), r(8), r(8), r(8), p(8) * 1e6, 0.1, 1e-5),
        (IMAGE.bfloat16(), None, None, r(8), p(8), 0.1, 1e-5),
        (IMAGE.bfloat16(), *(each.bfloat16() for each in (r(8), r(8), r(8), p(8))), 0.1, 1e-5),
    ],
    "native_layer_norm.default": [(X, [4], r(4), r(4), 1e-5), (X, [3, 4], None, None, 1e-5)],
    "native_group_norm.default": [(IMAGE, r(8), r(8), 2, 8, 42, 4, 1e-5)],
    "_softmax.default": [(X, -1, False), (X, 0, False), (r(1)[0], 0, False)],
    "_log_softmax.default": [(X, 1, False), (r(1)[0], 0, False)],
    "_softmax_backward_data.default": [(X, torch.softmax(r(2, 3, 4), -1), -1, torch.float32)],
    "_log_softmax_backward_data.default": [(X, torch.log_softmax(r(2, 3, 4), 1), 1, torch.float32)],
    "max_pool2d_with_indices.default": [
        (IMAGE, [3, 3], [2, 2], [1, 1]),
        (r(8, 7, 6), [2], []),
        (i(3, 2, 8, 7, 6).float(), [3, 2], [1, 2], [1, 0], [2, 1], True),
    ],
    **{
        f"{op}2d{end}.default": [(r(2, 8, 3, 2), IMAGE, *window, i(42, 2, 8, 3, 2))]
        for op, end, window in (
            ("max_pool", "_with_indices_backward", ([2, 3], [], [0], [1], False)),
            ("adaptive_max_pool", "_backward", ()),
            ("fractional_max_pool", "_backward", ([2, 2], [3, 2])),
        )
    },
    **{
        f"{op}3d{end}.default": [(r(3, 2, 2, 2), r(3, 4, 5, 6), *window, i(120, 3, 2, 2, 2))]
        for op, end, window in (
            ("max_pool", "_with_indices_backward", ([2, 2, 3], [], [0], [1], False)),
            ("adaptive_max_pool", "_backward", ()),
            ("fractional_max_pool", "_backward", ([2, 2, 2], [2, 2, 2])),
        )
    },
    "max_pool2d.default": [(IMAGE, [3, 3], [2, 2], [1, 1]), (IMAGE, [2, 2], [], [0, 0], [1, 1], True)],
    "max_pool3d.default": [(r(1, 2, 5, 6, 7), [2, 2, 2]), (r(1, 2, 5, 6, 7), [3, 3, 3], [2, 2, 2], [1, 1, 1])],
    "max_pool3d_with_indices.default": [(r(1, 2, 5, 6, 7), [2, 2, 2])],
    "avg_pool1d.default": [(X, [2])],
    "avg_pool2d.default": [
        (IMAGE, [3, 3], [2, 2], [1, 1], True, False),
        (IMAGE, [2, 2]),
        (IMAGE, [3, 3], [2, 2], [1, 1], False, False, 5),
    ],
    "avg_pool3d.default": [(r(1, 2, 5, 6, 7), [2, 2, 2])],
    **{f"{op}2d.default": [(IMAGE, [1, 1]), (IMAGE, [3, 2])] for op in ("_adaptive_avg_pool", "adaptive_avg_pool")},
    **{f"{op}3d.default": [(r(1, 2, 5, 6, 7), [2, 2, 2])] for op in ("_adaptive_avg_pool", "adaptive_avg_pool")},
    "adaptive_avg_pool1d.default": [(X, [3]), (r(3, 8), [2])],
    "adaptive_max_pool2d.default": [(IMAGE, [3, 2])],
    "adaptive_max_pool3d.default": [(r(1, 2, 5, 6, 7), [2, 2, 2])],
    "col2im.default": [
        (r(2, 3 * 6, 6 * 6), [8, 7], [3, 2], [1, 1], [0, 0], [1, 1]),
        (r(5 * 9, 4 * 3), [9, 7], [3, 3], [2, 2], [1, 1], [2, 2]),
    ],
    "upsample_nearest1d.default": [(X, [7])],
    "upsample_nearest2d.default": [
        (IMAGE, [14, 12], 2.0, 2.0),
        (IMAGE, [5, 9]),
        (IMAGE, [10, 9], 1.5, 1.5),
        (IMAGE, [5, 4], 0.75, 0.75),
    ],
    "upsample_nearest3d.default": [(r(1, 2, 3, 4, 5), [6, 8, 10])],
    "upsample_linear1d.default": [(X, [7], False), (X, [7], True), (X, [5], False, 1.3)],
    "upsample_bilinear2d.default": [
        (IMAGE, [14, 12], False),
        (IMAGE, [14, 12], True),
        (IMAGE, [10, 9], False, 1.5, 1.5),
        (IMAGE, [5, 4], True, 0.75, 0.75),
    ],
    "upsample_trilinear3d.default": [(r(1, 2, 3, 4, 5), [6, 8, 10], False)],
    "upsample_nearest1d.vec": [(X, [7], None)],
    "upsample_nearest2d.vec": [(IMAGE, None, [2.0, 2.0]), (IMAGE, [5, 9], None), (IMAGE, None, [1.5, 0.7])],
    "upsample_nearest3d.vec": [(r(1, 2, 3, 4, 5), [6, 8, 10], None)],
    "upsample_linear1d.vec": [(X, [7], False, None)],
    "upsample_trilinear3d.vec": [(r(1, 2, 3, 4, 5), None, False, [2.0, 2.0, 2.0])],
    **{
        f"{op}2d{end}.vec": [(IMAGE, [5, 9], True, None), (IMAGE, None, False, [2.0, 1.5])]
        for op, end in (
            ("upsample_bilinear", ""),
            ("upsample_bicubic", ""),
            ("_upsample_bilinear", "_aa"),
            ("_upsample_bicubic", "_aa"),
        )
    },
    "_upsample_nearest_exact1d.vec": [(X, [7], None)],
    "_upsample_nearest_exact2d.vec": [(IMAGE, None, [2.0, 1.5])],
    "_upsample_nearest_exact3d.vec": [(r(1, 2, 3, 4, 5), None, [2.0, 2.0, 1.5])],
    "pylayout.resize.default": [
        (IMAGE, [14, 12], "upsample_bilinear2d", False, [2.0, 2.0]),
        (IMAGE, [9, 4], "upsample_nearest2d", False, []),
        (IMAGE, [9, 4], "upsample_bicubic2d", True, []),
    ],
    "pylayout.resize_backward.default": [
        (r(2, 8, 14, 12), [14, 12], [2, 8, 7, 6], "upsample_bilinear2d", False, [2.0, 2.0]),
        (r(2, 8, 9, 4), [9, 4], [2, 8, 7, 6], "upsample_nearest2d", False, []),
        (r(2, 8, 10, 9), [10, 9], [2, 8, 7, 6], "upsample_bilinear2d", False, [1.5, 1.5]),
        (r(2, 8, 10, 9), [10, 9], [2, 8, 7, 6], "upsample_nearest2d", False, [1.5, 1.5]),
    ],
    "upsample_nearest1d_backward.default": [(r(2, 3, 7), [7], [2, 3, 4])],
    "upsample_nearest2d_backward.default": [(r(2, 8, 14, 12), [14, 12], [2, 8, 7, 6], 2.0, 2.0)],
    "upsample_nearest3d_backward.default": [(r(1, 2, 6, 8, 10), [6, 8, 10], [1, 2, 3, 4, 5])],
    "upsample_linear1d_backward.default": [(r(2, 3, 7), [7], [2, 3, 4], align) for align in (False, True)],
    "upsample_bilinear2d_backward.default": [(r(2, 8, 14, 9), [14, 9], [2, 8, 7, 6], align) for align in (False, True)],
    "upsample_trilinear3d_backward.default": [(r(1, 2, 6, 8, 10), [6, 8, 10], [1, 2, 3, 4, 5], False)],
    **{
        f"{op}.default": [
            (IMAGE, [11, 9], False),
            (IMAGE, [3, 4], False),
            (IMAGE, [14, 4], True),
            (IMAGE, [15, 13], False, 2.2, 2.2),
            (r(1, 2, 40, 33), [3, 4], False),
            (r(1, 2, 40, 5), [3, 9], False),
        ]
        for op in ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
    },
    **{
        f"{op}_backward.default": [
            (r(2, 8, 11, 9), [11, 9], [2, 8, 7, 6], False),
            (r(2, 8, 3, 4), [3, 4], [2, 8, 7, 6], False),
            (r(2, 8, 14, 4), [14, 4], [2, 8, 7, 6], True),
        ]
        for op in ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
    },
    "_upsample_nearest_exact1d.default": [(X, [7]), (X, [3], 0.8)],
    "_upsample_nearest_exact2d.default": [(IMAGE, [11, 4]), (IMAGE, [15, 13], 2.2, 2.2)],
    "_upsample_nearest_exact3d.default": [(r(1, 2, 3, 4, 5), [6, 3, 7])],
    "_upsample_nearest_exact1d_backward.default": [(r(2, 3, 7), [7], [2, 3, 4])],
    "_upsample_nearest_exact2d_backward.default": [(r(2, 8, 11, 4), [11, 4], [2, 8, 7, 6])],
    "_upsample_nearest_exact3d_backward.default": [(r(1, 2, 6, 3, 7), [6, 3, 7], [1, 2, 3, 4, 5])],
    "grid_sampler_2d.default": [
        (IMAGE, r(2, 5, 4, 2), mode, padding, align)
        for mode in range(3)
        for padding in range(3)
        for align in (False, True)
    ],
    "grid_sampler_3d.default": [(r(2, 3, 4, 5, 6), r(2, 3, 2, 4, 3), mode, 0, False) for mode in range(2)],
    "grid_sampler_2d_backward.default": [
        (r(2, 8, 5, 4), IMAGE, r(2, 5, 4, 2), mode, padding, False, [True, True])
        for mode in range(3)
        for padding in range(3)
    ],
    "grid_sampler_3d_backward.default": [
        (r(2, 3, 3, 2, 4), r(2, 3, 4, 5, 6), r(2, 3, 2, 4, 3), 0, 0, True, [True, True])
    ],
    "replication_pad1d_backward.default": [(r(2, 3, 7), X, [1, 2])],
    "replication_pad2d_backward.default": [
        (r(2, 8, 10, 8), IMAGE, [1, 1, 0, 3]),
        (r(2, 8, 8, 3), IMAGE, [-1, -2, 1, 0]),
    ],
    "replication_pad3d_backward.default": [(r(2, 6, 7, 8), r(2, 3, 4, 5), [1, 2, 0, 3, 1, 2])],
    "reflection_pad1d_backward.default": [(r(2, 3, 7), X, [1, 2])],
    "reflection_pad2d_backward.default": [
        (r(2, 8, 10, 8), IMAGE, [1, 1, 0, 3]),
        (r(2, 8, 8, 3), IMAGE, [-1, -2, 1, 0]),
    ],
    "reflection_pad3d_backward.default": [(r(2, 6, 7, 8), r(2, 3, 4, 5), [1, 2, 0, 3, 1, 2])],
    "embedding.default": [(r(9, 4), i(9, 2, 3))],
    "index_select.default": [(X, 1, i(3, 5)), (X, 1, torch.tensor(2))],
    "gather.default": [(X, 2, i(4, 2, 3, 2)), (r(5), 0, torch.tensor(3))],
    "searchsorted.Tensor": [
        *((p(7).sort()[0], r(3, 4), {"right": right}) for right in (False, True)),
        (i(9, 2, 7).sort()[0], i(9, 2, 4), {"side": "right", "out_int32": True}),
        (torch.tensor([5.0, 1.0, 3.0]), r(4) * 4, {"sorter": torch.tensor([1, 2, 0])}),
        (torch.tensor([1.0, 2.0, float("nan")]), torch.tensor([0.0, 1.0, 2.0, float("nan"), float("inf")])),
    ],
    "searchsorted.Scalar": [(p(7).sort()[0], 0.5), (torch.tensor([1, 3, 5, 7]), 3.5), (torch.tensor([1, 3]), 2)],
    "bucketize.Tensor": [
        (r(3, 4), torch.tensor([-1.0, 0.0, 0.5])),
        (i(9, 4), torch.tensor([2, 4, 6]), {"right": True}),
        # The dtype that holds both is neither's, or the values'.
        (torch.tensor([-2.5, 0.5, float("nan")]), torch.tensor([-2, 0, 1, 5])),
        (torch.tensor([2**32 + 5, 7]), torch.tensor([-100, 0, 50, 100], dtype=torch.int32)),
        (torch.tensor([200, 3], dtype=torch.uint8), torch.tensor([-100, 0, 50, 100], dtype=torch.int8)),
    ],
    "bucketize.Scalar": [(0.3, torch.tensor([-1.0, 0.0, 0.5]))],
    "index.Tensor": [
        (X, [None, i(3, 5)]),
        (X, [i(2, 5, 1), i(3, 6) - 3]),
        (X, [i(2, 5)]),
        (X, [i(2, 5, 1), None, i(4, 6) - 4]),
        (IMAGE, [None, i(8, 3), None, i(6, 2, 3)]),
        (IMAGE, [i(2, 3), None, i(7, 1), i(6, 3)]),
    ],
    "sum.dim_IntList": [(X, [1]), (X, [0, 2], True), (i(9, 3, 4), [0]), (b(3, 4), [0]), (X, None)],
    "sum.default": [(X,), (torch.tensor(3.0),)],
    "mean.dim": [(IMAGE, [2, 3], True), (X, [-1])],
    "mean.default": [(X,)],
    "prod.dim_int": [(X, 1), (i(9, 3, 4), 1)],
    "prod.default": [(X,)],
    "amax.default": [(X, [1]), (X,), (b(3, 4), [1]), (b(1)[0],)],
    "amin.default": [(X, [1], True), (b(3, 4), [0], True)],
    "max.default": [(X,)],
    "min.default": [(X,)],
    "max.dim": [(X, 1), (b(3, 4), 1)],
    "min.dim": [(X, 1, True), (b(3, 4), 0)],
    "argmax.default": [(X, 1), (X,), (r(1)[0],)],
    "argmin.default": [(X, 1, True)],
    "any.default": [(b(3, 4),), (b(1)[0],)],
    "any.dim": [(b(3, 4), 1)],
    "any.dims": [(b(3, 4), [0, 1])],
    "all.default": [(b(3, 4),)],
    "all.dim": [(b(3, 4), 1, True)],
    "all.dims": [(b(3, 4), [0])],
    "var.correction": [(X, [1], {"correction": 1}), (X, None, {"correction": 0})],
    "var_mean.correction": [(X, [1], {"correction": 1, "keepdim": True})],
    "linalg_vector_norm.default": [
        (X,),
        (X, 1, [1]),
        (X, float("inf"), [1], True),
        *((X, order, [0, 2], True) for order in (0, 0.5, 3, -float("inf"))),
        (X, 3.5),
    ],
    "cumsum.default": [(X, 1), (i(9, 4), 0), (r(1)[0], 0)],
    "cumprod.default": [(X, 1), (i(9, 4), 0), (X, -1, {"dtype": torch.float32})],
    "_logcumsumexp.default": [(X, 1)],
    "logcumsumexp.default": [(X * 40, 1), (EDGES, 0), (torch.full((4,), -float("inf")), 0)],
    "topk.default": [(X, 2), (X, 2, 1, False)],
    "sort.default": [(X,), (X, 1, True), (r(1)[0],), (i(99, 20).unique(),), (b(1), 0), (b(1)[0],)],
    # On the CPU PyTorch has a loop for these: test_ocl_modules_own.py has them.
    "cummax.default": [],
    "cummin.default": [],
    # Here PyTorch would trace their steps: test_export.py has them.
    **{f"{cell}.input": [] for cell in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    "pylayout.recurrent.default": [level(*how) for how in LEVELS],
    "pylayout.recurrent_backward.default": [level_backward(*how) for how in LEVELS],
    "histc.default": [
        (i(7, 90).float(), 7, 0, 6),
        (r(3, 50), 9, -1.5, 0.7),
        (r(3, 50), 11),
        (torch.full((9,), 2.0), 4),
        (torch.tensor([-1.0, 1.0, 0.5, float("inf"), float("nan"), 2.0]), 4, -1, 1),
    ],
    "_weight_norm_interface_backward.default": [
        (r(5, 3, 4), r(5, 3, 4), r(5, 1, 1), p(5, 1, 1) * 3, 0),
        (r(5, 3), r(5, 3), r(1, 3), p(1, 3) * 3, 1),
    ],
    "scatter.src": [(X, 1, once(3, 2, 2, 4), r(2, 3, 4)), (i(9, 5), 0, torch.tensor([3, 0]), i(9, 2))],
    "scatter.value": [(X, -1, i(4, 2, 3, 2), 2.5), (b(3, 4), 0, i(3, 1, 4), True)],
    "scatter.reduce": [
        (X, 1, i(3, 2, 5, 4), r(2, 5, 4), {"reduce": "add"}),
        (X, 0, i(2, 2, 3, 4), X, {"reduce": "multiply"}),
    ],
    "scatter.value_reduce": [(X, 1, i(3, 2, 5, 4), 0.5, {"reduce": "multiply"})],
    "scatter_add.default": [(X, 1, i(3, 2, 7, 4), r(2, 7, 5)), (i(9, 4, 3), 0, i(4, 2, 3), i(9, 2, 3))],
    "scatter_reduce.two": [
        *((X, 1, i(3, 2, 5, 4), r(2, 5, 4), how) for how in ("sum", "prod", "amax", "amin")),
        *((X, 1, i(3, 2, 5, 4), r(2, 5, 4), how, {"include_self": False}) for how in ("sum", "prod", "amax", "amin")),
        (i(9, 4), 0, i(4, 6), i(9, 6), "amax"),
        *((X, 1, i(3, 2, 5, 4), r(2, 5, 4), "mean", {"include_self": include}) for include in (True, False)),
    ],
    "index_reduce.default": [
        (X, 1, i(3, 5), r(2, 5, 4), how, {"include_self": include})
        for how in ("prod", "mean", "amax", "amin")
        for include in (True, False)
    ],
    "put.default": [(X, torch.tensor([[3, -1], [7, 0]]), r(2, 2)), (X, i(24, 9), r(9), True)],
    "masked_scatter.default": [(X, b(2, 3, 4), r(5, 6)), (X, b(3, 1), r(24))],
    "_index_put_impl.default": [(X, [torch.tensor([1, 0])], r(2, 3, 4), True)],
    "index_add.default": [(X, 1, i(3, 5), r(2, 5, 4)), (X, -1, i(4, 3), r(2, 3, 3), {"alpha": 0.5})],
    "index_copy.default": [(X, 1, torch.tensor([2, 0]), r(2, 2, 4))],
    "index_fill.int_Scalar": [(X, 1, torch.tensor([2, 0]), 3.0)],
    "index_fill.int_Tensor": [(X, -1, torch.tensor([2, 0]), torch.tensor(3.0))],
    "index_put.default": [
        (X, [torch.tensor([1, 0])], r(2, 3, 4)),
        (X, [None, torch.tensor([2, -1, 0])], r(4)),
        (X, [i(2, 5), i(3, 5)], r(5, 4), True),
        (X, [None, i(3, 2, 3), i(4, 3)], r(2, 2, 3), True),
        (IMAGE, [None, None, torch.tensor([[0], [-3]]), torch.tensor([1, 2, -1])], r(1)),
        (i(9, 6), [i(6, 9)], i(9, 9), True),
        (X, [torch.tensor([1, 0]), None, torch.tensor([3, -4])], r(2, 3)),
        (IMAGE, [None, i(8, 3), None, i(6, 2, 3)], r(2, 7), True),
        (IMAGE, [i(2, 9), None, i(7, 1), i(6, 9)], r(9, 8), True),
        (X, [b(2, 3)], r(4)),
        (X, [b(2, 3, 4)], r(1), True),
    ],
    "_unsafe_index_put.default": [(X, [torch.tensor([1, 0])], r(2, 3, 4))],
    "kthvalue.default": [(X, 2), (X, 3, 1, True)],
    "median.default": [(X,), (torch.tensor([1.0, float("nan"), 0.5]),), (i(9, 3, 4),)],
    "nanmedian.default": [(X,), (torch.tensor([1.0, float("nan"), 0.5]),), (torch.tensor([float("nan")] * 3),)],
    "nanmedian.dim": [
        (X, 1),
        (torch.tensor([[1.0, float("nan"), 0.5, 2.0], [4.0, 3.0, 2.0, 1.0]]), -1, True),
    ],
    "median.dim": [(X, -1), (X, 1, True), (torch.tensor([[1.0, float("nan"), float("nan")], [3.0, 2.0, 1.0]]), 1)],
    "sort.stable": [(i(3, 20), {"stable": True, "dim": 0, "descending": True})],
    "convolution_backward.default": [
        (r(2, 6, 4, 4), IMAGE, r(6, 8, 3, 3), [6], [2, 1], [1, 0], [1, 1], False, [0, 0], 1, [True, True, True]),
        (r(2, 8, 7, 6), IMAGE, r(8, 1, 3, 3), [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 8, [True, True, False]),
        (r(2, 6, 14, 11), IMAGE, r(8, 6, 3, 3), [6], [2, 2], [1, 1], [1, 1], True, [1, 0], 1, [True, True, True]),
        (r(2, 6, 18, 7), IMAGE, r(8, 6, 3, 3), [6], [3, 1], [2, 2], [1, 2], True, [1, 1], 1, [True, True, True]),
        (r(1, 6, 3), r(1, 8, 8), r(6, 8, 3), [6], [2], [0], [1], False, [0], 1, [True, True, True]),
    ],
    "_native_batch_norm_legit.no_stats": [
        (IMAGE, r(8), r(8), True, 0.1, 1e-5),
        (r(1, 6, 5), None, None, True, 0.1, 1e-3),
        (r(2, 3, 2, 3, 4), r(3), None, True, 0.1, 1e-3),
    ],
    "_native_batch_norm_legit_functional.default": [
        (IMAGE, r(8), r(8), r(8), p(8), True, 0.1, 1e-5),
        (IMAGE, None, None, r(8), p(8), True, 0.3, 1e-3),
    ],
    "native_batch_norm_backward.default": [
        (
            r(2, 8, 7, 6),
            IMAGE,
            r(8),
            r(8),
            p(8),
            IMAGE.mean((0, 2, 3)),
            (IMAGE.var((0, 2, 3), correction=0) + 1e-5).rsqrt(),
            True,
            1e-5,
            [True, True, True],
        ),
        (r(2, 8, 7, 6), IMAGE, r(8), r(8), p(8), r(8), p(8), False, 1e-5, [True, True, True]),
        (r(2, 8, 7, 6), IMAGE, None, r(8), p(8), r(8), p(8), False, 1e-5, [True, False, False]),
    ],
    "threshold_backward.default": [(r(5, 7), r(5, 7), 0), (r(2, 8, 7, 6), IMAGE, 0.5)],
    "hardshrink_backward.default": [(r(5, 7), r(5, 7), 0.5)],
    "hardtanh_backward.default": [(r(5, 7), r(5, 7), -0.5, 0.7)],
    "softshrink_backward.default": [(r(5, 7), r(5, 7), 0.5)],
    "nll_loss_backward.default": [
        (r(1)[0], r(5, 7), i(7, 5), None, 1, -100, torch.tensor(5.0)),
        (r(5), r(5, 7), i(7, 5), p(7), 0, 2, torch.tensor(4.0)),
        (r(1)[0], r(7), i(7, 1)[0], p(7), 2, -100, torch.tensor(1.0)),
    ],
    "nll_loss2d_backward.default": [
        (r(1)[0], r(2, 5, 3, 4), i(5, 2, 3, 4), p(5), 1, 1, torch.tensor(9.0)),
        (r(2, 3, 4), r(2, 5, 3, 4), i(5, 2, 3, 4), None, 0, -100, torch.tensor(24.0)),
    ],
    "pylayout.embedding_bag.default": [
        (r(9, 5), i(9, 8), torch.tensor([3, 3, 5, 8]), 0, r(8), -1),
        (r(9, 5), i(9, 8), torch.tensor([3, 3, 5]), 1, None, 2),
        (r(9, 5), i(9, 8).int(), torch.tensor([8]).int(), 2, None, -1),
    ],
    "pylayout.embedding_bag_rows.default": [(r(9, 5), i(9, 8), torch.tensor([3, 3, 5, 8]), 2)],
    "pylayout.cross_entropy.default": [
        (r(6, 11), i(11, 6), p(11), "mean", 3, 0.2),
        (r(6, 11), i(11, 6), None, "sum", -100, 0.0),
        (r(6, 11), i(11, 6), None, "none", 2, 0.1),
    ],
    "pylayout.cross_entropy_backward.default": [
        (r(1)[0], r(6, 11), i(11, 6), p(11), "mean", 3, 0.2),
        (r(1)[0], r(6, 11), i(11, 6), None, "sum", -100, 0.0),
        (r(6), r(6, 11), i(11, 6), p(11), "none", 2, 0.1),
    ],
    "avg_pool2d_backward.default": [
        (r(2, 8, 4, 4), IMAGE, [3, 3], [2, 2], [1, 1], True, False, None),
        (r(2, 8, 4, 3), IMAGE, [3, 3], [2, 2], [1, 1], False, False, 5),
    ],
    "avg_pool3d_backward.default": [(r(1, 2, 2, 3, 3), r(1, 2, 5, 6, 7), [2, 2, 2], [], [0], False, True, None)],
    "pylayout.dropout.default": [(r(3, 5), SEED, 0.3), (halves(300, 7), SEED, 0.5)],
    "pylayout.dropout_mask.default": [(SEED, [3, 5], 0.3), (SEED, [300, 7], 0.5)],
    "native_dropout_backward.default": [(r(3, 5), b(3, 5), 1.25)],
    "pylayout.attention.default": [
        (r(2, 3, 5, 4), r(2, 3, 5, 4), r(2, 3, 5, 4), None, None, 0.0, True, None),
        (r(2, 3, 5, 4), r(2, 3, 5, 4), r(2, 3, 5, 4), None, SEED, 0.3, True, None),
        (r(2, 3, 5, 4), r(2, 3, 7, 4), r(2, 3, 7, 6), r(1, 1, 5, 7), SEED, 0.5, False, 0.3),
        (r(2, 6, 5, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), b(2, 1, 5, 5), SEED, 0.3, False, None),
    ],
    "pylayout.attention_backward.default": [
        (*(r(2, 3, 5, 4) for _ in range(4)), None, None, 0.0, True, None),
        (*(r(2, 3, 5, 4) for _ in range(4)), None, SEED, 0.3, True, None),
        (r(2, 3, 5, 6), r(2, 3, 5, 4), r(2, 3, 7, 4), r(2, 3, 7, 6), r(1, 1, 5, 7), SEED, 0.5, False, 0.3),
        (r(2, 6, 5, 4), r(2, 6, 5, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), None, None, 0.0, True, None),
        (r(2, 6, 5, 4), r(2, 6, 5, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), b(2, 1, 5, 5), SEED, 0.3, False, None),
    ],
    "pylayout.batch_norm_activation_backward.default": [
        (r(2, 8, 7, 6), IMAGE, r(8), r(8), r(8), p(8), 1e-5, "relu6", []),
        (r(2, 8, 7, 6), IMAGE, None, r(8), r(8), p(8), 1e-5, "relu", []),
        (r(3, 5), r(3, 5), r(5), None, r(5), p(5), 1e-3, "clip", [-0.5, 0.25]),
        *(
            (r(2, 8, 7, 6), IMAGE, r(8), r(8), r(8), p(8), 1e-5, name, [])
            for name in ("silu", "mish", "gelu_erf", "gelu_tanh")
        ),
        (r(3, 5), r(3, 5), r(5), None, r(5), p(5), 1e-3, "leaky_relu", [0.2]),
    ],
    **{f"{name}_backward.default": [(r(3, 7), r(3, 7))] for name in ("silu", "hardswish", "mish")},
    "hardsigmoid_backward.default": [(r(5, 7), 3 * r(5, 7))],
    "sigmoid_backward.default": [(r(5, 7), p(5, 7))],
    "pylayout.squeeze_excite.default": [
        (IMAGE, r(6, 8, 1, 1), r(6), r(8, 6, 1, 1), r(8), hidden, gate)
        for hidden, gate in (("relu", "hardsigmoid"), ("silu", "sigmoid"), ("hardswish", "sigmoid"))
    ],
    "pylayout.squeeze_excite_backward.default": [
        (r(2, 8, 7, 6), IMAGE, r(6, 8, 1, 1), r(6), r(8, 6, 1, 1), r(8), hidden, gate)
        for hidden, gate in (("relu", "hardsigmoid"), ("silu", "sigmoid"), ("hardswish", "sigmoid"))
    ],
    "gelu_backward.default": [(r(3, 7), r(3, 7)), (r(3, 7), r(3, 7), {"approximate": "tanh"})],
    "leaky_relu_backward.default": [(r(3, 7), r(3, 7), 0.2, False), (r(3, 7), r(3, 7), 0.2, True)],
    "native_layer_norm_backward.default": [
        (X, r(2, 3, 4), [4], r(2, 3, 1), p(2, 3, 1), r(4), r(4), [True] * 3),
        (X, r(2, 3, 4), [3, 4], r(2, 1, 1), p(2, 1, 1), None, None, [True, False, False]),
    ],
    "native_group_norm_backward.default": [
        (IMAGE, r(2, 8, 7, 6), r(2, 4), p(2, 4), r(8), 2, 8, 42, 4, [True] * 3),
        (IMAGE, r(2, 8, 7, 6), r(2, 2), p(2, 2), None, 2, 8, 42, 2, [True, False, False]),
    ],
    "pylayout.layer_norm_backward.default": [
        (r(2, 3, 8), r(2, 3, 8), [8], p(8), 1e-5),
        (r(4, 3, 8), r(4, 3, 8), [3, 8], None, 1e-3),
    ],
    "pylayout.group_norm_backward.default": [
        (r(2, 8, 7, 6), IMAGE, 2, p(8), 1e-5),
        (r(2, 8, 5), r(2, 8, 5), 8, None, 1e-5),
    ],
    "pylayout.layer_norm.default": [
        (r(2, 3, 8), [8], p(8), r(8), 1e-5),
        (r(4, 3, 8), [3, 8], None, None, 1e-3),
    ],
    "pylayout.group_norm.default": [(IMAGE, 2, p(8), r(8), 1e-5), (r(2, 8, 5), 8, None, None, 1e-5)],
    "pylayout.max_pool_backward.default": [
        (r(2, 8, 4, 3), IMAGE, [3, 3], [2, 2], [1, 1], [1, 1], False),
        (r(1, 2, 2, 3, 3), r(1, 2, 5, 6, 7), [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False),
        (r(8, 3, 3), r(8, 7, 6), [2, 2], [2, 2], [0, 0], [1, 1], False),
    ],
    "_adaptive_avg_pool2d_backward.default": [(r(2, 8, 1, 1), IMAGE), (r(2, 8, 3, 2), IMAGE)],
    "_adaptive_avg_pool3d_backward.default": [(r(1, 2, 2, 2, 2), r(1, 2, 5, 6, 7))],
    "embedding_dense_backward.default": [
        (r(2, 3, 4), i(9, 2, 3), 9, -1, False),
        (r(2, 3, 4), i(9, 2, 3), 9, 2, False),
        (r(9, 4), i(3, 9), 4, 1, True),
        (r(2, 7, 4), i(9, 2, 7), 9, -1, True),
        (r(7, 4), i(3, 7), 3, 0, False),
    ],
    "_to_copy.default": [
        (X, {"dtype": torch.bfloat16}),
        (i(9, 4), {"dtype": torch.float32}),
        *((WIDE, {"dtype": dtype}) for dtype in (torch.int64, torch.int32, torch.uint8, torch.int8)),
        *((WIDE.bfloat16(), {"dtype": dtype}) for dtype in (torch.int64, torch.int32, torch.uint8, torch.int8)),
    ],
    "prims.convert_element_type.default": [(i(9, 4), torch.float32), (WIDE.half(), torch.int32)],
}
