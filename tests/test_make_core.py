"""cmake/make_core.py: what it makes of a header."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
cffi = pytest.importorskip("cffi")

HEADER = r"""
/* A comment with #define NOT_THIS 1 */
#ifndef H
#define H
#include <stddef.h>
#if defined(_WIN32) && !defined(PL_STATIC)
#define PL_API __declspec(dllexport)
#elif defined(__GNUC__) || (__STDC_VERSION__ >= 199901L)
#define PL_API __attribute__((visibility("default")))
#else
#define PL_API
#endif
#define PL_DEPRECATED(text) __attribute__((deprecated(text)))
#define PL_MAX_DIMS 12  // at most
#define PL_BOTH (PL_MAX_DIMS | \
                 (1u << 4))
#define PL_TOLERANCE 1e-3
#define PL_NAME "a // b"
#ifdef __cplusplus
extern "C" {
#endif
typedef enum pl_kind { PL_A = 0, PL_B = 1 << 3, } pl_kind;
typedef struct pl_thing pl_thing;
typedef void (*pl_release)(void* context);
typedef struct pl_desc { int ndim; long long dims[PL_MAX_DIMS]; pl_release release; const char* name; } pl_desc;
PL_API PL_DEPRECATED("use another") int pl_make(const pl_desc* desc, pl_kind kind, pl_thing** out);
PL_API size_t pl_size(const pl_thing* thing);
#ifdef __cplusplus
}
#endif
#endif
"""


@pytest.fixture(scope="module")
def make_core():
    spec = importlib.util.spec_from_file_location("make_core", ROOT / "cmake" / "make_core.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # its main() runs only as a script
    return module


def test_header_becomes_declarations(make_core):
    text = make_core.cdef(HEADER)
    for name in ("PL_API", "PL_DEPRECATED", "NOT_THIS", "extern", "#if", "#include"):
        assert name not in text
    ffi = cffi.FFI()
    ffi.cdef(text)
    assert ffi.typeof("pl_kind").relements == {"PL_A": 0, "PL_B": 8}
    assert [name for name, _ in ffi.typeof("pl_desc *").item.fields] == ["ndim", "dims", "release", "name"]


def test_constants_keep_their_kind(make_core):
    lines = make_core.cdef(HEADER).splitlines()
    assert "#define PL_MAX_DIMS 12" in lines
    assert "#define PL_BOTH ..." in lines
    assert "static const double PL_TOLERANCE;" in lines
    assert "static const char *const PL_NAME;" in lines


@pytest.mark.parametrize("text", ["#if 1\n", "#if defined(X) ? 1 : 0\n#endif\n", "#frobnicate\n"])
def test_unreadable_header_is_refused(make_core, text):
    with pytest.raises(make_core.HeaderError):
        make_core.cdef(text)


def test_the_public_header_is_read_whole(make_core):
    header = (ROOT / "src" / "pylayout.h").read_text(encoding="utf-8")
    declared = make_core.cdef(header)
    for line in header.splitlines():
        if line.startswith("PL_API ") and "(" in line:
            function = line.split("(")[0].split()[-1].lstrip("*")
            assert f"{function}(" in declared
