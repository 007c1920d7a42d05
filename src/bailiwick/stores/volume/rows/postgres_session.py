"""Statements on one connection to PostgreSQL."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from bailiwick.postgres.failures import FAILURES, from_postgres
from bailiwick.stores.volume.rows.database import Row, SpelledTwice


class PostgresSession:
    """Statements on one connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str, *values: Any) -> list[Row]:
        if isinstance(sql, SpelledTwice):
            sql = sql.postgres
        try:
            return [tuple(row) for row in await self._connection.fetch(sql, *values)]
        except FAILURES as error:
            if isinstance(error, TimeoutError):
                with suppress(*FAILURES):
                    # Whoever gave it back would wait for it once more.
                    self._connection.terminate()
            raise from_postgres(error) from error

    async def row(self, sql: str, *values: Any) -> Row | None:
        rows = await self.rows(sql, *values)
        return rows[0] if rows else None

    async def run(self, sql: str, *values: Any) -> None:
        await self.rows(sql, *values)
