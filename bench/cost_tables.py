"""A table of what candidates cost on this machine, for others of its class: one of those in pylayout/costs.

    python -m bench.cost_tables --out pylayout/costs/zen4.costs                    # networks of README on `cpu`
    python -m bench.cost_tables --device opencl:0 --math fp32 fp16 --batch 1 16 --out pylayout/costs/nvidia-9.0.costs
    python -m bench.cost_tables bert.onnx resnet50.onnx --out mine.costs           # ONNX files need no PyTorch

Every network is planned in a process of its own, with candidates measured, all of them into one cost database; and that
--runs times, each into a database of its own (default 2). The table takes the lesser time of each candidate, for what
disturbs makes a run longer; what other programs disturbed is in no run. Ops whose runs disagree, a run's choice being
slower in another by more than --agree times, are left out; how many they are says how quiet the machine was. On `cpu` a
table is written for each number of threads that plans measured, `-2-threads` and so on put into the file's name. Its
"about" lines say machine, versions, day and command. --keep FOLDER keeps databases and model files: a run that was cut
short goes on there, and nothing that lies there is measured again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pylayout.cli.terminal import Table

from .record import write

NETWORKS = [
    "resnet50",
    "resnet18",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "efficientnet_b0",
    "vit_b_16",
    "bert",
    "vgg16",
    "squeezenet1_0",
    "shufflenet_v2_x1_0",
]
LEAST_OPS = 10  # fewer make no table


@dataclass
class Costs:
    """A table as numbers: ms by op and candidate."""

    device_class: list[str] = field(default_factory=list)
    about: list[list[str]] = field(default_factory=list)
    times: dict[str, dict[str, float]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Costs:
        """Of the text of `pylayout cache export`; src/dispatch/cost_tables.h has the format."""
        lines = [line.split("\t") for line in text.splitlines()]
        if lines[0] != ["pylayout costs 2"]:
            raise ValueError(f"a table of costs begins with {lines[0]}, expected 'pylayout costs 2'")
        found, ways = cls(lines[1][1:]), []
        for name, *rest in lines[2:]:
            if name == "about":
                found.about.append(rest)
            elif name == "way":
                ways.append(rest[0])
            else:
                pairs = [pair.split(":") for pair in rest[1:]]
                found.times[name] = {ways[int(way)]: float(rest[0]) * float(ratio) for way, ratio in pairs}
        return found

    def text(self) -> str:
        lines, numbers, ops = ["pylayout costs 2", "\t".join(["class", *self.device_class])], {}, []
        for op, times in sorted(self.times.items()):
            least = min(times.values())
            pairs = [f"{numbers.setdefault(way, len(numbers))}:{ms / least:.3g}" for way, ms in sorted(times.items())]
            ops.append("\t".join([op, f"{least:.4g}", *pairs]))
        lines += ["\t".join(["about", *words]) for words in self.about]
        lines += [f"way\t{way}" for way in numbers]
        return "\n".join([*lines, *ops]) + "\n"


def joined(runs: list[Costs], agree: float) -> tuple[Costs, dict[str, int]]:
    """What several runs measured, and how many ops they agree on."""
    result = Costs(runs[0].device_class, list(runs[0].about))
    counts = {"compared": 0, "same_choice": 0, "left_out": 0}
    for op in sorted(set.union(*(set(run.times) for run in runs))):
        each = [run.times[op] for run in runs if op in run.times]  # a run has none that other programs disturbed
        common = set.intersection(*map(set, each))
        if len(each) > 1 and common:
            choices = [min(common, key=times.__getitem__) for times in each]
            # What a choice costs beside the best of every run.
            loss = max(times[choice] / min(times[way] for way in common) for times in each for choice in choices)
            counts["compared"] += 1
            counts["same_choice"] += len(set(choices)) == 1
            if loss > agree:
                counts["left_out"] += 1
                continue
        result.times[op] = {
            way: min(times[way] for times in each if way in times) for way in set.union(*map(set, each))
        }
    return result, counts


class _Measured(Exception):
    pass


def plan_here(model: str, device: str, math: str, seconds: float, sizes: dict[str, int], quick: bool) -> None:
    """In a process of its own: measures what a plan of the model needs."""
    import pylayout as pl

    def progress(stage: str, fraction: float) -> None:
        if quick and stage == "refining":
            raise _Measured

    pl.configure(cost_tables=False)
    options = {"sizes": sizes} if sizes else {}
    with contextlib.suppress(_Measured):
        pl.compile(model, device=device, math=math, seconds=seconds, progress=progress, **options)


def export_here(device: str, threads: int, target: str) -> None:
    from pylayout.device import export_costs

    Path(target).write_text(export_costs(device, threads), "utf-8")


def in_process(cache: Path, action: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "bench.cost_tables", "--worker", json.dumps(action)]
    environment = {**os.environ, "PYLAYOUT_CACHE_DIR": str(cache)}
    if action["device"] == "cpu":
        environment["PYLAYOUT_OPENCL"] = "none"  # whose kernels on the processor are another machine's business
    subprocess.run(command, env=environment, check=True)


def model_of(network: str, batch: int, folder: Path) -> Path:
    """The network as an ONNX file."""
    if network.endswith(".onnx"):
        return Path(network).resolve()
    path = folder / f"{network}-{batch}.onnx"
    if not path.exists():
        from . import model_files

        made = folder / "new"
        made.mkdir(exist_ok=True)
        model_files.prepare(network, batch, made)
        (made / "model.onnx").rename(path)
    return path


def measure(options: argparse.Namespace, folder: Path) -> list[Path]:
    """Databases, one a run, in which all that is asked for is measured."""
    models = [model_of(network, batch, folder) for batch in options.batch for network in options.networks]
    caches = [folder / f"run{run}" for run in range(options.runs)]
    for run, cache in enumerate(caches):
        cache.mkdir(exist_ok=True)
        for model in models:
            for math in options.math:
                done = cache / f"{model.stem}-{math}.done"
                if done.exists():
                    continue
                begin = time.perf_counter()
                action = {"model": str(model), "device": options.device, "math": math, "seconds": options.seconds}
                in_process(cache, {**action, "sizes": options.sizes, "quick": options.quick})
                done.touch()
                took = time.perf_counter() - begin
                print(f"run {run + 1}: {model.stem} in {math}: {took:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    return caches


def thread_counts(device: str) -> list[int]:
    return list(range(1, len(os.sched_getaffinity(0)) + 1)) if device == "cpu" else [0]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK|FILE.onnx")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="of networks by name (default 1)")
    parser.add_argument("--math", nargs="+", default=["fp32"], choices=["fp32", "tf32", "fp16", "bf16"])
    parser.add_argument("--sizes", type=json.loads, default={}, help='of named axes of files, as {"batch": 1}')
    parser.add_argument("--seconds", type=float, default=60, help="for each plan (default 60)")
    parser.add_argument("--quick", action="store_true", help="of models of one image: no contests once all is measured")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--agree", type=float, default=1.5, help="default 1.5")
    parser.add_argument("--out", metavar="FILE.costs", help="default: no table is written")
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        (plan_here if "model" in options.worker else export_here)(**options.worker)
        return
    out, rows = Path(options.out or "table.costs"), []
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--keep" in words:
        at = words.index("--keep")
        del words[at : at + 2]  # whose folder says nothing elsewhere
    table = Table(("table", "ops", "compared", "the same choice", "left out", "bytes"), ("ops", "bytes"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        caches = measure(options, folder)
        for threads in thread_counts(options.device):
            runs = []
            for cache in caches:
                target = cache / "exported.costs"
                in_process(cache, {"device": options.device, "threads": threads, "target": str(target)})
                runs.append(Costs.parse(target.read_text("utf-8")))
            costs, counts = joined(runs, options.agree)
            if len(costs.times) < LEAST_OPS:
                continue
            costs.about.append(["command", shlex.join(["python", "-m", "bench.cost_tables", *words])])
            path = out.with_name(f"{out.stem}-{threads}-threads{out.suffix}") if threads else out
            text = costs.text()
            if options.out:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
            rows.append({"table": path.name, "kept": len(costs.times), **counts, "bytes": len(text)})
            table.add(*rows[-1].values())
    table.print()
    if options.json:
        write(options.json, "cost_tables", rows, device=options.device)


if __name__ == "__main__":
    main()
