"""The pages of the site, staged in the layout of the repository: links lead where they do there.

`python -m release.site` fills `build/site-pages`; mkdocs makes the site of it (`make site`). Two
pages are made here: the reference, of all public names, and the examples.
"""

from __future__ import annotations

import functools
import re
import shutil
import sys
import types
from pathlib import Path

import bailiwick
from release.source_tree import ROOT

PLACE = ROOT / "build" / "site-pages"
PAGES = (
    "README.md", "SPEC.md", "SECURITY.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md",
    "bench/RESULTS.md", "bench/PROFILES.md",
)  # fmt: skip
FOLDERS = ("docs", "examples", "clients/typescript/examples")
_REFERENCE = """\
# Python

Every public name of `bailiwick`, from its docstring. [guide.md](guide.md) shows the verbs at work.
"""
_LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def stage() -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, PLACE / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PAGES:
        (PLACE / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, PLACE / name)
    for folder, suffix in (("examples", ".py"), ("clients/typescript/examples", ".mjs")):
        (PLACE / folder / "README.md").write_text(examples(ROOT / folder, suffix), "utf-8")
    (PLACE / "docs" / "api.md").write_text(reference(), encoding="utf-8")
    for page in PLACE.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(_LINK.sub(functools.partial(resolved, page), text), encoding="utf-8")


def resolved(page: Path, link: re.Match[str]) -> str:
    """A link to a folder is one to its page; a file that is linked to is part of the site."""
    target, anchor = link["target"], link["anchor"] or ""
    meant = (page.parent / target).resolve()
    if meant.is_dir():
        return f"]({target.rstrip('/')}/README.md{anchor})"
    if not meant.exists() and meant.is_relative_to(PLACE):
        original = ROOT / meant.relative_to(PLACE)
        if original.is_file():
            meant.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(original, meant)
    return link[0]


def examples(folder: Path, suffix: str) -> str:
    """A page with every program of a folder."""
    language = {".py": "python", ".mjs": "js"}[suffix]
    programs = (
        f"## {path.name}\n\n```{language}\n{path.read_text(encoding='utf-8')}```\n"
        for path in sorted(folder.glob(f"*{suffix}"))
    )
    return "\n".join(["# Examples\n", *programs])


def reference() -> str:
    """The page of public names: what each is, from its docstring. mkdocstrings fills it in."""
    groups: dict[str, list[str]] = {"Opening": [], "Types": [], "Errors": []}
    for name in sorted(bailiwick.__all__):
        meant = getattr(bailiwick, name)
        if not str(getattr(meant, "__module__", "bailiwick")).startswith("bailiwick"):
            continue
        if isinstance(meant, type):
            group = "Errors" if issubclass(meant, BaseException) else "Types"
        elif isinstance(meant, types.ModuleType | types.FunctionType):
            group = "Opening"
        else:
            continue  # a value: its type is on the page
        inner = getattr(meant, "__qualname__", "")
        where = f"{meant.__module__}.{inner}" if inner else meant.__name__
        groups[group].append(f"::: {where}\n")
    told = (f"## {group}\n\n" + "\n".join(entries) for group, entries in groups.items())
    return "\n".join([_REFERENCE, *told])


if __name__ == "__main__":
    stage()
    sys.exit(0)
