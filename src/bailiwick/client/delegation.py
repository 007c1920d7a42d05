"""The verbs of a remote scope that pass on a part of its power."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

import msgspec

from bailiwick.client.core import RemoteCore, session_of
from bailiwick.client.failures import no_answer
from bailiwick.client.transport import RemoteRequest, segment
from bailiwick.grant import Subject, check_access, check_globs
from bailiwick.operations import Access
from bailiwick.wire import verbs


class RemoteGoverning(RemoteCore):
    """Delegation, temporary roots."""

    async def delegate(
        self,
        subject: Subject,
        *,
        access: Collection[Access] | None = None,
        path: str = ".",
        rebase: bool = False,
        allowed: Collection[str] = (),
        denied: Collection[str] = (),
        expires_in: float | None = None,
        reason: str = "",
    ) -> Self:
        """A scope for another subject, which holds at most what this one does, by a token of its
        own. Closing it ends the connection, not the grant; that ends when this grant does."""
        given = {
            **locals(), "id": self.grant.id, "subject": str(subject),
            "access": None if access is None else sorted(check_access(access)),
            "allowed": list(check_globs(allowed, "allowed")),
            "denied": list(check_globs(denied, "denied")),
        }  # fmt: skip
        document = await self._told(verbs.DELEGATE, given, rooted=False)
        token = document.get("token")
        if not isinstance(token, str):
            raise no_answer("a delegation has no token")
        transport = self._session.transport.with_token(token)
        try:
            asked = RemoteRequest(
                method="GET", route=f"{self._session.prefix}/capabilities",
                query={"fork": self._session.fork},
            )  # fmt: skip
            told = await transport.ask(asked)
            session = session_of(transport, told, self._session.fork)
        except BaseException:
            await transport.aclose()
            raise
        return type(self)(msgspec.structs.replace(session, closing=transport.aclose))

    async def create_temp(self, *, seconds: float | None = None) -> Self:
        """A private root of its own, removed when it is closed, when the server ends, or after
        ``seconds`` (a day, unless told)."""
        made = await self._told(verbs.CREATE_TEMP, locals())
        name = made.get("id")
        if not isinstance(name, str):
            raise no_answer("a temporary root has no name")

        async def close() -> None:
            asked = RemoteRequest(method="DELETE", route=f"/temp/{segment(name)}")
            await self._session.transport.ask(asked)

        transport = self._session.transport
        asked = RemoteRequest(method="GET", route=f"/roots/temp/{segment(name)}/capabilities")
        try:
            session = session_of(transport, await transport.ask(asked), None)
        except BaseException:
            await close()
            raise
        return type(self)(msgspec.structs.replace(session, closing=close))
