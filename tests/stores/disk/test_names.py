"""Listing, making, moving, copying, removing: by descriptors, never through a link."""

import asyncio
import errno
import os

import pytest

from bailiwick.errors import (
    Busy,
    DirectoryNotEmpty,
    FileAlreadyExists,
    FileTooLarge,
    HashMismatch,
    IoError,
    NotARegularFile,
    ParseError,
    PermissionDenied,
    SymlinkEscape,
    Unsupported,
)
from bailiwick.limits import Limits
from bailiwick.model import KiB, MiB
from bailiwick.paths import RESERVED_PREFIX
from bailiwick.stores.disk import listing, syscalls
from bailiwick.stores.disk.changes import copies, removal
from tests.stores.disk.conftest import hold

NOT_TEXT = os.fsdecode(b"not-\xff-text")


async def page(fs, path=".", **options):
    held = await hold(fs, path)
    try:
        return await fs.store.children(held, **options)
    finally:
        held.close()


# --- listing ---------------------------------------------------------------------------------


@pytest.mark.spec("TREE-1", "DISK-9")
async def test_entries_are_sorted_typed_and_without_staging_names(every_place):
    root = every_place.root
    for name in ("b", "a", "B", "é", "z\nz", NOT_TEXT):
        (root / name).write_bytes(name.encode(errors="surrogateescape"))
    (root / "d").mkdir()
    (root / "l").symlink_to("../outside/secret")
    os.mkfifo(root / "fifo")
    (root / f"{RESERVED_PREFIX}x-1").touch()
    fs = every_place.open()
    children, more = await page(fs)
    assert [(c.name, c.type, c.size) for c in children] == [
        ("B", "file", 1), ("a", "file", 1), ("b", "file", 1), ("d", "directory", 0),
        ("fifo", "other", 0), ("l", "symlink", 17), ("not-\\xff-text", "file", 10),
        ("z\nz", "file", 3), ("é", "file", 2),
    ]  # fmt: skip
    assert not more
    assert [c.name for c in children if not c.addressable] == ["not-\\xff-text"]
    assert (await page(fs, after="fifo", limit=2)).entries == children[5:7]


@pytest.mark.spec("TREE-1")
async def test_one_bad_entry_never_fails_the_rest(every_place, monkeypatch):
    for name in ("a", "gone", "resists", "z"):
        (every_place.root / name).touch()
    fs = every_place.open()
    real = os.lstat

    def lstat(name, **options):
        if name == "gone":
            raise FileNotFoundError(errno.ENOENT, "")
        if name == "resists":
            raise PermissionError(errno.EACCES, "")
        return real(name, **options)

    monkeypatch.setattr(os, "lstat", lstat)
    children, _ = await page(fs)
    assert [(c.name, c.type) for c in children] == [
        ("a", "file"), ("resists", "other"), ("z", "file")
    ]  # fmt: skip


@pytest.mark.spec("TREE-1", "DISK-9")
@pytest.mark.parametrize("others", [(), ("\u00e9", "\U0001f600")], ids=["ascii", "any text"])
async def test_pages_of_any_size_give_all_names_in_order_and_none_of_ours(place, others):
    names = ["-", ".a", ".bailiwick", ".bailiwick}", ".bailiwicl", ".b", "B", "bailiwick~", "~"]
    for name in (*names, *others):
        (place.root / name).touch()
    for number in range(3):
        (place.root / f"{RESERVED_PREFIX}{number}").touch()
    fs = place.open()
    everything = sorted((*names, *others))
    for limit in (1, 2, 3, 100):
        seen, after, more = [], None, True
        while more:
            children, more = await page(fs, after=after, limit=limit)
            seen += [child.name for child in children]
            after = seen[-1]
        assert seen == everything


