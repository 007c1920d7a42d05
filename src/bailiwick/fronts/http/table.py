"""What a route is. The table of all routes drives routing, validation, OpenAPI and reference."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bailiwick.operations import Access

if TYPE_CHECKING:
    from bailiwick.fronts.http.requests import Request

ParameterType = Literal["text", "integer", "boolean", "mode"]
"""``mode`` is permission bits: octal text, which begins with 0, or a number."""

OCTAL = "^0[0-7]{3,4}$"

Who = Literal["anyone", "reader", "caller", "person"]
"""Who may call: anyone at all; also the anonymous reader of an open server; whoever has a token;
a person or the host."""

Answers = Literal["json", "bytes", "events", "text", "document"]
"""What a route answers: a result as JSON, the bytes of a file, a stream of events, plain text, or
JSON whose shape is not ours to say."""

INTEGER_MAX = 2**63 - 1

CHARACTERS_MAX = 4_096
"""What a parameter may be long unless told: as long as a path."""

NAME_CHARACTERS_MAX = 255
"""For names of versions, snapshots, forks and encodings, and for ids."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a query. ``into`` is what the handler knows it by, ``aliases`` are names
    that are understood too and not shown."""

    name: str
    about: str
    aliases: tuple[str, ...] = ()
    type: ParameterType = "text"
    required: bool = False
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = INTEGER_MAX
    characters_max: int = CHARACTERS_MAX
    into: str = ""

    def __post_init__(self) -> None:
        if not self.into:
            msgspec.structs.force_setattr(self, "into", snake(self.name))


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked.

    ``needs`` is the access by which the grant is chosen that answers it; the verb itself checks
    what it needs. ``rooted`` routes are also found under ``/roots/{kind}/{id}``. ``statuses`` are
    those of success. ``raises`` are statuses of errors beyond those that every such route has.
    The answer of a ``secret`` one holds what is shown once and kept nowhere.
    """

    method: str
    path: str
    name: str
    about: str
    family: str
    handler: Callable[[Request], Awaitable[Any]]
    parameters: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    raw_body: bool = False
    result: type[msgspec.Struct] | None = None
    answers: Answers = "json"
    statuses: tuple[int, ...] = (200,)
    raises: tuple[int, ...] = ()
    needs: frozenset[Access] = frozenset()
    verb: str = ""
    changes: bool = False
    rooted: bool = True
    who: Who = "reader"
    asks: bool = False
    secret: bool = False
    example: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the path that stand for a value: ``{id}`` is ``id``."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


def access(*held: Access) -> frozenset[Access]:
    return frozenset(held)


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


PATH = Parameter(name="path", about="Where, relative to the root.", required=True)
AS_OF = Parameter(
    name="asOf", about="A version, or the name of a snapshot, to look at instead.",
    characters_max=NAME_CHARACTERS_MAX,
)  # fmt: skip
LOCK_TOKEN = Parameter(
    name="lockToken", about="The token of a lock that is held on the path.", type="integer"
)
APPROVAL = Parameter(
    name="approval", about="The id of an approval: the same request again, once it was granted.",
    characters_max=NAME_CHARACTERS_MAX,
)  # fmt: skip
FORK = Parameter(
    name="fork", about="The fork to act in, instead of the root itself.",
    characters_max=NAME_CHARACTERS_MAX,
)  # fmt: skip
SESSION = Parameter(
    name="session", about="The key of a console's session, where no header can be sent.",
    characters_max=NAME_CHARACTERS_MAX,
)  # fmt: skip
INCLUDE_IGNORED = Parameter(
    name="includeIgnored", about="Also what ignore files leave out.", type="boolean"
)
CURSOR = Parameter(
    name="cursor", about="Goes on where an earlier answer ended.", characters_max=1_024
)


def limit(most: int, *aliases: str) -> Parameter:
    return Parameter(
        name="limit", about=f"How many at most, up to {most:,}.", type="integer", least=1,
        most=most, aliases=aliases,
    )  # fmt: skip
