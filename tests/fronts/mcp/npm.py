"""Packages of npm that tests use: installed once, outside the repository, where there is an npm."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = {
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/sdk": "1.32.2",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
}
"""What is installed, and which version of it: a test must not change by itself."""

FOLDER_VARIABLE = "BAILIWICK_NPM"


def folder():
    given = os.environ.get(FOLDER_VARIABLE)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(given or os.path.join(cache, "bailiwick", "npm-mcp"))


INSTALL_S_MAX = 900
"""A framework is some hundred packages, and the machine may be busy with something else."""


@functools.cache
def installed():
    """The folder of the packages, or in a line why there is none."""
    return installed_in(folder(), PACKAGES)


def installed_in(place, packages):
    """The folder of some packages below a place, each at its version, or in a line why there is
    none."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "node and npm are not installed"
    modules = place / "node_modules"
    if all(_has(modules, name, version) for name, version in packages.items()):
        return modules
    place.mkdir(parents=True, exist_ok=True)
    wanted = [f"{name}@{version}" for name, version in packages.items()]
    try:
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), *wanted],
            capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False,
        )  # fmt: skip
    except BaseException:
        shutil.rmtree(modules, ignore_errors=True)  # half of it would be taken for all
        raise
    if done.returncode != 0:
        return f"npm install failed: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}"
    return modules


def _has(modules, name, version):
    try:
        return f'"version": "{version}"' in (modules / name / "package.json").read_text()
    except OSError:
        return False


def reference_server():
    """The file of the reference server for files, or None."""
    modules = installed()
    if isinstance(modules, str):
        return None
    return modules / "@modelcontextprotocol/server-filesystem/dist/index.js"
