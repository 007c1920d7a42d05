"""Writing through a scope: modes, preconditions, parents, forms, and nothing half-done."""

import asyncio
import hashlib
import io
import json
import os
import threading

import pytest

import bailiwick
from bailiwick.limits import Limits
from tests.scope.support import granted, place_of, plant, snapshot

OLD = hashlib.sha256(b"old").hexdigest()
NEW = hashlib.sha256(b"new").hexdigest()


async def _async_chunks(*chunks):
    for chunk in chunks:
        yield chunk


WRITERS = {
    "write_bytes": lambda fs, path, **how: fs.write_bytes(path, b"new", **how),
    "write_text": lambda fs, path, **how: fs.write_text(path, "new", **how),
    "write_json": lambda fs, path, **how: fs.write_json(path, "new", **how),
    "write_stream": lambda fs, path, **how: fs.write_stream(path, [b"n", b"ew"], **how),
}

every_writer = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)


@pytest.mark.spec("WRITE-1")
@pytest.mark.parametrize(
    "source",
    [
        lambda: [b"a", b"", b"bc"],
        lambda: iter([b"ab", bytearray(b"c")]),
        lambda: (chunk for chunk in [b"abc"]),
        lambda: _async_chunks(b"ab", memoryview(b"c")),
        lambda: io.BytesIO(b"abc"),
    ],
)
async def test_a_stream_is_written_from_what_gives_bytes(opening, source):
    async with opening() as fs:
        result = await fs.write_stream("f", source())
        assert (result.size, result.sha256) == (3, hashlib.sha256(b"abc").hexdigest())
        assert (await fs.read_bytes("f")).data == b"abc"


@pytest.mark.spec("WRITE-1")
@pytest.mark.parametrize("source", [b"abc", "abc", 5, None, ["abc"], [b"a", 5]])
async def test_a_stream_is_not_written_from_anything_else(opening, source):
    async with opening() as fs:
        with pytest.raises(bailiwick.ParseError):
            await fs.write_stream("f", source)
        assert await snapshot(fs) == {}


@pytest.mark.spec("WRITE-1")
async def test_content_of_the_wrong_type_is_refused(opening):
    async with opening() as fs:
        for call in (
            fs.write_bytes("f", "text"), fs.write_bytes("f", 5), fs.write_text("f", b"bytes"),
            fs.write_text("f", None), fs.append("f", 5), fs.write_json("f", {1, 2}),
            fs.write_json("f", float("nan")),
        ):  # fmt: skip
            with pytest.raises(bailiwick.ParseError):
                await call
        assert await snapshot(fs) == {}


@pytest.mark.spec("WRITE-1")
async def test_sizes_are_limited(opening):
    limits = Limits(text_write_bytes_max=10, bytes_call_max=12, max_file_bytes=14)
    async with opening(limits=limits) as fs:
        await fs.write_text("t", "ä" * 5)
        await fs.write_bytes("b", b"x" * 12)
        await fs.write_stream("s", [b"x" * 7] * 2)
        for call in (
            fs.write_text("f", "ä" * 6), fs.write_json("f", "x" * 8),
            fs.write_bytes("f", b"x" * 13), fs.write_stream("f", [b"x" * 7, b"x" * 8]),
            fs.append("s", b"x"), fs.truncate("s", 15),
        ):  # fmt: skip
            with pytest.raises(bailiwick.FileTooLarge) as refused:
                await call
            assert refused.value.details["limit"] in (10, 12, 14)
        left = await snapshot(granted(fs, limits=Limits()))
        assert left == {"b": b"x" * 12, "s": b"x" * 14, "t": "ä".encode() * 5}
    assert (Limits().text_write_bytes_max, Limits().max_file_bytes) == (5 << 20, 1 << 30)


@pytest.mark.spec("WRITE-2", "WRITE-3")
@every_writer
async def test_mode_create_never_replaces(opening, writer):
    async with opening() as fs:
        await fs.write_bytes("old", b"old")
        with pytest.raises(bailiwick.FileAlreadyExists):
            await writer(fs, "old", mode="create")
        assert (await fs.read_bytes("old")).data == b"old"
        result = await writer(fs, "fresh", mode="create")
        assert (result.created, result.mode, result.path) == (True, "create", "fresh")
        assert result.sha256 == (await fs.read_bytes("fresh")).sha256
        assert result.version == (await fs.stat("fresh")).version
        assert result.file_mode == (await fs.stat("fresh")).mode == 0o600


