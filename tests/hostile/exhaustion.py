"""When something runs out: space, inodes, descriptors, depth, patience.

Every function here runs behind the wall. In each the verb must fail as `io_error` (or serve), what
was there before must still be there, and nothing may be left lying about.
"""

import asyncio
import contextlib
import errno
import os
import resource
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import bailiwick
from bailiwick.errors import BailiwickError
from tests.hostile import inside
from tests.hostile.corpus import CONTAINMENTS, attempt, count_descriptors
from tests.hostile.layouts import (
    INSIDE_TEXT,
    Layout,
    Seen,
    difference,
    empty,
    litter,
    snapshot,
    without_times,
)
from tests.hostile.verbs import VERBS

KIB = 1024
Act = Callable[[bailiwick.Scope], Awaitable[Any]]


def _place(name: str) -> str:
    root = f"{inside.arena()}/{name}/root"
    os.makedirs(root, exist_ok=True)
    empty(root)
    return root


def _put(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


async def _must_fail(fs: bailiwick.Scope, root: str, name: str, act: Act, number: int) -> list[str]:
    """Run ``act``, which must fail with ``number``, and say what else went wrong."""
    before, descriptors = snapshot(root), count_descriptors()
    faults = []
    try:
        await act(fs)
        faults.append("succeeded")
    except BailiwickError as error:
        if (error.kind, error.errno) != ("io_error", number):
            faults.append(f"{error.kind} ({errno.errorcode.get(error.errno)}): {error}")
    except Exception as error:
        faults.append(f"untyped {type(error).__name__}: {error}")
    after = snapshot(root)
    faults += _unharmed(before, after)
    if count_descriptors() != descriptors:
        faults.append("descriptors were left open")
    return [f"{name}: {fault}" for fault in faults]


def _unharmed(before: dict[str, Seen], after: dict[str, Seen]) -> list[str]:
    if without_times(before) == without_times(after):
        return []
    return [f"changed the tree: {difference(before, after)}"]


# --- space -----------------------------------------------------------------------------------


def _space_hungry() -> dict[str, Act]:
    big = b"x" * (900 * KIB)
    return {
        "write over": lambda fs: fs.write_bytes("old", big),
        "write new": lambda fs: fs.write_bytes("new", big),
        "write new with parents": lambda fs: fs.write_bytes("p/q/new", big, parents=True),
        "write_stream": lambda fs: fs.write_stream("old", [big[: 64 * KIB]] * 14),
        "append": lambda fs: fs.append("old", big),
        "edit": lambda fs: fs.edit("text", old="needle", new="noodle"),
        "truncate": lambda fs: fs.truncate("old", 290 * KIB),
        "copy": lambda fs: fs.copy("old", "copied"),
        "copy a tree": lambda fs: fs.copy("tree", "copied", recursive=True),
        "copy_from": lambda fs: fs.copy_from(fs, "old", "copied"),
    }


async def _disk_full() -> list[str]:
    root = _place("full")
    _put(f"{root}/old", b"o" * (300 * KIB))
    _put(f"{root}/text", b"needle\n" + b"t" * (250 * KIB))
    os.mkdir(f"{root}/tree")
    _put(f"{root}/tree/big", b"b" * (250 * KIB))
    faults = []
    for containment, option in CONTAINMENTS.items():
        async with bailiwick.open(root, containment=option) as fs:
            await fs.write_bytes("filler", b"f" * (64 * KIB))
            for name, act in _space_hungry().items():
                found = await _must_fail(fs, root, name, act, errno.ENOSPC)
                faults += [f"{containment}, {fault}" for fault in found]
            await fs.write_bytes("filler", b"small enough")
            assert (await fs.read_bytes("filler")).data == b"small enough"
    empty(root)
    return faults


def disk_full() -> None:
    faults = asyncio.run(_disk_full())
    assert not faults, "\n".join(faults)


async def _journal_full() -> list[str]:
    """The place for the journal is full: nothing may be changed that could not be cleared up."""
    root, state = _place("case"), _place("inodes")
    _put(f"{root}/f", INSIDE_TEXT.encode())
    with contextlib.suppress(OSError):
        for number in range(64):
            _put(f"{state}/fill{number}", b"")
    assert os.statvfs(state).f_ffree == 0
    before = snapshot(root)
    faults = []
    async with bailiwick.open(root, state_dir=state) as fs:
        try:
            await fs.write_bytes("f", b"new")
        except BailiwickError as error:
            if error.kind != "io_error":
                faults.append(f"{error.kind}: {error}")
            faults += _unharmed(before, snapshot(root))
    empty(state)
    return faults


def journal_full() -> None:
    faults = asyncio.run(_journal_full())
    assert not faults, "\n".join(faults)


# --- inodes ----------------------------------------------------------------------------------


def _inode_hungry() -> dict[str, Act]:
    return {
        "write over": lambda fs: fs.write_bytes("old", b"new"),
        "write new": lambda fs: fs.write_bytes("new", b"new"),
        "write new with parents": lambda fs: fs.write_bytes("p/q/new", b"new", parents=True),
        "append": lambda fs: fs.append("old", b"more"),
        "edit": lambda fs: fs.edit("old", old="needle", new="noodle"),
        "truncate": lambda fs: fs.truncate("old", 1),
        "make_dir": lambda fs: fs.make_dir("new"),
        "make_dir with parents": lambda fs: fs.make_dir("p/q", parents=True),
        "symlink": lambda fs: fs.symlink("new", "old"),
        "copy": lambda fs: fs.copy("old", "copied"),
    }


async def _inodes_gone() -> list[str]:
    root = _place("inodes")
    faults = []
    for containment, option in CONTAINMENTS.items():
        async with bailiwick.open(root, containment=option, durability="rename") as fs:
            await fs.write_bytes("old", INSIDE_TEXT.encode())
            with contextlib.suppress(OSError):
                for number in range(64):
                    os.mkdir(f"{root}/fill{number}")
            assert os.statvfs(root).f_ffree == 0
            for name, act in _inode_hungry().items():
                found = await _must_fail(fs, root, name, act, errno.ENOSPC)
                faults += [f"{containment}, {fault}" for fault in found]
            # What needs no inode still works.
            assert (await fs.read_text("old")).text == INSIDE_TEXT
            await fs.move("old", "renamed")
            await fs.move("renamed", "old")
            await fs.remove("fill0")
        empty(root)
    return faults


def inodes_gone() -> None:
    faults = asyncio.run(_inodes_gone())
    assert not faults, "\n".join(faults)


# --- descriptors -----------------------------------------------------------------------------

SPARE_DESCRIPTORS = range(12)
ON_DIRECTORIES = ("list", "find", "files", "glob", "make_dir_parents", "write_below",
                  "make_dir_below")  # fmt: skip
ON_NEW_NAMES = ("write_create", "make_dir", "move_to", "copy_to", "symlink")
ON_LINKS = ("readlink",)


def _subject(verb: str) -> str:
    if verb in ON_DIRECTORIES:
        return "d"
    if verb in ON_NEW_NAMES:
        return "d/new"
    return "l" if verb in ON_LINKS else "f"


async def _descriptors_gone(containment: str) -> list[str]:
    layout = Layout(f"{inside.arena()}/case", lambda made: made.link("l", "f"), ())
    layout.reset()
    faults = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    options = {"containment": containment, "durability": "rename"}
    async with bailiwick.open(layout.root, **options) as fs:
        for verb in VERBS.values():
            path = _subject(verb.name)
            layout.reset()
            usual = (await attempt(fs, verb, path))[0].kind
            for spare in SPARE_DESCRIPTORS:
                layout.reset()
                before, descriptors = snapshot(layout.root), count_descriptors()
                holes = _fill_holes()
                resource.setrlimit(resource.RLIMIT_NOFILE, (_highest() + 1 + spare, hard))
                try:
                    outcome, error = await attempt(fs, verb, path)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                    for fd in holes:
                        os.close(fd)
                where = f"{verb.name} with {spare} to spare"
                after = snapshot(layout.root)
                if outcome.kind not in (usual, "io_error"):
                    faults.append(f"{where}: {outcome.kind}, not io_error or {usual}: {error}")
                if error is not None:
                    faults += [f"{where}: {fault}" for fault in _unharmed(before, after)]
                if litter(after):
                    faults.append(f"{where}: staging names are left: {litter(after)}")
                if count_descriptors() != descriptors:
                    faults.append(f"{where}: {count_descriptors() - descriptors:+} descriptors")
    return faults


def _highest() -> int:
    return max(int(name) for name in os.listdir("/proc/self/fd"))


def _fill_holes() -> list[int]:
    """Take every free number below the highest one, so that the limit is the only room."""
    taken: list[int] = []
    highest = _highest()
    while True:
        fd = os.open("/dev/null", os.O_RDONLY)
        if fd > highest:
            os.close(fd)
            return taken
        taken.append(fd)


def _descriptors_gone_apart(containment: str) -> None:
    faults = asyncio.run(_descriptors_gone(containment))
    assert not faults, f"{len(faults)} faults\n  " + "\n  ".join(faults[:40])


def descriptors_gone(containment: str) -> None:
    """In an interpreter of its own: the limit is the whole process's."""
    inside.apart(_descriptors_gone_apart, CONTAINMENTS[containment])


# --- files that do not hold still ------------------------------------------------------------


async def _growing_file() -> list[str]:
    root = _place("case")
    _put(f"{root}/log", b"x" * 4096)
    stop = threading.Event()

    def grow() -> None:
        with open(f"{root}/log", "ab", buffering=0) as file:
            for _ in range(2_000):
                if stop.is_set():
                    return
                file.write(b"x" * 8192)

    faults = []
    for option in CONTAINMENTS.values():
        thread = threading.Thread(target=grow)
        async with bailiwick.open(root, containment=option, durability="rename") as fs:
            thread.start()
            try:
                for number in range(60):
                    window = await fs.read_bytes("log", offset=0, length=64 * KIB)
                    if set(window.data) != {ord("x")} or len(window.data) > 64 * KIB:
                        faults.append("a window holds other bytes than were written")
                    size = 0
                    async for chunk in fs.stream("log", length=256 * KIB):
                        size += len(chunk)
                    if size > 256 * KIB:
                        faults.append("a stream gave more than was asked for")
                    if number % 20 == 0:
                        await fs.read_text("log", tail=1)
                        await fs.grep("needle", "log", max_file_bytes=None)
            finally:
                stop.set()
                thread.join()
                stop.clear()
    return faults


def growing_file() -> None:
    faults = asyncio.run(_growing_file())
    assert not faults, "\n".join(faults)


async def _replaced_while_read() -> list[str]:
    """A reader sees one version or another, whole."""
    root = _place("case")
    versions = [bytes([letter]) * (700 * KIB) for letter in b"ab"]
    _put(f"{root}/f", versions[0])
    stop = threading.Event()

    def replace() -> None:
        for number in range(20_000):
            if stop.is_set():
                return
            _put(f"{root}/next", versions[number % 2])
            os.rename(f"{root}/next", f"{root}/f")

    faults = []
    for containment, option in CONTAINMENTS.items():
        thread = threading.Thread(target=replace)
        async with bailiwick.open(root, containment=option, durability="rename") as fs:
            thread.start()
            try:
                for _ in range(150):
                    try:
                        whole = (await fs.read_bytes("f")).data
                        streamed = b"".join([chunk async for chunk in fs.stream("f")])
                    except BailiwickError as error:
                        if error.kind not in ("hash_mismatch", "busy"):
                            faults.append(f"{containment}: {error.kind}: {error}")
                        continue
                    if {whole, streamed} - set(versions):
                        faults.append(f"{containment}: a mix of two versions was read")
            finally:
                stop.set()
                thread.join()
                stop.clear()
    return faults


def replaced_while_read() -> None:
    faults = asyncio.run(_replaced_while_read())
    assert not faults, "\n".join(faults[:10])


# --- trees without end -----------------------------------------------------------------------

WIDE = 20_000
DEEP = 600


async def _wide_directory() -> None:
    root = _place("case")
    os.mkdir(f"{root}/wide")
    for number in range(WIDE):
        os.close(os.open(f"{root}/wide/n{number:05}", os.O_CREAT | os.O_WRONLY, 0o600))
    async with bailiwick.open(root, durability="rename") as fs:
        names: list[str] = []
        cursor = None
        for _ in range(WIDE // 2_000 + 1):
            page = await fs.list("wide", cursor=cursor)
            assert len(page.entries) <= 2_000
            names += [entry.name for entry in page.entries]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert names == [f"n{number:05}" for number in range(WIDE)]
        found = await fs.glob("**/*")
        assert found.truncated
        assert len(found.matches) == 5_000
        assert found.omitted == WIDE + 1 - 5_000
        assert (await fs.remove("wide", recursive=True)).changed
    assert os.listdir(root) == []


def wide_directory() -> None:
    asyncio.run(_wide_directory())


async def _deep_tree() -> list[str]:
    root = _place("case")
    _put(f"{root}/f", INSIDE_TEXT.encode())
    deep = f"{root}/deep" + "/a" * DEEP
    os.makedirs(deep)
    _put(f"{deep}/leaf", INSIDE_TEXT.encode())
    _put(f"{root}/deep/above", INSIDE_TEXT.encode())
    faults = []
    for containment, option in CONTAINMENTS.items():
        async with bailiwick.open(root, containment=option, durability="rename") as fs:
            for name in ("find", "files", "glob"):
                outcome, error = await attempt(fs, VERBS[name], ".")
                if outcome.kind != "ok":
                    faults.append(f"{containment}, {name}: {outcome.kind}: {error}")
            found = await fs.find(".")
            if not found.truncated:
                faults.append(f"{containment}: a walk that stopped at its depth does not say so")
            for name in ("copy_from", "remove_recursive"):
                before = snapshot(root)
                outcome, error = await attempt(fs, VERBS[name], "deep")
                if outcome.kind.startswith("UNTYPED") or outcome.kind == "internal_error":
                    faults.append(f"{containment}, {name}: {outcome.kind}: {error}")
                if error is not None:
                    faults += [f"{containment}, {name} failed with {outcome.kind} and {fault}"
                               for fault in _unharmed(before, snapshot(root))]  # fmt: skip
                elif name == "remove_recursive":
                    os.makedirs(deep)
    empty(root)
    return faults


def deep_tree() -> None:
    faults = asyncio.run(_deep_tree())
    assert not faults, "\n".join(fault[:300] for fault in faults)
