"""Finding what a path leads to: the same answers in every way, and never anything outside."""

import contextlib
import errno
import os
import socket

import pytest

from bailiwick.errors import (
    BailiwickError,
    Busy,
    NotARegularFile,
    ParseError,
    PathNotFound,
    SymlinkEscape,
    Unsupported,
)
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import DiskStore, syscalls
from bailiwick.stores.disk.lookup import beneath, openat2
from tests.stores.disk.conftest import WAYS, hold

LAYOUT = {
    "f": b"top",
    "d/f": b"in d",
    "d/e/f": b"in e",
    "d/up": "->..",
    "d/self": "->.",
    "to-d": "->d",
    "to-e": "->d/e",
    "through": "->to-e/../f",
    "chain": "->to-d/e/f",
    "slash": "->d/",
    "file-slash": "->f/",
    "dangling": "->d/nothing",
    "escape": "->../outside/secret",
    "escape-late": "->d/../../outside/secret",
    "escape-and-return": "->../root/f",
    "to-escape": "->escape",
    "absolute": "->/nowhere/at/all",
    "loop": "->loop",
    "reserved": "->.bailiwick~0-0",
    ".bailiwick~0-0": b"staged by someone",
}

# What is looked up, and the canonical path or the kind of error it gives.
ANSWERS = {
    ".": ".",
    "f": "f",
    "d/e/f": "d/e/f",
    "to-d": "d",
    "to-d/e/f": "d/e/f",
    "to-d/up": ".",
    "to-d/up/f": "f",
    "d/self/self/f": "d/f",
    "to-e/f": "d/e/f",
    "through": "d/f",
    "chain": "d/e/f",
    "slash/f": "d/f",
    "file-slash": "not_a_directory",
    "f/x": "not_a_directory",
    "chain/x": "not_a_directory",
    "dangling": "path_not_found",
    "nothing": "path_not_found",
    "nothing/x": "path_not_found",
    "escape": "symlink_escape",
    "escape/x": "symlink_escape",
    "escape-late": "symlink_escape",
    "escape-and-return": "symlink_escape",
    "to-escape": "symlink_escape",
    "absolute": "symlink_escape",
    "loop": "too_many_links",
    "loop/x": "too_many_links",
    "reserved": "path_not_found",
}

REJECTING = {
    "f": "f",
    "to-d": "symlink_escape",
    "to-d/f": "symlink_escape",
    "loop": "symlink_escape",
    "escape": "symlink_escape",
    "dangling": "symlink_escape",
    "nothing": "path_not_found",
}


def plant(root, layout=LAYOUT):
    for path, content in layout.items():
        at = root / path
        at.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            at.write_bytes(content)
        else:
            at.symlink_to(content.removeprefix("->"))


async def answer(fs, path, look="object"):
    try:
        held = await hold(fs, path, look)
    except BailiwickError as error:
        return error.kind
    held.close()
    return held.path


@pytest.mark.spec("DISK-1", "DISK-2", "LINK-2", "PATH-6")
@pytest.mark.parametrize("path", ANSWERS)
async def test_every_way_gives_the_same_answer(every_place, path):
    plant(every_place.root)
    fs = every_place.open()
    assert await answer(fs, path) == ANSWERS[path]


@pytest.mark.spec("LINK-1")
@pytest.mark.parametrize("path", REJECTING)
async def test_every_way_rejects_links_where_that_is_set(every_place, path):
    plant(every_place.root)
    fs = every_place.open(symlinks="reject")
    assert await answer(fs, path) == REJECTING[path]


@pytest.mark.spec("PATH-7")
@pytest.mark.parametrize("path", [p for p, kind in ANSWERS.items() if kind.startswith("sym")])
async def test_errors_hold_no_host_path_and_no_outside_target(every_place, path):
    plant(every_place.root)
    fs = every_place.open()
    with pytest.raises(BailiwickError) as caught:
        await hold(fs, path)
    error = caught.value
    said = f"{error} {error.hint} {error.details} {error.strerror} {error.filename}"
    for word in ("outside/", "secret", "/nowhere", str(every_place.root)):
        assert word not in said
    if path == "absolute":
        assert "make it relative" in error.hint


@pytest.mark.spec("DISK-2")
async def test_the_containment_in_force_is_shown(every_place):
    fs = every_place.open()
    expected = "kernel" if every_place.way == "kernel" else "walk"
    assert fs.store.description["containment"] == expected


@pytest.fixture
def fresh_probe():
    syscalls.has_openat2.cache_clear()
    yield
    syscalls.has_openat2.cache_clear()


@pytest.mark.spec("DISK-2")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_without_openat2_is_walked_or_refused(place, monkeypatch, fresh_probe, number):
    monkeypatch.setattr(syscalls, "openat2", lambda *_: -number)
    assert place.open().store.description["containment"] == "walk"
    with pytest.raises(Unsupported):
        place.open(containment="require-kernel")


