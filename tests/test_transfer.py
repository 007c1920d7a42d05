"""Bringing trees from scope to scope: what comes through, what does not, and what an end midway
leaves."""

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick.errors import Closed, IoError
from bailiwick.transfer import PARALLEL_FILES, WHOLE_BYTES_MAX, measure, transfer

NAMES = st.text("abcÄß %", min_size=1, max_size=3).filter(lambda name: name.strip() == name)
TREES = st.recursive(
    st.one_of(
        st.binary(max_size=64),
        st.sampled_from(["a", "../b", "gone"]).map(lambda text: ("link", text)),
    ),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
).filter(lambda tree: isinstance(tree, dict))


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def plant(tree, directory, depth=0):
    directory.mkdir()
    for number, (name, inner) in enumerate(tree.items()):
        path = directory / name
        if isinstance(inner, dict):
            plant(inner, path, depth + 1)
        elif isinstance(inner, tuple):
            # A link from the top may not climb, so that it stays inside.
            path.symlink_to(inner[1] if depth else inner[1].replace("../", ""))
        else:
            path.write_bytes(inner)
            path.chmod((0o600, 0o644, 0o755)[number % 3])
            os.utime(path, ns=(1, 1_600_000_000_123_456_789 + number))
    directory.chmod(0o700 + len(tree) % 2 * 0o55)
    os.utime(directory, ns=(1, 1_500_000_000_000_000_007 + depth))


