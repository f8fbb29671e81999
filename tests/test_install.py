"""What a C embedder gets from `cmake --install`: the library, its header, pkg-config and the CMake package.

The library is taken from PYLAYOUT_BUILD_DIR (`make test` sets it), else built here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = r"""
#include <pylayout.h>
#include <stdio.h>
int main(void) { puts(pl_version()); return 0; }
"""
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(embedder C)
find_package(pylayout 0.1 REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE pylayout::pylayout)
"""


def tool(name: str) -> str:
    """A program beside this Python, else on the PATH."""
    path = shutil.which(name, path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]))
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def run(*command, **kwargs) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def version() -> str:
    return re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)[1]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    cmake = tool("cmake")
    build = os.environ.get("PYLAYOUT_BUILD_DIR")
    if not build:
        build = tmp_path_factory.mktemp("build")
        run(cmake, "-S", ROOT, "-B", build, "-DPYLAYOUT_PYTHON=OFF", f"-DPython_EXECUTABLE={sys.executable}")
        run(cmake, "--build", build, "--parallel", os.cpu_count() or 1)
    prefix = tmp_path_factory.mktemp("prefix")
    run(cmake, "--install", build, "--prefix", prefix, "--component", "embed")
    return prefix


@pytest.fixture(scope="module")
def library(prefix) -> Path:
    return next(prefix.glob("lib*/**/libpylayout.so"))


@pytest.fixture
def program(tmp_path) -> Path:
    (tmp_path / "program.c").write_text(PROGRAM, encoding="utf-8")
    return tmp_path / "program.c"


def test_library_is_versioned(library):
    assert library.is_symlink()
    assert (library.parent / "libpylayout.so.0").is_symlink()
    assert library.resolve().name == f"libpylayout.so.{version()}"


def test_only_pl_symbols_are_exported(library):
    names = [line.split()[-1] for line in run(tool("nm"), "-D", "--defined-only", library).splitlines()]
    assert "pl_version" in names
    assert [name for name in names if not name.startswith("pl_")] == []


def test_run_path_can_be_overridden(library):
    """RUNPATH is searched after LD_LIBRARY_PATH, RPATH before it."""
    dynamic = run(tool("readelf"), "-d", library)
    assert "(RUNPATH)" in dynamic
    assert "(RPATH)" not in dynamic


def test_installed_files_name_no_build_or_source_folder(prefix):
    texts = [path for path in prefix.rglob("*") if path.suffix in (".pc", ".cmake", ".h")]
    assert {path.name for path in texts} >= {"pylayout.pc", "pylayout-config.cmake", "pylayout.h"}
    for path in texts:
        assert str(ROOT) not in path.read_text(encoding="utf-8"), path


def test_tables_of_costs_are_found_where_they_are_installed(prefix, library):
    """By the library there, loaded in a process of its own."""
    code = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
context, text = ctypes.c_void_p(), ctypes.c_char_p()
assert lib.pl_context_create(b"opencl=false", ctypes.byref(context)) == 0
assert lib.pl_costs_describe(context, ctypes.byref(text)) == 0
print(json.dumps([table["path"] for table in json.loads(text.value)["tables"] if not table["imported"]]))
"""
    found = json.loads(run(sys.executable, "-c", code, library))
    shipped = {path.name for path in (ROOT / "pylayout" / "costs").glob("*.costs")}
    assert shipped and {Path(path).name for path in found} == shipped
    assert all(Path(path).resolve().is_relative_to(prefix.resolve()) for path in found)


def test_pkg_config(prefix, program):
    pkg_config = tool("pkg-config")
    folder = next(prefix.glob("lib*/**/pkgconfig"))
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    assert version().startswith(run(pkg_config, "--modversion", "pylayout", env=env).strip())
    flags = run(pkg_config, "--cflags", "--libs", "pylayout", env=env).split()
    binary = program.with_suffix("")
    run(tool("cc"), "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", program, "-o", binary, *flags)
    out = run(binary, env={**os.environ, "LD_LIBRARY_PATH": str(folder.parent)})
    assert out.strip() == version()


def test_cmake_package(prefix, program, tmp_path):
    cmake = tool("cmake")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(cmake, "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "program").strip() == version()
