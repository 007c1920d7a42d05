"""The arguments of verbs on the wire: what each is called, what it is, and how much of it.

A name means the same in every verb. What a verb takes stands in its row (`bailiwick.wire.verbs`),
in a query or in a body; the row says where an argument is not as it is here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec

from bailiwick.model import Edit, EntryType, KiB, MiB, WriteMode
from bailiwick.operations import Access, Network
from bailiwick.sandbox import CommandLimits, WindowSize
from bailiwick.wire.names import camel
from bailiwick.wire.values import alias_of

_OTHERS = {
    "atime_ns": "accessed_ns",
    "base": "path",
    "max_results": "limit",
    "mtime_ns": "modified_ns",
    "new": "new_text",
    "old": "old_text",
    "prefix": "path",
    "text": "content",
    "to": "destination",
}
"""What does not follow from the rule: a hash is one, all else is called what it is called."""

Kind = Literal["text", "integer", "boolean", "mode"]
"""``mode`` is permission bits: octal text, which begins with 0, or a number."""

OCTAL = "^0[0-7]{3,4}$"

INTEGER_MAX = 2**63 - 1

CHARACTERS_MAX = 4_096
"""What a parameter may be long unless told: as long as a path."""

NAME_CHARACTERS_MAX = 255
"""For names of versions, snapshots, forks and encodings, and for ids."""

LINES_MAX = 2_000
"""Lines that one answer holds. Who asks for more gets a page, and the cursor to go on."""

TEXT_BYTES_MAX = 256 * KiB
BYTES_DEFAULT = 64 * KiB
"""How much of a file one answer holds as JSON."""

STDIN_BYTES_MAX = 1 * MiB
"""What one request hands to the input of a command: it is in memory until it was taken."""

NEEDED = "x-needed"
"""What marks a field without which a body makes no sense, under whichever of its names."""


def argument_name(name: str) -> str:
    """What an argument of a verb is called on the wire, still in snake case."""
    return _OTHERS.get(name) or name.replace("sha256", "hash")


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument, by its name in snake case.

    ``aliases`` are names that a query understands too and does not show. In a query what is not
    given is not there; in a body it is the ``default``. ``json`` is what it is in a body, where
    that does not follow from its kind.
    """

    name: str
    about: str = ""
    kind: Kind = "text"
    required: bool = False
    default: Any = None
    json: Any = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = INTEGER_MAX
    characters_max: int = CHARACTERS_MAX
    shown: str = ""
    """Its name as the wire spells it."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "shown", camel(self.name))

    def but(self, **otherwise: Any) -> Argument:
        """This argument, where a verb has it otherwise."""
        return msgspec.structs.replace(self, **otherwise)

    @property
    def field(self) -> tuple[str, Any] | tuple[str, Any, Any]:
        """What it is in a body: name, type, and default where it has one."""
        hint = self.json
        if hint is None:
            hint = Literal[self.choices] if self.choices else _JSON[self.kind]
            hint = hint if self.required or self.default is not None else hint | None
        return (self.name, hint) if self.required else (self.name, hint, self.default)


PathField = Annotated[str, msgspec.Meta(min_length=1, description="Where, relative to the root.")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]
FileMode = Annotated[
    Annotated[str, msgspec.Meta(pattern=OCTAL)] | Annotated[int, msgspec.Meta(ge=0, le=0o7777)],
    msgspec.Meta(description='Permission bits: octal text ("0644"), or a number.'),
]
Accesses = Annotated[list[Access], msgspec.Meta(min_length=1, max_length=16)]
Globs = Annotated[list[str], msgspec.Meta(max_length=1_000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=100 * 365 * 24 * 3600)]
Ttl = Annotated[float, msgspec.Meta(gt=0, le=600, description="Seconds, up to ten minutes.")]
_JSON: dict[Kind, Any] = {"text": str, "integer": Natural, "boolean": bool, "mode": FileMode}


class WireEdit(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One replacement."""

    old_text: str
    new_text: str
    replace_all: bool = False

    @property
    def meant(self) -> Edit:
        return Edit(self.old_text, self.new_text, self.replace_all)


WireCommandLimits: type[msgspec.Struct] = msgspec.defstruct(
    "WireCommandLimits",
    [(each.name, each.type, each.default) for each in msgspec.structs.fields(CommandLimits)],
    frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True,
    namespace={"__doc__": "What a command may use: less than the server lets it, where that is."},
)  # fmt: skip


def a_text(name: str, about: str = "", **more: Any) -> Argument:
    """A short one, such as a name or an id."""
    return Argument(name=name, about=about, characters_max=NAME_CHARACTERS_MAX, **more)


