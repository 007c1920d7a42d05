"""What others change while a program runs, in whichever way: it is never overwritten.

Of a file that nobody touched nothing is looked at when a command starts. Whether it was changed
since is told by its times and by the directories around it, or, where times say nothing, by what
was looked up before.
"""

import asyncio
import os
import shutil
import socket
import threading
import time

import pytest

import bailiwick
from bailiwick.stores.disk.changes import removal
from bailiwick.stores.disk.store import DiskStore
from bailiwick.working_copies import tree_names

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@pytest.fixture(params=["times", "no times"])
def project(request, tmp_path, monkeypatch):
    """On a filesystem whose times tell what was changed, and on one whose do not."""
    if request.param == "no times":
        monkeypatch.setattr(DiskStore, "tells_times", staticmethod(lambda fd: False))
    root = tmp_path / "project"
    for name in ("a/f", "b/f", "top"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name} as it was\n")
    return root


def opened(project, **options):
    return bailiwick.open(project, state_dir=str(project.parent / "state"), **options)


async def changed_while(fs, script, change, **options):
    """Run a program that waits until ``change`` was made, and then goes on with ``script``."""
    execution = await fs.exec(shell=f"echo; read _; {script}", stdin="pipe", **options)
    async for _ in execution:
        break
    change()
    await execution.write(b"\n")
    return await execution.result()


async def applied_later(fs, result, **options):
    async with await fs.open_work(result.work_id) as left:
        return await left.apply(**options)


def rewrite(path):
    with open(path, "r+") as file:
        file.write("THEIRS")


def replace(path):
    (path.parent / "new").write_text("theirs\n")
    os.replace(path.parent / "new", path)


def backdate(path):
    """As one who unpacks an archive: of its times only one can be set."""
    rewrite(path)
    os.utime(path, ns=(1, 1))


def swap_directories(path):
    """Its name leads to an old file that nobody has touched for long."""
    top = path.parent.parent
    os.rename(top / "a", top / "away")
    os.rename(top / "b", top / "a")


def put_older_one(path):
    os.replace(path.parent.parent / "b" / "f", path)


def remove(path):
    os.unlink(path)


def remove_directory(path):
    shutil.rmtree(path.parent)


def chmod(path):
    os.chmod(path, 0o600)


CHANGES = [
    rewrite, replace, backdate, swap_directories, put_older_one, remove, remove_directory, chmod,
]  # fmt: skip


def read_all(root):
    return {
        str(each.relative_to(root)): (each.read_text(), each.stat().st_mode)
        for each in root.rglob("*")
        if each.is_file()
    }


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("before", ["", "rm -f a/f;"])
@pytest.mark.spec("EXEC-8")
async def test_whatever_others_did_to_a_file_stays(project, change, before):
    async with opened(project) as fs:
        left = {}

        def others():
            change(project / "a" / "f")
            left.update(read_all(project))

        result = await changed_while(fs, f"mkdir -p a; {before} echo mine > a/f", others)
        assert result.changes == []
        assert "a/f" in {str(each.path) for each in result.conflicts}
        assert read_all(project) == left


@pytest.mark.spec("EXEC-8")
async def test_one_that_others_make_meanwhile_is_theirs(project):
    async with opened(project) as fs:
        theirs = project / "a" / "new"
        result = await changed_while(fs, "echo mine > a/new", lambda: theirs.write_text("theirs"))
        assert [str(each.path) for each in result.conflicts] == ["a/new"]
        assert theirs.read_text() == "theirs"


@pytest.mark.spec("EXEC-8")
async def test_what_others_do_beside_it_is_in_nobodys_way(project):
    async with opened(project) as fs:
        result = await changed_while(
            fs, "echo mine > a/f; echo mine > a/mine", lambda: replace(project / "a" / "theirs")
        )
        assert (result.conflicts, result.withheld) == ([], [])
        assert (project / "a" / "f").read_text() == "mine\n"
        assert (project / "a" / "theirs").read_text() == "theirs\n"


@pytest.mark.spec("EXEC-8")
async def test_a_file_that_was_written_just_before_is_what_the_program_saw(project):
    async with opened(project) as fs:
        for number in range(10):
            (project / "top").write_text(f"{number}\n")
            result = await fs.exec(shell="read had < top; echo $((had + 1)) > top").result()
            assert (result.conflicts, result.exit_code) == ([], 0)
            assert (project / "top").read_text() == f"{number + 1}\n"


@pytest.mark.parametrize("change", [rewrite, replace, remove, swap_directories])
@pytest.mark.spec("EXEC-8")
async def test_what_was_left_is_compared_with_what_the_program_saw(project, change):
    """When others change it afterwards, and another process takes it up."""
    async with opened(project) as fs:
        result = await fs.exec(shell="echo mine > a/f", publish="manual").result()
    change(project / "a" / "f")
    left = read_all(project)
    async with opened(project) as fs:
        shown = await applied_later(fs, result)
        assert [str(each.path) for each in shown.conflicts] == ["a/f"]
    assert read_all(project) == left


@pytest.mark.spec("EXEC-8")
async def test_what_was_left_is_applied_where_nobody_changed_it(project):
    async with opened(project) as fs:
        result = await fs.exec(shell="echo mine > a/f; echo mine > n", publish="manual").result()
    async with opened(project) as fs:
        applied = await applied_later(fs, result)
        assert {str(each.path) for each in applied.changes} == {"a/f", "n"}
    assert (project / "a" / "f").read_text() == "mine\n"


