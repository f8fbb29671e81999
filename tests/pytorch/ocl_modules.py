"""PyTorch's own samples of modules (`module_db`) and optimizers (`optim_db`) on ocl, held against the CPU.

python tests/pytorch/ocl_modules.py [--optimizers] [--dtype float16] [--list] [--json FILE] [--shard 0/4] [NAME ...]

prints what is wrong; with --list also which ran on the device alone, and which ops of the others ran on the CPU.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Iterator
from typing import Any

import torch
from ocl_opinfo import described, on_device, options, report, shard, start, survey
from opinfo import TOLERANCES, _floating
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_map

# What draws random numbers gives others on another device: shapes and dtypes are compared.
DRAWN = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"}
STEPS = 4
IN_BFLOAT16 = {"Muon"}  # whose steps are only as close


def _on_host(value: Any) -> Any:
    return tree_map(lambda each: each.detach().cpu() if isinstance(each, torch.Tensor) else each, value)


# ---- modules ----


def modules(dtype: torch.dtype = torch.float32) -> list[Any]:
    return [info for info in module_db if dtype in info.dtypes]


def _outcome(module: Any, forward: Any, training: bool) -> tuple[Any, Any]:
    """What a module gives, and the gradients of its inputs and parameters."""
    torch.manual_seed(0)
    module.train(training)
    outputs = module(*forward.args, **forward.kwargs)
    results = _floating(outputs)
    leaves = [*_floating((forward.args, forward.kwargs)), *(each for each in module.parameters() if each.requires_grad)]
    if not results or not leaves:
        return outputs, None
    loss = sum(
        (result * torch.linspace(0.5, 1.5, result.numel()).view(result.shape).to(result.device)).sum()
        for result in results
    )
    return outputs, torch.autograd.grad(loss, leaves, allow_unused=True)


def wrong_module(info: Any, samples: int = 100, dtype: torch.dtype = torch.float32) -> Iterator[str]:
    """What differs from the CPU, in words, sample by sample."""
    relative, absolute = (10 * each for each in TOLERANCES[dtype])
    for training in (False, True):
        torch.manual_seed(1)
        given = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for number, sample in enumerate(given[:samples]):
            made = sample.constructor_input
            torch.manual_seed(2)
            here = info.module_cls(*made.args, **made.kwargs)
            forward = sample.forward_input
            if forward is None:
                continue
            try:
                if info.is_lazy:  # its parameters are made by the first call
                    here(*forward.args, **forward.kwargs)
                here = here.to(dtype)
                there = copy.deepcopy(here).to("ocl:0")
                moved = copy.copy(forward)
                moved.args, moved.kwargs = on_device((forward.args, forward.kwargs))
                expected = _on_host(_outcome(here, forward, training))
            except Exception:  # what the CPU refuses is not asked
                continue
            try:
                found = _on_host(_outcome(there, moved, training))
                if training and info.module_cls.__name__ in DRAWN:
                    found, expected = (tree_map(described, each) for each in (found, expected))
                torch.testing.assert_close(found, expected, rtol=relative, atol=absolute, equal_nan=True)
                torch.testing.assert_close(
                    _on_host(there.state_dict()), here.state_dict(), rtol=relative, atol=absolute
                )
            except Exception as error:
                text = " | ".join(str(error).split("\n"))[:400]
                yield f"{info.name}, training {training}, sample {number}: {type(error).__name__}: {text}"


# ---- optimizers ----


def optimizers() -> list[Any]:
    return [info for info in optim_db if not info.only_supports_sparse_grads]


def _steps(optimizer: Any, weights: list[torch.Tensor], closure: bool) -> list[torch.Tensor]:
    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        made = sum((weight * weight * scale).sum() for scale, weight in enumerate(weights, 1)) / 10
        made.backward()
        return made.detach()

    for _ in range(STEPS):
        if closure:
            optimizer.step(loss)
        else:
            loss()
            optimizer.step()
    return [weight.detach().cpu() for weight in weights]


def wrong_optimizer(info: Any, dtype: torch.dtype = torch.float32) -> Iterator[str]:
    """What differs from the CPU, in words, for each set of options and each implementation."""
    relative, absolute = TOLERANCES[dtype]
    if info.optim_cls.__name__ in IN_BFLOAT16:
        relative, absolute = max(relative, 1e-2), max(absolute, 1e-3)
    implementations: list[dict[str, bool]] = [{}]
    implementations += [{name: True} for name in ("foreach", "fused") if name in info.supported_impls]
    if "foreach" in info.supported_impls:
        implementations.append({"foreach": False})
    for sample in info.optim_inputs_func(device="cpu"):
        for chosen in implementations:
            options = {**sample.kwargs, **chosen}
            if any(sample.kwargs.get(name) for name in ("foreach", "fused", "capturable", "differentiable")):
                continue
            made = []
            try:
                for device in ("cpu", "ocl:0"):
                    torch.manual_seed(0)
                    weights = [torch.randn(shape).to(device, dtype).requires_grad_() for shape in ((4, 3), (3, 2))]
                    made.append(_steps(info.optim_cls(weights, **options), weights, info.step_requires_closure))
                torch.testing.assert_close(made[1], made[0], rtol=relative, atol=absolute)
            except Exception as error:
                if len(made) < 1 and chosen:  # options that the CPU refuses, too
                    continue
                text = " | ".join(str(error).split("\n"))[:400]
                yield f"{info.optim_cls.__name__} {options}: {type(error).__name__}: {text}"


def main() -> None:
    parser = options(argparse.ArgumentParser(description=__doc__.split("\n", 1)[0]))
    parser.add_argument("--optimizers", action="store_true")
    given = parser.parse_args()
    dtype = start(given)

    def name_of(info: Any) -> str:
        return str(info.optim_cls.__name__ if given.optimizers else info.name)

    infos = optimizers() if given.optimizers else modules(dtype)
    chosen = [info for info in infos if not given.names or name_of(info) in given.names]

    def wrong(info: Any) -> Iterator[str]:
        return wrong_optimizer(info, dtype) if given.optimizers else wrong_module(info, given.samples, dtype)

    entries = [survey(name_of(info), wrong(info)) for info in shard(chosen, given)]
    sys.exit(report(entries, given))


if __name__ == "__main__":
    main()
