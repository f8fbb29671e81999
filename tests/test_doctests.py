"""The examples in docstrings run and give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import pylayout

NAMES = sorted(path.stem for path in Path(pylayout.__file__).parent.glob("*.py") if not path.stem.startswith("_"))
MODULES = ["pylayout", *(f"pylayout.{name}" for name in NAMES)]


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    counts = [len(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))]
    assert sum(counts) > 20


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
