"""What one cached call of a tiny op costs from Python, in microseconds: the smallest of many rounds.

    python -m bench.overhead [--json FILE]

The tensors have 16 elements, so that nearly all of the time is pylayout's. Aim: at most 5 us. Also the time of
`import pylayout` in a fresh process, with NumPy's share (aim: under 0.2 s). bench/overhead.c measures the same from C.
"""

import argparse
import subprocess
import sys
import time

import numpy

import pylayout as pl
from pylayout import ops

from .record import write


def smallest(call, calls: int = 1000, rounds: int = 100) -> float:
    """Microseconds a call, of the round that was disturbed least."""
    for _ in range(20):
        call()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def import_seconds(module: str, rounds: int = 7) -> float:
    """Seconds that `import module` takes in a fresh process, the start of Python not counted."""
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    done = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(rounds)
    ]
    return min(float(run.stdout) for run in done)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    options = parser.parse_args(arguments)
    array = numpy.ones((1, 4, 2, 2), "float32")
    x, y = pl.asarray(array), pl.asarray(array)
    image = pl.asarray(numpy.ones((1, 4, 4, 4), "float32"))
    weight = pl.asarray(numpy.ones((4, 4, 1, 1), "float32"))
    microseconds = {
        "relu": smallest(lambda: ops.relu(x)),
        "leaky_relu with an attribute": smallest(lambda: ops.leaky_relu(x, 0.1)),
        "add": smallest(lambda: ops.add(x, y)),
        "x + y": smallest(lambda: x + y),
        "x + 1.0": smallest(lambda: x + 1.0),
        "max_pool2d": smallest(lambda: ops.max_pool2d(image, 2)),
        "conv2d 1x1": smallest(lambda: ops.conv2d(image, weight)),
        "reshape (a view)": smallest(lambda: ops.reshape(x, (4, 4))),
        "relu of a NumPy array": smallest(lambda: ops.relu(array)),
        "numpy(): reading the result": smallest(x.numpy),
    }
    seconds = {name: import_seconds(name) for name in ("numpy", "pylayout")}
    print(f"{'op':30}  us a call")
    for name, value in microseconds.items():
        print(f"{name:30}  {value:9.2f}")
    for name, value in seconds.items():
        print(f"{'import ' + name:30}  {value * 1e3:9.1f} ms")
    if options.json:
        rows = [{"what": name, "us": round(value, 3)} for name, value in microseconds.items()]
        rows += [{"what": f"import {name}", "us": round(value * 1e6)} for name, value in seconds.items()]
        write(options.json, "overhead", rows)


if __name__ == "__main__":
    main()
