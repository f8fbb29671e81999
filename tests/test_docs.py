"""The documentation: links hold, every page is found, examples run, commands parse, generated pages are current."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import docs_site  # noqa: E402

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
EVERYWHERE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "kernels/README.md", *PAGES]
LESSONS = ["README.md", *(page for page in PAGES if page.startswith(("docs/tutorial/", "docs/howto/")))]

# What somebody new asks, and words of the answer. The first ten are what is asked most.
QUESTIONS = {
    "How do I install it?": r"pip install \.",
    "How do I run a first op?": r"^y = ops\.conv2d\(x, w",
    "How do I use it from C?": r"find_package\(pylayout",
    "How do I compile an ONNX model?": r'^plan = pl\.compile\("model\.onnx"',
    "How do I train with PyTorch?": r"^loss\.backward\(\)",
    "How do I read a profile?": r"^## The report$",
    "How do I add an op?": r"^### An op$",
    "How do I add a device?": r"^### A device$",
    "Which layouts are there?": r"^\| activations \| .*`nChw16c`",
    "How is a layout chosen?": r"candidate with the least sum of",
    "What is faster than peers, what slower?": r"^\| what \| faster \| equal \| slower \|",
    "What does conv2d compute?": r"^## conv2d$",
    "Which ONNX ops are there?": r"^\| Conv \|",
    "How fast is it?": r"^Speed of pylayout's plans relative to the fastest peer",
    "Where does it keep its cache?": r"^\| `PYLAYOUT_CACHE_DIR`",
}


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def links_from(page: str) -> list[str]:
    """The files in the repository that a page links to."""
    targets = [docs_site.target_of(page, link) for link in docs_site.links_of(text_of(page))]
    return [target for target in targets if target]


def slugs(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", docs_site.without_blocks(text_of(page)), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words.replace("\\", "")).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", EVERYWHERE)
def test_links_hold(page: str) -> None:
    for link in docs_site.links_of(text_of(page)):
        target, anchor = docs_site.target_of(page, link), link.partition("#")[2]
        if link.startswith("#"):
            target = page
        if not target:
            continue
        assert (ROOT / target).exists(), f"{page} links to {link}, which is no file"
        if anchor:
            assert anchor in slugs(target), f"{page} links to {link}, which is no heading of {target}"


def test_every_page_belongs_to_a_section() -> None:
    assert docs_site.navigation()[1] == [], "link to these pages from the index.md of a section"


def test_sections_are_those_of_the_folder() -> None:
    assert set(docs_site.SECTIONS) == {path.parent.name for path in (ROOT / "docs").glob("*/index.md")}


def pages_within(clicks: int) -> dict[str, list[str]]:
    """The pages so many links from README, each with the pages on the shortest way there."""
    ways = {"README.md": ["README.md"]}
    for _ in range(clicks):
        for page, way in list(ways.items()):
            for target in links_from(page):
                if target.endswith(".md"):
                    ways.setdefault(target, [*way, target])
    return ways


@pytest.mark.parametrize(("question", "answer"), QUESTIONS.items(), ids=list(QUESTIONS))
def test_answers_are_two_clicks_away(question: str, answer: str) -> None:
    ways = pages_within(2)
    found = [way for page, way in ways.items() if re.search(answer, text_of(page), re.MULTILINE)]
    assert found, f"{question} No page within two links from README.md says {answer}"
    assert len(found) <= 5, f"{question} Too common to be an answer: {answer} is on {len(found)} pages"


def code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in LESSONS if code_blocks(page, "python")])
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's blocks of Python, one after another in one program, beside a small model.onnx and its image.npy."""
    if "model.onnx" in "".join(code_blocks(page, "python")):
        write_model(tmp_path)
    # Nothing is measured: what the examples show does not depend on it.
    program = "\n".join(['import pylayout; pylayout.configure(tune="off")', *blocks_that_run(page)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def blocks_that_run(page: str) -> list[str]:
    """Where PyTorch is used, a small model goes before; without PyTorch, what needs it is left out."""
    blocks = code_blocks(page, "python")
    if not any("torch.compile" in block or "import torch " in block for block in blocks):
        return blocks
    if importlib.util.find_spec("torch") is None:
        return [block for block in blocks if "torch" not in block and "fast(" not in block]
    if not has_ocl():
        return [TORCH_MODEL, *(block for block in blocks if "ocl" not in block)]
    return [TORCH_MODEL, "import pylayout.ocl; pylayout.ocl.load()", *blocks]


def has_ocl() -> bool:
    """Whether PyTorch's device is there, as in an environment of users who follow these pages."""
    import torch

    import pylayout
    from pylayout.ocl.build import VERSIONS

    known = torch.__version__.startswith(tuple(f"{version}." for version in VERSIONS))
    return known and any(device.name.startswith("opencl") for device in pylayout.devices())


# The program that the pages about PyTorch begin in the middle of.
TORCH_MODEL = """
import torch, pylayout.torch, pylayout as pl
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5))
images, labels, criterion = torch.randn(2, 3, 8, 8), torch.tensor([1, 2]), torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def write_model(folder: Path) -> None:
    """A convolution and a mean, as ONNX, and an image for it."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    weight = onnx.numpy_helper.from_array(rng.standard_normal((8, 3, 3, 3)).astype(np.float32), "weight")
    value = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Conv", ["image", "weight"], ["h"], pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Relu", ["h"], ["r"]),
        onnx.helper.make_node("GlobalAveragePool", ["r"], ["scores"]),
    ]
    f32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes, "small", [value("image", f32, (1, 3, 32, 32))], [value("scores", f32, (1, 8, 1, 1))], [weight]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    np.save(folder / "image.npy", rng.standard_normal((1, 3, 32, 32)).astype(np.float32))


