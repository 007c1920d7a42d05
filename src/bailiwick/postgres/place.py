"""Which database of PostgreSQL, and within which limits every connection to it is used."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bailiwick.limits import Limits

NAMESPACE: Final = "bailiwick"
"""The tables of volumes have a namespace of their own: the database may be somebody's for other
things, too. It is the only one on the search path of their connections."""

APPLICATION: Final = "bailiwick"
"""As what the connections are known to the server."""

_SILENT_S: Final = 1.0
"""What the server's own word that a statement takes too long may take on the way."""

_HELD_PART: Final = 0.75
"""For what part of the time that others wait for a lock its holder may say nothing: one that is cut
off in the middle of a transaction is given up well before those behind it lose patience."""

_STATEMENTS_KEPT: Final = 512
"""Of each connection, prepared: more than the store has."""


class ServerPlace(NamedTuple):
    """A database, and within which limits it is used."""

    dsn: str
    connections_max: int
    connect_s: float
    statement_s: float
    lock_s: float
    namespace: str = NAMESPACE

    @classmethod
    def of(cls, dsn: str, limits: Limits) -> ServerPlace:
        return cls(
            dsn,
            limits.database_connections_max,
            limits.database_connect_seconds_max,
            limits.database_statement_seconds_max,
            limits.database_lock_seconds_max,
        )

    @property
    def silence_s(self) -> float:
        """How long whoever others may wait for says nothing, before it is given up."""
        return _HELD_PART * min(self.statement_s, self.lock_s)

    @property
    def answer_s(self) -> float:
        """How long a statement is waited for: a server that answers ends it itself before that."""
        return self.statement_s + _SILENT_S

    @property
    def raised_s(self) -> float:
        """How long a statement is waited for where an operator lets it take longer than statements
        do as a rule, and else no time."""
        is_raised = self.statement_s > Limits().database_statement_seconds_max
        return self.answer_s if is_raised else 0.0

    @property
    def options(self) -> dict[str, Any]:
        """What every connection is made with."""
        return {
            "dsn": self.dsn,
            "timeout": self.connect_s,
            "command_timeout": self.answer_s,
            "statement_cache_size": _STATEMENTS_KEPT,
            "max_cached_statement_lifetime": 0,
            "server_settings": {
                "application_name": APPLICATION,
                "search_path": self.namespace,
                # A plan for the values of one call may be a bad one for the next, and took 300
                # times as long in a large directory.
                "plan_cache_mode": "force_generic_plan",
                "jit": "off",
                "statement_timeout": _ms(self.statement_s),
                "lock_timeout": _ms(self.lock_s),
                "idle_in_transaction_session_timeout": _ms(self.silence_s),
            },
        }


def _ms(seconds: float) -> str:
    return str(max(1, int(seconds * 1000)))
