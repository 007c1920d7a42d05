"""Files and directories as resources: of any size, by ranges of bytes.

A file that is small text comes as text. Everything else comes as bytes: the whole of it, or as much
as one answer takes, with the address of what follows. A directory is a page of addresses. So from
the list of what lies at the top, everything can be reached, and nothing is cut off silently.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from bailiwick.errors import IsADirectory, ParseError
from bailiwick.fronts.mcp.addresses import TEMPLATE, Address
from bailiwick.model import BytesRead, Entry, MiB, Page
from bailiwick.scope import Scope
from bailiwick.text.mime import BINARY, by_content, by_name
from bailiwick.text.sniff import TEXT_PROBE_BYTES

READ_BYTES_MAX = 1 * MiB
"""Of a file in one answer: a third more as base64, which every client takes."""

PAGE_ENTRIES = 500
"""Of a directory in one answer."""

DIRECTORY = "inode/directory"
_JSON = "application/json"

_encode = msgspec.json.Encoder().encode


def templates(roots: list[str]) -> dict[str, Any]:
    names = ", ".join(roots)
    return {
        "resourceTemplates": [{
            "uriTemplate": TEMPLATE, "name": "file",
            "description": f"A file or directory of {names}. offset and length are bytes; without"
            f" them it is the whole, or its first {READ_BYTES_MAX} bytes and the address of the"
            " next ones in _meta.",
        }]
    }  # fmt: skip


async def read(scope: Scope, address: Address) -> dict[str, Any]:
    """The content of a resource. Raises the errors of a scope."""
    if address.cursor is not None:
        return await _read_directory(scope, address)
    length = READ_BYTES_MAX if address.length is None else min(address.length, READ_BYTES_MAX)
    try:
        found = await scope.read_bytes(address.path, address.offset or 0, length)
    except IsADirectory:
        if address.is_range:
            raise
        return await _read_directory(scope, address)
    return {"contents": [_content(found, address)]}


def _content(found: BytesRead, address: Address) -> dict[str, Any]:
    whole = found.offset == 0 and not found.truncated
    probe = found.data[:TEXT_PROBE_BYTES] if found.offset == 0 else b""
    kind = by_name(str(found.path)) or (by_content(probe) if found.offset == 0 else BINARY)
    content: dict[str, Any] = {"uri": address.text(), "mimeType": kind}
    text = _text(found.data) if whole and not address.is_range else None
    if text is not None:
        content["text"] = text
    else:
        content["blob"] = base64.b64encode(found.data).decode("ascii")
    meta: dict[str, Any] = {
        "bailiwick/size": found.size, "bailiwick/offset": found.offset,
        "bailiwick/version": found.version,
    }  # fmt: skip
    end = found.offset + len(found.data)
    if found.truncated and found.data:
        meta["bailiwick/next"] = address._replace(offset=end).text()
    content["_meta"] = meta
    return content


def _text(data: bytes) -> str | None:
    """The text that bytes are; None where they are none. As it is: a mark at its beginning too, so
    that whoever encodes it has the same bytes again."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


async def _read_directory(scope: Scope, address: Address) -> dict[str, Any]:
    if address.is_range:
        raise ParseError("a cursor is for a directory, offset and length are for a file")
    page = await _page(scope, address)
    entries = [described(entry, address.root) for entry in page.entries if entry.addressable]
    listing: dict[str, Any] = {"entries": entries}
    if page.next_cursor is not None:
        listing["next"] = address._replace(cursor=page.next_cursor).text()
    content = {"uri": address.text(), "mimeType": _JSON, "text": _encode(listing).decode()}
    return {"contents": [content]}


async def _page(scope: Scope, address: Address) -> Page:
    limit = min(PAGE_ENTRIES, scope.limits.list_page_max)
    return await scope.list(address.path, cursor=address.cursor, limit=limit, include_ignored=True)


async def page_of_top(scope: Scope, root: str, cursor: str | None) -> Page:
    """What lies at the top of a root."""
    return await _page(scope, Address(root, ".", cursor=cursor))


def described(entry: Entry, root: str) -> dict[str, Any]:
    """An entry of a directory as a resource."""
    told: dict[str, Any] = {"uri": Address(root, str(entry.path)).text(), "name": entry.name}
    if entry.type == "directory":
        told["mimeType"] = DIRECTORY
    elif entry.type == "file":
        told["mimeType"] = by_name(entry.name) or BINARY
        if entry.size is not None:
            told["size"] = entry.size
    return told
