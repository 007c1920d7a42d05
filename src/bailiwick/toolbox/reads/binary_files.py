"""What is told of a file that is no text: a picture is shown, of any other size, type and hash."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from bailiwick.errors import BinaryFile
from bailiwick.model import MiB
from bailiwick.text.mime import BINARY, PLAIN, by_content, by_name
from bailiwick.text.sniff import TEXT_PROBE_BYTES
from bailiwick.toolbox.answer import Answered, Image
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.hints import (
    LOOK_BY_COMMAND,
    NAME_THE_ENCODING,
    NAME_THIS_ENCODING,
    Advice,
)
from bailiwick.toolbox.results import FilePart, FileRead

PICTURES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""What models see: the kinds that all providers take."""

_HASHED_BYTES_MAX: Final = 64 * MiB
"""A larger file is not read whole for its hash: nobody who asked what it is waits for that."""


class NoText(NamedTuple):
    """A file that is no text. ``image`` is there where it can be shown."""

    path: str
    mime_type: str
    size: int
    sha256: str | None
    hint: Advice | None
    image: Image | None

    @property
    def words(self) -> str:
        """What it is, in a line of our own: nothing of its content stands in it."""
        hashed = "" if self.sha256 is None else f", sha256 {self.sha256}"
        what = "not text" if self.image is None else "a picture"
        hint = "" if self.hint is None else f"; {self.hint}"
        return f"{what}: {self.mime_type}, {self.size} bytes{hashed}{hint}"

    def alone(self) -> Answered:
        text = f"[{self.words}]"
        result = FileRead(
            text=text, mime_type=self.mime_type, size=self.size, sha256=self.sha256, hint=self.hint
        )
        return Answered(result, lambda: text, () if self.image is None else (self.image,))

    def part(self) -> FilePart:
        return FilePart(
            path=self.path, mime_type=self.mime_type, size=self.size, sha256=self.sha256,
            hint=self.hint,
        )  # fmt: skip


async def no_text(bench: Bench, path: str, error: BinaryFile, image_bytes_max: int) -> NoText:
    """Look at a file that is no text; a picture of at most so many bytes is shown."""
    beginning = await bench.scope.read_bytes(path, 0, TEXT_PROBE_BYTES)
    kind, size = by_content(beginning.data), beginning.size
    if kind in PICTURES and size <= image_bytes_max:
        data = (await bench.scope.read_bytes(path, 0, size)).data
        return NoText(path, kind, size, _sha256(data), None, Image(kind, data))
    if kind in (BINARY, PLAIN):
        kind = by_name(str(beginning.path).rpartition("/")[2]) or BINARY
    # Bytes that no text holds are one thing, a text in another encoding is another.
    hint = NAME_THE_ENCODING if "encoding" in error.details else LOOK_BY_COMMAND
    likely = error.details.get("likely_encoding")
    if likely is not None:
        hint = NAME_THIS_ENCODING
    sha256 = await _hash(bench, path, size)
    return NoText(path, kind, size, sha256, bench.advise(hint, likely=likely), None)


async def _hash(bench: Bench, path: str, size: int) -> str | None:
    if size > _HASHED_BYTES_MAX:
        return None
    return _sha256((await bench.scope.read_bytes(path, 0, _HASHED_BYTES_MAX)).data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
