"""Steps of training of transformer layers, with dropout and without, beside eager PyTorch and inductor.

    python -m bench.dropout                              two sizes on the CPU
    python -m bench.dropout --batch 8 --words 512 --width 768 --layers 6 --device ocl --math fp32 fp16
    python -m bench.dropout --batch 8 --words 512 --width 768 --layers 6 --device cuda --math fp32 fp16

A line for each size and share that is dropped: ms of a step (forward, backward and SGD) of each engine. `ocl` and
`cuda` of one GPU are for two processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from .turns import take_turns

ENGINES = {"cpu": ("eager", "inductor", "pylayout"), "ocl": ("eager", "pylayout"), "cuda": ("eager", "inductor")}


def network(layers: int, width: int, p: float) -> Any:
    from torch import nn

    heads = max(1, width // 64)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, p, "gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).train()


def step_of(engine: str, options: argparse.Namespace, batch: int, words: int, p: float, math: str) -> Callable[[], Any]:
    import torch

    torch.manual_seed(0)
    model = network(options.layers, options.width, p).to(options.device)
    run = model if engine == "eager" else torch.compile(model, backend=engine)
    x = torch.randn(batch, words, options.width).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    lowered = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}[math]

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, lowered or torch.float32, enabled=lowered is not None):
            y = run(x)
        y.float().square().mean().backward()
        optimizer.step()
        if options.device != "cpu":
            torch.get_device_module(options.device).synchronize()

    return step


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=ENGINES, default="cpu")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 4])
    parser.add_argument("--words", type=int, nargs="+", default=[128, 512], help="one for each batch")
    parser.add_argument("--drop", type=float, nargs="+", default=[0.1, 0.0])
    parser.add_argument("--math", nargs="+", choices=["fp32", "fp16", "bf16"], default=["fp32"])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(given)
    if options.device == "ocl":
        import pylayout.ocl

        pylayout.ocl.load()
    import torch

    for math in options.math:
        for batch, words in zip(options.batch, options.words, strict=True):
            for p in options.drop:
                torch._dynamo.reset()
                engines = ENGINES[options.device]
                steps = {engine: step_of(engine, options, batch, words, p, math) for engine in engines}
                for step in steps.values():
                    step()
                told = ", ".join(f"{name} {ms:.1f}" for name, ms in take_turns(steps, options.rounds).items())
                print(f"{options.device} {math} batch {batch} words {words} drop {p}: {told} ms", flush=True)


if __name__ == "__main__":
    main()
