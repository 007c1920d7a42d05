"""The roots of one subject, asked for by what they are for and not by name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from bailiwick.errors import MissingAccess, RootNotFound
from bailiwick.grant import Extension, Root, Subject
from bailiwick.operations import Access
from bailiwick.scope import Scope


class HandsOutRoots(Protocol):
    """An authority, as far as one subject asks it."""

    def roots(self) -> list[Root]: ...

    async def request_root(
        self, subject: Subject | str, root: str, access: Collection[Access], reason: str
    ) -> Scope: ...

    async def request_temp(
        self, subject: Subject, reason: str, *, seconds: float | None = None
    ) -> Scope: ...


class SubjectRoots:
    """The roots of one subject, by what they are for."""

    def __init__(self, authority: HandsOutRoots, subject: Subject) -> None:
        self._authority = authority
        self._subject = subject

    async def workspace(
        self, access: Collection[Access], reason: str, *, id: str | None = None
    ) -> Scope:
        """The workspace; by ``id`` where there are several."""
        name = f"workspace:{id}" if id is not None else self._only("workspace")
        return await self._authority.request_root(self._subject, name, access, reason)

    async def extension_storage(self, access: Collection[Access], reason: str) -> Scope:
        """The private files of the extension that asks."""
        if not isinstance(self._subject, Extension):
            raise MissingAccess("only an extension has storage of its own")
        name = f"extension-storage:{self._subject.extension_id}"
        return await self._authority.request_root(self._subject, name, access, reason)

    async def temp(self, reason: str, *, seconds: float | None = None) -> Scope:
        """A private root, removed when it is closed, when its time is up, or with the process."""
        return await self._authority.request_temp(self._subject, reason, seconds=seconds)

    def _only(self, kind: str) -> str:
        names = [str(root) for root in self._authority.roots() if root.kind == kind]
        if len(names) != 1:
            raise RootNotFound(
                f"there is no {kind}" if not names else f"there are {len(names)} {kind}s",
                hint=None if not names else "say which, by its id",
            )
        return names[0]
