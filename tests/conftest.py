"""What all Python tests share: a cache of their own, devices, seeded random numbers."""

import gc
import os
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

# Measured costs and compiled kernels of tests are not the user's, nor those of another process of tests: tests forget
# costs. Before the first import of pylayout.
_cache = tempfile.TemporaryDirectory(prefix="pylayout-tests-")
os.environ["PYLAYOUT_CACHE_DIR"] = _cache.name
# PoCL goes on behind an integer division by zero, of the library too, with any result: here it ends the process.
os.environ.setdefault("POCL_SIGFPE_HANDLER", "0")

import pylayout as pl  # noqa: E402

try:
    import hypothesis
except ImportError:  # a plain installation may run the other tests
    pass
else:
    # The machine may be busy, so no deadline; the seed of a failing example is printed.
    hypothesis.settings.register_profile("pylayout", deadline=None, max_examples=60, print_blob=True)
    hypothesis.settings.load_profile("pylayout")

SEED = int(os.environ.get("TEST_SEED", "20240607"))


def device_names() -> list[str]:
    """cpu and every OpenCL device."""
    return [device.name for device in pl.devices()]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--optimised",
        choices=("all", "only"),
        help="kernels are optimised in all tests; only: and those alone run of which without it they are not",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """Python's collector leaves alone what 16,000 tests are: it would go through all of it again and again."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before tests are taken by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _mark_slow_cases(items)
    if config.getoption("--optimised") == "only":
        others = [item for item in items if "unoptimised" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if "unoptimised" in getattr(item, "fixturenames", ())]


def _mark_slow_cases(items: list[pytest.Item]) -> None:
    """What `one_in(n)` says, for each op in the order of the file: most of such tests' time goes into kernels."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        device = item.callspec.params.get("device", "cpu") if mark and hasattr(item, "callspec") else "cpu"
        if mark is None or device == "cpu":
            continue
        key = (item.nodeid.partition("[")[0], device, getattr(item.callspec.params.get("case"), "op", ""))
        if counts[key] % mark.args[0]:
            item.add_marker(pytest.mark.slow)
        counts[key] += 1


def pytest_report_header() -> list[str]:
    return [f"pylayout {pl.__version__} on {', '.join(device_names())}", f"random seed: TEST_SEED={SEED}"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        only = os.environ.get("PYLAYOUT_TEST_DEVICE")  # "opencl:0": tests of every device run there alone
        metafunc.parametrize("device", [name for name in device_names() if only in (None, name)])


@pytest.fixture
def opencl_device() -> str:
    """The first OpenCL device."""
    names = [name for name in device_names() if name != "cpu"]
    if not names:
        pytest.skip("no OpenCL device: " + "; ".join(pl.device.describe()["providers"][-1]["notes"]))
    return names[0]


@pytest.fixture
def run_as_gpu(opencl_device: str, tmp_path: Path) -> Callable[..., str]:
    """Runs a file as a program whose OpenCL devices are treated as GPUs; what it prints."""
    environment = os.environ | {"PYLAYOUT_OPENCL_AS": "gpu", "PYLAYOUT_CACHE_DIR": str(tmp_path)}

    def run(file: str, *arguments: str) -> str:
        command = [sys.executable, file, *arguments]
        return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout

    return run


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> numpy.random.Generator:
    """Random numbers that depend on the test's name and TEST_SEED only."""
    seed = SEED ^ zlib.crc32(request.node.nodeid.encode())
    print(f"seed {seed} (TEST_SEED={SEED})")
    return numpy.random.default_rng(seed)


@pytest.fixture(scope="session")
def torchvision_models():
    """torchvision.models, as the benchmarks import it."""
    pytest.importorskip("torch")
    sys.path.append(str(Path(__file__).resolve().parent.parent))  # last: an installed pylayout stays the one tested
    from bench.torchvision_models import import_torchvision

    try:
        return import_torchvision()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision does not import: {error}")


@pytest.fixture(scope="module")
def untuned():
    """Choices by the cost model alone, for tests of many shapes whose speed does not matter.

    What other tests measured is forgotten, so that choices don't depend on which of them ran before.
    """
    pl.device.clear_costs()
    pl.set_tuning("off")
    yield
    pl.set_tuning("auto")


def _may_stay_unoptimised() -> bool:
    """Whether the OpenCL devices are PoCL's, of a version that is right without optimising (tests/c/unoptimised.h).

    Kernels for GPUs keep large tiles in registers, and take PoCL longer to compile if it does not optimise them.
    """
    if os.environ.get("PYLAYOUT_OPENCL_AS") == "gpu":
        return False
    versions = [str(device.capabilities["platform_version"]) for device in pl.devices() if device.name != "cpu"]
    return bool(versions) and all(" PoCL " in version and " PoCL 5." not in version for version in versions)


@pytest.fixture(scope="module")
def unoptimised(untuned: None, request: pytest.FixtureRequest):
    """For modules of many kernels, each for a few numbers: PoCL does not optimise them.

    It compiles them in 40 % of the processor time; they run up to sixty times as long. docs/testing.md says where the
    same tests run with kernels as users have them.
    """
    name = "PYLAYOUT_OPENCL_OPTIONS"
    if name in os.environ or request.config.getoption("--optimised") or not _may_stay_unoptimised():
        yield
        return
    os.environ[name] = "-cl-opt-disable"
    yield
    del os.environ[name]
