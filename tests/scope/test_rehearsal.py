"""A rehearsal: a call that is judged like any other, and does nothing."""

import pytest

import bailiwick
from bailiwick.errors import ApprovalDenied

CHANGES = {
    "write_bytes": lambda fs: fs.write_bytes("a", b"x"),
    "write_text": lambda fs: fs.write_text("new/b", "x", parents=True),
    "write_json": lambda fs: fs.write_json("a", 1),
    "write_stream": lambda fs: fs.write_stream("a", [b"x"]),
    "append": lambda fs: fs.append("a", b"x"),
    "truncate": lambda fs: fs.truncate("a", 0),
    "edit": lambda fs: fs.edit("a", old="one", new="two"),
    "make_dir": lambda fs: fs.make_dir("new"),
    "remove": lambda fs: fs.remove("d", recursive=True),
    "move": lambda fs: fs.move("a", "b"),
    "copy": lambda fs: fs.copy("d", "e", recursive=True),
    "symlink": lambda fs: fs.symlink("link", "a"),
    "set_mode": lambda fs: fs.set_mode("a", 0o600),
    "set_times": lambda fs: fs.set_times("a", 10**9),
    "create_archive": lambda fs: fs.create_archive("d", "d.zip"),
    "extract_archive": lambda fs: fs.extract_archive("x.zip", "out"),
}


async def look(fs):
    found = await fs.find(include_ignored=True)
    return [(str(e.path), e.type, e.size, e.mtime_ns) for e in found.matches]


@pytest.mark.spec("POL-4")
@pytest.mark.parametrize("verb", CHANGES)
@pytest.mark.parametrize("place", ["memory:", "disk", "sqlite"])
async def test_a_rehearsed_change_changes_nothing(place, verb, tmp_path):
    where = {
        "disk": str(tmp_path), "sqlite": f"sqlite:{tmp_path}/v.db?volume=main",
    }.get(place, place)  # fmt: skip
    async with bailiwick.open(where) as fs:
        await fs.write_text("a", "one")
        await fs.write_text("d/x", "x", parents=True)
        await fs.create_archive("d", "x.zip")
        before = await look(fs)
        told = []
        with pytest.raises(ApprovalDenied, match="rehearsal"):
            await CHANGES[verb](fs._as_called(rehearsal=told.append))
        assert told == [None]
        assert await look(fs) == before


@pytest.mark.spec("POL-4")
async def test_a_rehearsed_read_reads_and_asks_nobody():
    async with bailiwick.open("memory:") as fs:
        await fs.write_text("a", "one")
        await fs.write_text(".env", "KEY=1")
        agent = await fs.delegate(bailiwick.AgentRun("a", "b"))
        told = []
        rehearsing = agent._as_called(rehearsal=told.append)
        assert (await rehearsing.read_text("a")).text == "one"
        assert told == []
        with pytest.raises(ApprovalDenied, match="rehearsal"):
            await rehearsing.read_text(".env")
        assert told[0].paths == (".env",)
