"""Shape and views."""

from __future__ import annotations

from .case import X4, Case, into, normal

CASES: list[Case] = []
add = into(CASES)

add("reshape", normal(X4), shape=[2, -1, 30])
add("flatten", normal(X4), lambda torch, f, t, a: torch.flatten(t[0], 1), start_dim=1)
add("permute", normal(X4), dims=[0, 2, 3, 1])
add("transpose", normal(X4), dim0=1, dim1=3)
add("squeeze", normal((2, 1, 5, 1)))
add("unsqueeze", normal((2, 5)), dim=1)
add("split", normal(X4), split_size_or_sections=[3, 16], dim=1)
add("split", normal(X4), split_size_or_sections=4, dim=2)
add(
    "slice",
    normal(X4),
    lambda torch, f, t, a: t[0][:, 3:18:2, :, 1:8],
    starts=[3, 1],
    ends=[18, 8],
    axes=[1, 3],
    steps=[2, 1],
)
add("identity", normal(X4), lambda torch, f, t, a: t[0])
add("expand", normal((19, 1, 10)), lambda torch, f, t, a: t[0].expand(2, 19, 9, 10), shape=[2, -1, 9, 10])
add("expand", normal((2, 1, 1, 3)), lambda torch, f, t, a: t[0].expand(2, 19, 1, 3), shape=[2, 19, 1, 3])
add("dropout", normal(X4), lambda torch, f, t, a: t[0], p=0.3)
