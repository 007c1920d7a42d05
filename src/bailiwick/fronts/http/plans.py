"""What is to be served, and how: what a command line and a configuration say together.

A plan is plain data, so that a parent process can hand it to its workers.
"""

from __future__ import annotations

import os
import ssl
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from bailiwick.build.configured import read_source
from bailiwick.build.served import MEMORY, OWN, about, named_places, open_served, state_for
from bailiwick.config.values import ServerConfig
from bailiwick.errors import ParseError, PathNotFound, Unsupported, from_os_error
from bailiwick.fronts.http.access.gates import is_loopback
from bailiwick.fronts.http.settings import ServerSettings
from bailiwick.grant import Core

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bailiwick.build.governed import Authority


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which places are served under which names, where the state lies, and how to listen.

    ``places`` are those named on the command line: their owner chose them, so they are trusted.
    """

    places: dict[str, str]
    config: str | None
    state_dir: str | None
    host: str
    port: int
    workers: int
    certfile: str | None
    keyfile: str | None
    settings: ServerSettings

    @property
    def scheme(self) -> str:
        return "http" if self.certfile is None else "https"


def make_plan(options: Any) -> ServerPlan:
    """The plan that the options of `bailiwick serve` mean. Raises `ParseError`."""
    source = read_source(options.config)
    server = source.config.server or ServerConfig()
    given: list[str] = list(options.roots)
    if not given and options.config is None:
        given = [OWN]
    places = named_places(given)
    host = options.host or server.host
    certfile, keyfile = options.certfile, options.keyfile
    if server.tls is not None and certfile is None:
        certfile, keyfile = (
            os.path.join(source.base, os.path.expanduser(each))
            for each in (server.tls.certificate, server.tls.key)
        )
    if (certfile is None) != (keyfile is None):
        raise ParseError("a certificate and its key are given together")
    if certfile is not None:
        _check_certificate(certfile, keyfile)
    workers = options.workers or server.workers
    in_memory = any(place == MEMORY for place in places.values()) or any(
        root.memory for root in source.config.roots
    )
    state_dir = _state(options.state, options.config, places)
    if workers > 1 and (in_memory or source.config.state.memory):
        raise Unsupported(
            "what is kept in memory is served by one process", hint="leave out --workers"
        )
    return ServerPlan(
        places=places, config=options.config, state_dir=state_dir, host=host,
        port=server.port if options.port is None else options.port, workers=workers,
        certfile=certfile, keyfile=keyfile,
        settings=ServerSettings(
            root=next(iter(places), None),
            allowed_hosts=None if is_loopback(host) else frozenset("*"),
            read_only=options.read_only, loopback=is_loopback(host), workers=workers,
            shared=source.config.state.url is not None,
            reads_per_minute=server.rates.reads_per_minute,
            changes_per_minute=server.rates.changes_per_minute, secure=certfile is not None,
        ),
    )  # fmt: skip


def _check_certificate(certfile: str, keyfile: str | None) -> None:
    """Refuse what TLS cannot begin with, before anything else is begun."""
    hint = "check --certfile and --keyfile, or [server.tls] of the configuration"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "the key is not that of the certificate"
        else:
            why = "the certificate or its key is no PEM file, or the key has a password"
        raise ParseError(why, hint=hint) from None
    except OSError:
        raise PathNotFound("the certificate or its key cannot be read", hint=hint) from None


def _state(given: str | None, config: str | None, places: dict[str, str]) -> str | None:
    """Where the state lies: as told or configured, else in the user's state directory, by what is
    served. What is only in memory needs none that lasts."""
    if given is not None:
        try:
            os.makedirs(given, mode=0o700, exist_ok=True)
        except OSError as error:
            failed = from_os_error(error)
            failed.message = f"there is no place for the state: {failed.message}"
            failed.hint = "name a directory that can be made and written with --state"
            raise failed from None
        return given
    if config is not None:
        return None
    return state_for(places)


def opened(plan: ServerPlan, *, first: bool) -> AbstractAsyncContextManager[Authority]:
    """The authority of a plan with all its roots; the ``first`` process brings what the
    configuration lists up to date."""
    return _opened(plan, first)


@asynccontextmanager
async def _opened(plan: ServerPlan, first: bool) -> AsyncIterator[Authority]:
    async with open_served(
        plan.places, plan.config, plan.state_dir, synchronise=first, history="on"
    ) as authority:
        authority.rates.processes = plan.workers
        if first:
            await _try_roots(authority, plan.places)
        yield authority


async def _try_roots(authority: Authority, places: dict[str, str]) -> None:
    """Open every root once, so that one that is not there is told before anybody is served."""
    for root in authority.roots():
        with about(str(root), places.get(str(root))):
            scope = await authority.request_root(
                Core("serve"), str(root), {"metadata"}, "starting to serve", front="http"
            )
            await scope.aclose()
