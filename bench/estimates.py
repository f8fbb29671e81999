"""How well costs are estimated before anything is measured, by family of implementations.

    PYLAYOUT_CACHE_DIR=$(mktemp -d) python -m bench.estimates

Every candidate of each distinct convolution (with bias and ReLU; bench/shapes.py) and of the products of two
transformers is estimated, then measured. A row is a family in a class of ops: the median, least and largest ratio of
the estimate to the time measured. A ratio above 1 means that the estimate is too long. What a plan chooses unmeasured
depends on these ratios being alike.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from typing import Any

import numpy

import pylayout as pl
from pylayout.cli.terminal import Table

from .record import write
from .shapes import CONVOLUTIONS, Convolution

# By class of ops, family and layout of x: the estimate over the time measured.
Ratios = dict[tuple[str, str, str], float]


# Rows, terms and columns.
PRODUCTS = [
    (rows, terms, columns)
    for rows in (1, 197)
    for terms, columns in ((768, 768), (768, 3072), (3072, 768), (2048, 1000), (384, 1536))
]


def kind_of(shape: Convolution) -> str:
    if shape.groups > 1:
        return "depthwise" if shape.groups == shape.c else "grouped"
    return f"{shape.k}x{shape.k}" + (f"/{shape.stride}" if shape.stride > 1 else "")


def times_of(answer: pl.Query) -> dict[tuple[str, ...], dict[str, Any]]:
    """Candidates of the processor's own providers, by what identifies them."""
    return {
        (
            candidate["provider"],
            candidate["implementation"],
            *map(str, candidate["inputs"]),
            *map(str, candidate["outputs"]),
        ): candidate
        for candidate in answer.candidates
        if candidate["provider"] != "opencl"
    }


def ratios(kind: str, op: str, arguments: tuple[Any, ...], given: dict[str, Any], seconds: float) -> Ratios:
    estimated = times_of(pl.query(op, *arguments, device="cpu", **given))
    measured = times_of(pl.tune(op, *arguments, device="cpu", seconds=seconds, **given))
    found: Ratios = {}
    for key, candidate in estimated.items():
        after = measured.get(key)
        if not candidate["measured"] and after and after["measured"] and after["op_ms"]:
            family = f"{key[0]}/{key[1].split('[')[0]}"
            found[kind, family, str(candidate["inputs"][0])] = candidate["op_ms"] / after["op_ms"]
    return found


def of_convolution(batch: int, shape: Convolution, seconds: float) -> Ratios:
    make = numpy.random.default_rng(0).standard_normal
    x = make((batch, shape.c, shape.h, shape.w), dtype="float32")
    weight = make((shape.oc, shape.c // shape.groups, shape.k, shape.k), dtype="float32")
    bias = make(shape.oc, dtype="float32")
    given = {"stride": shape.stride, "padding": shape.padding, "groups": shape.groups, "activation": "relu"}
    return ratios(kind_of(shape), "conv2d", (x, weight, bias), given, seconds)


def of_product(rows: int, terms: int, columns: int, seconds: float) -> Ratios:
    make = numpy.random.default_rng(0).standard_normal
    x, weight = make((rows, terms), dtype="float32"), make((columns, terms), dtype="float32")
    kind = f"linear, {'one row' if rows == 1 else 'rows'}"
    return ratios(kind, "linear", (x, weight, make(columns, dtype="float32")), {}, seconds)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(CONVOLUTIONS), choices=list(CONVOLUTIONS))
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=5.0, help="for measuring one op (default 5)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th shape, for a quick look")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    distinct = list(
        dict.fromkeys(shape._replace(times=1) for network in options.networks for shape in CONVOLUTIONS[network])
    )
    all_ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    found = [
        of_convolution(batch, shape, options.seconds) for batch in options.batch for shape in distinct[:: options.every]
    ]
    found += [of_product(*sizes, options.seconds) for sizes in PRODUCTS[:: options.every]]
    for ratios_of_op in found:
        for key, ratio in ratios_of_op.items():
            all_ratios[key].append(ratio)
    table = Table(("op", "family", "x", "shapes", "median", "least", "largest"), ("shapes", "median"))
    rows = []
    for (kind, family, layout), values in sorted(all_ratios.items()):
        median, least, largest = statistics.median(values), min(values), max(values)
        table.add(kind, family, layout, len(values), f"{median:.2f}", f"{least:.2f}", f"{largest:.2f}")
        rows.append({"kind": kind, "family": family, "layout": layout, "ratios": values})
    table.print()
    if options.json:
        write(options.json, "estimates", rows)


if __name__ == "__main__":
    main()
