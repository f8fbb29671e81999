"""Images resized by one op, forward and backward, in the place of the look-ups that PyTorch traces.

PyTorch writes `interpolate` as an index for each tap, and its gradient as so many scatters: of a bilinear one there are
four each way, with their weights. A plan resizes by one op. PyTorch runs these ops where plans refuse them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

__all__ = ["OPS", "TRACED", "arguments_of"]

aten = torch.ops.aten
_of_pytorch = torch.nn.functional.interpolate

# PyTorch's ops by rank, mode and whether they filter against aliasing.
OPS = {
    **{(rank + 2, "nearest", False): f"upsample_nearest{rank}d" for rank in (1, 2, 3)},
    **{(rank + 2, "nearest-exact", False): f"_upsample_nearest_exact{rank}d" for rank in (1, 2, 3)},
    (3, "linear", False): "upsample_linear1d",
    (4, "bilinear", False): "upsample_bilinear2d",
    (4, "bilinear", True): "_upsample_bilinear2d_aa",
    (4, "bicubic", False): "upsample_bicubic2d",
    (4, "bicubic", True): "_upsample_bicubic2d_aa",
    (5, "trilinear", False): "upsample_trilinear3d",
}


def arguments_of(name: str, align: bool, scales: Sequence[float]) -> list[Any]:
    """What PyTorch's op takes behind the sizes."""
    aligns = any(each.name == "align_corners" for each in getattr(aten, name).default._schema.arguments)
    return [*([align] if aligns else []), *scales]


@torch.library.custom_op("pylayout::resize", mutates_args=())
def resize(x: torch.Tensor, size: Sequence[int], name: str, align: bool, scales: Sequence[float]) -> torch.Tensor:
    """By PyTorch's op of that name; scales: those that were given, if any were."""
    made: torch.Tensor = getattr(aten, name).default(x, size, *arguments_of(name, align, scales))
    return made.contiguous(memory_format=suggest_memory_format(x))


@resize.register_fake
def _(x: torch.Tensor, size: Sequence[int], *_: Any) -> torch.Tensor:
    return torch.empty((*x.shape[:2], *size), dtype=x.dtype, device=x.device, memory_format=suggest_memory_format(x))


@torch.library.custom_op("pylayout::resize_backward", mutates_args=())
def resize_backward(
    grad: torch.Tensor, size: Sequence[int], input_size: Sequence[int], name: str, align: bool, scales: Sequence[float]
) -> torch.Tensor:
    backward = getattr(aten, f"{name}_backward").default
    made: torch.Tensor = backward(grad, size, input_size, *arguments_of(name, align, scales))
    return made.contiguous(memory_format=suggest_memory_format(grad))


@resize_backward.register_fake
def _(grad: torch.Tensor, size: Sequence[int], input_size: Sequence[int], *_: Any) -> torch.Tensor:
    form = suggest_memory_format(grad)
    return torch.empty(tuple(input_size), dtype=grad.dtype, device=grad.device, memory_format=form)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, ctx.size, *ctx.attributes = inputs
    ctx.input_size = x.shape


def _gradient(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    made = torch.ops.pylayout.resize_backward(grad, ctx.size, ctx.input_size, *ctx.attributes)
    return made, None, None, None, None


resize.register_autograd(_gradient, setup_context=_keep)


def _sizes(x: torch.Tensor, size: Any, scales: Sequence[float] | None) -> list[Any]:
    if scales is None:
        return [*size] if isinstance(size, (list, tuple)) else [size] * (x.ndim - 2)
    made = []
    for n, scale in zip(x.shape[2:], scales, strict=True):
        exact = Fraction(scale)  # of few bits, as 1.5 is, products are whole numbers
        few = exact.denominator <= 64 and exact.numerator < 1 << 20
        made.append(n * exact.numerator // exact.denominator if few else torch.sym_int(n * scale))  # type: ignore[no-untyped-call]
    return made


def _traced(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
    recompute_scale_factor: Any = None, antialias: bool = False,
) -> Any:  # fmt: skip
    """What is traced in the place of `torch.nn.functional.interpolate`: that one where the op does not suit."""
    name = OPS.get((input.ndim, mode, bool(antialias)))
    spatial = input.ndim - 2
    scales = None
    lowered = torch.is_autocast_enabled(input.device.type) and input.dtype != torch.float32
    if lowered and input.device.type == "ocl" and input.is_floating_point():  # whose autocast resizes in float32
        input, lowered = input.float(), False
    if scale_factor is not None:
        scales = [*scale_factor] if isinstance(scale_factor, (list, tuple)) else [scale_factor] * spatial
    if (
        name is None
        or (size is None) == (scales is None)
        or (scales is not None and not all(isinstance(scale, (int, float)) for scale in scales))
        or len(scales or (size if isinstance(size, (list, tuple)) else [size] * spatial)) != spatial
        or input.dtype not in (torch.float32, torch.float16, torch.bfloat16)
        or input.device.type not in ("cpu", "ocl")
        or (align_corners is not None and "nearest" in mode)
        or (recompute_scale_factor and scales is None)
        or lowered
    ):
        return _of_pytorch(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    sizes = _sizes(input, size, scales)
    if "cubic" in mode and any(isinstance(each, torch.SymInt) for each in (*input.shape[2:], *sizes)):
        return _of_pytorch(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    given = [] if scales is None or recompute_scale_factor else [float(scale) for scale in scales]
    return torch.ops.pylayout.resize(input, sizes, name, bool(align_corners), given)


# Functions, and what is traced in their places.
TRACED: dict[Any, Any] = {_of_pytorch: _traced}