@pytest.mark.spec("WRITE-2")
@every_writer
async def test_mode_replace_demands_a_file_and_an_expectation(opening, writer):
    async with opening() as fs:
        await fs.write_bytes("f", b"old")
        for path in ("f", "missing"):
            with pytest.raises(bailiwick.ParseError):
                await writer(fs, path, mode="replace")
        with pytest.raises(bailiwick.PathNotFound):
            await writer(fs, "missing", mode="replace", expected_sha256=OLD)
        result = await writer(fs, "f", mode="replace", expected_sha256=OLD)
        assert (result.created, result.mode) == (False, "replace")
        version = (await fs.stat("f")).version
        await writer(fs, "f", mode="replace", expected_version=version)


@pytest.mark.spec("WRITE-2")
@every_writer
async def test_a_precondition_that_fails_carries_the_current_hash(opening, writer):
    async with opening() as fs:
        await fs.write_bytes("f", b"old")
        version = (await fs.stat("f")).version
        for how in ({"expected_sha256": NEW}, {"expected_version": "other"}):
            with pytest.raises(bailiwick.HashMismatch) as refused:
                await writer(fs, "f", **how)
            assert refused.value.details["current_sha256"] == OLD
            assert refused.value.details["current_version"] == version
        with pytest.raises(bailiwick.HashMismatch) as refused:
            await writer(fs, "missing", expected_sha256=OLD)
        assert refused.value.details["current_sha256"] is None
        assert await snapshot(fs) == {"f": b"old"}


@pytest.mark.spec("WRITE-2")
async def test_a_precondition_is_checked_again_at_publishing(opening):
    async with opening() as fs:
        await fs.write_bytes("f", b"old")

        async def chunks():
            yield b"mine"
            await fs.write_bytes("f", b"other")

        with pytest.raises(bailiwick.HashMismatch):
            await fs.write_stream("f", chunks(), mode="replace", expected_sha256=OLD)
        assert await snapshot(fs) == {"f": b"other"}


@pytest.mark.spec("WRITE-2")
async def test_creating_is_checked_again_at_publishing(opening):
    async with opening() as fs:

        async def chunks():
            yield b"mine"
            await fs.write_bytes("f", b"other")

        with pytest.raises(bailiwick.FileAlreadyExists):
            await fs.write_stream("f", chunks(), mode="create")
        assert await snapshot(fs) == {"f": b"other"}


@pytest.mark.spec("WRITE-2", "ERR-5")
@every_writer
@pytest.mark.parametrize(
    "how",
    [
        {"mode": "append"}, {"mode": "w"}, {"mode": "create", "expected_sha256": OLD},
        {"expected_sha256": "abc"}, {"expected_sha256": OLD.upper()}, {"file_mode": 0o4755},
        {"file_mode": -1}, {"file_mode": 0o1000},
    ],
)  # fmt: skip
async def test_a_way_of_writing_that_is_not_enforced_is_refused(opening, writer, how):
    async with opening() as fs:
        with pytest.raises(bailiwick.ParseError):
            await writer(fs, "f", **how)
        assert await snapshot(fs) == {}


@pytest.mark.spec("WRITE-3")
async def test_the_mode_of_a_file_is_set_and_kept(opening):
    async with opening() as fs:
        assert (await fs.write_bytes("f", b"1", file_mode=0o751)).file_mode == 0o751
        assert (await fs.write_bytes("f", b"2")).file_mode == 0o751
        assert (await fs.append("f", b"3")).file_mode == 0o751
        await fs.edit("f", old="3", new="4")
        assert (await fs.stat("f")).mode == 0o751


@pytest.mark.spec("WRITE-3")
async def test_json_is_written_for_people(opening):
    async with opening() as fs:
        await fs.write_json("f", {"b": [1, "ä"], "a": None})
        assert (await fs.read_bytes("f")).data == (
            '{\n  "b": [\n    1,\n    "ä"\n  ],\n  "a": null\n}\n'.encode()
        )


@pytest.mark.spec("WRITE-3")
async def test_a_source_that_fails_leaves_nothing(opening):
    async def failing():
        yield b"x" * 400_000
        raise LookupError("the source broke")

    async with opening() as fs:
        await fs.write_bytes("f", b"old")
        for path in ("f", "new", "deep/er/new"):
            with pytest.raises(bailiwick.InternalError) as failed:
                await fs.write_stream(path, failing(), parents=True)
            assert isinstance(failed.value.__cause__, LookupError)
        assert await snapshot(fs) == {"f": b"old"}
        if opening.on_disk:
            assert _raw_names(place_of(fs)) == ["f"]


@pytest.mark.spec("WRITE-3", "WRITE-4")
async def test_a_refused_append_changes_nothing(opening):
    async with opening(limits=Limits(max_file_bytes=5)) as fs:
        await fs.write_bytes("f", b"old")
        version = (await fs.stat("f")).version
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.append("f", b"more")
        with pytest.raises(bailiwick.HashMismatch):
            await fs.append("f", b"x", expected_sha256=NEW)
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.append("deep/f", b"too much", parents=True)
        assert (await fs.stat("f")).version == version
        assert await snapshot(fs) == {"f": b"old"}


