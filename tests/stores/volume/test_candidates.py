"""Files worth a look: a superset of those that match, from one pass over the rows of a tree."""

import asyncio
import random
import threading

import pytest

import bailiwick
from bailiwick.paths import parse
from bailiwick.search.grep import compile_query
from bailiwick.store import Nominates
from bailiwick.stores.volume.search import candidates, pages
from bailiwick.stores.volume.search import sieve as sieve_module
from bailiwick.testing.driver import StoreDriver
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import in_database, opened

LINE = b"x" * 99 + b"\n"


async def nominated(store, pattern, path=".", **asked):
    how = {
        "literal": False, "ignore_case": False, "word": False, "binaries": False,
        "leave_out": (), "file_bytes_max": None, "deadline_s": 60.0, **asked,
    }  # fmt: skip
    directory = await store.resolve(parse(path).path, "object")
    try:
        return await store.nominate(directory, pattern, **how)
    finally:
        directory.close()


def matching(tree, pattern, **asked):
    query = compile_query(pattern, **asked)
    shown = {"context": 0, "matches_left": 1, "line_characters_max": 9}
    return {
        path
        for path, data in tree.items()
        if isinstance(data, bytes) and query.search(data, **shown)
    }


async def plant(fs):
    """Content of every kind: in its row, in a chunk, in several, appended to, in a blob."""
    rng = random.Random(3)
    for number in range(30):
        lines = [b"%x" % rng.getrandbits(60) for _ in range(rng.choice((1, 20, 900)))]
        if number % 5 == 0:
            lines.insert(len(lines) // 2, b"the Needle lies here")
        ending = rng.choice((b"\n", b"\r\n"))
        path = f"d{number % 3}/e{number % 2}/f{number}"
        await fs.write(path, ending.join(lines), parents=True)
    await fs.write("marked", b"\xef\xbb\xbfNeedle first\n")
    await fs.write("pieces", LINE * 6_000 + b"Needle\n" + LINE * 90)
    await fs.write("blob", LINE * 20_000 + b"Needle")
    await fs.write("grown", b"begin ")
    for _ in range(3):
        await fs.append("grown", b"Nee" * 3_000 + b"Needle")
    await fs.write("binary", b"\0Nee")
    await fs.symlink("link", "d0")


PATTERNS = [
    ("Needle", {"literal": True}),
    ("needle", {"ignore_case": True}),
    ("^Needle", {}),
    ("here$", {}),
    (r"N[de]+le\b", {}),
    ("Need", {"word": True}),
    (r"\ANeedle", {}),
    ("nowhere", {"literal": True}),
]


@pytest.mark.spec("GREP-1", "VOL-12")
@pytest.mark.parametrize("compression", ["off", pytest.param("zstd", marks=pytest.mark.slow)])
async def test_every_file_that_matches_is_named(tmp_path, compression):
    async with opened(tmp_path / "v.db", compression=compression) as fs:
        assert isinstance(fs.store, Nominates)
        assert "Nominates" in fs.store.powers
        await plant(fs)
        before = fs.store.versions
        version = (await before.history(parse(".").path, limit=1)).versions[0].version
        fork = StoreDriver(await before.fork("work"))
        await fork.write("d0/e0/f0", b"nothing any more")
        await fork.remove("d1/e1", recursive=True)
        await fork.write("d1/new", b"another Needle")
        await fs.write("d2/e0/f20", b"gone in main")
        past = await fs.store.versions.as_of(version)
        for store in (fs.store, fork.store, past):
            tree = await tree_of(store)
            for pattern, how in PATTERNS:
                found = await nominated(store, pattern, **how)
                assert matching(tree, pattern, **how) <= found <= tree.keys()
                assert found <= matching(tree, pattern, **how) | {"pieces", "blob", "grown"}
        await past.aclose()
        await fork.aclose()


@pytest.mark.spec("GREP-1")
async def test_what_is_asked_for_narrows_what_is_named(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for path in ("top", "a/one", "a/b/two", "c/three"):
            await fs.write(path, b"Needle", parents=True)
        await fs.write("a/large", b"Needle " * 100)
        await fs.write("a/binary", b"\0")
        store = fs.store
        assert await nominated(store, "Needle", "a") == {"a/one", "a/b/two", "a/large"}
        assert await nominated(store, "Needle", "a", leave_out=("b",), file_bytes_max=10) == {
            "a/one"
        }
        assert "a/binary" in await nominated(store, "nothing", "a", binaries=True)
        assert await nominated(store, "Needle", deadline_s=-1.0) is None


@pytest.mark.spec("GREP-1", "VOL-8")
async def test_what_is_damaged_is_named_so_that_it_is_told(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("small", b"nothing here")
        await fs.write("middle", b"nothing there " * 900)
        await fs.write("whole", b"nothing at all")
        await in_database(fs, "UPDATE inode SET data = x'78' WHERE size = 12 RETURNING id")
        await in_database(fs, "UPDATE chunk SET data = zeroblob(12600) RETURNING id")
        assert await nominated(fs.store, "Needle") == {"small", "middle"}


@pytest.mark.spec("GREP-1", "VOL-8")
@pytest.mark.parametrize("change", ["hash = x'00'", "hash = zeroblob(32)", "data = NULL"])
async def test_what_cannot_be_checked_is_named(tmp_path, change):
    async with opened(tmp_path / "v.db") as fs:
        for size in (9_000, 90_000):
            await fs.write(f"f{size}", b"x" * size)
        await fs.write("small", b"nothing")
        await in_database(fs, f"UPDATE chunk SET shared = 0, {change} RETURNING id")
        assert {"f9000", "f90000"} <= await nominated(fs.store, "Needle")


@pytest.mark.spec("GREP-1", "VOL-8")
async def test_a_name_that_cannot_be_leaves_the_search_to_a_walk(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a-b", b"Needle")
        await in_database(fs, "UPDATE dentry SET name = 'a/b' WHERE kind = 1 RETURNING node")
        assert await nominated(fs.store, "Needle") is None


@pytest.mark.spec("GREP-1", "LIFE-2")
async def test_a_search_that_is_cancelled_ends_its_pass(tmp_path, monkeypatch):
    async with opened(tmp_path / "v.db") as fs:
        for number in range(20):
            await fs.write(f"f{number}", b"x")
        begun, loop = asyncio.Event(), asyncio.get_running_loop()
        look, looks = candidates._Scan._look, []

        def slow_look(scan):
            looks.append(scan)
            loop.call_soon_threadsafe(begun.set)
            while not scan.is_given_up:
                pass
            look(scan)

        monkeypatch.setattr(candidates._Scan, "_look", slow_look)
        searching = asyncio.create_task(nominated(fs.store, "x"))
        await begun.wait()
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        assert len(looks) == 1


@pytest.mark.spec("GREP-1", "LIFE-2")
async def test_a_search_that_is_cancelled_ends_both_its_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_NAMES", 2)
    async with opened(tmp_path / "v.db") as fs:
        for number in range(40):
            await fs.write(f"f{number:02}", b"x")
        both, loop = asyncio.Event(), asyncio.get_running_loop()
        at_work = set()

        def slow_sift(sieve, page):
            at_work.add(threading.get_ident())
            if len(at_work) == 2:
                loop.call_soon_threadsafe(both.set)
            while True:
                sieve._look()  # which ends it

        monkeypatch.setattr(sieve_module.Sieve, "sift", slow_sift)
        searching = asyncio.create_task(nominated(fs.store, "x"))
        await both.wait()
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        assert not [each for each in threading.enumerate() if "nominating" in each.name]


@pytest.mark.spec("GREP-1", "VOL-12")
async def test_both_threads_look_at_one_state(tmp_path, monkeypatch):
    """A change between their first looks leaves the work to one of them."""
    monkeypatch.setattr(pages, "PAGE_NAMES", 2)
    async with opened(tmp_path / "v.db") as fs:
        for number in range(9):
            await fs.write(f"f{number}", b"x")
        loop, made, threads = asyncio.get_running_loop(), [], set()
        make, work = candidates.Pages, candidates._Scan._work

        def make_after_a_change(*how):
            made.append(how)
            if len(made) == 1:
                changing = fs.write("f9", b"x")
                asyncio.run_coroutine_threadsafe(changing, loop).result(120)
            return make(*how)

        def noted_work(scan, source):
            threads.add(threading.get_ident())
            work(scan, source)

        monkeypatch.setattr(candidates, "Pages", make_after_a_change)
        monkeypatch.setattr(candidates._Scan, "_work", noted_work)
        assert await nominated(fs.store, "x") == {f"f{number}" for number in range(9)}
        assert len(threads) == 1
        threads.clear()
        assert await nominated(fs.store, "x") == {f"f{number}" for number in range(10)}
        assert len(threads) == 2


@pytest.mark.spec("GREP-1")
async def test_an_error_of_the_helper_is_told(tmp_path, monkeypatch):
    class Broken(Exception):
        pass

    def broken(sieve, page):
        raise Broken

    monkeypatch.setattr(sieve_module.Sieve, "sift", broken)
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"x")
        with pytest.raises(Broken):
            await nominated(fs.store, "x")


@pytest.mark.spec("GREP-1")
async def test_grep_says_the_same_with_and_without(tmp_path, monkeypatch):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as scope:
        for number in range(300):
            text = "Needle" if number % 50 == 0 else "nothing"
            await scope.write_text(f"d{number % 7}/f{number}", text, parents=True)
        await scope.write_bytes("d1/binary", b"\0Needle")
        await scope.write_text(".gitignore", "d2\n")
        for skipped in (True, False):
            found = await scope.grep("Needle", report_skipped=skipped)

            async def nothing_known(*_, **__):
                return None

            with monkeypatch.context() as without:
                store = type(scope._pipeline.store)
                without.setattr(store, "nominate", nothing_known)
                without.setattr(store, "survey", nothing_known)
                plain = await scope.grep("Needle", report_skipped=skipped)
            assert found.matches == plain.matches
            assert found.skipped_binary_paths == plain.skipped_binary_paths
            assert not skipped or found.files_searched == plain.files_searched
            assert len(found.matches) == 5
