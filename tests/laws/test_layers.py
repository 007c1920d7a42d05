"""The import graph: dependencies point down, stores know nobody, and there is one door.

The contracts stand in pyproject.toml. Here they are run, and run again on a small tree of the same
modules with one planted import, which the contract named must refuse.
"""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

import grimp
import pytest

from tests.laws.repository import ROOT

CONFIG = ROOT / "pyproject.toml"
LINT_IMPORTS = pathlib.Path(sys.executable).with_name("lint-imports")
PACKAGES = {"stores": ["memory", "disk"], "testing": [], "text": [], "search": [], "verbs": []}

PLANTED = [
    ("errors", "bailiwick.paths", "Dependencies point down only"),
    ("store", "bailiwick.policy", "Dependencies point down only"),
    ("scope", "bailiwick.stores.disk", "Dependencies point down only"),
    ("brand_new", "bailiwick.errors", "Dependencies point down only"),
    ("stores/disk", "bailiwick.stores.memory", "Stores do not know each other"),
    ("stores/disk", "bailiwick.grant", "Stores never learn who asks"),
    ("stores/memory", "bailiwick.operations", "Stores never learn who asks"),
    ("portal", "bailiwick.pipeline", "One door: who reaches the pipeline"),
    ("stores/disk", "bailiwick.pipeline", "One door: who reaches the pipeline"),
    ("portal", "bailiwick.stores.disk", "One door: who reaches the stores"),
    ("sandboxes", "bailiwick.grant", "Sandboxes know their seam only"),
    ("portal", "bailiwick.sandboxes", "One door: who reaches the sandboxes"),
]
FEW = PLANTED[3:5]
"""Those that `make unit` plants: each starts a program that reads the whole package."""


def layers():
    """The top-level modules that the layers contract names, layer by layer."""
    contracts = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["tool"]["importlinter"]
    found = next(c["layers"] for c in contracts["contracts"] if c["id"] == "layers")
    return [re.findall(r"\w+", layer) for layer in found]


def layer_modules():
    return [module for layer in layers() for module in layer]


def lint_imports(package_parent, working_directory):
    return subprocess.run(
        [LINT_IMPORTS, "--config", CONFIG, "--no-cache"],
        cwd=working_directory,
        env={**os.environ, "PYTHONPATH": str(package_parent), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def package_modules():
    for name in ["__init__", *layer_modules()]:
        if name in PACKAGES:
            yield from (f"{name}/{module}" for module in ["__init__", *PACKAGES[name]])
        else:
            yield name


@pytest.fixture
def planted_package(tmp_path):
    """A package of empty modules, one for each that the layers contract names."""
    for module in package_modules():
        path = tmp_path / "bailiwick" / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_the_import_contracts_hold(tmp_path):
    run = lint_imports(ROOT / "src", tmp_path)
    assert run.returncode == 0, run.stdout


def test_the_architecture_shows_the_layers_of_the_contract():
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    shown = re.search(r"## Layers\n.*?```\n   __init__ .*?\n(.*?)```", page, re.DOTALL)[1]
    named = [re.split(r"  +", line.strip())[0].split(" · ") for line in shown.splitlines()]
    assert named == layers()


def test_nothing_inside_imports_the_public_package():
    """`bailiwick/__init__.py` is for callers; from inside it would be a cycle."""
    graph = grimp.build_graph("bailiwick", cache_dir=None)
    assert graph.find_modules_that_directly_import("bailiwick") == set()


def test_an_honest_tree_passes(planted_package):
    run = lint_imports(planted_package, planted_package)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [pytest.param(*row, marks=[] if row in FEW else [pytest.mark.slow]) for row in PLANTED],
)
def test_planted_import_is_refused(planted_package, importer, imported, contract):
    with (planted_package / "bailiwick" / f"{importer}.py").open("a") as module:
        module.write(f"import {imported}\n")
    run = lint_imports(planted_package, planted_package)
    assert run.returncode == 1
    assert f"{contract} BROKEN" in run.stdout