@pytest.mark.slow
@pytest.mark.spec("TREE-1")
async def test_a_large_directory_is_paged_without_holding_it(place, monkeypatch):
    names = [f"{number:05d}" for number in range(3000)]
    for name in names:
        (place.root / name).touch()
    (place.root / NOT_TEXT).touch()
    fs = place.open()
    monkeypatch.setattr(listing, "INLINE_BYTES_MAX", 0)
    examined = []
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda name, **k: examined.append(name) or real(name, **k))
    seen, after, more = [], None, True
    while more:
        examined.clear()
        children, more = await page(fs, after=after, limit=700)
        assert len(examined) <= 700
        seen += [child.name for child in children]
        after = seen[-1]
    assert seen == [*names, "not-\\xff-text"]
    assert [c.name for c in (await page(fs, after="02990")).entries] == [*names[2991:], seen[-1]]


async def test_a_large_directory_is_listed_in_a_thread(place, monkeypatch):
    fs = place.open()
    held = await hold(fs, ".")
    monkeypatch.setattr(type(held), "listing_bytes", 10 * MiB)
    used = []
    real = fs.store._workers.run
    monkeypatch.setattr(fs.store._workers, "run", lambda *a: used.append(a) or real(*a))
    await fs.store.children(held)
    held.close()
    assert used


async def test_the_names_beside_an_entry(every_place):
    (every_place.root / "d").mkdir()
    for name in ("a", "B", f"{RESERVED_PREFIX}x-1"):
        (every_place.root / "d" / name).touch()
    fs = every_place.open()
    for path, expected in (("d/new", ["B", "a"]), ("d/no/new", []), (".", [])):
        held = await hold(fs, path, "entry", parents=True)
        assert sorted(await fs.store.names_beside(held)) == expected
        held.close()


# --- removing --------------------------------------------------------------------------------


@pytest.mark.spec("TREE-2", "LINK-3")
async def test_a_tree_goes_and_what_its_links_lead_to_stays(every_place):
    for path in ("d/a/b/f", "d/c", "kept/f"):
        (every_place.root / path).parent.mkdir(parents=True, exist_ok=True)
        (every_place.root / path).write_bytes(b"x")
    (every_place.root / "d" / "out").symlink_to("../../outside")
    (every_place.root / "d" / "in").symlink_to("../kept")
    os.mkfifo(every_place.root / "d" / "fifo")
    fs = every_place.open(durability="full")
    with pytest.raises(DirectoryNotEmpty):
        await fs.remove("d")
    assert await fs.remove("d", recursive=True) == 8
    assert every_place.tree() == {"kept": None, "kept/f": b"x"}
    assert (every_place.outside / "secret").exists()


