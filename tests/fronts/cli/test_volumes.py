"""`bailiwick volume`: made, measured, checked against real damage, mended, collected, compacted."""

import asyncio
import json
import os

import apsw
import pytest

import bailiwick
from tests.fronts.cli.command import within
from tests.fronts.cli.places import Typed


@pytest.fixture
def volume(tmp_path):
    typed = Typed(f"sqlite:{tmp_path}/agent.db?volume=demo")
    assert within("volume", "create", typed.place).returncode == 0
    return typed


def care(volume, action, *more):
    done = within("volume", action, volume.place, *more, "--json")
    return done.returncode, json.loads(done.stdout or done.stderr)


def sql(tmp_path, statement, *values):
    with apsw.Connection(str(tmp_path / "agent.db")) as connection:
        connection.execute(statement, values).fetchall()
    connection.close()


@pytest.mark.spec("VOL-9", "CLI-1")
def test_create(volume, tmp_path):
    assert (tmp_path / "agent.db").exists()
    assert care(volume, "create")[1]["errorKind"] == "file_already_exists"
    other = f"sqlite:{tmp_path}/agent.db?volume=other"
    assert json.loads(within("volume", "create", other, "--json").stdout) == {
        "kind": "volume", "volume": "other", "created": True,
    }  # fmt: skip
    assert within("-p", other, "ls").stdout == ""


@pytest.mark.spec("VOL-9", "CLI-2")
@pytest.mark.parametrize("action", ["info", "check", "repair", "gc", "compact"])
def test_a_volume_that_does_not_exist_is_not_made(tmp_path, action):
    place = f"sqlite:{tmp_path}/none.db"
    done = within("volume", action, place)
    assert done.returncode == 1
    assert done.stderr.startswith("root_not_found: ")
    assert "volume create" in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.spec("VOL-9")
@pytest.mark.parametrize(
    ("place", "kind"), [("project", "parse_error"), ("postgres://h/d", "parse_error")]
)
def test_what_is_no_volume(place, kind):
    done = within("volume", "info", place, "--json")
    assert (done.returncode, json.loads(done.stderr)["errorKind"]) == (1, kind)


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("my notes, no database at all\n" * 100)
    for action in ("create", "info", "compact"):
        done = within("volume", action, f"sqlite:{other}")
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
    assert other.read_text() == "my notes, no database at all\n" * 100


@pytest.mark.spec("VOL-9")
def test_info(volume):
    same = os.urandom(100_000)
    volume.fill({"a/one": same, "a/two": same, "three": b"123"})
    code, told = care(volume, "info")
    assert code == 0
    assert {name: told[name] for name in ("kind", "volume", "files", "directories", "links")} == {
        "kind": "volume_info", "volume": "demo", "files": 3, "directories": 1, "links": 0,
    }  # fmt: skip
    assert told["bytes"] == 200_003
    assert 100_000 <= told["storedBytes"] < 110_000
    assert 1.8 < told["dedupRatio"] <= 2.0
    assert told["versions"] >= 3
    text = within("volume", "info", volume.place).stdout
    assert "200003 (195.3 KiB)" in text


@pytest.mark.spec("VOL-9")
def test_check_finds_damage_and_repair_says_what_is_lost(volume, tmp_path):
    volume.fill({"good": os.urandom(100_000), "bad": os.urandom(100_000)})
    code, told = care(volume, "check")
    assert (code, told["clean"], told["problems"], told["lost"]) == (0, True, [], [])
    assert (told["nodes"], told["chunks"]) == (3, 2)
    sql(tmp_path, "UPDATE chunk SET data = zeroblob(length(data)) WHERE id ="
                  " (SELECT max(id) FROM chunk)")  # fmt: skip
    code, told = care(volume, "check")
    assert (code, told["clean"]) == (1, False)
    assert len(told["lost"]) == 1
    lost = told["lost"][0].lstrip("/")
    assert lost in ("good", "bad")
    done = within("volume", "check", volume.place)
    assert (done.returncode, f"lost: {told['lost'][0]}" in done.stdout) == (1, True)
    assert "volume repair" in done.stderr
    assert volume.refused("cat", lost) == "io_error"
    assert volume("cat", "good" if lost == "bad" else "bad").returncode == 0
    code, told = care(volume, "repair")
    assert code == 1
    assert len(told["lost"]) == 1
    assert "backup" in within("volume", "repair", volume.place).stderr


@pytest.mark.spec("VOL-9")
def test_repair_mends_what_nothing_refers_to(volume, tmp_path):
    volume.fill({"a": os.urandom(50_000)})
    sql(tmp_path, "DELETE FROM manifest")
    code, told = care(volume, "check")
    assert code == 1
    before = len(told["problems"])
    assert care(volume, "check", "--repair")[1]["problems"]
    assert len(care(volume, "check")[1]["problems"]) < before


@pytest.mark.spec("VOL-8", "CLI-1")
def test_gc_lets_go_of_old_versions_and_compact_gives_the_room_back(volume, tmp_path):
    for _ in range(5):
        volume.fill({"big": os.urandom(1_000_000)})
    code, told = care(volume, "gc", "--keep-days", "0")
    assert (code, told["kind"]) == (0, "volume_gc")
    assert told["contents"] >= 4
    code, told = care(volume, "compact")
    assert code == 0
    assert told["bytesAfter"] < told["bytesBefore"] / 2
    assert care(volume, "check")[1]["clean"]
    assert len(volume("cat", "big").stdout.encode("utf-8", "surrogateescape")) == 1_000_000


@pytest.mark.spec("VOL-8")
def test_gc_keeps_what_is_young(volume):
    for content in (b"1", b"2"):
        volume.fill({"a": content})
    assert care(volume, "gc")[1]["nodes"] == 0


@pytest.mark.spec("CLI-1")
def test_compacting_while_others_read_and_write_harms_nobody(volume):
    async def use():
        async with bailiwick.open(volume.place) as fs:
            await fs.write_bytes("a", b"before")
            done = await asyncio.to_thread(within, "volume", "compact", volume.place)
            await fs.write_bytes("b", b"after")
            return done, (await fs.read_bytes("a")).data, (await fs.read_bytes("b")).data

    done, before, after = asyncio.run(use())
    assert done.returncode == 0, done.stderr
    assert (before, after) == (b"before", b"after")


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("days", ["-1", "x", "nan", "99999999"])
def test_days_are_checked(volume, days):
    assert within("volume", "gc", volume.place, "--keep-days", days).returncode == 2


@pytest.mark.spec("SCALE-2", "CLI-1")
def test_copy(volume, tmp_path):
    volume.fill({"notes.txt": b"hello"})
    target = f"sqlite:{tmp_path}/other.db?volume=demo"
    done = json.loads(within("volume", "copy", volume.place, target, "--json").stdout)
    assert (done["kind"], done["resumed"], done["wasWhole"]) == ("volume_copy", False, False)
    assert within("-p", target, "cat", "notes.txt").stdout == "hello"
    assert "is there already" in within("volume", "copy", volume.place, target).stdout
    Typed(target).fill({"more.txt": b"x"})
    refused = within("volume", "copy", volume.place, target)
    assert refused.returncode == 1
    assert refused.stderr.startswith("file_already_exists: ")
    # What is whole is no copy that somebody has left, and is let be.
    refused = within("volume", "discard-copy", target)
    assert (refused.returncode, refused.stderr.split(":")[0]) == (1, "root_not_found")
    assert within("-p", target, "cat", "notes.txt").stdout == "hello"
