"""A directory with its history, through scopes: opened for oneself, and under an authority."""

import os
import stat

import pytest

import bailiwick
from bailiwick.errors import ParseError, Unsupported

pytestmark = pytest.mark.spec("DISK-8", "VOL-5")


def directory(tmp_path):
    tree = tmp_path / "project"
    tree.mkdir()
    (tree / "a.txt").write_text("one\n")
    return tree


async def test_a_directory_remembers_when_it_is_asked_to(tmp_path):
    tree = directory(tmp_path)
    options = {"history": "on", "state_dir": str(tmp_path / "state")}
    async with bailiwick.open(tree, **options) as fs:
        assert fs.description["history"] == "on"
        edited = await fs.edit("a.txt", old="one", new="two")
        await fs.write_text("b/c.txt", "new\n", parents=True)
        newest, found = (await fs.history("a.txt")).versions
        assert (newest.request_id, newest.subject) == (edited.request_id, "user:local")
        assert (await fs.read_text("a.txt", as_of=found.version)).text == "one\n"
        assert "-one\n+two\n" in (await fs.diff("a.txt", as_of=found.version)).text
        undone = await fs.undo(edited.request_id)
        assert (undone.undone, undone.conflicts) == (["a.txt"], [])
        assert (tree / "a.txt").read_text() == "one\n"
        restored = await fs.restore("a.txt", newest.version)
        assert restored.changed == 1
    # It is still there when the directory is opened again, and only for its owner.
    async with bailiwick.open(tree, **options) as fs:
        assert len((await fs.history("a.txt")).versions) == 4
        await fs.undo(restored.request_id)
        assert (tree / "a.txt").read_text() == "one\n"
        for verb in (fs.snapshot("s"), fs.fork("f"), fs.merge("f")):
            with pytest.raises(Unsupported):
                await verb
    for folder, _, files in os.walk(tmp_path / "state" / "history"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert all(stat.S_IMODE(os.stat(f"{folder}/{each}").st_mode) == 0o600 for each in files)


async def test_without_it_nothing_is_kept(tmp_path):
    tree = directory(tmp_path)
    async with bailiwick.open(tree, state_dir=str(tmp_path / "state")) as fs:
        await fs.write_text("a.txt", "two\n")
        with pytest.raises(Unsupported):
            await fs.history("a.txt")
    assert not (tmp_path / "state" / "history").exists()


async def test_history_is_for_directories(tmp_path):
    for place in ("memory:", f"sqlite:{tmp_path}/v.db"):
        with pytest.raises(Unsupported, match="'history' is for directories"):
            async with bailiwick.open(place, history="on"):
                pass
    with pytest.raises(ParseError):
        bailiwick.open(tmp_path, history="yes")
    tree = directory(tmp_path)
    with pytest.raises(Unsupported, match="keep_versions_days"):
        async with bailiwick.open(tree, keep_versions_days=3):
            pass
    state = str(tmp_path / "state")
    async with bailiwick.open(tree, history="on", keep_versions_days=3, state_dir=state) as fs:
        await fs.write_text("x", "x")


def test_blocking_callers_have_it_too(tmp_path):
    tree = directory(tmp_path)
    with bailiwick.open_sync(tree, history="on", state_dir=str(tmp_path / "state")) as fs:
        gone = fs.remove("a.txt")
        assert fs.undo(gone.request_id).undone == ["a.txt"]
        assert (tree / "a.txt").read_text() == "one\n"


async def test_an_agent_is_undone_by_its_person_only(tmp_path):
    tree = directory(tmp_path)
    (tmp_path / "bailiwick.toml").write_text(
        f"""
[[root]]
kind = "workspace"
id = "project"
path = "{tree}"
trusted = true
history = "on"

[[grant]]
subject = "agent_run:talk/r1"
root = "workspace:project"
access = ["read", "write", "list", "metadata", "delete"]
"""
    )
    config, state = tmp_path / "bailiwick.toml", str(tmp_path / "state")
    async with bailiwick.Authority.from_config(config, state) as authority:
        access = {"read", "write", "list", "metadata", "delete"}
        run, me = bailiwick.AgentRun("talk", "r1"), bailiwick.User("me")
        agent = await authority.request_root(run, "workspace:project", access, "to work")
        person = await authority.request_root(me, "workspace:project", access, "to look")
        await person.write_text("b.txt", "mine\n")
        changed = await agent.write_text("a.txt", "agent\n")
        with pytest.raises(bailiwick.BailiwickError):
            await agent.undo((await person.history("b.txt")).versions[0].request_id)
        undone = await person.undo(changed.request_id, subject="agent_run:talk/r1")
        assert undone.undone == ["a.txt"]
        assert (tree / "a.txt").read_text() == "one\n"
        assert (tree / "b.txt").read_text() == "mine\n"
        assert [each.subject for each in (await person.history("a.txt")).versions] == [
            "user:me", "agent_run:talk/r1", "",
        ]  # fmt: skip
