"""Compare-and-swap on everything that changes: what stands there is what the caller last saw, at
the instant of the act, or nothing is changed."""

import asyncio
import hashlib
import os
from contextlib import asynccontextmanager

import pytest

import bailiwick
from bailiwick import (
    Busy,
    FileAlreadyExists,
    HashMismatch,
    IsADirectory,
    NotARegularFile,
    ParseError,
    PathNotFound,
)
from tests.scope.volumes import tree

pytestmark = pytest.mark.spec("TREE-9")

STORES = ("memory", "disk", "durable", "history", "volume")


@asynccontextmanager
async def opened(kind, tmp_path):
    """A root of each kind. What is flushed to the disk takes other ways than what is not."""
    place, options = str(tmp_path / "root"), {"state_dir": str(tmp_path / "state")}
    os.makedirs(place, exist_ok=True)
    if kind == "memory":
        place, options = "memory:", {}
    elif kind == "disk":
        options = {"durability": "rename"}
    elif kind == "durable":
        options = {}
    elif kind == "history":
        options["history"] = "on"
    elif kind == "volume":
        place, options = f"sqlite:{tmp_path}/v.db", {}
    async with bailiwick.open(place, **options) as fs:
        yield fs


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return lambda: opened(request.param, tmp_path)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


async def planted(fs):
    await fs.write_bytes("f", b"one")
    await fs.write_bytes("other", b"two")
    await fs.make_dir("d")
    await fs.write_bytes("d/g", b"three")
    await fs.symlink("link", "f")


FILE = {
    "remove": lambda fs, path, **seen: fs.remove(path, **seen),
    "move": lambda fs, path, **seen: fs.move(path, "new", **seen),
    "move_over": lambda fs, path, **seen: fs.move(path, "other", replace=True, **seen),
    "truncate": lambda fs, path, **seen: fs.truncate(path, 1, **seen),
    "set_mode": lambda fs, path, **seen: fs.set_mode(path, 0o640, **seen),
    "set_times": lambda fs, path, **seen: fs.set_times(path, 10**18, **seen),
    "replaced_by_move": lambda fs, path, **seen: fs.move(
        "other", path, replace=True, **there(seen)
    ),
    "replaced_by_copy": lambda fs, path, **seen: fs.copy("other", path, **there(seen)),
}


def there(seen):
    return {name.replace("expected_", "expected_destination_"): it for name, it in seen.items()}


async def shape(fs):
    """All that a refused change must leave as it was."""
    found = {"link": (await fs.lstat("link")).version}
    for path in ("f", "other", "d", "d/g"):
        stat = await fs.stat(path)
        found[path] = stat.version, stat.mode, stat.mtime_ns, stat.size
    return found, await tree(fs)


@pytest.mark.parametrize("verb", FILE)
async def test_what_is_expected_is_changed_and_nothing_else(store, verb):
    async with store() as fs:
        await planted(fs)
        version, before = (await fs.stat("f")).version, await shape(fs)
        wrong = (
            {"expected_version": "no such version"}, {"expected_sha256": sha256(b"other")},
            {"expected_version": version, "expected_sha256": sha256(b"other")},
            {"expected_version": "no such version", "expected_sha256": sha256(b"one")},
        )  # fmt: skip
        for seen in wrong:
            with pytest.raises(HashMismatch) as mismatch:
                await FILE[verb](fs, "f", **seen)
            assert mismatch.value.details["current_sha256"] == sha256(b"one")
            assert mismatch.value.details["current_version"] == version
            assert await shape(fs) == before
        right = {"expected_version": version, "expected_sha256": sha256(b"one")}
        assert (await FILE[verb](fs, "f", **right)) is not None
        assert await shape_or_none(fs) != before


async def shape_or_none(fs):
    try:
        return await shape(fs)
    except PathNotFound:
        return None


@pytest.mark.parametrize("verb", FILE)
async def test_a_version_that_was_seen_before_another_write_is_stale(store, verb):
    async with store() as fs:
        await planted(fs)
        seen = (await fs.stat("f")).version
        await fs.write_bytes("f", b"uno")  # as many bytes
        before = await shape(fs)
        with pytest.raises(HashMismatch):
            await FILE[verb](fs, "f", expected_version=seen)
        with pytest.raises(HashMismatch):
            await FILE[verb](fs, "f", expected_sha256=sha256(b"one"))
        assert await shape(fs) == before


@pytest.mark.parametrize("verb", FILE)
async def test_nothing_never_fits(store, verb):
    async with store() as fs:
        await planted(fs)
        before = await shape(fs)
        with pytest.raises((PathNotFound, HashMismatch)):
            await FILE[verb](fs, "missing", expected_sha256=sha256(b""))
        assert await shape(fs) == before
        for malformed in ({"expected_sha256": "short"}, {"expected_version": 7}):
            with pytest.raises(ParseError):
                await FILE[verb](fs, "f", **malformed)
        assert await shape(fs) == before


