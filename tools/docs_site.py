"""What mkdocs does not do by itself for the site of docs/ (mkdocs.yml names this file as a hook).

- README.md and CONTRIBUTING.md, which lie outside of docs/, become pages of the site.
- Links from a page to a file outside of docs/ lead to a copy of that file.
- The navigation is a section a folder. A section's pages stand in the order in which its index.md links to them; a page
  in docs/ itself (docs/pytorch.md) belongs to the section whose index.md links to it first. A page that no index.md
  links to is a warning, which `mkdocs build --strict` takes for an error.
- The pages of CONTRIBUTORS are a section of their own, whoever links to them.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# The sections of the site, in this order: folder and title.
SECTIONS = {
    "tutorial": "Tutorial",
    "howto": "How to",
    "reference": "Reference",
    "explanation": "Explanation",
    "results": "Results",
    "notes": "Notes",
}
# For who changes the project: pages below docs/ that stand with CONTRIBUTING.md.
CONTRIBUTORS = ["testing.md", "reference/ci.md", "publish.md"]
# Files outside of docs/ that are pages of the site, and where.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}

_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(_BLOCK.pattern + r"|`[^`\n]*`", re.DOTALL | re.MULTILINE)

log = logging.getLogger("mkdocs.hooks.docs_site")


def without_blocks(text: str) -> str:
    """A page's text without its blocks of code."""
    return _BLOCK.sub("", text)


def links_of(text: str) -> list[str]:
    """The targets of a page's links and pictures, but not those in its code."""
    return [match.group(2) for match in _LINK.finditer(_CODE.sub("", text))]


def is_elsewhere(target: str) -> bool:
    """A link to another site, or within the page."""
    return "://" in target or target.startswith(("#", "mailto:"))


def target_of(page: str, link: str) -> str:
    """The file that a link of `page` leads to, both from the repository's root; "" for links to elsewhere."""
    if is_elsewhere(link):
        return ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link.partition("#")[0]))


def section_pages(folder: str, root: Path = ROOT) -> list[str]:
    """The pages of a section, from the repository's root: its index.md, then the pages that this links to."""
    index = f"docs/{folder}/index.md"
    pages = [index]
    for link in links_of((root / index).read_text("utf-8")):
        target = target_of(index, link)
        inside = target.startswith(f"docs/{folder}/") or posixpath.dirname(target) == "docs"
        if target.endswith(".md") and inside and target not in pages and (root / target).is_file():
            pages.append(target)
    return pages


def navigation(root: Path = ROOT) -> tuple[list[dict[str, Any]], list[str]]:
    """mkdocs' `nav`, and the pages that belong to no section (none, unless a link is missing)."""
    glossary = "docs/glossary.md"
    seen = {glossary, *(f"docs/{page}" for page in CONTRIBUTORS)}
    nav: list[dict[str, Any]] = [{"Home": "index.md"}]
    for folder, title in SECTIONS.items():
        pages = []
        for page in section_pages(folder, root):
            if page in seen:
                continue
            seen.add(page)
            name = posixpath.relpath(page, "docs")
            nested = f"docs/{folder}/" in page and name.count("/") > 1 and name.endswith("/index.md")
            pages.append(nested_section(page, seen, root) if nested else name)
        nav.append({title: pages})
    nav += [{"Glossary": "glossary.md"}, {"Contributing": ["contributing.md", *CONTRIBUTORS]}]
    every = {str(path.relative_to(root).as_posix()) for path in (root / "docs").rglob("*.md")}
    return nav, sorted(every - seen)


def nested_section(index: str, seen: set[str], root: Path) -> dict[str, Any]:
    """A folder within a section: its index.md and the pages that this links to."""
    text = (root / index).read_text("utf-8")
    folder = posixpath.dirname(index)
    pages = [index]
    for link in links_of(text):
        target = target_of(index, link)
        if posixpath.dirname(target) == folder and target not in pages and (root / target).is_file():
            pages.append(target)
    seen.update(pages)
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    return {title.group(1) if title else folder: [posixpath.relpath(page, "docs") for page in pages]}


def for_the_site(text: str, page: str, place: str, copied: set[str]) -> str:
    """A page's text with links that hold on the site.

    `page` is its path from the repository's root, `place` that on the site. Files outside of docs/ that it links to are
    added to `copied`, by their path from the repository's root.
    """

    def changed(match: re.Match[str]) -> str:
        link = match.group(2)
        target = target_of(page, link)
        if not target:
            return match.group(0)
        if target.startswith("docs/"):
            found = posixpath.relpath(target, "docs")
        elif target in OUTSIDE:
            found = OUTSIDE[target]
        elif (ROOT / target).is_file():
            copied.add(target)
            found = f"source/{target}"
        else:
            return match.group(0)  # mkdocs warns of it
        anchor = link.partition("#")[2]
        relative = posixpath.relpath(found, posixpath.dirname(place) or ".")
        return match.group(1) + relative + ("#" + anchor if anchor else "") + match.group(3)

    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(changed, text[end : code.start()]), code.group(0)]
        end = code.end()
    return "".join([*parts, _LINK.sub(changed, text[end:])])


# ---- mkdocs' events ----


def on_config(config: Any) -> Any:
    nav, orphans = navigation()
    config["nav"] = nav
    for page in orphans:
        log.warning("%s belongs to no section: link to it from the index.md of one (docs/*/index.md)", page)
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    copied: set[str] = set()
    pages = [(f"docs/{file.src_uri}", file.src_uri) for file in files.documentation_pages()]
    for page, place in [*pages, *OUTSIDE.items()]:
        text = for_the_site((ROOT / page).read_text("utf-8"), page, place, copied)
        if page in OUTSIDE:
            files.append(File.generated(config, place, content=text))
    for path in sorted(copied):
        files.append(File.generated(config, f"source/{path}", content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    source = f"docs/{page.file.src_uri}"
    if page.file.src_uri in OUTSIDE.values():  # done by on_files
        return markdown
    return for_the_site(markdown, source, page.file.src_uri, set())
