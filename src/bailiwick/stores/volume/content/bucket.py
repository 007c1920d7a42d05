"""The objects of a bucket, each as what it is: for whoever shows them as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bailiwick.errors import ParseError
from bailiwick.stores.volume.content.object_store import (
    ObjectBlobs,
    failures,
    is_missing,
    open_blobs,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta

Seen = TypeVar("Seen")


class ListedKeys(NamedTuple):
    """The objects and the directories with a prefix, by their last names."""

    files: list[ListedObject]
    directories: list[str]


class ListedObject(NamedTuple):
    name: str
    size: int
    mtime_ns: int
    version: str


class Bucket:
    """Reads objects. Its methods block."""

    def __init__(self, place: ObjectBlobs) -> None:
        self._place = place

    @property
    def description(self) -> str:
        return self._place.description

    def look(self, key: str) -> ListedObject | None:
        import obstore

        return self._asked(lambda: _object(obstore.head(self._place.store, key)))

    def has_beneath(self, key: str) -> bool:
        import obstore

        def asked() -> bool:
            pages = obstore.list(self._place.store, f"{key}/", chunk_size=1)
            try:
                return any(_is_beneath(each["path"], key) for page in pages for each in page)
            except obstore.exceptions.InvalidPathError:
                return True  # what is told there is no path: but it is there

        return self._asked(asked) is True

    def listed(self, key: str) -> ListedKeys:
        import obstore

        def asked() -> ListedKeys:
            prefix = f"{key}/" if key else None
            found = obstore.list_with_delimiter(self._place.store, prefix)
            files = [_object(each) for each in found["objects"] if _is_beneath(each["path"], key)]
            return ListedKeys(files, [_last(each) for each in found["common_prefixes"]])

        return self._asked(asked) or ListedKeys([], [])

    def read(self, key: str, offset: int, length: int, version: str) -> bytes | None:
        import obstore

        def asked() -> bytes | None:
            wanted: dict[str, object] = {"range": (offset, offset + length)}
            try:
                found = obstore.get(self._place.store, key, options=wanted)  # type: ignore[arg-type]
                return bytes(found.bytes()) if _object(found.meta).version == version else None
            except obstore.exceptions.PreconditionError:
                return None

        return self._asked(asked)

    def close(self) -> None:
        self._place.close()

    def _asked(self, asked: Callable[[], Seen]) -> Seen | None:
        try:
            return asked()
        except ValueError:
            return None  # no object can be asked for by such a key: one with a line feed
        except failures() as error:
            if is_missing(error):
                return None
            raise self._place.explained(error) from error


def open_bucket(url: str) -> Bucket:
    """The bucket that an address names, as `open_blobs` reads it."""
    place = open_blobs(url)
    if not isinstance(place, ObjectBlobs):
        raise ParseError("a bucket is s3://…, gs://… or az://…")
    return Bucket(place)


def _object(meta: ObjectMeta) -> ListedObject:
    mtime_ns = int(meta["last_modified"].timestamp() * 1_000_000_000)
    version = meta.get("e_tag") or f"{mtime_ns}-{meta['size']}"
    return ListedObject(_last(meta["path"]), meta["size"], mtime_ns, str(version).strip('"'))


def _is_beneath(path: str, key: str) -> bool:
    """The mark that some programs leave for a directory is not in it."""
    return path.strip("/") != key and path.startswith(f"{key}/" if key else "")


def _last(path: str) -> str:
    return path.strip("/").rpartition("/")[2]
