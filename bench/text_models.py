"""BERT and GPT-2 of transformers in their base sizes, for benchmarks: seeded modules and their tokens."""

from __future__ import annotations

from typing import Any

from .torchvision_models import import_torchvision

NETWORKS = ["bert", "gpt2"]
TOKENS = 128


def build(network: str) -> Any:
    """The network in eval mode with random weights; it takes tokens (n, s) and gives hidden states (n, s, 768)."""
    import torch

    import_torchvision()  # which transformers imports
    import transformers

    class HiddenStates(torch.nn.Module):
        def __init__(self, model: Any, **keywords: Any) -> None:
            super().__init__()
            self.model, self.keywords = model, keywords

        def forward(self, tokens: Any) -> Any:
            return self.model(input_ids=tokens, **self.keywords)[0]

    torch.manual_seed(1)
    if network == "bert":
        return HiddenStates(transformers.BertModel(transformers.BertConfig())).eval()
    return HiddenStates(transformers.GPT2Model(transformers.GPT2Config()), use_cache=False).eval()


def tokens_for(network: str, batch: int, tokens: int = TOKENS) -> Any:
    """Tokens (batch, tokens) of int64, seeded by the batch."""
    import torch

    torch.manual_seed(batch)
    return torch.randint(0, 30000, (batch, tokens))
