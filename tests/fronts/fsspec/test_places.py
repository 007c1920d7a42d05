"""Filesystems that fsspec makes from a URL: a directory, a volume, a server."""

import asyncio
import pickle
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import fsspec
import pytest

import bailiwick
from bailiwick.fronts.fsspec.places import (
    DirectoryFileSystem,
    ServerFileSystem,
    VolumeFileSystem,
)

pytestmark = [
    pytest.mark.spec("FSSPEC-1"),
    pytest.mark.leaks_ok("fsspec's own loop keeps worker threads for the whole process"),
]


@pytest.fixture(autouse=True)
def closed_afterwards():
    yield
    for kind in (DirectoryFileSystem, VolumeFileSystem, ServerFileSystem):
        for fs in list(kind._cache.values()):
            if fs.loop is not None:
                fs.close()
        kind.clear_instance_cache()


@pytest.fixture(params=["directory", "volume", "server"])
def top(request, tmp_path, monkeypatch):
    """The URL of an empty place."""
    if request.param == "directory":
        (tmp_path / "project").mkdir()
        return f"bailiwick+file://{tmp_path}/project!"
    if request.param == "volume":
        with bailiwick.open_sync(f"sqlite:{tmp_path}/agent.db?volume=main"):
            return f"bailiwick+sqlite://{tmp_path}/agent.db?volume=main!"
    host, token = request.getfixturevalue("server")
    monkeypatch.setenv("BAILIWICK_TOKEN", token)
    monkeypatch.setenv("BAILIWICK_PLACE", f"http://{host}")
    url = f"bailiwick://{host}/workspace/demo"
    fs, _ = fsspec.core.url_to_fs(url)
    for name in fs.ls("/", detail=False):
        fs.rm(name, recursive=True)
    return url


@pytest.mark.spec("EXEC-1")
def test_a_url_opens_files_and_lets_nothing_be_run(tmp_path):
    assert "execute" not in DirectoryFileSystem(str(tmp_path))._options["access"]
    fs = DirectoryFileSystem(str(tmp_path), access=["read", "execute"])
    assert fs._options["access"] == ["read", "execute"]


def test_a_url_names_a_place_and_what_lies_in_it(top):
    with fsspec.open(f"{top}/d/a.txt", "wt") as file:
        file.write("hello")
    with fsspec.open(f"{top}/d/a.txt", "rt") as file:
        assert file.read() == "hello"
    fs, path = fsspec.core.url_to_fs(f"{top}/d/a.txt")
    assert path == "d/a.txt"
    assert fs.unstrip_protocol(path) == f"{top}/d/a.txt"
    assert fs.find("/") == ["d/a.txt"]
    assert fs.ls(f"{top}/d", detail=False) == ["d/a.txt"]
    assert fsspec.core.url_to_fs(f"{top}/other")[0] is fs
    found = fsspec.open_files(f"{top}/d/*.txt", "rb")
    assert [file.full_name for file in found] == [f"{top}/d/a.txt"]
    with pytest.raises(FileNotFoundError):
        fs.cat_file("none")
    with pytest.raises(PermissionError):
        fs.cat_file("../outside")


def test_everything_that_changes_a_tree(top):
    fs, _ = fsspec.core.url_to_fs(f"{top}/")
    fs.pipe({"a": b"1", "d/b": b"2"})
    fs.cp_file("a", "d/c")
    fs.cp_file("d/b", "d/c")
    fs.mv("d", "e")
    fs.mkdir("x/y")
    fs.rmdir("x/y")
    with fs.open("log", "ab") as file:
        file.write(b"one")
    with fs.open("log", "ab") as file:
        file.write(b"two")
    with fs.open("large", "wb") as file:
        for _ in range(3):
            file.write(b"x" * (5 * 1024 * 1024))
        assert not fs.exists("large")
    with fs.open("large", "rb") as file:
        file.seek(10 * 1024 * 1024)
        assert file.read(7) == b"x" * 7
    with pytest.raises(FileExistsError):
        fs.pipe_file("a", b"", mode="create")
    assert fs.size("large") == 15 * 1024 * 1024
    fs.rm("large")
    assert fs.cat(["a", "e/b", "e/c", "log"]) == {
        "a": b"1", "e/b": b"2", "e/c": b"2", "log": b"onetwo",
    }  # fmt: skip


def test_it_can_be_sent_to_another_process(top):
    fs, _ = fsspec.core.url_to_fs(f"{top}/")
    fs.pipe_file("a", b"x")
    again = pickle.loads(pickle.dumps(fs))
    assert again == fs
    assert again.cat_file("a") == b"x"


def test_it_is_opened_again_after_it_was_closed(top):
    fs, _ = fsspec.core.url_to_fs(f"{top}/")
    fs.pipe_file("a", b"x")
    fs.close()
    fs.close()
    assert fs.cat_file("a") == b"x"


async def test_it_is_awaited_on_any_loop(tmp_path):
    fs = fsspec.filesystem(
        "bailiwick+sqlite", place=f"{tmp_path}/a.db", asynchronous=True, create=True,
        skip_instance_cache=True,
    )  # fmt: skip
    await asyncio.gather(*(fs._pipe_file(f"{number}", b"x") for number in range(10)))
    assert len(await fs._find("/")) == 10
    await fs._aclose()


def test_options_of_a_place(tmp_path):
    (tmp_path / "a").write_text("x")
    fs = fsspec.filesystem("bailiwick+file", place=str(tmp_path), trusted=False)
    assert fs.cat_file("a") == b"x"
    with pytest.raises(PermissionError):
        fs.pipe_file("b", b"")


@pytest.mark.parametrize("protocol", ["bailiwick", "bailiwick+file", "bailiwick+sqlite"])
def test_no_place_is_no_filesystem(protocol):
    with pytest.raises(bailiwick.ParseError) as refused:
        fsspec.filesystem(protocol)
    assert "for example" in refused.value.hint


def test_a_server_that_is_not_there_says_so():
    with pytest.raises(OSError, match="reach"):
        fsspec.core.url_to_fs("bailiwick://127.0.0.1:9/workspace/demo/a")[0].ls("/")


def test_a_program_ends_though_nothing_was_closed(tmp_path):
    program = f"""
        import fsspec
        from bailiwick.fronts.fsspec.places import VolumeFileSystem
        fsspec.register_implementation("bailiwick+sqlite", VolumeFileSystem, clobber=True)
        place = "bailiwick+sqlite://{tmp_path}/a.db!"
        with fsspec.open(place + "/x", "wb", create=True) as file:
            file.write(b"kept")
        print(fsspec.open(place + "/x").open().read())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, timeout=30
    )
    assert done.stdout == b"b'kept'\n"
    assert done.returncode == 0, done.stderr
    with bailiwick.open_sync(f"sqlite:{tmp_path}/a.db") as scope:
        assert scope.read_bytes("x").data == b"kept"


def test_the_urls_are_those_of_the_package():
    from tests.fronts.fsspec.conftest import ENTRY_POINTS

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    listed = project["project"]["entry-points"]["fsspec.specs"]
    assert {name: value.replace(":", ".") for name, value in listed.items()} == ENTRY_POINTS
