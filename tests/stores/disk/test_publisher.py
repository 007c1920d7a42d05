"""New content under a name: whole or not at all, with the mode it should have, and no litter."""

import asyncio
import errno
import os

import pytest

from bailiwick.errors import (
    BailiwickError,
    Busy,
    FileAlreadyExists,
    HardlinkRefused,
    IoError,
    IsADirectory,
    NotADirectory,
    ParseError,
    QuotaExceeded,
    ReadOnly,
    SymlinkEscape,
)
from bailiwick.model import KiB, MiB
from bailiwick.store import WritePlan
from bailiwick.stores.disk import syscalls
from bailiwick.testing.contract.chunks import of, sha256_of
from tests.stores.disk.conftest import hold
from tests.waiting import for_ever

DURABILITIES = ("full", "rename")

# Each call of the seam that a write makes, and whether only a durable one does.
STEPS = {
    "open_at": False,
    "write": False,
    "flush": True,
    "rename_over": False,
}

MACHINE_FAULTS = {
    errno.ENOSPC: IoError,
    errno.EIO: IoError,
    errno.EMFILE: IoError,
    errno.EDQUOT: QuotaExceeded,
    errno.EROFS: ReadOnly,
}


def mode_of(path):
    return path.stat().st_mode & 0o7777


# --- faults ----------------------------------------------------------------------------------


@pytest.mark.spec("DISK-4", "WRITE-3", "ERR-3")
@pytest.mark.parametrize("number", MACHINE_FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("step", STEPS)
async def test_a_fault_of_the_machine_leaves_the_old_content(both_places, faults, step, number):
    (both_places.root / "f").write_bytes(b"old")
    fs = both_places.open(durability="full" if STEPS[step] else "rename")
    await fs.write("warm", b"the journal is open")
    faults.fail(step, number)
    with pytest.raises(MACHINE_FAULTS[number]) as caught:
        await fs.write("f", b"new")
    assert caught.value.errno == number
    assert both_places.tree() == {"f": b"old", "warm": b"the journal is open"}
    await fs.write("f", b"new")
    assert both_places.tree()["f"] == b"new"


@pytest.mark.spec("DISK-4", "WRITE-4")
@pytest.mark.parametrize("step", ["mkdir", "write", "rename_new"])
async def test_a_fault_leaves_no_directory_made_on_the_way(both_places, faults, step):
    fs = both_places.open()
    await fs.write("warm", b"")
    faults.fail(step, errno.ENOSPC, nth=2 if step == "mkdir" else 1)
    with pytest.raises(IoError):
        await fs.write("a/b/f", b"x", parents=True)
    assert both_places.tree() == {"warm": b""}


async def test_a_directory_made_on_the_way_stays_if_someone_used_it(place, faults):
    fs = place.open()

    def use_it(*_args):
        (place.root / "a" / "theirs").write_bytes(b"")
        raise OSError(errno.ENOSPC, "")

    faults.on("rename_new", use_it)
    with pytest.raises(IoError):
        await fs.write("a/f", b"x", parents=True)
    assert place.tree() == {"a": None, "a/theirs": b""}


@pytest.mark.spec("DISK-4")
async def test_no_journal_means_no_write(place, faults):
    fs = place.open()
    faults.fail("write", errno.ENOSPC)  # the first write of all is the journal's
    with pytest.raises(IoError):
        await fs.write("f", b"x")
    assert place.tree() == {}
    await fs.write("f", b"x")
    assert place.tree() == {"f": b"x"}


@pytest.mark.spec("DISK-4")
async def test_short_writes_are_written_on(both_places, monkeypatch):
    fs = both_places.open()
    data = os.urandom(10_000)
    await fs.write("warm", b"")
    real = os.write
    monkeypatch.setattr(syscalls, "write", lambda fd, data: real(fd, bytes(data)[:777]))
    await fs.write("f", data)
    await fs.append("f", data)
    await fs.write_stream("g", of(data, data))
    assert both_places.tree() == {"warm": b"", "f": data * 2, "g": data * 2}


@pytest.mark.spec("DISK-4")
async def test_durable_writes_flush_file_then_directory(place, monkeypatch):
    fs = place.open(durability="full")
    order = []
    for name in ("flush", "rename_over", "rename_new", "exchange"):
        real = getattr(syscalls, name)
        monkeypatch.setattr(
            syscalls, name, lambda *a, _n=name, _r=real, **k: order.append(_n) or _r(*a, **k)
        )
    for write in (
        fs.write("f", b"new"),
        fs.write("f", b"over"),
        fs.write("f", b"swap", expected_sha256=sha256_of(b"over")),
    ):
        order.clear()
        await write
        assert [order[0], order[-1], len(order)] == ["flush", "flush", 3]
    order.clear()
    lazy = place.open(durability="rename")
    await lazy.write("f", b"lazy")
    assert order == ["rename_over"]


@pytest.mark.spec("DISK-5", "WRITE-2")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS])
async def test_creating_never_replaces_without_the_kernels_word_for_it(place, faults, number):
    faults.fail_always("rename_new", number)
    fs = place.open()
    assert (await fs.write("f", b"x", mode="create")).created
    with pytest.raises(FileAlreadyExists):
        await fs.write("f", b"y", mode="create")
    await fs.make_dir("d")
    await fs.move("d", "e")
    with pytest.raises(FileAlreadyExists):
        await fs.move("e", "f")
    with pytest.raises(FileAlreadyExists):
        await fs.move("f", "e")
    assert place.tree() == {"f": b"x", "e": None}


