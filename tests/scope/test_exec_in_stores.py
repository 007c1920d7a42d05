"""Programs in roots that are no directories: what they see of them is written out."""

import asyncio
import os

import pytest

import bailiwick
from bailiwick.errors import Unsupported
from tests.authority.support import rule
from tests.authority.test_versions_review import house_on_volume
from tests.scope.test_exec import ALLOW_EXEC, RUNNING, told

pytestmark = [pytest.mark.spec("EXEC-3", "EXEC-9"), pytest.mark.usefixtures("needs_bubblewrap")]


@pytest.fixture(params=["volume", "memory", "overlay"])
def place(request, tmp_path):
    (tmp_path / "project").mkdir()
    places = {
        "volume": f"sqlite:{tmp_path / 'agent.db'}",
        "memory": "memory:",
        "overlay": f"overlay:{tmp_path / 'project'}",
    }
    return places[request.param]


@pytest.fixture
def volume(tmp_path):
    return f"sqlite:{tmp_path / 'agent.db'}"


def opened(place, tmp_path, **options):
    return bailiwick.open(place, state_dir=str(tmp_path / "state"), **options)


async def planted(fs):
    await fs.write_text("a.txt", "one\n")
    await fs.write_text("d/b.txt", "b\n", parents=True)
    await fs.write_bytes("d/run", b"#!/bin/sh\necho ran\n", file_mode=0o755)
    await fs.symlink("l", "d/b.txt")


async def said_by(fs, shell, **more):
    execution = fs.exec(shell=shell, **more)
    said = b"".join([piece.data async for piece in execution]).decode()
    return said, await execution.result()


def trees(tmp_path):
    """The trees that are written out."""
    return [
        each / "tree"
        for root in (tmp_path / "state" / "lowers").glob("*")
        for each in root.iterdir()
        if (each / "lock").exists()
    ]


def left(tmp_path):
    """Working copies of commands. What is being removed is none."""
    found = (tmp_path / "state" / "work").glob("*/*")
    found = (each for each in found if each.suffix != ".gone")
    return [each.name for each in found if not (each / "record").exists()]


async def test_a_program_sees_it_and_what_it_changed_comes_back(place, tmp_path):
    async with opened(place, tmp_path) as fs:
        await planted(fs)
        said, result = await said_by(
            fs, "cat l; ./d/run; stat -c %a d/run; echo two > a.txt; rm d/b.txt; mkdir n;"
            " echo x > n/f; chmod 750 n/f; ln -sf n/f l; mv d e",
        )  # fmt: skip
        assert said == "b\nran\n755\n"
        assert (result.exit_code, result.withheld, result.conflicts) == (0, [], [])
        assert (await fs.read_text("a.txt")).text == "two\n"
        assert (await fs.stat("n/f")).mode & 0o777 == 0o750
        assert (await fs.stat("e/run")).mode & 0o777 == 0o755
        assert await fs.readlink("l") == "n/f"
        assert not await fs.exists("d")
        assert not await fs.exists("e/b.txt")
        assert left(tmp_path) == []
        if "history" in fs.powers:
            await fs.undo(result.request_id)
            assert (await fs.read_text("a.txt")).text == "one\n"
            assert (await fs.read_text("d/b.txt")).text == "b\n"
            assert not await fs.exists("n")


async def test_a_version_is_written_out_once_and_what_stayed_is_linked(volume, tmp_path):
    async with opened(volume, tmp_path) as fs:
        await planted(fs)
        await said_by(fs, "true")
        (tree,) = trees(tmp_path)
        before = (tree / "d" / "b.txt").stat()
        await said_by(fs, "cat a.txt")
        assert trees(tmp_path) == [tree]
        await said_by(fs, "echo two > a.txt")
        said, _ = await said_by(fs, "cat a.txt d/b.txt")
        assert said == "two\nb\n"
        (other,) = set(trees(tmp_path)) - {tree}
        assert (other / "d" / "b.txt").stat().st_ino == before.st_ino
        assert (tree / "a.txt").read_text() == "one\n"


@pytest.mark.spec("EXEC-8")
async def test_what_others_change_meanwhile_stays(place, tmp_path):
    async with opened(place, tmp_path) as fs:
        await planted(fs)
        execution = await fs.exec(shell="read go; echo program > a.txt; echo x > d/x", stdin="pipe")
        await fs.write_text("a.txt", "a person\n")
        await execution.write(b"go\n")
        result = await execution.result()
        assert [str(each.path) for each in result.conflicts] == ["a.txt"]
        assert result.changes == []
        assert (await fs.read_text("a.txt")).text == "a person\n"
        assert not await fs.exists("d/x")
        async with await fs.open_work(result.work_id) as work:
            published = await work.apply(publish="partial")
        assert told(published) == {("d/x", "created")}
        assert (await fs.read_text("d/x")).text == "x\n"


@pytest.mark.spec("EXEC-4")
async def test_what_is_hidden_is_not_written_out_for_it(volume, tmp_path):
    async with opened(volume, tmp_path) as fs:
        await planted(fs)
        await fs.write_text("secret/key", "hush\n", parents=True)
        await said_by(fs, "true")
        (whole,) = trees(tmp_path)
        agent = await fs.delegate(
            subject=bailiwick.User("other"), access=fs.grant.access, denied=["secret"]
        )
        said, result = await said_by(agent, "ls; cat secret/key; echo x > d/x")
        assert "secret" not in said.replace("cat: secret", "")
        assert "hush" not in said
        (seen,) = set(trees(tmp_path)) - {whole}
        assert not (seen / "secret").exists()
        assert told(result) == {("d/x", "created")}
        assert (await fs.read_text("secret/key")).text == "hush\n"


