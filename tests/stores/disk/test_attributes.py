"""Modes and times: of this name alone, whatever other names the file has."""

import os
import stat

import pytest

from bailiwick.errors import HardlinkRefused

pytestmark = pytest.mark.spec("LINK-7")

DAY_NS = 24 * 3600 * 10**9


def of(path):
    found = os.stat(path)
    return stat.S_IMODE(found.st_mode), found.st_mtime_ns, found.st_ino


def plant(place):
    """A file of the root that has another name outside of it."""
    file, other = place.root / "f", place.outside / "other-name"
    file.write_bytes(b"shared")
    os.chmod(file, 0o640)
    os.utime(file, ns=(DAY_NS, 2 * DAY_NS))
    os.link(file, other)
    return file, other


async def test_a_mode_is_set_on_a_file_of_its_own(every_place):
    file, other = plant(every_place)
    before = of(other)
    fs = every_place.open()
    await fs.set_mode("f", 0o600)
    assert of(other) == before
    assert of(file)[:2] == (0o600, 2 * DAY_NS)
    assert os.stat(file).st_nlink == os.stat(other).st_nlink == 1
    assert (file.read_bytes(), other.read_bytes()) == (b"shared", b"shared")
    await fs.aclose()


async def test_times_are_set_on_a_file_of_its_own(every_place):
    file, other = plant(every_place)
    before = of(other)
    fs = every_place.open()
    await fs.set_times("f", 3 * DAY_NS)
    assert of(other) == before
    assert of(file)[:2] == (0o640, 3 * DAY_NS)
    assert os.stat(file).st_atime_ns >= DAY_NS
    assert (file.read_bytes(), other.read_bytes()) == (b"shared", b"shared")
    inode = of(file)[2]
    await fs.set_mode("f", 0o644)  # by now it has one name, and is changed in place
    assert of(file) == (0o644, 3 * DAY_NS, inode)
    await fs.aclose()


async def test_where_such_files_are_refused_nothing_is_changed(every_place):
    file, other = plant(every_place)
    before = of(other)
    fs = every_place.open(hardlinks="reject")
    for attempt in (fs.set_mode("f", 0o600), fs.set_times("f", 3 * DAY_NS)):
        with pytest.raises(HardlinkRefused):
            await attempt
    assert of(other) == of(file) == before
    await fs.aclose()
