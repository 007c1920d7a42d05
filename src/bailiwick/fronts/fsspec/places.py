"""The filesystems that fsspec makes from a URL: each opens its place when it is first used.

The place and what lies in it stand in one URL::

    bailiwick://127.0.0.1:4180/workspace/demo/data/a.parquet
    bailiwick+file://./project!/data/a.csv
    bailiwick+sqlite:///srv/agent.db?volume=main!/data/a.csv

What stands before ``!/`` is the place, what stands after it a path in it, as in URLs of archives.
Which places there are is for whoever runs the program to say: see `restrict`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from fsspec.asyn import AsyncFileSystem, sync
from fsspec.config import apply_config

from bailiwick.errors import ParseError, RootNotFound, Unauthenticated, escape_for_display
from bailiwick.fronts.fsspec.blocking_calls import wait_for_the_end
from bailiwick.fronts.fsspec.filesystem import BailiwickFileSystem, bridge_to
from bailiwick.fronts.fsspec.reach import REACH, TOKEN_VARIABLE, Named, token_for, tokens_server
from bailiwick.operations import FILE_ACCESS
from bailiwick.scope import Scope
from bailiwick.toolbox.bridge import Bridge

if TYPE_CHECKING:
    from bailiwick.config.places import VolumePlace

_SEPARATOR = "!/"

_is_host = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
).fullmatch
"""A name or number and a port, and nothing that some reader takes for a user, a path or a line."""

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
        wait_for_the_end(self)
        self._bridge: Bridge | None = None
        self._opened: AbstractAsyncContextManager[Any] | None = None
        self._opening = asyncio.Lock()

    __hash__ = AsyncFileSystem.__hash__
    __eq__ = AsyncFileSystem.__eq__

    @classmethod
    def named(cls, *given: Any, **more: Any) -> Named:
        """The place that a URL means, as it really is."""
        raise NotImplementedError

    def _place_to_open(self) -> AbstractAsyncContextManager[Any]:
        """The scope about to be opened. May look whether it is there, so it blocks."""
        raise NotImplementedError

    async def _bridged(self) -> Bridge:
        if self._bridge is None:
            async with self._opening:
                if self._bridge is None:
                    opened = await asyncio.to_thread(self._place_to_open)
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


_Caching: Any = type(AsyncFileSystem)


class _Settling(_Caching):  # type: ignore[misc]
    """Settles which place is meant before fsspec looks whether it has a filesystem for it.

    It hands the same filesystem out for the same arguments, and what they mean changes: a relative
    place with the directory one is in, any place with a link that is turned round. So the place is
    judged here too, each time that it is named.
    """

    def __call__(cls, place: Any = None, **more: Any) -> Any:  # noqa: N805 (a metaclass)
        given = apply_config(cls, more if place is None else {"place": place, **more})
        place = given.get("place")
        if isinstance(place, str) and place:  # what names none is refused when it is made
            given["place"] = place = cls.settled(place)
            REACH.options_for(cls.named(place), cls.options_in(given))
        return super().__call__(**given)


class _LocalFileSystem(PlaceFileSystem, metaclass=_Settling):
    """A place of this machine, named before ``!/``."""

    def __init__(self, place: str = "", **more: Any) -> None:
        """``more`` may hold options of `bailiwick.open`, such as ``trusted`` or ``access``."""
        if not isinstance(place, str) or not place:
            raise ParseError("no place is named", hint=f"for example {self._example}")
        given = self.options_in(more)
        named = self.named(place)
        options = REACH.options_for(named, given)
        super().__init__(**{name: value for name, value in more.items() if name not in given})
        self._place = place
        # What was judged is what is opened: a link in the text could lead elsewhere by then.
        self._path = named.where
        self._options = {"access": FILE_ACCESS, **options}

    _example = ""
    _own_options: tuple[str, ...] = ()

    @staticmethod
    def settled(place: str) -> str:
        """The place in words that mean the same wherever one is."""
        raise NotImplementedError

    @classmethod
    def named(cls, place: str) -> Named:
        """The place as it really is."""
        raise NotImplementedError

    @classmethod
    def options_in(cls, more: Mapping[str, Any]) -> dict[str, Any]:
        """Those of `bailiwick.open`, and those of this kind of place."""
        from bailiwick.build.options import OpenOptions

        known = (*OpenOptions.__annotations__, *cls._own_options)
        return {name: more[name] for name in known if name in more}

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
        return _place_in(path, DirectoryFileSystem)

    @staticmethod
    def settled(place: str) -> str:
        if "\0" in place:
            raise ParseError("a path holds no zero byte")
        return os.path.realpath(os.path.expanduser(place))

    @classmethod
    def named(cls, place: str) -> Named:
        return Named(cls.protocol, cls.settled(place))

    def _place_to_open(self) -> AbstractAsyncContextManager[Any]:
        from pathlib import Path

        from bailiwick.build import open as open_scope

        return open_scope(Path(self._path), **self._options)


class VolumeFileSystem(_LocalFileSystem):
    """``bailiwick+sqlite:///srv/agent.db?volume=main!/data/a.csv``: a volume in a file.

    One that is not there is not made unless ``create=True``: a URL that is only read must not leave
    a file behind, and is mostly a name mistyped.
    """

    protocol = "bailiwick+sqlite"
    _example = "bailiwick+sqlite:///srv/agent.db?volume=main!/data/a.csv"
    _own_options = ("create",)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        return _place_in(path, VolumeFileSystem)

    @staticmethod
    def settled(place: str) -> str:
        volume = _volume_at(place)
        told = [f"{quote(os.path.realpath(volume.file))}?volume={volume.volume}"]
        for name in ("branch", "blobs", "compression"):
            value = getattr(volume, name)
            if value != volume._field_defaults[name]:
                told.append(f"{name}={quote(value)}")
        return "&".join(told)

    @classmethod
    def named(cls, place: str) -> Named:
        volume = _volume_at(place)
        file = os.path.realpath(volume.file)
        more = (volume.volume, volume.branch, volume.blobs, volume.compression)
        return Named(cls.protocol, file, more)

    def _place_to_open(self) -> AbstractAsyncContextManager[Any]:
        from bailiwick.build import open as open_scope
        from bailiwick.build.care import has_volume

        options = dict(self._options)
        _, asks, query = self._place.partition("?")
        place = f"{quote(self._path)}{asks}{query}"
        if not options.pop("create", False) and not has_volume(_volume_at(place)):
            raise RootNotFound("there is no such volume", hint="make it: create=True")
        return open_scope(f"sqlite:{place}", **options)


def _volume_at(place: str) -> VolumePlace:
    from bailiwick.build.places import read_place

    volume = read_place(f"sqlite:{place}").volume
    assert volume is not None
    return volume


class ServerFileSystem(PlaceFileSystem):
    """``bailiwick://HOST:PORT/KIND/ID/path``: a root of a server.

    ``token`` is that of the caller; unless told it is $BAILIWICK_TOKEN, but only for the server
    that this is for: that of $BAILIWICK_PLACE, or 127.0.0.1:4180. ``tls`` speaks https.
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
        if not root or not isinstance(host, str) or not _is_host(host):
            raise ParseError(
                "no server is named", hint="for example bailiwick://127.0.0.1:4180/workspace/demo/a"
            )
        given = {"token": token} if token is not None else {}
        options = REACH.options_for(self.named(host, root, tls=tls), given)
        super().__init__(**more)
        self._host = host
        self._root = root
        self._token: str | None = options.get("token")
        self._address = _address(host, tls=tls)

    @classmethod
    def named(cls, host: str, root: str, *, tls: bool) -> Named:
        """The place as it really is."""
        return Named(cls.protocol, _address(host, tls=tls).lower(), (root,))

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

        token = self._token or token_for(self._address)
        return connect(self._address, token=token, root=self._root)

    async def _bridged(self) -> Bridge:
        try:
            return await super()._bridged()
        except Unauthenticated as error:
            if self._token is None and token_for(self._address) is None:
                error.hint = (
                    f"give token=, or ${TOKEN_VARIABLE} with the server that it is for in"
                    f" $BAILIWICK_PLACE (now {tokens_server()})"
                )
            raise