@pytest.mark.spec("WRITE-4")
@every_writer
async def test_parents_are_made_only_when_asked_and_only_at_publishing(opening, writer):
    async with opening() as fs:
        with pytest.raises(bailiwick.PathNotFound):
            await writer(fs, "a/b/f")
        with pytest.raises(bailiwick.HashMismatch):
            await writer(fs, "a/b/f", parents=True, expected_sha256=OLD)
        assert await snapshot(fs) == {}
        await writer(fs, "a/b/f", parents=True)
        assert list(await snapshot(fs)) == ["a", "a/b", "a/b/f"]
        with pytest.raises(bailiwick.NotADirectory):
            await writer(fs, "a/b/f/g", parents=True)


@pytest.mark.spec("WRITE-4")
async def test_an_upload_under_way_shows_no_directories(opening):
    async with opening() as fs:
        seen = []

        async def chunks():
            yield b"x"
            seen.append(await snapshot(fs))

        await fs.write_stream("a/b/f", chunks(), parents=True)
        assert seen == [{}]


@pytest.mark.spec("WRITE-5")
@pytest.mark.parametrize(
    "stored",
    [
        b"\xef\xbb\xbfa\r\nb\r\n",
        b"\xff\xfe" + "a\r\nb\r\n".encode("utf-16-le"),
        b"\xfe\xff" + "a\nb\n".encode("utf-16-be"),
        b"a\r\nb\r\n",
        "ä\nb\n".encode(),
    ],
)
async def test_replaced_text_keeps_its_form(opening, stored):
    async with opening() as fs:
        await fs.write_bytes("f", stored)
        before = await fs.read_text("f")
        result = await fs.write_text("f", "x\ny\n")
        after = await fs.read_text("f")
        form = (before.encoding, before.bom, before.line_ending)
        assert (after.encoding, after.bom, after.line_ending) == form
        assert (result.encoding, result.bom, result.line_ending) == form
        assert after.text.replace("\r\n", "\n") == "x\ny\n"


@pytest.mark.spec("WRITE-5")
async def test_the_form_is_as_told(opening):
    async with opening() as fs:
        await fs.write_bytes("f", b"\xef\xbb\xbfa\r\n")
        await fs.write_text("f", "b\n", bom=False, line_ending="lf")
        assert (await fs.read_bytes("f")).data == b"b\n"
        await fs.write_text("f", "ä\n", encoding="latin-1", line_ending="crlf")
        assert (await fs.read_bytes("f")).data == b"\xe4\r\n"
        await fs.write_text("g", "é", encoding="utf-16-le", bom=True)
        assert (await fs.read_bytes("g")).data == b"\xff\xfe\xe9\x00"


@pytest.mark.spec("WRITE-5", "ERR-5")
@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("x", {"encoding": "no-such"}),
        ("x", {"encoding": "base64"}),
        ("x", {"encoding": "rot13"}),
        ("€", {"encoding": "latin-1"}),
        ("ä", {"encoding": "ascii"}),
        ("\ud800", {}),
        ("x\n", {"line_ending": "cr"}),
        ("x\n", {"line_ending": "\r\n"}),
        ("x", {"encoding": "latin-1", "bom": True}),
    ],
)
async def test_text_that_cannot_be_stored_as_told_is_refused(opening, text, form):
    async with opening() as fs:
        with pytest.raises(bailiwick.BailiwickError) as refused:
            await fs.write_text("f", text, **form)
        assert refused.value.kind in ("parse_error", "binary_file")
        assert await snapshot(fs) == {}


@pytest.mark.spec("WRITE-5")
async def test_appended_text_is_encoded_as_the_file(opening):
    async with opening() as fs:
        await fs.write_bytes("f", b"\xff\xfe" + "a\r\n".encode("utf-16-le"))
        await fs.append("f", "b\n")
        assert (await fs.read_text("f")).text == "a\r\nb\r\n"
        await fs.write_bytes("raw", b"\xff\x00")
        await fs.append("raw", b"\x01")
        assert (await fs.read_bytes("raw")).data == b"\xff\x00\x01"


@pytest.mark.spec("WRITE-1", "WRITE-6")
async def test_parallel_appends_lose_nothing(opening):
    async with opening() as fs:
        lines = [f"line {number}\n" for number in range(40)]
        await asyncio.gather(*(fs.append("log", line) for line in lines))
        written = (await fs.read_text("log")).text.splitlines(keepends=True)
        assert sorted(written) == sorted(lines)


