"""`bailiwick audit`: the ledger, looked at and proved."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from typing import TYPE_CHECKING

from bailiwick.audit import LedgerRecord
from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, point_in_time, takes_authority
from bailiwick.fronts.cli.authority_session import Options, with_authority
from bailiwick.fronts.cli.output import (
    line,
    paint,
    plain,
    print_json,
    print_json_line,
    print_plain_json,
)
from bailiwick.state.ledger.query import LedgerFilter

if TYPE_CHECKING:
    from bailiwick.authority import CoreAuthority

_COLOURS = {"denied": "yellow", "failed": "red"}

_TAIL_MAX = 1_000


def run(arguments: list[str]) -> int:
    parser = Parser("bailiwick audit", "The ledger: every operation and every refusal.")
    actions = parser.actions()
    tail = actions.add("tail", "Show the newest records.", "bailiwick audit tail -n 50 -f")
    tail.add_argument("-n", "--lines", type=_count, default=20, metavar="N", help="how many (20)")
    tail.add_argument("-f", "--follow", action="store_true", help="go on with what is written")
    query = actions.add("query", "Find records, newest first.", "bailiwick audit query --since 2h")
    query.add_argument("--limit", type=_count, default=100, metavar="N", help="how many (100)")
    query.add_argument("--cursor", help="go on where an earlier answer ended")
    export = actions.add(
        "export", "Write every record, oldest first.", "bailiwick audit export > ledger.jsonl"
    )
    export.add_argument("--jsonl", action="store_true", help="as JSON lines (the only format)")
    verify = actions.add(
        "verify",
        "Prove that no record was changed, removed or moved.",
        "bailiwick audit verify --head $(cat head.txt)",
    )
    verify.add_argument("--head", metavar="H", help="a head kept elsewhere: proves the end as well")
    verify.add_argument(
        "--archives", action="store_true", help="the files as well that old records were moved to"
    )
    head = actions.add(
        "head",
        "Print where the ledger ends, for keeping elsewhere.",
        "bailiwick audit head > head.txt",
    )
    for each in (query, export, tail):
        _takes_filters(each)
    for each in (tail, query, export, verify, head):
        takes_authority(each)
    options = parser.parse_args(arguments)
    return with_authority(options, _ACTIONS[options.action], looking=True)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _TAIL_MAX):
        raise argparse.ArgumentTypeError(f"a number from 1 to {_TAIL_MAX}")
    return int(text)


def _takes_filters(parser: Parser) -> None:
    group = parser.add_argument_group("which records")
    for name, what in (
        ("subject", "who, such as user:local or agent_run:*"),
        ("root", "where, such as workspace:demo or workspace:*"),
        ("operation", "what, such as write"),
        ("verb", "the very verb, such as write_text"),
        ("kind", "the error kind, such as policy_denied"),
        ("path", "a place and everything beneath it"),
        ("glob", "a pattern for paths"),
        ("request", "a request id"),
        ("grant", "a grant id"),
    ):
        group.add_argument(f"--{name}", metavar=name.upper(), help=what)
    for name, what in (
        ("since", "from this time on: 2026-01-31, 2026-01-31T12:00Z, or 2h ago as 2h"),
        ("until", "before this time"),
    ):
        group.add_argument(f"--{name}", type=point_in_time, metavar=name.upper(), help=what)
    group.add_argument("--outcome", choices=("success", "denied", "failed"))


def _wanted(options: Options) -> LedgerFilter:
    return LedgerFilter(
        subject=options.subject, root=options.root, operation=options.operation,
        verb=options.verb, outcome=options.outcome, error_kind=options.kind, path=options.path,
        glob=options.glob, request_id=options.request, grant_id=options.grant,
        since_ns=options.since, until_ns=options.until,
    )  # fmt: skip


async def _tail(authority: CoreAuthority, options: Options) -> int:
    ledger, wanted = authority.ledger, _wanted(options)
    last = int(ledger.head().partition(":")[0])
    if wanted == LedgerFilter():
        records = await ledger.tail(options.lines)
    else:
        page = await ledger.query(wanted, limit=options.lines)
        records = page.records[::-1]
    for record in records:
        _print(record, as_json=options.json)
        last = max(last, record.seq)
    if options.follow:
        sys.stdout.flush()
        # From where the look back ended: nothing between is lost, and nothing is shown twice.
        async for record in ledger.follow(wanted, after=last):
            _print(record, as_json=options.json)
            sys.stdout.flush()
    return EXIT_OK


async def _query(authority: CoreAuthority, options: Options) -> int:
    page = await authority.ledger.query(
        _wanted(options), cursor=options.cursor, limit=options.limit
    )
    if options.json:
        print_json(page)
        return EXIT_OK
    for record in page.records:
        _print(record, as_json=False)
    if page.next_cursor is not None:
        sys.stderr.write(f"there is more: --cursor {page.next_cursor}\n")
    return EXIT_OK


async def _export(authority: CoreAuthority, options: Options) -> int:
    async for lines in authority.ledger.export(_wanted(options)):
        # The ledger's own lines: what is exported is what another program may check.
        sys.stdout.buffer.write(_ascii(lines) if sys.stdout.isatty() else lines)
    sys.stdout.buffer.flush()
    return EXIT_OK


async def _verify(authority: CoreAuthority, options: Options) -> int:
    found = await authority.ledger.verify(options.head)
    archives = await authority.ledger.retention.verify_archives() if options.archives else []
    if options.json:
        print_plain_json(plain(found) | ({"archives": plain(archives)} if options.archives else {}))
    else:
        line(paint(found.words, "green" if found.ok else "red"))
        for each in archives:
            bad = each.first_bad
            told = (
                f"{each.records} records are as they were written"
                if bad is None
                else f"record {bad.seq} is not as it was written: {bad.why}"
            )
            line(paint(f"{each.archive}: {told}", "green" if each.ok else "red"))
    ok = found.ok and all(each.ok for each in archives)
    return EXIT_OK if ok else EXIT_FAILED


async def _head(authority: CoreAuthority, options: Options) -> int:
    head = authority.ledger.head()
    if options.json:
        print_json({"head": head})
    else:
        line(head)
    return EXIT_OK


def _print(record: LedgerRecord, *, as_json: bool) -> None:
    if as_json:
        print_json_line(record)
        return
    when = dt.datetime.fromtimestamp(record.time_ns / 1e9, dt.UTC)
    what = f"{record.operation}" if record.verb == "authority" else record.verb
    where = " ".join(filter(None, (record.root, record.path, record.destination)))
    outcome = record.outcome if record.error_kind is None else record.error_kind
    more = " ".join(f"{name}={value}" for name, value in sorted(record.details.items()))
    text = f"{record.subject} {what} {where}".rstrip()
    line(
        f"{when:%Y-%m-%d %H:%M:%S}.{when.microsecond // 1000:03}Z  "
        + paint(f"{outcome:<16}", _COLOURS.get(record.outcome, "green"))
        + f"  {escape_for_display(text)}"
        + (f"  {escape_for_display(more)}" if more else "")
        + (f"  by {escape_for_display(record.policy_source)}" if record.policy_source else "")
    )


_ACTIONS = {
    "tail": _tail, "query": _query, "export": _export, "verify": _verify, "head": _head,
}  # fmt: skip


def _ascii(lines: bytes) -> bytes:
    """JSON lines with nothing in it that a terminal could take for a command."""
    records = (json.loads(each) for each in lines.split(b"\n") if each)
    return b"".join(json.dumps(each).encode() + b"\n" for each in records)
