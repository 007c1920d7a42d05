"""From the text that names a database to the database that this process shares."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from bailiwick.errors import Unsupported
from bailiwick.limits import Limits
from bailiwick.stores.volume.rows import sqlite_file
from bailiwick.stores.volume.rows.database import SharedDatabase

_POSTGRES: Final = ("postgres://", "postgresql://")


def acquire(place: str, limits: Limits) -> SharedDatabase:
    """The database at an address of PostgreSQL, or in a file, which is made if missing. Blocks. To
    be given back by `release_blocking`."""
    if not place.startswith(_POSTGRES):
        return sqlite_file.acquire(place)
    postgres = _postgres()
    server: SharedDatabase = postgres.acquire(postgres.ServerPlace.of(place, limits))
    return server


def has_volume(place: str, name: str) -> bool:
    """Whether a database is there and has a volume of this name. A file that is no volume's counts
    as one: who opens it is told what is wrong with it. Nothing is made. Blocks."""
    if not place.startswith(_POSTGRES):
        return sqlite_file.has_volume(place, name)
    postgres = _postgres()
    return bool(postgres.has_volume(postgres.ServerPlace.of(place, Limits()), name))


def answer(place: str) -> None:
    """Return once the database of PostgreSQL at an address has answered. Raises `IoError` or `Busy`
    where it does not, within seconds. Blocks."""
    postgres = _postgres()
    postgres.answer(postgres.ServerPlace.of(place, Limits()))


def _postgres() -> ModuleType:
    try:
        from bailiwick.stores.volume.rows import postgres
    except ImportError as error:
        raise Unsupported(
            "volumes in PostgreSQL need asyncpg", hint="install bailiwick[postgres]"
        ) from error
    return postgres
