"""Reading and writing text and small content."""

from __future__ import annotations

from bailiwick.errors import FileTooLarge
from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import from_query, route
from bailiwick.wire import Document, values, verbs
from bailiwick.wire.arguments import BYTES_DEFAULT

_read_text = from_query("read_text", verbs.READ_TEXT)
_read_bytes = from_query("read_bytes", verbs.READ_BYTES)


async def read_file(request: Request) -> Document:
    query = request.query
    path = query["path"]
    scope = await request.scoped(path)
    if len(query) == 1:
        return values.FILE.write(await scope.read_text(path))
    most, given = query.get("max_bytes"), _read_text(query)
    if most is not None:
        scope = scope.with_text_max(most)
    try:
        return values.FILE.write(await scope.read_text(**given))
    except FileTooLarge:
        if most is None or not given.keys().isdisjoint(_WINDOW):
            raise
        return values.FILE.write(await scope.read_text(line=1, **given))


_WINDOW = ("line", "limit", "tail", "cursor")


async def read_file_bytes(request: Request) -> Document:
    query = request.query
    scope = await request.scoped(query["path"])
    read = await scope.read_bytes(
        length=query.get("max_bytes", BYTES_DEFAULT), **_read_bytes(query)
    )
    return values.FILE_BYTES.write(read)


ROUTES: tuple[Route, ...] = (
    route(verbs.READ_TEXT, read_file),
    route(verbs.READ_BYTES, read_file_bytes),
    route(verbs.WRITE_TEXT),
    route(verbs.EDIT),
    route(verbs.APPEND),
    route(verbs.TRUNCATE),
)
