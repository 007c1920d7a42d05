"""Where a directory lies while it is removed, and that nothing of it stays."""

import asyncio
import os

import pytest

from bailiwick.errors import PermissionDenied
from bailiwick.paths import REMOVED, RESERVED_PREFIX
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes import removal
from bailiwick.stores.disk.changes.removal import Demolition
from tests.stores.disk.test_recovery import STAGE, TOKEN, directory, leave_journal

LINE = {"type": "directory", "path": REMOVED, "inode": 0}


def plant(folder, *names):
    for name in names:
        (folder / name / "inner").mkdir(parents=True)
        (folder / name / "inner" / "f").write_text("x")


@pytest.fixture
def lies_at(monkeypatch):
    """Where each tree lay when it was taken apart, by the names of the directories around it."""
    seen = []
    run = Demolition.run

    def noting(self, parent, name, stop):
        seen.append(os.path.basename(os.readlink(f"/proc/self/fd/{parent}")))
        return run(self, parent, name, stop)

    monkeypatch.setattr(Demolition, "run", noting)
    return seen


@pytest.mark.spec("DISK-9", "EXEC-4")
async def test_all_that_is_removed_goes_by_one_place_and_nothing_stays(place, lies_at):
    plant(place.root, *(f"d/{number}" for number in range(20)))
    stores = [place.open() for _ in range(2)]
    await asyncio.gather(
        *(stores[number % 2].remove(f"d/{number}", recursive=True) for number in range(20))
    )
    assert place.tree() == {"d": None}
    assert set(lies_at) == {REMOVED}


@pytest.mark.spec("DISK-9", "DISK-1")
@pytest.mark.parametrize("planted", ["link", "file", "for all", "other filesystem"])
async def test_where_it_cannot_lie_there_it_lies_beside(place, lies_at, planted, monkeypatch):
    plant(place.root, "d/gone")
    if planted == "link":
        (place.root / REMOVED).symlink_to(place.outside)
    elif planted == "file":
        (place.root / REMOVED).write_text("a person's")
    elif planted == "for all":
        (place.root / REMOVED).mkdir()
        (place.root / REMOVED).chmod(0o755)
    else:
        monkeypatch.setattr(syscalls, "rename_over", refusing_directories(syscalls.rename_over))
    await place.open().remove("d/gone", recursive=True)
    assert lies_at == ["d"]
    assert sorted(os.listdir(place.root / "d")) == []
    assert os.listdir(place.outside) == ["secret"]
    assert os.path.lexists(place.root / REMOVED) == (planted != "other filesystem")


@pytest.mark.spec("DISK-9", "DISK-1")
@pytest.mark.parametrize("put", ["somebody's", "for all"])
async def test_nothing_lies_in_what_somebody_put_there_meanwhile(place, lies_at, put, monkeypatch):
    """Whoever may write to the top sees the place come, and puts another there."""
    plant(place.root, "d/gone")
    make = syscalls.mkdir

    def mkdir(name, mode, *, dir_fd):
        make(name, mode, dir_fd=dir_fd)
        if name == REMOVED:
            os.rename(place.root / REMOVED, place.root / "away")
            (place.root / REMOVED).mkdir()
            if put == "for all":
                (place.root / REMOVED).chmod(0o777)
            else:
                (place.root / REMOVED).chmod(0o700)
                os.chown(place.root / REMOVED, 65534, 65534)

    monkeypatch.setattr(syscalls, "mkdir", mkdir)
    if put == "somebody's" and os.geteuid():
        pytest.skip("needs root, to make what is another's")
    await place.open().remove("d/gone", recursive=True)
    assert lies_at == ["d"]
    assert place.tree() == {"d": None, "away": None, REMOVED: None}


@pytest.mark.spec("DISK-9", "EXEC-4")
async def test_where_nothing_is_for_anybody_alone_it_lies_there_all_the_same(
    place, lies_at, monkeypatch
):
    """A filesystem without modes, as other systems have them."""
    monkeypatch.setattr(removal, "_is_for_us_alone", lambda fd: False)
    plant(place.root, "d/gone")
    await place.open().remove("d/gone", recursive=True)
    assert lies_at == [REMOVED]
    assert place.tree() == {"d": None}


def refusing_directories(rename):
    def rename_within(source, target, *, src_dir_fd, dst_dir_fd):
        if src_dir_fd != dst_dir_fd:
            raise OSError(18, "Invalid cross-device link")
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    return rename_within


@pytest.mark.spec("TREE-2", "DISK-9")
async def test_what_cannot_be_taken_apart_comes_back(place, monkeypatch):
    def failing(self, parent, name, stop):
        raise PermissionError(13, "refused")

    plant(place.root, "d/stays")
    before = place.tree()
    monkeypatch.setattr(Demolition, "run", failing)
    with pytest.raises(PermissionError):
        await place.open().remove("d/stays", recursive=True)
    assert place.tree() == before


