"""Compiled models in forked processes, as DataLoaders make them: PyTorch runs the graphs, as plans are the parent's."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

SCRIPT = """
import logging, os, sys, torch, pylayout.torch
logging.basicConfig(stream=sys.stdout, format="%(message)s")
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
fast = torch.compile(model, backend="pylayout", dynamic=True)

def check(function, n):  # PyTorch's own autograd refuses forked children of parents that used it
    x = torch.randn(n, 6)
    with torch.no_grad():
        torch.testing.assert_close(function(x), model(x), rtol=1e-5, atol=1e-5)

if sys.argv[1] == "used":
    check(fast, 3)
else:
    with torch.no_grad():
        torch.compile(torch.nn.Linear(3, 3), backend="pylayout")(torch.ones(1, 3))
sys.stdout.flush()
child = os.fork()
if child == 0:
    try:
        for n in (3, 5):
            check(fast, n)
        check(torch.compile(lambda x: model(x * 1), backend="pylayout"), 4)
        graph = pylayout.torch.report().graphs[-1]
        assert not graph.plans and "forked" in graph.left[0][1], graph
        sys.stdout.flush()
        os._exit(0)
    except BaseException as error:
        print(error, flush=True)
        os._exit(1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
check(fast, 4)
assert pylayout.torch.report().graphs[-1].plans
print("ended", status)
"""


@pytest.mark.parametrize("parent", ["used", "used another"])
def test_a_compiled_model_runs_in_a_forked_child(parent: str) -> None:
    run = [sys.executable, "-W", "ignore", "-c", SCRIPT, parent]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert done.stdout.count("expected for speed") == 1, done.stdout + done.stderr
    assert "defect" not in done.stdout and done.stdout.splitlines()[-1] == "ended 0", done.stdout + done.stderr