@pytest.mark.spec("WRITE-6")
async def test_of_parallel_conditional_writes_one_wins(opening):
    async with opening() as fs:
        await fs.write_bytes("f", b"old")
        results = await asyncio.gather(
            *(fs.write_bytes("f", b"%d" % n, expected_sha256=OLD) for n in range(8)),
            return_exceptions=True,
        )
        kinds = [getattr(result, "kind", "written") for result in results]
        assert sorted(kinds) == ["hash_mismatch"] * 7 + ["written"]
        winner = kinds.index("written")
        assert (await fs.read_bytes("f")).data == b"%d" % winner


@pytest.mark.spec("WRITE-6")
async def test_a_slow_write_does_not_hold_up_another_path(opening):
    async with opening() as fs:
        go_on = asyncio.Event()

        async def slow():
            yield b"slow"
            await go_on.wait()

        async with asyncio.TaskGroup() as group:
            group.create_task(fs.write_stream("a", slow()))
            await asyncio.sleep(0)
            await fs.write_bytes("b", b"quick")
            assert await snapshot(fs) == {"b": b"quick"}
            go_on.set()
        assert await snapshot(fs) == {"a": b"slow", "b": b"quick"}


@pytest.mark.spec("TREE-2", "WRITE-3")
async def test_truncating_cuts_and_extends(opening):
    async with opening() as fs:
        await fs.write_bytes("f", b"12345")
        assert (await fs.truncate("f", 2)).size == 2
        assert (await fs.truncate("f", 4)).sha256 == hashlib.sha256(b"12\0\0").hexdigest()
        assert (await fs.truncate("f")).size == 0
        with pytest.raises(bailiwick.PathNotFound):
            await fs.truncate("missing", 3)
        with pytest.raises(bailiwick.ParseError):
            await fs.truncate("f", -1)
        assert await snapshot(fs) == {"f": b""}


@pytest.mark.spec("LINK-3")
async def test_nothing_is_written_through_a_final_link(opening):
    async with opening() as fs:
        await plant(fs, {"f": "old", "link": "-> f"})
        for call in (
            *(writer(fs, "link") for writer in WRITERS.values()),
            fs.append("link", b"x"), fs.truncate("link", 0), fs.edit("link", old="old", new="x"),
        ):  # fmt: skip
            with pytest.raises(bailiwick.SymlinkEscape):
                await call
        assert await snapshot(fs) == {"f": b"old", "link": "-> f"}


def _raw_names(directory):
    return sorted(os.listdir(directory))


@pytest.mark.spec("WRITE-5", "READ-5")
@pytest.mark.parametrize("content", ["\xe9t\xe9\n".encode("latin-1"), b"\0\1\2"])
async def test_text_is_not_appended_to_what_is_no_text(opening, content):
    async with opening() as fs:
        await fs.write_bytes("f", content)
        with pytest.raises(bailiwick.BinaryFile) as refused:
            await fs.append("f", "\xfc\n")
        assert "append bytes" in refused.value.hint
        assert (await fs.read_bytes("f")).data == content
        await fs.append("f", "\xfc\n".encode("latin-1"))
        assert (await fs.read_bytes("f")).data == content + b"\xfc\n"


@pytest.mark.spec("WRITE-1", "WRITE-3")
async def test_a_large_document_is_written_off_the_loop(either):
    async with either() as fs:
        value = {f"key {number}": [number, "\xe9", None] for number in range(20_000)}
        threads = set()

        class Watched(list):
            def __iter__(self):
                threads.add(threading.current_thread())
                return super().__iter__()

        value["last"] = Watched([1])
        await fs.write_json("f", value)
        assert threads
        assert threading.main_thread() not in threads
        assert (await fs.read_bytes("f")).data.decode() == (
            json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        )


@pytest.mark.spec("WRITE-1")
async def test_a_document_that_is_too_large_is_not_written_out_to_its_end(either):
    async with either(limits=Limits(text_write_bytes_max=50_000)) as fs:
        asked = []

        class Watched(list):
            def __iter__(self):
                asked.append(self)
                return super().__iter__()

        value = [Watched(["x" * 100]) for _ in range(10_000)]
        with pytest.raises(bailiwick.FileTooLarge) as refused:
            await fs.write_json("f", value)
        assert refused.value.details["limit"] == 50_000
        assert len(asked) < 5_000
        assert not await fs.exists("f")


@pytest.mark.spec("WRITE-1")
async def test_a_large_value_that_is_no_json_is_refused(either):
    async with either() as fs:
        for last in ({1, 2}, float("nan"), object()):
            with pytest.raises(bailiwick.ParseError):
                await fs.write_json("f", [*range(20_000), last])
        assert not await fs.exists("f")