@pytest.mark.spec("DISK-5")
async def test_a_file_that_appears_at_the_last_instant_is_not_created_over(place, faults):
    fs = place.open()
    faults.on("rename_new", lambda *_: (place.root / "f").write_bytes(b"theirs") and None)
    with pytest.raises(FileAlreadyExists):
        await fs.write("f", b"ours", mode="create")
    assert place.tree() == {"f": b"theirs"}
    (place.root / "f").unlink()
    faults.calls.clear()
    result = await fs.write("f", b"ours")
    assert not result.created
    assert place.tree() == {"f": b"ours"}


# --- modes -----------------------------------------------------------------------------------


@pytest.mark.spec("DISK-5")
@pytest.mark.parametrize(
    ("setting", "file_mode", "directory_mode"),
    [
        ("private", 0o600, 0o700),
        (0o640, 0o640, 0o750),
        (0o644, 0o644, 0o755),
        (0o600, 0o600, 0o700),
    ],
)
async def test_new_things_have_the_modes_of_the_root(place, setting, file_mode, directory_mode):
    fs = place.open(new_file_mode=setting)
    assert (await fs.write("a/f", b"x", parents=True)).file_mode == file_mode
    await fs.make_dir("d")
    await fs.append("g", b"x")
    assert [mode_of(place.root / name) for name in ("a/f", "g")] == [file_mode] * 2
    assert [mode_of(place.root / name) for name in ("a", "d")] == [directory_mode] * 2


@pytest.mark.spec("DISK-5")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
async def test_the_umask_is_kept_where_that_is_set(place, mask):
    before = os.umask(mask)
    try:
        fs = place.open(new_file_mode="umask")
        await fs.write("a/f", b"x", parents=True)
    finally:
        os.umask(before)
    assert mode_of(place.root / "a" / "f") == 0o666 & ~mask
    assert mode_of(place.root / "a") == 0o777 & ~mask
    assert place.journals()
    assert not list(place.state.rglob("mask-*"))


@pytest.mark.spec("DISK-5")
async def test_replacing_keeps_the_mode_and_strips_what_is_dangerous(both_places):
    file = both_places.root / "f"
    fs = both_places.open()
    for write in (
        lambda: fs.write("f", b"new"),
        lambda: fs.append("f", b"new"),
        lambda: fs.truncate("f", 1),
        lambda: fs.write_stream("f", of(b"new")),
        lambda: fs.copy("f", "copy"),
    ):
        file.write_bytes(b"old")
        file.chmod(0o6755)
        await write()
        changed = both_places.root / "copy" if (both_places.root / "copy").exists() else file
        assert mode_of(changed) == 0o755


@pytest.mark.spec("DISK-4")
async def test_what_is_staged_is_private_until_it_is_whole(place, faults):
    fs = place.open(new_file_mode=0o644)
    await fs.write("warm", b"")
    modes = []
    faults.on("write", lambda fd, _data: modes.append(os.fstat(fd).st_mode & 0o777))
    await fs.write("f", b"x")
    assert modes == [0o600]
    assert mode_of(place.root / "f") == 0o644


@pytest.mark.spec("DISK-5")
async def test_replacing_keeps_the_owner_where_that_is_allowed(place):
    if os.geteuid() != 0:
        pytest.skip("only root may give files away: run as root to see that owners are kept")
    fs = place.open()
    await fs.write("f", b"old")
    os.chown(place.root / "f", 65534, 65534)
    await fs.write("f", b"new")
    await fs.append("f", b"er")
    found = (place.root / "f").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (65534, 65534, 0o600)


