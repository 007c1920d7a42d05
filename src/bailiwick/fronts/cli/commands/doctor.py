"""`bailiwick doctor`: what the machine can do, and how the authority's state is doing."""

from __future__ import annotations

import asyncio
from typing import Any

from bailiwick.errors import BailiwickError
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, takes_authority
from bailiwick.fronts.cli.authority_session import (
    Options,
    find_config,
    guarded,
    open_authority,
    say_config,
)
from bailiwick.fronts.cli.machine import Fact, examine
from bailiwick.fronts.cli.output import error_document, line, paint, print_json
from bailiwick.state.ledger.durable import DurableLedger
from bailiwick.state.ledger.query import PAGE_RECORDS_MAX, LedgerFilter


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick doctor",
        "What this machine can do for Bailiwick, what each lack costs, and, where there is a"
        " configuration, how the authority's state is doing.",
        examples=("bailiwick doctor",),
        epilog="Exit code 1 means that the state is not in order; a machine that lacks something is"
        " no failure.",
    )
    takes_authority(parser, place=False)
    options = parser.parse_args(arguments)
    if options.state is not None and find_config(options.config) is None:
        parser.error("--state needs a configuration")
    return guarded(lambda: _examine(options), as_json=options.json)


def _examine(options: Options) -> int:
    facts = examine()
    config = find_config(options.config)
    if config is not None:
        say_config(config, options)
    state = None if config is None else asyncio.run(examine_state(config, options.state))
    if options.json:
        print_json({"machine": [fact._asdict() for fact in facts], "state": state})
    else:
        _print_facts(facts)
        if state is not None:
            _print_state(state)
    return EXIT_OK if state is None or state["ok"] else EXIT_FAILED


async def examine_state(config: str, state_dir: str | None) -> dict[str, Any]:
    """How the state is doing. One that cannot even be opened is reported, not raised."""
    try:
        async with open_authority(config, state_dir, looking=True) as authority:
            health = authority.ledger.health()
            verified = await authority.ledger.verify()
            return {
                "ok": health.ok and verified.ok,
                "roots": len(authority.roots()),
                "grants": len(authority.grants()),
                "pending_approvals": len(authority.approvals.pending()),
                "interrupted": len(authority.ledger.interrupted),
                "lost_records": await _lost_records(authority.ledger),
                "ledger": health,
                "faults": authority.faults.faults(),
                "chain": verified,
            }
    except BailiwickError as error:
        return {"ok": False, "error": error_document(error)}


async def _lost_records(ledger: DurableLedger) -> int:
    """How many records processes before this one could not keep: the ledger itself says so."""
    wanted = LedgerFilter(operation="ledger", outcome="failed")
    page = await ledger.query(wanted, limit=PAGE_RECORDS_MAX)
    return sum(int(record.details.get("lost_records", "0")) for record in page.records)


def _print_facts(facts: list[Fact]) -> None:
    width = max(len(fact.name) for fact in facts)
    for fact in facts:
        mark = paint("yes", "green") if fact.works else paint("no ", "yellow")
        line(f"{fact.name:<{width}}  {mark}  {fact.found}")
        if fact.cost:
            line(f"{'':<{width}}       {paint(f'costs: {fact.cost}', 'dim')}")


def _print_state(state: dict[str, Any]) -> None:
    line()
    if "error" in state:
        error = state["error"]
        line(paint(f"the state cannot be used: {error['errorKind']}: {error['error']}", "red"))
        if "hint" in error:
            line(f"hint: {error['hint']}")
        return
    health = state["ledger"]
    line(f"roots {state['roots']}, grants {state['grants']},"
         f" waiting for an answer {state['pending_approvals']}")  # fmt: skip
    line(f"ledger: {state['chain'].words}")
    if state["interrupted"]:
        line(f"changes that a dead process had begun, put on record now: {state['interrupted']}")
    troubles = {
        "records that earlier processes lost": state["lost_records"],
        "records dropped": health.dropped,
        "writes that failed": health.failures,
        "changes the feed missed": health.feed_failures,
    }
    for what, count in troubles.items():
        if count:
            line(paint(f"{what}: {count}", "red"))
    if health.last_error:
        line(paint(f"last error: {health.last_error}", "red"))
    for fault in state["faults"]:
        line(paint(f"{fault.what} {fault.name} failed {fault.count} times: {fault.last}", "red"))
