"""`import bailiwick` loads no heavy module; each is imported by the first call that needs it.

Counted beyond `asyncio`, which every caller of an asynchronous library has loaded anyway.
"""

import subprocess
import sys

import pytest

HEAVY = {
    "anthropic", "apsw", "asyncpg", "blake3", "click", "ctypes", "email", "fsspec", "fuse", "http",
    "hypothesis", "importlib.metadata", "langchain_core", "mcp", "multiprocessing", "obstore",
    "openai", "pathspec", "pydantic", "pytest", "re2", "rich", "socketserver", "sqlite3",
    "starlette", "tarfile", "unittest", "urllib.request", "uvicorn", "watchfiles",
    "xml", "zipfile", "zstandard",
}  # fmt: skip


def modules_after(statement, *arguments):
    """The modules that the statement loads into an interpreter that has asyncio."""
    script = (
        "import sys, asyncio; before = set(sys.modules); "
        f"{statement}; print(*set(sys.modules) - before)"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", script, *map(str, arguments)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return set(run.stdout.split())


def heavy(statement):
    return sorted(modules_after(statement) & HEAVY)


@pytest.mark.spec("PY-3")
def test_import_loads_nothing_heavy():
    assert heavy("import bailiwick; bailiwick.open, bailiwick.Scope, bailiwick.open_sync") == []


@pytest.mark.spec("PY-3")
@pytest.mark.parametrize(
    "planted",
    ["re2", *(pytest.param(name, marks=pytest.mark.slow)
              for name in ("pathspec", "http.client", "email.message"))],
)  # fmt: skip
def test_a_planted_heavy_import_is_noticed(planted):
    assert heavy(f"import bailiwick, {planted}; bailiwick.open") != []


@pytest.mark.spec("PY-3")
def test_reading_and_writing_loads_nothing_of_what_few_programs_do(tmp_path, monkeypatch):
    """Neither configuration, nor what looks for programs and names temporary places."""
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    loaded = modules_after(
        "import bailiwick; opening = bailiwick.open_sync(sys.argv[1]);"
        " scope = opening.__enter__(); scope.write_text('a', 'b'); scope.read_text('a');"
        " opening.__exit__(None, None, None)",
        tree,
    )  # fmt: skip
    few = {
        "difflib", "importlib.resources", "pathlib", "tempfile", "tomllib",
        "bailiwick.build.mounts.opened_mounts", "bailiwick.build.overlay", "bailiwick.config",
        "bailiwick.scope.rooms", "bailiwick.verbs.branches", "bailiwick.verbs.code",
        "bailiwick.verbs.commands", "bailiwick.verbs.history", "bailiwick.verbs.leases",
        "bailiwick.verbs.review", "bailiwick.verbs.runs", "bailiwick.verbs.watch",
        "bailiwick.verbs.working_copies",
    }  # fmt: skip
    assert "bailiwick.stores.disk" in loaded
    assert loaded & few == set()


@pytest.mark.spec("PY-3")
def test_what_is_extra_is_not_needed_for_what_is_not():
    """Not even where an authority, a volume or a server's client is used."""
    optional = {
        "asyncpg", "fsspec", "fuse", "h11", "httpx", "mcp", "obstore", "uvicorn", "zstandard",
    }  # fmt: skip
    statement = (
        "import bailiwick.build.governed, bailiwick.stores.volume, bailiwick.client,"
        " bailiwick.fronts.cli"
    )
    assert modules_after(statement) & optional == set()
