"""Looking into the ledger: bounded pages, filters, JSON lines, and following."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.audit import LedgerRecord
from bailiwick.errors import ParseError, Unsupported
from bailiwick.paths import ScopedPath
from bailiwick.state.ledger import query
from bailiwick.state.ledger.encoding import decode, encode_authority, encode_record, keep_path
from bailiwick.state.ledger.query import LedgerFilter, compile_wanted
from tests.state.ledgers import act, keep, ledger_at, record
from tests.waiting import loop_turns

pytestmark = pytest.mark.spec("AUDIT-3")


async def test_tail_is_the_newest_oldest_first():
    async with ledger_at() as ledger:
        await keep(ledger, 30)
        assert [each.seq for each in await ledger.tail(5)] == [26, 27, 28, 29, 30]
        assert [each.seq for each in await ledger.tail(100)] == list(range(1, 31))
        assert await ledger.tail(0) == []


@settings(max_examples=30)
@given(st.integers(0, 60), st.integers(1, 25))
async def test_pages_joined_are_everything_newest_first(count, limit):
    async with ledger_at() as ledger:
        for number in range(count):
            ledger.note(record(number))
        seen, cursor, pages = [], None, 0
        while True:
            page = await ledger.query(cursor=cursor, limit=limit)
            pages += 1
            seen += [each.seq for each in page.records]
            assert len(page.records) <= limit
            assert page.truncated == (page.next_cursor is not None)
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
        assert seen == list(range(count, 0, -1))
        assert pages == max(1, -(-count // limit))


async def test_page_that_found_nothing_in_its_share_says_where_to_go_on(monkeypatch):
    monkeypatch.setattr(query, "SCANNED_RECORDS_MAX", 10)
    monkeypatch.setattr(query, "_BATCH_RECORDS", 5)
    async with ledger_at() as ledger:
        ledger.note(record(0, verb="grep"))
        for number in range(1, 26):
            ledger.note(record(number))
        wanted = LedgerFilter(verb="grep")
        page = await ledger.query(wanted)
        assert (page.records, page.scanned, page.truncated) == ([], 10, True)
        page = await ledger.query(wanted, cursor=page.next_cursor)
        assert (page.records, page.truncated) == ([], True)
        page = await ledger.query(wanted, cursor=page.next_cursor)
        assert ([each.seq for each in page.records], page.next_cursor) == ([1], None)


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "", "9" * 30, "\u0661"])
async def test_bad_cursor_or_limit_is_refused(cursor):
    async with ledger_at() as ledger:
        with pytest.raises(ParseError, match="cursor"):
            await ledger.query(cursor=cursor)
        for limit in (0, 1_001):
            with pytest.raises(ParseError, match="page"):
                await ledger.query(limit=limit)


RECORDS = [
    decode(1, encode_record(record(1, path=ScopedPath("src/a.py")), keep_path)),
    decode(2, encode_record(record(2, path=ScopedPath("src")), keep_path)),
    decode(3, encode_record(record(3, path=ScopedPath("srcs/a.py"), verb="stat"), keep_path)),
    decode(
        4,
        encode_record(
            record(4, path=ScopedPath("x"), destination=ScopedPath("src/b.md"), outcome="denied",
                   error_kind="policy_denied"),
            keep_path,
        ),
    ),
    decode(5, encode_authority(act(5), keep_path)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"subject": "agent_run:c1/r7"}, [1, 2, 3, 4]),
        ({"subject": "user:*"}, [5]),
        ({"root": "workspace:*"}, [1, 2, 3, 4, 5]),
        ({"root": "workspace:dem"}, []),
        ({"operation": "revoke"}, [5]),
        ({"verb": "stat"}, [3]),
        ({"outcome": "denied"}, [4]),
        ({"error_kind": "policy_denied"}, [4]),
        ({"path": "src"}, [1, 2, 4]),
        ({"path": "src/a.py"}, [1]),
        ({"path": "."}, [1, 2, 3, 4]),
        ({"glob": "*.py"}, [1, 3]),
        ({"glob": "src/*"}, [1, 4]),
        ({"request_id": "request-2"}, [2]),
        ({"grant_id": "g1", "verb": "authority"}, [5]),
        ({"since_ns": 1_700_000_000_000_000_002, "until_ns": 1_700_000_000_000_000_004}, [2, 3]),
    ],
)
async def test_filter(wanted, expected):
    fits = compile_wanted(LedgerFilter(**wanted), keep_path)
    assert [each.seq for each in RECORDS if fits(each)] == expected


async def test_times_are_looked_up_in_the_database_too():
    async with ledger_at() as ledger:
        await keep(ledger, 50)
        start = 1_700_000_000_000_000_000
        page = await ledger.query(LedgerFilter(since_ns=start + 10, until_ns=start + 13))
        assert sorted(each.time_ns - start for each in page.records) == [10, 11, 12]
        assert page.scanned == 3


async def test_hashed_names_can_be_asked_for_whole_and_not_by_pattern():
    async with ledger_at(paths="keyed-hash") as ledger:
        ledger.note(record(1, path=ScopedPath("src/a.py")))
        ledger.note(record(2, path=ScopedPath("src/b.py")))
        page = await ledger.query(LedgerFilter(path="src/a.py"))
        assert [each.request_id for each in page.records] == ["request-1"]
        with pytest.raises(Unsupported, match="keyed hashes"):
            await ledger.query(LedgerFilter(glob="*.py"))


async def test_export_is_every_record_as_a_line_in_bounded_chunks(monkeypatch):
    monkeypatch.setattr(query, "_BATCH_RECORDS", 7)
    async with ledger_at() as ledger:
        await keep(ledger, 40)
        chunks = [chunk async for chunk in ledger.export()]
        assert all(chunk.count(b"\n") <= 7 for chunk in chunks)
        lines = b"".join(chunks).splitlines()
        exported = [msgspec.json.decode(line, type=LedgerRecord) for line in lines]
        assert exported == (await ledger.query(limit=1000)).records[::-1]
        acts = [chunk async for chunk in ledger.export(LedgerFilter(verb="authority"))]
        assert b"".join(acts).count(b"\n") == 10


async def test_follower_gets_what_any_process_writes_from_now_on(tmp_path, monkeypatch):
    monkeypatch.setattr(query, "_FOLLOW_SECONDS", 0.005)
    async with ledger_at(tmp_path) as here, ledger_at(tmp_path) as there:
        await keep(here, 10)
        following = here.follow(LedgerFilter(verb="read_text"))
        first = asyncio.ensure_future(anext(following))
        await loop_turns()
        await there.append_authority(act(11))
        there.note(record(12))
        await there.flush()
        here.note(record(13))
        await here.flush()
        assert (await first).request_id == "request-12"
        assert (await anext(following)).request_id == "request-13"
        await following.aclose()
        again = here.follow(after=11)
        assert [(await anext(again)).seq for _ in range(2)] == [12, 13]
        await again.aclose()
