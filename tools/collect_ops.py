"""Write the ops of networks as cases of `pylayout verify`: pylayout/verify/networks.json.

    PYTHONPATH=. python tools/collect_ops.py [--add] MODEL.onnx ...      models of any kind
    PYTHONPATH=. python tools/collect_ops.py [--add] resnet50 vgg16 ...  torchvision's, exported here

Each different op is listed once, with the networks that have it: the ops of the graph as plans run it, after the
passes. --add keeps what the file holds. Weights do not matter, so none are written.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from pylayout.calls import schemas
from pylayout.onnx import load as load_onnx
from pylayout.verify.case import Case
from pylayout.verify.reference import REFERENCES, load

TARGET = Path(__file__).resolve().parent.parent / "pylayout" / "verify" / "networks.json"


def export(name: str, folder: Path) -> Path:
    """A network of torchvision's as a model file."""
    import torch

    from bench.torchvision_models import import_torchvision

    models = import_torchvision()
    special = {"googlenet": {"aux_logits": False, "init_weights": False}, "inception_v3": {"init_weights": False}}
    network = getattr(models, name)(**special.get(name, {})).eval()
    if name == "inception_v3":
        network.aux_logits, network.AuxLogits = False, None
    size = 299 if name == "inception_v3" else 224
    torch.backends.mha.set_fastpath_enabled(False)
    path = folder / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = torch.zeros(1, 3, size, size)
        torch.onnx.export(network, (image,), str(path), dynamo=False, opset_version=17, do_constant_folding=True)
    return path


def cases_of(path: Path, name: str) -> list[Case]:
    described: dict[str, Any] = load_onnx(path).simplify().describe()
    values = {value["name"]: value for value in [*described["inputs"], *described["constants"]]}
    cases = []
    for node in described["nodes"]:
        inputs = tuple(
            None if each is None else f"{values[each]['dtype']}:{'x'.join(map(str, values[each]['shape']))}"
            for each in node["inputs"]
        )
        values.update({value["name"]: value for value in node["outputs"]})
        if node["op"] not in REFERENCES:
            continue  # a view
        defaults = {p["name"]: p.get("default") for p in schemas()[node["op"]]["parameters"]}
        attributes = {key: value for key, value in node["attributes"].items() if value != defaults.get(key)}
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        cases.append(Case(node["op"], inputs, attributes, "", name))
    return cases


def main() -> None:
    load()
    names = [word for word in sys.argv[1:] if word != "--add"]
    if not names:
        sys.exit(__doc__)
    found: dict[str, Case] = {}
    if "--add" in sys.argv:
        found = {case.key: case for case in map(Case.from_json, json.loads(TARGET.read_text("utf-8")))}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(name) if name.endswith(".onnx") else export(name, Path(folder))
            for case in cases_of(path, path.stem):
                known = found.get(case.key)
                origins = dict.fromkeys([*known.origin.split(), case.origin] if known else [case.origin])
                found[case.key] = Case(case.op, case.inputs, case.attributes, "", " ".join(origins))
            print(f"{name}: {len(found)} different ops so far", flush=True)
            if not name.endswith(".onnx"):
                path.unlink()
    lines = ",\n".join(json.dumps(case.to_json()) for case in found.values())
    TARGET.write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
