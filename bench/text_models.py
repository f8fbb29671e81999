"""BERT and GPT-2 of transformers in their base sizes and a small Llama, for benchmarks: seeded modules and tokens."""

from __future__ import annotations

from typing import Any

from .torchvision_models import import_torchvision

NETWORKS = ["bert", "gpt2", "llama"]
TOKENS = 128
WORDS = 30000  # below the number of words of each network


def _model(network: str, layers: int | None, language: bool) -> Any:
    import transformers
    from transformers import masking_utils

    # It looks for several sequences in a row by `diff`, which TorchScript's exporter lacks; here each row is one.
    masking_utils.find_packed_sequence_indices = lambda position_ids: None  # type: ignore[assignment]
    depth = {} if layers is None else {"n_layer" if network == "gpt2" else "num_hidden_layers": layers}
    if network == "bert":
        config = transformers.BertConfig(**depth)
        return (transformers.BertForMaskedLM if language else transformers.BertModel)(config)
    if network == "gpt2":
        config = transformers.GPT2Config(**depth)
        return (transformers.GPT2LMHeadModel if language else transformers.GPT2Model)(config)
    sizes = {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "num_key_value_heads": 4}
    config = transformers.LlamaConfig(**{"vocab_size": 32000, "num_hidden_layers": 12, **sizes, **depth})
    return (transformers.LlamaForCausalLM if language else transformers.LlamaModel)(config)


def build(network: str, layers: int | None = None, language: bool = False) -> Any:
    """The network in eval mode with random weights; it takes tokens (n, s) and gives hidden states (n, s, 768).

    layers: how many, in the place of the network's own number. language: with the head that gives a number for each
    word, and the loss of transformers; the result is that loss, of the tokens as their own labels.
    """
    import torch

    import_torchvision()  # which transformers imports
    torch.manual_seed(1)
    keywords = {} if network == "bert" else {"use_cache": False}
    return first_result(_model(network, layers, language), language, **keywords)


def first_result(model: Any, language: bool = False, **keywords: Any) -> Any:
    """A model of transformers in eval mode, as a module from tokens to its first result.

    language: that is the loss of the tokens as their own labels. keywords: of its `forward`.
    """
    import torch

    class FirstResult(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any) -> Any:
            labels = {"labels": tokens} if language else {}
            return self.model(input_ids=tokens, **labels, **keywords)[0]

    return FirstResult().eval()


def tokens_for(network: str, batch: int, tokens: int = TOKENS) -> Any:
    """Tokens (batch, tokens) of int64, seeded by the batch."""
    import torch

    torch.manual_seed(batch)
    return torch.randint(0, WORDS, (batch, tokens))