@pytest.mark.slow
@pytest.mark.spec("TREE-2")
async def test_a_very_deep_tree_goes_with_few_descriptors(place, monkeypatch):
    depth, directory = 3000, os.open(place.root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=directory)
        inner = os.open("d", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = inner
    os.close(directory)
    fs = place.open()
    most = []
    real = removal.Demolition._step

    def step(self):
        most.append(sum(level.fd >= 0 for level in self._stack))
        real(self)

    monkeypatch.setattr(removal.Demolition, "_step", step)
    assert await fs.remove("d", recursive=True) == depth
    assert max(most) <= removal.LEVELS_MAX
    assert os.listdir(place.root) == []


async def test_a_wide_directory_goes_in_batches(place, monkeypatch):
    monkeypatch.setattr(removal, "BATCH_ENTRIES", 10)
    for number in range(95):
        (place.root / "d" / f"s{number % 3}").mkdir(parents=True, exist_ok=True)
        (place.root / "d" / f"s{number % 3}" / str(number)).touch()
    fs = place.open()
    assert await fs.remove("d", recursive=True) == 99


@pytest.mark.spec("LIFE-1")
async def test_a_tree_disappears_at_once_and_comes_back_if_it_resists(place, monkeypatch):
    for name in ("a", "b"):
        (place.root / "d").mkdir(exist_ok=True)
        (place.root / "d" / name).write_bytes(b"x")
    fs = place.open()
    seen = []

    def refuse(name, **_options):
        seen.append([entry for entry in os.listdir(place.root) if entry == "d"])
        raise PermissionError(errno.EACCES, "")

    monkeypatch.setattr(syscalls, "unlink", refuse)
    with pytest.raises(PermissionDenied):
        await fs.remove("d", recursive=True)
    assert seen == [[]]
    assert place.tree() == {"d": None, "d/a": b"x", "d/b": b"x"}


@pytest.mark.parametrize("step", ["rename_over", "write"])
async def test_a_full_disk_does_not_keep_a_tree_from_going(place, faults, step):
    (place.root / "d").mkdir()
    (place.root / "d" / "f").touch()
    fs = place.open()
    faults.fail(step, errno.ENOSPC)
    assert await fs.remove("d", recursive=True) == 2
    assert place.tree() == {}


async def test_what_vanishes_while_a_tree_goes_is_no_error(place, monkeypatch):
    for number in range(20):
        (place.root / "d" / f"e{number}").mkdir(parents=True)
        (place.root / "d" / f"e{number}" / "f").touch()
    stores = [place.open(), place.open()]
    results = await asyncio.gather(
        *(fs.remove("d", recursive=True) for fs in stores), return_exceptions=True
    )
    counts = [result for result in results if isinstance(result, int)]
    assert sum(counts) == 41
    assert all(isinstance(r, int) or r.kind == "path_not_found" for r in results)
    assert place.tree() == {}


@pytest.mark.spec("TREE-3")
async def test_the_root_itself_stays(every_place):
    (every_place.root / "f").touch()
    fs = every_place.open()
    for call in (fs.remove(".", recursive=True), fs.move(".", "x"), fs.move("f", ".")):
        with pytest.raises(PermissionDenied) as caught:
            await call
        assert caught.value.errno == errno.EPERM
    assert every_place.tree() == {"f": b""}


# --- moving ----------------------------------------------------------------------------------


@pytest.mark.spec("TREE-3")
async def test_two_names_of_one_file_become_one(every_place):
    (every_place.root / "a").write_bytes(b"x")
    os.link(every_place.root / "a", every_place.root / "b")
    fs = every_place.open()
    with pytest.raises(FileAlreadyExists):
        await fs.move("a", "b")
    assert await fs.move("a", "b", replace=True)
    assert every_place.tree() == {"b": b"x"}


@pytest.mark.spec("TREE-3")
async def test_a_move_between_filesystems_is_not_supported(place, faults):
    (place.root / "a").touch()
    (place.root / "b").touch()
    fs = place.open()
    faults.fail_always("rename_new", errno.EXDEV)
    faults.fail_always("rename_over", errno.EXDEV)
    for to, replace in (("c", False), ("b", True)):
        with pytest.raises(Unsupported) as caught:
            await fs.move("a", to, replace=replace)
        assert "copy" in caught.value.hint
    assert place.tree() == {"a": b"", "b": b""}


async def test_a_durable_move_flushes_both_directories(place, monkeypatch):
    (place.root / "d").mkdir()
    (place.root / "f").touch()
    fs = place.open(durability="full")
    flushed = []
    real = syscalls.flush
    monkeypatch.setattr(
        syscalls, "flush", lambda fd: flushed.append(os.fstat(fd).st_ino) or real(fd)
    )
    await fs.move("f", "d/g")
    assert set(flushed) == {path.stat().st_ino for path in (place.root, place.root / "d")}


# --- directories -----------------------------------------------------------------------------


@pytest.mark.spec("TREE-2")
async def test_two_who_make_the_same_directories_both_succeed(every_place):
    stores = [every_place.open(), every_place.open()]
    path = "a/b/c/d/e"
    made = await asyncio.gather(*(fs.make_dir(path, parents=True) for fs in stores * 4))
    assert any(made)
    assert set(every_place.tree()) == {"a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/e"}


async def test_a_directory_made_at_the_last_instant_is_fine_only_with_parents(place, faults):
    fs = place.open()
    faults.on("mkdir", lambda *_a, **_k: (place.root / "d").mkdir())
    with pytest.raises(FileAlreadyExists):
        await fs.make_dir("d")
    (place.root / "d").rmdir()
    faults.calls.clear()
    assert not await fs.make_dir("d", parents=True)
    assert place.tree() == {"d": None}


# --- copying ---------------------------------------------------------------------------------


@pytest.mark.spec("TREE-2", "DISK-5")
async def test_a_copy_keeps_links_modes_and_times(every_place):
    root = every_place.root
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "f").write_bytes(b"x" * (2 * MiB + 1))
    (root / "d" / "f").chmod(0o4751)
    (root / "d" / "l").symlink_to("f")
    (root / "d" / f"{RESERVED_PREFIX}x-1").touch()
    os.utime(root / "d" / "f", ns=(1, 1_000_000_007))
    os.utime(root / "d" / "e", ns=(1, 1_000_000_009))
    (root / "d" / "e").chmod(0o500)
    fs = every_place.open(durability="full")
    assert await fs.copy("d", "c", recursive=True) == 4
    assert sorted(os.listdir(root / "c")) == ["e", "f", "l"]
    assert (root / "c" / "f").read_bytes() == (root / "d" / "f").read_bytes()
    assert os.readlink(root / "c" / "l") == "f"
    f, e = (root / "c" / "f").stat(), (root / "c" / "e").stat()
    assert (f.st_mode & 0o7777, f.st_mtime_ns) == (0o751, 1_000_000_007)
    assert (e.st_mode & 0o7777, e.st_mtime_ns) == (0o500, 1_000_000_009)


