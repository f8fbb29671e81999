"""PyTorch's own samples of its ops (`op_db`) on the device ocl, held against the CPU.

python tests/torch/ocl_opinfo.py [--gradients] [--dtype float32] [--samples 4] [--list] [NAME ...]

prints what is wrong; with --list also which ops ran on the device alone, and which ops of the others ran on the CPU.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from opinfo import TOLERANCES, _floating, infos, name_of
from torch.utils._pytree import tree_map

import pylayout.ocl

# Sparse tensors, and samples that hold an index or a storage that has to stay where it is.
OTHER = {
    "to_sparse", "sparse.sampled_addmm", "sparse.mm", "torch._scaled_mm", "tensor_split", "as_strided-partial_views",
}  # fmt: skip


def on_device(value: Any) -> Any:
    """The same on ocl:0; tensors that want gradients are leaves there."""

    def moved(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        made = each.detach().to("ocl:0")
        if each.dim() and made.stride() != each.stride() and not torch._debug_has_internal_overlap(each):
            made = torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="ocl:0").copy_(made)
        return made.requires_grad_(each.requires_grad)

    return tree_map(moved, value)


def _outcome(op: Any, x: Any, arguments: Any, keywords: Any, gradients: bool) -> Any:
    torch.manual_seed(0)
    if not gradients:
        with torch.no_grad():
            return op.op(x, *arguments, **keywords)
    outputs = op.op(x, *arguments, **keywords)
    results, leaves = _floating(outputs), _floating((x, arguments, keywords))
    loss = sum(
        (result * torch.linspace(0.5, 1.5, result.numel()).view(result.shape).to(result.device)).sum()
        for result in results
    )
    return torch.autograd.grad(loss, leaves, allow_unused=True)


def wrong(op: Any, dtype: torch.dtype = torch.float32, gradients: bool = False, samples: int = 4) -> Iterator[str]:
    """What differs from the CPU, in words, sample by sample."""
    relative, absolute = TOLERANCES.get(dtype, (1e-4, 1e-5))
    if gradients:  # some are sums of large terms that cancel
        relative, absolute = 10 * relative, 10 * absolute
    taken = 0
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradients)):
        if taken == samples:
            return
        keywords = {key: value for key, value in sample.kwargs.items() if key != "device"}
        given = on_device((sample.input, sample.args, keywords))
        try:
            expected = _outcome(op, sample.input, sample.args, keywords, gradients)
        except Exception:  # what the CPU refuses is not asked
            continue
        taken += 1
        try:
            made = _outcome(op, *given, gradients)
            made = tree_map(lambda each: each.cpu() if isinstance(each, torch.Tensor) else each, made)
            torch.testing.assert_close(made, expected, rtol=relative, atol=absolute, equal_nan=True)
        except Exception as error:
            text = " | ".join(str(error).split("\n"))[:400]
            yield f"{name_of(op)}, sample {number}: {type(error).__name__}: {text}"


def asked(dtype: torch.dtype, gradients: bool) -> list[Any]:
    return [op for op in infos(dtype, gradients) if not {op.name, name_of(op)} & OTHER]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    pylayout.ocl.load()
    torch.ocl.set_fallback("silent")
    dtype = getattr(torch, given.dtype)
    chosen = [op for op in asked(dtype, given.gradients) if not given.names or op.name in given.names]
    count = alone = 0
    for op in chosen:
        torch.ocl.clear_fallbacks()
        texts = [*wrong(op, dtype, given.gradients, given.samples)]
        for text in texts:
            print(text, flush=True)
        count += len(texts)
        left = torch.ocl.fallbacks()
        alone += not left and not texts
        if given.list:
            there = ", ".join(f"{each.op} ({each.reason})" for each in left) or "ocl"
            print(f"# {name_of(op)}: {there}", flush=True)
    print(f"{len(chosen)} entries, {count} samples wrong; {alone} ran on the device alone")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
