"""Packages of npm that are measured or measured with, installed once outside the repository."""

import os
import shutil
import subprocess
from pathlib import Path


def installed(package: str, version: str) -> Path:
    """The folder of a package, fetched if need be. With its version in the name of the place:
    another one is fetched anew."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(os.environ.get("BAILIWICK_NPM") or os.path.join(cache, "bailiwick", "npm-bench"))
    place /= f"{package.replace('/', '+')}-{version}"
    folder = place / "node_modules" / package
    if not folder.exists():
        if shutil.which("npm") is None:
            raise SystemExit(f"{package} needs node and npm")
        place.mkdir(parents=True, exist_ok=True)
        wanted = f"{package}@{version}"
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), wanted],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return folder