COMMANDS = sorted(
    {
        (page, line.strip().partition("  #")[0].strip())
        for page in EVERYWHERE
        if not page.startswith(("docs/notes/", "docs/reference/"))
        for line in text_of(page).split("\n")
        if re.match(r"(    |\$ )pylayout [a-z]", line)
    }
)


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_commands_parse(page: str, command: str) -> None:
    """`pylayout …` in the pages, but for what stands for something else: […], … and NAME|NAME."""
    from pylayout.cli import _parser

    if any(sign in command for sign in "[…|") or command.endswith("\\"):
        pytest.skip("a pattern, not a command")
    _parser().parse_args(shlex.split(command)[1:])


def test_settings_name_every_environment_variable() -> None:
    sources = [*(ROOT / "src").rglob("*.cpp"), *(ROOT / "pylayout").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    sources += [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tests").rglob("*.h"), *(ROOT / "tests").rglob("*.cpp")]
    read = re.compile(r"""(?:getenv\(|variable\(|environ\.get\(|environ\[|environ\.setdefault\()"(PYLAYOUT_\w+)""")
    used = {name for path in sources for name in read.findall(path.read_text("utf-8"))}
    listed = set(re.findall(r"^\| `(PYLAYOUT_\w+)`", text_of("docs/reference/settings.md"), re.MULTILINE))
    assert used == listed


@pytest.mark.parametrize(
    "tool", ["abi_page", "array_api_page", "ci_page", "cli_page", "python_page", "results_page", "support_page"]
)
def test_generated_pages_are_current(tool: str) -> None:
    path = ROOT / "tools" / f"{tool}.py"
    done = subprocess.run([sys.executable, path, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_figures_of_readme_follow_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another figure in the data makes another README."""
    import results_page

    devices = results_page.load()
    before = results_page.figures(devices)
    assert before in text_of("README.md")
    for row in devices["zen5"][0]["rows"]:
        row["ratio"] *= 2
    assert results_page.figures(devices) != before


def test_a_new_record_becomes_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a benchmark writes is what the pages are made of, a benchmark without a table of its own included."""
    import results_page
    from results_plots import plots_of

    sys.path.insert(0, str(ROOT))
    from bench.record import record

    monkeypatch.setattr(sys, "argv", ["bench", "winograd", "--batch", "1", "--json", "out.json"])
    made = record("winograd", [{"shape": [1, 64, 56, 56, 64], "onednn_ms": 2.0, "winograd_ms": 1.0, "ratio": 2.0}])
    assert made["command"] == "python -m bench.winograd --batch 1"
    assert made["machine"]["processors"] >= 1 and made["versions"]["pylayout"]
    made["file"] = "here/winograd"
    page = results_page.device_page([made], {"here/winograd": plots_of(made)})
    assert "| 2.00 |" in page and made["command"] in page and made["date"] in page


def test_benchmarks_write_records() -> None:
    """Every benchmark that takes --json writes it by bench/record.py."""
    for path in (ROOT / "bench").glob("*.py"):
        text = path.read_text("utf-8")
        if '"--json"' in text and path.stem != "record":
            assert "write(options.json" in text, path.name


def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the extra `docs` is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
