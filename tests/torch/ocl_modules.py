"""PyTorch's own samples of modules (`module_db`) and optimizers (`optim_db`) on ocl, held against the CPU.

python tests/torch/ocl_modules.py [--optimizers] [--list] [NAME ...]

prints what is wrong; with --list also which ran on the device alone, and which ops of the others ran on the CPU.
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from ocl_opinfo import on_device
from opinfo import _floating
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_map

import pylayout.ocl

# What draws random numbers gives others on another device.
RANDOM = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"}
STEPS = 4
IN_BFLOAT16 = {"Muon"}  # whose steps are only as close


def _on_host(value: Any) -> Any:
    return tree_map(lambda each: each.detach().cpu() if isinstance(each, torch.Tensor) else each, value)


# ---- modules ----


def modules() -> list[Any]:
    return [info for info in module_db if torch.float32 in info.dtypes]


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


def wrong_module(info: Any, samples: int = 100) -> Iterator[str]:
    """What differs from the CPU, in words, sample by sample."""
    for training in (False, True):
        if training and info.module_cls.__name__ in RANDOM:
            continue
        torch.manual_seed(1)
        given = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        for number, sample in enumerate(given[:samples]):
            made = sample.constructor_input
            torch.manual_seed(2)
            here = info.module_cls(*made.args, **made.kwargs)
            if sample.forward_input is None or info.is_lazy:
                continue
            forward = copy.copy(sample.forward_input)
            there = copy.deepcopy(here).to("ocl:0")
            moved = copy.copy(forward)
            moved.args, moved.kwargs = on_device((forward.args, forward.kwargs))
            try:
                expected = _on_host(_outcome(here, forward, training))
            except Exception:  # what the CPU refuses is not asked
                continue
            try:
                found = _on_host(_outcome(there, moved, training))
                torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4, equal_nan=True)
                torch.testing.assert_close(_on_host(there.state_dict()), here.state_dict(), rtol=1e-3, atol=1e-4)
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


def wrong_optimizer(info: Any) -> Iterator[str]:
    """What differs from the CPU, in words, for each set of options and each implementation."""
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
                    weights = [
                        torch.randn(4, 3).to(device).requires_grad_(),
                        torch.randn(3, 2).to(device).requires_grad_(),
                    ]
                    made.append(_steps(info.optim_cls(weights, **options), weights, info.step_requires_closure))
                near = 1e-2 if info.optim_cls.__name__ in IN_BFLOAT16 else 1e-4
                torch.testing.assert_close(made[1], made[0], rtol=near, atol=near / 10)
            except Exception as error:
                if len(made) < 1 and chosen:  # options that the CPU refuses, too
                    continue
                text = " | ".join(str(error).split("\n"))[:400]
                yield f"{info.optim_cls.__name__} {options}: {type(error).__name__}: {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--optimizers", action="store_true")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    pylayout.ocl.load()
    torch.ocl.set_fallback("silent")
    wrong = wrong_optimizer if given.optimizers else wrong_module
    infos = optimizers() if given.optimizers else modules()

    def name_of(info: Any) -> str:
        return str(info.optim_cls.__name__ if given.optimizers else info.name)

    chosen = [info for info in infos if not given.names or name_of(info) in given.names]
    count = alone = 0
    for info in chosen:
        torch.ocl.clear_fallbacks()
        texts = [*wrong(info)]
        for text in texts:
            print(text, flush=True)
        count += len(texts)
        left = torch.ocl.fallbacks()
        alone += not left and not texts
        if given.list:
            there = ", ".join(f"{each.op} ({each.reason})" for each in left) or "ocl"
            print(f"# {name_of(info)}: {there}", flush=True)
    print(f"{len(chosen)} entries, {count} samples wrong; {alone} ran on the device alone")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
