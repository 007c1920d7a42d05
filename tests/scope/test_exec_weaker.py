"""Commands in a weaker sandbox, where the operator has said so: what they change passes the same
boundary, and every record says what they were run in."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import bailiwick
from bailiwick.errors import Unsupported
from bailiwick.sandbox import Shortfall
from bailiwick.sandboxes import bubblewrap, on_copies
from bailiwick.sandboxes.on_copies import Landlock, Unconfined
from tests.authority.support import Person, governed, rule
from tests.scope.test_exec import ALLOW_EXEC, RUNNING, left_in, told
from tests.scope.test_exec_roots import NOTES

pytestmark = pytest.mark.spec("EXEC-5")

KINDS = {"landlock": Landlock, "none": Unconfined}


@pytest.fixture(params=KINDS)
def kind(request):
    for lack in KINDS[request.param]().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    return request.param


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "d").mkdir(parents=True)
    for name in ("a.txt", "gone", "d/b.txt"):
        (root / name).write_text(f"{name}\n")
    return root


def opened(project, kind, **options):
    share = bailiwick.HostShare(sandbox=kind)
    state = str(project.parent / "state")
    return bailiwick.open(project, state_dir=state, commands=share, **options)


@pytest.mark.spec("EXEC-7")
async def test_what_was_changed_is_one_change_that_can_be_undone(project, kind):
    async with opened(project, kind, history="on") as fs:
        script = "echo new > a.txt; rm gone; mv d e; mkdir n; echo n > n/f"
        result = await fs.exec(shell=script).result()
        assert (result.exit_code, result.sandbox) == (0, kind)
        assert (result.withheld, result.conflicts) == ([], [])
        assert told(result) == {
            ("a.txt", "updated"), ("gone", "deleted"), ("e", "moved"), ("n", "created"),
            ("n/f", "created"),
        }  # fmt: skip
        assert (project / "e" / "b.txt").read_text() == "d/b.txt\n"
        assert left_in(project) == []
        await fs.undo(result.request_id)
        assert (project / "gone").read_text() == "gone\n"
        assert not (project / "n").exists()


@pytest.fixture
def on_another_filesystem(tmp_path):
    """A directory beside which nothing can be linked or cloned."""
    usable = (Path(each) for each in ("/dev/shm", "/tmp", "/var/tmp") if os.access(each, os.W_OK))
    elsewhere = next((x for x in usable if x.stat().st_dev != tmp_path.stat().st_dev), None)
    if elsewhere is None:
        pytest.skip(f"/dev/shm, /tmp and /var/tmp are all on the filesystem of {tmp_path}")
    with tempfile.TemporaryDirectory(dir=elsewhere) as directory:
        yield Path(directory)


async def test_the_tree_may_lie_on_another_filesystem(on_another_filesystem, tmp_path, kind):
    project = on_another_filesystem / "project"
    project.mkdir()
    (project / "a.txt").write_text("a\n" * 500_000)
    share = bailiwick.HostShare(sandbox=kind)
    state = str(tmp_path / "state")
    async with bailiwick.open(project, state_dir=state, commands=share) as fs:
        result = await fs.exec(shell="wc -l < a.txt > lines; echo b >> a.txt").result()
        assert result.exit_code == 0
    assert (project / "lines").read_text().strip() == "500000"
    assert (project / "a.txt").read_text() == "a\n" * 500_000 + "b\n"


@pytest.mark.spec("EXEC-8")
async def test_what_others_change_meanwhile_stays(project, kind):
    async with opened(project, kind) as fs:
        execution = await fs.exec(shell="read go; echo mine > a.txt; echo x > x", stdin="pipe")
        (project / "a.txt").write_text("theirs\n")
        await execution.write(b"go\n")
        result = await execution.result()
        assert [str(each.path) for each in result.conflicts] == ["a.txt"]
        assert (project / "a.txt").read_text() == "theirs\n"
        async with await fs.open_work(result.work_id) as work:
            assert not (await work.apply(["x"])).conflicts
            assert (project / "x").read_text() == "x\n"
            left = (await work.changes()).conflicts
            assert [str(each.path) for each in left] == ["a.txt"]
            await work.discard()
        assert left_in(project) == []


@pytest.mark.spec("EXEC-8")
async def test_what_a_killed_process_left_in_a_copy_is_found_again(project, kind, monkeypatch):
    def killed(_):
        raise InterruptedError

    async with opened(project, kind) as fs:
        with monkeypatch.context() as patch:  # as if it had been killed before
            patch.setattr(on_copies, "gather", lambda *_: None)
            patch.setattr("bailiwick.working_copies.folder.Folder.put_aside", killed)
            with pytest.raises(InterruptedError):
                await fs.exec(shell="echo new > a.txt; rm gone", publish="manual").result()
    async with opened(project, kind) as fs:
        (found,) = await fs.work()
        async with await fs.open_work(found.id) as work:
            published = await work.apply()
        assert {str(each.path) for each in published.changes} == {"a.txt", "gone"}
        assert (project / "a.txt").read_text() == "new\n"
    assert left_in(project) == []


@pytest.mark.spec("EXEC-1", "EXEC-4")
async def test_every_record_and_question_says_which(tmp_path, kind):
    rules = ALLOW_EXEC + rule("hide", ".env")
    options = f'exec = {{sandbox = "{kind}"}}'
    async with governed(tmp_path, rules, on_disk=True, options=options) as house:
        (house.place / ".env").write_text("secret\n")
        (house.place / "seen").write_text("seen\n")
        scope = await house.scope(RUNNING)
        execution = scope.exec(shell="ls -A; echo x > new")
        said = b"".join([piece.data async for piece in execution]).decode()
        assert (await execution.result()).sandbox == kind
        assert said == "seen\n"
        commands = [
            each.details["command"] for each in await house.operations() if each.verb == "exec"
        ]
        assert commands
        assert all(each.endswith(f"(sandbox {kind})") for each in commands)
        with pytest.raises(Unsupported, match="each command has a copy of its own") as refused:
            async with scope.session() as session:
                await session.exec(["true"]).result()
        assert "bubblewrap" in str(refused.value.hint)


@pytest.mark.spec("EXEC-4")
async def test_another_root_is_refused_with_what_to_do(tmp_path, kind):
    options = f'exec = {{sandbox = "{kind}"}}'
    rules = ALLOW_EXEC + NOTES
    async with governed(tmp_path, rules, on_disk=True, options=options) as house:
        scope = await house.scope(RUNNING)
        with pytest.raises(Unsupported, match="no other root") as refused:
            await scope.exec(["true"], roots=["knowledge:notes"]).result()
        assert "bubblewrap" in str(refused.value.hint)
        assert (await scope.exec(["true"]).result()).exit_code == 0


@pytest.mark.spec("EXEC-1")
async def test_who_is_asked_is_told_which(tmp_path, kind):
    person = Person("no")
    options = f'exec = {{sandbox = "{kind}"}}'
    rules = ALLOW_EXEC.replace('effect = "allow"', 'effect = "ask"')
    async with governed(tmp_path, rules, on_disk=True, options=options) as house:
        scope = await house.scope(RUNNING, asker=person)
        with pytest.raises(bailiwick.BailiwickError):
            await scope.exec(["make"]).result()
        assert f"sandbox {kind}" in repr(person.questions)


async def test_nobody_gets_a_weaker_one_by_accident(project, monkeypatch):
    """Without bubblewrap it is refused in its words."""
    lack = Shortfall(what="bubblewrap is not installed", remedy="install it", fatal=True)
    monkeypatch.setattr(bubblewrap.Bubblewrap, "missing", lambda _: (lack,))
    async with bailiwick.open(project, state_dir=str(project.parent / "state")) as fs:
        with pytest.raises(Unsupported, match="bubblewrap is not installed"):
            await fs.exec(["true"]).result()


async def test_landlock_that_is_not_to_be_had_is_refused_in_words(project, monkeypatch):
    monkeypatch.setattr(on_copies, "landlock_offered", lambda: 0)
    async with opened(project, "landlock") as fs:
        with pytest.raises(Unsupported, match="Landlock") as refused:
            await fs.exec(["true"]).result()
        assert "bubblewrap" in refused.value.hint
    assert left_in(project) == []


@pytest.mark.spec("EXEC-9")
async def test_a_volume_is_written_out_and_copied(tmp_path, kind):
    share = bailiwick.HostShare(sandbox=kind)
    place = f"sqlite:{tmp_path / 'agent.db'}"
    async with bailiwick.open(place, state_dir=str(tmp_path / "state"), commands=share) as fs:
        await fs.write_text("a", "one\n")
        for text in ("two", "three"):
            result = await fs.exec(shell=f"cat a; echo {text} > a").result()
            assert told(result) == {("a", "updated")}
        assert (await fs.read_text("a")).text == "three\n"


READING = """
import asyncio, sys
import bailiwick

