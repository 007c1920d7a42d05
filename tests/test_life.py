"""Cancelling and closing: nothing happens, or all of it, and nothing is left behind."""

import asyncio
import os

import pytest

import bailiwick
from bailiwick.limits import Limits
from tests.scope import support
from tests.scope.every_verb import VERBS, plant_tree
from tests.scope.support import place_of, plant, records, snapshot
from tests.waiting import loop_turns

opening, either = support.opening, support.either


def _raw_names(fs):
    """Every name on the disk beneath a scope, staging names included."""
    return sorted(
        os.path.relpath(os.path.join(top, name), place_of(fs))
        for top, directories, files in os.walk(place_of(fs))
        for name in (*directories, *files)
    )


@pytest.mark.spec("LIFE-1")
@pytest.mark.parametrize("name", VERBS)
async def test_a_call_cancelled_before_it_starts_does_nothing(either, name):
    async with either() as fs:
        await plant_tree(fs)
        before, count = await snapshot(fs), len(records(fs))
        task = asyncio.ensure_future(VERBS[name].call(fs))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(records(fs)) == count
        assert await snapshot(fs) == before


@pytest.mark.spec("LIFE-1", "WRITE-3", "AUDIT-1")
@pytest.mark.parametrize("path", ["old", "new", "deep/er/new"])
async def test_a_cancelled_upload_leaves_nothing(opening, path):
    async with opening() as fs:
        await fs.write_bytes("old", b"old")
        reached = asyncio.Event()

        async def endless():
            yield b"x" * 300_000
            reached.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(fs.write_stream(path, endless(), parents=True))
        await reached.wait()
        count = len(records(fs))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (record,) = records(fs)[count:]
        assert (record.outcome, record.error_kind, record.path) == ("failed", "cancelled", path)
        assert await snapshot(fs) == {"old": b"old"}
        if opening.on_disk:
            assert _raw_names(fs) == ["old"]


def _outcome(verb):
    """What the verb itself returned or raised. A task that ends with it would be cancelled anyway
    where the cancellation came too late: asyncio delivers it at the task's end."""
    seen = []

    async def watched():
        try:
            seen.append(await verb())
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        await asyncio.sleep(0)

    task = asyncio.create_task(watched())
    return task, seen


async def _step(steps):
    for _ in range(steps):
        await asyncio.sleep(0)


@pytest.mark.spec("LIFE-1", "WRITE-3", "AUDIT-1")
@pytest.mark.parametrize("durability", ["rename", "full"])
@pytest.mark.parametrize("verb", ["write", "swap", "append", "truncate", "upload", "edit"])
async def test_a_write_cancelled_at_any_step_is_whole_or_not_there(either, verb, durability):
    """Cancelled means unchanged: and what was acknowledged is on record as what it was."""
    old, new = b"o" * 300_000, b"n" * 300_000
    async with either(**({"durability": durability} if either.on_disk else {})) as fs:
        await fs.write_bytes(".gitignore", b"# nothing\n" * 60_000)
        results = set()
        for steps in (*range(6), 9, 15, 30, 60, 200, 1000):
            sha256 = (await fs.write_bytes("f", old)).sha256
            fs._ignores.forget_all()
            count = len(records(fs))
            task, seen = _outcome({
                "write": lambda: fs.write_bytes("f", new),
                "swap": lambda sha256=sha256: fs.write_bytes("f", new, expected_sha256=sha256),
                "append": lambda: fs.append("f", new),
                "truncate": lambda: fs.truncate("f", 10),
                "upload": lambda: fs.write_stream("f", [new[:100], new[100:]]),
                "edit": lambda: fs.edit("f", old="o" * 300_000, new="n" * 300_000),
            }[verb])  # fmt: skip
            await _step(steps)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            data = (await fs.read_bytes("f")).data
            if seen in ([], ["cancelled"]):
                assert data == old
                assert {record.error_kind for record in records(fs)[count:-1]} <= {"cancelled"}
            else:
                assert data != old
                (record, _) = records(fs)[count:]
                assert (record.outcome, record.sha256_after) == ("success", seen[0].sha256)
            results.add(data == old)
            if either.on_disk:
                assert _raw_names(fs) == [".gitignore", "f"]
        assert True in results, "never was a write cancelled in time"


