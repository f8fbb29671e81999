"""The ops' signatures, made by tools/ops_stub.py from the schemas: not edited by hand."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from .device import Device
from .dtypes import DType
from .layout import Layout
from .tensor import Tensor

ALIASES: dict[str, str]

Input: TypeAlias = Any  # a Tensor, an array, anything with DLPack or the buffer protocol, a number

def abs(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def acos(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def acosh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def adaptive_avg_pool1d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def adaptive_avg_pool2d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def adaptive_avg_pool3d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def adaptive_max_pool1d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def adaptive_max_pool2d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def adaptive_max_pool3d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def add(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def all(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def amax(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def amin(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def any(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def argmax(
    x: Input,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def argmin(
    x: Input,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def asin(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def asinh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def atan(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def atanh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def avg_pool1d(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def avg_pool2d(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def avg_pool3d(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def batch_norm(
    x: Input,
    running_mean: Input,
    running_var: Input,
    weight: Input | None = None,
    bias: Input | None = None,
    eps: float = 1e-05,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def cast(
    x: Input,
    dtype: str,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def ceil(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def celu(
    x: Input,
    alpha: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def channel_shuffle(
    x: Input,
    groups: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def chunk(
    x: Input,
    chunks: int,
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> tuple[Tensor, ...]: ...
def clip(
    x: Input,
    min: float | None = None,
    max: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def concat(
    tensors: Sequence[Input],
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def conv1d(
    x: Input,
    weight: Input,
    bias: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def conv2d(
    x: Input,
    weight: Input,
    bias: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def conv3d(
    x: Input,
    weight: Input,
    bias: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def conv_integer(
    x: Input,
    weight: Input,
    x_zero_point: Input | None = None,
    weight_zero_point: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def conv_transpose1d(
    x: Input,
    weight: Input,
    bias: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def conv_transpose2d(
    x: Input,
    weight: Input,
    bias: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def conv_transpose3d(
    x: Input,
    weight: Input,
    bias: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def cos(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def cosh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def cumsum(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def dequantize_linear(
    x: Input,
    scale: Input,
    zero_point: Input | None = None,
    axis: int = 1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def div(
    x: Input,
    y: Input,
    rounding_mode: Literal["trunc", "floor"] | None = None,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def dropout(
    x: Input,
    p: float = 0.5,
    training: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def einsum(
    equation: str,
    *tensors: Input,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def elu(
    x: Input,
    alpha: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def embedding(
    index: Input,
    weight: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def eq(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def erf(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def exp(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def expand(
    x: Input,
    shape: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def flatten(
    x: Input,
    start_dim: int = 0,
    end_dim: int = -1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def flip(
    x: Input,
    dims: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def floor(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def fmod(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def gather(
    x: Input,
    dim: int,
    index: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def ge(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def gelu(
    x: Input,
    approximate: Literal["none", "tanh"] = "none",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def global_avg_pool(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def global_max_pool(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def group_norm(
    x: Input,
    num_groups: int,
    weight: Input | None = None,
    bias: Input | None = None,
    eps: float = 1e-05,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def gru(
    x: Input,
    w: Input,
    r: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def gt(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def hardsigmoid(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def hardswish(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def identity(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def index_select(
    x: Input,
    dim: int,
    index: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def instance_norm(
    x: Input,
    weight: Input | None = None,
    bias: Input | None = None,
    eps: float = 1e-05,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def interleave(
    x: Input,
    y: Input,
    sections: int | Sequence[int] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> tuple[Tensor, ...]: ...
def interpolate(
    x: Input,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"] = "nearest",
    align_corners: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def isinf(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def isnan(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def l2_normalize(
    x: Input,
    normalized_shape: int | Sequence[int],
    eps: float = 1e-12,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def layer_norm(
    x: Input,
    normalized_shape: int | Sequence[int],
    weight: Input | None = None,
    bias: Input | None = None,
    eps: float = 1e-05,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def le(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def leaky_relu(
    x: Input,
    negative_slope: float = 0.01,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def linear(
    x: Input,
    weight: Input,
    bias: Input | None = None,
    activation: str | None = None,
    residual: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def local_response_norm(
    x: Input,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    k: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def log(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def log_softmax(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def logical_and(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def logical_not(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def logical_or(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def logical_xor(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def lstm(
    x: Input,
    w: Input,
    r: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    initial_c: Input | None = None,
    p: Input | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def lt(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def masked_fill(
    x: Input,
    mask: Input,
    value: float,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def matmul(
    a: Input,
    b: Input,
    bias: Input | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: str | None = None,
    residual: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def matmul_integer(
    a: Input,
    b: Input,
    a_zero_point: Input | None = None,
    b_zero_point: Input | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def max_pool1d(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def max_pool2d(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def max_pool3d(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def maximum(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def mean(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def minimum(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def mish(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def mul(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def ne(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def neg(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def one_hot(
    index: Input,
    num_classes: int,
    dtype: str | DType = "s64",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def pad(
    x: Input,
    pad: int | Sequence[int],
    mode: Literal["constant", "reflect", "replicate"] = "constant",
    value: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def permute(
    x: Input,
    dims: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def pointwise(
    tensors: Sequence[Input],
    expressions: str,
    reductions: str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    scalars: float | Sequence[float] = (),
    dtype: str | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Any: ...
def pow(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def prelu(
    x: Input,
    weight: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def prod(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def qlinear_conv(
    x: Input,
    weight: Input,
    x_scale: Input,
    weight_scale: Input,
    y_scale: Input,
    x_zero_point: Input | None = None,
    weight_zero_point: Input | None = None,
    y_zero_point: Input | None = None,
    bias: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: str | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def qlinear_matmul(
    a: Input,
    b: Input,
    a_scale: Input,
    b_scale: Input,
    y_scale: Input,
    a_zero_point: Input | None = None,
    b_zero_point: Input | None = None,
    y_zero_point: Input | None = None,
    dtype: str | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def quantize_linear(
    x: Input,
    scale: Input,
    zero_point: Input | None = None,
    axis: int = 1,
    dtype: str | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def reciprocal(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def reduce_l1(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def reduce_l2(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def reduce_sum_square(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def relu(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def relu6(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def remainder(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def reorder(
    x: Input,
    target: str,
    dtype: str | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def reshape(
    x: Input,
    shape: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def rms_norm(
    x: Input,
    normalized_shape: int | Sequence[int],
    weight: Input | None = None,
    eps: float = 1e-06,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def rnn(
    x: Input,
    w: Input,
    r: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def rotary_embedding(
    x: Input,
    cos: Input,
    sin: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def round(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def rsqrt(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def scaled_dot_product_attention(
    q: Input,
    k: Input,
    v: Input,
    attn_mask: Input | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def selu(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def sigmoid(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def sign(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def silu(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def sin(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def sinh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def slice(
    x: Input,
    starts: int | Sequence[int],
    ends: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    steps: int | Sequence[int] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def softmax(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def softplus(
    x: Input,
    beta: float = 1.0,
    threshold: float = 20.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def softsign(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def split(
    x: Input,
    split_size_or_sections: int | Sequence[int],
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> tuple[Tensor, ...]: ...
def sqrt(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def square(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def squeeze(
    x: Input,
    dim: int | Sequence[int] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def squeeze_excite(
    x: Input,
    weight1: Input,
    bias1: Input,
    weight2: Input,
    bias2: Input,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def stack(
    tensors: Sequence[Input],
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def std(
    x: Input,
    dim: int | Sequence[int] | None = None,
    correction: float = 1,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def sub(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def sum(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def tan(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def tanh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def threshold(
    x: Input,
    threshold: float,
    value: float,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def tile(
    x: Input,
    dims: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def topk(
    x: Input,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def transpose(
    x: Input,
    dim0: int,
    dim1: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def trunc(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def unbind(
    x: Input,
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> tuple[Tensor, ...]: ...
def unsqueeze(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def var(
    x: Input,
    dim: int | Sequence[int] | None = None,
    correction: float = 1,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
def where(
    condition: Input,
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...

absolute = abs
broadcast_to = expand
cat = concat
clamp = clip
concatenate = concat
divide = div
expand_dims = unsqueeze
greater = gt
greater_equal = ge
less = lt
less_equal = le
multiply = mul
negative = neg
not_equal = ne
subtract = sub
true_divide = div
