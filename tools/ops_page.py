"""Write docs/reference/ops/, the reference of the ops, from the schemas: a page a family, and an index.

python tools/ops_page.py           writes them
python tools/ops_page.py --check   fails if one is not current
"""

import inspect
import sys
import textwrap
from pathlib import Path

from generated import write_or_check

from pylayout import calls, composed, op_functions, ops

FOLDER = Path(__file__).parent.parent / "docs" / "reference" / "ops"

INDEX_HEAD = """# Ops

Made by `tools/ops_page.py` from the schemas (`src/ops/`), as are the docstrings: do not edit.

Each op is a function of `pylayout.ops`. It takes tensors, NumPy arrays, anything with DLPack or the buffer protocol,
and numbers. Every op also takes `layout` ("auto", "per-op" or a layout to force where an implementation has it),
`device`, and `out`, a tensor of the result's shape and dtype to write into, which may be an input. In C the same names
go to `pl_op_run` ([ABI](../abi.md)), and `out` is a result's handle that is given. Shapes are logical, (n, c, d, h, w),
whatever the order in memory. dtypes: f32, f16, bf16, s8, u8, s32, s64, bool. Given a Value of a `pylayout.Graph`, an op
is appended to that graph instead.
Which provider runs an op in which dtype and layout: [Support](../support.md).

An `activation` is the name of any function of one tensor but `logical_not`, `isnan` and `isinf`; or `gelu_erf` (the
same as `gelu`) or `gelu_tanh` (its approximation).
"""

# The pages: file, title, the schemas' kinds. Ops made of other ops have the kind "composed:" and their name.
FAMILIES = [
    ("convolution", "Convolution", ["conv", "conv_transpose"]),
    (
        "matrix",
        "Matrix products and attention",
        [
            "linear",
            "linear_nbits",
            "matmul",
            "grouped_mm",
            "attention",
            "rotary_embedding",
            "selective_scan",
            "composed:einsum",
        ],
    ),
    (
        "pooling",
        "Pooling and resizing",
        ["pool", "adaptive_pool", "pool_indices", "resize", "grid_sample", "roi_align"],
    ),
    ("normalisation", "Normalisation and softmax", ["batch_norm", "layer_norm", "group_norm", "lrn", "softmax"]),
    ("activation", "Functions of one tensor", ["unary", "prelu", "cast"]),
    ("arithmetic", "Functions of two tensors and more", ["binary", "where", "pointwise", "composed:masked_fill"]),
    (
        "reduction",
        "Reductions, running sums and selection",
        [
            "reduce",
            "arg_reduce",
            "cumsum",
            "topk",
            "searchsorted",
            "non_max_suppression",
            "composed:all",
            "composed:any",
            "composed:std",
            "composed:var",
        ],
    ),
    (
        "shape",
        "Shape and views",
        [
            "reshape",
            "flatten",
            "squeeze",
            "unsqueeze",
            "permute",
            "transpose",
            "expand",
            "slice",
            "split",
            "identity",
            "composed:chunk",
            "composed:unbind",
        ],
    ),
    (
        "movement",
        "Joining, copying and look-up",
        [
            "concat",
            "pad",
            "tile",
            "gather",
            "gather_elements",
            "embedding_bag",
            "scatter",
            "scatter_nd",
            "slice_scatter",
            "tensor_scatter",
            "reorder",
            "channel_shuffle",
            "interleave",
            "fold",
            "composed:stack",
            "composed:flip",
            "composed:one_hot",
        ],
    ),
    ("fourier", "Fourier transforms", ["fourier"]),
    ("recurrent", "Recurrent layers", ["recurrent"]),
    ("random", "Random numbers", ["random", "random_permutation", "random_dropout"]),
    ("quantised", "Quantisation", ["quantize_linear", "dequantize_linear", "quantized_conv", "quantized_matmul"]),
    ("fused", "Fused blocks", ["squeeze_excite", "squeeze_excite_backward"]),
    (
        "training",
        "Training: gradients, losses, steps",
        [
            "conv_backward_weights",
            "grouped_mm_backward_weights",
            "batch_norm_training",
            "batch_norm_backward",
            "layer_norm_backward",
            "group_norm_backward",
            "attention_backward",
            "recurrent_backward",
            "pool_backward",
            "resize_backward",
            "grid_sample_backward",
            "roi_align_backward",
            "selective_scan_backward",
            "cross_entropy",
            "cross_entropy_backward",
            "gather_backward",
            "gather_elements_backward",
            "optimizer_step",
            "all_finite",
            "composed:binary_cross_entropy",
            "composed:binary_cross_entropy_with_logits",
            "composed:huber_loss",
            "composed:l1_loss",
            "composed:mse_loss",
            "composed:nll_loss",
            "composed:rmsprop_step",
            "composed:smooth_l1_loss",
        ],
    ),
]

TYPES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "string": "str",
    "ints": "int or ints",
    "floats": "float or floats",
    "post-ops": "text or list of steps",
}


