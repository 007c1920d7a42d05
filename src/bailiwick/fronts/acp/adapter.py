"""The file calls of a client that is built on the protocol's Python SDK.

A client hands its two file methods to a `FileSystemAdapter`, and its way of asking a person::

    class Editor(acp.Client):
        def __init__(self, scope):
            self._files = FileSystemAdapter(scope, request_permission=self.request_permission)
            self.read_text_file = self._files.read_text_file
            self.write_text_file = self._files.write_text_file
            self.ext_method = self._files.ext_method

The last is for what the protocol lacks: see `extension`. Whoever offers it says so in the
capabilities that it sends, which are the adapter's ``capabilities``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from bailiwick.approvals import Answer, Approval, Asker
from bailiwick.errors import BailiwickError, Unsupported
from bailiwick.fronts.acp import extension
from bailiwick.fronts.acp.errors import rpc_error
from bailiwick.fronts.acp.files import FileCalls, check_text
from bailiwick.fronts.acp.permissions import answer_of, permission_request
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope

if TYPE_CHECKING:
    from acp.schema import FileSystemCapabilities, ReadTextFileResponse, WriteTextFileResponse

RequestPermission = Callable[..., Awaitable[Any]]
"""How the SDK's clients ask a person: ``request_permission(options, session_id, tool_call)``."""


class FileSystemAdapter:
    """``fs/read_text_file`` and ``fs/write_text_file``, from a scope.

    The calls are made as ``agent_run:acp/<session>``, also on a scope that a person opened, so that
    the rules for agents hold. Where a rule wants a person asked it is by ``request_permission``;
    without it, as the scope's own authority has people asked. Errors of Bailiwick arrive at the
    agent with their kind; other exceptions pass untouched.
    """

    def __init__(
        self,
        scope: Scope | SyncScope,
        *,
        request_permission: RequestPermission | None = None,
        session: str | None = None,
    ) -> None:
        _require_sdk()
        self._mount_point = scope.root.mount_point.rstrip("/")
        self._calls = FileCalls(scope, session=session or secrets.token_hex(4), shown=self._shown)
        self._trusted = scope.root.trusted
        self._access = scope.access
        self._powers = scope.powers
        self._request_permission = request_permission

    @property
    def capabilities(self) -> FileSystemCapabilities:
        """What a client says of its files when it begins: ``ClientCapabilities(fs=…)``."""
        from acp.schema import FileSystemCapabilities

        more = extension.served(self._access, self._powers, trusted=self._trusted)
        return FileSystemCapabilities(
            read_text_file="read" in self._access,
            write_text_file="write" in self._access and self._trusted,
            field_meta=extension.announcement(more),
        )

    async def read_text_file(
        self,
        session_id: str,
        path: str,
        line: int | None = None,
        limit: int | None = None,
        **more: Any,
    ) -> ReadTextFileResponse:
        """The text of a regular file, or a window of its lines; at most 100 MiB."""
        from acp.schema import ReadTextFileResponse

        try:
            got = await self._calls.read(path, line, limit, asker=self._asker(session_id))
        except BailiwickError as error:
            raise _request_error(error) from error
        about = extension.about(sha256=got.sha256)
        return ReadTextFileResponse(content=got.text, field_meta=about)

    async def write_text_file(
        self, session_id: str, path: str, content: str, **more: Any
    ) -> WriteTextFileResponse:
        """Write the whole of a text file, atomically. ``more`` is the call's ``_meta``."""
        from acp.schema import WriteTextFileResponse

        try:
            done = await self._calls.write(
                path, content, expected_sha256=extension.expected_sha256(more),
                asker=self._asker(session_id),
            )  # fmt: skip
        except BailiwickError as error:
            raise _request_error(error) from error
        about = extension.about(sha256=done.sha256, requestId=done.request_id)
        return WriteTextFileResponse(field_meta=about)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A method of `extension`, by its name without the underscore, as the SDK gives it. Any
        other is not found: a client that has some of its own looks for them first."""
        from acp import RequestError

        if f"_{method}" not in extension.CALLS:
            raise RequestError.method_not_found(f"_{method}")
        try:
            asker = self._asker(check_text("sessionId", params.get("sessionId")))
            return await extension.answer(self._calls, f"_{method}", params, asker)
        except BailiwickError as error:
            raise _request_error(error) from error

    async def aclose(self) -> None:
        """Let go of the agent's grant. The scope is closed by whoever opened it."""
        await self._calls.aclose()

    def _asker(self, session_id: str) -> Asker | None:
        """Asks by the client, on the client's own loop: a scope may live on another."""
        ask = self._request_permission
        if ask is None:
            return None
        home = asyncio.get_running_loop()

        async def put(approval: Approval) -> Answer | None:
            from acp.schema import RequestPermissionRequest

            asked = RequestPermissionRequest.model_validate(
                permission_request(approval, session_id, self._shown)
            )
            answer = await ask(
                options=asked.options, session_id=session_id, tool_call=asked.tool_call
            )
            return answer_of(answer.model_dump(mode="json", by_alias=True))

        async def put_at_home(approval: Approval) -> Answer | None:
            if asyncio.get_running_loop() is home:
                return await put(approval)
            asked = asyncio.run_coroutine_threadsafe(put(approval), home)
            return await asyncio.wrap_future(asked)

        return put_at_home

    def _shown(self, path: str) -> str:
        return self._mount_point or "/" if path == "." else f"{self._mount_point}/{path}"


def _request_error(error: BailiwickError) -> Exception:
    from acp import RequestError

    return RequestError(*rpc_error(error))


def _require_sdk() -> None:
    try:
        import acp  # noqa: F401
    except ImportError:
        raise Unsupported(
            "the adapter needs the package agent-client-protocol",
            hint="pip install 'bailiwick[acp]'",
        ) from None
