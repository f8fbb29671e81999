"""What modules of PyTorch call in evaluation in the place of their own code, made of ops that plans have.

`torch.nn.TransformerEncoderLayer` and `torch.nn.MultiheadAttention` call one op each where nothing is to be trained.
"""

from __future__ import annotations

import torch
from torch.nn.functional import gelu, layer_norm, linear, relu, scaled_dot_product_attention

__all__ = ["encoder_layer", "multi_head_attention"]

Tensor = torch.Tensor


def _counting(mask: Tensor | None, kind: int | None, q: Tensor) -> Tensor | None:
    """Which keys count for each query, as scaled_dot_product_attention wants it.

    mask: what does not count. Of kind 0 for queries and keys, of kind 1 for images and keys, of kind 2 for all heads.
    """
    if mask is None:
        return None
    counts = mask.to(torch.bool).logical_not()
    batch, _, queries, _ = q.shape
    if kind == 1:
        return counts.reshape(batch, 1, 1, counts.shape[-1])
    return counts.reshape(1, 1, queries, counts.shape[-1]) if counts.dim() == 2 else counts


def multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`aten::_native_multi_head_attention`; the weights have no elements where they are not wanted."""
    if query is key and key is value:
        parts = linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
        parts = tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    q, k, v = (part.reshape(*part.shape[:-1], num_head, part.shape[-1] // num_head).transpose(1, 2) for part in parts)
    counts = _counting(mask, mask_type, q)
    if need_weights:
        products = q @ k.transpose(2, 3) * (embed_dim // num_head) ** -0.5
        if counts is not None:
            products = products.masked_fill(counts.logical_not(), -torch.inf)
        shares = products.softmax(-1)
        made = shares @ v
        shares = shares.mean(1) if average_attn_weights else shares
    else:
        made = scaled_dot_product_attention(q, k, v, counts)
        shares = query.new_empty((0,))
    return linear(made.transpose(1, 2).flatten(2), proj_weight, proj_bias), shares


def encoder_layer(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor,
    proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor,
    norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor,
    ffn_bias_2: Tensor, mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    """`aten::_transformer_encoder_layer_fwd`."""

    def first(x: Tensor) -> Tensor:
        return layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attention(x: Tensor) -> Tensor:
        return multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]

    def forward(x: Tensor) -> Tensor:
        hidden = linear(x, ffn_weight_1, ffn_bias_1)
        return linear(gelu(hidden) if use_gelu else relu(hidden), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attention(first(src))
        return x + forward(second(x))
    x = first(src + attention(src))
    return second(x + forward(x))
