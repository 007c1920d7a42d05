"""A transaction over HTTP: changes that are kept here, and sent as one request at the end.

The server has seen nothing before that. So nothing can be read inside, and what a change results in
is known when all of it is done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, NoReturn, Self, cast

from bailiwick.client.core import NOTHING, RemoteCore, RemoteSession, SessionLife
from bailiwick.client.failures import no_answer
from bailiwick.client.transport import RemoteRequest, encoded
from bailiwick.client.values import asked, rebuilt
from bailiwick.errors import Closed, FileTooLarge, Unsupported
from bailiwick.model import WriteResult
from bailiwick.wire.forms import Value
from bailiwick.wire.names import base64_of
from bailiwick.wire.verbs import Verb


class LaterResult:
    """The result of a change that is made when the transaction ends. Has the fields of the result
    then; before, they are `Unsupported`."""

    def __init__(self, cls: type[Any], first: int, last: int) -> None:
        self._cls = cls
        self._first = first
        self._last = last
        self._result: Any = None

    def __repr__(self) -> str:
        return f"<Later {self._cls.__name__}>" if self._result is None else repr(self._result)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._result is None:
            raise Unsupported(
                f"{name} is known when the transaction has ended: over HTTP it is one request"
            )
        return getattr(self._result, name)

    def settle(self, results: list[Any]) -> None:
        """What came of it. Several operations are told as one: made by the first, left by the
        last."""
        result = rebuilt(self._cls, results[self._last])
        if self._first != self._last:
            first = results[self._first]
            known = {name: first.get(name) for name in ("mode", "created")}
            result = rebuilt(self._cls, {**results[self._last], **known})
        self._result = result


class Buffering(RemoteCore):
    """The verbs of a remote scope inside a transaction."""

    def __init__(self, session: RemoteSession, life: SessionLife | None = None) -> None:
        super().__init__(session, life)
        self.operations: list[dict[str, object]] = []
        self._later: list[LaterResult] = []
        self._bytes = 0
        self._ended = False

    def end(self) -> None:
        """No more changes."""
        self._ended = True

    def settle(self, document: Mapping[str, Any]) -> None:
        """Tell all results, from what the batch was answered with."""
        outcomes = document.get("results")
        if not isinstance(outcomes, list) or len(outcomes) != len(self.operations):
            raise no_answer("it does not say what came of each change")
        results = [each.get("result") if isinstance(each, dict) else None for each in outcomes]
        for later in self._later:
            later.settle(results)

    async def aclose(self) -> None:
        """Nothing: a transaction ends with its block."""

    async def _done(
        self, verb: Verb[Value], given: Mapping[str, Any], beside: Mapping[str, object] = NOTHING
    ) -> Value:
        if not verb.batched:
            _refuse()
        self._keep(verb.short, {**asked(verb, given), **beside})
        return self._promised(verb.form.of, 1)

    async def _put(
        self, content: bytes | AsyncGenerator[bytes, None], query: dict[str, Any]
    ) -> WriteResult:
        """Bytes that need not be text: an empty file, to which they are added."""
        if not isinstance(content, bytes):
            raise Unsupported(
                "a stream is not part of a transaction over HTTP, which is one request",
                hint="use write_bytes",
            )
        self._keep("write", {**query, "content": "", "encoding": "utf-8", "bom": False})
        if not content:
            return self._promised(WriteResult, 1)
        added = base64_of(content)
        kept = {name: query.get(name) for name in ("path", "lockToken")}
        self._keep("append", {**kept, "contentBase64": added})
        return self._promised(WriteResult, 2)

    def _keep(self, operation: str, body: Mapping[str, object]) -> None:
        self._refuse_closed()
        if self._ended:
            raise Closed("this transaction has ended")
        kept = {name: value for name, value in body.items() if value is not None}
        self._bytes += len(encoded(kept))
        limit = self._session.body_bytes_max
        if self._bytes > limit:
            raise FileTooLarge(
                f"a transaction over HTTP is one request, of at most {limit} bytes",
                hint="change less at once", details={"limit": limit},
            )  # fmt: skip
        self.operations.append({"op": operation, **kept})

    def _promised(self, cls: type[Value], operations: int) -> Value:
        last = len(self.operations) - 1
        later = LaterResult(cls, last - operations + 1, last)
        self._later.append(later)
        return cast(Value, later)

    def _asked(self, *_: Any, **__: Any) -> RemoteRequest:
        _refuse()

    def _with(self, **changes: Any) -> Self:
        _refuse()


def _refuse() -> NoReturn:
    raise Unsupported(
        "inside a transaction over HTTP there are only changes: it is sent when it ends",
        hint="read before it begins, or after it has ended",
    )
