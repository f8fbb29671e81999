"""Text networks whose attention multiplies stacks of (texts * heads) matrices, with and without the pass `move_merges`.

    python -m bench.stacked_heads                       all networks, 4 texts of 128 tokens
    python -m bench.stacked_heads mpt bloom --texts 1 --layers 6

A line for each network: attention ops, products of two tensors and reorders of each plan, both times and how many times
as long a run takes without the pass. Plans are tuned; runs take turns in one process.
"""

from __future__ import annotations

import argparse
from typing import Any

import pylayout as pl

from .text_models import first_result
from .torchvision_models import import_torchvision
from .turns import take_turns

WORDS = 1000
WIDTH, HEADS = 768, 12
# The name of the configuration in transformers, without Config, and what it calls its sizes.
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "mpt": ("Mpt", {"d_model": WIDTH, "n_heads": HEADS, "n_layers": 0}),
    "bloom": ("Bloom", {"hidden_size": WIDTH, "n_head": HEADS, "n_layer": 0}),
    "falcon": ("Falcon", {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": 0}),
    "convbert": ("ConvBert", {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": 0}),
    "big_bird": (
        "BigBird",
        {
            "hidden_size": WIDTH,
            "num_attention_heads": HEADS,
            "num_hidden_layers": 0,
            "attention_type": "original_full",
        },
    ),
    "deberta": (
        "DebertaV2",
        {
            "hidden_size": WIDTH,
            "num_attention_heads": HEADS,
            "intermediate_size": 4 * WIDTH,
            "num_hidden_layers": 0,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "position_buckets": 64,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
        },
    ),
}


def build(network: str, layers: int) -> Any:
    """The network in eval mode with random weights; it takes tokens (n, s) and gives hidden states (n, s, 768)."""
    import torch

    import_torchvision()  # which transformers imports
    import transformers

    name, sizes = NETWORKS[network]
    sizes = {key: layers if value == 0 else value for key, value in sizes.items()}
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(vocab_size=WORDS, use_cache=False, **sizes)
    return first_result(getattr(transformers, f"{name}Model")(config))


def counts(plan: pl.Plan) -> str:
    text = plan.explain()
    found = [text.count(f"({op}):") for op in ("scaled_dot_product_attention", "matmul")]
    return f"{found[0]} attention, {found[1]} products, {text.count('  reorder of')} reorders"


def measure(network: str, options: argparse.Namespace) -> None:
    import torch

    tokens = torch.randint(5, WORDS, (options.texts, options.tokens))
    model = build(network, options.layers)
    plans = {
        name: pl.compile(model, (tokens,), device=options.device, seconds=options.seconds, without=without)
        for name, without in (("with", []), ("without", ["move_merges"]))
    }
    given = tokens.numpy()
    ms = take_turns({name: lambda plan=plan: plan.run(given) for name, plan in plans.items()}, options.rounds)
    print(
        f"{network:9} with: {counts(plans['with'])}, {ms['with']:.2f} ms; without: {counts(plans['without'])}, "
        f"{ms['without']:.2f} ms; {ms['without'] / ms['with']:.2f}",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=6, help="for tuning each plan")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args(arguments)
    for network in options.networks or NETWORKS:
        if network not in NETWORKS:
            parser.error(f"unknown network {network}, expected one of {', '.join(NETWORKS)}")
        measure(network, options)


if __name__ == "__main__":
    main()
