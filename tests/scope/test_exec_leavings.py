"""What a program may leave that is hard to bring back: deep, many, of odd names."""

import os
import shutil

import pytest

import bailiwick
from bailiwick.model import GiB, MiB
from bailiwick.sandboxes import plans
from bailiwick.working_copies.removal import remove_tree

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")

PYTHON = shutil.which("python3", path=plans.PATH)


@pytest.fixture
def project(tmp_path):
    directory = tmp_path / "project"
    directory.mkdir()
    yield directory
    # Deeper than what usually removes such things gets.
    top = os.open(tmp_path, os.O_RDONLY)
    try:
        for name in os.listdir(top):
            remove_tree(top, name)
    finally:
        os.close(top)


def opened(project, **options):
    return bailiwick.open(project, state_dir=str(project.parent / "state"), **options)


def depth_of(directory, name):
    """How many directories of one name lie in each other."""
    held, levels = os.open(directory, os.O_RDONLY), 0
    try:
        while name in os.listdir(held):
            below = os.open(name, os.O_RDONLY, dir_fd=held)
            os.close(held)
            held, levels = below, levels + 1
    finally:
        os.close(held)
    return levels


DEEP = """
import os
for level in range(1_000):
    os.mkdir("d"); os.chdir("d")
open("bottom", "w").close()
"""


@pytest.mark.slow
@pytest.mark.spec("EXEC-9")
@pytest.mark.parametrize("history", ["off", "on"])
async def test_directories_a_thousand_deep(project, history):
    async with opened(project, history=history) as fs:
        result = await fs.exec([PYTHON, "-c", DEEP], publish="partial").result()
        assert result.exit_code == 0
        assert [(each.path.count("/"), each.error_kind) for each in result.withheld] == [
            (255, "unsupported")
        ]
        assert len(result.changes) == 255
        assert depth_of(project, "d") == 255
        async with await fs.open_work(result.work_id) as work:  # what was left is still there
            assert len((await work.changes()).withheld) == 1
            await work.discard()
        assert await fs.work() == []
        result = await fs.exec(shell="rm -rf d").result()
        assert len(result.changes) == 255
        assert os.listdir(project) == []


@pytest.mark.spec("EXEC-7", "EXEC-9")
async def test_all_or_nothing_where_some_of_it_is_too_deep(project):
    (project / "kept").write_text("kept\n")
    async with opened(project) as fs:
        result = await fs.exec([PYTHON, "-c", "open('kept', 'w')\n" + DEEP]).result()
        assert result.changes == []
        assert {each.error_kind for each in result.withheld} == {"unsupported"}
        assert (project / "kept").read_text() == "kept\n"
        assert os.listdir(project) == ["kept"]


@pytest.mark.slow
@pytest.mark.spec("EXEC-8", "EXEC-9")
async def test_many_files_of_which_some_are_applied(project):
    async with opened(project) as fs:
        (project / "many").mkdir()
        script = "cd many; seq 5000 | xargs touch"
        result = await fs.exec(shell=script, publish="manual").result()
        assert os.listdir(project / "many") == []
        async with await fs.open_work(result.work_id) as work:
            assert len((await work.changes()).changes) == 5_000
            some = [f"many/{number}" for number in range(1, 1_000)]
            published = await work.apply(some)
            assert len(published.changes) == 999
            assert len((await work.changes()).changes) == 4_001
            await work.discard()
        assert len(os.listdir(project / "many")) == 999
        assert await fs.work() == []


NAMES = (
    b"-rf", b" ", b"*", b"a\nb", b"\t", b"\x1b[2J", b"$(id)", b"';--", b"\\", b"CON", b"a" * 255,
    "\u202egnp.exe".encode(), "e\u0301".encode(), "\u00e9".encode(), b"...", b"~", b"%2e%2e",
)  # fmt: skip
UNNAMED = (b"\xff", b"ok\xed\xa0\x80", b"C:x", b".bailiwick~mine")
"""What no path can be: no text, a drive, or a name that is ours."""


@pytest.mark.spec("EXEC-7", "EXEC-9")
async def test_odd_names_come_as_they_are_or_are_said(project):
    names = [*NAMES, *UNNAMED]
    script = f"for name in {names!r}: open(name, 'w').write('x')"
    async with opened(project) as fs:
        result = await fs.exec([PYTHON, "-c", script], publish="partial").result()
        assert result.exit_code == 0
        assert set(os.listdir(os.fsencode(project))) == set(NAMES)
        assert {os.fsencode(each.path) for each in result.changes} == set(NAMES)
        assert len(result.withheld) + len(result.conflicts) == len(UNNAMED), result.withheld


def on_disk(*directories):
    """Bytes that they really take."""
    found = 0
    for top in directories:
        for directory, _, names in os.walk(top):
            found += sum(os.lstat(os.path.join(directory, x)).st_blocks for x in (".", *names))
    return found * 512


def bytes_read():
    """By this process until now, whatever from."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(file.readline().removeprefix("rchar:"))


@pytest.mark.spec("EXEC-7", "EXEC-9")
@pytest.mark.parametrize("publish", ["atomic", "partial"])
async def test_sparse_gigabytes_are_neither_read_nor_written(project, publish):
    """They take no room where a program left them, and would where they come back."""
    limits = bailiwick.Limits(max_file_bytes=2 * GiB, exec_changes_bytes_max=64 * MiB)
    async with opened(project, limits=limits) as fs:
        before = bytes_read()
        script = "echo text > text; for n in 1 2 3 4 5; do truncate -s 1G big$n; done; ls -s big1"
        execution = fs.exec(shell=script, publish=publish)
        said = b"".join([piece.data async for piece in execution])
        result = await execution.result()
        assert (result.exit_code, said) == (0, b"0 big1\n")
        big = {f"big{number}" for number in range(1, 6)}
        assert {each.path: each.error_kind for each in result.withheld} == dict.fromkeys(
            big, "unsupported"
        )
        assert {each.reason for each in result.withheld} == {
            "there is more than is brought back of one command"
        }
        assert os.listdir(project) == (["text"] if publish == "partial" else [])
        assert bytes_read() - before < 64 * MiB
        assert on_disk(project, project.parent / "state") < 16 * MiB
        async with await fs.open_work(result.work_id) as work:  # what was left is still there
            assert {each.path for each in (await work.changes()).withheld} == big
            await work.discard()
        assert await fs.work() == []


@pytest.mark.spec("EXEC-5", "EXEC-7")
async def test_what_is_sparse_comes_as_it_is_and_no_larger_than_a_file_may_be(project):
    async with opened(project, limits=bailiwick.Limits(max_file_bytes=8 * MiB)) as fs:
        script = "truncate -s 8M fits; truncate -s 9M larger; echo $?"
        execution = fs.exec(shell=script)
        said = b"".join([x.data async for x in execution if x.stream == "stdout"])
        result = await execution.result()
        assert said != b"0\n"
        assert {str(each.path) for each in result.changes} == {"fits", "larger"}
        assert (project / "fits").read_bytes() == bytes(8 * MiB)
        assert (project / "larger").read_bytes() == b""