# --- links and other things in the way ---------------------------------------------------------


@pytest.mark.spec("LINK-3", "PATH-7")
async def test_a_link_in_the_way_is_refused_and_does_not_say_where_it_leads(every_place):
    (every_place.root / "d").mkdir()
    (every_place.root / "d" / "f").write_bytes(b"kept")
    (every_place.root / "inside").symlink_to("d/f")
    (every_place.root / "outside").symlink_to("../outside/secret")
    fs = every_place.open()
    for path in ("inside", "outside"):
        with pytest.raises(SymlinkEscape) as caught:
            await fs.write(path, b"x")
        assert (caught.value.hint, caught.value.details) == (None, {})
        assert "secret" not in str(caught.value)
    assert (every_place.outside / "secret").read_bytes() == b"secret"
    assert every_place.tree()["d/f"] == b"kept"


@pytest.mark.spec("LINK-3", "DISK-3")
async def test_a_link_swapped_in_while_staging_is_refused(every_place, faults):
    file = every_place.root / "f"
    file.write_bytes(b"old")
    fs = every_place.open()
    await fs.write("warm", b"")

    def swap(*_args):
        file.unlink()
        file.symlink_to("../outside/secret")

    faults.on("write", swap)
    with pytest.raises(SymlinkEscape):
        await fs.write("f", b"new")
    assert (every_place.outside / "secret").read_bytes() == b"secret"
    assert every_place.tree() == {"warm": b"", "f": "../outside/secret"}


@pytest.mark.spec("DISK-5", "WRITE-3")
@pytest.mark.parametrize("directory", ["", "d/"])
async def test_what_happens_to_the_file_while_staging_counts(every_place, faults, directory):
    """The usual write is done in one piece; what is unusual about one is noticed all the same."""
    (every_place.root / "d").mkdir()
    file = every_place.root / directory / "f"
    fs = every_place.open(hardlinks="reject")
    await fs.write(f"{directory}f", b"old")

    async def write_while(change):
        faults.calls.clear()
        faults.on("write", lambda *_: change())
        return await fs.write(f"{directory}f", b"new")

    result = await write_while(lambda: file.chmod(0o640))
    assert (result.created, result.file_mode, mode_of(file)) == (False, 0o640, 0o640)
    result = await write_while(file.unlink)
    assert (result.created, result.file_mode, mode_of(file)) == (True, 0o600, 0o600)
    other = every_place.root / "other"
    with pytest.raises(HardlinkRefused):
        await write_while(lambda: os.link(file, other))
    other.unlink()
    kept = every_place.root / "kept"

    def make_directory():
        file.rename(kept)
        file.mkdir()

    with pytest.raises(IsADirectory):
        await write_while(make_directory)
    file.rmdir()
    kept.rename(file)
    assert file.read_bytes() == b"new"
    assert not every_place.litter()


@pytest.mark.spec("DISK-5", "WRITE-3")
@pytest.mark.parametrize("directory", ["", "d/"])
async def test_what_comes_under_a_new_name_while_staging_counts(every_place, faults, directory):
    (every_place.root / "d").mkdir()
    file = every_place.root / directory / "f"
    fs = every_place.open()
    await fs.write(f"{directory}warm", b"")

    async def write_while(change):
        faults.calls.clear()
        faults.on("write", lambda *_: change())
        return await fs.write(f"{directory}f", b"ours")

    def make_file():
        file.write_bytes(b"theirs")
        file.chmod(0o640)

    result = await write_while(make_file)
    assert (result.created, result.file_mode, mode_of(file)) == (False, 0o640, 0o640)
    assert file.read_bytes() == b"ours"
    file.unlink()
    with pytest.raises(IsADirectory):
        await write_while(file.mkdir)
    file.rmdir()
    secret = every_place.outside / "secret"
    with pytest.raises(SymlinkEscape):
        await write_while(lambda: file.symlink_to(secret))
    file.unlink()
    assert secret.read_bytes() == b"secret"
    faults.fail_always("rename_new", errno.EINVAL)
    assert (await fs.write(f"{directory}f", b"ours")).created
    assert file.read_bytes() == b"ours"
    assert mode_of(file) == 0o600
    assert not every_place.litter()


async def test_a_guessed_staging_name_does_not_stop_the_usual_write(place, monkeypatch):
    fs = place.open()
    await fs.write("f", b"old")
    journal = fs.store._journal
    monkeypatch.setattr(journal, "_next_number", lambda _bits: 7)
    guessed = place.root / journal.new_stage_name()
    guessed.symlink_to("../outside/secret")
    await fs.write("f", b"new")
    assert (place.outside / "secret").read_bytes() == b"secret"
    assert place.tree() == {"f": b"new", guessed.name: "../outside/secret"}


