"""PyTorch's own samples of its ops (`op_db`), run through torch.compile(backend="pylayout") and in eager mode.

python tests/pytorch/opinfo.py [--gradients] [--dtype float32] [--samples 6] [NAME ...]     prints what is wrong
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import pylayout.torch

# What PyTorch itself gives differs from call to call: memory that nobody wrote.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

TOLERANCES = {torch.float32: (1e-4, 1e-5), torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 5e-2)}


def name_of(op: Any) -> str:
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else str(op.name)


def infos(dtype: torch.dtype = torch.float32, gradients: bool = False) -> list[Any]:
    """The entries of op_db that say of themselves that they do this on the CPU."""
    return [
        op
        for op in op_db
        if op.name not in UNDEFINED
        and op.supports_dtype(dtype, "cpu")
        and (not gradients or (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")))
    ]


def _floating(value: Any) -> list[torch.Tensor]:
    """The tensors with a gradient within some outputs, or some arguments."""
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = list(value.values())
    return [found for each in value for found in _floating(each)] if isinstance(value, (list, tuple)) else []


def _outcome(function: Any, sample: Any, gradients: bool) -> Any:
    arguments = (sample.input, sample.args, sample.kwargs)
    torch.manual_seed(0)
    if not gradients:
        with torch.no_grad():
            return function(*arguments)
    outputs = function(*arguments)
    results, leaves = _floating(outputs), _floating(arguments)
    loss = sum((result * torch.linspace(0.5, 1.5, result.numel()).view(result.shape)).sum() for result in results)
    return torch.autograd.grad(loss, leaves, allow_unused=True)


def wrong(op: Any, dtype: torch.dtype = torch.float32, gradients: bool = False, samples: int = 6) -> Iterator[str]:
    """What differs from eager mode, in words, sample by sample. Ops that a plan ran are counted in the report."""

    def call(x: Any, arguments: Any, keywords: Any) -> Any:
        return op.op(x, *arguments, **keywords)

    relative, absolute = TOLERANCES.get(dtype, (1e-4, 1e-5))
    if gradients:  # some are sums of large terms that cancel
        relative, absolute = 10 * relative, 10 * absolute
    taken = 0
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradients)):
        if taken == samples:
            return
        try:
            expected = _outcome(call, sample, gradients)
        except Exception:  # what eager mode refuses is not asked
            continue
        taken += 1
        torch._dynamo.reset()
        fast = torch.compile(call, backend="pylayout", dynamic=False, options={"deterministic": True})
        try:
            made = _outcome(fast, sample, gradients)
            torch.testing.assert_close(made, expected, rtol=relative, atol=absolute, equal_nan=True)
        except Exception as error:
            text = " | ".join(str(error).split("\n"))[:600]
            yield f"{name_of(op)}, sample {number}: {type(error).__name__}: {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=6)
    given = parser.parse_args()
    dtype = getattr(torch, given.dtype)
    warnings.filterwarnings("ignore")
    count = 0
    chosen = [op for op in infos(dtype, given.gradients) if not given.names or op.name in given.names]
    for op in chosen:
        for text in wrong(op, dtype, given.gradients, given.samples):
            count += 1
            print(text, flush=True)
    report = pylayout.torch.report()
    taken = sum(graph.planned > 0 for graph in report.graphs)
    print(f"{len(chosen)} entries, {count} samples wrong; {taken} of the last {len(report.graphs)} graphs had plans")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
