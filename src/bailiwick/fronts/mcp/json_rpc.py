"""Messages as they come and go: JSON-RPC, in both dialects of the protocol.

Until 2025-11-25 a client shakes hands once (`initialize`); from 2026-07-28 on each request carries
who asks and what they can do, in an envelope. What the first request does decides for good.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import msgspec

from bailiwick.errors import BailiwickError

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE_VERSIONS: Final = ("2026-07-28",)

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
UNSUPPORTED_VERSION: Final = -32022
RESOURCE_NOT_FOUND: Final = -32002
"""Of the handshake's dialect; the other one says `INVALID_PARAMS`."""

RequestId = int | str


class RpcRefusal(Exception):
    """A request that ends with an error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_error(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


def refused(error: BailiwickError, told: dict[str, Any], *, modern: bool) -> RpcRefusal:
    """What an error of a scope is where there is no tool to answer with it."""
    code = INTERNAL_ERROR
    if error.kind == "path_not_found":
        code = INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
    elif error.kind in ("parse_error", "root_not_found", "path_outside_workspace"):
        code = INVALID_PARAMS
    data = {key: value for key, value in told.items() if key not in ("ok", "message")}
    return RpcRefusal(code, told["message"], data)


def no_method(method: str) -> RpcRefusal:
    return RpcRefusal(METHOD_NOT_FOUND, "Method not found", method)


def wrong_params() -> RpcRefusal:
    return RpcRefusal(INVALID_PARAMS, "Invalid request parameters", "")


# --- what comes ----------------------------------------------------------------------------------


class Incoming(msgspec.Struct):
    """A request, a notification or an answer; which of them is seen by what it has."""

    jsonrpc: str = ""
    id: RequestId | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: Any = msgspec.UNSET

    @property
    def is_sensible(self) -> bool:
        """Whether it is one of the three at all."""
        if self.method is msgspec.UNSET:
            return self.result is not msgspec.UNSET or self.error is not msgspec.UNSET
        return self.id is not None


class Params(msgspec.Struct, rename="camel"):
    """The base of what requests take. What else there is in them is nobody's concern here."""

    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class ListParams(Params):
    cursor: str | None = None


class AskedAgain(Params):
    """What a request has when it comes again with what the client was asked for."""

    input_responses: dict[str, Any] | None = None
    request_state: str | None = None


class CallParams(AskedAgain, kw_only=True):
    name: str
    arguments: dict[str, Any] | None = None


class ReadParams(AskedAgain, kw_only=True):
    uri: str


class SubscribeParams(Params, kw_only=True):
    uri: str


class TemplateRef(msgspec.Struct, tag_field="type", tag="ref/resource"):
    uri: str


class PromptRef(msgspec.Struct, tag_field="type", tag="ref/prompt"):
    name: str


class Variable(msgspec.Struct):
    name: str
    value: str


class KnownArguments(msgspec.Struct):
    """What was chosen for other variables before."""

    arguments: dict[str, str] | None = None


class CompleteParams(Params, kw_only=True):
    ref: TemplateRef | PromptRef
    argument: Variable
    context: KnownArguments | None = None


class WantedChanges(msgspec.Struct, rename="camel"):
    """The changes that a client wants to hear of."""

    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class ListenParams(Params, kw_only=True):
    notifications: WantedChanges


class InitializeParams(Params, kw_only=True):
    protocol_version: str
    capabilities: dict[str, Any]
    client_info: dict[str, Any]


class CancelledParams(Params):
    request_id: RequestId | None = None


# --- what goes -----------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()


def result_line(request_id: RequestId, result: dict[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_line(request_id: RequestId | None, error: RpcRefusal) -> bytes:
    return _line({"jsonrpc": "2.0", "id": request_id, "error": error.as_error()})


def notification_line(method: str, params: dict[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def request_line(request_id: RequestId, method: str, params: dict[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def _line(message: dict[str, Any]) -> bytes:
    return _encoder.encode(message) + b"\n"


_CACHEABLE = frozenset((
    "server/discover", "tools/list", "resources/list", "resources/templates/list",
    "resources/read",
))  # fmt: skip


def completed(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """A result as the envelope's dialect has it: it says of itself what it is, and how long it may
    be kept. Files change at any time, so that is not at all."""
    if "resultType" in result:
        return result
    kept = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {}
    return {**result, "resultType": "complete", **kept}


# --- the envelope --------------------------------------------------------------------------------


def capabilities_in(meta: dict[str, Any] | None) -> Any:
    """What the client can do, by the envelope of a request. Raises `RpcRefusal`."""
    if meta is None:
        _refuse_envelope(
            f"params._meta must be an object carrying the required {VERSION_KEY!r} and"
            f" {CAPABILITIES_KEY!r} envelope keys"
        )
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        _refuse_envelope(
            f"params._meta is missing the required envelope key(s): {', '.join(missing)}"
        )
    version = meta[VERSION_KEY]
    if not isinstance(version, str):
        _refuse_envelope(f"{VERSION_KEY} must be a string")
    if version not in ENVELOPE_VERSIONS:
        raise RpcRefusal(
            UNSUPPORTED_VERSION, "Unsupported protocol version",
            {"supported": list(ENVELOPE_VERSIONS), "requested": version},
        )  # fmt: skip
    return meta[CAPABILITIES_KEY]


def _refuse_envelope(why: str) -> NoReturn:
    raise RpcRefusal(INVALID_PARAMS, why)


def can_elicit(capabilities: Any) -> bool:
    """Whether a client can put a form to its person. One that says nothing of modes has forms."""
    declared = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(declared, dict) and (not declared or "form" in declared)
