"""Calls that must be refused: the call, the error's class, and what its message must hold."""

import numpy as np

import pylayout as pl
from pylayout import ops

NAN, INFINITY = float("nan"), float("inf")


def ones(*shape, dtype="float32"):
    return pl.asarray(np.ones(shape, dtype))


X = (1, 4, 5, 5)
W = (8, 4, 3, 3)
SHAPE, ARGUMENT, TYPE = pl.ShapeError, pl.InvalidArgumentError, pl.ArgumentTypeError

# call, error, what the message must hold
CASES = {
    # ranks
    "conv2d of an image without batch": (
        lambda: ops.conv2d(ones(4, 5, 5), ones(*W)),
        SHAPE,
        "conv2d: x has rank 3 .* expected 4",
    ),
    "conv2d with weights of a conv1d": (
        lambda: ops.conv2d(ones(*X), ones(8, 4, 3)),
        SHAPE,
        "conv2d: weight has rank 3 .* expected 4",
    ),
    "linear with a vector of weights": (
        lambda: ops.linear(ones(2, 3), ones(3)),
        SHAPE,
        "linear: weight has rank 1 .* expected 2",
    ),
    "matmul of a scalar": (lambda: ops.matmul(ones(), ones(3)), SHAPE, "matmul: a has rank 0 .* expected 1 to 8"),
    "batch_norm of a vector": (
        lambda: ops.batch_norm(ones(3), ones(3), ones(3)),
        SHAPE,
        "batch_norm: x has rank 1 .* expected 2 to 8",
    ),
    "embedding table of rank 3": (
        lambda: ops.embedding(ones(2, dtype="int64"), ones(3, 4, 5)),
        SHAPE,
        "embedding: weight has rank 3 .* expected 2",
    ),
    "unsqueeze beyond 8 dimensions": (
        lambda: ops.unsqueeze(ones(*[1] * 8), 0),
        SHAPE,
        "unsqueeze: x has rank 8 .* expected 0 to 7",
    ),
    "index that adds too many dimensions": (
        lambda: ops.index_select(ones(*[1] * 5), 0, ones(*[1] * 5, dtype="int64")),
        SHAPE,
        "index_select: a tensor has at most 8 dimensions",
    ),
    # channels and sizes
    "conv2d channels": (
        lambda: ops.conv2d(ones(*X), ones(8, 3, 3, 3)),
        SHAPE,
        r"conv2d: weight.ic is 3, expected 4 \(x.c / groups\)",
    ),
    "conv2d groups of x": (
        lambda: ops.conv2d(ones(*X), ones(9, 1, 3, 3), groups=3),
        SHAPE,
        r"conv2d: x.c is 4, expected a multiple of 3 \(groups\)",
    ),
    "conv2d groups of weight": (
        lambda: ops.conv2d(ones(*X), ones(7, 2, 3, 3), groups=2),
        SHAPE,
        "conv2d: weight.oc is 7, expected a multiple of 2",
    ),
    "conv2d bias": (
        lambda: ops.conv2d(ones(*X), ones(*W), ones(7)),
        SHAPE,
        r"conv2d: bias.shape is \(7,\), expected \(8,\) \(weight.oc\)",
    ),
    "conv2d residual": (
        lambda: ops.conv2d(ones(*X), ones(*W), residual=ones(1, 8, 5, 5)),
        SHAPE,
        r"conv2d: residual.shape is \(1, 8, 5, 5\), expected \(1, 8, 3, 3\)",
    ),
    "conv2d kernel larger than the image": (
        lambda: ops.conv2d(ones(1, 4, 2, 9), ones(*W)),
        SHAPE,
        r"conv2d: x.h is 2, with padding 2, expected at least 3",
    ),
    "conv2d dilated beyond the image": (
        lambda: ops.conv2d(ones(*X), ones(*W), dilation=3),
        SHAPE,
        "conv2d: x.h is 5, .* expected at least 7 .*dilation 3",
    ),
    "conv2d of no channels": (lambda: ops.conv2d(ones(1, 0, 5, 5), ones(8, 0, 3, 3)), SHAPE, "conv2d: x.c is 0"),
    "conv_transpose2d channels": (
        lambda: ops.conv_transpose2d(ones(*X), ones(3, 8, 3, 3)),
        SHAPE,
        r"conv_transpose2d: weight.ic is 3, expected 4 \(x.c\)",
    ),
    "conv_transpose2d cut away": (
        lambda: ops.conv_transpose2d(ones(1, 4, 1, 1), ones(4, 8, 3, 3), padding=2),
        SHAPE,
        "the output size along h is -1",
    ),
    "linear features": (lambda: ops.linear(ones(2, 3), ones(5, 4)), SHAPE, "linear: weight.in is 4, expected 3"),
    "matmul inner size": (lambda: ops.matmul(ones(2, 3), ones(4, 5)), SHAPE, "matmul: b has 4 rows .* expected 3"),
    "matmul batches": (lambda: ops.matmul(ones(2, 3, 3), ones(4, 3, 3)), SHAPE, "matmul: b has shape .* broadcast"),
    "matmul transposed vector": (
        lambda: ops.matmul(ones(3), ones(3), transpose_a=True),
        SHAPE,
        "matmul: transpose_a is true, expected false",
    ),
    "max_pool2d kernel": (lambda: ops.max_pool2d(ones(*X), 6), SHAPE, "max_pool2d: x.h is 5, .* expected at least 6"),
    "add": (
        lambda: ops.add(ones(2, 3), ones(4)),
        SHAPE,
        r"add: y has shape \(4,\), which does not broadcast with \(2, 3\)",
    ),
    "where": (lambda: ops.where(ones(2, dtype="bool"), ones(3), ones(1)), SHAPE, "where: x has shape"),
    "batch_norm statistics": (
        lambda: ops.batch_norm(ones(*X), ones(4), ones(5)),
        SHAPE,
        r"batch_norm: running_var.shape is \(5,\), expected \(4,\)",
    ),
    "layer_norm": (
        lambda: ops.layer_norm(ones(2, 3), [4]),
        SHAPE,
        r"layer_norm: normalized_shape is \(4,\), expected the last sizes of x",
    ),
    "rms_norm": (
        lambda: ops.rms_norm(ones(2, 3), [3], ones(2)),
        SHAPE,
        r"rms_norm: weight.shape is \(2,\), expected \(3,\)",
    ),
    "rotary_embedding": (
        lambda: ops.rotary_embedding(ones(2, 3, 8), ones(3, 3), ones(3, 3)),
        SHAPE,
        "rotary_embedding: cos has 3 columns, expected an even number of at most 8",
    ),
    "selective_scan": (
        lambda: ops.selective_scan(ones(2, 3, 4), ones(2, 3, 4), ones(3, 5), ones(2, 4, 6), ones(2, 4, 5)),
        SHAPE,
        r"selective_scan: b.shape is \(2, 4, 6\), expected \(2, 4, 5\)",
    ),
    "group_norm": (lambda: ops.group_norm(ones(*X), 3), SHAPE, "group_norm: x.c is 4, expected a multiple of 3"),
    "prelu": (lambda: ops.prelu(ones(*X), ones(3)), SHAPE, "prelu: weight has 3 values, expected 1 or 4"),
    "concat": (lambda: ops.concat([ones(2, 3), ones(3, 3)], 1), SHAPE, r"concat: tensors\[1\].shape is \(3, 3\)"),
    "concat of ranks": (lambda: ops.concat([ones(2, 3), ones(3)]), SHAPE, r"concat: tensors\[1\] has rank 1"),
    "linear_nbits bits": (
        lambda: ops.linear_nbits(ones(4, 32), ones(2, 16, dtype="uint8"), ones(2, 1), bits=3),
        ARGUMENT,
        "linear_nbits: bits is 3, expected 2, 4 or 8",
    ),
    "linear_nbits blocks that end within a byte": (
        lambda: ops.linear_nbits(ones(4, 32), ones(2, 16, dtype="uint8"), ones(2, 1), block_size=31),
        ARGUMENT,
        r"linear_nbits: block_size is 31, expected blocks of whole bytes \(2 numbers\)",
    ),
    "linear_nbits bytes": (
        lambda: ops.linear_nbits(ones(4, 33), ones(2, 17, dtype="uint8"), ones(2, 2)),
        SHAPE,
        r"linear_nbits: weight.bytes is 17, expected 32 \(2 blocks of 16 for 33 numbers, the last size of x\)",
    ),
    "linear_nbits scales": (
        lambda: ops.linear_nbits(ones(4, 33), ones(2, 32, dtype="uint8"), ones(2, 1)),
        SHAPE,
        r"linear_nbits: scale.shape is \(2, 1\), expected \(2, 2\) \(weight.out, blocks\)",
    ),
    "grouped_mm columns": (
        lambda: ops.grouped_mm(ones(4, 3), ones(2, 5, 6), ones(2, dtype="int32")),
        SHAPE,
        r"grouped_mm: weight.shape is \(2, 5, 6\), expected 3 \(columns of x\) at dimension 1",
    ),
    "grouped_mm columns of a transposed weight": (
        lambda: ops.grouped_mm(ones(4, 3), ones(2, 3, 6), ones(2, dtype="int32"), transpose_weight=True),
        SHAPE,
        r"grouped_mm: weight.shape is \(2, 3, 6\), expected 3 \(columns of x\) at dimension 2",
    ),
    "grouped_mm offsets": (
        lambda: ops.grouped_mm(ones(4, 3), ones(2, 3, 6), ones(3, dtype="int32")),
        SHAPE,
        r"grouped_mm: offsets.shape is \(3,\), expected \(2,\) \(weight.groups\)",
    ),
    "grouped_mm offsets that do not ascend": (
        lambda: ops.grouped_mm(ones(4, 3), ones(2, 3, 6), np.array([3, 2], "int32")),
        ARGUMENT,
        "grouped_mm: offsets is 2 at element 1, expected 3 to 4",
    ),
    "grouped_mm offsets beyond the rows": (
        lambda: ops.grouped_mm(ones(4, 3), ones(2, 3, 6), np.array([3, 5], "int64")),
        ARGUMENT,
        "grouped_mm: offsets is 5 at element 1, expected 3 to 4",
    ),
    "grouped_mm_backward_weights rows": (
        lambda: ops.grouped_mm_backward_weights(ones(4, 3), ones(5, 6), ones(2, dtype="int32")),
        SHAPE,
        r"grouped_mm_backward_weights: grad.rows is 5, expected 4 \(rows of x\)",
    ),
    "gather": (
        lambda: ops.gather(ones(2, 3), 1, ones(3, 1, dtype="int64")),
        SHAPE,
        r"gather: index.shape is \(3, 1\), expected at most \(2, 3\)",
    ),
    "index into nothing": (
        lambda: ops.index_select(ones(0, 3), 0, ones(1, dtype="int64")),
        SHAPE,
        "index_select: x.shape is",
    ),
    "amax of nothing": (
        lambda: ops.amax(ones(2, 0), 1),
        SHAPE,
        "amax: x.shape is .* at least one element along dimension 1",
    ),
    "topk of more than there are": (
        lambda: ops.topk(ones(2, 3), 4),
        ARGUMENT,
        r"topk: k is 4, expected 0 to 3 \(the size of x along dimension 1\)",
    ),
    "topk of a negative number": (lambda: ops.topk(ones(3), -1), ARGUMENT, "topk: k is -1, expected 0 to 3"),
    "topk of a scalar": (lambda: ops.topk(ones(), 1), SHAPE, "topk: x has rank 0.*expected 1 to 8"),
    "argmax of nothing": (lambda: ops.argmax(ones(0)), SHAPE, "argmax: x.shape is"),
    "reshape": (lambda: ops.reshape(ones(2, 3), [4]), SHAPE, r"reshape: shape is \(4,\) with 4 elements, expected 6"),
    "split": (lambda: ops.split(ones(5), [2, 2]), SHAPE, "split: the sum of split_size_or_sections is 4, expected 5"),
    "pad reflects more than there is": (
        lambda: ops.pad(ones(3), [3, 0], "reflect"),
        SHAPE,
        "pad: pad adds 3 to dimension 0 of size 3",
    ),
    "pad crops more than there is": (lambda: ops.pad(ones(3), [-2, -2]), SHAPE, "pad: "),
    # negative sizes and the like
    "zeros of a negative size": (lambda: pl.zeros((2, -1)), SHAPE, r"shape \(2, -1\): a size is negative"),
    "reshape to a negative size": (lambda: ops.reshape(ones(4), [-2, -2]), ARGUMENT, "reshape: shape is"),
    "reshape with two unknown sizes": (
        lambda: ops.reshape(ones(4), [-1, -1]),
        ARGUMENT,
        "reshape: shape is .* -1 at most once",
    ),
    "stride 0": (
        lambda: ops.conv2d(ones(*X), ones(*W), stride=0),
        ARGUMENT,
        r"conv2d: stride\[0\] is 0, expected 1 to",
    ),
    "stride negative": (
        lambda: ops.conv1d(ones(1, 4, 5), ones(8, 4, 3), stride=-1),
        ARGUMENT,
        "conv1d: stride is -1, expected 1 to",
    ),
    "padding negative": (
        lambda: ops.conv2d(ones(*X), ones(*W), padding=[0, -1]),
        ARGUMENT,
        r"conv2d: padding\[1\] is -1, expected 0 to",
    ),
    "dilation 0": (lambda: ops.conv2d(ones(*X), ones(*W), dilation=0), ARGUMENT, r"conv2d: dilation\[0\] is 0"),
    "groups 0": (
        lambda: ops.conv2d(ones(*X), ones(*W), groups=0),
        ARGUMENT,
        "conv2d: groups is 0, expected at least 1",
    ),
    "output_padding": (
        lambda: ops.conv_transpose1d(ones(1, 4, 5), ones(4, 8, 3), output_padding=1),
        ARGUMENT,
        "output_padding along w is 1, expected 0 to 0",
    ),
    "kernel_size 0": (lambda: ops.avg_pool2d(ones(*X), 0), ARGUMENT, r"avg_pool2d: kernel_size\[0\] is 0"),
    "padding of more than half a window": (
        lambda: ops.max_pool2d(ones(*X), 2, padding=2),
        ARGUMENT,
        "max_pool2d: padding along h is 2, expected at most 1",
    ),
    "output_size negative": (
        lambda: ops.adaptive_avg_pool2d(ones(*X), -2),
        ARGUMENT,
        "adaptive_avg_pool2d: output_size along h is -2",
    ),
    "num_groups 0": (lambda: ops.group_norm(ones(*X), 0), ARGUMENT, "group_norm: num_groups is 0"),
    "window of no channels": (lambda: ops.local_response_norm(ones(*X), 0), ARGUMENT, "local_response_norm: size is 0"),
    "size 0": (lambda: ops.interpolate(ones(*X), size=0), ARGUMENT, "interpolate: size along h is 0"),
    "sections negative": (lambda: ops.split(ones(5), [6, -1]), ARGUMENT, "split: split_size_or_sections holds -1"),
    "split into parts of 0": (lambda: ops.split(ones(5), 0), ARGUMENT, "split: split_size_or_sections is 0"),
    "steps negative": (
        lambda: ops.slice(ones(5), [0], [5], steps=[-1]),
        ARGUMENT,
        r"slice: steps\[0\] is -1, expected at least 1",
    ),
    "index with a mask": (lambda: ones(5)[ones(5) > 0], pl.UnsupportedError, "index: a mask is given"),
    # dimensions
    "softmax dim": (lambda: ops.softmax(ones(2, 3), 2), ARGUMENT, "softmax: dim is 2, expected -2 to 1"),
    "sum dim": (lambda: ops.sum(ones(2, 3), [0, -3]), ARGUMENT, "sum: dim is -3, expected -2 to 1"),
    "sum dim twice": (lambda: ops.sum(ones(2, 3), [1, -1]), ARGUMENT, "sum: dim names dimension 1 twice"),
    "permute dims twice": (lambda: ops.permute(ones(2, 3), [0, 0]), ARGUMENT, "permute: dims names dimension 0 twice"),
    "permute dims missing": (lambda: ops.permute(ones(2, 3), [0]), ARGUMENT, "permute: dims has 1 values, expected 2"),
    "flatten backwards": (
        lambda: ops.flatten(ones(2, 3), 1, 0),
        ARGUMENT,
        "flatten: start_dim is 1, expected at most 0",
    ),
    "slice axes twice": (
        lambda: ops.slice(ones(2, 3), [0, 0], [1, 1], [1, -1]),
        ARGUMENT,
        "slice: axes names dimension 1 twice",
    ),
    "slice lists": (lambda: ops.slice(ones(2, 3), [0, 0], [1]), ARGUMENT, "slice: ends has 1 values, expected 2"),
    # NaN and infinite attributes
    "eps nan": (
        lambda: ops.batch_norm(ones(*X), ones(4), ones(4), eps=NAN),
        ARGUMENT,
        "batch_norm: eps is nan, expected a finite number",
    ),
    "eps negative": (
        lambda: ops.layer_norm(ones(2, 3), [3], eps=-1.0),
        ARGUMENT,
        "layer_norm: eps is -1, expected at least 0",
    ),
    "slope nan": (lambda: ops.leaky_relu(ones(3), NAN), ARGUMENT, "leaky_relu: negative_slope is nan"),
    "elu alpha nan": (lambda: ops.elu(ones(3), NAN), ARGUMENT, "elu: alpha is nan"),
    "clip nan": (lambda: ops.clip(ones(3), 0, NAN), ARGUMENT, "clip: max is nan"),
    "softplus beta 0": (lambda: ops.softplus(ones(3), 0), ARGUMENT, "softplus: beta is 0"),
    "activation_alpha nan": (
        lambda: ops.conv2d(ones(*X), ones(*W), activation="elu", activation_alpha=NAN),
        ARGUMENT,
        "conv2d: activation_alpha is nan",
    ),
    "pad value nan": (lambda: ops.pad(ones(3), [1, 1], value=NAN), ARGUMENT, "pad: value is nan"),
    "pad value of another dtype": (
        lambda: ops.pad(ones(3, dtype="int8"), [1, 1], value=300),
        ARGUMENT,
        "pad: value is 300, expected a value of s8",
    ),
    "scale_factor nan": (
        lambda: ops.interpolate(ones(*X), scale_factor=NAN),
        ARGUMENT,
        "interpolate: scale_factor along h is nan",
    ),
    "scale_factor infinite": (
        lambda: ops.interpolate(ones(*X), scale_factor=INFINITY),
        ARGUMENT,
        "interpolate: scale_factor along h is inf",
    ),
    "lrn alpha infinite": (
        lambda: ops.local_response_norm(ones(*X), 3, alpha=INFINITY),
        ARGUMENT,
        "local_response_norm: alpha is inf",
    ),
    "dropout nan": (lambda: ops.dropout(ones(3), NAN), ARGUMENT, "dropout: p is nan, expected 0 to 1"),
    "stride nan": (lambda: ops.conv2d(ones(*X), ones(*W), stride=NAN), ARGUMENT, "conv2d: stride is nan"),
    # attributes of other types, names and values
    "stride of words": (
        lambda: ops.conv2d(ones(*X), ones(*W), stride="two"),
        ARGUMENT,
        "conv2d: stride is two .*expected a value of type ints",
    ),
    "stride fractional": (lambda: ops.conv2d(ones(*X), ones(*W), stride=1.5), ARGUMENT, "conv2d: stride is 1.5"),
    "strides in three directions": (
        lambda: ops.conv2d(ones(*X), ones(*W), stride=[1, 1, 1]),
        ARGUMENT,
        "conv2d: stride has 3 values, expected 1 or 2",
    ),
    "padding of three values": (
        lambda: ops.conv2d(ones(*X), ones(*W), padding=[1, 1, 1]),
        ARGUMENT,
        "conv2d: padding has 3 values, expected 1, 2 or 4",
    ),
    "stride a dict": (lambda: ops.conv2d(ones(*X), ones(*W), stride={}), TYPE, "conv2d: stride is of type dict"),
    "groups a list": (lambda: ops.conv2d(ones(*X), ones(*W), groups=[1, 2]), ARGUMENT, r"conv2d: groups is \[1,2\]"),
    "groups None": (lambda: ops.conv2d(ones(*X), ones(*W), groups=None), ARGUMENT, "conv2d: groups is none"),
    "ceil_mode 2": (lambda: ops.max_pool2d(ones(*X), 2, ceil_mode=2), ARGUMENT, "max_pool2d: ceil_mode is 2"),
    "kernel_size None": (lambda: ops.max_pool2d(ones(*X), None), ARGUMENT, "max_pool2d: kernel_size is none"),
    "activation unknown": (
        lambda: ops.linear(ones(2, 3), ones(4, 3), activation="rleu"),
        ARGUMENT,
        "linear: activation is rleu, expected one of gelu, relu",
    ),
    "activation with a NUL": (
        lambda: ops.linear(ones(2, 3), ones(4, 3), activation="relu\0"),
        ARGUMENT,
        "linear: activation is .*without NUL",
    ),
    "pad mode": (
        lambda: ops.pad(ones(3), [1, 1], "wrap"),
        ARGUMENT,
        "pad: mode is wrap, expected one of constant, reflect, replicate",
    ),
    "pad of an odd count": (
        lambda: ops.pad(ones(3), [1]),
        ARGUMENT,
        "pad: pad has 1 values, expected an even number up to 2",
    ),
    "gelu approximation": (
        lambda: ops.gelu(ones(3), "erf"),
        ARGUMENT,
        "gelu: approximate is erf, expected one of none, tanh",
    ),
    "interpolation of another rank": (
        lambda: ops.interpolate(ones(*X), size=3, mode="trilinear"),
        ARGUMENT,
        "interpolate: mode is trilinear, expected nearest or bilinear",
    ),
    "size and scale": (
        lambda: ops.interpolate(ones(*X), size=3, scale_factor=2),
        ARGUMENT,
        "interpolate: size and scale_factor are both given",
    ),
    "neither size nor scale": (
        lambda: ops.interpolate(ones(*X)),
        ARGUMENT,
        "interpolate: size and scale_factor are neither given",
    ),
    "align_corners of nearest": (
        lambda: ops.interpolate(ones(*X), size=3, align_corners=True),
        ARGUMENT,
        "interpolate: align_corners is true",
    ),
    "dropout in training": (
        lambda: ops.dropout(ones(3), training=True),
        pl.UnsupportedError,
        "dropout: training is true, expected false",
    ),
    "unknown attribute of query": (
        lambda: pl.query("conv2d", ones(*X), ones(*W), strides=2),
        ARGUMENT,
        'conv2d: there is no parameter "strides"',
    ),
    "unknown op of query": (lambda: pl.query("conv9d", ones(*X)), pl.Error, "conv9d"),
    # dtypes
    "weights of another dtype": (
        lambda: ops.conv2d(ones(*X), ones(*W, dtype="float16")),
        ARGUMENT,
        r"conv2d: weight.dtype is f16, expected f32 \(x.dtype\)",
    ),
    "sum of dtypes": (lambda: ops.add(ones(3), ones(3, dtype="int32")), ARGUMENT, "add: y.dtype is s32, expected f32"),
    "concat of dtypes": (
        lambda: ops.concat([ones(3), ones(3, dtype="int32")]),
        ARGUMENT,
        r"concat: tensors\[1\].dtype is s32, expected f32",
    ),
    "convolution of integers": (
        lambda: ops.conv2d(ones(*X, dtype="int32"), ones(*W, dtype="int32")),
        pl.UnsupportedError,
        "conv2d: x has dtype s32, expected one of f32, f16, bf16",
    ),
    "condition of floats": (
        lambda: ops.where(ones(3), ones(3), ones(3)),
        pl.UnsupportedError,
        "where: condition has dtype f32, expected one of bool",
    ),
    "index of floats": (
        lambda: ops.embedding(ones(3), ones(4, 4)),
        pl.UnsupportedError,
        "embedding: index has dtype f32, expected one of s32, s64",
    ),
    "mean of integers": (lambda: ops.mean(ones(3, dtype="int64")), pl.UnsupportedError, "mean: x has dtype s64"),
    "activation of integers": (
        lambda: ops.add(ones(3, dtype="int32"), ones(3, dtype="int32"), activation="exp"),
        pl.UnsupportedError,
        "add: x has dtype s32, expected one of f32, f16, bf16 with activation=exp",
    ),
    "complex numbers": (
        lambda: pl.asarray(np.ones(3, "complex64")),
        pl.UnsupportedError,
        "complex64, expected one of f32",
    ),
    "text": (lambda: pl.asarray(np.array(["a"])), pl.UnsupportedError, "expected one of f32"),
    "objects": (lambda: pl.asarray(object()), TYPE, "asarray: value is object, expected a tensor"),
    "unknown dtype": (lambda: pl.zeros((1,), dtype="f7"), pl.Error, "f7"),
    "reorder to an unknown dtype": (lambda: ops.reorder(ones(*X), "NHWC", "f7"), ARGUMENT, 'reorder: dtype "f7"'),
    # no tensors
    "text for a tensor": (lambda: ops.conv2d("hello", ones(*W)), TYPE, "conv2d: x is str, expected a tensor"),
    "None for a tensor": (lambda: ops.conv2d(None, ones(*W)), TYPE, "conv2d: x is NoneType, expected a tensor"),
    "an object for a bias": (lambda: ops.conv2d(ones(*X), ones(*W), object()), TYPE, "conv2d: bias is object"),
    "concat of nothing": (lambda: ops.concat([]), ARGUMENT, "concat: tensors is empty"),
    "concat of a tensor": (lambda: ops.concat(ones(3)), TYPE, "concat: tensors is Tensor, expected a list"),
    "concat with None": (lambda: ops.concat([ones(3), None]), TYPE, r"concat: tensors\[1\] is NoneType"),
    "the class called": (lambda: pl.Tensor(), TYPE, "expected pylayout.asarray"),
    # layouts
    "layout unknown": (lambda: ops.relu(ones(*X), layout="bogus"), pl.LayoutError, 'layout "bogus"'),
    "layout of a block without a dimension": (
        lambda: ones(*X).to(layout="nChw16"),
        pl.LayoutError,
        "the block size 16 at the end names no dimension",
    ),
    "layout of a block of one": (
        lambda: ones(*X).to(layout="nChw1c"),
        pl.LayoutError,
        "block size 1, expected 2 to 1024",
    ),
    "layout with a dimension twice": (lambda: pl.Layout("NCHH"), pl.LayoutError, 'layout "NCHH"'),
    "layout empty": (lambda: pl.Layout(""), pl.LayoutError, "layout"),
    "layout a number": (lambda: ones(*X).to(layout=3), TYPE, "layout is 3, expected a string"),
    "layout of another rank": (lambda: ones(*X).to(layout="NCW"), pl.LayoutError, "layout NCW has rank 3, expected 4"),
    "asarray in a layout of another rank": (
        lambda: pl.asarray(np.ones((2, 3)), layout="NCHW"),
        pl.LayoutError,
        "NCHW has rank 4",
    ),
    "reorder to a layout of another rank": (
        lambda: ops.reorder(ones(*X), "NCW"),
        pl.LayoutError,
        "reorder: target is NCW of rank 3, expected rank 4",
    ),
    # devices
    "device unknown": (
        lambda: ops.relu(ones(3), device="gpu"),
        pl.DeviceError,
        'device "gpu" is not known; expected one of cpu',
    ),
    "device out of range": (lambda: ones(3).to(device="opencl:99"), pl.DeviceError, 'device "opencl:99" is not known'),
    "device empty": (lambda: pl.zeros((1,), device=""), pl.DeviceError, 'device "" is not known'),
    "device with a NUL": (lambda: pl.zeros((1,), device="cpu\0"), pl.DeviceError, "device is"),
    # sizes that overflow
    "more than 2^59 elements": (
        lambda: pl.zeros((2**31, 2**31, 2**31)),
        SHAPE,
        "too large, expected at most 2\\^59 elements",
    ),
    "a size beyond 64 bits": (lambda: pl.zeros((2**63,)), SHAPE, "expected sizes below 2\\^59"),
    "more dimensions than there are": (lambda: pl.zeros((1,) * 9), SHAPE, "rank is 9, expected 0 to 8"),
    "more memory than there is": (
        lambda: pl.zeros((2**45,)),
        pl.OutOfMemoryError,
        "cpu: no memory for 140737488355328 bytes",
    ),
    "a fractional size": (lambda: pl.zeros((2.5,)), TYPE, "expected a sequence of integers"),
    "padding of 2^62": (
        lambda: ops.conv2d(ones(*X), ones(*W), padding=2**62),
        ARGUMENT,
        "conv2d: padding is 4611686018427387904",
    ),
    "padding of 2^31 - 1": (
        lambda: ops.conv2d(ones(*X), ones(*W), padding=2**31 - 1),
        SHAPE,
        "conv2d: the output has shape .* too large",
    ),
    "padding of 2^64": (
        lambda: ops.conv2d(ones(*X), ones(*W), padding=2**64),
        ARGUMENT,
        "conv2d: padding .*18446744073709551616",
    ),
    "kernel_size of 2^40": (
        lambda: ops.max_pool2d(ones(*X), 2**40),
        ARGUMENT,
        r"max_pool2d: kernel_size\[0\] is 1099511627776",
    ),
    "dilation of 2^31 - 1": (lambda: ops.conv2d(ones(*X), ones(*W), dilation=2**31 - 1), SHAPE, "conv2d: x.h is 5"),
    "stride of a transposed convolution": (
        lambda: ops.conv_transpose2d(ones(1, 4, 9, 9), ones(4, 1, 1, 1), stride=2**31 - 1),
        SHAPE,
        "conv_transpose2d: the output has shape .* too large",
    ),
    "pad to 2^64": (
        lambda: ops.pad(ones(3), [2**63 - 1, 2**63 - 1]),
        ARGUMENT,
        r"pad: pad\[0\] is 9223372036854775807",
    ),
    "pad to 2^160": (lambda: ops.pad(ones(1, 1, 1, 1), [2**40] * 8), SHAPE, "pad: the output has shape .* too large"),
    "size of 2^50": (
        lambda: ops.interpolate(ones(*X), size=2**50),
        SHAPE,
        "interpolate: the output has shape .* too large",
    ),
    "scale_factor of 1e30": (
        lambda: ops.interpolate(ones(*X), scale_factor=1e30),
        SHAPE,
        "interpolate: the output size along h is 5e\\+30",
    ),
    "output_size of 2^62": (
        lambda: ops.adaptive_avg_pool1d(ones(1, 4, 5), 2**62),
        SHAPE,
        "adaptive_avg_pool1d: the output has shape .* too large",
    ),
    "reshape to an overflowing product": (
        lambda: ops.reshape(ones(4), [2**32, 2**32]),
        SHAPE,
        "reshape: the product of shape overflows 64 bits",
    ),
    "a reduction of too many elements": (
        lambda: ops.pointwise(
            [ones(2**20, 1, 1), ones(2**20, 1), ones(2**20)], "y0 = x0 + x1 + x2", reductions="reduce_y0 += y0"
        ),
        SHAPE,
        "pointwise: shape .* too large",
    ),
    "sections that overflow": (
        lambda: ops.split(ones(4), [2**63 - 1, 2**63 - 1]),
        ARGUMENT,
        "split: the sum of split_size_or_sections overflows 64 bits",
    ),
}
