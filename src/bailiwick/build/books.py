"""The books of an authority, opened together on one database."""

from __future__ import annotations

from collections.abc import Callable

from bailiwick.authority import Books
from bailiwick.build.configured import ConfigSource
from bailiwick.config.values import Surface
from bailiwick.state.approvals.desk import ApprovalDesk
from bailiwick.state.approvals.rules import RuleBook
from bailiwick.state.database import Database
from bailiwick.state.faults import FaultBook
from bailiwick.state.grants.book import GrantBook
from bailiwick.state.grants.trust import TrustBook
from bailiwick.state.ledger.durable import DurableLedger
from bailiwick.state.notices.book import NoticeBook


def open_books(
    database: Database,
    ledger: DurableLedger,
    notices: NoticeBook,
    source: ConfigSource,
    time_ns: Callable[[], int],
    surface: Surface,
) -> Books:
    """What an authority remembers. ``surface`` is where people are asked if the configuration does
    not say."""
    chain, ask = ledger.chain_in, source.config.ask
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
