"""Every error on the wire: a JSON-RPC error that keeps its kind."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from bailiwick.errors import BailiwickError, escape_for_display

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
PARSE_ERROR = -32700
CANCELLED = -32800
"""What the protocol says of a request that its sender has cancelled."""

_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]").search


class RpcError(NamedTuple):
    """The error member of an answer."""

    code: int
    message: str
    data: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            shown["data"] = self.data
        return shown


def rpc_error(error: BailiwickError) -> RpcError:
    """An error of ours, with all that it takes to make the same error again at the other end.

    The protocol has one code for whatever failed inside a client, so it is the kind that tells
    what happened; only arguments that make no sense have a code of their own.
    """
    code = INVALID_PARAMS if error.kind == "parse_error" else INTERNAL_ERROR
    data: dict[str, Any] = {
        "errorKind": error.kind, "status": error.status, "category": error.category,
        "retryable": error.retryable,
    }  # fmt: skip
    for name, value in (
        ("hint", error.hint),
        ("path", error.path),
        ("decidedBy", error.decided_by),
        ("requestId", error.request_id),
    ):
        # A path that was refused for holding half a character cannot be written as UTF-8 either.
        if value is not None and not _HALF_A_CHARACTER(str(value)):
            data[name] = str(value)
    if error.details:
        data["details"] = {_camel(name): value for name, value in error.details.items()}
    return RpcError(code, escape_for_display(error.message), data)


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(part.capitalize() for part in more)
