"""The ops' signatures, made by tools/ops_stub.py from the schemas: not edited by hand."""

from array import array
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, overload

from .device import Device
from .dtypes import DType
from .layout import Layout
from .tensor import Tensor
from .value import Value

ALIASES: dict[str, str]

class HasDLPack(Protocol):
    def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any: ...

class HasArray(Protocol):
    def __array__(self, *arguments: Any, **keywords: Any) -> Any: ...

# What becomes a tensor. A Value of a graph among the arguments makes the result a Value, which the overloads say.
Input: TypeAlias = (
    Tensor
    | HasDLPack
    | HasArray
    | float
    | list[Any]
    | tuple[Any, ...]
    | bytes
    | bytearray
    | memoryview
    | array[Any]
)

@overload
def abs(
    x: Value,
) -> Value: ...
@overload
def abs(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def acos(
    x: Value,
) -> Value: ...
@overload
def acos(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def acosh(
    x: Value,
) -> Value: ...
@overload
def acosh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adam_step(
    weight: Value,
    grad: Input | Value,
    lr: Input | Value,
    mean: Input | Value,
    square: Input | Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def adam_step(
    weight: Input | Value,
    grad: Value,
    lr: Input | Value,
    mean: Input | Value,
    square: Input | Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def adam_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Value,
    mean: Input | Value,
    square: Input | Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def adam_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Input | Value,
    mean: Value,
    square: Input | Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def adam_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Input | Value,
    mean: Input | Value,
    square: Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def adam_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Input | Value,
    mean: Input | Value,
    square: Input | Value,
    step: Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def adam_step(
    weight: Input,
    grad: Input,
    lr: Input,
    mean: Input,
    square: Input,
    step: Input,
    grad_scale: Input | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adamw_step(
    weight: Value,
    grad: Input | Value,
    lr: Input | Value,
    mean: Input | Value,
    square: Input | Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.01,
) -> Value: ...
@overload
def adamw_step(
    weight: Input | Value,
    grad: Value,
    lr: Input | Value,
    mean: Input | Value,
    square: Input | Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.01,
) -> Value: ...
@overload
def adamw_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Value,
    mean: Input | Value,
    square: Input | Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.01,
) -> Value: ...
@overload
def adamw_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Input | Value,
    mean: Value,
    square: Input | Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.01,
) -> Value: ...
@overload
def adamw_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Input | Value,
    mean: Input | Value,
    square: Value,
    step: Input | Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.01,
) -> Value: ...
@overload
def adamw_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Input | Value,
    mean: Input | Value,
    square: Input | Value,
    step: Value,
    grad_scale: Input | Value | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.01,
) -> Value: ...
@overload
def adamw_step(
    weight: Input,
    grad: Input,
    lr: Input,
    mean: Input,
    square: Input,
    step: Input,
    grad_scale: Input | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.01,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_avg_pool1d(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_avg_pool1d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_avg_pool1d_backward(
    grad: Value,
    input_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_avg_pool1d_backward(
    grad: Input,
    input_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_avg_pool2d(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_avg_pool2d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_avg_pool2d_backward(
    grad: Value,
    input_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_avg_pool2d_backward(
    grad: Input,
    input_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_avg_pool3d(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_avg_pool3d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_avg_pool3d_backward(
    grad: Value,
    input_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_avg_pool3d_backward(
    grad: Input,
    input_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_max_pool1d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool1d_backward(
    x: Value,
    grad: Input | Value,
) -> Value: ...
@overload
def adaptive_max_pool1d_backward(
    x: Input | Value,
    grad: Value,
) -> Value: ...
@overload
def adaptive_max_pool1d_backward(
    x: Input,
    grad: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool1d_indices(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_max_pool1d_indices(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_max_pool2d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool2d_backward(
    x: Value,
    grad: Input | Value,
) -> Value: ...
@overload
def adaptive_max_pool2d_backward(
    x: Input | Value,
    grad: Value,
) -> Value: ...
@overload
def adaptive_max_pool2d_backward(
    x: Input,
    grad: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool2d_indices(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_max_pool2d_indices(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_max_pool3d(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool3d_backward(
    x: Value,
    grad: Input | Value,
) -> Value: ...
@overload
def adaptive_max_pool3d_backward(
    x: Input | Value,
    grad: Value,
) -> Value: ...
@overload
def adaptive_max_pool3d_backward(
    x: Input,
    grad: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def adaptive_max_pool3d_indices(
    x: Value,
    output_size: int | Sequence[int],
) -> Value: ...
@overload
def adaptive_max_pool3d_indices(
    x: Input,
    output_size: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def add(
    x: Value,
    y: Input | Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def add(
    x: Input | Value,
    y: Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def add(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def all(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def all(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def all_finite(
    tensors: Sequence[Value],
) -> Value: ...
@overload
def all_finite(
    tensors: Sequence[Input],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def amax(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def amax(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def amin(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def amin(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def any(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def any(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def argmax(
    x: Value,
    dim: int | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def argmax(
    x: Input,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def argmin(
    x: Value,
    dim: int | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def argmin(
    x: Input,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def asin(
    x: Value,
) -> Value: ...
@overload
def asin(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def asinh(
    x: Value,
) -> Value: ...
@overload
def asinh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def atan(
    x: Value,
) -> Value: ...
@overload
def atan(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def atanh(
    x: Value,
) -> Value: ...
@overload
def atanh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def avg_pool1d(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def avg_pool1d_backward(
    grad: Value,
    input_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value: ...
@overload
def avg_pool1d_backward(
    grad: Input,
    input_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def avg_pool2d(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def avg_pool2d_backward(
    grad: Value,
    input_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value: ...
@overload
def avg_pool2d_backward(
    grad: Input,
    input_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def avg_pool3d(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def avg_pool3d_backward(
    grad: Value,
    input_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value: ...
@overload
def avg_pool3d_backward(
    grad: Input,
    input_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def batch_norm(
    x: Value,
    running_mean: Input | Value,
    running_var: Input | Value,
    weight: Input | Value | None = None,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def batch_norm(
    x: Input | Value,
    running_mean: Value,
    running_var: Input | Value,
    weight: Input | Value | None = None,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def batch_norm(
    x: Input | Value,
    running_mean: Input | Value,
    running_var: Value,
    weight: Input | Value | None = None,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def batch_norm(
    x: Input,
    running_mean: Input,
    running_var: Input,
    weight: Input | None = None,
    bias: Input | None = None,
    eps: float = 1e-05,
    activation: str | None = None,
    residual: Input | None = None,
    gate: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def batch_norm_backward(
    x: Value,
    grad: Input | Value,
    mean: Input | Value,
    variance: Input | Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
    inverted: bool = False,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
) -> Value: ...
@overload
def batch_norm_backward(
    x: Input | Value,
    grad: Value,
    mean: Input | Value,
    variance: Input | Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
    inverted: bool = False,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
) -> Value: ...
@overload
def batch_norm_backward(
    x: Input | Value,
    grad: Input | Value,
    mean: Value,
    variance: Input | Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
    inverted: bool = False,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
) -> Value: ...
@overload
def batch_norm_backward(
    x: Input | Value,
    grad: Input | Value,
    mean: Input | Value,
    variance: Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
    inverted: bool = False,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
) -> Value: ...
@overload
def batch_norm_backward(
    x: Input | Value,
    grad: Input | Value,
    mean: Input | Value,
    variance: Input | Value,
    weight: Value,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
    inverted: bool = False,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
) -> Value: ...
@overload
def batch_norm_backward(
    x: Input,
    grad: Input,
    mean: Input,
    variance: Input,
    weight: Input,
    bias: Input | None = None,
    eps: float = 1e-05,
    inverted: bool = False,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def batch_norm_training(
    x: Value,
    weight: Input | Value,
    bias: Input | Value,
    eps: float = 1e-05,
    low: float | None = None,
    high: float | None = None,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def batch_norm_training(
    x: Input | Value,
    weight: Value,
    bias: Input | Value,
    eps: float = 1e-05,
    low: float | None = None,
    high: float | None = None,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def batch_norm_training(
    x: Input | Value,
    weight: Input | Value,
    bias: Value,
    eps: float = 1e-05,
    low: float | None = None,
    high: float | None = None,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def batch_norm_training(
    x: Input,
    weight: Input,
    bias: Input,
    eps: float = 1e-05,
    low: float | None = None,
    high: float | None = None,
    activation: str | None = None,
    residual: Input | None = None,
    gate: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def binary_cross_entropy(
    x: Value,
    target: Input | Value,
    weight: Input | Value | None = None,
    reduction: str = "mean",
) -> Value: ...
@overload
def binary_cross_entropy(
    x: Input | Value,
    target: Value,
    weight: Input | Value | None = None,
    reduction: str = "mean",
) -> Value: ...
@overload
def binary_cross_entropy(
    x: Input,
    target: Input,
    weight: Input | None = None,
    reduction: str = "mean",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def binary_cross_entropy_with_logits(
    x: Value,
    target: Input | Value,
    weight: Input | Value | None = None,
    reduction: str = "mean",
    pos_weight: Input | Value | None = None,
) -> Value: ...
@overload
def binary_cross_entropy_with_logits(
    x: Input | Value,
    target: Value,
    weight: Input | Value | None = None,
    reduction: str = "mean",
    pos_weight: Input | Value | None = None,
) -> Value: ...
@overload
def binary_cross_entropy_with_logits(
    x: Input,
    target: Input,
    weight: Input | None = None,
    reduction: str = "mean",
    pos_weight: Input | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def bitwise_and(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def bitwise_and(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def bitwise_and(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bitwise_left_shift(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def bitwise_left_shift(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def bitwise_left_shift(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bitwise_not(
    x: Value,
) -> Value: ...
@overload
def bitwise_not(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bitwise_or(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def bitwise_or(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def bitwise_or(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bitwise_right_shift(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def bitwise_right_shift(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def bitwise_right_shift(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bitwise_xor(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def bitwise_xor(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def bitwise_xor(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def cast(
    x: Value,
    dtype: str,
    limited: bool = True,
) -> Value: ...
@overload
def cast(
    x: Input,
    dtype: str,
    limited: bool = True,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ceil(
    x: Value,
) -> Value: ...
@overload
def ceil(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def celu(
    x: Value,
    alpha: float = 1.0,
) -> Value: ...
@overload
def celu(
    x: Input,
    alpha: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def channel_shuffle(
    x: Value,
    groups: int,
) -> Value: ...
@overload
def channel_shuffle(
    x: Input,
    groups: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def chunk(
    x: Value,
    chunks: int,
    dim: int = 0,
) -> tuple[Value, ...]: ...
@overload
def chunk(
    x: Input,
    chunks: int,
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def clip(
    x: Value,
    min: float | None = None,
    max: float | None = None,
) -> Value: ...
@overload
def clip(
    x: Input,
    min: float | None = None,
    max: float | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def concat(
    tensors: Sequence[Value],
    dim: int = 0,
) -> Value: ...
@overload
def concat(
    tensors: Sequence[Input],
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv1d(
    x: Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def conv1d(
    x: Input | Value,
    weight: Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
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
    gate: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv1d_backward_weights(
    x: Value,
    grad: Input | Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value: ...
@overload
def conv1d_backward_weights(
    x: Input | Value,
    grad: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value: ...
@overload
def conv1d_backward_weights(
    x: Input,
    grad: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv2d(
    x: Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def conv2d(
    x: Input | Value,
    weight: Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
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
    gate: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv2d_backward_weights(
    x: Value,
    grad: Input | Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value: ...
@overload
def conv2d_backward_weights(
    x: Input | Value,
    grad: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value: ...
@overload
def conv2d_backward_weights(
    x: Input,
    grad: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv3d(
    x: Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def conv3d(
    x: Input | Value,
    weight: Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
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
    gate: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv3d_backward_weights(
    x: Value,
    grad: Input | Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value: ...
@overload
def conv3d_backward_weights(
    x: Input | Value,
    grad: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value: ...
@overload
def conv3d_backward_weights(
    x: Input,
    grad: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv_integer(
    x: Value,
    weight: Input | Value,
    x_zero_point: Input | Value | None = None,
    weight_zero_point: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value: ...
@overload
def conv_integer(
    x: Input | Value,
    weight: Value,
    x_zero_point: Input | Value | None = None,
    weight_zero_point: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv_transpose1d(
    x: Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def conv_transpose1d(
    x: Input | Value,
    weight: Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
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
    residual: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv_transpose2d(
    x: Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def conv_transpose2d(
    x: Input | Value,
    weight: Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
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
    residual: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv_transpose3d(
    x: Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def conv_transpose3d(
    x: Input | Value,
    weight: Value,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    activation: str | None = None,
    residual: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
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
    residual: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def cos(
    x: Value,
) -> Value: ...
@overload
def cos(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def cosh(
    x: Value,
) -> Value: ...
@overload
def cosh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def cross_entropy(
    x: Value,
    target: Input | Value,
    weight: Input | Value | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
) -> Value: ...
@overload
def cross_entropy(
    x: Input | Value,
    target: Value,
    weight: Input | Value | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
) -> Value: ...
@overload
def cross_entropy(
    x: Input,
    target: Input,
    weight: Input | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def cross_entropy_backward(
    x: Value,
    target: Input | Value,
    grad: Input | Value,
    weight: Input | Value | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
) -> Value: ...
@overload
def cross_entropy_backward(
    x: Input | Value,
    target: Value,
    grad: Input | Value,
    weight: Input | Value | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
) -> Value: ...
@overload
def cross_entropy_backward(
    x: Input | Value,
    target: Input | Value,
    grad: Value,
    weight: Input | Value | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
) -> Value: ...
@overload
def cross_entropy_backward(
    x: Input,
    target: Input,
    grad: Input,
    weight: Input | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def cumprod(
    x: Value,
    dim: int,
) -> Value: ...
@overload
def cumprod(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def cumsum(
    x: Value,
    dim: int,
) -> Value: ...
@overload
def cumsum(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def dequantize_linear(
    x: Value,
    scale: Input | Value,
    zero_point: Input | Value | None = None,
    axis: int = 1,
) -> Value: ...
@overload
def dequantize_linear(
    x: Input | Value,
    scale: Value,
    zero_point: Input | Value | None = None,
    axis: int = 1,
) -> Value: ...
@overload
def dequantize_linear(
    x: Input,
    scale: Input,
    zero_point: Input | None = None,
    axis: int = 1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def div(
    x: Value,
    y: Input | Value,
    rounding_mode: Literal["trunc", "floor"] | None = None,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def div(
    x: Input | Value,
    y: Value,
    rounding_mode: Literal["trunc", "floor"] | None = None,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def div(
    x: Input,
    y: Input,
    rounding_mode: Literal["trunc", "floor"] | None = None,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def dropout(
    x: Value,
    p: float = 0.5,
    training: bool = False,
) -> Value: ...
@overload
def dropout(
    x: Input,
    p: float = 0.5,
    training: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def einsum(
    equation: str,
    *tensors: Value,
) -> Value: ...
@overload
def einsum(
    equation: str,
    *tensors: Input,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def elu(
    x: Value,
    alpha: float = 1.0,
) -> Value: ...
@overload
def elu(
    x: Input,
    alpha: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def embedding(
    index: Value,
    weight: Input | Value,
) -> Value: ...
@overload
def embedding(
    index: Input | Value,
    weight: Value,
) -> Value: ...
@overload
def embedding(
    index: Input,
    weight: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def embedding_bag(
    index: Value,
    weight: Input | Value,
    ends: Input | Value,
    scales: Input | Value | None = None,
    mode: Literal["sum", "mean", "max"] = "mean",
    padding_idx: int = -1,
) -> Value: ...
@overload
def embedding_bag(
    index: Input | Value,
    weight: Value,
    ends: Input | Value,
    scales: Input | Value | None = None,
    mode: Literal["sum", "mean", "max"] = "mean",
    padding_idx: int = -1,
) -> Value: ...
@overload
def embedding_bag(
    index: Input | Value,
    weight: Input | Value,
    ends: Value,
    scales: Input | Value | None = None,
    mode: Literal["sum", "mean", "max"] = "mean",
    padding_idx: int = -1,
) -> Value: ...
@overload
def embedding_bag(
    index: Input,
    weight: Input,
    ends: Input,
    scales: Input | None = None,
    mode: Literal["sum", "mean", "max"] = "mean",
    padding_idx: int = -1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def embedding_bag_rows(
    index: Value,
    weight: Input | Value,
    ends: Input | Value,
    padding_idx: int = -1,
) -> Value: ...
@overload
def embedding_bag_rows(
    index: Input | Value,
    weight: Value,
    ends: Input | Value,
    padding_idx: int = -1,
) -> Value: ...
@overload
def embedding_bag_rows(
    index: Input | Value,
    weight: Input | Value,
    ends: Value,
    padding_idx: int = -1,
) -> Value: ...
@overload
def embedding_bag_rows(
    index: Input,
    weight: Input,
    ends: Input,
    padding_idx: int = -1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def eq(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def eq(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def eq(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def erf(
    x: Value,
) -> Value: ...
@overload
def erf(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def exp(
    x: Value,
) -> Value: ...
@overload
def exp(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def expand(
    x: Value,
    shape: int | Sequence[int],
) -> Value: ...
@overload
def expand(
    x: Input,
    shape: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fft(
    x: Value,
    inverse: bool = False,
    scale: float = 1.0,
) -> Value: ...
@overload
def fft(
    x: Input,
    inverse: bool = False,
    scale: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def flatten(
    x: Value,
    start_dim: int = 0,
    end_dim: int = -1,
) -> Value: ...
@overload
def flatten(
    x: Input,
    start_dim: int = 0,
    end_dim: int = -1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def flip(
    x: Value,
    dims: int | Sequence[int],
) -> Value: ...
@overload
def flip(
    x: Input,
    dims: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def floor(
    x: Value,
) -> Value: ...
@overload
def floor(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fmod(
    x: Value,
    y: Input | Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def fmod(
    x: Input | Value,
    y: Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def fmod(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def fold(
    x: Value,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Value: ...
@overload
def fold(
    x: Input,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gather(
    x: Value,
    dim: int,
    index: Input | Value,
) -> Value: ...
@overload
def gather(
    x: Input | Value,
    dim: int,
    index: Value,
) -> Value: ...
@overload
def gather(
    x: Input,
    dim: int,
    index: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gather_backward(
    grad: Value,
    index: Input | Value,
    dim: int,
    size: int,
) -> Value: ...
@overload
def gather_backward(
    grad: Input | Value,
    index: Value,
    dim: int,
    size: int,
) -> Value: ...
@overload
def gather_backward(
    grad: Input,
    index: Input,
    dim: int,
    size: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ge(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def ge(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def ge(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gelu(
    x: Value,
    approximate: Literal["none", "tanh"] = "none",
) -> Value: ...
@overload
def gelu(
    x: Input,
    approximate: Literal["none", "tanh"] = "none",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def global_avg_pool(
    x: Value,
) -> Value: ...
@overload
def global_avg_pool(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def global_max_pool(
    x: Value,
) -> Value: ...
@overload
def global_max_pool(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def grid_sample(
    x: Value,
    grid: Input | Value,
    mode: Literal["linear", "bilinear", "nearest", "cubic", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Value: ...
@overload
def grid_sample(
    x: Input | Value,
    grid: Value,
    mode: Literal["linear", "bilinear", "nearest", "cubic", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Value: ...
@overload
def grid_sample(
    x: Input,
    grid: Input,
    mode: Literal["linear", "bilinear", "nearest", "cubic", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def grid_sample_backward(
    grad: Value,
    x: Input | Value,
    grid: Input | Value,
    mode: Literal["linear", "bilinear", "nearest", "cubic", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Value: ...
@overload
def grid_sample_backward(
    grad: Input | Value,
    x: Value,
    grid: Input | Value,
    mode: Literal["linear", "bilinear", "nearest", "cubic", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Value: ...
@overload
def grid_sample_backward(
    grad: Input | Value,
    x: Input | Value,
    grid: Value,
    mode: Literal["linear", "bilinear", "nearest", "cubic", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Value: ...
@overload
def grid_sample_backward(
    grad: Input,
    x: Input,
    grid: Input,
    mode: Literal["linear", "bilinear", "nearest", "cubic", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def group_norm(
    x: Value,
    num_groups: int,
    weight: Input | Value | None = None,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
) -> Value: ...
@overload
def group_norm(
    x: Input,
    num_groups: int,
    weight: Input | None = None,
    bias: Input | None = None,
    eps: float = 1e-05,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def group_norm_backward(
    x: Value,
    grad: Input | Value,
    num_groups: int,
    weight: Input | Value | None = None,
    eps: float = 1e-05,
) -> Value: ...
@overload
def group_norm_backward(
    x: Input | Value,
    grad: Value,
    num_groups: int,
    weight: Input | Value | None = None,
    eps: float = 1e-05,
) -> Value: ...
@overload
def group_norm_backward(
    x: Input,
    grad: Input,
    num_groups: int,
    weight: Input | None = None,
    eps: float = 1e-05,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def grouped_mm(
    x: Value,
    weight: Input | Value,
    offsets: Input | Value,
    transpose_weight: bool = False,
) -> Value: ...
@overload
def grouped_mm(
    x: Input | Value,
    weight: Value,
    offsets: Input | Value,
    transpose_weight: bool = False,
) -> Value: ...
@overload
def grouped_mm(
    x: Input | Value,
    weight: Input | Value,
    offsets: Value,
    transpose_weight: bool = False,
) -> Value: ...
@overload
def grouped_mm(
    x: Input,
    weight: Input,
    offsets: Input,
    transpose_weight: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def grouped_mm_backward_weights(
    x: Value,
    grad: Input | Value,
    offsets: Input | Value,
) -> Value: ...
@overload
def grouped_mm_backward_weights(
    x: Input | Value,
    grad: Value,
    offsets: Input | Value,
) -> Value: ...
@overload
def grouped_mm_backward_weights(
    x: Input | Value,
    grad: Input | Value,
    offsets: Value,
) -> Value: ...
@overload
def grouped_mm_backward_weights(
    x: Input,
    grad: Input,
    offsets: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gru(
    x: Value,
    w: Input | Value,
    r: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> Value: ...
@overload
def gru(
    x: Input | Value,
    w: Value,
    r: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> Value: ...
@overload
def gru(
    x: Input | Value,
    w: Input | Value,
    r: Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gru_backward(
    x: Value,
    w: Input | Value,
    r: Input | Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> Value: ...
@overload
def gru_backward(
    x: Input | Value,
    w: Value,
    r: Input | Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> Value: ...
@overload
def gru_backward(
    x: Input | Value,
    w: Input | Value,
    r: Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> Value: ...
@overload
def gru_backward(
    x: Input | Value,
    w: Input | Value,
    r: Input | Value,
    y: Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> Value: ...
@overload
def gru_backward(
    x: Input | Value,
    w: Input | Value,
    r: Input | Value,
    y: Input | Value,
    grad: Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
) -> Value: ...
@overload
def gru_backward(
    x: Input,
    w: Input,
    r: Input,
    y: Input,
    grad: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    grad_h: Input | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    linear_before_reset: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gt(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def gt(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def gt(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hardsigmoid(
    x: Value,
) -> Value: ...
@overload
def hardsigmoid(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hardswish(
    x: Value,
) -> Value: ...
@overload
def hardswish(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def huber_loss(
    x: Value,
    target: Input | Value,
    reduction: str = "mean",
    delta: float = 1.0,
) -> Value: ...
@overload
def huber_loss(
    x: Input | Value,
    target: Value,
    reduction: str = "mean",
    delta: float = 1.0,
) -> Value: ...
@overload
def huber_loss(
    x: Input,
    target: Input,
    reduction: str = "mean",
    delta: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def identity(
    x: Value,
) -> Value: ...
@overload
def identity(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def index_select(
    x: Value,
    dim: int,
    index: Input | Value,
) -> Value: ...
@overload
def index_select(
    x: Input | Value,
    dim: int,
    index: Value,
) -> Value: ...
@overload
def index_select(
    x: Input,
    dim: int,
    index: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def index_select_backward(
    grad: Value,
    index: Input | Value,
    dim: int,
    size: int,
) -> Value: ...
@overload
def index_select_backward(
    grad: Input | Value,
    index: Value,
    dim: int,
    size: int,
) -> Value: ...
@overload
def index_select_backward(
    grad: Input,
    index: Input,
    dim: int,
    size: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def instance_norm(
    x: Value,
    weight: Input | Value | None = None,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
) -> Value: ...
@overload
def instance_norm(
    x: Input,
    weight: Input | None = None,
    bias: Input | None = None,
    eps: float = 1e-05,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def interleave(
    x: Value,
    y: Input | Value,
    sections: int | Sequence[int] | None = None,
    groups: int = 2,
) -> tuple[Value, ...]: ...
@overload
def interleave(
    x: Input | Value,
    y: Value,
    sections: int | Sequence[int] | None = None,
    groups: int = 2,
) -> tuple[Value, ...]: ...
@overload
def interleave(
    x: Input,
    y: Input,
    sections: int | Sequence[int] | None = None,
    groups: int = 2,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def interpolate(
    x: Value,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"] = "nearest",
    align_corners: bool = False,
) -> Value: ...
@overload
def interpolate(
    x: Input,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"] = "nearest",
    align_corners: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def interpolate_backward(
    grad: Value,
    input_size: int | Sequence[int],
    scale_factor: float | Sequence[float] | None = None,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"] = "nearest",
    align_corners: bool = False,
) -> Value: ...
@overload
def interpolate_backward(
    grad: Input,
    input_size: int | Sequence[int],
    scale_factor: float | Sequence[float] | None = None,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"] = "nearest",
    align_corners: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def irfft(
    x: Value,
    size: int,
    scale: float = 1.0,
) -> Value: ...
@overload
def irfft(
    x: Input,
    size: int,
    scale: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isinf(
    x: Value,
) -> Value: ...
@overload
def isinf(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isnan(
    x: Value,
) -> Value: ...
@overload
def isnan(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def l1_loss(
    x: Value,
    target: Input | Value,
    reduction: str = "mean",
) -> Value: ...
@overload
def l1_loss(
    x: Input | Value,
    target: Value,
    reduction: str = "mean",
) -> Value: ...
@overload
def l1_loss(
    x: Input,
    target: Input,
    reduction: str = "mean",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def l2_normalize(
    x: Value,
    normalized_shape: int | Sequence[int],
    eps: float = 1e-12,
) -> Value: ...
@overload
def l2_normalize(
    x: Input,
    normalized_shape: int | Sequence[int],
    eps: float = 1e-12,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def layer_norm(
    x: Value,
    normalized_shape: int | Sequence[int],
    weight: Input | Value | None = None,
    bias: Input | Value | None = None,
    eps: float = 1e-05,
) -> Value: ...
@overload
def layer_norm(
    x: Input,
    normalized_shape: int | Sequence[int],
    weight: Input | None = None,
    bias: Input | None = None,
    eps: float = 1e-05,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def layer_norm_backward(
    x: Value,
    grad: Input | Value,
    normalized_shape: int | Sequence[int],
    weight: Input | Value | None = None,
    eps: float = 1e-05,
) -> Value: ...
@overload
def layer_norm_backward(
    x: Input | Value,
    grad: Value,
    normalized_shape: int | Sequence[int],
    weight: Input | Value | None = None,
    eps: float = 1e-05,
) -> Value: ...
@overload
def layer_norm_backward(
    x: Input,
    grad: Input,
    normalized_shape: int | Sequence[int],
    weight: Input | None = None,
    eps: float = 1e-05,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def le(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def le(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def le(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def leaky_relu(
    x: Value,
    negative_slope: float = 0.01,
) -> Value: ...
@overload
def leaky_relu(
    x: Input,
    negative_slope: float = 0.01,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linear(
    x: Value,
    weight: Input | Value,
    bias: Input | Value | None = None,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def linear(
    x: Input | Value,
    weight: Value,
    bias: Input | Value | None = None,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def linear(
    x: Input,
    weight: Input,
    bias: Input | None = None,
    activation: str | None = None,
    residual: Input | None = None,
    gate: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linear_nbits(
    x: Value,
    weight: Input | Value,
    scale: Input | Value,
    zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    bits: int = 4,
    block_size: int = 32,
) -> Value: ...
@overload
def linear_nbits(
    x: Input | Value,
    weight: Value,
    scale: Input | Value,
    zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    bits: int = 4,
    block_size: int = 32,
) -> Value: ...
@overload
def linear_nbits(
    x: Input | Value,
    weight: Input | Value,
    scale: Value,
    zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    bits: int = 4,
    block_size: int = 32,
) -> Value: ...
@overload
def linear_nbits(
    x: Input,
    weight: Input,
    scale: Input,
    zero_point: Input | None = None,
    bias: Input | None = None,
    bits: int = 4,
    block_size: int = 32,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def local_response_norm(
    x: Value,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    k: float = 1.0,
) -> Value: ...
@overload
def local_response_norm(
    x: Input,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    k: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def log(
    x: Value,
) -> Value: ...
@overload
def log(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def log_softmax(
    x: Value,
    dim: int,
) -> Value: ...
@overload
def log_softmax(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def logcumsumexp(
    x: Value,
    dim: int,
) -> Value: ...
@overload
def logcumsumexp(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def logical_and(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def logical_and(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def logical_and(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def logical_not(
    x: Value,
) -> Value: ...
@overload
def logical_not(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def logical_or(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def logical_or(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def logical_or(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def logical_xor(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def logical_xor(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def logical_xor(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def lstm(
    x: Value,
    w: Input | Value,
    r: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    initial_c: Input | Value | None = None,
    p: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
) -> Value: ...
@overload
def lstm(
    x: Input | Value,
    w: Value,
    r: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    initial_c: Input | Value | None = None,
    p: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
) -> Value: ...
@overload
def lstm(
    x: Input | Value,
    w: Input | Value,
    r: Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    initial_c: Input | Value | None = None,
    p: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def lstm_backward(
    x: Value,
    w: Input | Value,
    r: Input | Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    initial_c: Input | Value | None = None,
    p: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    grad_c: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
) -> Value: ...
@overload
def lstm_backward(
    x: Input | Value,
    w: Value,
    r: Input | Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    initial_c: Input | Value | None = None,
    p: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    grad_c: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
) -> Value: ...
@overload
def lstm_backward(
    x: Input | Value,
    w: Input | Value,
    r: Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    initial_c: Input | Value | None = None,
    p: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    grad_c: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
) -> Value: ...
@overload
def lstm_backward(
    x: Input | Value,
    w: Input | Value,
    r: Input | Value,
    y: Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    initial_c: Input | Value | None = None,
    p: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    grad_c: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
) -> Value: ...
@overload
def lstm_backward(
    x: Input | Value,
    w: Input | Value,
    r: Input | Value,
    y: Input | Value,
    grad: Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    initial_c: Input | Value | None = None,
    p: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    grad_c: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
) -> Value: ...
@overload
def lstm_backward(
    x: Input,
    w: Input,
    r: Input,
    y: Input,
    grad: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    initial_c: Input | None = None,
    p: Input | None = None,
    grad_h: Input | None = None,
    grad_c: Input | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def lt(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def lt(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def lt(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def masked_fill(
    x: Value,
    mask: Input | Value,
    value: float,
) -> Value: ...
@overload
def masked_fill(
    x: Input | Value,
    mask: Value,
    value: float,
) -> Value: ...
@overload
def masked_fill(
    x: Input,
    mask: Input,
    value: float,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def matmul(
    a: Value,
    b: Input | Value,
    bias: Input | Value | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def matmul(
    a: Input | Value,
    b: Value,
    bias: Input | Value | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: str | None = None,
    residual: Input | Value | None = None,
    gate: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def matmul(
    a: Input,
    b: Input,
    bias: Input | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: str | None = None,
    residual: Input | None = None,
    gate: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matmul_integer(
    a: Value,
    b: Input | Value,
    a_zero_point: Input | Value | None = None,
    b_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def matmul_integer(
    a: Input | Value,
    b: Value,
    a_zero_point: Input | Value | None = None,
    b_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def matmul_integer(
    a: Input,
    b: Input,
    a_zero_point: Input | None = None,
    b_zero_point: Input | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool1d(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool1d_backward(
    x: Value,
    grad: Input | Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool1d_backward(
    x: Input | Value,
    grad: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool1d_backward(
    x: Input,
    grad: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool1d_indices(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool1d_indices(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool2d(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool2d_backward(
    x: Value,
    grad: Input | Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool2d_backward(
    x: Input | Value,
    grad: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool2d_backward(
    x: Input,
    grad: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool2d_indices(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool2d_indices(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool3d(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool3d_backward(
    x: Value,
    grad: Input | Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool3d_backward(
    x: Input | Value,
    grad: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool3d_backward(
    x: Input,
    grad: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max_pool3d_indices(
    x: Value,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Value: ...
@overload
def max_pool3d_indices(
    x: Input,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def maximum(
    x: Value,
    y: Input | Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def maximum(
    x: Input | Value,
    y: Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def maximum(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def mean(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def mean(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def minimum(
    x: Value,
    y: Input | Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def minimum(
    x: Input | Value,
    y: Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def minimum(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def mish(
    x: Value,
) -> Value: ...
@overload
def mish(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def mse_loss(
    x: Value,
    target: Input | Value,
    reduction: str = "mean",
) -> Value: ...
@overload
def mse_loss(
    x: Input | Value,
    target: Value,
    reduction: str = "mean",
) -> Value: ...
@overload
def mse_loss(
    x: Input,
    target: Input,
    reduction: str = "mean",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def mul(
    x: Value,
    y: Input | Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def mul(
    x: Input | Value,
    y: Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def mul(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ne(
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def ne(
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def ne(
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def neg(
    x: Value,
) -> Value: ...
@overload
def neg(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nll_loss(
    x: Value,
    target: Input | Value,
    weight: Input | Value | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Value: ...
@overload
def nll_loss(
    x: Input | Value,
    target: Value,
    weight: Input | Value | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Value: ...
@overload
def nll_loss(
    x: Input,
    target: Input,
    weight: Input | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def non_max_suppression(
    boxes: Value,
    scores: Input | Value,
    max_boxes: int,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    boxes_are: Literal["corners", "centres"] = "corners",
) -> Value: ...
@overload
def non_max_suppression(
    boxes: Input | Value,
    scores: Value,
    max_boxes: int,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    boxes_are: Literal["corners", "centres"] = "corners",
) -> Value: ...
@overload
def non_max_suppression(
    boxes: Input,
    scores: Input,
    max_boxes: int,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    boxes_are: Literal["corners", "centres"] = "corners",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def one_hot(
    index: Value,
    num_classes: int,
    dtype: str | DType = "s64",
) -> Value: ...
@overload
def one_hot(
    index: Input,
    num_classes: int,
    dtype: str | DType = "s64",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def pad(
    x: Value,
    pad: int | Sequence[int],
    mode: Literal["constant", "reflect", "replicate"] = "constant",
    value: float = 0.0,
) -> Value: ...
@overload
def pad(
    x: Input,
    pad: int | Sequence[int],
    mode: Literal["constant", "reflect", "replicate"] = "constant",
    value: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def permute(
    x: Value,
    dims: int | Sequence[int],
) -> Value: ...
@overload
def permute(
    x: Input,
    dims: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def pointwise(
    tensors: Sequence[Input],
    expressions: str,
    reductions: str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    scalars: float | Sequence[float] = (),
    dtype: str | None = None,
    arithmetic: Literal["f32"] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Any = None,
) -> Any: ...
@overload
def pow(
    x: Value,
    y: Input | Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def pow(
    x: Input | Value,
    y: Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def pow(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def prelu(
    x: Value,
    weight: Input | Value,
) -> Value: ...
@overload
def prelu(
    x: Input | Value,
    weight: Value,
) -> Value: ...
@overload
def prelu(
    x: Input,
    weight: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def prod(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def prod(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def qlinear_conv(
    x: Value,
    weight: Input | Value,
    x_scale: Input | Value,
    weight_scale: Input | Value,
    y_scale: Input | Value | None = None,
    x_zero_point: Input | Value | None = None,
    weight_zero_point: Input | Value | None = None,
    y_zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | Value | None = None,
    addend_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def qlinear_conv(
    x: Input | Value,
    weight: Value,
    x_scale: Input | Value,
    weight_scale: Input | Value,
    y_scale: Input | Value | None = None,
    x_zero_point: Input | Value | None = None,
    weight_zero_point: Input | Value | None = None,
    y_zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | Value | None = None,
    addend_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def qlinear_conv(
    x: Input | Value,
    weight: Input | Value,
    x_scale: Value,
    weight_scale: Input | Value,
    y_scale: Input | Value | None = None,
    x_zero_point: Input | Value | None = None,
    weight_zero_point: Input | Value | None = None,
    y_zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | Value | None = None,
    addend_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def qlinear_conv(
    x: Input | Value,
    weight: Input | Value,
    x_scale: Input | Value,
    weight_scale: Value,
    y_scale: Input | Value | None = None,
    x_zero_point: Input | Value | None = None,
    weight_zero_point: Input | Value | None = None,
    y_zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | Value | None = None,
    addend_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def qlinear_conv(
    x: Input,
    weight: Input,
    x_scale: Input,
    weight_scale: Input,
    y_scale: Input | None = None,
    x_zero_point: Input | None = None,
    weight_zero_point: Input | None = None,
    y_zero_point: Input | None = None,
    bias: Input | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same", "same_upper", "same_lower"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | None = None,
    addend_zero_point: Input | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def qlinear_matmul(
    a: Value,
    b: Input | Value,
    a_scale: Input | Value,
    b_scale: Input | Value,
    y_scale: Input | Value | None = None,
    a_zero_point: Input | Value | None = None,
    b_zero_point: Input | Value | None = None,
    y_zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | Value | None = None,
    addend_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def qlinear_matmul(
    a: Input | Value,
    b: Value,
    a_scale: Input | Value,
    b_scale: Input | Value,
    y_scale: Input | Value | None = None,
    a_zero_point: Input | Value | None = None,
    b_zero_point: Input | Value | None = None,
    y_zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | Value | None = None,
    addend_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def qlinear_matmul(
    a: Input | Value,
    b: Input | Value,
    a_scale: Value,
    b_scale: Input | Value,
    y_scale: Input | Value | None = None,
    a_zero_point: Input | Value | None = None,
    b_zero_point: Input | Value | None = None,
    y_zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | Value | None = None,
    addend_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def qlinear_matmul(
    a: Input | Value,
    b: Input | Value,
    a_scale: Input | Value,
    b_scale: Value,
    y_scale: Input | Value | None = None,
    a_zero_point: Input | Value | None = None,
    b_zero_point: Input | Value | None = None,
    y_zero_point: Input | Value | None = None,
    bias: Input | Value | None = None,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | Value | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | Value | None = None,
    addend_zero_point: Input | Value | None = None,
) -> Value: ...
@overload
def qlinear_matmul(
    a: Input,
    b: Input,
    a_scale: Input,
    b_scale: Input,
    y_scale: Input | None = None,
    a_zero_point: Input | None = None,
    b_zero_point: Input | None = None,
    y_zero_point: Input | None = None,
    bias: Input | None = None,
    dtype: str | None = None,
    activation: str | None = None,
    addend: Input | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    addend_scale: Input | None = None,
    addend_zero_point: Input | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def quantize_linear(
    x: Value,
    scale: Input | Value,
    zero_point: Input | Value | None = None,
    axis: int = 1,
    dtype: str | None = None,
) -> Value: ...
@overload
def quantize_linear(
    x: Input | Value,
    scale: Value,
    zero_point: Input | Value | None = None,
    axis: int = 1,
    dtype: str | None = None,
) -> Value: ...
@overload
def quantize_linear(
    x: Input,
    scale: Input,
    zero_point: Input | None = None,
    axis: int = 1,
    dtype: str | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def random_bernoulli(
    seed: Value,
    shape: int | Sequence[int],
    p: float = 0.5,
    dtype: str = "f32",
) -> Value: ...
@overload
def random_bernoulli(
    seed: Input,
    shape: int | Sequence[int],
    p: float = 0.5,
    dtype: str = "f32",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def random_dropout(
    x: Value,
    seed: Input | Value,
    p: float = 0.5,
) -> Value: ...
@overload
def random_dropout(
    x: Input | Value,
    seed: Value,
    p: float = 0.5,
) -> Value: ...
@overload
def random_dropout(
    x: Input,
    seed: Input,
    p: float = 0.5,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def random_exponential(
    seed: Value,
    shape: int | Sequence[int],
    rate: float = 1.0,
    dtype: str = "f32",
) -> Value: ...
@overload
def random_exponential(
    seed: Input,
    shape: int | Sequence[int],
    rate: float = 1.0,
    dtype: str = "f32",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def random_integers(
    seed: Value,
    shape: int | Sequence[int],
    high: int,
    low: int = 0,
    dtype: str = "s64",
) -> Value: ...
@overload
def random_integers(
    seed: Input,
    shape: int | Sequence[int],
    high: int,
    low: int = 0,
    dtype: str = "s64",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def random_normal(
    seed: Value,
    shape: int | Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: str = "f32",
) -> Value: ...
@overload
def random_normal(
    seed: Input,
    shape: int | Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: str = "f32",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def random_permutation(
    seed: Value,
    n: int,
) -> Value: ...
@overload
def random_permutation(
    seed: Input,
    n: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def random_uniform(
    seed: Value,
    shape: int | Sequence[int],
    low: float = 0.0,
    high: float = 1.0,
    dtype: str = "f32",
) -> Value: ...
@overload
def random_uniform(
    seed: Input,
    shape: int | Sequence[int],
    low: float = 0.0,
    high: float = 1.0,
    dtype: str = "f32",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def reciprocal(
    x: Value,
) -> Value: ...
@overload
def reciprocal(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def reduce_l1(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def reduce_l1(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def reduce_l2(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def reduce_l2(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def reduce_sum_square(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def reduce_sum_square(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def relu(
    x: Value,
) -> Value: ...
@overload
def relu(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def relu6(
    x: Value,
) -> Value: ...
@overload
def relu6(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def remainder(
    x: Value,
    y: Input | Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def remainder(
    x: Input | Value,
    y: Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def remainder(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def reorder(
    x: Value,
    target: str,
    dtype: str | None = None,
) -> Value: ...
@overload
def reorder(
    x: Input,
    target: str,
    dtype: str | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def reshape(
    x: Value,
    shape: int | Sequence[int],
) -> Value: ...
@overload
def reshape(
    x: Input,
    shape: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rfft(
    x: Value,
    window: Input | Value | None = None,
    scale: float = 1.0,
    size: int = 0,
    hop: int = 0,
) -> Value: ...
@overload
def rfft(
    x: Input,
    window: Input | None = None,
    scale: float = 1.0,
    size: int = 0,
    hop: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rms_norm(
    x: Value,
    normalized_shape: int | Sequence[int],
    weight: Input | Value | None = None,
    eps: float = 1e-06,
) -> Value: ...
@overload
def rms_norm(
    x: Input,
    normalized_shape: int | Sequence[int],
    weight: Input | None = None,
    eps: float = 1e-06,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rms_norm_backward(
    x: Value,
    grad: Input | Value,
    normalized_shape: int | Sequence[int],
    weight: Input | Value | None = None,
    eps: float = 1e-06,
) -> Value: ...
@overload
def rms_norm_backward(
    x: Input | Value,
    grad: Value,
    normalized_shape: int | Sequence[int],
    weight: Input | Value | None = None,
    eps: float = 1e-06,
) -> Value: ...
@overload
def rms_norm_backward(
    x: Input,
    grad: Input,
    normalized_shape: int | Sequence[int],
    weight: Input | None = None,
    eps: float = 1e-06,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rmsprop_step(
    weight: Value,
    grad: Input | Value,
    lr: Input | Value,
    square: Input | Value,
    mean: Input | Value | None = None,
    buffer: Input | Value | None = None,
    grad_scale: Input | Value | None = None,
    alpha: float = 0.99,
    eps: float = 1e-08,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Value, ...]: ...
@overload
def rmsprop_step(
    weight: Input | Value,
    grad: Value,
    lr: Input | Value,
    square: Input | Value,
    mean: Input | Value | None = None,
    buffer: Input | Value | None = None,
    grad_scale: Input | Value | None = None,
    alpha: float = 0.99,
    eps: float = 1e-08,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Value, ...]: ...
@overload
def rmsprop_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Value,
    square: Input | Value,
    mean: Input | Value | None = None,
    buffer: Input | Value | None = None,
    grad_scale: Input | Value | None = None,
    alpha: float = 0.99,
    eps: float = 1e-08,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Value, ...]: ...
@overload
def rmsprop_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Input | Value,
    square: Value,
    mean: Input | Value | None = None,
    buffer: Input | Value | None = None,
    grad_scale: Input | Value | None = None,
    alpha: float = 0.99,
    eps: float = 1e-08,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Value, ...]: ...
@overload
def rmsprop_step(
    weight: Input,
    grad: Input,
    lr: Input,
    square: Input,
    mean: Input | None = None,
    buffer: Input | None = None,
    grad_scale: Input | None = None,
    alpha: float = 0.99,
    eps: float = 1e-08,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def rnn(
    x: Value,
    w: Input | Value,
    r: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Value: ...
@overload
def rnn(
    x: Input | Value,
    w: Value,
    r: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Value: ...
@overload
def rnn(
    x: Input | Value,
    w: Input | Value,
    r: Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rnn_backward(
    x: Value,
    w: Input | Value,
    r: Input | Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Value: ...
@overload
def rnn_backward(
    x: Input | Value,
    w: Value,
    r: Input | Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Value: ...
@overload
def rnn_backward(
    x: Input | Value,
    w: Input | Value,
    r: Value,
    y: Input | Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Value: ...
@overload
def rnn_backward(
    x: Input | Value,
    w: Input | Value,
    r: Input | Value,
    y: Value,
    grad: Input | Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Value: ...
@overload
def rnn_backward(
    x: Input | Value,
    w: Input | Value,
    r: Input | Value,
    y: Input | Value,
    grad: Value,
    b: Input | Value | None = None,
    sequence_lens: Input | Value | None = None,
    initial_h: Input | Value | None = None,
    grad_h: Input | Value | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Value: ...
@overload
def rnn_backward(
    x: Input,
    w: Input,
    r: Input,
    y: Input,
    grad: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    grad_h: Input | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    batch_first: bool = False,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def roi_align(
    x: Value,
    boxes: Input | Value,
    images: Input | Value,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
) -> Value: ...
@overload
def roi_align(
    x: Input | Value,
    boxes: Value,
    images: Input | Value,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
) -> Value: ...
@overload
def roi_align(
    x: Input | Value,
    boxes: Input | Value,
    images: Value,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
) -> Value: ...
@overload
def roi_align(
    x: Input,
    boxes: Input,
    images: Input,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def roi_align_backward(
    grad: Value,
    x: Input | Value,
    boxes: Input | Value,
    images: Input | Value,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
) -> Value: ...
@overload
def roi_align_backward(
    grad: Input | Value,
    x: Value,
    boxes: Input | Value,
    images: Input | Value,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
) -> Value: ...
@overload
def roi_align_backward(
    grad: Input | Value,
    x: Input | Value,
    boxes: Value,
    images: Input | Value,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
) -> Value: ...
@overload
def roi_align_backward(
    grad: Input | Value,
    x: Input | Value,
    boxes: Input | Value,
    images: Value,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
) -> Value: ...
@overload
def roi_align_backward(
    grad: Input,
    x: Input,
    boxes: Input,
    images: Input,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["mean", "max"] = "mean",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rotary_embedding(
    x: Value,
    cos: Input | Value,
    sin: Input | Value,
    interleaved: bool = False,
) -> Value: ...
@overload
def rotary_embedding(
    x: Input | Value,
    cos: Value,
    sin: Input | Value,
    interleaved: bool = False,
) -> Value: ...
@overload
def rotary_embedding(
    x: Input | Value,
    cos: Input | Value,
    sin: Value,
    interleaved: bool = False,
) -> Value: ...
@overload
def rotary_embedding(
    x: Input,
    cos: Input,
    sin: Input,
    interleaved: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def round(
    x: Value,
) -> Value: ...
@overload
def round(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rsqrt(
    x: Value,
) -> Value: ...
@overload
def rsqrt(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scaled_dot_product_attention(
    q: Value,
    k: Input | Value,
    v: Input | Value,
    attn_mask: Input | Value | None = None,
    seed: Input | Value | None = None,
    sinks: Input | Value | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Value: ...
@overload
def scaled_dot_product_attention(
    q: Input | Value,
    k: Value,
    v: Input | Value,
    attn_mask: Input | Value | None = None,
    seed: Input | Value | None = None,
    sinks: Input | Value | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Value: ...
@overload
def scaled_dot_product_attention(
    q: Input | Value,
    k: Input | Value,
    v: Value,
    attn_mask: Input | Value | None = None,
    seed: Input | Value | None = None,
    sinks: Input | Value | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Value: ...
@overload
def scaled_dot_product_attention(
    q: Input,
    k: Input,
    v: Input,
    attn_mask: Input | None = None,
    seed: Input | None = None,
    sinks: Input | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scaled_dot_product_attention_backward(
    q: Value,
    k: Input | Value,
    v: Input | Value,
    grad: Input | Value,
    attn_mask: Input | Value | None = None,
    seed: Input | Value | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Value: ...
@overload
def scaled_dot_product_attention_backward(
    q: Input | Value,
    k: Value,
    v: Input | Value,
    grad: Input | Value,
    attn_mask: Input | Value | None = None,
    seed: Input | Value | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Value: ...
@overload
def scaled_dot_product_attention_backward(
    q: Input | Value,
    k: Input | Value,
    v: Value,
    grad: Input | Value,
    attn_mask: Input | Value | None = None,
    seed: Input | Value | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Value: ...
@overload
def scaled_dot_product_attention_backward(
    q: Input | Value,
    k: Input | Value,
    v: Input | Value,
    grad: Value,
    attn_mask: Input | Value | None = None,
    seed: Input | Value | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Value: ...
@overload
def scaled_dot_product_attention_backward(
    q: Input,
    k: Input,
    v: Input,
    grad: Input,
    attn_mask: Input | None = None,
    seed: Input | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    softcap: float | None = None,
    dropout_p: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scatter(
    x: Value,
    dim: int,
    index: Input | Value,
    src: Input | Value,
    reduce: Literal["none", "sum", "prod", "amax", "amin"] = "none",
) -> Value: ...
@overload
def scatter(
    x: Input | Value,
    dim: int,
    index: Value,
    src: Input | Value,
    reduce: Literal["none", "sum", "prod", "amax", "amin"] = "none",
) -> Value: ...
@overload
def scatter(
    x: Input | Value,
    dim: int,
    index: Input | Value,
    src: Value,
    reduce: Literal["none", "sum", "prod", "amax", "amin"] = "none",
) -> Value: ...
@overload
def scatter(
    x: Input,
    dim: int,
    index: Input,
    src: Input,
    reduce: Literal["none", "sum", "prod", "amax", "amin"] = "none",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scatter_nd(
    x: Value,
    index: Input | Value,
    src: Input | Value,
    reduce: Literal["none", "sum", "prod", "amax", "amin"] = "none",
) -> Value: ...
@overload
def scatter_nd(
    x: Input | Value,
    index: Value,
    src: Input | Value,
    reduce: Literal["none", "sum", "prod", "amax", "amin"] = "none",
) -> Value: ...
@overload
def scatter_nd(
    x: Input | Value,
    index: Input | Value,
    src: Value,
    reduce: Literal["none", "sum", "prod", "amax", "amin"] = "none",
) -> Value: ...
@overload
def scatter_nd(
    x: Input,
    index: Input,
    src: Input,
    reduce: Literal["none", "sum", "prod", "amax", "amin"] = "none",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def searchsorted(
    sequence: Value,
    values: Input | Value,
    right: bool = False,
) -> Value: ...
@overload
def searchsorted(
    sequence: Input | Value,
    values: Value,
    right: bool = False,
) -> Value: ...
@overload
def searchsorted(
    sequence: Input,
    values: Input,
    right: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def selective_scan(
    u: Value,
    delta: Input | Value,
    a: Input | Value,
    b: Input | Value,
    c: Input | Value,
) -> Value: ...
@overload
def selective_scan(
    u: Input | Value,
    delta: Value,
    a: Input | Value,
    b: Input | Value,
    c: Input | Value,
) -> Value: ...
@overload
def selective_scan(
    u: Input | Value,
    delta: Input | Value,
    a: Value,
    b: Input | Value,
    c: Input | Value,
) -> Value: ...
@overload
def selective_scan(
    u: Input | Value,
    delta: Input | Value,
    a: Input | Value,
    b: Value,
    c: Input | Value,
) -> Value: ...
@overload
def selective_scan(
    u: Input | Value,
    delta: Input | Value,
    a: Input | Value,
    b: Input | Value,
    c: Value,
) -> Value: ...
@overload
def selective_scan(
    u: Input,
    delta: Input,
    a: Input,
    b: Input,
    c: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def selective_scan_backward(
    u: Value,
    delta: Input | Value,
    a: Input | Value,
    b: Input | Value,
    c: Input | Value,
    grad: Input | Value,
) -> Value: ...
@overload
def selective_scan_backward(
    u: Input | Value,
    delta: Value,
    a: Input | Value,
    b: Input | Value,
    c: Input | Value,
    grad: Input | Value,
) -> Value: ...
@overload
def selective_scan_backward(
    u: Input | Value,
    delta: Input | Value,
    a: Value,
    b: Input | Value,
    c: Input | Value,
    grad: Input | Value,
) -> Value: ...
@overload
def selective_scan_backward(
    u: Input | Value,
    delta: Input | Value,
    a: Input | Value,
    b: Value,
    c: Input | Value,
    grad: Input | Value,
) -> Value: ...
@overload
def selective_scan_backward(
    u: Input | Value,
    delta: Input | Value,
    a: Input | Value,
    b: Input | Value,
    c: Value,
    grad: Input | Value,
) -> Value: ...
@overload
def selective_scan_backward(
    u: Input | Value,
    delta: Input | Value,
    a: Input | Value,
    b: Input | Value,
    c: Input | Value,
    grad: Value,
) -> Value: ...
@overload
def selective_scan_backward(
    u: Input,
    delta: Input,
    a: Input,
    b: Input,
    c: Input,
    grad: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def selu(
    x: Value,
) -> Value: ...
@overload
def selu(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sgd_step(
    weight: Value,
    grad: Input | Value,
    lr: Input | Value,
    velocity: Input | Value | None = None,
    grad_scale: Input | Value | None = None,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def sgd_step(
    weight: Input | Value,
    grad: Value,
    lr: Input | Value,
    velocity: Input | Value | None = None,
    grad_scale: Input | Value | None = None,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def sgd_step(
    weight: Input | Value,
    grad: Input | Value,
    lr: Value,
    velocity: Input | Value | None = None,
    grad_scale: Input | Value | None = None,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Value: ...
@overload
def sgd_step(
    weight: Input,
    grad: Input,
    lr: Input,
    velocity: Input | None = None,
    grad_scale: Input | None = None,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sigmoid(
    x: Value,
) -> Value: ...
@overload
def sigmoid(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sign(
    x: Value,
) -> Value: ...
@overload
def sign(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def silu(
    x: Value,
) -> Value: ...
@overload
def silu(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sin(
    x: Value,
) -> Value: ...
@overload
def sin(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sinh(
    x: Value,
) -> Value: ...
@overload
def sinh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def slice(
    x: Value,
    starts: int | Sequence[int],
    ends: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    steps: int | Sequence[int] | None = None,
) -> Value: ...
@overload
def slice(
    x: Input,
    starts: int | Sequence[int],
    ends: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    steps: int | Sequence[int] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def slice_scatter(
    x: Value,
    src: Input | Value,
    starts: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    steps: int | Sequence[int] | None = None,
) -> Value: ...
@overload
def slice_scatter(
    x: Input | Value,
    src: Value,
    starts: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    steps: int | Sequence[int] | None = None,
) -> Value: ...
@overload
def slice_scatter(
    x: Input,
    src: Input,
    starts: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    steps: int | Sequence[int] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def smooth_l1_loss(
    x: Value,
    target: Input | Value,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Value: ...
@overload
def smooth_l1_loss(
    x: Input | Value,
    target: Value,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Value: ...
@overload
def smooth_l1_loss(
    x: Input,
    target: Input,
    reduction: str = "mean",
    beta: float = 1.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def softmax(
    x: Value,
    dim: int,
) -> Value: ...
@overload
def softmax(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def softplus(
    x: Value,
    beta: float = 1.0,
    threshold: float = 20.0,
) -> Value: ...
@overload
def softplus(
    x: Input,
    beta: float = 1.0,
    threshold: float = 20.0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def softsign(
    x: Value,
) -> Value: ...
@overload
def softsign(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def split(
    x: Value,
    split_size_or_sections: int | Sequence[int],
    dim: int = 0,
) -> tuple[Value, ...]: ...
@overload
def split(
    x: Input,
    split_size_or_sections: int | Sequence[int],
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def sqrt(
    x: Value,
) -> Value: ...
@overload
def sqrt(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def square(
    x: Value,
) -> Value: ...
@overload
def square(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def squeeze(
    x: Value,
    dim: int | Sequence[int] | None = None,
) -> Value: ...
@overload
def squeeze(
    x: Input,
    dim: int | Sequence[int] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def squeeze_excite(
    x: Value,
    weight1: Input | Value,
    bias1: Input | Value,
    weight2: Input | Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite(
    x: Input | Value,
    weight1: Value,
    bias1: Input | Value,
    weight2: Input | Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite(
    x: Input | Value,
    weight1: Input | Value,
    bias1: Value,
    weight2: Input | Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite(
    x: Input | Value,
    weight1: Input | Value,
    bias1: Input | Value,
    weight2: Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite(
    x: Input | Value,
    weight1: Input | Value,
    bias1: Input | Value,
    weight2: Input | Value,
    bias2: Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
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
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def squeeze_excite_backward(
    x: Value,
    grad: Input | Value,
    weight1: Input | Value,
    bias1: Input | Value,
    weight2: Input | Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite_backward(
    x: Input | Value,
    grad: Value,
    weight1: Input | Value,
    bias1: Input | Value,
    weight2: Input | Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite_backward(
    x: Input | Value,
    grad: Input | Value,
    weight1: Value,
    bias1: Input | Value,
    weight2: Input | Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite_backward(
    x: Input | Value,
    grad: Input | Value,
    weight1: Input | Value,
    bias1: Value,
    weight2: Input | Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite_backward(
    x: Input | Value,
    grad: Input | Value,
    weight1: Input | Value,
    bias1: Input | Value,
    weight2: Value,
    bias2: Input | Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite_backward(
    x: Input | Value,
    grad: Input | Value,
    weight1: Input | Value,
    bias1: Input | Value,
    weight2: Input | Value,
    bias2: Value,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
) -> Value: ...
@overload
def squeeze_excite_backward(
    x: Input,
    grad: Input,
    weight1: Input,
    bias1: Input,
    weight2: Input,
    bias2: Input,
    hidden: Literal["relu", "silu", "hardswish"] = "relu",
    gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid",
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def stack(
    tensors: Sequence[Value],
    dim: int = 0,
) -> Value: ...
@overload
def stack(
    tensors: Sequence[Input],
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def std(
    x: Value,
    dim: int | Sequence[int] | None = None,
    correction: float = 1,
    keepdim: bool = False,
) -> Value: ...
@overload
def std(
    x: Input,
    dim: int | Sequence[int] | None = None,
    correction: float = 1,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def sub(
    x: Value,
    y: Input | Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def sub(
    x: Input | Value,
    y: Value,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
) -> Value: ...
@overload
def sub(
    x: Input,
    y: Input,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    post_ops: str | Sequence[str] | None = None,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sum(
    x: Value,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
) -> Value: ...
@overload
def sum(
    x: Input,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def tan(
    x: Value,
) -> Value: ...
@overload
def tan(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def tanh(
    x: Value,
) -> Value: ...
@overload
def tanh(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def tensor_scatter(
    x: Value,
    update: Input | Value,
    at: Input | Value,
    dim: int = -2,
    circular: bool = False,
) -> Value: ...
@overload
def tensor_scatter(
    x: Input | Value,
    update: Value,
    at: Input | Value,
    dim: int = -2,
    circular: bool = False,
) -> Value: ...
@overload
def tensor_scatter(
    x: Input | Value,
    update: Input | Value,
    at: Value,
    dim: int = -2,
    circular: bool = False,
) -> Value: ...
@overload
def tensor_scatter(
    x: Input,
    update: Input,
    at: Input,
    dim: int = -2,
    circular: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def threshold(
    x: Value,
    threshold: float,
    value: float,
) -> Value: ...
@overload
def threshold(
    x: Input,
    threshold: float,
    value: float,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def tile(
    x: Value,
    dims: int | Sequence[int],
) -> Value: ...
@overload
def tile(
    x: Input,
    dims: int | Sequence[int],
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def topk(
    x: Value,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    skip: int = 0,
) -> Value: ...
@overload
def topk(
    x: Input,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    skip: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def transpose(
    x: Value,
    dim0: int,
    dim1: int,
) -> Value: ...
@overload
def transpose(
    x: Input,
    dim0: int,
    dim1: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def trunc(
    x: Value,
) -> Value: ...
@overload
def trunc(
    x: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def unbind(
    x: Value,
    dim: int = 0,
) -> tuple[Value, ...]: ...
@overload
def unbind(
    x: Input,
    dim: int = 0,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def unsqueeze(
    x: Value,
    dim: int,
) -> Value: ...
@overload
def unsqueeze(
    x: Input,
    dim: int,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(
    x: Value,
    dim: int | Sequence[int] | None = None,
    correction: float = 1,
    keepdim: bool = False,
) -> Value: ...
@overload
def var(
    x: Input,
    dim: int | Sequence[int] | None = None,
    correction: float = 1,
    keepdim: bool = False,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
) -> Tensor: ...
@overload
def where(
    condition: Value,
    x: Input | Value,
    y: Input | Value,
) -> Value: ...
@overload
def where(
    condition: Input | Value,
    x: Value,
    y: Input | Value,
) -> Value: ...
@overload
def where(
    condition: Input | Value,
    x: Input | Value,
    y: Value,
) -> Value: ...
@overload
def where(
    condition: Input,
    x: Input,
    y: Input,
    *,
    layout: str | Layout = "auto",
    device: str | Device | None = None,
    out: Tensor | None = None,
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
