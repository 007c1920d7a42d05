"""Lines over descriptors: of any length, cut anywhere, read or not."""

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.fronts.mcp.pipes import Inlet, LongLine, Outlet

MOST = 64


def lines_of(pieces):
    """What an inlet makes of pieces, without a descriptor."""
    seen, ended = [], []

    async def feed():
        inlet = Inlet(-1, MOST, seen.append, lambda: ended.append(True))
        for piece in [*pieces, b""]:
            inlet._take(piece)

    asyncio.run(feed())
    assert ended == [True]
    return seen


@pytest.mark.spec("MCP-3")
@given(
    lines=st.lists(st.binary(max_size=3 * MOST).map(lambda data: data.replace(b"\n", b""))),
    size=st.integers(1, 2 * MOST),
    ends=st.booleans(),
)
def test_lines_are_the_same_however_they_are_cut(lines, size, ends):
    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    seen = lines_of(pieces)
    assert len(seen) == len(expected)
    for got, line in zip(seen, expected, strict=True):
        if len(line) <= MOST:
            assert got == line
        else:
            assert isinstance(got, LongLine)
            assert got.size == len(line)
            assert line.startswith(got.head)
            assert line.endswith(got.tail[-8:])


@pytest.mark.spec("MCP-3")
async def test_an_outlet_neither_blocks_nor_loses():
    source, sink = os.pipe()
    drained = asyncio.Event()
    outlet = Outlet(sink, 1_000, drained.set, lambda: None)
    lines = [bytes([65 + number % 26]) * 10_000 + b"\n" for number in range(100)]
    for line in lines:
        outlet.write(line)
    assert outlet.full
    got = b""
    while len(got) < sum(map(len, lines)):
        got += await asyncio.to_thread(os.read, source, 65_536)
    await outlet.flushed()
    assert got == b"".join(lines)
    assert drained.is_set()
    assert not outlet.full
    outlet.close()
    os.close(source)
    os.close(sink)


@pytest.mark.spec("MCP-3")
async def test_a_reader_who_has_gone_is_noticed():
    source, sink = os.pipe()
    broken = []
    outlet = Outlet(sink, 1_000, lambda: None, lambda: broken.append(True))
    os.close(source)
    outlet.write(b"nobody\n")
    outlet.write(b"reads\n" * 10_000)
    assert broken == [True]
    await outlet.flushed()
    os.close(sink)