def _address(host: str, *, tls: bool) -> str:
    return f"{'https' if tls else 'http'}://{host}"


def restrict(places: Mapping[str, Mapping[str, Any]]) -> None:
    """Say which places URLs may name in this process, and how each is opened: ::

        restrict({
            "bailiwick+file://./data": {"trusted": False},
            "bailiwick://127.0.0.1:4180/workspace/demo": {"token": token},
        })

    Any other place is `MissingAccess` from then on, whatever spells it, and so is a storage option
    that is not the one given here: what a catalog says reaches nothing else. Say it before URLs are
    used. A `BailiwickFileSystem(scope)` is not concerned: it has the scope that it was given.
    """
    kinds: tuple[type[PlaceFileSystem], ...] = (
        DirectoryFileSystem, VolumeFileSystem, ServerFileSystem,
    )  # fmt: skip
    named: dict[Named, Mapping[str, Any]] = {}
    for url, options in places.items():
        kind = next((each for each in kinds if url.startswith(f"{each.protocol}://")), None)
        given = {} if kind is None else kind._get_kwargs_from_urls(url)
        if kind is None or not given or not all(given.values()):
            raise ParseError(f"this names no place: {escape_for_display(url)}")
        tls = {"tls": bool(options.get("tls"))} if kind is ServerFileSystem else {}
        fixed = {name: value for name, value in options.items() if name != "tls"}
        named[kind.named(**given, **tls)] = fixed
    REACH.restrict(named)
    for kind in kinds:
        kind.clear_instance_cache()


def _place_in(url: str, kind: type[_LocalFileSystem]) -> dict[str, Any]:
    """Settled here as well: what stands before this URL in a chain keeps it among its options."""
    rest = url.removeprefix(f"{kind.protocol}://")
    place = rest.partition(_SEPARATOR)[0]
    return {} if rest == url else {"place": kind.settled(place) if place else ""}
