"""What a new length costs a model of `torch.compile(backend="pylayout")`, beside compiling for each length.

    python -m bench.torch_lengths [--layers 4] [--width 256] [--lengths 30] [--json FILE]

The model is a text encoder in inference mode. "bound": a first call at a length that the one plan was not bound to,
less a steady call. "by itself": the same where nothing was compiled before, so that the graph is imported and compiled
for this length. Medians over the lengths, in milliseconds of the calling thread's processor time, the two ways in
turns. "later": what memory in use grew by over all lengths after the first, beside the weights.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from pylayout.cli.terminal import Table

from .record import write


def _encoder(width: int, layers: int) -> Any:
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = torch.nn.Embedding(1000, width), torch.nn.Embedding(512, width)
            self.layers = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(width, width // 32, 4 * width, batch_first=True) for _ in range(layers)
            )

        def forward(self, index: Any) -> Any:
            x = self.words(index) + self.places(torch.arange(index.shape[1]))
            for layer in self.layers:
                x = layer(x)
            return x

    return Encoder().eval()


def _timed(run: Callable[[], Any]) -> float:
    begin = time.thread_time()
    run()
    return 1e3 * (time.thread_time() - begin)


def measure(width: int, layers: int, count: int) -> dict[str, Any]:
    import torch

    import pylayout as pl
    import pylayout.torch
    from pylayout.torch.compiled import Compiled

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # one op for a layer, which PyTorch alone has
    torch._dynamo.reset()
    pylayout.torch.reset()
    model = _encoder(width, layers)
    fast = torch.compile(model, backend="pylayout", dynamic=True, options={"deterministic": True})
    lengths = [*range(16, 16 + count + 1)]
    times: dict[str, list[float]] = {"bound": [], "by itself": [], "steady": []}
    with torch.no_grad():
        given = [torch.randint(0, 1000, (2, length)) for length in lengths]
        before = pl.memory("cpu")["in_use"]
        fast(given[0])
        first = pl.memory("cpu")["in_use"]
        for index in given[1:]:
            bound = _timed(lambda index=index: fast(index))  # type: ignore[misc]
            times["steady"].append(min(_timed(lambda index=index: fast(index)) for _ in range(5)))  # type: ignore[misc]
            times["bound"].append(bound - times["steady"][-1])
            torch.testing.assert_close(fast(index), model(index), rtol=1e-3, atol=1e-3)
        after = pl.memory("cpu")["in_use"]
        graphs = pylayout.torch.report().graphs
        compiled = next(each for each in gc.get_objects() if type(each) is Compiled)
        for index, steady in zip(given[1:], times["steady"], strict=True):
            compiled.forget()
            times["by itself"].append(_timed(lambda index=index: fast(index)) - steady)  # type: ignore[misc]
    return {
        **{name: statistics.median(values) for name, values in times.items()},
        "graphs": len(graphs),
        "weights": sum(weight.nbytes for weight in model.parameters()),
        "bytes_at_first": first - before,
        "bytes_later": after - first,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--lengths", type=int, default=30)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    found = measure(options.width, options.layers, options.lengths)
    headings = ["bound, ms", "by itself, ms", "ratio", "steady call, ms", "graphs", "weights, MiB", "at first", "later"]
    table = Table(headings, right=headings)
    ratio = found["by itself"] / found["bound"]
    memory = (f"{found[name] / 2**20:.2f}" for name in ("weights", "bytes_at_first", "bytes_later"))
    table.add(
        f"{found['bound']:.1f}", f"{found['by itself']:.1f}", f"{ratio:.1f}", f"{found['steady']:.2f}",
        str(found["graphs"]), *memory,
    )  # fmt: skip
    print(table.render())
    if options.json:
        write(options.json, "torch_lengths", [found])


if __name__ == "__main__":
    main()