@pytest.mark.spec("DISK-3")
async def test_a_link_swapped_in_at_the_last_instant_is_replaced_and_never_followed(place, faults):
    file = place.root / "f"
    file.write_bytes(b"old")
    fs = place.open()

    def swap(*_args, **_options):
        file.unlink()
        file.symlink_to("../outside/secret")

    faults.on("rename_over", swap)
    await fs.write("f", b"new")
    assert (place.outside / "secret").read_bytes() == b"secret"
    assert place.tree() == {"f": b"new"}


@pytest.mark.spec("DISK-3")
@pytest.mark.parametrize("depth", ["d", "d/e/e"])
async def test_a_parent_moved_out_while_staging_is_noticed(every_place, faults, depth):
    (every_place.root / depth).mkdir(parents=True)
    (every_place.root / depth / "f").write_bytes(b"old")
    fs = every_place.open()
    await fs.write(f"{depth}/warm", b"")

    def move_out(*_args):
        (every_place.root / "d").rename(every_place.outside / "d")
        (every_place.root / depth).mkdir(parents=True)

    faults.on("write", move_out)
    with pytest.raises(Busy):
        await fs.write(f"{depth}/f", b"new")
    outside = every_place.outside / "d" / depth.removeprefix("d").strip("/")
    assert sorted(os.listdir(outside)) == ["f", "warm"]
    assert (outside / "f").read_bytes() == b"old"
    assert "f" not in os.listdir(every_place.root / depth)


@pytest.mark.spec("DISK-3")
async def test_every_change_notices_a_parent_that_moved_out(every_place):
    for name in ("f", "g"):
        (every_place.root / "d").mkdir(exist_ok=True)
        (every_place.root / "d" / name).write_bytes(b"old")
    fs = every_place.open()
    old, new, here = [await hold(fs, path, "entry") for path in ("d/f", "d/new", "here")]
    (every_place.root / "here").write_bytes(b"h")
    (every_place.root / "d").rename(every_place.outside / "d")
    (every_place.root / "d").mkdir()
    store = fs.store
    for call in (
        store.write(old, b"x", sha256_of(b"x"), WritePlan()),
        store.write(old, b"x", sha256_of(b"x"), WritePlan(expected_sha256=sha256_of(b"old"))),
        store.write_stream(old, of(b"x"), WritePlan()),
        store.append(old, b"x", WritePlan()),
        store.truncate(old, 0, WritePlan()),
        store.write(new, b"x", sha256_of(b"x"), WritePlan()),
        store.make_dir(new, file_mode=None, parents=False),
        store.symlink(new, "f"),
        store.remove(old, recursive=False),
        store.move(old, here, replace=True),
        store.move(here, new, replace=False),
        store.copy(here, new, recursive=False),
        store.set_mode(old, 0o777),
        store.set_times(old, 1, 1),
    ):
        with pytest.raises(Busy):
            await call
    for handle in (old, new, here):
        handle.close()
    assert sorted(os.listdir(every_place.outside / "d")) == ["f", "g"]
    assert (every_place.outside / "d" / "f").read_bytes() == b"old"
    assert every_place.tree() == {"d": None, "here": b"h"}


@pytest.mark.spec("DISK-4")
@pytest.mark.parametrize("directory", ["", "d/"])
async def test_a_staged_file_that_was_replaced_is_not_published(every_place, faults, directory):
    (every_place.root / "d").mkdir()
    (every_place.root / directory / "f").write_bytes(b"old")
    fs = every_place.open()
    await fs.write(f"{directory}warm", b"")

    def replace(*_args):
        (name,) = every_place.litter()
        (every_place.root / name).unlink()
        (every_place.root / name).write_bytes(b"theirs")

    faults.on("write", replace)
    with pytest.raises(Busy):
        await fs.write(f"{directory}f", b"new")
    assert (every_place.root / directory / "f").read_bytes() == b"old"


@pytest.mark.spec("DISK-3")
async def test_a_second_name_for_the_staged_file_does_not_deceive(every_place, faults):
    (every_place.root / "d").mkdir()
    fs = every_place.open()
    await fs.write("d/warm", b"")

    def show_elsewhere(*_args):
        (name,) = every_place.litter()
        staged = every_place.root / name
        (every_place.root / "d").rename(every_place.outside / "d")
        (every_place.root / "d").mkdir()
        os.link(every_place.outside / "d" / staged.name, staged)

    faults.on("write", show_elsewhere)
    with pytest.raises(Busy):
        await fs.write("d/f", b"new")
    assert "f" not in os.listdir(every_place.outside / "d")