@pytest.mark.spec("DISK-9")
async def test_the_rest_of_a_killed_removal_goes_with_the_next_start(place):
    others = f"{RESERVED_PREFIX}ffffffffffff-1"
    plant(place.root / REMOVED, STAGE, others)
    leave_journal(place, LINE)
    place.open()
    assert place.journals() == []
    assert os.listdir(place.root) == [REMOVED]
    assert os.listdir(place.root / REMOVED) == [others]


@pytest.mark.spec("DISK-9")
@pytest.mark.parametrize("left", ["nothing", "the place"])
async def test_the_place_itself_is_no_litter(place, left):
    astray = place.root / "d" / f"{RESERVED_PREFIX}{TOKEN}-2"
    astray.mkdir(parents=True)
    if left == "the place":
        (place.root / REMOVED).mkdir()
    leave_journal(place, LINE)
    place.open()
    assert place.journals() == []
    assert os.listdir(place.root) == ["d"]
    assert astray.exists()  # no directory of that journal: the tree was not walked for it


@pytest.mark.spec("DISK-9")
@pytest.mark.parametrize("planted", ["link", "file"])
async def test_what_others_have_put_in_that_place_keeps_nothing_else_from_being_cleared(
    place, planted
):
    plant(place.outside, STAGE)
    if planted == "link":
        (place.root / REMOVED).symlink_to(place.outside)
    else:
        (place.root / REMOVED).write_text("a person's")
    (place.root / STAGE).write_text("half written")
    leave_journal(place, directory(place), LINE)
    place.open()
    assert place.journals() == []
    assert os.listdir(place.root) == [REMOVED]
    assert sorted(os.listdir(place.outside)) == sorted([STAGE, "secret"])


def plant_deep(folder):
    """Deeper than descriptors are held, with a file at the bottom."""
    for number in range(removal.LEVELS_MAX + 10):
        folder /= f"l{number}"
    folder.mkdir(parents=True)
    (folder / "stays").write_text("x")


@pytest.mark.spec("TREE-2", "DISK-9")
async def test_what_cannot_be_removed_stays_where_it_was_however_deep(place, monkeypatch):
    plant_deep(place.root / "d")
    before = place.tree()
    (place.root / "d" / "goes").write_text("x")
    unlink = syscalls.unlink

    def refusing(name, *, dir_fd):
        if name == "stays":
            raise PermissionError(1, "Operation not permitted")
        unlink(name, dir_fd=dir_fd)

    fs = place.open()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(syscalls, "unlink", refusing)
        with pytest.raises(PermissionDenied):
            await fs.remove("d", recursive=True)
    assert place.tree() == before
    assert await fs.remove("d", recursive=True) == removal.LEVELS_MAX + 12
    assert place.tree() == {}


@pytest.mark.spec("TREE-2")
async def test_the_way_up_is_found_also_out_of_a_directory_that_may_only_be_read(
    place, monkeypatch
):
    """Of mode 400, as it were: it is empty, so nothing else keeps it from going."""
    plant_deep(place.root / "d")
    real, tried = os.open, []

    def shut(path, *how, **more):
        if path == "..":
            tried.append(path)
            raise PermissionError(13, "Permission denied")
        return real(path, *how, **more)

    monkeypatch.setattr(os, "open", shut)
    assert await place.open().remove("d", recursive=True) == removal.LEVELS_MAX + 12
    assert tried
    assert place.tree() == {}


@pytest.mark.spec("TREE-2", "DISK-1")
async def test_the_way_up_leads_into_nothing_that_others_have_put_around_it(place, monkeypatch):
    """Somebody moves a directory away that is not held any more: nothing of theirs goes."""
    plant_deep(place.root / "d")
    (place.outside / "empty").mkdir()
    unlink = syscalls.unlink

    def moving(name, *, dir_fd):
        unlink(name, dir_fd=dir_fd)
        if name == "stays":
            deep = "/".join(f"l{number}" for number in range(10))
            (gone,) = (place.root / REMOVED).iterdir()
            os.rename(gone / deep, place.outside / "l9")

    monkeypatch.setattr(syscalls, "unlink", moving)
    await place.open().remove("d", recursive=True)
    assert place.tree() == {}
    assert sorted(os.listdir(place.outside)) == ["empty", "l9", "secret"]
    assert os.listdir(place.outside / "l9") == []


@pytest.mark.spec("DISK-9")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what is another's")
@pytest.mark.parametrize("owner", ["another", "us"])
async def test_what_is_anothers_in_that_place_and_shut_keeps_no_journal(place, owner, monkeypatch):
    """As a server of root leaves it that was killed, for one of a plain user."""
    (place.root / REMOVED).mkdir(mode=0o700)
    if owner == "another":
        os.chown(place.root / REMOVED, 65534, 65534)
    real = os.open

    def shut(path, *how, **more):
        if path == REMOVED:
            raise PermissionError(13, "Permission denied")
        return real(path, *how, **more)

    leave_journal(place, LINE)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(os, "open", shut)
        place.open()
    assert len(place.journals()) == (owner == "us")
