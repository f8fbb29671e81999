"""Work of PyTorch in eager mode that is no classifier of images: tables, experts, style, diffusion, texts, speech.

    python -m bench.eager_work                               all, on the device ocl
    python -m bench.eager_work --device cuda                 the same by CUDA, in a process of its own
    python -m bench.eager_work style experts --rounds 5

A line for each: ms until the device is done, of a step of training or a generation, the median of rounds, once nothing
is compiled or tried beside them any more (20 s at most). `words` writes 200 words, twice: at lengths that were not met
before, and again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from .torchvision_models import import_torchvision
from .turns import run_until_settled

Run = Callable[..., Any]


def _numbers(torch: Any, device: str, *shape: int, below: int = 0, dtype: Any = None) -> Any:
    generator = torch.Generator().manual_seed(1)
    if below:
        return torch.randint(0, below, shape, generator=generator).to(device)
    return torch.randn(*shape, generator=generator).to(device, dtype or torch.float32)


def _training(torch: Any, module: Any, device: str, inputs: Sequence[Any], half: Any = None) -> Run:
    module = module.to(device).train()
    optimizer = torch.optim.AdamW(module.parameters(), 1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(torch.device(device).type, half or torch.float16, enabled=half is not None):
            loss = module(*inputs).float().square().mean()
        loss.backward()
        optimizer.step()

    return step


def tables(torch: Any, device: str) -> Run:
    """Features of 26 tables beside 13 numbers, batch 4,096."""
    nn = torch.nn

    class Tables(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(10000, 16) for _ in range(26))
            self.layers = nn.Sequential(
                nn.Linear(13 + 26 * 16, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)
            )

        def forward(self, x: Any, rows: Any) -> Any:
            return self.layers(torch.cat([x, *(table(rows[:, i]) for i, table in enumerate(self.tables))], 1))

    return _training(
        torch, Tables(), device, [_numbers(torch, device, 4096, 13), _numbers(torch, device, 4096, 26, below=10000)]
    )


def experts(torch: Any, device: str) -> Run:
    """Two of eight experts for each of 4,096 words: other numbers of words in each step."""
    nn, functional = torch.nn, torch.nn.functional

    class Experts(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.choice = nn.Linear(512, 8)
            self.up = nn.Parameter(torch.randn(8, 512, 1024) * 0.02)
            self.down = nn.Parameter(torch.randn(8, 1024, 512) * 0.02)

        def forward(self, x: Any) -> Any:
            weights, chosen = functional.softmax(self.choice(x), -1).topk(2, -1)
            y = torch.zeros_like(x)
            for expert in range(8):
                word, rank = (chosen == expert).nonzero(as_tuple=True)
                made = functional.gelu(x[word] @ self.up[expert]) @ self.down[expert]
                y = y.index_add(0, word, made * weights[word, rank][:, None])
            return y

    return _training(torch, Experts(), device, [_numbers(torch, device, 4096, 512)])


def style(torch: Any, device: str) -> Run:
    """Style transfer of four images of 256 x 256: borders that reflect, instance norms."""
    nn = torch.nn

    def layer(channels: int, made: int, kernel: int, stride: int = 1) -> Any:
        norm = nn.InstanceNorm2d(made, affine=True)
        return nn.Sequential(
            nn.ReflectionPad2d(kernel // 2), nn.Conv2d(channels, made, kernel, stride), norm, nn.ReLU()
        )

    network = nn.Sequential(
        layer(3, 32, 9), layer(32, 64, 3, 2), layer(64, 128, 3, 2), *[layer(128, 128, 3) for _ in range(10)],
        nn.Upsample(scale_factor=2), layer(128, 64, 3), nn.Upsample(scale_factor=2), layer(64, 32, 3),
        nn.Conv2d(32, 3, 9, padding=4),
    )  # fmt: skip
    return _training(torch, network, device, [_numbers(torch, device, 4, 3, 256, 256)])


def encoder(torch: Any, device: str) -> Run:
    """Six layers of nn.TransformerEncoder in mixed precision, eight texts of up to 256 words, with dropout."""
    nn = torch.nn

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 6)

        def forward(self, x: Any, hidden: Any) -> Any:
            return self.layers(x, src_key_padding_mask=hidden)

    lengths = torch.tensor([100, 256, 200, 30, 50, 255, 128, 90])
    hidden = (torch.arange(256)[None] >= lengths[:, None]).to(device)
    return _training(torch, Encoder(), device, [_numbers(torch, device, 8, 256, 512), hidden], torch.float16)


def gpt2(torch: Any, device: str) -> Run:
    """GPT-2 small in bfloat16, 4 texts of 512 words."""
    import transformers

    class Losses(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config())

        def forward(self, words: Any) -> Any:
            return self.model(input_ids=words, labels=words).loss.sqrt()  # whose square is the loss

    return _training(torch, Losses(), device, [_numbers(torch, device, 4, 512, below=50000)], torch.bfloat16)


def _writing(torch: Any, model: Any, device: str, given: Any, words: int, **how: Any) -> Run:
    model = model.eval().half().to(device)

    def write(count: int = words) -> Any:
        with torch.no_grad():
            return model.generate(given, max_new_tokens=count, min_new_tokens=count, do_sample=False, **how)

    return write


def beams(torch: Any, device: str) -> Run:
    """GPT-2 small in float16: 32 words by four beams, of two texts."""
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    return _writing(torch, model, device, _numbers(torch, device, 2, 32, below=32000), 32, num_beams=4, pad_token_id=0)


def speech(torch: Any, device: str) -> Run:
    """A Whisper of width 512 in float16: 48 words of 30 seconds."""
    import transformers

    names = ("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads")
    config = transformers.WhisperConfig(
        **dict(zip(names, (512, 6, 6, 8, 8), strict=True)), encoder_ffn_dim=2048, decoder_ffn_dim=2048,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    given = _numbers(torch, device, 1, 80, 3000, dtype=torch.float16)
    return _writing(torch, transformers.WhisperForConditionalGeneration(config), device, given, 48)


def words(torch: Any, device: str) -> Run:
    """A Llama of a billion weights in float16: 200 words behind 64."""
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=2048, intermediate_size=5632, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
        vocab_size=32000,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    return _writing(torch, model, device, _numbers(torch, device, 1, 64, below=32000), 200, pad_token_id=0)


WORK: dict[str, Callable[[Any, str], Run]] = {
    each.__name__: each for each in (tables, experts, style, encoder, gpt2, beams, speech, words)
}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="*", default=[*WORK], metavar="WORK", help=", ".join(WORK))
    parser.add_argument("--device", default="ocl:0", help="ocl:0, cuda")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(given)
    if unknown := {*options.work} - {*WORK}:
        parser.error(f"work {', '.join(sorted(unknown))} is not known; expected {', '.join(WORK)}")
    import torch

    import_torchvision()  # which transformers imports
    if options.device.startswith("ocl"):
        import pylayout.ocl

        pylayout.ocl.load()
    wait = torch.cuda.synchronize if options.device.startswith("cuda") else torch.ocl.synchronize

    def timed(run: Run, *how: int) -> float:
        wait()
        begin = time.perf_counter()
        run(*how)
        wait()
        return 1e3 * (time.perf_counter() - begin)

    for name in options.work:
        torch.manual_seed(0)
        run = WORK[name](torch, options.device)
        if name == "words":  # kernels are compiled for the first ones
            timed(run, 8)
            print(f"{options.device} {name}: {timed(run):.0f} ms, again {timed(run):.0f} ms", flush=True)
            continue
        timed(run)
        if options.device.startswith("ocl"):
            run_until_settled(run, 20)
        timed(run)
        ms = statistics.median(timed(run) for _ in range(options.rounds))
        print(f"{options.device} {name}: {ms:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
