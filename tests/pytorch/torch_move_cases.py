"""Arguments of ops that move elements, and of those that make tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch_case_tensors import IMAGE, X, b, i, r

# Ops that move memory and compute nothing: tested between two ops that do compute.
MOVES: dict[str, list[tuple[Any, ...]]] = {
    "view.default": [(X, [6, 4])],
    "reshape.default": [(X, [-1])],
    "_unsafe_view.default": [(X, [6, 4])],
    "view_copy.default": [(X, [6, 4])],
    "squeeze.dim": [(r(2, 1, 3), 1)],
    "squeeze.dims": [(r(2, 1, 3, 1), [1, 3])],
    "squeeze.default": [(r(2, 1, 3),)],
    "unsqueeze.default": [(X, -1)],
    "permute.default": [(X, [2, 0, 1])],
    "transpose.int": [(X, 0, 2)],
    "expand.default": [(r(3, 1), [2, 3, 4]), (r(3, 1), [-1, 5])],
    "copy.default": [(X, r(3, 1)), (r(2, 3).to(torch.float16), r(2, 3)), (IMAGE, i(9, 8, 1, 6)), (b(3), X[0, 0, :3])],
    "select.int": [(X, 1, -1)],
    "slice.Tensor": [(X, 2, 1, 9223372036854775807, 2), (X, 0, 0, 1), (X, 1, -2, -1)],
    **{f"{op}.default": [(X, 1, 0, 2), (X, -1, -1, 1), (r(4, 3),)] for op in ("diagonal", "diagonal_copy")},
    "split_with_sizes.default": [(X, [1, 3], 2)],
    "split.Tensor": [(X, 3, 2)],
    "unbind.int": [(X, 1)],
    **{f"{op}.default": [(X,)] for op in ("clone", "alias", "detach", "lift_fresh_copy", "contiguous")},
    "cat.default": [([X, r(2, 1, 4)], 1), ([X, torch.zeros(0)], 0)],
    "stack.default": [([X, r(2, 3, 4)], 1)],
    "repeat.default": [(X, [2, 1, 2, 1])],
    "flip.default": [(X, [0, 2])],
    "roll.default": [(X, [1, -5], [0, 2])],
    "constant_pad_nd.default": [(X, [1, 2, 0, 1], 3.5), (X, [-1, 0])],
    "reflection_pad1d.default": [(X, [1, 2])],
    "reflection_pad2d.default": [(IMAGE, [1, 2, 0, 3])],
    "reflection_pad3d.default": [(r(1, 2, 3, 4, 5), [1, 2, 0, 3, 1, 1])],
    "replication_pad1d.default": [(X, [1, 2])],
    "replication_pad2d.default": [(IMAGE, [1, 2, 0, 3])],
    "replication_pad3d.default": [(r(1, 2, 3, 4, 5), [1, 2, 0, 3, 1, 1])],
    "pixel_shuffle.default": [(IMAGE, 2)],
    "channel_shuffle.default": [(IMAGE, 2)],
    "slice_backward.default": [
        (r(2, 2, 4), [2, 3, 4], 1, 1, 9223372036854775807, 1),
        (r(2, 8, 4, 6), [2, 8, 7, 6], 2, 0, 9223372036854775807, 2),
        (r(2, 2, 7, 6), [2, 8, 7, 6], 1, 1, -1, 3),
        (r(2, 0, 4), [2, 3, 4], -2, 3, 3, 1),
    ],
    "select_backward.default": [(r(2, 4), [2, 3, 4], 1, -1), (r(3, 4), [2, 3, 4], 0, 0)],
    "as_strided.default": [
        (X, [2, 4, 3], [12, 1, 4]),
        (X, [6, 4, 1], [4, 1, 1]),
        (r(2, 8, 4), [2, 3, 4, 4], [32, 8, 4, 1]),  # windows that overlap
        (r(2, 40), [2, 4, 16], [40, 8, 1]),  # by parts of windows
        (r(53), [4, 18], [10, 1], 4),  # of which the last are not read
        (r(3, 7), [2, 3, 2, 2], [4, 2, 6, 1], 2),
        (X, [3, 5], [4, 2], 3),
        (X, [2, 4], [12, 1], 4),
        (r(2, 6, 3, 4).permute(0, 2, 3, 1), [5, 2, 6], [12, 0, 1], 6),
        (X, [3], [0], 23),
    ],
    "unfold.default": [
        (X, 2, 3, 1),
        (X, 1, 2, 2),
        (r(2, 9, 3), 1, 4, 3),
        (r(2, 43), 1, 12, 8),
        (r(19, 3), 0, 4, 6),
        (X, 0, 2, 1),
        (r(1)[0], 0, 1, 1),
    ],
    "as_strided_scatter.default": [
        (X, r(2, 4, 3), [2, 4, 3], [12, 1, 4]),
        (X, r(6, 4), [6, 4], [4, 1]),
        (r(5, 5), r(5), [5], [6], 0),
        (r(4, 6).T, r(2, 3), [2, 3], [12, 4], 1),
        (X, r(2, 4), [2, 4], [12, 1], 4),
    ],
    "diagonal_scatter.default": [
        (X, r(2, 3), 0, 1, 2),
        (X, r(3, 2), -1, 2, 0),
        (X, r(4, 2), 1, 0, 1),
        (i(9, 6, 3), i(9, 1), -5),
        (r(2, 9), r(2), 4),
    ],
    "full_like.default": [(X, 2.5)],
    "zeros_like.default": [(X,)],
    "ones_like.default": [(X,)],
}

_COUNT = {"dtype": torch.int64, "device": torch.device("cpu"), "requires_grad": False}

# By op, functions of a size that calls decide: of sizes that are known PyTorch computes these when it compiles.
CREATED = {
    "full.default": [lambda n: ([n, 3], 2.5), lambda n: ([2], n), lambda n: ([n + 1], True)],
    "zeros.default": [lambda n: ([n, 2],)],
    "ones.default": [lambda n: ([2, n], {"dtype": torch.int32})],
    "empty.memory_format": [lambda n: ([n, 3],), lambda n: ([2, n], {"dtype": torch.int64})],
    "empty_permuted.default": [lambda n: ([n, 3, 2], [1, 0, 2])],
    "empty_strided.default": [lambda n: ([n, 3], [1, n])],
    "new_empty_strided.default": [lambda n: (torch.zeros(2), [n, 3], [3, 1])],
    "scalar_tensor.default": [lambda n: (n,), lambda n: (n, {"dtype": torch.float16})],
    "arange.start_step": [
        lambda n: (1, n, 2),
        lambda n: (n, -3, -1.0, {"dtype": torch.int64}),
        lambda n: (n, -1, -1),
        lambda n: (0, n, 1, {"dtype": torch.float32}),
    ],
    "prims.iota.default": [
        lambda n: (n, {"start": 0, "step": 1, **_COUNT}),
        lambda n: (4, {"start": n, "step": n, **_COUNT}),
    ],
}
