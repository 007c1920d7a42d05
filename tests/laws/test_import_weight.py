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


def modules_after(statement):
    """The modules that the statement loads into an interpreter that has asyncio."""
    script = (
        "import sys, asyncio; before = set(sys.modules); "
        f"{statement}; print(*set(sys.modules) - before)"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", script], check=True, capture_output=True, text=True
    )
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