TREE = {
    "remove": lambda fs, **seen: fs.remove("d", recursive=True, **seen),
    "move": lambda fs, **seen: fs.move("d", "new", **seen),
    "set_mode": lambda fs, **seen: fs.set_mode("d", 0o711, **seen),
    "set_times": lambda fs, **seen: fs.set_times("d", 10**18, **seen),
}


@pytest.mark.parametrize("verb", TREE)
async def test_a_directory_has_a_version_and_no_hash(store, verb):
    async with store() as fs:
        await planted(fs)
        version, before = (await fs.stat("d")).version, await shape(fs)
        for seen in (
            {"expected_version": "no such version"}, {"expected_sha256": sha256(b"")},
            {"expected_version": version, "expected_sha256": sha256(b"")},
        ):  # fmt: skip
            with pytest.raises(HashMismatch) as mismatch:
                await TREE[verb](fs, **seen)
            assert mismatch.value.details["current_sha256"] is None
            assert await shape(fs) == before
        await TREE[verb](fs, expected_version=version)
        assert await shape_or_none(fs) != before


async def test_a_link_is_compared_itself(store):
    async with store() as fs:
        await planted(fs)
        version = (await fs.lstat("link")).version
        with pytest.raises(HashMismatch):
            await fs.remove("link", expected_version=(await fs.stat("f")).version)
        with pytest.raises(HashMismatch):
            await fs.move("link", "moved", expected_sha256=sha256(b"one"))
        await fs.move("link", "moved", expected_version=version)
        await fs.remove("moved", expected_version=(await fs.lstat("moved")).version)
        assert (await fs.read_bytes("f")).data == b"one"


async def test_what_is_missing_is_fine_where_that_was_said(store):
    async with store() as fs:
        result = await fs.remove("gone", missing_ok=True, expected_version="x")
        assert not result.changed


async def test_a_destination_is_expected_only_where_it_may_be_replaced(store):
    async with store() as fs:
        await planted(fs)
        right = {"expected_destination_sha256": sha256(b"two")}
        with pytest.raises(ParseError):
            await fs.move("f", "other", **right)
        with pytest.raises(FileAlreadyExists):
            await fs.copy("f", "other")
        with pytest.raises(IsADirectory):
            await fs.copy("d", "other", recursive=True, **right)
        with pytest.raises(IsADirectory):
            await fs.copy("f", "d", expected_destination_version=(await fs.stat("d")).version)
        with pytest.raises(NotARegularFile):
            await fs.copy("f", "link", **right)
        with pytest.raises(ParseError):
            await fs.copy("f", "f", expected_destination_sha256=sha256(b"one"))
        await fs.set_mode("f", 0o640)
        await fs.set_times("f", 10**18)
        await fs.copy("f", "other", **right)
        copied = await fs.stat("other")
        assert ((await fs.read_bytes("other")).data, copied.mode, copied.mtime_ns) == (
            b"one", 0o640, 10**18,
        )  # fmt: skip
        both = {"expected_sha256": sha256(b"one"), "expected_destination_sha256": sha256(b"one")}
        await fs.move("f", "other", replace=True, **both)
        assert not await fs.exists("f")
        assert (await fs.read_bytes("other")).data == b"one"


@pytest.mark.parametrize("kind", ["history", "volume"])
async def test_a_restore_compares_what_it_replaces(tmp_path, kind):
    async with opened(kind, tmp_path) as fs:
        first = (await fs.write_bytes("f", b"one")).version
        version = (await fs.history("f")).versions[0].version
        seen = await fs.write_bytes("f", b"two")
        newest = await fs.write_bytes("f", b"three")
        for stale in ({"expected_version": seen.version}, {"expected_sha256": sha256(b"two")}):
            with pytest.raises(HashMismatch) as mismatch:
                await fs.restore("f", version, **stale)
            assert mismatch.value.details["current_sha256"] == sha256(b"three")
        assert (await fs.read_bytes("f")).data == b"three"
        await fs.restore("f", version, expected_version=newest.version)
        assert (await fs.read_bytes("f")).data == b"one"
        with pytest.raises(HashMismatch):  # also where there would be nothing to do
            await fs.restore("f", version, expected_sha256=sha256(b"three"))
        assert first


