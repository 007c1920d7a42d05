"""What a program may leave that is hard to bring back: deep, many, of odd names."""

import contextlib
import hashlib
import os
import shutil
import struct

import pytest

import bailiwick
from bailiwick.model import GiB, MiB
from bailiwick.sandboxes import plans
from bailiwick.working_copies.directory import DirectoryCopy
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


@pytest.mark.spec("EXEC-8")
async def test_all_differences_take_one_look_at_what_was_left(project, monkeypatch):
    looks = []
    alterations = DirectoryCopy._alterations

    def counted(copy):
        looks.append(copy)
        return alterations(copy)

    async with opened(project) as fs:
        script = "seq 20 | while read n; do echo $n > $n; done"
        result = await fs.exec(shell=script, publish="manual").result()
        async with await fs.open_work(result.work_id) as work:
            monkeypatch.setattr(DirectoryCopy, "_alterations", counted)
            for number in range(1, 21):
                assert f"+{number}\n" in (await work.diff(str(number))).text
            assert len(looks) == 1
            await work.apply(["1", "2"])
            with pytest.raises(bailiwick.PathNotFound):
                await work.diff("1")
            assert "+3\n" in (await work.diff("3")).text
            await work.discard(["3"])
            with pytest.raises(bailiwick.PathNotFound):
                await work.diff("3")


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
    """Bytes that they really take. What is removed meanwhile, as a working copy is once its command
    was told of, takes none."""
    found = 0
    for top in directories:
        for directory, _, names in os.walk(top):
            for name in (".", *names):
                with contextlib.suppress(FileNotFoundError):
                    found += os.lstat(os.path.join(directory, name)).st_blocks
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


SPARSE = """
import sys
for number in range(int(sys.argv[1])):
    with open(f"big{number}", "wb") as file:
        file.truncate(int(sys.argv[2]))
        file.seek(int(sys.argv[2]) // 2)
        file.write(b"x")
"""