@pytest.mark.spec("LINK-6")
@pytest.mark.parametrize("text", ["../../outside/secret", "/nowhere", "../.."])
async def test_a_copy_with_a_link_that_leads_out_is_refused_whole(every_place, text):
    (every_place.root / "d").mkdir()
    (every_place.root / "d" / "a").touch()
    (every_place.root / "d" / "l").symlink_to(text)
    fs = every_place.open()
    before = every_place.tree()
    for path in ("d", "d/l"):
        with pytest.raises(SymlinkEscape):
            await fs.copy(path, "c", recursive=True)
    assert every_place.tree() == before


async def test_a_link_that_would_lead_out_from_its_new_place_is_not_copied_there(place):
    (place.root / "d" / "e").mkdir(parents=True)
    (place.root / "d" / "e" / "l").symlink_to("../../f")
    fs = place.open()
    with pytest.raises(SymlinkEscape):
        await fs.copy("d/e/l", "l")
    assert await fs.copy("d/e", "d/c", recursive=True) == 2


@pytest.mark.spec("LINK-5")
async def test_a_copy_with_something_that_is_no_file_is_refused_whole(every_place):
    (every_place.root / "d").mkdir()
    (every_place.root / "d" / "a").touch()
    os.mkfifo(every_place.root / "d" / "fifo")
    fs = every_place.open()
    with pytest.raises(NotARegularFile):
        await fs.copy("d", "c", recursive=True)
    assert every_place.litter() == []
    assert not (every_place.root / "c").exists()


async def test_a_copy_keeps_the_limits_and_cleans_up(place):
    (place.root / "d" / "e").mkdir(parents=True)
    (place.root / "d" / "e" / "f").write_bytes(bytes(100))
    with pytest.raises(FileTooLarge):
        await place.open(limits=Limits(max_file_bytes=99)).copy("d", "c", recursive=True)
    with pytest.raises(ParseError):
        await place.open(limits=Limits(depth_max=1)).copy("d", "c", recursive=True)
    assert set(place.tree()) == {"d", "d/e", "d/e/f"}


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
async def test_bytes_are_copied_also_where_the_kernel_will_not(place, monkeypatch, number):
    data = os.urandom(2 * MiB + 3)
    (place.root / "f").write_bytes(data)

    def refuse(*_args):
        raise OSError(number, "")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    fs = place.open()
    await fs.copy("f", "g")
    assert place.tree()["g"] == data


@pytest.mark.spec("READ-6")
async def test_a_file_rewritten_while_it_is_copied_is_a_mismatch(place, monkeypatch):
    file = place.root / "f"
    file.write_bytes(bytes(KiB))
    real = copies.copy_piece

    def copy_then_rewrite(*args):
        with file.open("r+b") as open_file:
            open_file.write(os.urandom(8))
        return real(*args)

    monkeypatch.setattr(copies, "copy_piece", copy_then_rewrite)
    fs = place.open()
    with pytest.raises(HashMismatch):
        await fs.copy("f", "g")
    assert set(place.tree()) == {"f"}


