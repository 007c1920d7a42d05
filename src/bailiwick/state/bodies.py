"""How values that name a subject are kept as bytes: MessagePack, with the subject's kind before it.

The kinds of subjects look alike once they are encoded, and their text is for people: it does not
say where a conversation's id ends. So the kind is kept beside the fields.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from bailiwick.errors import IoError, ParseError
from bailiwick.grant import SUBJECT_KINDS, Subject

Kept = TypeVar("Kept", bound=msgspec.Struct)

_KIND_OF = {cls: kind for kind, cls in SUBJECT_KINDS.items()}

_encoder = msgspec.msgpack.Encoder(enc_hook=str)


def encode(value: object) -> bytes:
    """Any value as bytes; a path in it is a text. Raises `ParseError` for half characters."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise ParseError("a text holds half a character (a lone surrogate)") from error


def subject_key(subject: Subject) -> tuple[str, ...]:
    """The subject by its kind and ids: equal for equal subjects and for no others."""
    return (_KIND_OF[type(subject)], *msgspec.structs.astuple(subject))


def made_of(kind: type[Any], plain: Any) -> Any:
    """A `dec_hook`: what is kept as plain text becomes the class that stands in the type."""
    return kind(plain)


class Bodies(Generic[Kept]):
    """Encodes and decodes one class of values that has a field ``subject``.

    A field that is new since a body was written takes its default.
    """

    def __init__(self, kept: type[Kept]) -> None:
        self._kept = kept
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for field in msgspec.structs.fields(kept):
            of_type = dict[str, str] if field.name == "subject" else field.type
            if field.required:
                fields.append((field.name, of_type))
            elif field.default is not msgspec.NODEFAULT:
                fields.append((field.name, of_type, field.default))
            else:
                made = msgspec.field(default_factory=field.default_factory)
                fields.append((field.name, of_type, made))
        self._names = [name for name, *_ in fields]
        plain = msgspec.defstruct(f"Kept{kept.__name__}", fields, kw_only=True)
        self._decoder = msgspec.msgpack.Decoder(tuple[str, plain], dec_hook=made_of)  # type: ignore[valid-type]

    def encode(self, value: Kept) -> bytes:
        subject: Subject = value.subject  # type: ignore[attr-defined]
        return encode((_KIND_OF[type(subject)], value))

    def decode(self, body: bytes) -> Kept:
        """The value of a body. One that cannot be read is a fault of the state: `IoError`."""
        try:
            kind, plain = self._decoder.decode(body)
            given = {name: getattr(plain, name) for name in self._names}
            given["subject"] = SUBJECT_KINDS[kind](**given["subject"])
            return self._kept(**given)
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise IoError(
                f"the authority's state holds a {self._kept.__name__} that cannot be read",
                hint="restore the state directory from a copy",
            ) from error
