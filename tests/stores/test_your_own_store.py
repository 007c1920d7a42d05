"""A store by a third party: the example keeps the whole contract, and is as short as is said."""

import ast
import errno
import importlib.util
import inspect
import os

import pytest

import bailiwick
from bailiwick import store as seam
from bailiwick.nodes import NodeStore
from bailiwick.store import Store
from bailiwick.testing.driver import StoreDriver
from bailiwick.testing.store_contract import CASES, DIFFERENCES, failure_of
from tests.laws.citations import ROOT

EXAMPLE = ROOT / "examples" / "your_own_store.py"

EXAMPLE_LINES_MAX = 150
SEAM_LINES_MAX = 160
"""Two screens of eighty lines."""

SEAM_METHODS_MAX = 22


def load_example():
    spec = importlib.util.spec_from_file_location("your_own_store", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load_example()


@pytest.mark.spec("LINE-8")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_the_example_keeps_the_contract(case):
    if case.name in DIFFERENCES["memory"]:
        assert await failure_of(case, example.make), "declared as different, but it holds"
    else:
        await case.run(example.make)


@pytest.mark.spec("LINE-8")
def test_the_example_is_short_and_adds_four_methods():
    text = EXAMPLE.read_text()
    assert len(text.splitlines()) <= EXAMPLE_LINES_MAX
    assert NodeStore.__abstractmethods__ == {"get_node", "find_node", "list_nodes", "commit"}
    imported = {
        node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)
    }
    assert not {name for name in imported if name.startswith(("bailiwick.stores", "tests"))}


@pytest.mark.spec("LINE-8")
def test_the_seam_of_stores_fits_two_screens():
    halves = (seam.Reader, seam.Writer, seam.Store)
    assert sum(len(inspect.getsource(half).splitlines()) for half in halves) <= SEAM_LINES_MAX
    methods = [name for half in halves for name in vars(half) if not name.startswith("_")]
    assert len(methods) <= SEAM_METHODS_MAX


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tree.lines"


async def test_what_was_written_survives(file):
    fs = StoreDriver(example.LineStore(file))
    await fs.write("d/f", b"\xff\x00", parents=True, file_mode=0o640)
    await fs.symlink("l", "d")
    await fs.move("d/f", "d/g")
    before = await fs.stat("l/g")
    await fs.aclose()
    again = StoreDriver(example.LineStore(file))
    assert await again.stat("l/g") == before
    assert await again.read("l/g") == b"\xff\x00"
    assert (await again.write("d/h", b"x")).version != before.version
    await again.aclose()


async def test_a_line_that_was_cut_short_was_no_change(file):
    fs = StoreDriver(example.LineStore(file))
    await fs.write("f", b"old")
    await fs.aclose()
    whole = file.read_bytes()
    fs = StoreDriver(example.LineStore(file))
    await fs.write("f", b"new")
    await fs.aclose()
    written = file.read_bytes()
    for length in range(len(whole), len(written)):
        file.write_bytes(written[:length])
        fs = StoreDriver(example.LineStore(file))
        assert await fs.read("f") == b"old", length
        await fs.aclose()
        assert file.read_bytes() == whole


async def test_a_line_that_cannot_be_written_changes_nothing(file, monkeypatch):
    fs = StoreDriver(example.LineStore(file))
    await fs.write("f", b"old")
    whole = file.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(bailiwick.BailiwickError):
            await fs.write("f", b"new")
    assert await fs.read("f") == b"old"
    assert file.read_bytes() == whole
    assert not (await fs.write("f", b"newer")).created
    await fs.aclose()


@pytest.mark.spec("LINE-8")
async def test_a_store_is_a_place_and_is_closed_with_its_scope(file):
    store = example.LineStore(file)
    assert isinstance(store, Store)
    async with bailiwick.open(store) as fs:
        assert (fs.root.kind, fs.root.id, fs.description["kind"]) == ("workspace", "store", "lines")
        await fs.write_text("/f", "x")
        with pytest.raises(bailiwick.PathOutsideWorkspace):
            await fs.read_text("../f")
    with pytest.raises(bailiwick.Closed):
        await StoreDriver(store).read("f")


@pytest.mark.spec("LINE-8")
def test_blocking_code_opens_a_store_too(file):
    with bailiwick.open_sync(example.LineStore(file)) as fs:
        fs.write_text("f", "x")
    with bailiwick.open_sync(example.LineStore(file)) as fs:
        assert fs.read_text("f").text == "x"


@pytest.mark.spec("LINE-8", "ERR-5")
async def test_what_only_the_store_can_be_told_is_refused(file):
    for options in (
        {"symlinks": "reject"}, {"new_file_mode": "umask"}, {"durability": "full"},
        {"history": "on"}, {"keep_versions_days": 1.0},
    ):  # fmt: skip
        store = example.LineStore(file)
        with pytest.raises(bailiwick.Unsupported):
            async with bailiwick.open(store, **options):
                pass
        await store.aclose()
    async with bailiwick.open(example.LineStore(file, symlinks="reject"), symlinks="reject") as fs:
        assert fs.description["symlinks"] == "reject"


@pytest.mark.spec("LINE-8")
async def test_an_authority_takes_a_store_as_a_root(file):
    async with bailiwick.Authority.open() as authority:
        await authority.add_root("workspace:lines", example.LineStore(file), trusted=True)
        with pytest.raises(bailiwick.Unsupported):
            # A root of this kind follows no links, and the store does.
            await authority.add_root("secret:lines", (other := example.LineStore(file)))
        await other.aclose()
        await authority.add_grant(
            subject="user:me", root="workspace:lines", access={"read", "write"},
            by=bailiwick.User("me"),
        )  # fmt: skip
        fs = await authority.request_root(
            bailiwick.User("me"), "workspace:lines", {"read", "write"}, "to see it work"
        )
        await fs.write_text("f", "x")
        assert authority.host_path("workspace:lines") is None
        assert [record.path for record in await authority.ledger.tail(1)] == ["f"]
