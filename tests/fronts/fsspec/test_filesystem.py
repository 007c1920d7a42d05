"""The tree through fsspec: looking, making, moving, removing, and whose loop does it."""

import asyncio
import datetime as dt
import pickle

import pytest

import bailiwick
from bailiwick.fronts.fsspec import BailiwickFileSystem

pytestmark = pytest.mark.spec("FSSPEC-1")


@pytest.fixture
def scope(tmp_path):
    with bailiwick.open_sync(tmp_path) as scope:
        yield scope


@pytest.fixture
def fs(scope):
    return BailiwickFileSystem(scope)


def test_ignored_files_are_part_of_it(fs, scope):
    scope.write_text(".gitignore", "build/\n*.log\n")
    scope.write_text("build/out", "x", parents=True)
    scope.write_text("a.log", "x")
    assert fs.find("/") == [".gitignore", "a.log", "build/out"]
    assert fs.glob("/**/out") == ["build/out"]
    assert fs.ls("build", detail=False) == ["build/out"]
    assert fs.du("/") == len("build/\n*.log\n") + 2


def test_what_is_known_of_things(fs, scope):
    scope.write_text("d/a", "four", parents=True)
    info = fs.info("d/a")
    assert (info["name"], info["size"], info["type"]) == ("d/a", 4, "file")
    assert fs.info("/")["type"] == fs.info("")["type"] == "directory"
    assert fs.ls("d/a")[0]["name"] == "d/a"
    assert fs.isdir("d")
    assert fs.isfile("d/a")
    assert not fs.exists("none")
    with pytest.raises(FileNotFoundError):
        fs.info("none")
    with pytest.raises(FileNotFoundError):
        fs.ls("none")
    with pytest.raises(PermissionError):
        fs.cat_file("../outside")
    assert abs(fs.modified("d/a") - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
    before = fs.ukey("d/a")
    scope.write_text("d/a", "five")
    assert fs.ukey("d/a") != before


def test_a_large_directory_is_listed_whole(tmp_path):
    limits = bailiwick.Limits(list_page_max=10)
    with bailiwick.open_sync("memory:", limits=limits) as scope:
        fs = BailiwickFileSystem(scope)
        fs.pipe({f"d/{number:03}": b"" for number in range(35)})
        assert len(fs.ls("d")) == 35


def test_links_are_followed_and_walks_end(fs, scope):
    scope.write_text("d/a", "text", parents=True)
    scope.symlink("to-file", "d/a")
    scope.symlink("d/up", "..")
    scope.symlink("nowhere", "none")
    kinds = {info["name"]: info["type"] for info in fs.ls("/")}
    assert kinds == {"d": "directory", "to-file": "file", "nowhere": "link"}
    assert fs.cat_file("to-file") == b"text"
    assert "d/up" in fs.find("/")
    fs.cp_file("to-file", "copy")
    assert scope.lstat("copy").type == "file"
    fs.rm("to-file")
    assert scope.exists("d/a")


def test_directories(fs, scope):
    fs.mkdir("a/b")
    with pytest.raises(FileExistsError):
        fs.mkdir("a/b")
    with pytest.raises(FileExistsError):
        fs.makedirs("a/b")
    fs.makedirs("a/b", exist_ok=True)
    with pytest.raises(FileNotFoundError):
        fs.mkdir("x/y", create_parents=False)
    fs.touch("a/b/c")
    with pytest.raises(OSError, match="empty"):
        fs.rmdir("a/b")
    with pytest.raises(NotADirectoryError):
        fs.rmdir("a/b/c")
    with pytest.raises(IsADirectoryError):
        fs.rm("a")
    with pytest.raises(PermissionError):
        fs.rm("/", recursive=True)
    fs.rm("a", recursive=True)
    assert fs.ls("/") == []
    with pytest.raises(FileNotFoundError):
        fs.rm("none")


def test_removing_down_to_a_depth(fs):
    fs.pipe({"a/1": b"", "a/b/2": b"", "a/b/c/3": b""})
    fs.rm("a", recursive=True, maxdepth=2)
    assert fs.find("/") == ["a/b/c/3"]
    fs.rm(["a/b/c/3"])
    assert fs.find("/") == []


def test_moving(fs, scope):
    fs.pipe({"a": b"1", "b": b"2", "d/c": b"3"})
    fs.mv("a", "x/y")
    assert fs.cat_file("x/y") == b"1"
    fs.mv("x/y", "b")
    assert fs.cat_file("b") == b"1"
    fs.mv("b", "d")
    fs.mv("d", "e", recursive=True)
    assert fs.find("/") == ["e/b", "e/c"]
    fs.mv("e/*", "f/")
    fs.mv(["f/b", "f/c"], ["1", "2"])
    assert fs.find("/") == ["1", "2"]
    fs.mv("1", "1")
    with pytest.raises(FileNotFoundError):
        fs.mv("none", "3")
    assert fs.cat_file("1") == b"1"


def test_copying_replaces_at_once(fs, scope):
    fs.pipe({"a": b"new", "b": b"old"})
    fs.cp_file("a", "b")
    fs.cp_file("a", "a")
    assert fs.cat(["a", "b"]) == {"a": b"new", "b": b"new"}


def test_touching(fs, scope):
    fs.pipe_file("a", b"kept")
    scope.set_times("a", 1_000_000_000)
    fs.touch("a", truncate=False)
    assert fs.cat_file("a") == b"kept"
    assert fs.info("a")["mtime"] > 1
    fs.touch("a")
    assert fs.size("a") == 0


def test_files_of_the_host(fs, tmp_path_factory):
    host = tmp_path_factory.mktemp("host")
    (host / "in").write_bytes(b"x" * 300_000)
    fs.put(str(host / "in"), "d/in")
    fs.get("d/in", str(host / "out"))
    assert (host / "out").read_bytes() == b"x" * 300_000
    with open(host / "held", "wb") as file:
        fs.get_file("d/in", file)
    assert (host / "held").stat().st_size == 300_000
    with pytest.raises(FileExistsError):
        fs.put_file(str(host / "in"), "d/in", mode="create")
    with pytest.raises(FileNotFoundError):
        fs.get("none", str(host / "none"))
    assert not (host / "none").exists()


def test_two_scopes_are_two_filesystems(fs):
    with bailiwick.open_sync("memory:") as one, bailiwick.open_sync("memory:") as two:
        first, second = BailiwickFileSystem(one), BailiwickFileSystem(two)
        assert first != second
        assert len({first, second}) == 2
        with pytest.raises((TypeError, pickle.PicklingError, AttributeError)):
            pickle.dumps(first)


# --- whose loop --------------------------------------------------------------------------------


async def _write_and_fail(fs):
    async with await fs.open_async("gone", "wb") as file:
        await file.write(b"x" * 9_000_000)
        raise ZeroDivisionError


async def test_a_scope_of_this_loop_is_awaited_here():
    async with bailiwick.open("memory:") as scope:
        fs = BailiwickFileSystem(scope, asynchronous=True)
        await fs._pipe_file("a", b"x")
        assert await fs._cat_file("a") == b"x"
        assert await fs._find("/") == ["a"]
        async with await fs.open_async("b", "wb") as file:
            await file.write(b"y" * 10)
            assert not await scope.exists("b")
        async with await fs.open_async("b", "rb") as file:
            assert await file.read(3) == b"yyy"
            assert await file.read() == b"y" * 7
        async with await fs.open_async("b", "ab") as file:
            await file.write(b"z")
        assert await fs._cat_file("b") == b"y" * 10 + b"z"
        async with await fs.open_async("n", "xb") as file:
            await file.write(b"new")
        with pytest.raises(FileExistsError):
            await fs.open_async("n", "xb")
        with pytest.raises(ZeroDivisionError):
            await _write_and_fail(fs)
        assert not await scope.exists("gone")
        with pytest.raises(FileNotFoundError):
            await fs.open_async("none", "rb")
        await fs._mv("b", "c")
        await fs._rm("c")
        assert not await fs._exists("c")


async def test_a_scope_of_this_loop_is_used_by_blocking_code_in_a_thread():
    async with bailiwick.open("memory:") as scope:
        fs = BailiwickFileSystem(scope)

        def work():
            fs.pipe_file("a", b"x")
            with fs.open("b", "wb") as file:
                file.write(b"y" * 9_000_000)
            return fs.cat_file("a"), fs.size("b")

        assert await asyncio.to_thread(work) == (b"x", 9_000_000)
        with pytest.raises(NotImplementedError, match="running loop"):
            fs.cat_file("a")


async def test_a_scope_of_no_known_loop_is_refused():
    async with bailiwick.open("memory:") as scope:
        with pytest.raises(bailiwick.ParseError, match="event loop"):
            await asyncio.to_thread(BailiwickFileSystem, scope)
        fs = await asyncio.to_thread(BailiwickFileSystem, scope, loop=asyncio.get_running_loop())
        await asyncio.to_thread(fs.pipe_file, "a", b"x")
        assert (await scope.read_bytes("a")).data == b"x"


def test_what_lies_at_the_top_keeps_its_name_in_a_directory(fs, tmp_path_factory):
    host = tmp_path_factory.mktemp("host")
    fs.pipe({"a": b"1", "src/b": b"2"})
    fs.mkdir("d")
    for source in ("a", "a*"):
        fs.cp(source, "d")
        fs.get(source, str(host))
    fs.cp("src", "d", recursive=True)
    fs.cp("src", "d", recursive=True)
    fs.get("src", str(host), recursive=True)
    fs.get("a", f"{host}/new/")
    assert fs.find("d") == ["d/a", "d/src/b"]
    names = sorted(str(path.relative_to(host)) for path in host.rglob("*") if path.is_file())
    assert names == ["a", "new/a", "src/b"]
