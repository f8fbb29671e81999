"""Dropout by random numbers that depend on a seed alone, so that backward draws them again and no mask is kept.

PyTorch draws the numbers of a mask on the CPU one after another, 15 ns each, and keeps the mask. Here each call draws a
seed, and an element is dropped by its number (the library's op random_dropout). PyTorch runs these ops where plans
refuse them, with the same numbers.

Of few elements the numbers are eager mode's: drawing them costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .. import ops
from .drawing import is_random

__all__ = ["factors", "is_drawn_by_pytorch", "join_seeds", "native_dropout", "own_dropout", "seed_for"]

FEW = 1 << 16  # elements whose numbers PyTorch draws on the CPU

aten = torch.ops.aten
own = torch.ops.pylayout
Tensor = torch.Tensor

# ---- seeds

torch.library.define(
    "pylayout::dropout_seeds",
    "(SymInt[] counters, Device device) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag),
)


@torch.library.impl("pylayout::dropout_seeds", "CompositeExplicitAutograd")
def _draw(counters: Sequence[int], device: torch.device) -> Tensor:
    """A seed for each of several dropouts, as (n, 2): a key and a first counter; `counters`: how many each uses."""
    if device.type != "ocl":
        return torch.randint(2**63 - 1, (len(counters), 2))
    from ..ocl.shim import take_counters  # there is such a device only with it

    return torch.tensor([take_counters(device, int(count)) for count in counters], dtype=torch.int64).to(device)


@torch.library.register_fake("pylayout::dropout_seeds")  # type: ignore[untyped-decorator]
def _(counters: Sequence[Any], device: torch.device) -> Tensor:
    return torch.empty((len(counters), 2), dtype=torch.int64, device=device)


def seed_for(elements: Any, device: torch.device) -> Tensor:
    # The host's numbers need no counters; where it says none, sizes that are late do not matter to it.
    counters = (elements + 3) // 4 if device.type == "ocl" else 0
    made: Tensor = own.dropout_seeds([counters], device)[0]
    return made


def join_seeds(graph: torch.fx.Graph) -> None:
    """Have all seeds of a graph drawn at once, where nothing else draws numbers between them.

    Checkpoints keep seeds, instead of the generator's state to draw them again by.
    """
    random = [node for node in graph.nodes if is_random(node)]
    target = own.dropout_seeds.default
    for node in random:
        if node.target is target:
            node.meta.pop("recompute", None)
    if len(random) < 2 or any(node.target is not target for node in random):
        return
    first = random[0]
    counters = [count for node in random for count in node.args[0]]
    if any(node.args[1] != first.args[1] for node in random) or not all(isinstance(each, int) for each in counters):
        return
    with graph.inserting_before(first):
        made = graph.call_function(target, (counters, first.args[1]))
    with first.meta["val"].fake_mode:
        made.meta["val"] = torch.empty((len(counters), 2), dtype=torch.int64, device=first.args[1])
    for number, node in enumerate(random):
        for user in [*node.users]:  # each takes its one row
            assert user.target is aten.select.int and user.args[1:] == (0, 0), user.format_node()
            user.args = (made, 0, number)
        graph.erase_node(node)


# ---- dropout


def factors(seed: Tensor, shape: Sequence[int], p: float) -> Tensor:
    """What elements are multiplied by, in f32."""
    ones = np.ones([int(size) for size in shape], np.float32)
    return torch.from_numpy(np.array(ops.random_dropout(ones, seed.cpu().numpy(), p))).to(seed.device)


@torch.library.custom_op("pylayout::dropout", mutates_args=())
def dropout(x: Tensor, seed: Tensor, p: float) -> Tensor:
    """x / (1 - p), or 0 where an element is dropped."""
    kept = factors(seed, x.shape, p) != 0
    return torch.where(kept, x / (1 - p), torch.zeros((), dtype=x.dtype, device=x.device)).contiguous()


@dropout.register_fake
def _(x: Tensor, seed: Tensor, p: float) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("pylayout::dropout_mask", mutates_args=())
def dropout_mask(seed: Tensor, shape: Sequence[int], p: float) -> Tensor:
    """Which elements `dropout` keeps."""
    return factors(seed, shape, p) != 0


@dropout_mask.register_fake
def _(seed: Tensor, shape: Sequence[int], p: float) -> Tensor:
    return torch.empty(tuple(shape), dtype=torch.bool, device=seed.device)


def is_drawn_by_pytorch(elements: Any, device: torch.device) -> bool:
    return device.type == "cpu" and statically_known_true(elements <= FEW)


def own_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """What native_dropout is traced as. Backward, which reads the mask, draws it again (gradients.py)."""
    if train is False or p in (0, 1) or x.numel() == 0 or is_drawn_by_pytorch(x.numel(), x.device):
        return native_dropout(x, p, train)
    seed = seed_for(x.numel(), x.device)
    return own.dropout(x, seed, p), own.dropout_mask(seed, x.shape, p)


def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout as eager mode computes it, from the same random numbers.

    The mask is drawn apart from x, so that it is drawn before a plan and does not divide it.
    """
    if train is False or x.numel() == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    if x.device.type == "ocl":  # numbers are drawn in the order of dimensions, for what is dropped
        blank = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        mask = aten.bernoulli.p(blank, p).logical_not()
        return x * mask * scale, mask
    # Numbers are drawn in the order of memory, that of a tensor made like x.
    strides = torch.empty_like(x, dtype=torch.bool).stride()
    order = sorted(range(x.ndim), key=lambda dim: -strides[dim])
    blank = torch.empty([x.shape[dim] for dim in order], dtype=torch.bool, device=x.device)
    mask = aten.bernoulli.p(blank, 1.0 - p).permute([order.index(dim) for dim in range(x.ndim)])
    return x * mask * scale, mask
