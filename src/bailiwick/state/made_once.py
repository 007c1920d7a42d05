"""Changes of the state that a request under a key makes once, however often it is begun.

The row of the key lies in the same database (`bailiwick.state.idempotency`): what came of a change
is kept with it in the commit that makes it. Whoever goes on for a process that has died, or whose
commit nobody answered, does all of the request again; a change that was made is only told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import msgspec

from bailiwick.errors import Busy
from bailiwick.state.database import Connection

Result = TypeVar("Result")


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
        rows: list[Any] = connection.execute(
            "SELECT body FROM answers WHERE digest = ? AND owner = ? AND status IS NULL", key
        ).fetchall()
        if not rows:
            raise under_way()
        known = changes_in(rows[0][0])
        if what not in known:
            known[what] = job(connection)
            body = msgspec.json.encode(known)
            connection.execute(
                "UPDATE answers SET body = ?, bytes = ? WHERE digest = ?",
                (body, len(body), key.digest),
            )
        result: Result = known[what]
        return result

    return made


def changes_in(body: bytes | None) -> dict[str, Any]:
    """What came of each change that was made, as the row of a key that has no answer yet holds."""
    return {} if body is None else msgspec.json.decode(body, type=dict[str, Any])


def under_way() -> Busy:
    return Busy(
        "the first request with this Idempotency-Key is still under way",
        hint="ask again in a moment", details={"retry_after_s": 1.0},
    )  # fmt: skip
