"""Much that goes, comes and is replaced at once on a real disk: calls that fail one by one, others
who interfere, and what is not what was expected."""

import errno
import hashlib
import os
import shutil

import pytest

from bailiwick.errors import (
    BailiwickError,
    DirectoryNotEmpty,
    FileAlreadyExists,
    HashMismatch,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.model import Expected
from bailiwick.paths import ScopedPath
from bailiwick.store import Staged, StagedRemoval
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.handles import version_of
from bailiwick.stores.disk.writes import staged_trees, tree_swap
from tests.stores.disk.conftest import hold

pytestmark = pytest.mark.spec("DISK-4", "EXEC-8")

OLD = {"a": b"old a", "n/b": b"old b", "n/gone": b"gone", "g/x": b"x", "g/h/y": b"y"}


def standing(place):
    for path, data in OLD.items():
        file = place.root / "out" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    os.symlink("a", place.root / "out" / "link")
    os.chmod(place.root / "out" / "g" / "h", 0o750)


def expected(place, path):
    status = os.lstat(place.root / "out" / path)
    sha256 = hashlib.sha256(OLD[path]).hexdigest() if path in OLD else None
    return Expected(version_of(status), sha256)


def steps_of(place):
    over = {ScopedPath(path): expected(place, path) for path in ("a", "n/b")}
    gone = [
        *(
            StagedRemoval(ScopedPath(path), "file", expected(place, path))
            for path in ("n/gone", "g/h/y")
        ),
        StagedRemoval(ScopedPath("g/h"), "directory"),
        StagedRemoval(ScopedPath("g/x"), "file", expected(place, "g/x")),
        StagedRemoval(ScopedPath("g"), "directory"),
        StagedRemoval(ScopedPath("link"), "symlink", expected(place, "link")),
    ]
    new = [
        Staged(ScopedPath("a"), "file", 0o644), b"new a",
        Staged(ScopedPath("n/b"), "file", 0o600), b"new b",
        Staged(ScopedPath("n/new"), "file", 0o644), b"new",
        Staged(ScopedPath("g"), "symlink", target="a"),
        Staged(ScopedPath("m"), "directory", 0o755),
        Staged(ScopedPath("m/c"), "file", 0o644), b"c",
    ]  # fmt: skip
    return over, gone, new


async def swap(fs, steps, meanwhile=lambda: None):
    over, gone, new = steps
    entry = await hold(fs, "out", "entry")
    try:
        stage = await fs.store.stage_swap(entry, size_max=100)
        try:
            await stage.add(new)
            meanwhile()
            await stage.swap(over, gone)
        finally:
            await stage.discard()
    finally:
        entry.close()


async def test_all_of_it_is_there_at_once(place):
    standing(place)
    await swap(place.open(), steps_of(place))
    out = place.root / "out"
    assert sorted(each.name for each in out.iterdir()) == ["a", "g", "m", "n"]
    assert sorted(each.name for each in (out / "n").iterdir()) == ["b", "new"]
    assert (out / "a").read_bytes() == b"new a"
    assert (out / "n" / "b").stat().st_mode & 0o777 == 0o600
    assert os.readlink(out / "g") == "a"
    assert place.litter() == []


CALLS = ("mkdir", "rename_new", "rename_over", "exchange", "flush", "flush_all", "unlink")


@pytest.mark.parametrize("durability", ["rename", "full"])
@pytest.mark.parametrize("name", CALLS)
async def test_any_call_that_fails_leaves_the_tree_as_it_was(place, name, durability, monkeypatch):
    monkeypatch.setattr(staged_trees, "FLUSHED_SINGLY_MAX", 2)
    for nth in range(1, 60):
        shutil.rmtree(place.root / "out", ignore_errors=True)
        standing(place)
        before = place.tree()
        fs = place.open(durability=durability)
        with pytest.MonkeyPatch.context() as patch:
            count = 0
            real = getattr(syscalls, name)

            def failing(*args, real=real, nth=nth, **kwargs):
                nonlocal count
                count += 1
                if count == nth:
                    raise OSError(errno.EIO, "injected")
                return real(*args, **kwargs)

            patch.setattr(syscalls, name, failing)
            try:
                await swap(fs, steps_of(place))
                failed = False
            except BailiwickError:
                failed = True
        await fs.store.aclose()
        place._stores.clear()
        if failed:
            again = place.open()  # what could not be cleared is cleared by the next start
            await again.store.aclose()
            place._stores.clear()
            assert place.tree() == before, f"{name} {nth}"
        assert place.litter() == [] or not failed
        if count < nth:
            return
    pytest.fail("there is no end to these calls")


def rewritten(path):
    """By somebody who keeps its size and its times: only its content tells."""

    def act(out):
        status = os.stat(out / path)
        (out / path).write_bytes(b"z" * status.st_size)
        os.utime(out / path, ns=(status.st_atime_ns, status.st_mtime_ns))

    return act


OTHERS = {
    "another file where one is replaced": (lambda out: (out / "a").write_bytes(b"!"), HashMismatch),
    "other bytes where one is replaced": (rewritten("a"), HashMismatch),
    "other bytes where one goes": (rewritten("n/gone"), HashMismatch),
    "one that is replaced is gone": (lambda out: (out / "a").unlink(), PathNotFound),
    "one that goes is gone": (lambda out: (out / "g" / "x").unlink(), PathNotFound),
    "something in a directory that goes": (
        lambda out: (out / "g" / "h" / "!").touch(),
        DirectoryNotEmpty,
    ),
    "a file where a directory goes": (
        lambda out: (shutil.rmtree(out / "g" / "h"), (out / "g" / "h").touch()),
        (NotADirectory, PathNotFound),
    ),
    "a name that was to be free": (lambda out: (out / "n" / "new").touch(), FileAlreadyExists),
    "a directory that was to be new": (lambda out: (out / "m").mkdir(), FileAlreadyExists),
    "the directory around it is gone": (
        lambda out: (out / "n").rename(out / "elsewhere"),
        PathNotFound,
    ),
    "a link where a directory was": (
        lambda out: ((out / "n").rename(out / "e"), os.symlink("e", out / "n")),
        SymlinkEscape,
    ),
}


@pytest.mark.parametrize("case", OTHERS)
async def test_what_others_did_stays_and_nothing_else_is_done(place, case):
    act, error = OTHERS[case]
    standing(place)
    fs, steps = place.open(), steps_of(place)
    with pytest.raises(error):
        await swap(fs, steps, lambda: act(place.root / "out"))
    now = place.tree()
    shutil.rmtree(place.root / "out")
    standing(place)
    act(place.root / "out")
    assert now == place.tree()
    assert place.litter() == []


@pytest.mark.parametrize("path", ["a", "n/gone"])
async def test_what_is_put_there_in_the_last_instant_is_put_back(place, path, monkeypatch):
    """Between the look and the rename: what came out is looked at again."""
    standing(place)
    fs, steps = place.open(), steps_of(place)
    file = place.root / "out" / path

    def replaced_first(real):
        def act(*args, **kwargs):
            if file.read_bytes() == OLD[path]:
                (place.root / "theirs").write_bytes(b"theirs")
                os.rename(place.root / "theirs", file)
            return real(*args, **kwargs)

        return act

    name = "exchange" if path == "a" else "rename_over"
    monkeypatch.setattr(tree_swap.syscalls, name, replaced_first(getattr(syscalls, name)))
    with pytest.raises(HashMismatch):
        await swap(fs, steps)
    monkeypatch.undo()
    assert file.read_bytes() == b"theirs"
    for each, data in OLD.items():
        if each != path:
            assert (place.root / "out" / each).read_bytes() == data


async def test_nothing_is_reached_through_a_link_out_of_the_root(place):
    """A name in the way that is a link out of the root leads nowhere."""
    standing(place)
    (place.root.parent / "another").mkdir()
    (place.root.parent / "another" / "x").write_bytes(b"x")
    shutil.rmtree(place.root / "out" / "g")
    os.symlink(place.root.parent / "another", place.root / "out" / "g")
    with pytest.raises(BailiwickError):
        await swap(place.open(), ({}, [StagedRemoval(ScopedPath("g/x"), "file")], []))
    assert (place.root.parent / "another" / "x").read_bytes() == b"x"
