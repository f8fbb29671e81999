"""Which folder of the core may include which: dependencies point down, and only providers know each other's names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pylayout.calls import schemas

SOURCE = Path(__file__).parent.parent / "src"
PROVIDERS = sorted(folder.name for folder in (SOURCE / "providers").iterdir() if folder.is_dir())
SHARED = r"providers/[^/]+\.h"  # what all providers have in common
# What files of a folder may include.
MAY_INCLUDE = {
    "core": ["core/.*"],
    "ops": ["core/.*", "ops/.*"],
    "profile": ["core/.*", "profile/.*"],
    "dispatch": ["core/.*", "ops/.*", "profile/.*", "dispatch/.*", SHARED],
    "graph": ["core/.*", "ops/.*", "profile/.*", "dispatch/.*", "graph/.*", SHARED],
}


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".cpp"))


def code(path: Path) -> str:
    """A file without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def strays(folder: Path, allowed: list[str]) -> list[str]:
    return [
        f"{path.relative_to(SOURCE)} includes {name}"
        for path in files(folder)
        for name in re.findall(r'#include "([^"]+)"', path.read_text())
        if "/" in name and not any(re.fullmatch(pattern, name) for pattern in allowed)
    ]


def test_includes_point_down() -> None:
    assert [stray for folder, allowed in MAY_INCLUDE.items() for stray in strays(SOURCE / folder, allowed)] == []


def test_providers_do_not_include_dispatch_or_each_other() -> None:
    for name in PROVIDERS:
        allowed = ["core/.*", "ops/.*", f"providers/{name}/.*", SHARED]
        found = [
            s
            for s in strays(SOURCE / "providers" / name, allowed)
            if "providers/" in s.split("includes ")[1]
            or any(s.split("includes ")[1].startswith(above) for above in ("dispatch/", "graph/", "abi/"))
        ]
        assert found == []


DECLARED_TYPES = (r"(?:template <.*> )?(?:struct|class|enum class|enum) (\w+)\b(?![,>])", r"using (\w+) =")


def bodies(path: Path, namespace: str) -> list[str]:
    """What lies in a file's namespaces of this name."""
    # The comment behind a namespace's last brace leaves spaces, which tell it from a class's or a function's.
    return re.findall(rf"^namespace {namespace}\{{\n(.*?)^\}} +$", code(path), re.DOTALL | re.MULTILINE)


def own_names(path: Path) -> set[str]:
    """What a file declares in anonymous namespaces, outside of classes and functions."""
    declared = set()
    for body in bodies(path, ""):
        for line in re.findall(r"^[\w\[].*", body, re.MULTILINE):
            for pattern in (
                *DECLARED_TYPES,
                r"(?:static |inline |constexpr |const )+[\w:<>,*& ]+? (\w+)(?:\[.*\])?(?: =|\{|;)",
                r"[\w:<>,*& ]+?[ *&](\w+)\(",
            ):
                if found := re.match(pattern, line):
                    declared.add(found[1])
                    break
            if line.startswith("const"):  # more than one of a type
                declared.update(re.findall(r", (k[A-Z]\w*)(?:\[[^]]*\])? =", line))
    return declared


def types_included(paths: list[Path]) -> dict[str, str]:
    """The types that these files see in headers of src/ by their mere names, each with its header."""
    around = {found[1] for path in paths if (found := re.search(r"^namespace ([\w:]+) \{", code(path), re.MULTILINE))}
    enclosing = {"::".join(name.split("::")[:n]) for name in around for n in range(1, name.count("::") + 2)}
    headers: set[Path] = set()
    while paths:
        named = {SOURCE / name for path in paths for name in re.findall(r'#include "([^"]+/[^"]+)"', path.read_text())}
        paths = [path for path in named - headers if path.exists()]
        headers.update(paths)
    return {
        name: header.name
        for header in headers
        for body in bodies(header, rf"(?:{'|'.join(enclosing)}) ")
        for pattern in DECLARED_TYPES
        for name in re.findall("^" + pattern, body, re.MULTILINE)
    }


def test_files_compiled_together_have_names_of_their_own() -> None:
    """CMakeLists.txt, pl_compile_together: small files of a folder may be compiled as one."""
    (limit,) = re.findall(r"bytes GREATER (\d+)\)", (SOURCE.parent / "CMakeLists.txt").read_text())
    alone = re.compile(r"(?:conv_micro|winograd)_")  # with an instruction set of their own
    clashes, names = [], 0
    for place in [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]:
        together = [
            path
            for path in sorted(place.glob("*.cpp"))
            if path.stat().st_size <= int(limit) and not alone.match(path.name)
        ]
        seen = types_included(together)  # one file's own type would hide it from the others
        names -= len(seen)
        for path in together:
            for name in own_names(path):
                if name in seen:
                    clashes.append(f"{path.relative_to(SOURCE)}: {name} is in {seen[name]}, too")
                seen[name] = path.name
        names += len(seen)
    assert not clashes
    assert names > 1000  # they are found


