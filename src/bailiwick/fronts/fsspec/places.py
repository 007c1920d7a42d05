"""The filesystems that fsspec makes from a URL: each opens its place when it is first used.

The place and what lies in it stand in one URL::

    bailiwick://127.0.0.1:4180/workspace/demo/data/a.parquet
    bailiwick+file://./project!/data/a.csv
    bailiwick+sqlite:///srv/agent.db?volume=main!/data/a.csv

What stands before ``!/`` is the place, what stands after it a path in it, as in URLs of archives.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote, unquote

from fsspec.asyn import AsyncFileSystem, sync  # type: ignore[import-untyped]

from bailiwick.errors import ParseError
from bailiwick.fronts.fsspec.filesystem import BailiwickFileSystem, bridge_to
from bailiwick.scope import Scope
from bailiwick.toolbox.bridging import Bridge

TOKEN_VARIABLE = "BAILIWICK_TOKEN"

_SEPARATOR = "!/"

_server = re.compile(
    r"(?P<host>[^/?#@]+)/(?P<kind>[^/?#]+)/(?P<id>[^/?#]+)(?:/(?P<path>.*))?"
).match


class PlaceFileSystem(BailiwickFileSystem):
    """A filesystem that knows where its scope is, and opens it when it is first used.

    It stays open as long as the process does, or until `close`.
    """

    cachable = True

    def __init__(
        self,
        *,
        asynchronous: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
        **more: Any,
    ) -> None:
        AsyncFileSystem.__init__(self, asynchronous=asynchronous, loop=loop, **more)
        self._bridge: Bridge | None = None
        self._opened: AbstractAsyncContextManager[Any] | None = None
        self._opening = asyncio.Lock()

    __hash__ = AsyncFileSystem.__hash__
    __eq__ = AsyncFileSystem.__eq__

    def _place_to_open(self) -> AbstractAsyncContextManager[Any]:
        """The scope about to be opened."""
        raise NotImplementedError

    async def _bridged(self) -> Bridge:
        if self._bridge is None:
            async with self._opening:
                if self._bridge is None:
                    opened = self._place_to_open()
                    scope: Scope = await opened.__aenter__()
                    self._opened = opened
                    self._bridge = bridge_to(scope, asyncio.get_running_loop())
        return self._bridge

    async def _aclose(self) -> None:
        bridge, self._bridge = self._bridge, None
        opened, self._opened = self._opened, None
        if bridge is not None and opened is not None:
            await bridge.run(lambda: _leave(opened))

    def close(self) -> None:
        """Let go of the place. It is opened again when it is next used."""
        sync(self.loop, self._aclose)


async def _leave(opened: AbstractAsyncContextManager[Any]) -> None:
    await opened.__aexit__(None, None, None)


class _LocalFileSystem(PlaceFileSystem):
    """A place of this machine, named before ``!/``."""

    def __init__(self, place: str = "", **more: Any) -> None:
        """``more`` may hold options of `bailiwick.open`, such as ``trusted`` or ``access``."""
        from bailiwick.build.options import OpenOptions

        if not isinstance(place, str) or not place:
            raise ParseError("no place is named", hint=f"for example {self._example}")
        options = {name: more.pop(name) for name in OpenOptions.__annotations__ if name in more}
        super().__init__(**more)
        self._place = place
        self._options = options

    _example = ""

    @classmethod
    def _path_in(cls, rest: str) -> str:
        return rest.partition(_SEPARATOR)[2]

    def unstrip_protocol(self, name: str) -> str:
        if name.startswith(f"{self.protocol}://"):
            return name
        return f"{self.protocol}://{self._place}{_SEPARATOR}{self._strip_protocol(name)}"


class DirectoryFileSystem(_LocalFileSystem):
    """``bailiwick+file://./project!/data/a.csv``: a directory of this machine."""

    protocol = "bailiwick+file"
    _example = "bailiwick+file://./project!/data/a.csv"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        return _place_in(path, DirectoryFileSystem.protocol)

    def _place_to_open(self) -> AbstractAsyncContextManager[Any]:
        from pathlib import Path

        from bailiwick.build import open as open_scope

        return open_scope(Path(self._place), **self._options)


class VolumeFileSystem(_LocalFileSystem):
    """``bailiwick+sqlite:///srv/agent.db?volume=main!/data/a.csv``: a volume in a file."""

    protocol = "bailiwick+sqlite"
    _example = "bailiwick+sqlite:///srv/agent.db?volume=main!/data/a.csv"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        return _place_in(path, VolumeFileSystem.protocol)

    def _place_to_open(self) -> AbstractAsyncContextManager[Any]:
        from bailiwick.build import open as open_scope

        return open_scope(f"sqlite:{self._place}", **self._options)


class ServerFileSystem(PlaceFileSystem):
    """``bailiwick://HOST:PORT/KIND/ID/path``: a root of a server.

    ``token`` is that of the caller, $BAILIWICK_TOKEN unless told; ``tls`` speaks https.
    """

    protocol = "bailiwick"

    def __init__(
        self,
        host: str = "",
        root: str = "",
        *,
        token: str | None = None,
        tls: bool = False,
        **more: Any,
    ) -> None:
        if not host or not root:
            raise ParseError(
                "no server is named", hint="for example bailiwick://127.0.0.1:4180/workspace/demo/a"
            )
        super().__init__(**more)
        self._host = host
        self._root = root
        self._token = token
        self._tls = tls

    @classmethod
    def _path_in(cls, rest: str) -> str:
        found = _server(rest)
        return (found["path"] or "") if found else ""

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        rest = path.removeprefix("bailiwick://")
        found = _server(rest) if rest != path else None
        if found is None:
            return {}
        return {"host": found["host"], "root": f"{unquote(found['kind'])}:{unquote(found['id'])}"}

    def unstrip_protocol(self, name: str) -> str:
        if name.startswith(f"{self.protocol}://"):
            return name
        kind, _, root = self._root.partition(":")
        top = f"{self.protocol}://{self._host}/{kind}/{quote(root, safe='')}"
        return f"{top}/{self._strip_protocol(name)}"

    def _place_to_open(self) -> AbstractAsyncContextManager[Any]:
        from bailiwick.client import connect

        token = self._token or os.environ.get(TOKEN_VARIABLE) or None
        scheme = "https" if self._tls else "http"
        return connect(f"{scheme}://{self._host}", token=token, root=self._root)


def _place_in(url: str, protocol: str) -> dict[str, Any]:
    rest = url.removeprefix(f"{protocol}://")
    return {} if rest == url else {"place": rest.partition(_SEPARATOR)[0]}
