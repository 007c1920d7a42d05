"""Output is ordered, bounded, and can be read again from any piece."""

import asyncio

import pytest

from bailiwick.errors import Closed
from bailiwick.sandbox import CommandLimits
from bailiwick.sandboxes.spool import Spool
from tests.waiting import loop_turns

SMALL = CommandLimits(output_memory_bytes_max=1_000, output_bytes_max=10_000)


async def read(spool, since=0):
    return [piece async for piece in spool.pieces(since)]


@pytest.mark.spec("EXEC-6")
async def test_pieces_are_numbered_over_both_streams_and_replayed_from_any():
    spool = Spool(SMALL)
    for number in range(50):
        spool.add("stdout" if number % 3 else "stderr", b"%02d" % number * 50)
    spool.end()
    pieces = await read(spool)
    assert [piece.seq for piece in pieces] == list(range(50))
    assert [piece.stream for piece in pieces[:4]] == ["stderr", "stdout", "stdout", "stderr"]
    assert [piece.data[:2] for piece in pieces] == [b"%02d" % number for number in range(50)]
    for since in (0, 1, 25, 39, 40, 49, 50, 99):
        assert await read(spool, since) == pieces[since:]
    spool.close()


@pytest.mark.spec("EXEC-6")
async def test_memory_holds_the_newest_and_a_file_the_rest():
    spool = Spool(SMALL)
    for _ in range(50):
        spool.add("stdout", b"x" * 100)
    assert sum(len(piece.data) for piece in spool._recent) <= SMALL.output_memory_bytes_max
    assert spool._file is not None
    spool.end()
    assert b"".join([piece.data for piece in await read(spool)]) == b"x" * 5_000
    spool.close()


@pytest.mark.spec("EXEC-6")
async def test_what_is_over_is_counted_and_thrown_away():
    spool = Spool(SMALL)
    spool.add("stdout", b"a" * 9_990)
    spool.add("stdout", b"b" * 100)
    spool.add("stderr", b"c" * 100)
    spool.end()
    assert b"".join([piece.data for piece in await read(spool)]) == b"a" * 9_990 + b"b" * 10
    assert spool.dropped_bytes == 190
    spool.close()


@pytest.mark.spec("EXEC-6")
async def test_tiny_pieces_count_for_what_they_cost():
    spool = Spool(SMALL)
    for _ in range(1_000):
        spool.add("stdout", b"x")
    spool.end()
    assert len(await read(spool)) < 200
    assert spool.dropped_bytes > 800
    spool.close()


@pytest.mark.spec("EXEC-6")
async def test_several_read_while_it_comes_each_at_its_own_pace():
    spool = Spool(SMALL)
    spool.add("stdout", b"one")
    readers = [asyncio.create_task(read(spool, since)) for since in (0, 1)]
    await loop_turns(3)
    slow = spool.pieces(0)
    assert (await anext(slow)).data == b"one"
    spool.add("stdout", b"two")
    spool.end()
    everything, later = await asyncio.gather(*readers)
    assert [piece.data for piece in everything] == [b"one", b"two"]
    assert [piece.data for piece in later] == [b"two"]
    assert [piece.data async for piece in slow] == [b"two"]
    spool.close()


@pytest.mark.spec("EXEC-6")
async def test_who_reads_what_was_given_up_is_told():
    spool = Spool(SMALL)
    reader = asyncio.create_task(read(spool))
    await loop_turns(2)
    spool.close()
    with pytest.raises(Closed):
        await reader


@pytest.mark.spec("EXEC-6")
async def test_a_flood_is_cut_said_so_and_leaves_the_loop_free(workshop):
    limits = CommandLimits(seconds_max=0, output_bytes_max=200_000)
    process = await workshop.start("yes", limits=limits)
    count = 0
    async for piece in process.pieces():
        count += len(piece.data)
        if count == 200_000:
            break
    ending = await process.kill()
    assert ending.truncated
    assert ending.output_dropped_bytes >= 0
    assert ending.signal == 9
    pieces = [piece async for piece in process.pieces()]
    assert sum(len(piece.data) for piece in pieces) == 200_000
    await process.close()


@pytest.mark.spec("EXEC-6")
async def test_output_can_be_read_again_after_the_end(workshop):
    process = await workshop.start("sh", "-c", "seq 1 200000; echo done >&2")
    await process.wait()
    once = [piece async for piece in process.pieces()]
    again = [piece async for piece in process.pieces(3)]
    assert once[3:] == again
    lines = b"".join(piece.data for piece in once if piece.stream == "stdout").split()
    assert lines == [b"%d" % number for number in range(1, 200_001)]
    assert b"".join(piece.data for piece in once if piece.stream == "stderr") == b"done\n"
    await process.close()
    with pytest.raises(Closed):
        await anext(process.pieces())


@pytest.mark.spec("EXEC-6")
async def test_what_is_not_to_be_read_again_is_forgotten_and_nothing_is_thrown_away():
    spool = Spool(SMALL, replayable=False)
    said, reader = [], spool.pieces(0)
    for number in range(200):
        spool.add("stdout", b"%03d" % number * 100)
        assert not spool.full
        said.append((await anext(reader)).data[:3])
    assert said == [b"%03d" % number for number in range(200)]
    assert (spool.dropped_bytes, len(spool._recent), spool._file) == (0, 0, None)
    for _ in range(4):
        assert not spool.behind
        spool.add("stdout", b"x" * 300)
    assert spool.behind  # its reader is to read first
    await anext(reader)
    assert not spool.behind
    with pytest.raises(Closed):
        await read(spool)
    spool.close()
    assert not spool.behind


@pytest.mark.spec("EXEC-6")
async def test_a_program_whose_output_is_not_kept_waits_for_its_reader(workshop):
    limits = CommandLimits(output_memory_bytes_max=10_000, output_bytes_max=20_000)
    process = await workshop.start(
        "sh", "-c", "head -c 3000000 /dev/zero; echo end", limits=limits, replayable=False
    )
    read = b""
    async for piece in process.pieces():
        read += piece.data
    assert read == bytes(3_000_000) + b"end\n"
    assert not (await process.wait()).truncated
    await process.close()
