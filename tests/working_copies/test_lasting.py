"""What of a working copy outlives the machine, and from when on."""

from pathlib import Path

import pytest

import bailiwick
from bailiwick.stores.disk import syscalls

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@pytest.fixture
def flushes(tmp_path, monkeypatch):
    """Of each time that all of the filesystem was flushed: what lay in the working copy."""
    place, flush = tmp_path / "place", syscalls.flush_all
    place.mkdir()
    (place / "a").write_text("old\n")
    found = []

    def noting(fd):
        copy = Path(f"/proc/self/fd/{fd}").resolve()
        if (copy / "upper").is_dir():
            upper = {each.name: each.read_text() for each in (copy / "upper").iterdir()}
            found.append((upper, (copy / "publishing").exists(), (place / "a").read_text()))
        flush(fd)

    monkeypatch.setattr(syscalls, "flush_all", noting)
    return found


def opened(tmp_path):
    return bailiwick.open(tmp_path / "place", state_dir=str(tmp_path / "state"))


@pytest.mark.spec("EXEC-8")
async def test_a_command_that_changes_nothing_flushes_nothing(tmp_path, flushes):
    async with opened(tmp_path) as fs:
        assert (await fs.exec(["/bin/true"]).result()).exit_code == 0
    assert flushes == []


@pytest.mark.spec("EXEC-8")
async def test_what_was_changed_is_durable_before_any_of_it_is_brought_back(tmp_path, flushes):
    """Whoever finds that it is being brought back finds all of it, after a loss of power too."""
    async with opened(tmp_path) as fs:
        result = await fs.exec(shell="echo new > a; echo new > b").result()
    assert {str(each.path) for each in result.changes} == {"a", "b"}
    first, was_begun, in_the_tree = flushes[0]
    assert first == {"a": "new\n", "b": "new\n"}
    assert (was_begun, in_the_tree) == (False, "old\n")


@pytest.mark.spec("EXEC-8")
async def test_what_is_left_is_durable_when_that_is_told(tmp_path, flushes):
    async with opened(tmp_path) as fs:
        result = await fs.exec(shell="echo new > a", publish="manual").result()
        assert result.work_id is not None
        assert [upper for upper, _, _ in flushes] == [{"a": "new\n"}]


@pytest.mark.spec("EXEC-3")
@pytest.mark.parametrize("lasts", [True, False])
async def test_programs_of_a_session_flush_what_they_like(tmp_path, lasts):
    """Its working copy outlives its commands; that of one command is flushed when it is over."""
    (tmp_path / "place").mkdir()
    options = "grep ' overlay rw' /proc/self/mounts"
    async with opened(tmp_path) as fs, fs.session() as session:
        execution = (session if lasts else fs).exec(shell=options)
        said = b"".join([piece.data async for piece in execution])
        await execution.result()
    assert said.count(b" overlay ") == 1
    assert (b"volatile" in said) is not lasts
