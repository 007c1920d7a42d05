"""Reading: ranges, streams, and what a reader sees while others write."""

from __future__ import annotations

from bailiwick.errors import IsADirectory, NotADirectory, ParseError
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import Store, WritePlan, Written
from bailiwick.testing.contract import chunks
from bailiwick.testing.contract.case import CaseRoom, refuses
from bailiwick.testing.driver import Driver

ROOM = CaseRoom()


@ROOM.case("an empty file is read as nothing", rules=("READ-1",))
async def _(fs: Driver) -> None:
    written = await fs.write("f", b"")
    assert written.size == 0
    assert await fs.read("f") == b""
    assert await fs.read("f", 10, 10) == b""
    assert [chunk async for chunk in fs.stream("f")] == []
    assert (await fs.stat("f")).size == 0


@ROOM.case("every byte value survives", rules=("READ-1",))
async def _(fs: Driver) -> None:
    data = bytes(range(256)) * 3 + b"\r\n\0\xff"
    await fs.write("f", data)
    assert await fs.read("f") == data


@ROOM.case("a range is cut at the end of the file", rules=("READ-1",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"0123456789")
    for offset, length in ((0, 4), (3, 4), (8, 4), (10, 4), (99, 4), (0, 0), (5, 0), (0, 99)):
        expected = b"0123456789"[offset : offset + length]
        assert await fs.read("f", offset, length) == expected, (offset, length)
    assert await fs.read("f", 4) == b"456789"


@ROOM.case("a stream gives the bytes that read gives", rules=("READ-1",))
async def _(fs: Driver) -> None:
    data = chunks.pattern(2 * MiB + 17)
    await fs.write("f", data)
    for offset, length in ((0, None), (1, None), (MiB, MiB), (5, 3), (len(data), None), (0, 0)):
        streamed = b"".join([chunk async for chunk in fs.stream("f", offset, length)])
        expected = data[offset:] if length is None else data[offset : offset + length]
        assert streamed == expected, (offset, length)


@ROOM.case("a large file goes through streams in small chunks", rules=("READ-1", "WRITE-1"))
async def _(fs: Driver) -> None:
    data = chunks.pattern(chunks.BIG)
    parts = [data[start : start + 100_000] for start in range(0, len(data), 100_000)]
    written = await fs.write_stream("big", chunks.of(*parts))
    assert (written.size, written.sha256) == (len(data), chunks.sha256_of(data))
    sizes, back = [], bytearray()
    async for chunk in fs.stream("big"):
        sizes.append(len(chunk))
        back += chunk
    assert bytes(back) == data
    assert max(sizes) <= MiB, "a chunk is held in memory whole"
    assert 0 not in sizes, "an empty chunk ends many a reader"


@ROOM.case("a directory is not read and a file is not listed", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    await fs.write("f", b"x")
    for path in ("d", "."):
        with refuses(IsADirectory, what=path):
            await fs.read(path)
        with refuses(IsADirectory, what=path):
            async for _ in fs.stream(path):
                pass
    with refuses(NotADirectory):
        await fs.entries("f")


@ROOM.case("a stream under way keeps the old bytes when the file is replaced", rules=("READ-6",))
async def _(fs: Driver) -> None:
    old, new = chunks.pattern(3 * MiB), b"new"
    await fs.write("f", old)
    seen = bytearray()
    async for chunk in fs.stream("f"):
        if not seen:
            await fs.write("f", new)
        seen += chunk
    assert bytes(seen) == old
    assert await fs.read("f") == new


@ROOM.case("a stream under way survives removal and appending", rules=("READ-6",))
async def _(fs: Driver) -> None:
    old = chunks.pattern(3 * MiB)
    await fs.write("f", old)
    await fs.write("g", old)
    seen = {"f": bytearray(), "g": bytearray()}
    async for chunk in fs.stream("f"):
        if not seen["f"]:
            await fs.remove("f")
        seen["f"] += chunk
    async for chunk in fs.stream("g"):
        if not seen["g"]:
            await fs.append("g", b"tail")
        seen["g"] += chunk
    assert seen["f"] == old
    assert seen["g"] in (old, old + b"tail")


@ROOM.case("a stream can be left early", rules=("LIFE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", chunks.pattern(3 * MiB))
    stream = fs.stream("f")
    first = await anext(aiter(stream))
    await stream.aclose()  # type: ignore[attr-defined]
    assert len(first) > 0
    assert await fs.remove("f") == 1


@ROOM.case("stat tells type size name and path", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("d/f", b"12345", parents=True)
    stat = await fs.stat("d/f")
    assert (stat.type, stat.size, stat.name, stat.path) == ("file", 5, "f", "d/f")
    assert (stat.links, stat.target) == (1, None)
    assert stat.mtime_ns > 0
    assert stat.created_ns is None or 0 < stat.created_ns <= stat.mtime_ns
    directory = await fs.stat("d")
    assert (directory.type, directory.name, directory.path) == ("directory", "d", "d")
    root = await fs.stat(".")
    assert (root.type, root.name, root.path) == ("directory", "", ".")


@ROOM.handle_case("a read tells the size and version of what it read", rules=("READ-1",))
async def _(store: Store) -> None:
    written = await _put(store, "f", b"0123456789")
    file = await store.resolve(ScopedPath("f"), "object")
    content = await store.read(file, 2, 3)
    assert content == (b"234", 10, written.version)
    assert (await store.stat(file)).version == written.version
    file.close()


@ROOM.handle_case("a negative range is a mistake of the caller", rules=("READ-1",))
async def _(store: Store) -> None:
    await _put(store, "f", b"0123456789")
    file = await store.resolve(ScopedPath("f"), "object")
    for offset, length in ((-1, 1), (0, -1)):
        with refuses(ParseError, what=f"read {offset} {length}"):
            await store.read(file, offset, length)
        with refuses(ParseError, what=f"stream {offset} {length}"):
            async for _ in store.stream(file, offset, length):
                pass
    file.close()


async def _put(store: Store, name: str, data: bytes) -> Written:
    entry = await store.resolve(ScopedPath(name), "entry")
    try:
        return await store.write(entry, data, chunks.sha256_of(data), WritePlan())
    finally:
        entry.close()
