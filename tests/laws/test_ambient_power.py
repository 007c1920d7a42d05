"""The core has no ambient power: what it touches, it was handed.

Every module of the package is core unless `POWERFUL` names it, so a new module starts without
power. The core may import only what `HARMLESS` lists: a module that can reach a file, a socket,
a process, a clock or a source of randomness does not belong there.
"""

import ast
import sys

import pytest

from tests.laws.repository import PACKAGE, parse

POWERFUL = {
    "__init__": "looks public names up in their modules when they are first asked for",
    "build": "the composition root: hands clock, randomness and stores to the core",
    "client": "speaks with servers, over sockets",
    "ending_signals": "asks whether this process outlives its terminal",
    "first_step": "runs event loops, in whichever thread takes a step",
    "fronts": "speaks with the outside: terminals, processes, sockets",
    "handed_over": "waits for another thread, and knows its own process",
    "held_signals": "puts off the handlers of signals",
    "hooks": "hands what happened to other systems",
    "late_module": "loads modules of ours when they are first asked for",
    "notifiers": "tells people elsewhere, over sockets and by a program",
    "portal": "runs the event loop in a thread for blocking callers",
    "sandboxes": "a sandbox is what starts programs",
    "sparse_files": "writes to files that stores and working copies hold open",
    "sqlite": "the database behind the state and volumes",
    "postgres": "the other database behind the state and volumes",
    "state": "the authority's own database, beside its key",
    "stores": "a store is what touches the disk",
    "working_copies": "keeps what commands changed in folders of the state directory",
    "tools": "a module that can be called, which it makes itself by its entry in sys.modules",
    "testing": "plants hostile trees and injects faults",
}

HARMLESS = {
    "__future__", "abc", "array", "asyncio", "base64", "binascii", "bisect", "bz2", "codecs",
    "collections", "concurrent", "contextlib", "contextvars", "copy", "dataclasses", "difflib",
    "encodings", "enum", "errno", "fnmatch", "functools", "hashlib", "heapq", "inspect",
    "itertools", "json", "logging", "lzma", "math", "operator", "re", "shlex", "stat", "string",
    "struct", "textwrap", "threading", "tomllib", "types", "typing", "unicodedata", "warnings",
    "weakref", "zlib", "bailiwick", "msgspec", "re2", "zstandard",
}  # fmt: skip

FORBIDDEN_CALLS = {"open", "eval", "exec", "compile", "__import__", "input", "breakpoint"}

# What harmless modules offer all the same: power by another door.
FORBIDDEN_ATTRIBUTES = {
    ("asyncio", "create_subprocess_exec"),
    ("asyncio", "create_subprocess_shell"),
    ("asyncio", "open_connection"),
    ("asyncio", "open_unix_connection"),
    ("asyncio", "start_server"),
    ("asyncio", "start_unix_server"),
    ("bz2", "BZ2File"),
    ("bz2", "open"),
    ("codecs", "open"),
    ("hashlib", "file_digest"),
    ("logging", "FileHandler"),
    ("logging", "basicConfig"),
    ("logging", "config"),
    ("logging", "handlers"),
    ("lzma", "LZMAFile"),
    ("lzma", "open"),
    ("shlex", "shlex"),
    ("zstandard", "open"),
}


def imported_modules(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "."]
    return []


def powers_used(tree):
    """Each use of ambient power in a module, as (line, what)."""
    for node in ast.walk(tree):
        for name in imported_modules(node):
            if name.partition(".")[0] not in HARMLESS:
                yield node.lineno, f"imports {name}"
        match node:
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    if (module, alias.name) in FORBIDDEN_ATTRIBUTES:
                        yield node.lineno, f"imports {module}.{alias.name}"
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                yield node.lineno, f"calls {name}()"
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                if (name, attribute) in FORBIDDEN_ATTRIBUTES:
                    yield node.lineno, f"uses {name}.{attribute}"


def core_files(package=PACKAGE):
    for path in sorted(package.rglob("*.py")):
        top = path.relative_to(package).parts[0].removesuffix(".py")
        if top not in POWERFUL:
            yield path


def test_the_core_has_no_ambient_power():
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line} {what}"
        for path in core_files()
        for line, what in powers_used(parse(path))
    ]
    assert found == []


def test_every_powerful_module_exists():
    """An exception that nobody needs any more is taken off the list."""
    existing = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()}
    assert POWERFUL.keys() <= existing


def test_only_the_standard_library_and_the_core_dependencies_are_harmless():
    # zstandard: unpacks bytes, and is imported only where an archive needs it.
    assert HARMLESS - sys.stdlib_module_names == {"bailiwick", "msgspec", "re2", "zstandard"}


@pytest.mark.parametrize(
    "planted",
    [
        "import os",
        "import os.path as p",
        "from pathlib import Path",
        "from io import BytesIO",
        "import time",
        "from time import monotonic as clock",
        "from datetime import datetime",
        "import random",
        "import ctypes",
        "import importlib",
        "def read(p):\n    import socket",
        "def read(p):\n    with open(p) as f: pass",
        "__import__('os')",
        "import asyncio\nasyncio.create_subprocess_exec('rg')",
        "from asyncio import open_connection",
        "import codecs\ncodecs.open('f')",
        "from . import stores",
    ],
)
def test_planted_power_is_found(planted):
    assert list(powers_used(ast.parse(planted)))


def test_a_new_module_is_core_until_declared_otherwise(tmp_path):
    package = tmp_path / "bailiwick"
    (package / "stores").mkdir(parents=True)
    (package / "stores" / "disk.py").write_text("import os\n")
    (package / "brand_new.py").write_text("import os\n")
    assert [path.name for path in core_files(package)] == ["brand_new.py"]
