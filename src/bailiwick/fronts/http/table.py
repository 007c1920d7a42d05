"""What a route is. The table of all routes drives routing, validation, OpenAPI and reference."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bailiwick.operations import Access
from bailiwick.wire.arguments import Argument
from bailiwick.wire.verbs import names_in

if TYPE_CHECKING:
    from bailiwick.fronts.http.messages.requests import Request

Who = Literal["anyone", "reader", "caller", "person"]
"""Who may call: anyone at all; also the anonymous reader of an open server; whoever has a token;
a person or the host."""

Answers = Literal["json", "bytes", "events", "lines", "text", "document"]
"""What a route answers: a result as JSON, the bytes of a file, a stream of events, results line by
line, plain text, or JSON whose shape is not ours to say."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked.

    ``needs`` is the access by which the grant is chosen that answers it; the verb itself checks
    what it needs. ``rooted`` routes are also found under ``/roots/{kind}/{id}``. ``statuses`` are
    those of success. ``raises`` are statuses of errors beyond those that every such route has.
    The answer of a ``secret`` one holds what is shown once and kept nowhere. What is ``repeatable``
    may be done twice: whoever lost its answer has it done again. What is ``governing`` changes the
    state, or decides about what lies apart: its handler knows again by a key what of it was done
    (`Request.made`). ``given`` is what the verb is given where
    that is not what the body says.
    """

    method: str
    path: str
    name: str
    about: str
    family: str
    handler: Callable[[Request], Awaitable[Any]]
    parameters: tuple[Argument, ...] = ()
    body: type[msgspec.Struct] | None = None
    raw_body: bool = False
    result: type[msgspec.Struct] | None = None
    answers: Answers = "json"
    statuses: tuple[int, ...] = (200,)
    raises: tuple[int, ...] = ()
    needs: frozenset[Access] = frozenset()
    verb: str = ""
    given: Callable[[Request], dict[str, Any]] | None = None
    changes: bool = False
    rooted: bool = True
    who: Who = "reader"
    asks: bool = False
    secret: bool = False
    repeatable: bool = False
    governing: bool = False
    example: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return names_in(self.path)


def access(*held: Access) -> frozenset[Access]:
    return frozenset(held)
