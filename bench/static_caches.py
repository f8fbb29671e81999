"""Words of a Llama one after another, with a cache of keys of fixed capacity (transformers' StaticCache), by PyTorch.

    python -m bench.static_caches eager inductor pylayout --capacity 4096
    python -m bench.static_caches pylayout --device ocl:0 --large --dtype float16 --words 500
    python -m bench.static_caches eager inductor --device cuda --large --dtype float16

Each engine writes the same number of words behind the same 16, each the most probable one, in turns of an engine at a
time. ms: the median of the second half, the host's work and reading the word included. `inductor` uses CUDA graphs on
CUDA (mode="reduce-overhead"). "alike": how many words are those of the first engine before one differs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from pylayout.cli.terminal import Table

from .record import write
from .torchvision_models import import_torchvision

PROMPT = 16  # words that are there before
ENGINES = ["eager", "inductor", "pylayout"]


def _model(large: bool, dtype: Any, device: str) -> Any:
    import torch

    import_torchvision()  # which transformers imports
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = (2048, 5632, 16, 32, 8, 32000) if large else (512, 1376, 8, 8, 4, 8000)
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    config = LlamaConfig(**dict(zip((*names, "vocab_size"), sizes, strict=True)), max_position_embeddings=8192)
    return LlamaForCausalLM(config).eval().to(dtype).to(device)


def words_of(model: Any, engine: str, capacity: int, count: int) -> tuple[list[int], list[float]]:
    """The words, and milliseconds of each."""
    import torch
    from transformers import StaticCache

    device = model.device
    cache = StaticCache(config=model.config, max_cache_len=capacity)
    torch._dynamo.reset()
    mode = "reduce-overhead" if engine == "inductor" and device.type == "cuda" else None
    step = model.forward if engine == "eager" else torch.compile(model.forward, backend=engine, mode=mode)
    first = torch.randint(0, 500, (1, PROMPT), generator=torch.Generator().manual_seed(1)).to(device)
    words: list[int] = []
    times: list[float] = []
    with torch.no_grad():
        place = torch.arange(PROMPT, device=device)
        made = model.forward(input_ids=first, past_key_values=cache, cache_position=place, use_cache=True)
        word, place = made.logits[:, -1:].argmax(-1), torch.tensor([PROMPT], device=device)
        for _ in range(count):
            begin = time.perf_counter()
            made = step(
                input_ids=word, past_key_values=cache, cache_position=place, position_ids=place[None], use_cache=True
            )
            word, place = made.logits[:, -1:].argmax(-1).clone(), place + 1
            words.append(int(word))
            times.append(1e3 * (time.perf_counter() - begin))
    return words, times


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", default=["eager", "pylayout"], metavar="ENGINE", help=", ".join(ENGINES))
    parser.add_argument("--device", default="cpu", help="cpu, ocl:0, cuda")
    parser.add_argument("--large", action="store_true", help="1.0 billion weights, not 24 million")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--capacity", type=int, default=1024, help="words that the cache has room for")
    parser.add_argument("--words", type=int, default=40)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    if unknown := {*options.engines} - {*ENGINES}:
        parser.error(f"engine {', '.join(sorted(unknown))} is not known; expected {', '.join(ENGINES)}")
    import torch

    import pylayout.torch

    if options.device.startswith("ocl"):
        import pylayout.ocl

        pylayout.ocl.load()
    model = _model(options.large, getattr(torch, options.dtype), options.device)
    rows: list[dict[str, Any]] = []
    expected: list[int] = []
    for engine in options.engines:
        words, times = words_of(model, engine, options.capacity, options.words)
        expected = expected or words
        alike = next((i for i, (a, b) in enumerate(zip(words, expected, strict=True)) if a != b), len(words))
        rows.append({"engine": engine, "ms": statistics.median(times[len(times) // 2 :]), "first_ms": times[0]})
        rows[-1].update({"alike": alike, "words": len(words)})
    headings = ["engine", "ms a word", "the first", "alike"]
    table = Table(headings, right=headings[1:])
    for row in rows:
        table.add(row["engine"], f"{row['ms']:.2f}", f"{row['first_ms']:.0f}", f"{row['alike']}/{row['words']}")
    print(table.render())
    if options.json:
        write(options.json, "static_caches", rows)


if __name__ == "__main__":
    main()
