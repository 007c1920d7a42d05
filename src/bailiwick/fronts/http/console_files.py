"""The console: static files from the package, and how a person logs in to them.

A link that the server printed is good for one login. It becomes a session of two halves: a cookie
that no script can read and no other site can send, and a key that the page alone is given, in the
part of an address which browsers send to nobody. A cookie reaches every port of the host, the key
only this one. The files are ours alone, so they are served without asking who wants them;
everything they show is asked for with both halves.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from bailiwick.errors import ForbiddenOrigin, MethodNotAllowed, RouteNotFound, Unauthenticated
from bailiwick.fronts.http.access.callers import cookie_name, session_of
from bailiwick.fronts.http.access.gates import same_origin
from bailiwick.fronts.http.messages.parameters import parse_query, require
from bailiwick.fronts.http.messages.requests import Headers, Reply
from bailiwick.state.grants.tokens import SESSION_SECONDS
from bailiwick.wire.arguments import Argument

if TYPE_CHECKING:
    from bailiwick.state.grants.tokens import TokenBook

LOGIN = "/login"
LOGOUT = "/logout"
PREFIX = "/console/"

POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    b" connect-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none';"
    b" frame-ancestors 'none'"
)
"""What a page of the console may do: load its own files and call its own server."""

_TYPES = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "json": b"application/json",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "ico": b"image/x-icon",
    "woff2": b"font/woff2",
    "txt": b"text/plain; charset=utf-8",
}

_FALLBACK = b"""<!doctype html><meta charset="utf-8"><title>Bailiwick</title>
<p>This server has no console. <a href="/openapi.json">/openapi.json</a> lists what it answers.</p>
"""

_LINK = Argument(name="link", about="The link that the server printed.", required=True)


class ConsoleFiles:
    """Answers the addresses of the console."""

    def __init__(self, tokens: TokenBook, *, secure: bool) -> None:
        self._tokens = tokens
        self._secure = secure
        self._files: dict[str, bytes] | None = None

    async def answer(
        self, method: str, path: str, query: bytes, headers: dict[bytes, bytes]
    ) -> Reply | None:
        """The answer where the address is one of the console's; None where it is not."""
        if path == LOGIN:
            return await self._login(method, query, headers)
        if path == LOGOUT:
            return await self._logout(method, headers)
        if path != "/" and path != "/console" and not path.startswith(PREFIX):
            return None
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowed("a page is only read", details={"allow": "GET, HEAD"})
        return self._page(path, head=method == "HEAD")

    def _page(self, path: str, *, head: bool) -> Reply:
        if self._files is None:
            self._files = _shipped()
        name = path.removeprefix(PREFIX) if path.startswith(PREFIX) else "index.html"
        content = self._files.get(name or "index.html")
        if content is None:
            if name != "index.html":
                raise RouteNotFound("the console has no such file")
            content = _FALLBACK
        kind = _TYPES.get(name.rpartition(".")[2], b"application/octet-stream")
        return Reply(
            headers=[(b"content-type", kind), *_guards()],
            body=b"" if head else content,
            length=len(content) if head else None,
        )

    async def _login(self, method: str, query: bytes, headers: dict[bytes, bytes]) -> Reply:
        """Turn a link into a session, and lead on to the console. It counts once, and only where
        somebody opens it: a browser that looks ahead would use it up."""
        if method != "GET":
            raise MethodNotAllowed("a link is opened", details={"allow": "GET"})
        purpose = headers.get(b"sec-purpose", b"") + headers.get(b"purpose", b"")
        if b"prefetch" in purpose.lower():
            raise ForbiddenOrigin("a link that logs in is not fetched ahead")
        given = parse_query(query, {_LINK.name: _LINK})
        require(given, (_LINK,))
        session = await self._tokens.redeem_link(given["link"], front="http")
        if session is None:
            raise Unauthenticated(
                "this link was used already, or its time is up",
                hint="start the server again: it prints a new one",
            )
        cookie, _, key = session.partition(".")
        onward = (b"location", b"/#session=" + key.encode())
        return Reply(
            status=303, headers=[onward, self._cookie(headers, cookie), *_guards()], body=b""
        )

    async def _logout(self, method: str, headers: dict[bytes, bytes]) -> Reply:
        if method != "POST" or not same_origin(headers):
            raise MethodNotAllowed("logging out is a POST", details={"allow": "POST"})
        secret = session_of(headers.get(b"cookie", b""), headers)
        if not secret:
            raise Unauthenticated("nobody is logged in here")
        await self._tokens.end_session(secret, front="http")
        ended = self._cookie(headers, "", seconds=0)
        return Reply(status=204, headers=[ended, *_guards()], body=b"")

    def _cookie(
        self, headers: dict[bytes, bytes], secret: str, seconds: float = SESSION_SECONDS
    ) -> tuple[bytes, bytes]:
        name = cookie_name(headers).decode("ascii")
        text = f"{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={int(seconds)}"
        return (b"set-cookie", (text + ("; Secure" if self._secure else "")).encode())


def _guards() -> Headers:
    return [
        (b"content-security-policy", POLICY),
        (b"referrer-policy", b"no-referrer"),
        (b"x-frame-options", b"DENY"),
        (b"cross-origin-opener-policy", b"same-origin"),
    ]


def _shipped() -> dict[str, bytes]:
    """Every file of the console, by its path in it: read once, so that no request names a file."""
    top = resources.files("bailiwick.fronts.http").joinpath("console")
    found: dict[str, bytes] = {}
    waiting = [("", top)] if top.is_dir() else []
    while waiting:
        prefix, folder = waiting.pop()
        for item in folder.iterdir():
            if item.is_dir():
                waiting.append((f"{prefix}{item.name}/", item))
            elif item.name.rpartition(".")[2] in _TYPES:
                found[prefix + item.name] = item.read_bytes()
    return found
