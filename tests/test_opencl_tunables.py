"""Tunables of kernels: every value that a kernel file documents compiles on its own.

A tunable is written as
    #ifndef TILE_W
    #define TILE_W 4  // columns per work-item: 1, 2, 4, 8
    #endif
"""

import re

import pytest
from test_opencl_kernels import FILES, KERNELS, build, expand, queue  # noqa: F401  (queue is a fixture)

TUNABLE = re.compile(
    r"^#ifndef (\w+)\n#define \1 (\d+)[ ]+//[^\n]*:[ ]+((?:\d+(?:, )?)+(?: to \d+)?)(?: \([^)]*\))?\s*\n#endif",
    re.MULTILINE,
)


def tunables(path: str) -> "list[tuple[str, int, list[int]]]":
    found = []
    for name, default, values in TUNABLE.findall(expand(path)):
        bounds = re.fullmatch(r"(\d+) to (\d+)", values)
        choices = [int(bounds[1]), int(bounds[2])] if bounds else [int(v) for v in values.split(", ")]
        found.append((name, int(default), choices))
    return found


CASES = [
    (path, name, value)
    for path in FILES
    for name, default, values in tunables(path)
    for value in values
    if value != default
]


def test_tunables_are_found() -> None:
    names = {name for _, name, _ in CASES}
    assert {"TILE_VECTORS", "TILE_PIXELS", "TILE_ROWS", "TILE_K", "VECTOR", "LOCAL_X"} <= names


def test_defaults_are_among_the_values() -> None:
    for path in FILES:
        for name, default, values in tunables(path):
            low, high = min(values), max(values)
            assert low <= default <= high, f"{path}: {name} is {default}, documented as {values}"


@pytest.mark.slow
@pytest.mark.parametrize(("path", "name", "value"), CASES, ids=[f"{p}-{n}-{v}" for p, n, v in CASES])
def test_compiles_with_each_value(queue, path: str, name: str, value: int) -> None:  # noqa: F811
    assert (KERNELS / path).exists()
    build(queue, f"#define {name} {value}\n" + expand(path))