def cell(text: str) -> str:
    """Text inside of a table."""
    for mark in "\\|*<":
        text = text.replace(mark, "\\" + mark)
    return text


def signature(schema: dict) -> str:
    """conv2d(x, weight, bias=None, ...)"""
    words = [f"{name}={default}" if default else name for name, default in op_functions.signature_of(schema)]
    return f"{schema['name']}({', '.join(words)})"


def kind_of(parameter: dict) -> str:
    """What a parameter takes."""
    if parameter["kind"] == "attribute":
        none = not parameter["required"] and parameter["default"] is None
        return TYPES[parameter["type"]] + (" or None" if none else "")
    return {"tensor": "tensor", "optional_tensor": "tensor or None", "tensors": "tensors"}[parameter["kind"]]


def section(schema: dict) -> str:
    """One op."""
    title, _, body = schema["doc"].strip().partition("\n\n")
    call = textwrap.wrap(signature(schema), 110, subsequent_indent="    ")
    lines = [f"## {schema['name']}", "", cell(title), "", "```python", *call, "```"]
    if body:
        lines += ["", "```text"]
        for line in body.split("\n"):
            lines += textwrap.wrap(line, 110, break_long_words=False) or [""]
        lines.append("```")
    lines += ["", "| parameter | takes | meaning |", "|---|---|---|"]
    for parameter in schema["parameters"]:
        choices = parameter.get("choices") or []
        # Activations are listed at the top; words in place of numbers are explained with them.
        listed = 0 < len(choices) <= 8 and parameter["type"] == "string"
        doc = parameter["doc"] + (f" (one of {', '.join(choices)})" if listed else "")
        lines.append(f"| `{parameter['name']}` | {kind_of(parameter)} | {cell(doc)} |")
    return "\n".join(lines)


def composed_section(name: str) -> str:
    """One op made of others."""
    title, _, body = inspect.getdoc(composed.COMPOSED[name]).partition("\n\n")
    words = [str(p).split(":")[0] + (f"={p.default!r}" if p.default is not p.empty else "") for p in own(name)]
    lines = [f"## {name}", "", cell(title), "", "```python", f"{name}({', '.join(words)})", "```"]
    return "\n".join([*lines, "", "```text", body, "", "Made of other ops, known to Python only.", "```"])


def own(name: str) -> list[inspect.Parameter]:
    """Its parameters, but for `layout`, `device` and `out`, which all ops have."""
    return list(composed.signature_of(name).parameters.values())[:-2]


def families() -> dict[str, tuple[str, list[str]]]:
    """By page: its title, and its ops by name. Fails for a kind that no page lists, and for one that is gone."""
    kinds = {name: schema["kind"] for name, schema in calls.schemas().items()}
    kinds |= {name: f"composed:{name}" for name in composed.COMPOSED}
    listed = {kind: page for page, _, of_page in FAMILIES for kind in of_page}
    wrong = sorted({*kinds.values()} ^ {*listed})
    if wrong:
        sys.exit(f"FAMILIES of tools/ops_page.py and the schemas disagree about the kinds {', '.join(wrong)}")
    return {
        page: (title, sorted(name for name, kind in kinds.items() if listed[kind] == page))
        for page, title, _ in FAMILIES
    }


def titles() -> dict[str, str]:
    """By op: what it does, in a line."""
    docs = {name: schema["doc"].strip() for name, schema in calls.schemas().items()}
    docs |= {name: inspect.getdoc(function) for name, function in composed.COMPOSED.items()}
    return {name: cell(doc.split("\n")[0]) for name, doc in docs.items()}


def index_page() -> str:
    """All ops, by family."""
    lines = [INDEX_HEAD]
    for page, (title, names) in families().items():
        lines += [f"## [{title}]({page}.md)", "", "| op | |", "|---|---|"]
        lines += [f"| [{cell(name)}]({page}.md#{name}) | {titles()[name]} |" for name in names] + [""]
    aliases = [f"`{alias}` = `{target}`" for alias, target in sorted(ops.ALIASES.items())]
    return "\n".join([*lines, f"Other names: {', '.join(aliases)}.", ""])


def family_page(title: str, names: list[str]) -> str:
    """The ops of one family."""
    schemas = calls.schemas()
    head = f"# {title}\n\nMade by `tools/ops_page.py`: do not edit. What all ops have in common: [Ops](index.md).\n"
    sections = [section(schemas[name]) if name in schemas else composed_section(name) for name in names]
    return "\n".join([head, "\n\n".join(sections)]) + "\n"


def pages() -> dict[Path, str]:
    """Every file of the folder."""
    made = {FOLDER / "index.md": index_page()}
    return made | {FOLDER / f"{page}.md": family_page(*of_page) for page, of_page in families().items()}


if __name__ == "__main__":
    made = pages()
    stale = [path for path in FOLDER.glob("*.md") if path not in made]
    sys.exit(write_or_check(made, "ops_page.py", stale))