@pytest.mark.spec("LIFE-1")
async def test_a_cancelled_copy_leaves_nothing(place, monkeypatch):
    for number in range(50):
        (place.root / "d").mkdir(exist_ok=True)
        (place.root / "d" / str(number)).write_bytes(bytes(100))
    fs = place.open()
    loop = asyncio.get_running_loop()
    real, count = copies.copy_piece, []

    def copy(*args):
        count.append(args)
        if len(count) == 20:
            asyncio.run_coroutine_threadsafe(_cancel(task), loop).result(120)
        return real(*args)

    monkeypatch.setattr(copies, "copy_piece", copy)
    task = asyncio.create_task(fs.copy("d", "c", recursive=True))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(count) < 30
    assert place.litter() == []
    assert not (place.root / "c").exists()


async def _cancel(task):
    task.cancel()
    await asyncio.sleep(0)


async def test_copies_of_handles_that_hold_the_object_itself(every_place):
    (every_place.root / "f").write_bytes(b"x")
    (every_place.root / "l").symlink_to("f")
    (every_place.root / "d").mkdir()
    fs = every_place.open()
    top = await hold(fs, ".")
    for name in ("f", "l", "d"):
        source = await fs.store.descend(top, name)
        to = await hold(fs, f"{name}2", "entry")
        assert await fs.store.copy(source, to, recursive=True) == 1
        source.close()
        to.close()
    top.close()
    assert every_place.tree() == {
        "f": b"x", "f2": b"x", "l": "f", "l2": "f", "d": None, "d2": None,
    }  # fmt: skip


# --- links, modes, times -----------------------------------------------------------------------


@pytest.mark.spec("LINK-6")
async def test_the_text_of_a_link_that_leads_out_is_not_told(every_place):
    for name, text in {"out": "../outside", "absolute": "/nowhere", "far": "d/../../x"}.items():
        (every_place.root / name).symlink_to(text)
    fs = every_place.open()
    for name in ("out", "absolute", "far"):
        with pytest.raises(SymlinkEscape):
            await fs.readlink(name)
        assert (await fs.lstat(name)).target is None


@pytest.mark.spec("LINK-3")
async def test_modes_and_times_are_never_set_through_a_link(every_place):
    secret = every_place.outside / "secret"
    before = secret.stat()
    (every_place.root / "l").symlink_to("../outside/secret")
    (every_place.root / "f").touch()
    fs = every_place.open()
    for call in (fs.set_mode("l", 0o777), fs.set_times("l", 1)):
        with pytest.raises(SymlinkEscape):
            await call
    assert secret.stat() == before
    await fs.set_mode("f", 0o4755)
    await fs.set_times("f", 123)
    status = (every_place.root / "f").stat()
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o755, 123)
    (every_place.root / "d").mkdir()
    await fs.set_mode("d", 0o750)
    await fs.set_times("d", 456)
    status = (every_place.root / "d").stat()
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o750, 456)


@pytest.mark.spec("DISK-5")
async def test_a_directory_keeps_setgid_and_sticky_whatever_mode_it_gets(every_place):
    directory = every_place.root / "d"
    directory.mkdir()
    fs = every_place.open()
    for bits in (0, 0o2000, 0o1000, 0o3000):
        directory.chmod(bits | 0o755)
        await fs.set_mode("d", 0o3750)
        assert directory.stat().st_mode & 0o7777 == bits | 0o750


async def test_something_swapped_in_before_a_mode_is_set_is_not_touched(every_place, monkeypatch):
    (every_place.root / "f").touch()
    os.link(every_place.outside / "secret", every_place.root / "other")
    fs = every_place.open()
    real = os.open

    def swap_then_open(name, flags, *args, **options):
        if name == "f":
            (every_place.root / "other").rename(every_place.root / "f")
        return real(name, flags, *args, **options)

    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(Busy):
        await fs.set_mode("f", 0o777)
    assert (every_place.outside / "secret").stat().st_mode & 0o777 != 0o777


async def test_a_machine_fault_is_no_refusal(every_place, faults):
    fs = every_place.open()
    faults.fail_always("mkdir", errno.EMFILE)
    with pytest.raises(IoError) as caught:
        await fs.make_dir("d")
    assert caught.value.errno == errno.EMFILE
