"""linear: the host provider's kernel against the better of oneDNN's two primitives, by number of rows.

    PYLAYOUT_CACHE_DIR=$(mktemp -d) python -m bench.products
    PYLAYOUT_CACHE_DIR=$(mktemp -d) python -m bench.products --rows 1 50 128 --sizes 768x3072

Each product y = x weight^T + bias is measured as dispatch measures: candidates take turns, memory evicted from the
caches between runs. A ratio above 1 means that the host provider is faster.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy

import pylayout as pl
from pylayout.cli.terminal import Table

from .record import write

# Terms by columns: layers of BERT-base, ViT-B, CLIP, GPT-2; of Llama and Swin of smaller width.
SIZES = ["768x768", "768x3072", "3072x768", "576x1536", "384x1536"]


def fastest(rows: int, terms: int, columns: int, seconds: float) -> dict[str, dict[str, Any]]:
    """By provider, the candidate with the least time."""
    make = numpy.random.default_rng(0).standard_normal
    x, weight = make((rows, terms), dtype="float32"), make((columns, terms), dtype="float32")
    bias = make(columns, dtype="float32")
    answer = pl.tune("linear", x, weight, bias, device="cpu", seconds=seconds)
    found: dict[str, dict[str, Any]] = {}
    for candidate in answer.candidates:
        provider = candidate["provider"]
        if not candidate["measured"] or candidate["device"] != "cpu":
            continue
        if provider not in found or candidate["op_ms"] < found[provider]["op_ms"]:
            found[provider] = candidate
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 16, 50, 64, 128, 197, 256])
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="TERMSxCOLUMNS")
    parser.add_argument("--seconds", type=float, default=3.0, help="for measuring one product (default 3)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    table = Table(
        ("product", "onednn us", "host us", "ratio", "GFLOP/s", "oneDNN's"), ("onednn us", "host us", "ratio")
    )
    rows = []
    for count in options.rows:
        for size in options.sizes:
            terms, columns = map(int, size.split("x"))
            found = fastest(count, terms, columns, options.seconds)
            if not {"onednn", "host"} <= set(found):
                continue
            onednn, host = found["onednn"], found["host"]
            ratio, least = onednn["op_ms"] / host["op_ms"], min(onednn["op_ms"], host["op_ms"])
            gflops = 2e-6 * count * terms * columns / least
            times = (f"{1e3 * one['op_ms']:.1f}" for one in (onednn, host))
            table.add(f"{count}x{size}", *times, f"{ratio:.2f}", f"{gflops:.0f}", onednn["implementation"])
            rows.append({"rows": count, "terms": terms, "columns": columns, "ratio": round(ratio, 3)})
    table.print()
    if options.json:
        write(options.json, "products", rows)


if __name__ == "__main__":
    main()
