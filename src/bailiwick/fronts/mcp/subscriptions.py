"""Subscriptions over pipes, in both dialects: by single addresses, or by one long request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

from bailiwick.errors import BailiwickError
from bailiwick.fronts.mcp.json_rpc import WantedChanges, refused
from bailiwick.fronts.mcp.notifications import Interest, concerns_top, following
from bailiwick.fronts.mcp.review_notes import reviewed_root
from bailiwick.fronts.mcp.service import Service
from bailiwick.model import Change
from bailiwick.toolbox import failure

UPDATED: Final = "notifications/resources/updated"
LISTED: Final = "notifications/resources/list_changed"

Notify = Callable[[str, dict[str, Any]], None]

_SUBSCRIPTIONS_MAX = 1_000
"""Addresses that one client may follow: each change is held against all of them."""


class Subscriptions:
    """The addresses that a client subscribed to one by one. Roots are followed from the first."""

    def __init__(self, service: Service, notify: Notify) -> None:
        self._service = service
        self._notify = notify
        self._interest = Interest()
        self._followed: set[str] = set()
        self._reviews: dict[str, Callable[[], None]] = {}
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()

    async def add(self, uri: str) -> None:
        """Raises `Refusal`."""
        try:
            root = reviewed_root(uri)
            if root is not None:
                await self._add_review(root, uri)
                return
            address, box = self._service.resource(uri)
            async with self._turn:
                if address.root not in self._followed:
                    await self._stack.enter_async_context(
                        following([(address.root, box)], self._heard)
                    )
                    self._followed.add(address.root)
            self._interest.add(uri, address, limit=_SUBSCRIPTIONS_MAX)
        except BailiwickError as error:
            raise refused(error, failure(error), modern=False) from None

    async def _add_review(self, root: str, uri: str) -> None:
        async with self._turn:
            if uri not in self._reviews:
                self._reviews[uri] = await self._service.follow_review(
                    root, lambda: self._notify(UPDATED, {"uri": uri})
                )

    def remove(self, uri: str) -> None:
        self._interest.remove(uri)
        self._reviews.pop(uri, _nothing)()

    async def aclose(self) -> None:
        async with self._turn:
            for uri in list(self._reviews):
                self._reviews.pop(uri)()
            await self._stack.aclose()

    def _heard(self, root: str, change: Change) -> None:
        for uri in self._interest.touched(root, change):
            self._notify(UPDATED, {"uri": uri})


class Listening:
    """One long request for changes. What cannot be followed is not acknowledged."""

    def __init__(self, service: Service, wanted: WantedChanges) -> None:
        self._service = service
        self._wanted = wanted
        self._interest = Interest()
        self._changed: dict[str, None] = {}
        self._woken = asyncio.Event()

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[dict[str, Any]]:
        """Follow, until this is left; what is acknowledged."""
        service, wanted = self._service, self._wanted
        honoured: dict[str, Any] = {}
        async with AsyncExitStack() as stack:
            if service.has_resources:
                followed = await self._follow(stack)
                addresses = [*self._subscribed(followed), *await self._follow_reviews(stack)]
                if addresses:
                    honoured["resourceSubscriptions"] = addresses
                if wanted.resources_list_changed and followed == set(service.boxes):
                    self._interest.lists = True
                    honoured["resourcesListChanged"] = True
            yield honoured

    async def tell(self, notify: Notify, closing: asyncio.Event) -> None:
        """Tell changes until the server closes. What changed twice before it was told is told
        once: a client reads it anew in any case."""
        ending = asyncio.ensure_future(closing.wait())
        ending.add_done_callback(lambda _: self._woken.set())
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                changed, self._changed = self._changed, {}
                for uri in changed:
                    if uri:
                        notify(UPDATED, {"uri": uri})
                    else:
                        notify(LISTED, {})
                if closing.is_set():
                    return
        finally:
            ending.cancel()

    async def _follow(self, stack: AsyncExitStack) -> set[str]:
        """Follow the roots that are asked about and may be watched."""
        asked = set(self._service.boxes) if self._wanted.resources_list_changed else set()
        for uri in self._wanted.resource_subscriptions or ():
            try:
                asked.add(self._service.resource(uri)[0].root)
            except BailiwickError:
                continue
        followed: set[str] = set()
        for root in sorted(asked):
            box = self._service.boxes[root]
            try:
                await stack.enter_async_context(following([(root, box)], self._heard))
            except BailiwickError:
                continue
            followed.add(root)
        return followed

    async def _follow_reviews(self, stack: AsyncExitStack) -> list[str]:
        """Follow the reviews that are asked about; a rejection makes the list another one, too."""
        addresses: list[str] = []
        for uri in self._wanted.resource_subscriptions or ():
            try:
                root = reviewed_root(uri)
                if root is None or len(addresses) >= len(self._service.boxes):
                    continue
                stack.callback(
                    await self._service.follow_review(root, partial(self._heard_review, uri))
                )
            except BailiwickError:
                continue
            addresses.append(uri)
        return addresses

    def _heard_review(self, uri: str) -> None:
        self._changed[uri] = None
        if self._interest.lists:
            self._changed[""] = None
        self._woken.set()

    def _subscribed(self, followed: set[str]) -> list[str]:
        addresses: list[str] = []
        for uri in self._wanted.resource_subscriptions or ():
            try:
                address, _ = self._service.resource(uri)
                if address.root in followed:
                    self._interest.add(uri, address, limit=_SUBSCRIPTIONS_MAX)
                    addresses.append(uri)
            except BailiwickError:
                continue
        return addresses

    def _heard(self, root: str, change: Change) -> None:
        for uri in self._interest.touched(root, change):
            self._changed[uri] = None
        if self._interest.lists and concerns_top(change):
            self._changed[""] = None
        if self._changed:
            self._woken.set()


def _nothing() -> None:
    """There is nothing to end."""
