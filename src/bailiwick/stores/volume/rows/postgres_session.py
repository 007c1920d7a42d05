"""Statements on one connection to PostgreSQL."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from bailiwick.patience import waiting
from bailiwick.postgres.failures import FAILURES, from_postgres
from bailiwick.stores.volume.rows.database import Row, SpelledTwice


class PostgresSession:
    """Statements on one connection."""

    __slots__ = ("_answer_s", "_connection")

    def __init__(self, connection: Any, answer_s: float | None = None) -> None:
        """``answer_s`` is how long each is waited for at most by a request that waits for others,
        too; without it as long as the connection says."""
        self._connection = connection
        self._answer_s = answer_s

    async def rows(self, sql: str, *values: Any) -> list[Row]:
        if isinstance(sql, SpelledTwice):
            sql = sql.postgres
        try:
            return [tuple(row) for row in await self._fetched(sql, values)]
        except FAILURES as error:
            if isinstance(error, TimeoutError):
                with suppress(*FAILURES):
                    # Whoever gave it back would wait for it once more.
                    self._connection.terminate()
            raise from_postgres(error) from error

    async def _fetched(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        if self._answer_s is None:
            return cast(list[Any], await self._connection.fetch(sql, *values))
        with waiting(self._answer_s) as seconds:
            return cast(list[Any], await self._connection.fetch(sql, *values, timeout=seconds))

    async def row(self, sql: str, *values: Any) -> Row | None:
        rows = await self.rows(sql, *values)
        return rows[0] if rows else None

    async def run(self, sql: str, *values: Any) -> None:
        await self.rows(sql, *values)
