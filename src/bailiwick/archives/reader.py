"""Reading an archive of any format: by what it holds, never by what it is called."""

from __future__ import annotations

from typing import Final

from bailiwick.archives.bounds import Bounds, Budget
from bailiwick.archives.catalogue import Catalogue
from bailiwick.archives.entries import Need, Steps
from bailiwick.archives.formats import is_zip, packing_at
from bailiwick.archives.streams import PlainStream, Stream, UnpackedStream
from bailiwick.archives.tar_reader import BLOCK, TarReader, looks_like_header
from bailiwick.archives.zip_reader import ZipReader
from bailiwick.errors import ParseError

_HEAD_BYTES: Final = BLOCK


def read_archive(size: int, bounds: Bounds) -> Steps[list[str]]:
    """Everything in the archive of ``size`` bytes, checked, in the order in which it stands there.

    Returns the names that were left out: the directory that was archived, by its name ``.``.
    Raises at the first thing that is wrong, so that only an archive that was read to its end was
    checked. Every hand-out was checked against all that came before it.
    """
    head = (yield Need(0, min(size, _HEAD_BYTES))) if size else b""
    budget = Budget(bounds)
    catalogue = Catalogue(bounds, budget)
    reader: ZipReader | TarReader
    if is_zip(head):
        reader = ZipReader(size, bounds, budget, catalogue)
    else:
        packing = packing_at(head)
        plain = PlainStream(size)
        if packing is None and not looks_like_header(head) and not _is_empty_tar(head):
            raise ParseError("this is no archive that can be read: neither tar nor zip", status=422)
        stream: Stream = plain if packing is None else UnpackedStream(plain, packing, budget)
        reader = TarReader(stream, bounds, catalogue)
    yield from reader.entries()
    return reader.skipped


def _is_empty_tar(head: bytes) -> bool:
    return head == bytes(BLOCK)
