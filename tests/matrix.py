"""The fast part of the tests on every Python that there is: `make matrix`.

An interpreter is looked for on the path, among the versions of pyenv and of uv, and where there is
none, uv is asked to install one. A table says how each went, and which were not to be had and why.
Ends with 1 where a version failed, or where fewer than two could be tried.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from tests.laws.repository import ROOT

PLACE = ROOT / ".venv-matrix"
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
"""From the oldest that is supported to the newest that is released."""
LEAST = 2
"""Fewer than this prove nothing about versions."""
ASK = "import sys; print('%d.%d %s' % (*sys.version_info[:2], sys.executable))"


def answers(command, version):
    """The interpreter behind a command, where it is one of this version; a shim may be none."""
    try:
        done = subprocess.run([command, "-c", ASK], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    told, _, path = done.stdout.strip().partition(" ")
    return path if told == version else None


def here(version):
    """An interpreter of a version that this machine has, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [
        sys.executable,
        shutil.which(f"python{version}"),
        *sorted(pyenv.glob(f"versions/{version}.*/bin/python")),
    ]
    return next((path for each in candidates if each and (path := answers(each, version))), None)


def installed(version):
    """An interpreter that uv has installed for us, or in a line why there is none."""
    uv = PLACE / "uv" / "bin" / "uv"
    if not uv.exists():
        venv.create(PLACE / "uv", with_pip=True, clear=True)
        subprocess.run(
            [uv.parent / "python", "-m", "pip", "install", "--quiet", "uv"],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    where = {**os.environ, "UV_PYTHON_INSTALL_DIR": str(PLACE / "pythons"), "UV_HTTP_RETRIES": "0"}
    done = subprocess.run(
        [uv, "python", "install", "--no-bin", version],
        capture_output=True, text=True, env=where, timeout=300,
    )  # fmt: skip
    found = sorted((PLACE / "pythons").glob(f"*-{version}*/bin/python{version}"))
    if done.returncode or not found:
        causes = re.findall(r"(?:error|cause): (.+)", done.stderr) or ["uv gave no reason"]
        return None, re.sub(r"https?://\S+", "its download", causes[-1])
    return str(found[0]), ""


def tried(python):
    """Run `make unit` with an interpreter: whether it went well, and its last line."""
    same = Path(python).resolve() == Path(sys.executable).resolve()
    # The environment of `make test` is there already, for the Python that it was made with.
    chosen = [] if same else [f"PYTHON={python}"]
    done = subprocess.run(
        ["make", "--no-print-directory", "unit", *chosen],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    if done.returncode:
        print("\n".join(lines[-60:]))
    return done.returncode == 0, next(
        (line.strip("= ") for line in lines[::-1] if " in " in line), ""
    )


def promised():
    """The versions that pyproject.toml names to whoever looks for a package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    went, told = {}, {}
    for version in VERSIONS:
        python, why = here(version), ""
        if python is None:
            python, why = installed(version)
        if python is None:
            told[version] = f"not to be had here: {why}"
        else:
            went[version], line = tried(python)
            told[version] = f"{'works' if went[version] else 'FAILS'}: {line}"
        print(f"{version}  {told[version]}", flush=True)
    untried = sorted(promised() - went.keys())
    if untried:
        print(f"promised in pyproject.toml and not tried: {', '.join(untried)}")
    if given.json:
        rows = [{"version": version, "how it went": how} for version, how in told.items()]
        given.json.write_text(json.dumps({"versions": rows}, indent=1) + "\n", encoding="utf-8")
    return int(not all(went.values()) or len(went) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