@pytest.mark.spec("DISK-2")
def test_without_proc_the_kernel_cannot_name_what_it_opened(place, monkeypatch, fresh_probe):
    monkeypatch.setattr(syscalls, "can_reopen", lambda: False)
    assert place.open().store.description["containment"] == "walk"
    with pytest.raises(Unsupported):
        place.open(containment="require-kernel")


@pytest.mark.spec("DISK-2")
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EACCES])
async def test_an_error_on_a_real_path_never_weakens_the_method(place, monkeypatch, number):
    plant(place.root)
    fs = place.open()
    monkeypatch.setattr(openat2, "openat2", lambda *_: -number)
    for _ in range(3):
        with pytest.raises(BailiwickError) as caught:
            await hold(fs, "f")
        assert caught.value.errno == number
    assert fs.store.description["containment"] == "kernel"


@pytest.mark.spec("DISK-1")
async def test_a_lookup_that_keeps_racing_is_busy_and_one_that_stops_is_found(place, monkeypatch):
    plant(place.root)
    fs = place.open()
    real, raced = openat2.openat2, []

    def racing(*args):
        raced.append(args)
        return -errno.EAGAIN if len(raced) <= limit else real(*args)

    monkeypatch.setattr(openat2, "openat2", racing)
    limit = 100
    (await hold(fs, "d/f")).close()
    limit = 10_000
    with pytest.raises(Busy):
        await hold(fs, "d/f")
    assert len(raced) < 300


async def test_an_object_that_moved_before_it_was_named_is_looked_up_again(place, monkeypatch):
    plant(place.root)
    fs = place.open()
    real = syscalls.kernel_name
    names = iter(["/elsewhere/f (deleted)", "/elsewhere/f"])
    monkeypatch.setattr(syscalls, "kernel_name", lambda fd: next(names, None) or real(fd))
    held = await hold(fs, "to-d/f")
    held.close()
    assert held.path == "d/f"
    monkeypatch.setattr(syscalls, "kernel_name", lambda _fd: "/elsewhere/f")
    with pytest.raises(Busy):
        await hold(fs, "to-d/f")


async def test_a_name_that_looks_deleted_is_a_name(both_places):
    plant(both_places.root, {"d/f (deleted)": b"there", "l": "->d/f (deleted)"})
    fs = both_places.open()
    assert await fs.read("l") == b"there"
    assert (await fs.stat("l")).path == "d/f (deleted)"


async def test_the_root_may_be_renamed_while_it_is_open(both_places):
    plant(both_places.root)
    fs = both_places.open()
    both_places.root.rename(both_places.root.with_name("renamed"))
    both_places.root.mkdir()
    assert (await fs.stat("to-d/f")).path == "d/f"
    await fs.write("new", b"x")
    assert not (both_places.root / "new").exists()


@pytest.mark.spec("LINK-5")
async def test_what_is_no_plain_file_is_named_and_never_opened(every_place, monkeypatch):
    os.mkfifo(every_place.root / "fifo")
    os.mknod(every_place.root / "device", 0o20666, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(every_place.root):
        listener.bind("socket")
    fs = every_place.open()
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: opened.append((a, k)) or real(*a, **k))
    kinds = {"fifo": "a FIFO", "device": "a character device", "socket": "a socket"}
    for name, said in kinds.items():
        for call in (
            fs.read(name),
            fs.write(name, b"x"),
            fs.append(name, b"x"),
            fs.copy(name, "c"),
        ):
            with pytest.raises(NotARegularFile, match=said):
                await call
        with pytest.raises(NotARegularFile, match=said):
            async for _ in fs.stream(name):
                pass
        assert (await fs.lstat(name)).type == "other"
    path_only = getattr(os, "O_PATH", 0)
    for (name, flags, *_), _options in opened:
        assert flags & path_only or flags & os.O_DIRECTORY or name not in kinds, name
        assert "/proc/self/fd" not in str(name)
    assert every_place.tree().keys() == kinds.keys()


async def test_names_that_may_be_spelled_in_two_ways_come_from_the_kernel(bare_place, monkeypatch):
    plant(bare_place.root)
    monkeypatch.setattr(syscalls, "may_fold_names", lambda _fd: True)
    for containment in ("auto", "walk"):
        bare_place.containment = containment
        fs = bare_place.open()
        for path in ("f", "d/e/f", "to-d/e/f", "."):
            assert await answer(fs, path) == ANSWERS[path]
        for path in ("f", "d/e/f", "d/e/new"):
            assert await answer(fs, path, "entry") == path
        await fs.write("d/e/new", b"x")
        await fs.remove("d/e/new")


def test_a_spelling_is_looked_up_in_the_directory_itself(tmp_path):
    (tmp_path / "Name").touch()
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        status = os.stat(tmp_path / "Name")
        assert beneath.listed_spelling(directory, "NAME", status) == "Name"
        os.link(tmp_path / "Name", tmp_path / "Other")
        assert beneath.listed_spelling(directory, "Other", status) == "Other"
    finally:
        os.close(directory)


