"""Tokens of agents, which a person makes and ends."""

from __future__ import annotations

from bailiwick.build import agent_tokens
from bailiwick.errors import FileAlreadyExists, ParseError, PathNotFound, RootNotFound
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import Body
from bailiwick.state.grants.tokens import Token
from bailiwick.wire import Form, Result, names
from bailiwick.wire.arguments import Accesses, Seconds
from bailiwick.wire.forms import Key

TOKEN = Form(
    Token, "WireToken", "A token, and who its bearer is. Never the secret.",
    keys=(
        "name", "subject", "grant_id", Key("created_ms", "created_ns", int, names.milliseconds),
        Key("expires_ms", "expires_ns", int | None, names.milliseconds),
    ),
)  # fmt: skip


class TokenList(Result, frozen=True, kw_only=True, tag="tokens"):
    """Tokens that hold now, by name."""

    tokens: list[TOKEN.struct]  # type: ignore[name-defined]
    truncated: bool


class TokenMade(Result, frozen=True, kw_only=True, tag="token"):
    """A token for an agent. The secret is shown this once."""

    name: str
    subject: str
    token: str
    root: str | None
    access: list[str]


class TokenEnded(Result, frozen=True, kw_only=True, tag="tokenEnded"):
    """A token that holds no more."""

    name: str


class TokenBody(Body, frozen=True, kw_only=True):
    name: str
    subject: str | None = None
    root: str | None = None
    access: Accesses = []
    path: str = "."
    expires_in: Seconds | None = None


TOKENS_MAX = 1_000
"""Tokens that one answer lists."""


async def list_tokens(request: Request) -> TokenList:
    found = request.authority.tokens.tokens()
    return TokenList(tokens=TOKEN.write_all(found[:TOKENS_MAX]), truncated=len(found) > TOKENS_MAX)


async def make_token(request: Request) -> Reply:
    """A person lets an agent in. Nobody becomes a person, or the host, by what is made here."""
    body: TokenBody = request.body
    authority, by = request.authority, request.caller.subject
    subject = body.subject or agent_tokens.subject_of(body.name)
    if not agent_tokens.is_agent(subject):
        raise ParseError(
            "tokens that are made here are for agents",
            hint="bailiwick grant token makes one for a person, at the terminal",
        )
    if body.name in authority.configured.tokens:
        raise ParseError(
            "the configuration lists a token of this name",
            hint=f"bailiwick grant token {body.name} makes it, at the terminal",
        )
    held = {token.name: token.subject for token in authority.tokens.tokens()}
    if not agent_tokens.is_agent(held.get(body.name, subject)):
        raise FileAlreadyExists(
            "a person has a token of this name", hint="end that one first, or choose another name"
        )
    root = body.root or request.app.default_root()
    if root not in map(str, authority.roots()):
        raise RootNotFound(f"there is no root {root[:200]!r}")
    if body.access:
        await agent_tokens.grant_with(
            authority, body.name, subject, root=root, access=body.access, path=body.path,
            expires_in=body.expires_in, by=by, front="http",
        )  # fmt: skip
    secret = await authority.tokens.issue(
        body.name, subject, by=by, front="http", expires_in=body.expires_in
    )
    return Reply(
        TokenMade(
            name=body.name, subject=subject, token=secret, root=root if body.access else None,
            access=sorted(body.access),
        ),
        201,
    )  # fmt: skip


async def end_token(request: Request) -> TokenEnded:
    name, by = request.names["name"], request.caller.subject
    if not await request.authority.tokens.revoke(name, by=by, front="http"):
        raise PathNotFound("there is no such token")
    await agent_tokens.end_with(request.authority, name, by=by, front="http")
    return TokenEnded(name=name)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/tokens", name="tokens", family="governing", handler=list_tokens,
        about="The tokens that hold now, without their secrets.", result=TokenList, rooted=False,
        who="person", example="GET /tokens",
    ),
    Route(
        method="POST", path="/tokens", name="makeToken", family="governing", handler=make_token,
        about="Let an agent in: a token, and with `access` a grant that ends with it.",
        body=TokenBody, result=TokenMade, statuses=(201,), rooted=False, who="person",
        changes=True, secret=True, repeatable=True, raises=(404, 409),
        example='POST /tokens {"name": "builder", "access": ["read", "list", "write"]}',
    ),
    Route(
        method="DELETE", path="/tokens/{name}", name="endToken", family="governing",
        handler=end_token, about="End a token and what was granted with it, at once.",
        result=TokenEnded, changes=True, governing=True, rooted=False, who="person",
        example="DELETE /tokens/builder",
    ),
)  # fmt: skip
