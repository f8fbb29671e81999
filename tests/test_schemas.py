"""What schemas say of themselves: names, documentation and defaults that users and generated pages rely on."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from pylayout import ops
from pylayout.calls import schemas

NAMES = sorted(schemas())


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_documented(name):
    schema = schemas()[name]
    title, blank, *rest = schema["doc"].split("\n")
    assert title.endswith(".") and len(title) <= 120 and not blank and rest
    for parameter in schema["parameters"]:
        assert parameter["doc"], parameter["name"]
    text = getattr(ops, name).__doc__
    assert text.startswith(title[:60]) and max(map(len, text.split("\n"))) <= 120
    for parameter in schema["parameters"]:
        assert f"\n    {parameter['name']} (" in text


@pytest.mark.parametrize("name", NAMES)
def test_signature_is_the_schema(name):
    signature = inspect.signature(getattr(ops, name))
    names = [parameter["name"] for parameter in schemas()[name]["parameters"]]
    assert list(signature.parameters) == [*names, "layout", "device"]


@pytest.mark.parametrize("name", NAMES)
def test_string_defaults_are_among_the_choices(name):
    for parameter in schemas()[name]["parameters"]:
        if parameter.get("type") != "string":
            continue  # words in place of numbers
        if parameter.get("choices") and not parameter["required"] and parameter["default"] is not None:
            assert parameter["default"] in parameter["choices"]


def test_activations_are_the_unary_ops():
    (choices,) = (p["choices"] for p in schemas()["conv2d"]["parameters"] if p["name"] == "activation")
    unary = {name for name, schema in schemas().items() if schema["kind"] == "unary"}
    assert set(choices) - {"gelu_erf", "gelu_tanh"} == unary - {"logical_not", "isnan", "isinf"}


def test_signatures_are_those_of_torch():
    """Positions count where users write them: the first arguments of torch's functions, in its order."""
    expected = {
        "conv2d": "x weight bias stride padding dilation groups",
        "conv_transpose2d": "x weight bias stride padding output_padding groups dilation",
        "linear": "x weight bias",
        "max_pool2d": "x kernel_size stride padding dilation ceil_mode",
        "avg_pool2d": "x kernel_size stride padding ceil_mode count_include_pad",
        "adaptive_avg_pool2d": "x output_size",
        "batch_norm": "x running_mean running_var weight bias",
        "layer_norm": "x normalized_shape weight bias eps",
        "rms_norm": "x normalized_shape weight eps",
        "group_norm": "x num_groups weight bias eps",
        "softmax": "x dim",
        "leaky_relu": "x negative_slope",
        "elu": "x alpha",
        "softplus": "x beta threshold",
        "clip": "x min max",
        "prelu": "x weight",
        "where": "condition x y",
        "sum": "x dim keepdim",
        "argmax": "x dim keepdim",
        "topk": "x k dim largest sorted",
        "concat": "tensors dim",
        "pad": "x pad mode value",
        "index_select": "x dim index",
        "embedding": "index weight",
        "gather": "x dim index",
        "interpolate": "x size scale_factor mode align_corners",
        "local_response_norm": "x size alpha beta k",
        "reshape": "x shape",
        "flatten": "x start_dim end_dim",
        "permute": "x dims",
        "transpose": "x dim0 dim1",
        "squeeze": "x dim",
        "unsqueeze": "x dim",
        "split": "x split_size_or_sections dim",
        "dropout": "x p training",
    }
    for name, order in expected.items():
        names = [parameter["name"] for parameter in schemas()[name]["parameters"]]
        assert " ".join(names[: len(order.split())]) == order


@pytest.mark.parametrize("tool", ["ops_stub", "ops_page"])
def test_what_is_made_from_the_schemas_is_current(tool):
    """pylayout/ops.pyi and docs/reference/ops/: `python tools/<tool>.py` writes them anew."""
    path = Path(__file__).parent.parent / "tools" / f"{tool}.py"
    done = subprocess.run([sys.executable, path, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
