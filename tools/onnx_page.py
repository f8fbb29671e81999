"""Write docs/reference/onnx.md, what of ONNX is supported, from the converters.

python tools/onnx_page.py           writes it
python tools/onnx_page.py --check   fails if it is not current
"""

import importlib
import re
import sys
import textwrap
from pathlib import Path

import onnx
from generated import write_or_check

from pylayout.onnx.host import HOST
from pylayout.onnx.importer import MAX_OPS
from pylayout.onnx.registry import FIRST_OPSET, LAST_OPSET, converters

ROOT = Path(__file__).parent.parent
PATH = ROOT / "docs" / "reference" / "onnx.md"
sys.path.insert(0, str(ROOT / "tests" / "onnx"))
import exclusions  # noqa: E402

HEAD = f"""# ONNX models

Made by `tools/onnx_page.py` from the converters (`pylayout/onnx/convert/`): not edited by hand.

`pip install '.[onnx]'` in the clone, then

```python
plan = pl.compile("model.onnx")                       # or an onnx.ModelProto, or a file's bytes
plan = pl.compile("model.onnx", shapes={{"x": (16, 3, 224, 224)}})
plan = pl.compile("model.onnx", sizes={{"batch": 8, "tokens": 128}})  # axes that the model names
graph = pylayout.onnx.load("model.onnx")              # the pl.Graph alone: to print, change, compile
backend = pylayout.onnx.Backend.prepare(model)        # ONNX's own interface for backends
```

Opsets {FIRST_OPSET} to {LAST_OPSET}. What is not supported is refused, with the name of the node, its op, domain and
opset.

- **Shapes**: sizes that a model leaves open may be any in a run ([sizes known late](../howto/sizes-known-late.md)).
  Arithmetic on shapes is done at import, and is not in the graph.
- **Values that shapes depend on** are known where they are constants of the model, follow from sizes, or become
  constants by `values={{name: array}}`. "Known" in the table means this. Where they are inputs or follow from data,
  `pl.compile` plans the model by [segments](../explanation/segments.md); `pylayout.onnx.load`, which makes one graph,
  refuses it.
- **Element types** are the library's: float, float16, bfloat16 (with the package ml_dtypes), int8, uint8, int32, int64,
  bool. Ops on the host take other numbers too, and NumPy computes most others for them: what moves,
  reduces or multiplies. Texts and complex numbers are refused.
- **Weights** are used where they lie, in the file's bytes or in the external file, which is mapped. External files
  must lie in the model's folder; absolute paths, `..` and links that lead out of it are refused.
- **Files from anywhere** may be loaded: sizes are checked before memory is taken, a model may become {MAX_OPS} ops at
  most, what is computed from constants at import has a budget, and nothing in a file is executed.
- **Files of ONNX Runtime's tools** (its optimiser for transformers, optimum, onnxruntime-genai) have ops of the domain
  `com.microsoft`. These become the ops that they stand for, as in a model that nothing fused, and plans fuse again what
  pays. `GroupQueryAttention` takes a past that is joined with new keys and values, or a buffer that has room for them.
- **Functions** of a model are put in place, as are `If`, `Loop` and `Scan` where what controls them is known; else
  their subgraphs are planned by themselves.
- **Random numbers**, of dropout in training too, are new in each run. A seed gives one stream of them, for all nodes
  that have it, which runs continue; without one, each import draws a seed. They are not those of other engines for the
  same seed. What a plan draws by are its states: `plan.set_state` with [seed, 0] begins a stream anew.

## Ops

An op is understood from the opset given on; there are several where its meaning changed. An attribute that is not
understood is refused, so that no op is computed in another way than the model says.
"""


def title_of(module_name: str) -> str:
    """The first sentence of a family's docstring."""
    text = (importlib.import_module(module_name).__doc__ or "").strip().split("\n")[0]
    return re.split(r"[:.]", text)[0]


def families() -> dict[str, dict[str, list[tuple[int, str]]]]:
    """By family, by op: since which opset, and what is not supported."""
    found: dict[str, dict[str, list[tuple[int, str]]]] = {}
    history = onnx.defs.get_all_schemas_with_history()
    for (domain, op), entries in sorted(converters().items()):
        for entry in entries:
            name = f"{domain}.{op}" if domain else op
            versions = found.setdefault(entry.function.__module__, {}).setdefault(name, [])
            oldest = min((s.since_version for s in history if (s.domain, s.name) == (domain, op)), default=0)
            first = FIRST_OPSET if domain == "" else 1
            versions.append((max(entry.since, oldest, first), entry.note))
    return found


def by_definition() -> list[str]:
    """Ops without a converter that ONNX defines by other ops. Some of those may be missing in turn."""
    done = {op for domain, op in converters() if not domain}
    newest = {s.name: s for s in onnx.defs.get_all_schemas() if s.domain == "" and s.since_version <= LAST_OPSET}
    return sorted(
        name
        for name, schema in newest.items()
        if name not in done and (schema.has_function or schema.has_context_dependent_function)
    )


def page() -> str:
    lines = [HEAD]
    for module, ops in sorted(families().items(), key=lambda item: title_of(item[0])):
        lines += [f"### {title_of(module)}", "", "| op | opsets | |", "|---|---|---|"]
        for op, versions in sorted(ops.items()):
            opsets = ", ".join(f"{since}+" for since, _ in sorted(versions))
            notes = "; ".join(dict.fromkeys(note for _, note in sorted(versions) if note))
            lines.append(f"| {op} | {opsets} | {notes} |")
        lines.append("")
    words = ", ".join(f"`{name}`" for name in by_definition())
    text = f"ONNX defines these by other ops, which are put in their place (one of them may be missing): {words}."
    lines += ["### By their definition", "", *textwrap.wrap(text, 120), ""]
    hosted = ", ".join(f"`{name}`" for name in sorted(op for _, op in HOST))
    text = f"Where no plan can hold them, by sizes that follow from data, or by their element types: {hosted}."
    lines += ["### On the host, between plans", "", *textwrap.wrap(text, 120, break_on_hyphens=False), ""]
    excluded = [(group.reason, len(group.names.split())) for group in exclusions.EXCLUSIONS]
    passing = exclusions.TESTS - sum(count for _, count in excluded)
    text = (
        f"Of the {exclusions.TESTS} node tests of onnx {exclusions.LISTED_FOR} {passing} pass. The others, by name and "
        "with their errors in `tests/onnx/exclusions.py`:"
    )
    lines += ["## ONNX's own tests", "", *textwrap.wrap(text, 120), "", "| why not | tests |", "|---|---|"]
    lines += [f"| {reason} | {count} |" for reason, count in sorted(excluded, key=lambda each: -each[1])]
    lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(write_or_check({PATH: page()}, "onnx_page.py"))