@pytest.mark.spec("LIFE-1", "HOOK-1", "AUDIT-1")
async def test_a_cancellation_while_an_after_hook_watches_comes_too_late(opening):
    class Slow:
        id = "slow"
        seen = 0

        async def before(self, context):
            return None

        async def after(self, context, record):
            reached.set()
            await loop_turns(20)
            self.seen += 1

    hook = Slow()
    async with opening(hooks=[hook]) as fs, opening() as other:
        await plant(other, {"d/f": "x"})
        for number, verb in enumerate((
            lambda: fs.write_bytes("f", b"new"), lambda: fs.make_dir("d"),
            lambda: fs.copy("f", "g"), lambda: fs.move("g", "h"), lambda: fs.remove("h"),
            lambda: fs.copy_from(other, "d", "e", recursive=True), lambda: fs.exists("f"),
        ), start=1):  # fmt: skip
            reached = asyncio.Event()
            task, seen = _outcome(verb)
            await reached.wait()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert seen != ["cancelled"]
            assert len(seen) == 1
            assert [record.outcome for record in records(fs)] == ["success"] * number
            assert hook.seen == number
        assert records(other)[-1].outcome == "success"


@pytest.mark.spec("LIFE-1", "TREE-5")
@pytest.mark.parametrize("call", ["find", "files", "glob", "grep", "copy_from"])
async def test_a_long_walk_can_be_cancelled(opening, call):
    async with opening() as fs, opening() as other:
        for number in range(40):
            await fs.write_bytes(f"d/{number % 7}/{number}", b"x" * 100, parents=True)
        calls = {
            "find": lambda: fs.find(), "files": lambda: fs.files(),
            "glob": lambda: fs.glob("**"), "grep": lambda: fs.grep("x"),
            "copy_from": lambda: other.copy_from(fs, "d", "e", recursive=True),
        }  # fmt: skip
        before = await snapshot(fs)
        store, reached = fs._pipeline.store, asyncio.Event()
        children, listed = store.children, []

        async def slow_at_last(directory, **how):
            listed.append(directory.path)
            if directory.path == "d/5":
                reached.set()
                await asyncio.Event().wait()
            return await children(directory, **how)

        store.children = slow_at_last
        task = asyncio.create_task(calls[call]())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.children = children
        assert listed[-1] == "d/5", "it went on after it was cancelled"
        assert records(fs)[-1].error_kind == "cancelled"
        assert await snapshot(fs) == before
        assert await snapshot(other) == {}
        if opening.on_disk:
            assert _raw_names(other) == []