@pytest.mark.spec("EXEC-7")
@pytest.mark.parametrize(("count", "size"), [(1, 128 * MiB), (20, 4 * MiB)])
async def test_what_is_sparse_takes_no_more_room_where_it_comes(project, count, size):
    async with opened(project) as fs:
        program = [PYTHON, "-c", SPARSE, str(count), str(size)]
        result = await fs.exec(program).result()
        assert (result.exit_code, len(result.changes)) == (0, count)
        assert on_disk(project, project.parent / "state") < 4 * MiB
        for number in range(count):
            file = project / f"big{number}"
            assert file.stat().st_size == size
            digest, hole = hashlib.sha256(), bytes(size // 2)
            for each in (hole, b"x", hole[1:]):
                digest.update(each)
            with open(file, "rb") as opened_file:
                assert hashlib.file_digest(opened_file, "sha256").digest() == digest.digest()
        result = await fs.exec(shell="for f in big*; do echo y >> $f; done").result()
        assert len(result.changes) == count
        assert on_disk(project) < 4 * MiB


ATTRIBUTES = """
import os
os.mkdir("new"); open("b", "w").close(); open("same", "a").close()
for name in ("a", "b", "d", "new"):
    os.setxattr(name, "user.mine", b"1")
os.chmod("plain", 0o600)
"""


@pytest.mark.spec("EXEC-7")
async def test_extended_attributes_are_dropped_and_said(project):
    for name in ("a", "same", "plain"):
        (project / name).write_text("x\n")
    (project / "d").mkdir()
    try:
        os.setxattr(project / "same", "user.theirs", b"1")
    except OSError:
        pytest.skip("this filesystem has no attributes")
    async with opened(project) as fs:
        result = await fs.exec([PYTHON, "-c", ATTRIBUTES]).result()
        assert result.exit_code == 0
        said = {str(each.path): each.reason for each in result.withheld}
        assert said == dict.fromkeys(("a", "b", "d", "new"), "extended attributes are not kept")
        assert {str(each.path) for each in result.changes} == {"b", "new", "plain"}
        assert os.listxattr(project / "b") == os.listxattr(project / "d") == []
        assert os.listxattr(project / "same") == ["user.theirs"]


@pytest.mark.spec("EXEC-9")
@pytest.mark.parametrize("names", [1, 2])
@pytest.mark.parametrize("history", ["off", "on"])
async def test_a_directory_with_links_in_it_has_moved(project, names, history):
    (project / "d/in").mkdir(parents=True)
    (project / "d/f").write_text("x\n")
    os.symlink("../f", project / "d/in/l0")
    for number in range(1, names):
        os.link(project / "d/in/l0", project / f"d/in/l{number}", follow_symlinks=False)
    async with opened(project, history=history) as fs:
        result = await fs.exec(shell="mv d e").result()
        assert [(x.kind, x.path, x.origin) for x in result.changes] == [("moved", "e", "d")]
        assert (result.withheld, result.conflicts) == ([], [])
        assert os.listdir(project) == ["e"]
        for number in range(names):
            assert os.readlink(project / f"e/in/l{number}") == "../f"
        if history == "on":
            await fs.undo(result.request_id)
            assert os.listdir(project) == ["d"]


ACLS = """
import os, struct
def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
nobody = 0xFFFFFFFF
someone = acl((1, 7, nobody), (2, 7, os.getuid()), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody))
os.mkdir("new"); open("b", "w").close(); open("same", "a").close()
for name in ("a", "b", "d", "new"):
    os.setxattr(name, "system.posix_acl_access", someone)
for name in ("d", "new", "default"):
    os.setxattr(name, "system.posix_acl_default", someone)
open("new/inherits", "w").close()
os.mkdir("handing/new"); open("handing/new/f", "w").close()
os.chmod("same", 0o660)
"""


@pytest.mark.spec("EXEC-7")
async def test_so_are_access_control_lists(project):
    for name in ("a", "same", "plain"):
        (project / name).write_text("x\n")
    for name in ("d", "default", "handing"):
        (project / name).mkdir()
    entries = [(1, 7), (2, 4, 4242), (4, 4), (16, 4), (32, 4)]
    packed = b"".join(
        struct.pack("<HHI", tag, bits, *(whose or (0xFFFFFFFF,))) for tag, bits, *whose in entries
    )
    try:
        os.setxattr(project / "same", "system.posix_acl_access", struct.pack("<I", 2) + packed)
        os.setxattr(project / "handing", "system.posix_acl_default", struct.pack("<I", 2) + packed)
    except OSError:
        pytest.skip("this filesystem has no access control lists")
    async with opened(project) as fs:
        result = await fs.exec([PYTHON, "-c", ACLS], publish="partial").result()
        assert result.exit_code == 0
        said = {str(each.path): each.reason for each in result.withheld}
        names = ("a", "b", "d", "default", "new", "new/inherits")
        assert said == dict.fromkeys(names, "access control lists are not kept")
        assert {"b", "new", "new/inherits", "same"} <= {str(each.path) for each in result.changes}
        for name in ("a", "b", "d", "default", "new", "new/inherits"):
            assert os.listxattr(project / name) == []
        assert os.listxattr(project / "same") == ["system.posix_acl_access"]


HOSTILE_ATTRIBUTES = r"""
import os
names = (b"user.\n\x1b[2J", b"user." + b"n" * 250, b"user.\xff\xfe", b"user.\x7f")
for number, name in enumerate(names):
    path = b"a\n\x1b[31m%d" % number
    open(path, "w").close()
    os.setxattr(path, name, b"\x00\x1b" * 50)
"""


@pytest.mark.spec("EXEC-7")
async def test_whatever_attributes_are_called_only_what_has_them_is_named(project):
    (project / "probe").write_text("x\n")
    try:
        os.setxattr(project / "probe", "user.theirs", b"1")
    except OSError:
        pytest.skip("this filesystem has no attributes")
    async with opened(project) as fs:
        result = await fs.exec([PYTHON, "-c", HOSTILE_ATTRIBUTES], publish="partial").result()
        assert result.exit_code == 0
        told = [
            each for each in result.withheld if each.reason == "extended attributes are not kept"
        ]
        assert len(told) == 4
        for each in result.withheld:
            assert f"{each.path}{each.reason}".isprintable()


MOVED_AWAY = {
    "a file": ("mv d/b.txt final", {"d/b.txt", "final"}),
    "out of its directory, which goes": ("mv d/b.txt final; rmdir d", {"d", "d/b.txt", "final"}),
    "a file, to a name that is no path": ("mv d/b.txt $(printf 'b\\377')", {"d/b.txt", r"b\udcff"}),
    "a directory, to a name that is no path": (
        "mv d $(printf 'e\\377')", {"d", "d/b.txt", r"e\udcff", r"e\udcff/b.txt"},
    ),
}  # fmt: skip


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("how", MOVED_AWAY)
async def test_what_was_moved_to_where_nothing_may_come_is_where_it_was(project, how):
    command, withheld = MOVED_AWAY[how]
    (project / "d").mkdir()
    (project / "d" / "b.txt").write_text("b\n")
    async with opened(project) as fs:
        other = await fs.delegate(
            subject=bailiwick.User("other"), access=fs.grant.access, denied=["final"]
        )
        result = await other.exec(shell=f"{command}; echo x > x", publish="partial").result()
        assert [(each.path, each.kind) for each in result.changes] == [("x", "created")]
        assert {each.path for each in result.withheld} == withheld
        assert (project / "d" / "b.txt").read_text() == "b\n"
        async with await other.open_work(result.work_id) as work:
            await work.discard()
    assert (project / "d" / "b.txt").read_text() == "b\n"