async def test_a_session_goes_on_where_it_was_left(volume, tmp_path):
    async with opened(volume, tmp_path) as fs:
        await planted(fs)
        async with fs.session() as session:
            await session.exec(shell="mv d e; echo two > a.txt").result()
            await session.exec(shell="echo three >> a.txt").result()
            assert {str(each.path) for each in (await session.changes()).changes} == {"a.txt", "e"}
        assert (await fs.read_text("a.txt")).text == "one\n"
    async with opened(volume, tmp_path, limits=bailiwick.Limits(exec_trees_kept=1)) as fs:
        for text in "uvw":  # others have their trees written out, and this one stays
            await fs.write_text("other", text)
            await said_by(fs, "true")
        async with await fs.open_session(session.id) as again:
            assert (await again.diff("a.txt")).text.endswith("+three\n")
            published = await again.publish()
            assert published.conflicts == published.withheld == []
            said = b"".join([each.data async for each in again.exec(shell="cat a.txt e/b.txt")])
            assert said == b"two\nthree\nb\n"
        assert (await fs.read_text("a.txt")).text == "two\nthree\n"
        assert not await fs.exists("d")
        assert left(tmp_path) == []


async def test_only_so_many_stay_written_out(volume, tmp_path):
    async with opened(volume, tmp_path, limits=bailiwick.Limits(exec_trees_kept=2)) as fs:
        for text in "uvwxy":
            await fs.write_text("f", text)
            assert (await said_by(fs, "cat f"))[0] == text
        assert len(trees(tmp_path)) == 2
    async with opened(volume, tmp_path, limits=bailiwick.Limits(exec_trees_bytes_kept=1)) as fs:
        for text in ("long", "longer"):
            await fs.write_text("f", text)
            assert (await said_by(fs, "cat f"))[0] == text
        assert len(trees(tmp_path)) == 1


async def test_too_much_is_refused_in_words(place, tmp_path):
    async with opened(place, tmp_path, limits=bailiwick.Limits(exec_tree_bytes_max=10)) as fs:
        await fs.write_text("f", "more than ten bytes\n")
        with pytest.raises(Unsupported, match="more in this root than is written out"):
            await fs.exec(["true"])
    async with opened(place, tmp_path, limits=bailiwick.Limits(exec_entries_max=2)) as fs:
        await planted(fs)
        with pytest.raises(Unsupported, match="more in this root"):
            await fs.exec(["true"])
    assert left(tmp_path) == []


async def test_several_at_a_time_share_what_is_written_out(volume, tmp_path):
    async with opened(volume, tmp_path) as fs:
        await planted(fs)
        results = await asyncio.gather(
            *(fs.exec(shell=f"echo {n} > f{n}; cat a.txt").result() for n in range(6))
        )
        assert all(each.changes and not each.conflicts for each in results)
        assert (await fs.glob("f?")).paths == [f"f{n}" for n in range(6)]


async def test_what_cannot_be_a_name_here_is_said(volume, tmp_path):
    async with opened(volume, tmp_path) as fs:
        await fs.write_text("d" * 250 + "/x", "x", parents=True)
        await fs.symlink("out", "nowhere/at/all")
        said, _ = await said_by(fs, "ls | wc -l; readlink out")
        assert said == "2\nnowhere/at/all\n"


async def test_nothing_of_a_memory_root_is_left(tmp_path):
    async with opened("memory:", tmp_path) as fs:
        await planted(fs)
        await said_by(fs, "echo two > a.txt", publish="manual")
        assert len(await fs.work()) == 1
        assert len(os.listdir(tmp_path / "state" / "passing")) == 1
    assert os.listdir(tmp_path / "state" / "passing") == []


async def test_a_fork_has_working_copies_of_its_own(volume, tmp_path):
    async with opened(volume, tmp_path) as fs:
        await planted(fs)
        fork = await fs.fork("try")
        said, result = await said_by(fork, "cat a.txt; echo forked > a.txt")
        assert (said, result.conflicts) == ("one\n", [])
        assert (await fork.read_text("a.txt")).text == "forked\n"
        assert (await fs.read_text("a.txt")).text == "one\n"
        await said_by(fork, "rm -r d", publish="manual")
        assert len(await fork.work()) == 1
        assert await fs.work() == []
        await fork.aclose()


@pytest.mark.spec("EXEC-1", "EXEC-4")
async def test_a_governed_volume_runs_what_rules_allow(tmp_path):
    rules = ALLOW_EXEC + rule("hide", "secret", "secret/**")
    async with house_on_volume(tmp_path, rules) as house:
        own = await house.bare()
        await planted(own)
        await own.write_text("secret/key", "hush\n", parents=True)
        agent = await house.scope(RUNNING)
        said, result = await said_by(agent, "ls; cat secret/*; echo x > d/x")
        assert "hush" not in said
        assert "secret\n" not in said
        assert told(result) == {("d/x", "created")}
        assert (await own.read_text("d/x")).text == "x\n"
