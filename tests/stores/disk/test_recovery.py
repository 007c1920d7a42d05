"""What a killed store leaves is cleared by the next, by its journal and by nothing else."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

from bailiwick.errors import IoError, ParseError
from bailiwick.paths import RESERVED_PREFIX
from bailiwick.stores.disk import journal as journals
from bailiwick.stores.disk import syscalls

TOKEN = "0123456789ab"
STAGE = f"{RESERVED_PREFIX}{TOKEN}-1"
OLD, NEW, THEIRS, LATER = b"old", b"new", b"theirs", b"later"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def inode(path):
    return path.lstat().st_ino


def journal_folder(place):
    """Where the journals of this root are, made by a store that wrote something."""
    name = os.path.realpath(place.root).rstrip("/") + "/"
    key = hashlib.sha256(name.encode()).hexdigest()[:32]
    folder = place.state / "journals" / key
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def leave_journal(place, *lines, name="dead.journal"):
    """The journal of a store that is dead: nobody holds its lock."""
    text = [{"type": "journal", "token": TOKEN}, *lines]
    path = journal_folder(place) / name
    path.write_text("".join(json.dumps(line) + "\n" for line in text))
    return path


def directory(place, path="."):
    return {"type": "directory", "path": path, "inode": inode(place.root / path)}


def swap_line(old_inode, new_inode, path="."):
    return {
        "type": "swap", "directory": path, "name": "f", "stage": STAGE,
        "old_inode": old_inode, "old_size": len(OLD), "old_hashed": len(OLD),
        "old_sha256": sha256(OLD), "new_inode": new_inode,
    }  # fmt: skip


@pytest.fixture(params=("", "d/e"))
def folder(request, place):
    """The directory the dead store worked in."""
    folder = place.root / request.param
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def path_of(place, folder):
    return os.path.relpath(folder, place.root)


@pytest.mark.spec("DISK-9")
async def test_litter_of_every_kind_is_removed_and_nothing_else(place, folder):
    (folder / STAGE).write_bytes(b"half written")
    (folder / f"{STAGE}2").mkdir()
    (folder / f"{STAGE}2" / "sub").mkdir()
    (folder / f"{STAGE}2" / "sub" / "link").symlink_to(place.outside)
    (folder / f"{STAGE}3").symlink_to("../outside/secret")
    kept = {
        f"{RESERVED_PREFIX}ffffffffffff-1": b"of a store whose journal is not here",
        f"{RESERVED_PREFIX}{TOKEN}": b"not quite the name",
        "f": b"a file",
    }
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    leave_journal(place, directory(place, path_of(place, folder)))
    place.open()
    assert {path.name for path in folder.iterdir()} >= kept.keys()
    assert not [name for name in place.litter() if TOKEN + "-" in name]
    assert (place.outside / "secret").read_bytes() == b"secret"
    assert place.journals() == []


@pytest.mark.spec("DISK-9")
async def test_what_no_journal_names_stays(place):
    (place.root / STAGE).write_bytes(b"")
    place.open()
    assert place.litter() == [STAGE]


@pytest.mark.spec("DISK-9")
async def test_the_journal_of_a_living_store_is_left_alone(place, faults):
    first = place.open()
    await first.write("f", b"x")
    (alive,) = place.journals()
    token = json.loads(alive.read_text().splitlines()[0])["token"]
    staged = place.root / f"{RESERVED_PREFIX}{token}-1"
    staged.write_bytes(b"being written")
    second = place.open()
    assert staged.exists()
    assert place.journals() == [alive]
    await first.aclose()
    assert place.journals() == []
    await second.write("g", b"x")


@pytest.mark.spec("DISK-9")
async def test_where_locks_are_unknown_nobody_is_taken_for_dead(place, faults):
    (place.root / STAGE).write_bytes(b"")
    leave_journal(place, directory(place))
    faults.fail_always("try_lock", 37)  # ENOLCK
    fs = place.open()
    assert place.litter() == [STAGE]
    await fs.write("f", b"works all the same")


@pytest.mark.spec("DISK-9")
async def test_a_directory_that_was_moved_is_found_again(place):
    (place.root / "a").mkdir()
    line = directory(place, "a")
    (place.root / "a").rename(place.root / "b")
    (place.root / "deep" / "er").mkdir(parents=True)
    (place.root / "b").rename(place.root / "deep" / "er" / "b")
    (place.root / "deep" / "er" / "b" / STAGE).write_bytes(b"")
    (place.root / "l").symlink_to("deep")
    leave_journal(place, line)
    place.open()
    assert place.litter() == []


@pytest.mark.spec("DISK-9")
async def test_a_link_in_the_place_of_a_directory_is_not_followed(place):
    (place.root / "d").mkdir()
    line = directory(place, "d")
    (place.root / "d").rmdir()
    (place.root / "d").symlink_to("../outside")
    (place.outside / STAGE).write_bytes(b"not ours to touch")
    leave_journal(place, line)
    place.open()
    assert (place.outside / STAGE).exists()


# --- swaps -----------------------------------------------------------------------------------


STATES = {
    # What stands under the name and under the staging name when the kill came, by its role,
    # and what the name must hold afterwards.
    "journalled, not exchanged": ("old", "new", OLD),
    "exchanged, not verified": ("new", "old", NEW),
    "exchanged, the old was rewritten in place": ("new", "old rewritten", b"rewritten"),
    "exchanged with something foreign": ("new", "foreign", THEIRS),
    "undone, ours not yet removed": ("foreign", "new", THEIRS),
    "exchanged with something foreign, then replaced": ("later", "foreign", LATER),
    "exchanged with something foreign, then removed": (None, "foreign", THEIRS),
    "finished, not yet forgotten": ("new", None, NEW),
}

CONTENT = {
    "old": OLD, "new": NEW, "foreign": THEIRS, "later": LATER, "old rewritten": b"rewritten",
}  # fmt: skip


@pytest.mark.spec("DISK-9", "DISK-6")
@pytest.mark.parametrize("state", STATES)
async def test_a_half_done_swap_is_finished_or_undone_and_never_lost(place, folder, state):
    under_name, under_stage, expected = STATES[state]
    objects = {}
    for role in ("old", "new", "foreign", "later"):
        objects[role] = folder / f"made-{role}"
        objects[role].write_bytes(CONTENT[role])
    path = path_of(place, folder)
    line = swap_line(inode(objects["old"]), inode(objects["new"]), path)
    leave_journal(place, directory(place, path), line)
    for role, name in ((under_name, "f"), (under_stage, STAGE)):
        if role is not None:
            objects[role.split()[0]].rename(folder / name)
    if under_stage == "old rewritten":
        (folder / STAGE).write_bytes(b"rewritten")
    for unused in folder.glob("made-*"):
        unused.unlink()
    place.open()
    assert (folder / "f").read_bytes() == expected
    assert sorted(name for name in os.listdir(folder) if name != "d") == ["f"]
    assert place.journals() == []


async def test_a_swap_in_a_directory_that_was_moved_is_settled_too(place):
    (place.root / "d").mkdir()
    (place.root / "d" / "f").write_bytes(NEW)
    (place.root / "d" / STAGE).write_bytes(THEIRS)
    (place.root / "was-old").write_bytes(OLD)
    line = swap_line(inode(place.root / "was-old"), inode(place.root / "d" / "f"), "d")
    leave_journal(place, directory(place, "d"), line)
    (place.root / "d").rename(place.root / "moved")
    place.open()
    assert place.tree() == {"moved": None, "moved/f": THEIRS, "was-old": OLD}


async def test_a_swap_that_cannot_be_undone_now_is_kept_for_later(place, faults):
    (place.root / "f").write_bytes(NEW)
    (place.root / STAGE).write_bytes(THEIRS)
    (place.root / "was-old").write_bytes(OLD)
    line = swap_line(inode(place.root / "was-old"), inode(place.root / "f"))
    leave_journal(place, directory(place), line)
    faults.fail("exchange", 5)
    place.open()
    assert (place.root / STAGE).read_bytes() == THEIRS
    assert place.journals()
    place.open()
    assert place.tree() == {"f": THEIRS, "was-old": OLD}
    assert place.journals() == []


# --- journals that are damaged, or grow --------------------------------------------------------


@pytest.mark.parametrize("damage", ['{"type":"dir', "\n", "not json\n", '{"type":"unknown"}\n', ""])
async def test_a_journal_cut_short_is_worked_off_as_far_as_it_goes(place, damage):
    (place.root / STAGE).write_bytes(b"")
    path = leave_journal(place, directory(place))
    with path.open("a") as file:
        file.write(damage)
    place.open()
    assert place.litter() == []
    assert place.journals() == []


async def test_a_journal_without_a_head_names_nothing(place):
    (place.root / STAGE).write_bytes(b"")
    path = leave_journal(place, directory(place))
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    place.open()
    assert place.litter() == [STAGE]


async def test_a_journal_is_private_and_gone_after_a_clean_close(place):
    fs = place.open()
    assert place.journals() == []
    await fs.write("f", b"x")
    (journal,) = place.journals()
    assert journal.stat().st_mode & 0o777 == 0o600
    assert journal.parent.stat().st_mode & 0o777 == 0o700
    await fs.aclose()
    assert place.journals() == []


async def test_a_directory_is_noted_once_and_before_the_first_stage_in_it(place, faults):
    fs = place.open()
    seen = []
    faults.on("open_at", lambda *_a, **_k: None)

    def note(name, *_args, **_options):
        if name.startswith(RESERVED_PREFIX):
            (journal,) = place.journals()
            seen.append(journal.read_text())

    for nth in range(1, 8):
        faults.on("open_at", note, nth=nth)
    await fs.write("d/f", b"x", parents=True)
    for _ in range(3):
        await fs.write("d/f", b"y")
    assert '"path":"."' in seen[0]
    assert '"path":"d"' in seen[1]
    (journal,) = place.journals()
    assert len(journal.read_text().splitlines()) == 3


async def test_a_journal_that_has_grown_is_begun_anew(place, monkeypatch):
    monkeypatch.setattr(journals, "COMPACT_BYTES", 2_000)
    fs = place.open()
    await fs.write("f", b"0")
    sizes = []
    for number in range(50):
        content = str(number).encode()
        await fs.write("f", str(number + 1).encode(), expected_sha256=sha256(content))
        (journal,) = place.journals()
        sizes.append(journal.stat().st_size)
    assert max(sizes) < 3_000
    assert '"path":"."' in journal.read_text()
    await fs.aclose()
    assert place.journals() == []


async def test_a_journal_seen_before_it_was_locked_is_replaced_by_another(place, monkeypatch):
    real, attempts = syscalls.try_lock, []

    def stolen(fd):
        attempts.append(fd)
        if len(attempts) == 1:
            return False
        return real(fd)

    monkeypatch.setattr(syscalls, "try_lock", stolen)
    fs = place.open()
    await fs.write("f", b"x")
    assert len(attempts) == 2
    await fs.aclose()


async def test_the_state_directory_may_not_lie_in_the_root(place):
    for inside in (place.root, place.root / "state", place.root / "a" / "b"):
        with pytest.raises(ParseError):
            place.open(state_dir=inside)
    (place.outside / "link").symlink_to(place.root)
    with pytest.raises(ParseError):
        place.open(state_dir=place.outside / "link" / "state")


# --- real kills ------------------------------------------------------------------------------

WRITER = textwrap.dedent(
    """
    import asyncio, sys
    from bailiwick.stores.disk import DiskStore
    from bailiwick.testing.contract.chunks import of, sha256_of
    from bailiwick.testing.driver import StoreDriver

    async def main(root, state):
        fs = StoreDriver(DiskStore.open(root, state_dir=state, durability="rename"))
        content = await fs.read("f")
        number = 0
        while True:
            number += 1
            new = str(number).encode() * 50_000
            await fs.write("f", new, expected_sha256=sha256_of(content))
            await fs.append("log", b"line\\n")
            await fs.write("d/e/g", new, parents=True)
            await fs.copy("d", f"copy", recursive=True)
            await fs.remove("copy", recursive=True)
            await fs.remove("d", recursive=True)
            await fs.write_stream("h", of(new, new))
            content = new
            print(number, flush=True)

    asyncio.run(main(*sys.argv[1:]))
    """
)


@pytest.mark.slow
@pytest.mark.spec("DISK-4", "DISK-9")
def test_a_killed_writer_leaves_whole_files_and_nothing_after_the_next_start(place):
    (place.root / "f").write_bytes(b"0")
    for round_number in range(8):
        (place.root / "f").write_bytes(b"0")
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, place.root, place.state], stdout=subprocess.PIPE
        ) as writer:
            for _ in range(1 + round_number * 3):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
        place.open()
        assert place.litter() == []
        tree = place.tree()
        for name in ("f", "h", "d/e/g", "copy/e/g"):
            content = tree.get(name)
            if content and content != b"0":
                number = content[: len(content) // (100_000 if name == "h" else 50_000)]
                assert content == number * (len(content) // len(number))
        assert set(tree["log"].splitlines()) <= {b"line"}
        for name in ("copy", "d"):
            if name in tree:
                shutil.rmtree(place.root / name)


@pytest.mark.spec("DISK-9")
async def test_litter_that_could_not_be_cleared_is_left_to_the_next_start(place, faults):
    fs = place.open()
    await fs.write("f", OLD)
    faults.fail("unlink", 5)
    await fs.write("f", NEW, expected_sha256=sha256(OLD))
    assert len(place.litter()) == 1
    await fs.aclose()
    assert len(place.journals()) == 1
    place.open()
    assert place.tree() == {"f": NEW}
    assert place.journals() == []


@pytest.mark.spec("DISK-9")
async def test_a_line_that_could_not_be_written_whole_is_taken_back(place, monkeypatch):
    fs = place.open()
    real, limit = os.write, [5, 5, 10**6, 10**6, 5]

    def short_then_full(fd, data):
        if b'"type"' not in bytes(data) and b'"pa' not in bytes(data):
            return real(fd, data)
        room = limit.pop(0) if limit else 10**6
        if room < len(data):
            real(fd, bytes(data)[:room])
            raise OSError(errno.ENOSPC, "")
        return real(fd, data)

    monkeypatch.setattr(syscalls, "write", short_then_full)
    (place.root / "d").mkdir()
    for path, works in (("f", False), ("f", False), ("f", True), ("d/f", False), ("d/f", True)):
        try:
            await fs.write(path, b"x")
            assert works
        except IoError:
            assert not works
    (journal,) = place.journals()
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["type"] for line in lines] == ["journal", "directory", "directory"]


async def test_looking_for_moved_litter_enters_no_link(place):
    (place.root / "gone").mkdir()
    line = directory(place, "gone")
    (place.root / "gone").rmdir()
    (place.root / "out").symlink_to("../outside")
    (place.outside / STAGE).write_bytes(b"not ours")
    (place.root / "deep").mkdir()
    (place.root / "deep" / STAGE).write_bytes(b"ours")
    leave_journal(place, line)
    place.open()
    assert (place.outside / STAGE).exists()
    assert place.litter() == []
