"""A machine's first plans beside tuned ones: how far they are behind, and whether tuning ever ends slower.

    python -m bench.first_plans resnet50 mobilenet_v2 bert                     # untuned, prior, tuned and full
    python -m bench.first_plans --plans untuned tuned --json tuned.json        # the zoo: tuned beside untuned

Each plan is made in a process of its own with an empty cache, and pinned. `untuned`: by estimates alone; `prior`: by
the tables of costs that come with the package, as a first compilation does it; `tuned`: pl.compile(seconds=...);
`full`: tune="full". Then all are loaded into one process and run in turns, an untuned one twice, as a control. A plan's
time is the lower quartile of its runs; `ratio` is its time over the untuned one's, `differ` counts the ops that it runs
by another implementation or in other layouts than the last of --plans does. On `cpu` an op's time is also taken:
`steps` is the sum, over a plan's steps, of the second least that each took, over that of the untuned plan, which other
programs disturb less. --within is how much slower than the untuned a plan may be: the last lines name those that are.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table, ms_text

from .cost_tables import NETWORKS, model_of
from .first_compile import typical
from .fresh import run_fresh
from .record import write

PLANS = ["untuned", "prior", "tuned", "full"]
CONTROL = "untuned again"


def compile_here(plan: str, model: str, target: str, device: str, seconds: float) -> None:
    """In a process of its own, whose cache is empty."""
    import pylayout as pl

    pl.configure(cost_tables=plan == "prior")
    options: dict[str, Any] = {"deterministic": True}
    if plan in ("tuned", "full"):
        options = {"seconds": seconds, "tune": "full" if plan == "full" else "auto"}
    elif device != "cpu":
        options = {"tune": "off"} if plan == "untuned" else {"seconds": 2}
    begin = time.perf_counter()
    made = pl.compile(model, device=device, **options)
    took = time.perf_counter() - begin
    made.save(target)
    tables = [one["found"] for table in pl.device.costs()["tables"] for one in table["devices"]]
    Path(target + ".json").write_text(json.dumps({"seconds": took, "tables": tables, **made.summary()}), "utf-8")


def make(plan: str, model: Path, target: Path, options: argparse.Namespace) -> dict[str, Any]:
    action = {"plan": plan, "model": str(model), "target": str(target)}
    action |= {"device": options.device, "seconds": options.seconds}
    run_fresh("first_plans", ["--worker", json.dumps(action)])
    return dict(json.loads(Path(f"{target}.json").read_text("utf-8")))


def choices(summary: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {
        choice["node"]: tuple(str(choice.get(key)) for key in ("provider", "implementation", "inputs", "outputs"))
        for choice in summary["choices"]
    }


def take_turns(files: dict[str, Path], device: str, rounds: int) -> dict[str, dict[str, float]]:
    import pylayout as pl

    plans = {name: pl.load_plan(str(file)) for name, file in files.items()}
    rng = np.random.default_rng(1)
    tensors = []
    for entry in next(iter(plans.values())).inputs:
        whole = entry["dtype"] != "f32"
        array = rng.integers(0, 2, entry["shape"]) if whole else rng.standard_normal(entry["shape"]).astype("f4")
        tensors.append(pl.asarray(array, device=device))
    times: dict[str, list[float]] = {name: [] for name in plans}
    steps: dict[str, list[list[float]]] = {name: [] for name in plans}
    order = list(plans)
    for turn in range(rounds + 1):
        for name in order if turn % 2 else reversed(order):
            plan = plans[name]
            plan(*tensors)  # brings its weights nearer
            for _ in range(3):
                begin = time.perf_counter()
                plan(*tensors)
                pl.synchronize(device)
                if turn:
                    times[name].append(1e3 * (time.perf_counter() - begin))
            if device == "cpu" and turn:
                with pl.profile() as profile:
                    plan(*tensors)
                steps[name].append([event["ms"] for event in profile.events])
    found = {name: {"ms": sorted(own)[(len(own) - 1) // 4]} for name, own in times.items()}
    for name, own in steps.items():
        if own and len(own) > 1:
            found[name]["steps_ms"] = sum(typical(list(step)) for step in zip(*own, strict=True))
    return found


def rows_of(network: str, batch: int, folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    model = model_of(network, batch, folder)
    files = {plan: folder / f"{model.stem}-{plan}.plan" for plan in options.plans}
    made = {plan: make(plan, model, file, options) for plan, file in files.items()}
    last = choices(made[options.plans[-1]])
    if "untuned" in files:
        files[CONTROL] = files["untuned"]
        made[CONTROL] = made["untuned"]
    found = take_turns(files, options.device, options.rounds)
    base = found.get("untuned", found[options.plans[0]])
    rows = []
    for name in files:
        own = choices(made[name])
        row = {"network": model.stem if network.endswith(".onnx") else network, "batch": batch, "plan": name}
        row |= {"ms": round(found[name]["ms"], 4), "ratio": round(found[name]["ms"] / base["ms"], 3)}
        if "steps_ms" in base:
            row["steps"] = round(found[name]["steps_ms"] / base["steps_ms"], 3)
        row |= {"ops": len(own), "differ": sum(last.get(node) != choice for node, choice in own.items())}
        row |= {"compile_s": round(made[name]["seconds"], 2), "tables": made[name]["tables"]}
        rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK|FILE.onnx")
    parser.add_argument("--plans", nargs="+", default=PLANS, choices=PLANS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=60, help="for measuring, of tuned plans (default 60)")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--within", type=float, default=1.02)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        compile_here(**options.worker)
        return
    rows: list[dict[str, Any]] = []
    headings = ("network", "batch", "plan", "compiled in s", "ms", "ratio", "steps", "ops", "differ")
    table = Table(headings, headings[3:])
    with tempfile.TemporaryDirectory() as folder:
        for batch in options.batch:
            for network in options.networks:
                for row in rows_of(network, batch, Path(folder), options):
                    rows.append(row)
                    cells = [row["compile_s"], ms_text(row["ms"]), row["ratio"], row.get("steps"), row["ops"]]
                    table.add(row["network"], batch, row["plan"], *cells, row["differ"])
    table.print()
    slower = [row for row in rows if row["plan"] not in ("untuned", CONTROL) and row["ratio"] > options.within]
    for row in slower:
        print(f"{row['network']}, batch {row['batch']}: {row['plan']} is {row['ratio']} times the untuned plan")
    print(f"{len(slower)} of {len(rows)} plans are over {options.within} times their untuned plan")
    if options.json:
        write(options.json, "first_plans", rows, device=options.device, within=options.within)


if __name__ == "__main__":
    main()
