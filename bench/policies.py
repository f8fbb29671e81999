"""Whether eager `layout="auto"` keeps up with the best layout throughout, over processes that begin with nothing known.

    python -m bench.policies mobilenet_v2 --processes 10
    python -m bench.policies resnet50 vgg16 --policies NHWC nChw16c auto

Each process has an empty cost database and does what `pylayout profile` does: policies warm up one after another, then
take turns in random order. Ratios are the best single layout's time over auto's, above 1 auto is faster: by medians, as
`pylayout profile` reports them, and by lower tenths, which other programs on the machine disturb less. "choices" counts
the ops in which auto differs from that layout (implementation, layouts): where it is 0 both ran the same
program, and their ratio shows how much the machine varies.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from .record import write

_LEAST = 0.97  # asked of the best single layout's time over auto's
_MIXED = ("auto", "per-op")


def lower_tenth(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 10]


def choices(events: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """What ran each op, in order."""
    return [[e["op"], e["implementation"], e["inputs"], e["outputs"]] for e in events if e["kind"] == "op"]


def compare_here(options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: a policy's times and choices."""
    import numpy as np

    from pylayout import configure, image
    from pylayout.comparison import Settings, compare
    from pylayout.networks import Network

    if options.threads:
        configure(threads=options.threads)
    images = np.ascontiguousarray(np.repeat(image.synthetic(), options.batch, axis=0))
    settings = Settings(rounds=options.rounds, seconds=options.seconds)
    comparison = compare(Network(options.networks[0]), images, options.policies, settings)
    return {
        name: {"totals": runs.totals, "choices": choices(runs.events)} for name, runs in comparison.policies.items()
    }


def judge(policies: dict[str, Any]) -> dict[str, Any]:
    """One process's ratios; the best single layout is that by lower tenths."""
    tenths = {name: lower_tenth(runs["totals"]) for name, runs in policies.items()}
    medians = {name: lower_median(runs["totals"]) for name, runs in policies.items()}
    single = [name for name in policies if name not in _MIXED]
    best = min(single, key=lambda name: tenths[name])
    pairs = zip(policies["auto"]["choices"], policies[best]["choices"], strict=True)
    return {
        "tenths": tenths,
        "best": best,
        "by_median": min(medians[name] for name in single) / medians["auto"],
        "by_tenth": tenths[best] / tenths["auto"],
        "differ": sum(one != other for one, other in pairs),
    }


def lower_median(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["mobilenet_v2"])
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=["NHWC", "nChw16c", "auto"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument(
        "--threads", type=int, default=0, help="of ops (default: all); one is disturbed least by others"
    )
    parser.add_argument("--rounds", type=int, default=30, help="turns of each policy at most (default 30)")
    parser.add_argument("--seconds", type=float, default=20.0, help="start no round after so long (default 20)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    if "auto" not in options.policies or set(options.policies) <= set(_MIXED):
        parser.error("--policies: expected auto and a layout")
    if options.worker:
        print(json.dumps(compare_here(options)))
        return
    rows: list[dict[str, Any]] = []
    for network in options.networks:
        forwarded = [network, "--worker", "--batch", str(options.batch), "--rounds", str(options.rounds)]
        forwarded += ["--threads", str(options.threads)]
        forwarded += ["--seconds", str(options.seconds), "--policies", *options.policies]
        found = []
        table = Table((*(f"{name} ms" for name in options.policies), "best", "by medians", "by tenths", "choices"))
        for _ in range(options.processes):
            with tempfile.TemporaryDirectory() as cache:
                done = subprocess.run(
                    [sys.executable, "-m", "bench.policies", *forwarded],
                    env={**os.environ, "PYLAYOUT_CACHE_DIR": cache},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
            one = judge(json.loads(done.stdout))
            found.append(one)
            rows.append({"network": network, "batch": options.batch, **one})
            times = (ms_text(one["tenths"][name]) for name in options.policies)
            table.add(*times, one["best"], f"{one['by_median']:.3f}", f"{one['by_tenth']:.3f}", str(one["differ"]))
        print(f"{network}, batch {options.batch}: a process a line, times are lower tenths")
        table.print()
        for words, key in (("medians", "by_median"), ("lower tenths", "by_tenth")):
            enough = sum(one[key] >= _LEAST for one in found)
            print(f"{enough} of {len(found)} at least {_LEAST} by {words}")
    if options.json:
        write(options.json, "policies", rows, **({"threads": options.threads} if options.threads else {}))


if __name__ == "__main__":
    main()
