"""Generate the C source of the Python extension pylayout._core from the public header.

    make_core.py HEADER OUT.c [CALLBACKS.cdef [HELPERS.c]]

cffi wants declarations without preprocessor lines; the header itself is what the C compiler sees afterwards, so every
prototype is checked against it. CALLBACKS.cdef, where it exists, holds `extern "Python" { ... }` declarations: C
functions whose body is Python, for the callbacks that the header takes; and the declarations of what HELPERS.c adds,
a piece of C that is compiled into the extension.
"""

import re
import sys
from pathlib import Path

import cffi

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
# In a constant's value, names and operators are the compiler's to work out: cffi needs the kind alone, and the
# value only of a plain integer, which may be an array's length.
INTEGER = re.compile(r"^\(?(\d+|0[xX][0-9a-fA-F]+)[uUlL]*\)?$")
FLOAT = re.compile(r"^[-+(\s]*(\d+\.\d*|\.\d+|\d+[eE])")


class HeaderError(Exception):
    """The header holds something that this small reader does not know."""


def strip_comments(text: str) -> str:
    def keep_strings(match: "re.Match[str]") -> str:
        token = match.group()
        return token if token[0] in "\"'" else " "

    return TOKEN.sub(keep_strings, text)


class Preprocessor:
    """Follows #if and #define as far as a public C header needs: no macro of another header is defined."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.functions: set[str] = set()
        self.constants: dict[str, str] = {}  # name: declaration
        self.active = [True]  # one entry for each open #if
        self.taken: list[bool] = []  # whether a branch of that #if was active already

    def condition(self, text: str, line: str) -> bool:
        """`defined(X)` joined by !, &&, || and 0 or 1."""
        known = {**self.objects, **dict.fromkeys(self.functions, "")}
        text = re.sub(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))", lambda m: "1" if (m[1] or m[2]) in known else "0", text)
        text = re.sub(r"\b[A-Za-z_]\w*\s*\([^()]*\)", "0", text)  # __has_attribute(x)
        text = re.sub(r"\b[A-Za-z_]\w*\b", "0", text)  # an undefined name is 0, as in C
        if not re.fullmatch(r"[\s0-9LUu()!&|<>=]+", text):
            raise HeaderError(f"cannot judge the condition: {line}")
        text = re.sub(r"(\d+)[LUu]+", r"\1", text)
        text = text.replace("&&", " and ").replace("||", " or ")
        text = re.sub(r"!(?!=)", " not ", text)
        return bool(eval(text, {"__builtins__": {}}))

    def directive(self, line: str) -> None:
        match = re.match(r"#\s*(\w+)\s*(.*)", line, re.S)
        if not match:
            return
        name, rest = match[1], match[2].strip()
        if name in ("ifdef", "ifndef", "if"):
            if name != "if":
                rest = f"{'!' if name == 'ifndef' else ''}defined({rest})"
            value = all(self.active) and self.condition(rest, line)
            self.active.append(value)
            self.taken.append(value)
        elif name in ("else", "elif"):
            value = not self.taken[-1] and all(self.active[:-1]) and (name == "else" or self.condition(rest, line))
            self.active[-1] = value
            self.taken[-1] = self.taken[-1] or value
        elif name == "endif":
            self.active.pop()
            self.taken.pop()
        elif not all(self.active):
            return
        elif name == "define":
            self.define(rest, line)
        elif name == "undef":
            self.objects.pop(rest, None)
            self.functions.discard(rest)
        elif name not in ("include", "pragma", "error", "warning"):
            raise HeaderError(f"unknown directive: {line}")

    def define(self, rest: str, line: str) -> None:
        match = re.match(r"(\w+)(\()?\s*(.*)", rest, re.S)
        if not match:
            raise HeaderError(f"cannot read: {line}")
        name, is_function, value = match[1], match[2], match[3].strip()
        if is_function:
            self.functions.add(name)
            return
        self.objects[name] = value
        if not value or re.match(r"(__|extern\b|static\b|inline\b|_Noreturn\b)", value):
            return  # an attribute or a guard: taken out of the text below
        if value.startswith('"'):
            self.constants[name] = f"static const char *const {name};"
        elif FLOAT.match(value):
            self.constants[name] = f"static const double {name};"
        else:
            integer = INTEGER.match(value)
            self.constants[name] = f"#define {name} {integer[1] if integer else '...'}"

    def run(self, text: str) -> str:
        text = strip_comments(text.replace("\\\n", " "))
        kept = []
        for line in text.splitlines():
            if line.lstrip().startswith("#"):
                self.directive(line.strip())
            elif all(self.active):
                kept.append(line)
        if len(self.active) != 1:
            raise HeaderError("an #if without its #endif")
        body = "\n".join(kept)
        for name in [name for name in self.objects if name not in self.constants]:
            replacement = "" if self.objects[name].startswith("__") else self.objects[name]
            body = re.sub(rf"\b{name}\b", replacement, body)
        for name in self.functions:
            body = re.sub(rf"\b{name}\s*\([^()]*\)", "", body)
        body = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", body, flags=re.S)
        return body


def cdef(header: str) -> str:
    """The declarations of a header, as cffi takes them."""
    preprocessor = Preprocessor()
    body = preprocessor.run(header)
    body = re.sub(r"[ \t]+\n", "\n", body)
    return re.sub(r"\n{2,}", "\n", "\n".join(preprocessor.constants.values()) + "\n" + body)


def main(header: str, out: str, callbacks: str = "", helpers: str = "") -> None:
    ffi = cffi.FFI()
    ffi.cdef(cdef(Path(header).read_text(encoding="utf-8")))
    if callbacks and Path(callbacks).exists():
        ffi.cdef(strip_comments(Path(callbacks).read_text(encoding="utf-8")))
    source = '#include "pylayout.h"\n'
    if helpers and Path(helpers).exists():
        source += Path(helpers).read_text(encoding="utf-8")
    ffi.set_source("pylayout._core", source, py_limited_api=True)
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
