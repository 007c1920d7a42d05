"""Files, directories and links through a mount, on every kind of place."""

import contextlib
import errno
import os
import stat
import subprocess

import pytest

import bailiwick
from tests.fronts.fuse.mounts import KINDS, elsewhere, mounted, needs_fuse, opened, run, tree
from tests.waiting import until_blocking

pytestmark = [needs_fuse, pytest.mark.spec("FUSE-1")]

kinds = pytest.mark.parametrize("kind", KINDS)


def versions(scope, path):
    return len(scope.history(path).versions)


def number(act, *arguments, **options):
    """The errno that a call ends with."""
    with pytest.raises(OSError) as raised:  # noqa: PT011 (the number is what is looked at)
        act(*arguments, **options)
    return raised.value.errno


@kinds
def test_what_is_written_is_there_for_the_scope_and_the_other_way_round(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        (top / "a").write_text("from a program")
        assert scope.read_bytes("a").data == b"from a program"
        scope.write_bytes("b", b"from the scope")
        assert (top / "b").read_text() == "from the scope"
        (top / "d").mkdir()
        (top / "d" / "c").write_bytes(b"")
        assert sorted(os.listdir(top)) == ["a", "b", "d"]
        assert scope.read_bytes("d/c").data == b""


@kinds
def test_a_large_directory_is_listed_whole(kind, tmp_path):
    # On a volume more than a page of the scope, elsewhere more than the kernel takes at once.
    names = {f"file-{number:04}" for number in range(2_100 if kind == "volume" else 300)}
    with opened(kind, tmp_path) as scope:
        if kind == "volume":
            with scope.transaction() as inside:
                for name in names:
                    inside.write_bytes(name, b"")
        else:
            for name in names:
                scope.write_bytes(name, b"")
        with mounted(scope, tmp_path / "mnt") as top:
            assert set(os.listdir(top)) == names
            with os.scandir(top) as entries:
                assert all(entry.is_file() for entry in entries)


@pytest.mark.parametrize("kind", ["volume", "directory"])
def test_a_save_is_one_version_however_many_writes_it_took(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        with open(top / "a", "wb", buffering=0) as file:
            file.writelines(b"%d\n" % piece for piece in range(50))
        assert versions(scope, "a") == 1
        with open(top / "a", "r+b", buffering=0) as file:
            file.write(b"x")
            file.seek(0, os.SEEK_END)
            file.write(b"end")
        assert versions(scope, "a") == 2
        with open(top / "a", "ab", buffering=0) as file:
            file.write(b"more")
            file.write(b"and more")
        assert versions(scope, "a") == 3
        (top / "a").write_bytes(b"anew")
        assert versions(scope, "a") == 4
        (top / "a").read_bytes()
        assert versions(scope, "a") == 4


@pytest.mark.parametrize("kind", ["volume", "directory"])
@pytest.mark.parametrize("shell", ["{ %s; } > a", "( %s ) > a", "exec > a; %s"])
def test_what_a_shell_and_its_programs_write_by_one_opening_is_one_version(kind, shell, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        run(top, shell % "/bin/echo one; echo two; /bin/echo three")
        assert scope.read_bytes("a").data == b"one\ntwo\nthree\n"
        assert versions(scope, "a") == 1


@kinds
def test_what_a_program_writes_that_outlives_who_opened_the_file_is_saved(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        # The shell ends at once; what it started goes on, and ends with its input.
        script = 'cd "$1"; { cat; /bin/echo last; } > a & exec > /dev/null'
        command = ["sh", "-c", script, "sh", str(top)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as shell:
            assert shell.stdin is not None
            shell.stdin.close()
        until_blocking(lambda: scope.exists("a") and scope.read_bytes("a").data == b"last\n")


@pytest.mark.parametrize("kind", ["volume", "directory"])
def test_a_save_by_another_file_and_a_rename_is_one_version(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        (top / "a").write_text("before")
        with open(top / ".a.tmp", "wb", buffering=0) as file:
            file.writelines([b"af", b"ter"])
        os.replace(top / ".a.tmp", top / "a")
        assert (top / "a").read_text() == "after"
        assert not (top / ".a.tmp").exists()
        assert scope.read_bytes("a").data == b"after"
        # One write and one move, and nothing between.
        assert [each.kind for each in scope.history(".a.tmp").versions] == ["moved", "created"]
        assert scope.history("a").versions[0].kind == "moved"
        names = [entry.name for entry in scope.list(".", include_ignored=True).entries]
        assert names == ["a"]


@kinds
def test_bytes_that_were_written_are_read_by_whoever_has_the_file_open(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        with open(top / "a", "wb", buffering=0) as one, open(top / "a", "rb") as other:
            one.write(b"not closed")
            assert other.read() == b"not closed"
            assert os.stat(top / "a").st_size == 10
            assert os.listdir(top) == ["a"]
            assert not scope.exists("a")
        assert scope.read_bytes("a").data == b"not closed"


@kinds
def test_fsync_publishes_while_the_file_is_open(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top), open(top / "a", "wb", buffering=0) as file:
        file.write(b"safe")
        os.fsync(file.fileno())
        assert scope.read_bytes("a").data == b"safe"
        file.write(b" and more")
        os.fsync(file.fileno())
        assert scope.read_bytes("a").data == b"safe and more"


@kinds
def test_what_is_removed_while_open_stays_for_who_has_it(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        (top / "a").write_bytes(b"kept")
        with open(top / "a", "r+b", buffering=0) as file:
            os.unlink(top / "a")
            assert os.listdir(top) == []
            assert not scope.exists("a")
            assert os.fstat(file.fileno()).st_nlink == 0
            assert os.fstat(file.fileno()).st_size == 4
            assert file.read() == b"kept"
            file.write(b" longer")
            (top / "a").write_bytes(b"another")
            file.seek(0)
            assert file.read() == b"kept longer"
        assert (top / "a").read_bytes() == b"another"
        assert scope.read_bytes("a").data == b"another"


@kinds
def test_what_is_replaced_while_open_stays_for_who_has_it(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        (top / "a").write_bytes(b"old")
        (top / "b").write_bytes(b"new one")
        before = os.stat(top / "b").st_ino
        with open(top / "a", "rb") as file:
            os.replace(top / "b", top / "a")
            assert os.stat(top / "a").st_ino == before
            assert file.read() == b"old"
        assert scope.read_bytes("a").data == b"new one"


@kinds
def test_a_file_without_a_name_was_never_there(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top), open(top / "t", "w+b", buffering=0) as file:
        os.unlink(top / "t")
        file.write(b"scratch")
        file.seek(0)
        assert file.read() == b"scratch"
        if "history" in scope.powers:
            with pytest.raises(bailiwick.PathNotFound):
                scope.history("t")


@kinds
def test_ways_to_open(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        made = os.open(top / "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640)
        assert number(os.open, top / "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY) == errno.EEXIST
        os.write(made, b"12345")
        os.close(made)
        assert stat.S_IMODE(os.stat(top / "a").st_mode) == 0o640
        one = os.open(top / "a", os.O_APPEND | os.O_WRONLY)
        other = os.open(top / "a", os.O_APPEND | os.O_WRONLY)
        for descriptor, data in ((one, b"6"), (other, b"7"), (one, b"8")):
            os.write(descriptor, data)
        os.close(one)
        os.close(other)
        assert (top / "a").read_bytes() == b"12345678"
        os.close(os.open(top / "a", os.O_TRUNC | os.O_WRONLY))
        assert scope.read_bytes("a").data == b""
        assert number(os.open, top / "a", os.O_RDONLY | os.O_DIRECTORY) == errno.ENOTDIR
        assert number(os.open, top / "none", os.O_RDONLY) == errno.ENOENT


@kinds
def test_sizes_modes_and_times(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        path = top / "a"
        path.write_bytes(b"123456")
        os.truncate(path, 3)
        assert scope.read_bytes("a").data == b"123"
        os.truncate(path, 5)
        assert path.read_bytes() == b"123\0\0"
        with open(path, "r+b", buffering=0) as file:
            file.truncate(1)
            file.seek(4)
            file.write(b"x")
        assert path.read_bytes() == b"1\0\0\0x"
        os.utime(path, ns=(1, 1_000_000_000_000_000_001))
        assert os.stat(path).st_mtime_ns == scope.stat("a").mtime_ns == 1_000_000_000_000_000_001
        os.chmod(path, 0o751)
        assert stat.S_IMODE(os.stat(path).st_mode) == scope.stat("a").mode & 0o777 == 0o751
        with open(path, "wb") as file:
            file.write(b"with its time")
            file.flush()
            os.utime(file.fileno(), ns=(0, 2_000_000_000_000_000_000))
        assert scope.stat("a").mtime_ns == 2_000_000_000_000_000_000


@kinds
def test_directories_are_made_moved_and_removed(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        os.makedirs(top / "a" / "b")
        (top / "a" / "b" / "c").write_text("deep")
        with open(top / "a" / "b" / "open", "w") as file:
            file.write("moved while it was written")
            os.rename(top / "a", top / "z")
        assert (top / "z" / "b" / "c").read_text() == "deep"
        assert scope.read_bytes("z/b/open").data == b"moved while it was written"
        assert number(os.rmdir, top / "z") == errno.ENOTEMPTY
        os.mkdir(top / "empty")
        assert number(os.rename, top / "empty", top / "z") == errno.ENOTEMPTY
        os.rename(top / "z", top / "empty")
        assert os.listdir(top) == ["empty"]
        assert number(os.rename, top / "empty", top / "empty" / "b" / "x") == errno.EINVAL
        with open(top / "empty" / "new", "w"):
            assert number(os.rmdir, top / "empty") == errno.ENOTEMPTY
        assert number(os.unlink, top / "empty") in (errno.EISDIR, errno.EPERM)


@kinds
def test_links(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        (top / "a").write_text("content")
        os.symlink("a", top / "l")
        assert os.readlink(top / "l") == scope.readlink("l") == "a"
        assert (top / "l").read_text() == "content"
        os.unlink(top / "l")
        assert (top / "a").exists()


@kinds
def test_what_there_is_not_is_refused_as_programs_expect(kind, tmp_path):
    with tree(kind, tmp_path) as (_, top):
        (top / "a").write_text("x")
        assert number(os.link, top / "a", top / "b") == errno.EPERM
        assert number(os.mkfifo, top / "fifo") == errno.EPERM
        assert number(os.chown, top / "a", os.getuid() + 1, -1) == errno.EPERM
        assert number(os.chmod, top / "a", 0o4755) == errno.EPERM
        assert number(os.setxattr, top / "a", "user.x", b"1") == errno.EOPNOTSUPP
        assert number(os.listxattr, top / "a") == errno.EOPNOTSUPP
        assert number(open, top / ("n" * 256), "w") == errno.ENAMETOOLONG
        assert number(open, os.fsencode(top) + b"/\xff", "w") == errno.EINVAL
        assert number(os.open, top / "a\nb", os.O_CREAT | os.O_WRONLY) == errno.EINVAL
        assert os.listdir(top) == ["a"]
        assert not os.path.exists(os.fsencode(top) + b"/\xff")
        os.chown(top / "a", os.getuid(), os.getgid())


@kinds
def test_what_others_change_shows(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        scope.write_bytes("a", b"one")
        assert (top / "a").read_bytes() == b"one"
        with open(top / "a", "rb") as file:
            assert file.read() == b"one"
            scope.write_bytes("a", b"another")
            until_blocking(lambda: os.stat(top / "a").st_size == 7)
            file.seek(0)
            assert file.read() == b"another"
        scope.write_bytes("a", b"other 2")  # as long as before
        until_blocking(lambda: (top / "a").read_bytes() == b"other 2")
        scope.write_bytes("b", b"")
        assert "b" in os.listdir(top)
        scope.remove("a")
        until_blocking(lambda: not (top / "a").exists())
        scope.make_dir("a")
        until_blocking(lambda: (top / "a").is_dir())


@kinds
def test_a_mount_that_is_used_ends_all_the_same(kind, tmp_path):
    with opened(kind, tmp_path) as scope:
        with mounted(scope, tmp_path / "mnt") as top:
            file = open(top / "a", "wb", buffering=0)  # noqa: SIM115 (open when the mount ends)
            file.write(b"still open")
        assert not os.listdir(tmp_path / "mnt")
        assert scope.read_bytes("a").data == b"still open"
        with pytest.raises(OSError, match="endpoint"):
            file.close()


def test_a_mount_that_a_sandbox_has_taken_over_ends_all_the_same(tmp_path):
    with contextlib.ExitStack() as stack:
        with tree("memory", tmp_path) as (_, top):
            stack.enter_context(elsewhere())
            (top / "a").write_text("x")
        # No thread and no descriptor is left: that is looked at after every test.
        assert os.listdir(tmp_path / "mnt") == []


@kinds
def test_what_is_read_only_is_so_for_programs(kind, tmp_path):
    with opened(kind, tmp_path) as scope:
        scope.write_bytes("a", b"x")
        with mounted(scope, tmp_path / "mnt", read_only=True) as top:
            assert (top / "a").read_bytes() == b"x"
            assert number(open, top / "a", "w") == errno.EROFS
            assert number(os.mkdir, top / "d") == errno.EROFS
    if kind != "memory":
        with (
            opened(kind, tmp_path, access={"read", "list", "metadata"}) as scope,
            mounted(scope, tmp_path / "mnt") as top,
        ):
            assert number(os.unlink, top / "a") == errno.EROFS


@pytest.mark.parametrize("kind", ["volume", "directory"])
def test_what_was_is_mounted_too(kind, tmp_path):
    with opened(kind, tmp_path) as scope:
        scope.write_bytes("a", b"then")
        then = scope.history("a").versions[0].version
        scope.write_bytes("a", b"now")
        scope.write_bytes("b", b"")
        with mounted(scope, tmp_path / "mnt", as_of=then) as top:
            assert os.listdir(top) == ["a"]
            assert (top / "a").read_bytes() == b"then"
            assert number(open, top / "a", "w") == errno.EROFS


@kinds
def test_what_a_grant_does_not_reach_is_not_listed_and_refused(kind, tmp_path):
    with opened(kind, tmp_path) as scope:
        scope.write_bytes("secret", b"x")
        scope.write_bytes("plain", b"x")
        agent = scope.delegate(bailiwick.AgentRun("demo", "1"), denied=["secret*"])
        with mounted(agent, tmp_path / "mnt") as top:
            assert os.listdir(top) == ["plain"]
            assert number(open, top / "secret") == errno.EACCES
            assert number(open, top / "secret", "w") == errno.EACCES
            assert number(open, top / "secret-2", "w") == errno.EACCES
            assert number(os.rename, top / "plain", top / "secret-2") == errno.EACCES
        agent.close()
        assert scope.read_bytes("secret").data == b"x"


@kinds
def test_what_is_added_to_a_file_is_added_to_what_others_added(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        scope.write_bytes("log", b"1" * 300_000)
        with open(top / "log", "ab", buffering=0) as one, open(top / "log", "rb") as reader:
            one.write(b"2")
            one.write(b"3")
            scope.append("log", b"theirs")
            reader.seek(299_999)
            assert reader.read() == b"123"
            os.fsync(one.fileno())
            assert scope.read_bytes("log").data == b"1" * 300_000 + b"theirs23"
            one.write(b"4")
        assert scope.read_bytes("log", 300_000).data == b"theirs234"
        with open(top / "log", "ab", buffering=0) as one, open(top / "log", "r+b", 0) as other:
            one.write(b"5")
            other.write(b"0")
            other.seek(0)
            assert other.read(2) == b"01"
            one.write(b"6")
        expected = b"0" + b"1" * 299_999 + b"theirs23456"
        assert (top / "log").read_bytes() == scope.read_bytes("log").data == expected
        with open(top / "log", "ab", buffering=0) as one:
            one.write(b"7")
            one.truncate(2)
            one.write(b"8")
        assert scope.read_bytes("log").data == b"018"
        with open(top / "log", "ab", buffering=0) as one:
            one.write(b"9")
            os.unlink(top / "log")
            assert os.fstat(one.fileno()).st_size == 4


@kinds
def test_more_is_added_than_fits_one_call(kind, tmp_path):
    with tree(kind, tmp_path) as (scope, top):
        scope.write_bytes("log", b"begin")
        with open(top / "log", "ab") as file:
            file.write(b"x" * (5 * 1024 * 1024))
        assert scope.stat("log").size == 5 + 5 * 1024 * 1024
        assert scope.read_bytes("log", 0, 7).data == b"beginxx"