@pytest.mark.parametrize("damage", [None, 0, 10, 40])
@pytest.mark.spec("EXEC-8")
async def test_nothing_is_joined_with_what_was_lost_with_the_machine(project, damage):
    """What a file held before is written down without waiting for the disk."""
    lines = [f"{number}\n" for number in range(20)]
    (project / "top").write_text("".join(lines))
    async with opened(project) as fs:
        result = await fs.exec(shell="sed -i s/^2$/two/ top", publish="manual").result()
    for base in (project.parent / "state" / "work").glob("*/*/bases.pack"):
        if damage is not None:
            os.truncate(base, damage)
    (project / "top").write_text("".join([*lines[:-1], "theirs\n"]))
    left = (project / "top").read_text()
    async with opened(project) as fs:
        published = await applied_later(fs, result, merge=True)
    if damage is None:
        assert (project / "top").read_text() == left.replace("2\n", "two\n", 1)
    else:
        assert [str(each.path) for each in published.conflicts] == ["top"]
        assert (project / "top").read_text() == left


@pytest.mark.spec("EXEC-8")
async def test_a_clock_that_is_set_back_hides_nothing(project, monkeypatch):
    """What others change then has an older time than when the program was shown it."""
    hour_ns = 3_600 * 10**9
    real, real_ns = tree_names.clock_ns, time.time_ns
    async with opened(project) as fs:
        monkeypatch.setattr("bailiwick.working_copies.lower.clock_ns", lambda: real() + hour_ns)
        monkeypatch.setattr("time.time_ns", lambda: real_ns() + hour_ns)

        def others():
            monkeypatch.undo()
            rewrite(project / "a" / "f")

        result = await changed_while(fs, "echo mine > a/f", others)
        assert [str(each.path) for each in result.conflicts] == ["a/f"]


@pytest.mark.spec("EXEC-9")
async def test_names_that_are_no_text_are_in_nobodys_way(project):
    with open(os.fsencode(project) + b"/a/\xff", "w") as file:
        file.write("odd")
    async with opened(project) as fs:
        result = await fs.exec(shell="cat a/*; echo mine > a/f", publish="manual").result()
        assert result.exit_code == 0
    async with opened(project) as fs:
        applied = await applied_later(fs, result)
        assert [str(each.path) for each in applied.changes] == ["a/f"]


@pytest.mark.spec("EXEC-4")
async def test_a_door_that_was_made_between_two_commands_is_not_there(project):
    async with opened(project) as fs:

        async def seen():
            execution = fs.exec(shell="find . -type s -o -type p; ls a")
            return b"".join([piece.data async for piece in execution])

        before = await seen()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(project / "a" / "door"))
            os.mkfifo(project / "a" / "pipe")
            assert await seen() == before
            os.unlink(project / "a" / "door")
            (project / "a" / "door").write_text("a file by now")
            assert await seen() == b"door\nf\n"


@pytest.mark.spec("EXEC-9")
async def test_a_directory_is_listed_again_only_when_it_was_changed(project, monkeypatch):
    directory = os.open(project, os.O_RDONLY)
    tells = DiskStore.tells_times(directory)
    os.close(directory)
    if not tells:
        return
    listed = []
    scandir = os.scandir

    def noticed(directory):
        listed.append(os.readlink(f"/proc/self/fd/{directory}"))
        return scandir(directory)

    async with opened(project) as fs:
        await fs.exec(["true"]).result()
        await fs.exec(["true"]).result()  # its times are older than a look at it by now
        monkeypatch.setattr(tree_names.os, "scandir", noticed)
        await fs.exec(["true"]).result()
        here = [each for each in listed if each.startswith(str(project))]
        assert here == []
        (project / "a" / "new").write_text("")
        await fs.exec(["true"]).result()
        here = [each for each in listed if each.startswith(str(project))]
        assert here == [str(project / "a")]


@pytest.mark.spec("EXEC-4", "DISK-9")
async def test_what_is_being_removed_shows_nothing_that_was_hidden(project, monkeypatch):
    """Neither to a program that ran before, nor to one that begins while it lies there."""
    under_way, goes_on = threading.Event(), threading.Event()
    run = removal.Demolition.run

    def slowly(self, *where):
        under_way.set()
        assert goes_on.wait(60)
        return run(self, *where)

    async def allow(approval):
        return "once"

    (project / "b" / "c").mkdir()
    (project / "b" / "c" / ".env").write_text("SECRET=1\n")
    (project / "a" / ".bailiwick~left-by-one-that-was-killed").write_text("SECRET=1\n")
    every = "grep -rs SECRET .; cat .bailiwick~removed/.b*/c/.env; ls -AR | grep bailiwick; cat top"
    async with opened(project) as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "1"), access=fs.access)
        agent = agent.with_caller("test", asker=allow)
        async with agent.exec(shell=f"echo; read _; {every}", stdin="pipe") as before:
            async for _ in before:
                break
            monkeypatch.setattr(removal.Demolition, "run", slowly)
            removing = asyncio.ensure_future(fs.remove("b", recursive=True))
            try:
                assert await asyncio.to_thread(under_way.wait, 60)
                plain = await asyncio.create_subprocess_shell(
                    every, cwd=project, stdout=asyncio.subprocess.PIPE
                )
                assert b"SECRET" in (await plain.communicate())[0]
                await before.write(b"\n")
                assert await said_by(before) == "\ntop as it was\n"
                assert await said_by(agent.exec(shell=every)) == "top as it was\n"
            finally:
                goes_on.set()
                assert (await removing).count == 4
    assert sorted(os.listdir(project)) == ["a", "top"]


async def said_by(execution):
    said = b"".join([piece.data async for piece in execution if piece.stream == "stdout"])
    await execution.result()
    return said.decode()
