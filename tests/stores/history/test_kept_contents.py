"""Small content that a change brings is kept with the change, however it comes: it is known also
where another program writes over it at once."""

import pytest

from bailiwick.errors import FileAlreadyExists, PathNotFound
from bailiwick.limits import Limits
from bailiwick.model import Expected, KiB
from bailiwick.paths import ScopedPath, parse
from bailiwick.store import Staged
from bailiwick.stores.history import capture
from bailiwick.stores.history.ledger import HistoryLedger
from tests.stores.history.places import by, opened
from tests.stores.history.test_versions import history, past

pytestmark = pytest.mark.spec("DISK-8", "REVIEW-1")

SMALL = 32 * KiB
OLD = b"what stood there\n"
PLACE = "here/f"


def file_of(data, path="f", mode=0o644):
    return [Staged(ScopedPath(path), "file", mode), data[:7], data[7:]]


async def staged(fs, place, steps, end, *, swaps=False):
    store = fs.store
    handle = await store.resolve(parse(place).path, "entry")
    try:
        begin = store.stage_swap if swaps else store.stage
        stage = await begin(handle, size_max=1 << 20)
        try:
            await stage.add(steps)
            await end(stage)
        finally:
            await stage.discard()
    finally:
        handle.close()


async def by_stream(fs, data):
    async def chunks():
        for place in range(0, len(data), 5_000):
            yield data[place : place + 5_000]

    await fs.write_stream(PLACE, chunks())


async def by_publish(fs, data):
    await fs.remove("here", recursive=True)
    await staged(fs, "here", file_of(data), lambda stage: stage.publish())


async def by_merge(fs, data):
    await staged(fs, "here", file_of(data), lambda stage: stage.merge(replace=True))


async def by_swap(fs, data):
    over = {ScopedPath("f"): Expected()}
    await staged(fs, "here", file_of(data), lambda stage: stage.swap(over, []), swaps=True)


async def by_copy_of_it(fs, data):
    steps = [*file_of(data, "twin"), Staged(ScopedPath("f"), "copy", target="twin")]
    await staged(fs, "here", steps, lambda stage: stage.merge(replace=True))


async def by_append(fs, data):
    await fs.write(PLACE, data[:10])
    await fs.append(PLACE, data[10:])


async def by_truncate(fs, data):
    await fs.write(PLACE, data.rstrip(b"\0") + b"more")
    await fs.truncate(PLACE, len(data.rstrip(b"\0")))
    await fs.truncate(PLACE, len(data))


WAYS = (by_stream, by_publish, by_merge, by_swap, by_copy_of_it, by_append, by_truncate)


async def left_by(fs, tree, way, data):
    """What is known of the content that was brought so, once another program wrote over it."""
    await fs.write(PLACE, OLD, parents=True)
    await way(by(fs, "agent:run", "r1"), data)
    (tree / PLACE).write_bytes(b"an editor was here")
    newest = next(each for each in await history(fs, PLACE) if each.subject == "agent:run")
    then = await past(fs, newest.version)
    try:
        return await then.read(PLACE)
    finally:
        await then.aclose()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("data", [b"", b"brought\n" * 100, b"x" * (SMALL - 2) + b"\0\0"])
async def test_small_content_is_known_however_it_came(tmp_path, way, data):
    async with opened(tmp_path) as fs:
        assert await left_by(fs, tmp_path / "tree", way, data) == data


@pytest.mark.parametrize("way", [by_stream, by_merge, by_append])
async def test_large_content_is_not_kept_before_it_goes(tmp_path, way):
    async with opened(tmp_path) as fs:
        with pytest.raises(PathNotFound, match="not kept"):
            await left_by(fs, tmp_path / "tree", way, b"x" * (SMALL + 1))


async def test_it_is_written_down_with_the_change_and_by_nothing_else(tmp_path, monkeypatch):
    alone = []
    monkeypatch.setattr(HistoryLedger, "keep", lambda self, contents: alone.append(contents))
    steps = [step for number in range(200) for step in file_of(b"x%d\n" % number, f"n{number}")]
    async with opened(tmp_path) as fs:
        await fs.make_dir("here")
        await staged(fs, "here", steps, lambda stage: stage.merge(replace=False))
        ledger = fs.store._core.ledger
        assert ledger.rows("SELECT count(*) FROM content") == [(200,)]
        # Whoever clears up takes none of it away.
        assert ledger.rows(
            "SELECT count(*) FROM content WHERE sha256 IN (SELECT after_sha FROM effect)"
        ) == [(200,)]
    assert alone == []


async def test_of_thousands_of_small_files_only_some_are_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "_HELD_BYTES_MAX", 4 * SMALL)
    names = [f"n{number}" for number in range(40)]
    contents = {name: name.encode() * (SMALL // 4) for name in names}
    held = []
    async with opened(tmp_path) as fs:
        await fs.make_dir("here")
        store = fs.store
        handle = await store.resolve(ScopedPath("here"), "entry")
        stage = await store.stage(handle, size_max=1 << 20)
        for name in names:
            await stage.add(file_of(contents[name], name))
            held.append(sum(map(len, stage._keeping.small.values())))
        await stage.merge(replace=False)
        await stage.discard()
        handle.close()
        assert max(held) <= 4 * SMALL
        for name in names:
            (tmp_path / "tree/here" / name).write_bytes(b"an editor was here")
        newest = (await history(fs, "here/n0"))[0]
        then = await past(fs, newest.version)
        for name in names:
            assert await then.read(f"here/{name}") == contents[name]
        await then.aclose()


async def test_what_was_refused_is_told_of_nobody_though_the_same_was_to_come(tmp_path):
    """What stands there is what was to come: it was there before."""
    async with opened(tmp_path) as fs:
        await fs.write(PLACE, OLD, parents=True, file_mode=0o644)
        before = await history(fs, PLACE)
        steps = [*file_of(b"new", "new"), *file_of(OLD)]
        agent = by(fs, "agent:run", "r1")
        with pytest.raises(FileAlreadyExists):
            await staged(agent, "here", steps, lambda stage: stage.merge(replace=False))
        assert await history(fs, PLACE) == before
        assert fs.store._core.ledger.entries("WHERE request = 'r1'") == []


async def test_of_what_is_beyond_what_is_listed_no_content_is_kept(tmp_path):
    """As much as a change may add to a history it may not add twice, nor for nobody to find."""
    names = [f"f{number}" for number in range(20)]
    async with opened(tmp_path, limits=Limits(history_entries_max=5)) as fs:
        steps = [step for name in names for step in file_of(name.encode(), name)]
        await staged(fs, "here", steps, lambda stage: stage.publish())
        [(kept,)] = fs.store._core.ledger.rows("SELECT count(*) FROM content")
        assert 0 < kept <= 5
        for name in names:
            assert await fs.read(f"here/{name}") == name.encode()
