"""Other filesystems inside a root: crossed, refused, or never touched, however they are reached.

Nothing is mounted here: the kernel's answers about mounts, devices and filesystems are put in
their place. What a real mount does is looked at behind the wall (`tests/hostile/rows_objects.py`).
"""

import os

import pytest

from bailiwick.errors import BailiwickError, Unsupported
from bailiwick.stores.disk import settings, syscalls
from tests.stores.disk.conftest import hold
from tests.stores.disk.test_lookup import ANSWERS, answer, plant

PROC = next(iter(syscalls.KERNEL_FILESYSTEMS))
LAYOUT = {"d/f": b"near", "apart/f": b"far", "apart/e/g": b"far", "to-apart": "->apart/f"}


def lies_apart(directory, name=""):
    return "apart" in f"{os.readlink(f'/proc/self/fd/{directory}')}/{name}".split("/")


@pytest.fixture
def mounted_apart(monkeypatch):
    """What is beneath `apart` has another mount than the rest."""
    real = syscalls.mount_of

    def mount_of(directory, name=""):
        return -5 if lies_apart(directory, name) else real(directory, name)

    monkeypatch.setattr(syscalls, "mount_of", mount_of)


@pytest.fixture
def elsewhere(monkeypatch):
    """All that is in a root is on another device than the root itself."""
    real = settings.DiskRoot.__init__

    def on_its_own(self, fd):
        real(self, fd)
        self.dev = -1

    monkeypatch.setattr(settings.DiskRoot, "__init__", on_its_own)


async def child(fs, *names):
    """The type of what stands under names of held directories, or the kind of the error."""
    held = await hold(fs, ".")
    try:
        for name in names:
            directory, held = held, await fs.store.descend(held, name)
            directory.close()
    except BailiwickError as error:
        return error.kind
    finally:
        held.close()
    return held.type


@pytest.mark.spec("DISK-1", "DISK-2")
@pytest.mark.parametrize("path", ["apart", "apart/f", "apart/e/g", "to-apart"])
async def test_a_mount_is_crossed_only_where_that_is_set(bare_place, mounted_apart, path):
    plant(bare_place.root, LAYOUT)
    for way in ("walk", "bare"):
        bare_place.work_in(way)
        crossing, staying = bare_place.open(), bare_place.open(cross_mounts=False)
        assert await answer(crossing, path) == path.replace("to-apart", "apart/f")
        assert await answer(staying, path) == "symlink_escape"
        assert await answer(staying, "d/f") == "d/f"


@pytest.mark.spec("DISK-1")
async def test_no_entry_and_no_child_leads_across_a_mount(every_place, mounted_apart):
    plant(every_place.root, LAYOUT)
    crossing, staying = every_place.open(), every_place.open(cross_mounts=False)
    for fs, said in ((crossing, "apart"), (staying, "symlink_escape")):
        assert await answer(fs, "apart", "entry") == said
    assert await answer(staying, "apart2", "entry") == "apart2"
    assert await answer(staying, "d/f", "entry") == "d/f"
    assert await child(crossing, "apart", "f") == "file"
    assert await child(staying, "apart") == "symlink_escape"
    assert await child(staying, "d", "f") == "file"


@pytest.mark.spec("ERR-5")
def test_a_kernel_that_does_not_tell_mounts_apart_cannot_keep_to_one(every_place, monkeypatch):
    monkeypatch.setattr(syscalls, "mount_of", lambda _directory, _name="": None)
    with pytest.raises(Unsupported, match="mounts"):
        every_place.open(cross_mounts=False)
    assert every_place.open().store.description["cross_mounts"] == "yes"


@pytest.mark.spec("DISK-2", "PATH-6")
async def test_what_lies_on_another_device_has_the_same_names(every_place, elsewhere):
    plant(every_place.root)
    fs = every_place.open()
    assert {path: await answer(fs, path) for path in ANSWERS} == ANSWERS
    for path in ("f", "d", "d/e/f", "d/e/new", "escape"):
        assert await answer(fs, path, "entry") == path


@pytest.mark.spec("LINK-5")
async def test_a_kernel_filesystem_is_refused_however_it_is_reached(
    every_place, elsewhere, monkeypatch
):
    plant(every_place.root, LAYOUT)
    real = syscalls.filesystem_type
    monkeypatch.setattr(
        syscalls, "filesystem_type", lambda fd: PROC if lies_apart(fd) else real(fd)
    )
    fs = every_place.open()
    for path in ("apart", "apart/f", "to-apart"):
        assert await answer(fs, path) == "not_a_regular_file"
    for path in ("apart", "apart/f"):
        assert await answer(fs, path, "entry") == "not_a_regular_file"
    assert await child(fs, "apart") == "not_a_regular_file"
    assert await answer(fs, "d/f") == await answer(fs, "d/f", "entry") == "d/f"
    assert await child(fs, "d", "f") == "file"


@pytest.mark.spec("LINK-2")
async def test_a_magic_link_is_never_followed(bare_place, monkeypatch):
    """What a link of the kernel says is no path: only its text looks like one."""
    plant(bare_place.root, {"apart/pipe": "->pipe:[1]", "apart/pipe:[1]": b"x"})
    plant(bare_place.root, {"a:[1]": b"a file with an odd name", "l": "->a:[1]"})
    real = syscalls.filesystem_type
    monkeypatch.setattr(
        syscalls, "filesystem_type", lambda fd: PROC if lies_apart(fd) else real(fd)
    )
    fs = bare_place.open(containment="walk")
    with pytest.raises(BailiwickError, match="magic link"):
        await hold(fs, "apart/pipe")
    assert await answer(fs, "l") == "a:[1]"


@pytest.mark.spec("LINK-2")
async def test_a_mount_on_which_links_are_not_followed_has_none_that_are(bare_place, monkeypatch):
    plant(bare_place.root, LAYOUT)
    monkeypatch.setattr(syscalls, "refuses_links", lambda _fd: True)
    fs = bare_place.open(containment="walk")
    with pytest.raises(BailiwickError, match="on this mount"):
        await hold(fs, "to-apart")
    assert await answer(fs, "apart/f") == "apart/f"