async def main(project, state, kind):
    share = bailiwick.HostShare(sandbox=kind)
    access = {"read", "list", "metadata", "execute"}
    opened = bailiwick.open(project, state_dir=state, commands=share, access=access)
    async with opened as fs:
        async for piece in fs.exec(shell="cat a.txt; exec sleep 600"):
            print(piece.data.decode(), end="", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


TO_READ = {"read", "list", "metadata", "execute"}


def copies_in(*places):
    return [path for place in places for path in place.rglob("b.txt")]


@pytest.mark.spec("EXEC-5")
async def test_a_copy_to_be_read_that_a_killed_process_left_goes_with_the_next(
    project, kind, monkeypatch
):
    state, temporary = project.parent / "state", project.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    words = [sys.executable, "-c", READING, str(project), str(state), kind]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"a.txt\n"
        assert copies_in(state, temporary)
        async with opened(project, kind, access=TO_READ) as fs:
            assert (await fs.exec(["cat", "a.txt"]).result()).exit_code == 0
        left = copies_in(state, temporary)
        assert left, "that of one that lives stays"
        process.send_signal(signal.SIGKILL)
    async with opened(project, kind, access=TO_READ) as fs:
        assert (await fs.exec(["cat", "a.txt"]).result()).exit_code == 0
        assert not any(each.exists() for each in left)
    assert copies_in(state, temporary) == []
    assert list(temporary.iterdir()) == []
