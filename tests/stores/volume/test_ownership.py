"""Whose a volume is: what `doctor` says of the user's own, and what is refused before it is made.

What another user can do, and that it is refused, is in `tests/hostile/test_foreign_volume.py`.
"""

import os

import pytest

import bailiwick
from bailiwick.build.places import embedded_refusal
from bailiwick.errors import ParseError, PermissionDenied
from bailiwick.fronts.cli.machine import examine
from bailiwick.stores.volume import VolumeStore

pytestmark = pytest.mark.spec("VOL-3")


def fact():
    (found,) = [each for each in examine() if each.name == "data directory"]
    return found


@pytest.mark.spec("CLI-3")
def test_doctor_says_when_others_may_write_the_users_own_volume(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert embedded_refusal() is None, "nothing is there yet: it will be made private"
    assert fact().works
    os.makedirs(tmp_path / "data/bailiwick")
    os.chmod(tmp_path / "data/bailiwick", 0o777)
    assert isinstance(embedded_refusal(), PermissionDenied)
    told = fact()
    assert not told.works
    assert "everybody may write" in told.found
    assert "chmod" in told.found
    assert "bailiwick.open()" in told.cost


def test_a_directory_above_that_everybody_may_write_is_refused_too(tmp_path):
    os.makedirs(tmp_path / "open/mine")
    os.chmod(tmp_path / "open", 0o777)
    os.chmod(tmp_path / "open/mine", 0o700)
    with pytest.raises(PermissionDenied):
        VolumeStore.open(str(tmp_path / "open/mine/v.db"))
    assert os.listdir(tmp_path / "open/mine") == []


@pytest.mark.parametrize("beside", ["-wal", "-shm", "-journal"])
async def test_what_sqlite_would_take_for_its_own_is_no_link(tmp_path, beside):
    await VolumeStore.open(str(tmp_path / "v.db")).aclose()
    (tmp_path / "other").write_bytes(b"somebody else's")
    (tmp_path / f"v.db{beside}").symlink_to(tmp_path / "other")
    with pytest.raises(PermissionDenied):
        VolumeStore.open(str(tmp_path / "v.db"))
    assert (tmp_path / "other").read_bytes() == b"somebody else's"


@pytest.mark.parametrize("blobs", ["file:" + "///folder", "http://127.0.0.1/x", "ftp://x"])
async def test_an_address_of_another_kind_is_no_folder(tmp_path, blobs):
    with pytest.raises(ParseError, match="blob store"):
        async with bailiwick.open(f"sqlite:{tmp_path / 'v.db'}?blobs={blobs}"):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_blobs_go_where_the_address_says_also_through_ones_own_link(tmp_path, monkeypatch):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")
    monkeypatch.chdir(inner)
    for name, folder in (("up", "../up"), ("real", "../linked")):
        async with bailiwick.open(f"sqlite:{name}.db?blobs={folder}") as fs:
            await fs.write_bytes("f", bytes(range(250)) * 8_000)
        async with bailiwick.open(f"sqlite:{name}.db?blobs={folder}") as fs:
            assert (await fs.read_bytes("f")).data == bytes(range(250)) * 8_000
        (blob,) = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        assert blob.stat().st_mode & 0o777 == 0o600
        assert not (inner / f"{name}.db-blobs").exists()
