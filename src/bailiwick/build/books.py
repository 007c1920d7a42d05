"""The books of an authority, opened together on one database."""

from __future__ import annotations

from bailiwick.authority import Books
from bailiwick.build.configured import ConfigSource
from bailiwick.call import Machine
from bailiwick.config.values import Surface
from bailiwick.finishing import in_thread
from bailiwick.state.approvals.desk import ApprovalDesk
from bailiwick.state.approvals.rules import RuleBook
from bailiwick.state.database import Database
from bailiwick.state.faults import FaultBook
from bailiwick.state.grants.book import GrantBook
from bailiwick.state.grants.trust import TrustBook
from bailiwick.state.ledger.durable import DurableLedger, ledger_key
from bailiwick.state.notices.book import NoticeBook


async def open_books(
    database: Database,
    notices: NoticeBook,
    source: ConfigSource,
    machine: Machine,
    surface: Surface,
) -> Books:
    """What an authority remembers. ``surface`` is where people are asked if the configuration does
    not say."""
    config, time_ns = source.config, machine.time_ns
    key = await in_thread(ledger_key, database)
    ledger = await in_thread(
        lambda: DurableLedger.open(database, key, clock=time_ns, paths=config.audit.paths)
    )
    chain, ask = ledger.chain_in, config.ask
    rules = RuleBook(database, chain, time_ns=time_ns)
    return Books(
        ledger=ledger,
        grants=GrantBook(database, chain, time_ns=time_ns, configured=source.file is not None),
        trust=TrustBook(database, chain, time_ns=time_ns),
        rules=rules,
        approvals=ApprovalDesk(
            database, chain, rules, notices, time_ns=time_ns, surface=ask.surface or surface,
            seconds=ask.timeout_s,
        ),
        faults=FaultBook(database, time_ns=time_ns),
    )  # fmt: skip