@pytest.mark.spec("LIFE-1")
@pytest.mark.parametrize("call", ["remove", "copy"])
async def test_a_cancelled_bulk_change_leaves_nothing_half_done(opening, call):
    async with opening() as fs:
        for number in range(40):
            await fs.write_bytes(f"d/{number % 7}/{number}", b"x" * 100, parents=True)
        before = await snapshot(fs)
        verb = {
            "remove": lambda: fs.remove("d", recursive=True),
            "copy": lambda: fs.copy("d", "e", recursive=True),
        }[call]
        task, seen = _outcome(verb)
        await _step(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        after = await snapshot(fs)
        if call == "copy":
            assert len(after) == len(before) * (1 if seen == ["cancelled"] else 2)
        else:
            assert after.items() <= before.items()
            assert (after == {}) == (seen != ["cancelled"])
        if opening.on_disk:
            assert len(_raw_names(fs)) == len(after)


@pytest.mark.spec("LIFE-2")
@pytest.mark.parametrize("name", VERBS)
async def test_a_verb_called_after_closing_is_closed(either, name):
    async with either() as fs:
        await plant_tree(fs)
        derived = fs.with_request("mine")
        await fs.aclose()
        for scope in (fs, derived):
            count = len(records(fs))
            with pytest.raises(bailiwick.Closed):
                await VERBS[name].call(scope)
            assert [record.error_kind for record in records(fs)[count:]] == ["closed"]
        await fs.aclose()


@pytest.mark.spec("LIFE-2")
@pytest.mark.parametrize("name", VERBS)
async def test_closing_waits_for_every_verb(either, name):
    async with either() as fs:
        await plant_tree(fs)
        store, reached, go_on = fs._pipeline.store, asyncio.Event(), asyncio.Event()
        resolve = store.resolve

        async def slow(*what, **how):
            reached.set()
            await go_on.wait()
            return await resolve(*what, **how)

        store.resolve = slow
        under_way = asyncio.create_task(VERBS[name].call(fs))
        await reached.wait()
        closing = asyncio.create_task(fs.aclose())
        await _step(5)
        assert not closing.done()
        go_on.set()
        await closing
        assert under_way.done()
        kinds = [record.error_kind for record in records(fs)[-1:]]
        # A stream is waited for as far as its next chunk, which may never come or be asked for.
        assert kinds == (["closed"] if "stream" in name else [None])
        await asyncio.gather(under_way, return_exceptions=True)


@pytest.mark.spec("LIFE-2", "TREE-5")
@pytest.mark.parametrize("verb", ["find", "files", "glob"])
async def test_a_walk_whose_store_closes_is_closed_and_not_a_shorter_answer(opening, verb):
    async with opening() as fs:
        await plant(fs, {"a/f": "", "b/g": ""})
        store = fs._pipeline.store
        descend = store.descend

        async def closed(directory, name):
            if name == "b":
                raise bailiwick.Closed("the store is closed")
            return await descend(directory, name)

        store.descend = closed
        with pytest.raises(bailiwick.Closed):
            await {"find": fs.find, "files": fs.files, "glob": lambda: fs.glob("**")}[verb]()


@pytest.mark.spec("LIFE-2")
async def test_closing_waits_for_work_under_way(opening):
    async with opening() as fs, opening() as other:
        await plant(other, {f"d/{number}": "x" * 1000 for number in range(20)})
        writing = [asyncio.create_task(fs.write_bytes(f"f{n}", b"x" * 300_000)) for n in range(5)]
        copying = asyncio.create_task(fs.copy_from(other, "d", "copied", recursive=True))
        await asyncio.sleep(0)
        await fs.aclose()
        results = await asyncio.gather(*writing, copying, return_exceptions=True)
        assert [getattr(result, "kind", "done") for result in results] == ["done"] * 6
        if opening.on_disk:
            assert len(_raw_names(fs)) == 5 + 21


@pytest.mark.spec("LIFE-2")
async def test_closing_ends_streams_with_a_clear_error(opening):
    async with opening(limits=Limits(stream_chunk_bytes=10)) as fs:
        await fs.write_bytes("f", b"x" * 100)
        chunks, unread = fs.stream("f"), fs.stream("f")
        await anext(chunks)
        taken, go_on = asyncio.Event(), asyncio.Event()

        async def slow():
            yield b"x"
            taken.set()
            await go_on.wait()
            yield b"y"

        upload = asyncio.create_task(fs.write_stream("upload", slow()))
        await taken.wait()
        closing = asyncio.create_task(fs.aclose())
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(bailiwick.Closed):
            await upload
        await closing
        for stream in (chunks, unread):
            with pytest.raises(bailiwick.Closed):
                [chunk async for chunk in stream]
        if opening.on_disk:
            assert _raw_names(fs) == ["f"]


@pytest.mark.spec("LIFE-2")
async def test_closing_waits_for_a_chunk_but_not_for_the_reader(opening):
    async with opening(limits=Limits(stream_chunk_bytes=10)) as fs:
        await fs.write_bytes("f", b"x" * 100)
        store, reached, go_on = fs._pipeline.store, asyncio.Event(), asyncio.Event()
        stream = store.stream

        async def slow(*what):
            async for chunk in stream(*what):
                reached.set()
                await go_on.wait()
                yield chunk

        store.stream = slow
        chunks = fs.stream("f")
        first = asyncio.create_task(anext(chunks))
        await reached.wait()
        closing = asyncio.create_task(fs.aclose())
        await _step(5)
        assert not closing.done()
        go_on.set()
        assert await first == b"x" * 10
        await closing
        with pytest.raises(bailiwick.Closed):
            await anext(chunks)
        assert (records(fs)[-1].verb, records(fs)[-1].error_kind) == ("stream", "closed")


@pytest.mark.spec("LIFE-2")
async def test_a_stream_left_open_leaks_nothing(opening):
    """The harness counts descriptors, threads and tasks after the test."""
    async with opening(limits=Limits(stream_chunk_bytes=10)) as fs:
        await fs.write_bytes("f", b"x" * 100)
        chunks = fs.stream("f")
        assert await anext(chunks) == b"x" * 10
        await chunks.aclose()
        unread = fs.stream("f")
        await unread.aclose()
        assert [each async for each in chunks] == [each async for each in unread] == []


@pytest.mark.spec("LIFE-2")
async def test_refusals_leak_nothing(opening):
    async with opening() as fs:
        await plant_tree(fs)
        for call in (
            fs.read_text("dir"), fs.write_text("dir", ""), fs.copy("file.txt", "dir"),
            fs.move("file.txt", "dir"), fs.list("file.txt"), fs.diff("file.txt", "dir"),
            fs.edit("file.txt", old="missing", new=""), fs.readlink("file.txt"),
            fs.remove("dir"), fs.grep("(", "dir"), fs.glob("../x"), fs.make_dir("dir"),
        ):  # fmt: skip
            with pytest.raises(bailiwick.BailiwickError):
                await call