async def test_a_guessed_staging_name_is_left_alone(place, monkeypatch):
    fs = place.open()
    journal = fs.store._journal
    monkeypatch.setattr(journal, "_next_number", lambda _bits: 7)
    guessed = place.root / journal.new_stage_name()
    guessed.symlink_to("../outside/secret")
    await fs.write("f", b"x")
    assert (place.outside / "secret").read_bytes() == b"secret"
    assert place.tree() == {"f": b"x", guessed.name: "../outside/secret"}


# --- streams and cancelling --------------------------------------------------------------------


@pytest.mark.spec("LIFE-1", "WRITE-3")
@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_write_cancelled_in_its_thread_changes_nothing(place, faults, durability):
    (place.root / "f").write_bytes(b"old")
    fs = place.open(durability=durability)
    await fs.write("warm", b"")
    task = None
    loop = asyncio.get_running_loop()

    def cancel(*_args):
        asyncio.run_coroutine_threadsafe(_cancel(task), loop).result(120)

    faults.on("write", cancel)
    task = asyncio.create_task(fs.write("f", bytes(MiB)))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert place.tree() == {"f": b"old", "warm": b""}


async def _cancel(task):
    task.cancel()
    await asyncio.sleep(0)


@pytest.mark.spec("LIFE-1", "WRITE-3")
async def test_a_write_cancelled_after_publishing_is_done_and_the_cancellation_comes_later(
    place, faults
):
    fs = place.open(durability="full")
    await fs.write("f", b"old")
    loop = asyncio.get_running_loop()
    results = []

    async def write_then_wait():
        results.append(await fs.write("f", b"new"))
        results.append("not yet cancelled")
        await for_ever()

    def cancel(*_args, **_options):
        asyncio.run_coroutine_threadsafe(_cancel(task), loop).result(120)

    faults.on("rename_over", cancel)
    task = asyncio.create_task(write_then_wait())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert results[0].sha256 == sha256_of(b"new")
    assert results[1:] == ["not yet cancelled"]
    assert place.tree() == {"f": b"new"}


async def test_an_error_of_the_source_of_a_stream_is_its_own(place):
    fs = place.open()

    async def broken():
        yield b"x" * MiB
        raise ConnectionResetError(errno.ECONNRESET, "the client left")

    with pytest.raises(ConnectionResetError, match="the client left") as caught:
        await fs.write_stream("f", broken())
    assert not isinstance(caught.value, BailiwickError)
    assert place.tree() == {}


async def test_small_pieces_of_a_stream_are_gathered(place, faults):
    fs = place.open()
    await fs.write("warm", b"")
    faults.on("write", lambda *_: None)
    await fs.write_stream("f", of(*[b"x" * KiB] * 1024))
    assert faults.calls["write"] == 4
    assert place.tree()["f"] == b"x" * MiB


async def test_a_file_in_the_way_of_a_parent_is_no_directory(every_place):
    fs = every_place.open()
    held = await hold(fs, "a/b/f", "entry", parents=True)
    (every_place.root / "a").write_bytes(b"in the way")
    with pytest.raises(NotADirectory):
        await fs.store.write(held, b"x", sha256_of(b"x"), WritePlan(parents=True))
    held.close()
    assert every_place.tree() == {"a": b"in the way"}


async def test_a_name_the_filesystem_refuses_is_a_parse_error(every_place):
    fs = every_place.open()
    with pytest.raises(ParseError):
        await fs.make_dir("é" * 127 + "nn")  # 256 bytes: refused before; the store sees 255
    await fs.make_dir("é" * 127 + "n")


async def test_nothing_is_left_open_by_any_outcome(every_place, faults):
    (every_place.root / "f").write_bytes(b"old")
    fs = every_place.open(durability="full")
    await fs.write("warm", b"")
    before = len(os.listdir("/proc/self/fd"))
    await fs.write("f", b"x")
    await fs.write("a/b/c", b"x", parents=True)
    await fs.append("f", b"x")
    faults.fail("flush", errno.EIO)
    with pytest.raises(IoError):
        await fs.write("f", b"y")
    with pytest.raises(BailiwickError):
        await fs.write("f", b"y", mode="create")
    assert len(os.listdir("/proc/self/fd")) == before
