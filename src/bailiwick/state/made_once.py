"""Changes of the state that a request under a key makes once, however often it is begun.

The row of the key lies in the same database (`bailiwick.state.idempotency`): what came of a change
is kept with it in the commit that makes it. Whoever goes on for a process that has died, or whose
commit nobody answered, does all of the request again; a change that was made is only told. What is
changed elsewhere cannot share that commit: what it will be answered with is kept before it
(`foretold`), and whether it came to pass is known where it was to be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from bailiwick.errors import Busy
from bailiwick.state.database import Connection

Result = TypeVar("Result")

FORETOLD: Final = "foretold "
"""Before the name of a change: what it will be answered with, in a list, which is empty where that
was too large to be kept."""


class _KeyInUse(NamedTuple):
    digest: bytes
    owner: str


_in_use: ContextVar[_KeyInUse | None] = ContextVar("bailiwick_key_in_use", default=None)


@contextmanager
def under_key(digest: bytes, owner: str) -> Iterator[None]:
    """Have what is changed meanwhile by `once` kept with the key of that digest, as long as it is
    the ``owner``'s."""
    token = _in_use.set(_KeyInUse(digest, owner))
    try:
        yield
    finally:
        _in_use.reset(token)


def once(what: str, job: Callable[[Connection], Result]) -> Callable[[Connection], Result]:
    """The job that makes a change, or, where it was made under the key that is in use, tells what
    came of it. That is something that JSON has; ``what`` names the change within its request."""
    key = _in_use.get()
    if key is None:
        return job

    def made(connection: Connection) -> Result:
        known = _known(connection, key)
        if what not in known:
            known[what] = job(connection)
            _keep(connection, key, known)
        result: Result = known[what]
        return result

    return made


def foretold(
    digest: bytes, owner: str, what: str, answer: list[Any]
) -> Callable[[Connection], None]:
    """The job that keeps with a key what a change will be answered with, should it come to pass:
    instead of what was foretold of it before."""
    key = _KeyInUse(digest, owner)

    def kept(connection: Connection) -> None:
        known = _known(connection, key)
        known[FORETOLD + what] = answer
        _keep(connection, key, known)

    return kept


def _known(connection: Connection, key: _KeyInUse) -> dict[str, Any]:
    rows: list[Any] = connection.execute(
        "SELECT body FROM answers WHERE digest = ? AND owner = ? AND status IS NULL", key
    ).fetchall()
    if not rows:
        raise under_way()
    return changes_in(rows[0][0])


def _keep(connection: Connection, key: _KeyInUse, known: dict[str, Any]) -> None:
    body = msgspec.json.encode(known)
    connection.execute(
        "UPDATE answers SET body = ?, bytes = ? WHERE digest = ?", (body, len(body), key.digest)
    )


def changes_in(body: bytes | None) -> dict[str, Any]:
    """What came of each change that was made, as the row of a key that has no answer yet holds."""
    return {} if body is None else msgspec.json.decode(body, type=dict[str, Any])


def under_way() -> Busy:
    return Busy(
        "the first request with this Idempotency-Key is still under way",
        hint="ask again in a moment", details={"retry_after_s": 1.0},
    )  # fmt: skip
