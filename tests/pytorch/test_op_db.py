"""PyTorch's samples of its own ops: nothing wrong comes out. All of op_db: `pytest -m exhaustive`."""

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing._internal needs it

import opinfo  # noqa: E402

FEW = {
    "add", "addmm", "argmax", "bmm", "cat", "clamp", "cumsum", "div", "eq", "exp", "expand", "gather", "index_select",
    "linalg.vector_norm", "masked_fill", "matmul", "max", "mean", "mul", "nn.functional.avg_pool2d",
    "nn.functional.batch_norm", "nn.functional.conv2d", "nn.functional.conv_transpose2d", "nn.functional.embedding",
    "nn.functional.gelu", "nn.functional.group_norm", "nn.functional.interpolate", "nn.functional.layer_norm",
    "nn.functional.linear", "nn.functional.max_pool2d", "nn.functional.pad", "nn.functional.relu",
    "nn.functional.scaled_dot_product_attention", "permute", "pow", "rsqrt", "sigmoid", "softmax", "sort", "split",
    "squeeze", "sub", "sum", "tanh", "topk", "transpose", "var", "where", "__getitem__", "as_strided", "nonzero",
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("op", [op for op in opinfo.infos() if op.name in FEW], ids=opinfo.name_of)
def test_few(op):
    assert not [*opinfo.wrong(op, samples=2)]


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "gradients"])
@pytest.mark.parametrize("dtype", [torch.float32], ids=str)
def test_all(dtype, gradients):
    assert not [text for op in opinfo.infos(dtype, gradients) for text in opinfo.wrong(op, dtype, gradients, 4)]


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_other_dtypes(dtype):
    assert not [text for op in opinfo.infos(dtype) for text in opinfo.wrong(op, dtype, samples=2)]