def test_units_of_dispatch_do_not_know_the_context() -> None:
    """It owns them; `candidate_runs` is a user of it, as graph/ is."""
    allowed = {"context.cpp", "candidate_runs.h", "candidate_runs.cpp"}
    units = [path for path in files(SOURCE / "dispatch") if path.name not in allowed]
    assert [path.name for path in units if '"dispatch/context.h"' in path.read_text()] == []
    named = re.compile(r"\bContext\b")
    assert [path.name for path in units if path.name != "context.h" and named.search(code(path))] == []
    assert len(units) > 30


def test_dispatch_and_graph_name_no_provider_and_no_device() -> None:
    """Neither by a literal nor by asking a device's properties, which are for people, what its traits say."""
    named = re.compile(r'"(?:' + "|".join(PROVIDERS) + r')[":/]|is_cpu|host_memory\(|"(?:cpu|gpu|accelerator|type)"')
    found = []
    for folder in ("dispatch", "graph"):
        for path in files(SOURCE / folder):
            found += [f"{path.relative_to(SOURCE)}: {match}" for match in named.findall(code(path))]
    assert found == []
    assert named.search('properties.find("type")') and named.search('type->second != "cpu"')


# Comparisons with the name or kind of an op, by file.  What a rewrite asks of an op, its schema states (ops/rules.h);
# an op that it builds, or whose formula it recognises, is named once, in graph/named_ops.cpp: 21 of them.
NAMED_OPS = {"graph/named_ops.cpp": 30}


def comparisons_of_ops(text: str) -> list[str]:
    """Where code compares an op's name or kind: with a literal, or a schema's with anything.

    Names of functions of one argument (`activation.function == "relu"`) are data of ops, and keys of options no ops.
    """
    names = "|".join({name for schema in schemas().values() for name in (schema["name"], schema["kind"])})
    literal = re.compile(rf'[^\n]*?\b(\w+)\)* *[!=]= *"(?:{names})"|[^\n]*?"(?:{names})" *[!=]= *(\w+)')
    others = {"function", "key"}
    found = [match[0] for match in literal.finditer(text) if not others & {match[1], match[2]}]
    asked = re.compile(r"[^\n]*\bschema(?:\(\))?(?:->|\.)(?:name|kind)\b *[!=]=[^\n]*")
    return found + [match[0] for match in asked.finditer(text) if not literal.search(match[0])]


def test_no_list_of_ops_in_graph_and_dispatch() -> None:
    found = {}
    for folder in ("compiler", "dispatch", "graph"):
        for path in files(SOURCE / folder):
            if lines := comparisons_of_ops(code(path)):
                found[str(path.relative_to(SOURCE))] = lines
    assert {name: len(lines) for name, lines in found.items()} == NAMED_OPS, found


@pytest.mark.parametrize(
    "line",
    [
        'if (node.schema->kind == "matmul") return;',
        'const bool adds = name == "add";',
        'return "concat" != kind;',
        "if (first.schema->name != second.schema->name) return;",
    ],
)
def test_comparisons_of_ops_are_found(line: str) -> None:
    assert len(comparisons_of_ops(line)) == 1


def test_other_comparisons_are_not() -> None:
    assert comparisons_of_ops('options.layout != "auto"; activation.function == "relu"; mode == "constant"') == []


def test_no_untyped_pointers_in_tensors() -> None:
    assert "void>" not in code(SOURCE / "core" / "tensor.h")


KEY = re.compile(r'\bKey<([\w:]+)> *(\w+)\{"(\w+)"\}')
KEYS = SOURCE / "ops" / "attribute_keys.h"
TYPES = {
    "bool": "bool",
    "int64_t": "int",
    "double": "float",
    "std::string": "string",
    "Ints": "ints",
    "Floats": "floats",
    "PostOps": "post-ops",
}


def test_keys_of_attributes_are_declared_once() -> None:
    """One for each name and type, sorted, and called by the name; of several types of a name all but one end in it."""
    keys = KEY.findall(code(KEYS))
    assert len(keys) == code(KEYS).count("Key<") > 100
    assert [variable for _, variable, _ in keys] == sorted(variable for _, variable, _ in keys)
    assert len({(name, type) for type, _, name in keys}) == len(keys)
    assert [key for key in keys if key[1] not in (key[2], f"{key[2]}_{TYPES[key[0]]}")] == []
    assert {name for _, _, name in keys} == {name for _, variable, name in keys if variable == name}
    declared = {(type, name) for type, _, name in keys}
    again = [
        path
        for path in files(SOURCE)
        if path != KEYS
        for key in KEY.findall(code(path))
        if (key[0], key[2]) in declared
    ]
    assert again == []


def test_keys_of_attributes_are_those_of_schemas() -> None:
    """Each attribute has a key of its type, and each key is used."""
    types = {(name, TYPES[type]) for type, _, name in KEY.findall(code(KEYS))}
    attributes = {
        (parameter["name"], parameter["type"])
        for schema in schemas().values()
        for parameter in schema["parameters"]
        if parameter["kind"] == "attribute"
    }
    assert attributes - types == set() and len(attributes) > 80
    text = "".join(code(path) for path in files(SOURCE) if path != KEYS)
    used = set(re.findall(r"\battr::(\w+)", text))
    assert {variable for _, variable, _ in KEY.findall(code(KEYS))} == used
