"""PyTorch's own samples of its ops (`op_db`) on the device ocl, held against the CPU.

python tests/pytorch/ocl_opinfo.py [--gradients] [--dtype float32] [--integers-alone] [--samples 4] [--list]
    [--json FILE] [NAME ...]

prints what is wrong; with --list also which ops ran on the device alone, and which ops of the others ran on the CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from opinfo import TOLERANCES, _floating, infos, name_of
from torch.utils._pytree import tree_leaves, tree_map

import pylayout.ocl

# Sparse tensors, and samples that hold an index or a storage that has to stay where it is.
OTHER = {
    "to_sparse", "sparse.sampled_addmm", "sparse.mm", "torch._scaled_mm", "tensor_split", "as_strided-partial_views",
}  # fmt: skip


# What they give is drawn, by another generator than the CPU's: shapes and dtypes are compared.
DRAWN = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout", "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention", "normal", "pca_lowrank", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "svd_lowrank", "torch.ops.aten._flash_attention_forward", "uniform",
}  # fmt: skip

# Of halves: equal elements in another order than the CPU's, which no one promises; statistics in float32, as CUDA's.
OF_HALVES = {"argsort", "sort", "native_batch_norm", "_native_batch_norm_legit"}


def on_device(value: Any) -> Any:
    """The same on ocl:0, a tensor that comes twice as one; tensors that want gradients are leaves there."""
    known: dict[int, torch.Tensor] = {}

    def moved(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        if id(each) not in known:
            known[id(each)] = there(each)
        return known[id(each)]

    def there(each: torch.Tensor) -> torch.Tensor:
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


def described(value: Any) -> Any:
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) else value


def is_fixed(sample: Any) -> bool:
    """Whether an op that draws in training is asked not to."""
    return sample.kwargs.get("training") is False or sample.kwargs.get("dropout_p") == 0.0


def in_float32(value: Any) -> Any:
    """Halves as float32, a tensor that wants gradients as a leaf."""

    def wide(each: Any) -> Any:
        if not isinstance(each, torch.Tensor) or each.dtype not in (torch.float16, torch.bfloat16):
            return each
        return each.detach().float().requires_grad_(each.requires_grad)

    return tree_map(wide, value)


def dtypes(value: Any) -> list[Any]:
    return [getattr(each, "dtype", type(each)) for each in tree_leaves(value)]


def as_exactly(made: Any, arguments: Any, op: Any, gradients: bool, close: dict[str, Any]) -> bool:
    """Whether halves are what the CPU gives in float32: in halves it rounds in between."""
    try:
        exact = _outcome(op, *in_float32(arguments), gradients)
        torch.testing.assert_close(in_float32(made), in_float32(exact), **close)
    except Exception:
        return False
    return True


def wrong(op: Any, dtype: torch.dtype = torch.float32, gradients: bool = False, samples: int = 4) -> Iterator[str]:
    """What differs from the CPU, in words, sample by sample."""
    relative, absolute = TOLERANCES.get(dtype, (1e-4, 1e-5))
    if gradients:  # some are sums of large terms that cancel
        relative, absolute = 10 * relative, 10 * absolute
    close = {"rtol": relative, "atol": absolute, "equal_nan": True}
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
            if op.name in DRAWN and not is_fixed(sample):
                made, expected = (tree_map(described, each) for each in (made, expected))
            torch.testing.assert_close(made, expected, **close)
        except Exception as error:
            half = dtype in (torch.float16, torch.bfloat16)
            same = half and isinstance(error, AssertionError) and dtypes(made) == dtypes(expected)
            if same and as_exactly(made, (sample.input, sample.args, keywords), op, gradients, close):
                continue
            text = " | ".join(str(error).split("\n"))[:400]
            yield f"{name_of(op)}, sample {number}: {type(error).__name__}: {text}"


def asked(dtype: torch.dtype, gradients: bool, integers_alone: bool = False) -> list[Any]:
    """The entries that take this dtype; `integers_alone`: those of them that have no float32."""
    other = OTHER | OF_HALVES if dtype in (torch.float16, torch.bfloat16) else OTHER
    return [
        op
        for op in infos(dtype, gradients)
        if not {op.name, name_of(op)} & other and not (integers_alone and op.supports_dtype(torch.float32, "cpu"))
    ]


def survey(name: str, texts: Iterator[str]) -> dict[str, Any]:
    """Runs the samples of an entry: what is wrong of them, and which ops ran on the CPU, with reasons."""
    torch.ocl.clear_fallbacks()
    found = [*texts]
    left = {each.op.removeprefix("aten::"): each.reason for each in torch.ocl.fallbacks()}
    found += [f"{name}: {op}: {reason}" for op, reason in left.items() if "a defect of pylayout" in reason]
    for text in found:
        print(text, flush=True)
    return {"name": name, "wrong": found, "cpu": left}


def report(entries: list[dict[str, Any]], given: argparse.Namespace) -> bool:
    """Prints what was found, and writes it where asked; whether something is wrong."""
    if given.list:
        for each in entries:
            there = ", ".join(f"{op} ({reason})" for op, reason in each["cpu"].items()) or "ocl"
            print(f"# {each['name']}: {there}")
    if given.json:
        Path(given.json).write_text(json.dumps(entries, indent=1) + "\n")
    wrong = sum(len(each["wrong"]) for each in entries)
    alone = sum(not each["wrong"] and not each["cpu"] for each in entries)
    print(f"{len(entries)} entries, {wrong} samples wrong; {alone} ran on the device alone")
    return wrong > 0


def options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--list", action="store_true", help="which ops ran on the CPU")
    parser.add_argument("--json", help="a file for the same")
    parser.add_argument("--shard", default="0/1", help="1/4: of the entries every fourth, from the second on")
    return parser


def start(given: argparse.Namespace) -> Any:
    """The device, without warnings and measurements; the dtype asked for."""
    warnings.filterwarnings("ignore")
    pylayout.ocl.load()
    pylayout.configure(tune="off")
    torch.ocl.set_fallback("silent")
    return getattr(torch, given.dtype)


def shard(entries: list[Any], given: argparse.Namespace) -> list[Any]:
    first, count = map(int, given.shard.split("/"))
    return entries[first::count]


def main() -> None:
    parser = options(argparse.ArgumentParser(description=__doc__.split("\n", 1)[0]))
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--integers-alone", action="store_true", help="entries that have no float32")
    given = parser.parse_args()
    dtype = start(given)
    entries = asked(dtype, given.gradients, given.integers_alone)
    chosen = [op for op in entries if not given.names or op.name in given.names]
    entries = [survey(name_of(op), wrong(op, dtype, given.gradients, given.samples)) for op in shard(chosen, given)]
    sys.exit(report(entries, given))


if __name__ == "__main__":
    main()
