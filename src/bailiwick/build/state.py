"""Opening the state of an authority, wherever its configuration says that it is kept."""

from __future__ import annotations

import os

import msgspec

from bailiwick.build.configured import ConfigSource
from bailiwick.config.places import VolumePlace
from bailiwick.config.values import ServerConfig
from bailiwick.errors import Unsupported, from_os_error
from bailiwick.limits import Limits
from bailiwick.state import faults, idempotency
from bailiwick.state.approvals import questions, rules
from bailiwick.state.database import Database
from bailiwick.state.feed import FEED
from bailiwick.state.grants import book, tokens, trust
from bailiwick.state.ledger.chain import LEDGER
from bailiwick.state.ledger.notes import NOTES
from bailiwick.state.notices import book as notice_book
from bailiwick.state.runs import index as run_index
from bailiwick.state.runs import verdicts
from bailiwick.state.usage import meter

PARTS = (
    LEDGER, FEED, book.PART, trust.PART, rules.PART, questions.PART, meter.PART, faults.PART,
    tokens.PART, NOTES, idempotency.PART, run_index.PART, notice_book.PART, verdicts.PART,
)  # fmt: skip


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says about being served: how, and whose tokens are listed. ``file`` is
    None where there is no configuration."""

    file: str | None
    server: ServerConfig | None
    tokens: dict[str, str]
    origin: str


def open_state(source: ConfigSource, directory: str | None) -> Database:
    """The state, in a directory, in memory, or in PostgreSQL with a directory beside it. Blocks."""
    state = source.config.state
    if state.url is None:
        return Database.open(directory, PARTS, durability=state.durability)
    try:
        from bailiwick.state.postgres.database import open_in_postgres
    except ImportError as error:
        raise Unsupported(
            "a state in PostgreSQL needs asyncpg", hint="install bailiwick[postgres]"
        ) from error
    assert directory is not None, "only a configuration names a database"
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
    except OSError as error:
        raise from_os_error(error) from error
    return open_in_postgres(state.url, directory, PARTS, Limits())


def refuse_on_this_machine(name: str, volume: VolumePlace | None, *, shared: bool) -> None:
    """What servers on several machines share is reached from all of them. Raises `Unsupported`."""
    if shared and (volume is None or volume.in_file):
        raise Unsupported(
            f"the root {name} is on this machine, and servers on others share the state",
            hint="keep it in a volume in PostgreSQL, or the state in a directory",
        )