@pytest.mark.spec("LINK-2")
@pytest.mark.parametrize("protected", [True, False])
async def test_a_strangers_link_in_a_shared_directory_is_followed_as_the_kernel_would(
    place, monkeypatch, protected
):
    shared = place.root / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (place.root / "f").write_bytes(b"x")
    (shared / "l").symlink_to("../f")
    os.chown(shared, 1234, 1234)
    os.lchown(shared / "l", 4321, 4321)
    if protected == syscalls.protects_links():
        kernel_answer = await answer(place.open(), "shared/l")
        assert kernel_answer == ("permission_denied" if protected else "f")
    monkeypatch.setattr(syscalls, "protects_links", lambda: protected)
    walked = await answer(place.open(containment="walk"), "shared/l")
    assert walked == ("permission_denied" if protected else "f")


async def test_a_path_with_a_nul_never_reaches_the_kernel(every_place):
    plant(every_place.root)
    fs = every_place.open()
    for look in ("object", "entry"):
        with pytest.raises((ParseError, ValueError)):
            await fs.store.resolve(ScopedPath("f\0x"), look)


async def test_a_child_is_one_name_of_its_directory(every_place):
    plant(every_place.root)
    fs = every_place.open()
    top = await hold(fs, ".")
    for name in ("..", "d/f", "", ".", "../outside/secret"):
        with pytest.raises(ParseError):
            await fs.store.descend(top, name)
    with pytest.raises(PathNotFound):
        await fs.store.descend(top, ".bailiwick~0-0")
    link = await fs.store.descend(top, "escape")
    assert (link.path, link.type) == ("escape", "symlink")
    with pytest.raises(SymlinkEscape):
        await fs.store.read(link, 0, 10)
    with pytest.raises(SymlinkEscape):
        await fs.store.readlink(link)
    assert (await fs.store.stat(link)).target is None
    link.close()
    directory = await fs.store.descend(top, "d")
    file = await fs.store.descend(directory, "f")
    assert (await fs.store.read(file, 0, 10)).data == b"in d"
    for handle in (file, directory, top):
        handle.close()


async def test_a_link_to_a_name_that_is_no_text_is_not_followed(every_place):
    plant(every_place.root, {os.fsdecode(b"d/\xff"): b"x", "l": os.fsdecode(b"->d/\xff")})
    fs = every_place.open()
    with pytest.raises(ParseError):
        await hold(fs, "l")


async def test_an_entry_replaced_while_its_spelling_is_asked_is_asked_again(place, monkeypatch):
    plant(place.root, {"f": b"x"})
    monkeypatch.setattr(syscalls, "may_fold_names", lambda _fd: True)
    fs = place.open()
    real = syscalls.kernel_name
    names = iter(["/r/f (deleted)", "/r/f (deleted)"])
    monkeypatch.setattr(syscalls, "kernel_name", lambda fd: next(names, None) or real(fd))
    assert await answer(fs, "f", "entry") == "f"
    monkeypatch.setattr(syscalls, "kernel_name", lambda _fd: "/r/other")
    with pytest.raises(Busy):
        await hold(fs, "f", "entry")


async def test_parents_made_by_someone_else_meanwhile_are_found(every_place, monkeypatch):
    fs = every_place.open()
    finder = fs.store._lookup
    real = type(finder)._find_deepest

    def make_first(self, path):
        (every_place.root / "a" / "b").mkdir(parents=True, exist_ok=True)
        return real(self, path)

    monkeypatch.setattr(type(finder), "_find_deepest", make_first)
    held = await hold(fs, "a/b/f", "entry", parents=True)
    assert (held.path, held.missing) == ("a/b/f", ())
    held.close()
    assert await fs.make_dir("a/b/c/d", parents=True)


async def test_no_lookup_leaves_a_descriptor(every_place):
    plant(every_place.root)
    fs = every_place.open()
    before = len(os.listdir("/proc/self/fd"))
    for path in ANSWERS:
        for look in ("object", "entry"):
            await answer(fs, path, look)
            with contextlib.suppress(BailiwickError):
                (await hold(fs, f"{path}/a/b", "entry", parents=True)).close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_ways_are_all_there():
    assert WAYS == ("kernel", "walk", "bare")


@pytest.mark.spec("DISK-3", "ERR-3")
async def test_a_link_that_becomes_a_file_under_the_walk_is_looked_up_again(tmp_path, monkeypatch):
    """A neighbour swaps a link for a file between two calls: EINVAL is no fault of the caller."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "target").write_bytes(b"inside")
    (tmp_path / "tree" / "name").symlink_to("target")
    plain_readlink, swapped = os.readlink, []

    def swap_first(path, **options):
        if path == "name" and not swapped:
            swapped.append(path)
            os.unlink(tmp_path / "tree" / "name")
            (tmp_path / "tree" / "name").write_bytes(b"swapped")
        return plain_readlink(path, **options)

    store = DiskStore.open(tmp_path / "tree", containment="walk", state_dir=tmp_path / "state")
    monkeypatch.setattr(os, "readlink", swap_first)
    handle = await store.resolve(ScopedPath("name"), "object")
    assert swapped
    assert (await store.read(handle, 0, 100)).data == b"swapped"
    handle.close()
    await store.aclose()
