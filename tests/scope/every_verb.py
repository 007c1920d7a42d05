"""Every verb of a scope, each once, on a tree where it succeeds: for rules that hold for all."""

from typing import NamedTuple

from bailiwick.model import Edit
from tests.scope.support import plant

SECRET = "marmalade-7f3a"
"""Stands in every file and every argument that is content: it may be on no record."""

TREE = {
    "file.txt": f"one {SECRET}\n",
    "other.txt": f"two {SECRET}\n",
    "data.json": f'{{"a": "{SECRET}"}}\n',
    "dir/inner.txt": f"inner {SECRET}\n",
    "link": "-> file.txt",
}


class Verb(NamedTuple):
    """How to call it, the access it needs, whether it changes anything, and its operation."""

    call: object
    access: frozenset[str]
    changes: bool
    operation: str


def _verb(operation, access, call, changes=False):
    return Verb(call, frozenset(access.split()), changes, operation)


async def _drain(fs):
    return [chunk async for chunk in fs.stream("file.txt")]


def _reading():
    return {
        "read_bytes": _verb("read", "read", lambda fs: fs.read_bytes("file.txt")),
        "read_text": _verb("read", "read", lambda fs: fs.read_text("file.txt")),
        "read_json": _verb("read", "read", lambda fs: fs.read_json("data.json")),
        "stream": _verb("read", "read", _drain),
        "diff": _verb("read", "read", lambda fs: fs.diff("file.txt", "other.txt")),
        "stat": _verb("metadata", "metadata", lambda fs: fs.stat("file.txt")),
        "lstat": _verb("metadata", "metadata", lambda fs: fs.lstat("link")),
        "exists": _verb("metadata", "metadata", lambda fs: fs.exists("file.txt")),
        "readlink": _verb("metadata", "metadata", lambda fs: fs.readlink("link")),
        "list": _verb("list", "list", lambda fs: fs.list()),
        "find": _verb("list", "list", lambda fs: fs.find(pattern="*.txt")),
        "files": _verb("list", "list", lambda fs: fs.files("dir")),
        "glob": _verb("list", "list", lambda fs: fs.glob("**/*.txt")),
        "grep": _verb("search", "read list", lambda fs: fs.grep(SECRET, context=1)),
    }


def _changing():
    write = {
        "write_bytes": lambda fs: fs.write_bytes("new", SECRET.encode()),
        "write_text": lambda fs: fs.write_text("file.txt", SECRET),
        "write_json": lambda fs: fs.write_json("data.json", [SECRET]),
        "write_stream": lambda fs: fs.write_stream("new", [SECRET.encode()]),
        "append": lambda fs: fs.append("file.txt", SECRET),
        "truncate": lambda fs: fs.truncate("file.txt", 3),
        "make_dir": lambda fs: fs.make_dir("made"),
        "symlink": lambda fs: fs.symlink("made", "file.txt"),
        "set_mode": lambda fs: fs.set_mode("file.txt", 0o640),
        "set_times": lambda fs: fs.set_times("file.txt", 10**18),
    }
    edits = [Edit(SECRET, f"new {SECRET}")]
    return {name: _verb("write", "write", call, True) for name, call in write.items()} | {
        "edit": _verb("edit", "read write", lambda fs: fs.edit("file.txt", edits), True),
        "remove": _verb("delete", "delete", lambda fs: fs.remove("dir", recursive=True), True),
        "move": _verb("move", "move write", lambda fs: fs.move("file.txt", "moved"), True),
        "copy": _verb(
            "copy", "read write", lambda fs: fs.copy("dir", "copied", recursive=True), True
        ),
    }


VERBS = _reading() | _changing()
"""All verbs of one root. `copy_from` and `copy_in` take two, and have tests of their own."""

VERSIONED = {
    "compare", "delete_fork", "delete_snapshot", "fork", "forks", "history", "lock", "merge",
    "open_fork", "restore", "snapshot", "snapshots", "transaction", "undo",
}  # fmt: skip
"""What only a store with versions has."""

BESIDES = VERSIONED | {
    "create_archive", "create_temp", "delegate", "extract_archive", "on_change", "watch",
    "exec", "session", "open_session", "work", "open_work", "changes", "apply", "discard",
    "change_cursor", "with_approval", "with_caller", "with_request", "with_text_max",
    "with_run", "runs", "run_info", "run_changes", "review",
}  # fmt: skip
"""What has tests of its own: it needs an archive, a listener or a sandbox, or makes another
scope."""

TWO_ROOTS = {"copy_from", "copy_in"}


async def plant_tree(fs):
    await plant(fs, TREE)