def a_flag(name: str, about: str = "") -> Argument:
    return Argument(name=name, about=about, kind="boolean", default=False)


def a_number(name: str, about: str = "", **more: Any) -> Argument:
    return Argument(name=name, about=about, kind="integer", **more)


def a_document(name: str, json: Any, default: Any = None, **more: Any) -> Argument:
    """Something that only bodies hold."""
    return Argument(name=name, json=json, default=default, **more)


def limit(most: int, *aliases: str) -> Argument:
    return a_number(
        "limit", f"How many at most, up to {most:,}.", least=1, most=most, aliases=aliases
    )


def somewhere(about: str) -> Argument:
    """A path that is the whole root, unless told."""
    return Argument(name="path", about=about)


PATH = Argument(name="path", about="Where, relative to the root.", required=True, json=PathField)
APPROVAL = a_text("approval", "The id of an approval: the same request again, once it was granted.")
AS_OF = a_text("as_of", "A version, or the name of a snapshot, to look at instead.")
CONTENT = Argument(name="content")
CURSOR = Argument(
    name="cursor", about="Goes on where an earlier answer ended.", characters_max=1_024
)
ENCODING = a_text("encoding", "The encoding, where it cannot be told.")
FILE_MODE = Argument(
    name="file_mode", about="Permission bits: octal (0644), or a number.", kind="mode"
)
FORK = a_text("fork", "The fork to act in, instead of the root itself.")
INCLUDE_IGNORED = a_flag("include_ignored", "Also what ignore files leave out.")
LOCK_TOKEN = a_number("lock_token", "The token of a lock that is held on the path.")
MODE = Argument(
    name="mode", about="What may stand there.", choices=get_args(WriteMode), default="overwrite"
)
NAME = a_text("name", json=Name, required=True)
PARENTS = a_flag("parents", "Also make the directories above it.")
PATTERN = Argument(name="pattern", about="What to look for.", required=True, characters_max=8_192)
PREVIEW = a_flag("preview")
RECURSIVE = a_flag("recursive")
REPLACE_ALL = a_flag("replace_all")
SESSION = a_text("session", "The key of a console's session, where no header can be sent.")
TYPE = Argument(name="type", about="What it is.", choices=get_args(EntryType))
VERSION = a_text("version")

NETWORK = Argument(
    name="network", about="What it reaches.", choices=get_args(Network), default="none"
)
COMMAND = (
    a_document("argv", Annotated[list[str], msgspec.Meta(min_length=1)] | None),
    a_document("shell", str | None),
    a_document("env", dict[str, str] | None),
    a_document("stdin", Annotated[str | None, msgspec.Meta(description="What it can read.")]),
    a_document(
        "stdin_base64",
        Annotated[str | None, msgspec.Meta(description="The same, of any bytes.")],
    ),
    a_document(
        "stdin_pipe",
        Annotated[bool, msgspec.Meta(description="Whether more will come: POST /exec/{id}/input.")],
        False,
    ),
    a_document("timeout", Annotated[float, msgspec.Meta(ge=0)] | None),
    a_document("limits", WireCommandLimits | None),
    NETWORK,
)
"""What a command is, and what it may have: words, or a text for a shell."""

TOLD = (
    a_document(
        "detach",
        Annotated[bool, msgspec.Meta(description="Answer with the first line alone.")], False,
    ),
    a_document(
        "end_with_client",
        Annotated[
            bool, msgspec.Meta(description="Whether it ends when whoever is told of it goes away.")
        ],
        False,
    ),
)  # fmt: skip
"""How a caller is told of a command."""

TERMINAL = a_document("terminal", WindowSize | None)

DESTINATION = (
    a_document(
        "destination",
        Annotated[
            PathField | None,
            msgspec.Meta(
                description="Where it goes, relative to the root.", extra_json_schema={NEEDED: True}
            ),
        ],
    ),
    a_document("to", Annotated[PathField | None, alias_of("destination")]),
)
"""Where something goes, under either of two names."""

CHANGE = (APPROVAL, LOCK_TOKEN)
"""What a body takes that changes something."""

EXPECTED = (
    a_text("expected_hash", "The hash of what is replaced."),
    a_document("expected_sha256", Annotated[str | None, alias_of("expectedHash")]),
    a_text("expected_version", "The version of what is replaced."),
)
"""What is to stand at a place that is changed."""

EXPECTED_THERE = (a_text("expected_destination_hash"), a_text("expected_destination_version"))
"""The same of what is replaced."""
