"""The text that names a volume: ``sqlite:agent.db?volume=main&branch=try&blobs=s3://bucket/agents``,
or ``postgres://agents@db.example/agents?volume=main&blobs=s3://bucket/agents``.

Pure: the same text means the same in a configuration and in a program. Parsed strictly, since a
parameter that is misspelled and ignored would open another volume than the one that was meant.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bailiwick.errors import ParseError, escape_for_display
from bailiwick.policies.nearness import hint_for

SQLITE: Final = "sqlite:"

_EXAMPLE: Final = "sqlite:agent.db?volume=main"

POSTGRES: Final = ("postgres:", "postgresql:")

_POSTGRES_EXAMPLE: Final = "postgres://user@host/database?volume=main&blobs=s3://bucket/place"

_PARAMETERS: Final = ("volume", "branch", "blobs", "compression")

_SERVER_PARAMETERS: Final = (
    "host", "port", "passfile", "sslmode", "sslrootcert", "sslcert", "sslkey",
)  # fmt: skip
"""What is said to PostgreSQL's client, as its own programs have it: how a server is reached, and by
which keys it and we are known."""

_ADDRESS = re.compile(
    r"postgres(?:ql)?://(?:[^@/?#\s]+@)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])?(?::[0-9]{1,5})?"
    r"/[^/?#\s]+",
).fullmatch

_COMPRESSIONS: Final = ("off", "zstd")

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,63}", re.ASCII).fullmatch

_UNSAFE = re.compile(rb"[^A-Za-z0-9._~/:@,+-]")

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")

_OBJECT_STORES: Final = ("s3://", "gs://", "az://")


class VolumePlace(NamedTuple):
    """A branch of a volume in a file, or at the address of a PostgreSQL database. ``blobs`` is a
    folder or the address of an object store, for the content of large files; None: a folder beside
    the file. ``compression`` says how new content is kept."""

    file: str
    volume: str = "main"
    branch: str = "main"
    blobs: str | None = None
    compression: str = "off"

    @property
    def in_file(self) -> bool:
        """Whether ``file`` is one. An address of a server may hold a password: it is not shown."""
        return not self.file.startswith(POSTGRES)

    @property
    def blobs_folder(self) -> str | None:
        """The folder in ``blobs``, where it is one."""
        return None if self.blobs is None or self.blobs.startswith(_OBJECT_STORES) else self.blobs

    @property
    def shown_blobs(self) -> str:
        """Where blobs are, for a person to read. What is refused when it is opened may hold a
        secret: of an address only the place is told, not who asks there nor how."""
        if self.blobs is None or self.blobs_folder is not None:
            return self.blobs or "beside the file"
        scheme, _, rest = self.blobs.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def names_volume(text: str) -> bool:
    """Whether a text is meant to name a volume, rightly or wrongly."""
    return text.startswith((SQLITE, *POSTGRES))


def parse_volume(text: str) -> VolumePlace:
    """What the text says. Raises `ParseError` with the right form as its hint."""
    if text.startswith(POSTGRES):
        return _in_postgres(text)
    if not text.startswith(SQLITE):
        raise _wrong("a volume lies in an SQLite file")
    name, asks, query = text.removeprefix(SQLITE).partition("?")
    file = _decoded(name)
    if file == ":memory:":
        raise ParseError("a volume lies in a file", hint='write "memory:" to keep nothing')
    if file.startswith("//"):
        # Other programs read two or three slashes here in different ways.
        raise _wrong("the file of a volume is a plain path, without //")
    if not file or file.endswith("/"):
        raise _wrong("the volume has no file")
    return _place(file, _parameters(query) if asks else {})


def _in_postgres(text: str) -> VolumePlace:
    address, asks, query = text.partition("?")
    given = _parameters(query, _SERVER_PARAMETERS) if asks else {}
    if not _ADDRESS(address) or "\0" in text:
        raise _wrong("the address of a database is not one", _POSTGRES_EXAMPLE)
    if "blobs" not in given:
        raise _wrong("where large files go is not said", _POSTGRES_EXAMPLE)
    server = [f"{key}={_encoded(given[key])}" for key in _SERVER_PARAMETERS if key in given]
    return _place(f"{address}?{'&'.join(server)}" if server else address, given)


def _place(file: str, given: dict[str, str]) -> VolumePlace:
    volume, branch = given.get("volume", "main"), given.get("branch", "main")
    _check_name("volume", volume)
    _check_name("branch", branch)
    blobs = given.get("blobs")
    if blobs is not None and "://" in blobs and not blobs.startswith(_OBJECT_STORES):
        raise ParseError("no such kind of blob store", hint="a folder, or s3://…, gs://… or az://…")
    compression = given.get("compression", "off")
    if compression not in _COMPRESSIONS:
        raise ParseError(
            f"content is not kept by {escape_for_display(compression)!r}",
            hint=f"compression is {' or '.join(_COMPRESSIONS)}",
        )
    return VolumePlace(file, volume, branch, blobs, compression)


def _parameters(query: str, more: tuple[str, ...] = ()) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in query.split("&"):
        key, equals, value = part.partition("=")
        key = _decoded(key)
        if not key:
            raise _wrong("a parameter is missing after ? or &")
        if key not in _PARAMETERS and key not in more:
            shown, example = escape_for_display(key), _POSTGRES_EXAMPLE if more else _EXAMPLE
            raise ParseError(
                f"a volume has no parameter {shown!r}",
                hint=f'{hint_for(key, (*_PARAMETERS, *more))}; "{example}"',
            )
        if key in given:
            raise _wrong(f"{key!r} is given twice")
        if not equals or not value:
            raise _wrong(f"{key!r} has no value")
        given[key] = _decoded(value)
    return given


def _check_name(what: str, name: str) -> None:
    if not _NAME(name):
        shown = escape_for_display(name)
        raise ParseError(
            f"{shown!r} is no name of a {what}",
            hint=f'letters, digits and underscores, a letter first, up to 64: "{_EXAMPLE}"',
        )


def _encoded(text: str) -> str:
    """A text as it stands in an address."""
    return _UNSAFE.sub(lambda found: f"%{found[0][0]:02X}".encode(), text.encode()).decode()


def _decoded(text: str) -> str:
    """The text with ``%3F`` for ``?``, ``%26`` for ``&`` and ``%25`` for ``%`` put back."""

    def byte(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            raise _wrong("a % stands before two hexadecimal digits; itself it is written %25")
        return bytes((int(found[1], 16),))

    try:
        plain = _ESCAPE.sub(byte, text.encode()).decode()
    except UnicodeError:
        raise _wrong("the name of a volume is valid text") from None
    if "\0" in plain:
        raise _wrong("the name of a volume holds no NUL")
    return plain


def _wrong(message: str, example: str = _EXAMPLE) -> ParseError:
    return ParseError(message, hint=f'write "{example}"')