@pytest.mark.parametrize("seed", range(3))
async def test_of_many_who_saw_the_same_one_wins(store, seed):
    """Whoever changes what others have changed since they looked would lose their update."""
    losing = (
        lambda fs, to, **seen: fs.remove("f", **seen),
        lambda fs, to, **seen: fs.move("f", to, **seen),
        lambda fs, to, **seen: fs.move("f", "other", replace=True, **seen),
        lambda fs, to, **seen: fs.truncate("f", 1, **seen),
        lambda fs, to, **seen: fs.write_bytes("f", b"mine", mode="replace", **seen),
        lambda fs, to, **seen: fs.append("f", b"mine", **seen),
        lambda fs, to, **seen: fs.copy("other", "f", **there(seen)),
    )
    async with store() as fs:
        for round_ in range(4):
            await fs.write_bytes("other", b"another")
            written = await fs.write_bytes("f", b"seen %d" % round_)
            by = seed + round_
            seen = [
                {"expected_version": written.version}, {"expected_sha256": written.sha256},
            ]  # fmt: skip
            tries = [
                losing[(number + by) % len(losing)](fs, f"to{round_}-{number}", **seen[number % 2])
                for number in range(len(losing))
            ]
            ended = await asyncio.gather(*tries, return_exceptions=True)
            failed = [each for each in ended if isinstance(each, BaseException)]
            assert len(failed) == len(losing) - 1, failed
            for error in failed:
                # Busy is the copy whose source was replaced while it was read.
                assert isinstance(error, (HashMismatch, PathNotFound, Busy)), repr(error)


@pytest.mark.parametrize("kind", ["disk", "durable"])
@pytest.mark.spec("DISK-6")
async def test_a_foreign_writer_in_between_is_detected(tmp_path, kind, monkeypatch):
    """Another program puts its file there after ours was compared: that one stays."""
    from bailiwick.stores.disk.changes import conditional

    inner, place = conditional.as_expected, tmp_path / "root"
    for verb in ("remove", "move", "move_over", "replaced_by_move"):
        async with opened(kind, tmp_path) as fs:
            for name, content in (("f", b"one"), ("other", b"two")):
                await fs.write_bytes(name, content)

            @conditional.contextmanager
            def racing(publisher, held, expected, stop):
                with inner(publisher, held, expected, stop) as current:
                    if expected.conditional:
                        (place / "theirs").write_bytes(b"from elsewhere")
                        os.rename(place / "theirs", place / "f")
                    yield current

            monkeypatch.setattr(conditional, "as_expected", racing)
            with pytest.raises(HashMismatch):
                await FILE[verb](fs, "f", expected_sha256=sha256(b"one"))
            monkeypatch.setattr(conditional, "as_expected", inner)
            assert (place / "f").read_bytes() == b"from elsewhere", verb
            assert (place / "other").read_bytes() == b"two", verb
            assert sorted(os.listdir(place)) == ["f", "other"], verb


OVER = [
    {"expected_sha256": sha256(b"one")},
    {"expected_destination_sha256": sha256(b"two")},
    {"expected_sha256": sha256(b"one"), "expected_destination_sha256": sha256(b"two")},
]


@pytest.mark.parametrize("kind", ["disk", "durable"])
@pytest.mark.parametrize("expected", OVER)
@pytest.mark.parametrize("happens", ["saved", "removed"])
@pytest.mark.spec("DISK-6")
async def test_what_somebody_puts_where_a_file_was_moved_from_is_theirs(
    tmp_path, kind, expected, happens, monkeypatch
):
    """Another program saves the file, or removes it, after it has changed places with what it
    replaces and before that is taken away."""
    from bailiwick.stores.disk.changes import conditional

    inner, place = conditional._check_exchanged, tmp_path / "root"

    def racing(source, destination, stop):
        inner(source, destination, stop)
        if happens == "saved":
            (place / "theirs").write_bytes(b"from elsewhere")
            os.rename(place / "theirs", place / "f")
        else:
            os.unlink(place / "f")

    monkeypatch.setattr(conditional, "_check_exchanged", racing)
    async with opened(kind, tmp_path) as fs:
        await fs.write_bytes("f", b"one")
        await fs.write_bytes("other", b"two")
        await fs.move("f", "other", replace=True, **expected)
    theirs = {"f": b"from elsewhere"} if happens == "saved" else {}
    found = {each.name: each.read_bytes() for each in place.iterdir()}
    assert found == {"other": b"one", **theirs}


@pytest.mark.spec("DISK-6")
async def test_a_destination_that_vanishes_is_no_source_that_is_missing(tmp_path, monkeypatch):
    from bailiwick.stores.disk import syscalls

    inner, place = syscalls.exchange, tmp_path / "root"

    def racing(*names):
        os.unlink(place / "other")
        return inner(*names)

    async with opened("disk", tmp_path) as fs:
        await fs.write_bytes("f", b"one")
        await fs.write_bytes("other", b"two")
        monkeypatch.setattr(syscalls, "exchange", racing)
        await fs.move("f", "other", replace=True, expected_sha256=sha256(b"one"))
        assert [each.name for each in place.iterdir()] == ["other"]
        assert (place / "other").read_bytes() == b"one"
