"""Recurrent layers of PyTorch on a GPU: forward, and a step of training (forward and backward).

    python -m bench.recurrent_layers                          the device ocl
    python -m bench.recurrent_layers --device cuda            the same by cuDNN, in a process of its own
    python -m bench.recurrent_layers lstm:64x4x256x2 gru:128x64x512x2:both --dtype float32 --packed --autocast

A layer is its cell, steps x sequences x units x levels, and `both` for both directions; features are as many as units.
A line for each: ms until the device is done, the median of runs of four. --packed: sequences of different lengths, from
all steps to half of them. --autocast: in half precision that way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from .turns import take_turns

LAYERS = [
    "lstm:64x4x256x2",
    "gru:64x4x128x1:both",
    "lstm:100x32x256x1",
    "gru:100x32x256x1",
    "lstm:50x16x512x1:both",
    "lstm:128x64x512x2",
    "gru:128x64x512x2",
    "rnn:100x32x256x1",
    "lstm:35x20x650x2",
]
RUNS = 4  # without waiting for the device between them


def measure(torch: Any, layer: str, options: argparse.Namespace, dtype: str, wait: Callable[[], Any]) -> str:
    cell, sizes, *both = layer.split(":")
    steps, sequences, units, levels = map(int, sizes.split("x"))
    torch.manual_seed(0)
    made = getattr(torch.nn, cell.upper())(units, units, levels, bidirectional=bool(both))
    made = made.to(options.device, getattr(torch, dtype))
    x = torch.randn(steps, sequences, units).to(options.device, getattr(torch, dtype)).requires_grad_()
    lengths = torch.linspace(steps, steps // 2, sequences).long()

    def run() -> Any:
        with torch.autocast(options.device, torch.float16, enabled=options.autocast):
            if not options.packed:
                return made(x)[0]
            return made(torch.nn.utils.rnn.pack_padded_sequence(x, lengths))[0].data

    def forward() -> None:
        with torch.no_grad():
            run()

    def step() -> None:
        run().sum().backward()
        for each in (x, *made.parameters()):
            each.grad = None

    def several(run: Callable[[], None]) -> Callable[[], None]:
        def runs() -> None:
            for _ in range(RUNS):
                run()
            wait()

        return runs

    ms = take_turns({"forward": several(forward), "step": several(step)}, options.rounds)
    told = ", ".join(f"{name} {each / RUNS:.2f} ms" for name, each in ms.items())
    return f"{options.device} {dtype} {layer}: {told}"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", default=LAYERS)
    parser.add_argument("--device", choices=["ocl", "cuda"], default="ocl")
    parser.add_argument("--dtype", nargs="+", choices=["float32", "float16", "bfloat16"], default=["float32"])
    parser.add_argument("--packed", action="store_true", help="sequences of different lengths")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(given)
    if options.device == "ocl":
        import pylayout.ocl

        pylayout.ocl.load()
    import torch

    torch.backends.cudnn.allow_tf32 = False  # as PyTorch's other products of float32 are by default
    wait = torch.get_device_module(options.device).synchronize
    for dtype in options.dtype:
        for layer in options.layers:
            print(measure(torch, layer, options, dtype, wait), flush=True)


if __name__ == "__main__":
    main()