def seen(directory):
    """Everything beneath a directory as the operating system sees it."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("directory", stat.S_IMODE(status.st_mode), status.st_mtime_ns)
        else:
            content = path.read_bytes()
            found[name] = (content, stat.S_IMODE(status.st_mode), status.st_mtime_ns)
    return found


@contextlib.asynccontextmanager
async def both(source, target):
    async with bailiwick.open(source) as one, bailiwick.open(target) as other:
        yield one, other


@contextlib.asynccontextmanager
async def made(tmp_path, name="target"):
    (tmp_path / name).mkdir(exist_ok=True)
    async with both(tmp_path / "source", tmp_path / name) as scopes:
        yield scopes


def left(result):
    return {(str(each.path), each.error_kind) for each in result.left_out}


# --- what comes through ------------------------------------------------------------------------


@pytest.mark.spec("CLI-1")
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(TREES)
def test_a_tree_comes_back_as_it_was(tmp_path, tree):
    """Out of a directory into a volume, and out of that into another directory."""
    with contextlib.ExitStack() as stack:
        place = tmp_path / "example"
        place.mkdir()
        stack.callback(shutil.rmtree, place)
        plant(tree, place / "source")
        (place / "target").mkdir()
        volume = f"sqlite:{place}/volume.db"

        async def there_and_back():
            async with both(place / "source", volume) as (source, target):
                there = await transfer(source, target)
                again = await transfer(source, target)
                assert await measure(source) == (there.files, there.bytes)
            async with both(volume, place / "target") as (source, target):
                back = await transfer(source, target)
            return there, again, back

        there, again, back = asyncio.run(there_and_back())
        assert seen(place / "target") == seen(place / "source")
        assert there == back
        assert there.left_out == []
        assert (again.files, again.links, again.directories) == (0, 0, 0)
        assert again.unchanged == there.files + there.links


@pytest.mark.spec("CLI-1")
async def test_large_files_are_streamed_and_small_ones_are_not_lost_among_them(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    contents = {f"f{size}": os.urandom(size) for size in (0, 1, WHOLE_BYTES_MAX)}
    contents["large"] = os.urandom(WHOLE_BYTES_MAX + 1)
    for name, content in contents.items():
        (source / name).write_bytes(content)
    told = []
    async with made(tmp_path) as (one, other):
        result = await transfer(one, other, told=lambda p: told.append((p.files, p.bytes)))
        for name, content in contents.items():
            assert (tmp_path / "target" / name).read_bytes() == content
    assert result.bytes == sum(map(len, contents.values()))
    assert told[-1] == (len(contents), result.bytes)


@pytest.mark.spec("CLI-1")
async def test_a_part_goes_to_a_part(tmp_path):
    plant({"src": {"deep": {"a": b"1"}}, "other": b"2"}, tmp_path / "source")
    async with made(tmp_path) as (one, other):
        await transfer(one, other, "src", "lib/copied")
        assert (tmp_path / "target/lib/copied/deep/a").read_bytes() == b"1"
        single = await transfer(one, other, "other", "file")
        assert (single.files, (tmp_path / "target/file").read_bytes()) == (1, b"2")
    assert not (tmp_path / "target/other").exists()


@pytest.mark.spec("CLI-1", "TREE-6")
async def test_ignore_files_are_honoured_on_request_only(tmp_path):
    plant({".gitignore": b"*.log\n", "a.log": b"1", "b": b"2", ".git": {"HEAD": b"3"}},
          tmp_path / "source")  # fmt: skip
    async with made(tmp_path) as (one, other):
        await transfer(one, other, include_ignored=False)
        assert sorted(os.listdir(tmp_path / "target")) == [".gitignore", "b"]
        await transfer(one, other)
        assert seen(tmp_path / "target") == seen(tmp_path / "source")


# --- once more ---------------------------------------------------------------------------------


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize(
    ("compare", "changed"), [("times", []), ("content", ["forged"]), ("never", ["forged", "same"])]
)
async def test_what_counts_as_the_same(tmp_path, compare, changed):
    """A file of the same size and time is taken for the same, unless its content is asked for."""
    plant({"forged": b"1234", "same": b"5678"}, tmp_path / "source")
    async with made(tmp_path) as (one, other):
        await transfer(one, other)
        forged = tmp_path / "target/forged"
        times = forged.stat().st_mtime_ns
        forged.write_bytes(b"4321")
        os.utime(forged, ns=(times, times))
        before = {name: (tmp_path / "target" / name).stat().st_ino for name in ("forged", "same")}
        again = await transfer(one, other, compare=compare)
        after = {name: (tmp_path / "target" / name).stat().st_ino for name in ("forged", "same")}
    assert [name for name in before if before[name] != after[name]] == changed
    assert (again.files, again.unchanged) == (len(changed), 2 - len(changed))


@pytest.mark.spec("CLI-1")
async def test_only_what_changed_is_brought_over_again(tmp_path):
    plant({"a": b"1", "b": b"2", "l": ("link", "a"), "d": {"c": b"3"}}, tmp_path / "source")
    async with made(tmp_path) as (one, other):
        await transfer(one, other)
        (tmp_path / "source/a").write_bytes(b"changed")
        (tmp_path / "source/b").chmod(0o640)
        (tmp_path / "source/l").unlink()
        (tmp_path / "source/l").symlink_to("b")
        (tmp_path / "target/own").write_bytes(b"mine")
        again = await transfer(one, other)
    assert (again.files, again.links, again.directories, again.unchanged) == (1, 1, 0, 2)
    assert (tmp_path / "target/own").read_bytes() == b"mine"
    (tmp_path / "target/own").unlink()
    left_over = seen(tmp_path / "target")
    assert left_over == seen(tmp_path / "source")


@pytest.mark.spec("CLI-1")
async def test_a_transfer_that_is_stopped_leaves_whole_files_and_goes_on_later(tmp_path):
    """Stopped after each of the first files in turn: nothing torn, nothing staged, all in the
    end."""
    tree = {f"d{d}": {f"f{n}": bytes([n]) * 5_000 for n in range(6)} for d in range(4)}
    plant(tree, tmp_path / "source")
    whole = seen(tmp_path / "source")
    for stop_at in range(1, 12, 2):
        target = f"target{stop_at}"
        async with made(tmp_path, target) as (one, other):
            stopping = asyncio.Event()

            def told(progress, stopping=stopping, stop_at=stop_at):
                if progress.files >= stop_at:
                    stopping.set()

            work = asyncio.create_task(transfer(one, other, told=told))
            await stopping.wait()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            for name, (content, *_) in seen(tmp_path / target).items():
                assert content in (b"", whole[name][0], "directory"), name
                assert content != b""
            await transfer(one, other)
        assert seen(tmp_path / target) == whole


@pytest.mark.spec("CLI-1")
async def test_a_file_without_its_time_is_not_taken_for_finished(tmp_path):
    """The time is set last: an end between the two makes the next run copy again."""
    plant({"a": b"1234"}, tmp_path / "source")
    async with made(tmp_path) as (one, other):
        await other.write_bytes("a", b"9999")
        assert (await transfer(one, other)).files == 1
    assert seen(tmp_path / "target") == seen(tmp_path / "source")


# --- what does not come through ----------------------------------------------------------------


@pytest.mark.spec("CLI-1", "LINK-5", "LINK-2")
async def test_what_is_no_file_is_reported_and_left_out(tmp_path):
    source = tmp_path / "source"
    plant({"a": b"1", "d": {"b": b"2"}}, source)
    os.mkfifo(source / "d/pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "sock"))
    (source / "out").symlink_to("../secret")
    (source / "absolute").symlink_to(tmp_path / "secret")
    os.close(os.open(os.fsencode(source) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    (tmp_path / "secret").write_text("secret")
    async with made(tmp_path) as (one, other):
        result = await transfer(one, other)
    assert left(result) == {
        ("d/pipe", "not_a_regular_file"), ("sock", "not_a_regular_file"),
        ("out", "symlink_escape"), ("absolute", "symlink_escape"), (".", "parse_error"),
    }  # fmt: skip
    assert result.files == 2
    assert b"secret" not in b"".join(
        path.read_bytes() for path in (tmp_path / "target").rglob("*") if path.is_file()
    )


@pytest.mark.spec("CLI-1", "LINK-3")
async def test_nothing_is_written_through_a_link_in_the_target(tmp_path):
    """Somebody has laid links into the directory that a tree is exported to."""
    plant({"file": b"new", "dir": {"inner": b"new"}}, tmp_path / "source")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("victim", "inner"):
        (outside / name).write_text("old")

    def lay(target):
        target.mkdir()
        (target / "file").symlink_to(outside / "victim")
        (target / "dir").symlink_to(outside)

    lay(tmp_path / "plainly")
    shutil.copytree(tmp_path / "source", tmp_path / "plainly", dirs_exist_ok=True)
    assert {path.read_text() for path in outside.iterdir()} == {"new"}, "the attack works"
    for name in ("victim", "inner"):
        (outside / name).write_text("old")

    lay(tmp_path / "target")
    async with made(tmp_path) as (one, other):
        result = await transfer(one, other)
    assert {path.read_text() for path in outside.iterdir()} == {"old"}
    assert left(result) == {("file", "file_already_exists"), ("dir", "file_already_exists")}


@pytest.mark.spec("CLI-1", "LINK-3")
async def test_nor_through_one_that_stays_inside(tmp_path):
    plant({"dir": {"inner": b"new"}}, tmp_path / "source")
    (tmp_path / "target/own").mkdir(parents=True)
    (tmp_path / "target/own/inner").write_text("old")
    (tmp_path / "target/dir").symlink_to("own")
    async with made(tmp_path) as (one, other):
        assert left(await transfer(one, other)) == {("dir", "file_already_exists")}
    assert (tmp_path / "target/own/inner").read_text() == "old"


@pytest.mark.spec("CLI-1", "LINK-6")
async def test_links_that_are_data_in_a_volume_do_not_come_out_as_links_to_the_host(tmp_path):
    (tmp_path / "target").mkdir()
    async with both(f"sqlite:{tmp_path}/v.db", tmp_path / "target") as (volume, directory):
        await volume.symlink("out", "../../../etc/passwd")
        await volume.symlink("absolute", "/etc/passwd")
        await volume.symlink("inside", "a")
        result = await transfer(volume, directory)
    assert left(result) == {("out", "symlink_escape"), ("absolute", "symlink_escape")}
    assert os.listdir(tmp_path / "target") == ["inside"]


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize("stands", ["file", "directory", "symlink"])
async def test_what_stands_in_the_way_is_left_alone(tmp_path, stands):
    tree = {"file": b"1", "directory": {"x": b"2"}, "symlink": ("link", "file")}
    plant({stands: tree[stands]}, tmp_path / "target")
    other_kind = next(name for name in tree if name != stands)
    plant({stands: tree[other_kind]}, tmp_path / "source")
    before = seen(tmp_path / "target")
    async with made(tmp_path) as (one, other):
        result = await transfer(one, other)
    assert left(result) == {(stands, "file_already_exists")}
    assert seen(tmp_path / "target") == before


# --- when something fails ----------------------------------------------------------------------


class Failing:
    """A scope, one verb of which fails for one path."""

    def __init__(self, scope, verb, path, error):
        self._scope = scope
        self._failing = verb, path, error

    def __getattr__(self, name):
        verb, path, error = self._failing
        found = getattr(self._scope, name)
        if name != verb:
            return found

        async def failing(given, *more, **named):
            if str(given) == path:
                raise error
            return await found(given, *more, **named)

        async def failing_stream(given, *more, **named):
            if str(given) == path:
                yield b"some"
                raise error
            async for chunk in found(given, *more, **named):
                yield chunk

        return failing_stream if verb == "stream" else failing


def broken():
    return IoError("the machine failed (EIO)", errno=errno.EIO)


@pytest.mark.spec("CLI-1", "VOL-3")
@pytest.mark.parametrize(
    ("verb", "size"), [("read_bytes", 10), ("stream", WHOLE_BYTES_MAX + 1), ("lstat", 10)]
)
async def test_a_file_that_cannot_be_read_is_left_out_and_the_rest_is_saved(tmp_path, verb, size):
    """A damaged volume gives what it still has."""
    plant({"a": b"1", "bad": b"x" * size, "c": b"3"}, tmp_path / "source")
    async with made(tmp_path) as (one, other):
        result = await transfer(Failing(one, verb, "bad", broken()), other)
    assert left(result) == {("bad", "io_error")}
    assert sorted(os.listdir(tmp_path / "target")) == ["a", "c"]


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize("error", [broken(), Closed("closed")])
async def test_a_target_that_cannot_take_more_ends_it(tmp_path, error):
    plant({f"{n:03}": b"x" for n in range(3 * PARALLEL_FILES)}, tmp_path / "source")
    async with made(tmp_path) as (one, other):
        with pytest.raises(type(error)):
            await transfer(one, Failing(other, "write_bytes", "005", error))
    assert "047" not in os.listdir(tmp_path / "target")


@pytest.mark.spec("CLI-1", "AUTH-7")
async def test_a_target_that_may_not_be_changed_refuses_at_once(tmp_path):
    plant({"a": b"1"}, tmp_path / "source")
    (tmp_path / "target").mkdir()
    async with (
        bailiwick.open(tmp_path / "source") as one,
        bailiwick.open(tmp_path / "target", trusted=False) as other,
    ):
        with pytest.raises(bailiwick.UntrustedWorkspace):
            await transfer(one, other)


async def test_what_is_missing_is_not_brought_over(tmp_path):
    plant({}, tmp_path / "source")
    async with made(tmp_path) as (one, other):
        with pytest.raises(bailiwick.PathNotFound):
            await transfer(one, other, "nothing")
