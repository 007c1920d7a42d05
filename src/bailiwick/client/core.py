"""What every verb of a remote scope stands on: a server, a root, a grant, and the way to ask."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import lru_cache, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import quote

import msgspec

from bailiwick.approvals import Asker
from bailiwick.call import Caller
from bailiwick.client.failures import no_answer
from bailiwick.client.pool import Content
from bailiwick.client.transport import Query, RemoteRequest, Transport, encoded, segment
from bailiwick.client.values import asked, rebuilt, rebuilt_all
from bailiwick.errors import (
    ApprovalTimeout,
    BailiwickError,
    Closed,
    IoError,
    ParseError,
    Unsupported,
)
from bailiwick.grant import Grant, Root, Subject, parse_root_name, parse_subject
from bailiwick.limits import Limits
from bailiwick.operations import ALL_ACCESS, Access
from bailiwick.reviews import ReviewNote
from bailiwick.runs import check_run_name
from bailiwick.scope.powers import Powers
from bailiwick.verbs.arguments import check_known, check_request_id
from bailiwick.wire.forms import Value
from bailiwick.wire.values import Capabilities
from bailiwick.wire.verbs import Verb, names_in

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

NOTHING: Mapping[str, object] = {}

ASK_PAUSE_SECONDS = 0.1
ASK_PAUSE_SECONDS_MAX = 2.0
"""Pauses between looks at whether a person has answered: each is half as long again."""

_NOTES_MAX = 100
"""What people took back that is kept until somebody asks for it: the newest."""


@lru_cache(256)
def prefix_of(kind: str, name: str) -> str:
    """What the routes of a root begin with."""
    return f"/roots/{kind}/{segment(name)}"


class RemoteSession(msgspec.Struct, frozen=True, kw_only=True):
    """Where a remote scope acts, as whom, and how: what is the same for all its calls.

    ``fork`` is the branch to act in; None is that of the root. ``closing`` is what closing the
    scope does.
    """

    transport: Transport
    grant: Grant
    powers: frozenset[str]
    version: str
    body_bytes_max: int
    fork: str | None = None
    request_id: str | None = None
    approval: str | None = None
    wait_s: float | None = None
    title: str | None = None
    step: str | None = None
    closing: Callable[[], Awaitable[None]] | None = None

    @property
    def prefix(self) -> str:
        return prefix_of(self.grant.root.kind, self.grant.root.id)


class SessionLife:
    """Whether a scope and all its like are closed, what is under way, and what ends with them."""

    def __init__(self) -> None:
        self.closed = False
        self.following: set[asyncio.Task[None]] = set()
        self.notes: list[ReviewNote] = []
        self._working = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        """A call under way, for which closing waits. What fails because of it was closed."""
        self.refuse_closed()
        self._working += 1
        self._idle.clear()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._working -= 1
        if not self._working:
            self._idle.set()
        if isinstance(error, IoError):
            self.refuse_closed()

    def refuse_closed(self) -> None:
        if self.closed:
            raise Closed("this scope is closed")

    async def close(self) -> None:
        self.closed = True
        following = list(self.following)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await self._idle.wait()


class AsksByVerbs:
    """A scope on a server, or what such a scope gave: what is asked of it are rows of the table."""

    async def _told(
        self, verb: Verb[Any], given: Mapping[str, Any], beside: Mapping[str, object] = NOTHING
    ) -> dict[str, Any]:
        """The document that a verb is answered with. It is asked for with its arguments, and with
        what is said ``beside`` them by the names of the wire."""
        raise NotImplementedError

    async def _done(
        self, verb: Verb[Value], given: Mapping[str, Any], beside: Mapping[str, object] = NOTHING
    ) -> Value:
        """What came of a verb."""
        return rebuilt(verb.form.of, await self._told(verb, given, beside))


class RemoteCore(AsksByVerbs):
    """The tree that one grant on a server sees."""

    def __init__(self, session: RemoteSession, life: SessionLife | None = None) -> None:
        self._session = session
        self._life = life or SessionLife()

    @property
    def grant(self) -> Grant:
        """The grant as far as the server tells: its id, subject, root, access and limits."""
        return self._session.grant

    @property
    def root(self) -> Root:
        return self.grant.root

    @property
    def subject(self) -> Subject:
        return self.grant.subject

    @property
    def access(self) -> frozenset[Access]:
        return self.grant.access

    @property
    def limits(self) -> Limits:
        return self.grant.limits

    @property
    def powers(self) -> frozenset[str]:
        """What the store on the server can do beyond the common verbs."""
        return self._session.powers

    @property
    def description(self) -> dict[str, str]:
        return {
            "kind": "server",
            "address": self._session.transport.address,
            "version": self._session.version,
        }

    def __repr__(self) -> str:
        return f"<RemoteScope {self.root} for {self.subject} at {self._session.transport.address}>"

    def with_request(self, request_id: str) -> Self:
        """This scope with an id: its results, errors and records carry ``request_id``.

        An id is 1 to 128 printable characters, of ASCII over HTTP.
        """
        check_request_id(request_id)
        if not request_id.isascii():
            raise ParseError("a request id goes over HTTP in a header, which holds ASCII only")
        return self._with(request_id=request_id)

    def with_approval(self, approval_id: str) -> Self:
        """This scope for a call that a person has approved: exactly the call they saw."""
        if not isinstance(approval_id, str):
            raise ParseError("an approval is named by its id, which is text")
        return self._with(approval=approval_id)

    def with_caller(
        self, front: str, *, asker: Asker | None = None, wait_s: float | None = None
    ) -> Self:
        """This scope as a front uses it, which waits ``wait_s`` seconds for a person. What
        stands on record, and who is asked, is the server's."""
        if asker is not None:
            raise Unsupported("a server asks its own people", hint="answer there: GET /approvals")
        return self._with(wait_s=wait_s)

    def with_run(self, *, title: str | None = None, step: str | None = None) -> Self:
        """This scope for a run that people are to know by a ``title``, and for a ``step`` of it."""
        session = self._session
        return self._with(
            title=session.title if title is None else check_run_name("title", title),
            step=session.step if step is None else check_run_name("step", step),
        )

    def with_text_max(self, text_bytes: int) -> Self:
        """This scope with text reads that return at most ``text_bytes``."""
        if text_bytes >= self.limits.text_read_bytes_max:
            return self
        limits = msgspec.structs.replace(self.limits, text_read_bytes_max=text_bytes)
        return self._with(grant=msgspec.structs.replace(self.grant, limits=limits))

    async def aclose(self) -> None:
        """End what follows changes, wait for calls under way, and let go. Streams end with
        `Closed`, and so does whatever is called afterwards."""
        if self._life.closed:
            return
        await self._life.close()
        if self._session.closing is not None:
            await self._session.closing()

    @property
    def _caller(self) -> Caller:
        """For `bailiwick.scope.front_access`, as are the two that follow: what a front may say of
        how a scope is called, as far as it is not for the server to say."""
        return Caller(wait_s=self._session.wait_s)

    def _as_called(self, **changes: Any) -> Self:
        if changes.get("rehearsal") is not None:
            raise Unsupported("a server cannot rehearse a call", hint="make the call")
        known = ("wait_s", "approval", "title", "step")
        kept = {name: changes[name] for name in known if name in changes}
        return self._with(**kept)

    def _with_file_max(self, file_bytes: int) -> Self:
        if file_bytes >= self.limits.max_file_bytes:
            return self
        raise Unsupported(
            "how large a file may become is for the server to say",
            hint="set the limit max_file_bytes of the root there",
        )

    def _runs_commands(self) -> bool:
        return False  # as far as a caller of the server can tell

    def _with(self, **changes: Any) -> Self:
        return type(self)(msgspec.structs.replace(self._session, **changes), self._life)

    def _apart(self, **changes: Any) -> Self:
        """Another scope, which is closed by itself."""
        changes = {"request_id": None, "approval": None, "closing": None, **changes}
        return type(self)(msgspec.structs.replace(self._session, **changes))

    def _refuse_closed(self) -> None:
        self._life.refuse_closed()

    # --- asking --------------------------------------------------------------------------------

    async def _told(
        self,
        verb: Verb[Any],
        given: Mapping[str, Any],
        beside: Mapping[str, object] = NOTHING,
        *,
        rooted: bool = True,
    ) -> dict[str, Any]:
        if not verb.changes:
            check_known(given)
        said = {**asked(verb, given), **beside}
        route = verb.path.format(**{name: segment(given[name]) for name in names_in(verb.path)})
        has_body = verb.method == "POST"
        return await self._ask(
            verb.kind, verb.method, route, query=None if has_body else said,
            body=said if has_body else None, asks=verb.asks, rooted=rooted,
        )  # fmt: skip

    async def _ask(
        self,
        kind: str | None,
        method: str,
        route: str,
        *,
        query: Query | None = None,
        body: Mapping[str, object] | None = None,
        content: Content | None = None,
        asks: bool = True,
        rooted: bool = True,
    ) -> dict[str, Any]:
        """One request, and the document it is answered with.

        A person who is asked is waited for, by looking whether they have answered and then making
        the very same request again; a stream cannot be made again, so that its caller must.
        """

        async def once(approval: str | None) -> dict[str, Any]:
            return await self._session.transport.ask(
                self._asked(method, route, query, body, content, approval if asks else None, rooted)
            )

        can_repeat = content is None or type(content) is bytes
        with self._life:
            document = await self._patiently(once) if can_repeat else await once(self._approval)
        if document.get("kind") != kind:
            raise no_answer(f"it is no {kind}")
        if "review" in document:
            self._life.notes += rebuilt_all(ReviewNote, document.pop("review"))
            del self._life.notes[:-_NOTES_MAX]
        return document

    @property
    def _approval(self) -> str | None:
        return self._session.approval

    async def _patiently(self, once: Callable[[str | None], Awaitable[Result]]) -> Result:
        """Make a request, and once more when a person who must be asked has answered."""
        try:
            return await once(self._approval)
        except ApprovalTimeout as error:
            if self._approval is not None or not error.details.get("pending"):
                raise
            return await once(await self._answered(error))

    async def _answered(self, error: ApprovalTimeout) -> str:
        """Wait until a question is answered; its id. Raises ``error`` where that takes too long."""
        wait_s = self._session.wait_s
        approval_id: str = error.details["approval_id"]
        question = RemoteRequest(method="GET", route=f"/approvals/{segment(approval_id)}")
        pause = ASK_PAUSE_SECONDS
        try:
            async with asyncio.timeout(self.limits.ask_seconds_max if wait_s is None else wait_s):
                while True:
                    told = await self._session.transport.ask(question)
                    self._refuse_closed()
                    if told.get("state") != "pending":
                        return approval_id
                    await asyncio.sleep(pause)
                    pause = min(pause * 1.5, ASK_PAUSE_SECONDS_MAX)
        except TimeoutError:
            raise error from None

    def _asked(
        self,
        method: str,
        route: str,
        query: Query | None = None,
        body: Mapping[str, object] | None = None,
        content: Content | None = None,
        approval: str | None = None,
        rooted: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> RemoteRequest:
        session = self._session
        shown = dict(headers or {})
        if session.request_id is not None:
            shown["x-request-id"] = session.request_id
        for name, said in (("run", session.title), ("step", session.step)):
            if said is not None:
                shown[f"x-bailiwick-{name}"] = quote(said)
        given: dict[str, object] = dict(query or {})
        if rooted:
            given["fork"] = session.fork
        if body is not None:
            content = encoded({**body, "approval": approval})
            shown["content-type"] = "application/json"
        else:
            given["approval"] = approval
        return RemoteRequest(
            method=method, route=session.prefix + route if rooted else route, query=given,
            headers=shown, content=content,
        )  # fmt: skip


def bound(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
    act: Callable[[Any, dict[str, Any]], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]]:
    """A verb that takes what a method takes, of a scope or of what a scope gives. ``act`` is given
    what it is a verb of, and of the arguments those that are not as usual."""
    signature = inspect.signature(method)
    taken = [*signature.parameters.values()][1:]
    usual = {each.name: each.default for each in taken}
    in_order = [each.name for each in taken if each.kind is each.POSITIONAL_OR_KEYWORD]
    needed = {each.name for each in taken if each.default is each.empty}

    @wraps(method)
    async def done(self: Any, /, *args: Arguments.args, **more: Arguments.kwargs) -> Result:
        given: dict[str, Any] = {**dict(zip(in_order, args, strict=False)), **more}
        is_all = len(given) == len(args) + len(more) and needed <= given.keys() <= usual.keys()
        if not is_all:
            signature.bind(self, *args, **more)  # which says what is wrong with them
        return await act(
            self, {name: value for name, value in given.items() if value is not usual[name]}
        )

    return done


def remote(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
    verb: Verb[Any],
    *,
    first: Callable[[Any, dict[str, Any]], object] | None = None,
    read: Callable[[dict[str, Any]], Result] | None = None,
    **beside: object,
) -> Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]]:
    """A verb that a server does, as it is asked to.

    ``first`` is called with the scope and with what is to be said, which it may refuse or change;
    ``read`` makes a result of an answer that is none by itself. What is ``beside`` goes along, by
    the names of the wire.
    """

    async def act(self: AsksByVerbs, said: dict[str, Any]) -> Result:
        if first is not None:
            first(self, said)
        if read is not None:
            return read(await self._told(verb, said, beside))
        result: Result = await self._done(verb, said, beside)
        return result

    return bound(method, act)


def unserved(argument: str, why: str, hint: str | None = None) -> Callable[[Any, Any], None]:
    """What refuses an argument of a verb that HTTP has not."""

    def refuse(scope: object, said: Mapping[str, object]) -> None:
        if argument in said:
            raise Unsupported(why, hint=hint)

    return refuse


def session_of(
    transport: Transport, document: Mapping[str, Any], fork: str | None
) -> RemoteSession:
    """What a server says that its caller can do, as a session."""
    try:
        told = msgspec.convert(document, Capabilities)
        kind, name = parse_root_name(told.root)
        subject = parse_subject(told.subject)
    except (msgspec.ValidationError, BailiwickError):
        raise no_answer("it says nothing of who we are") from None
    limits = Limits(
        text_read_bytes_max=told.limits.text_read_bytes,
        text_write_bytes_max=told.limits.text_write_bytes,
        max_file_bytes=told.limits.max_file_bytes, list_page_max=told.limits.list_page,
        glob_max=told.limits.glob_matches, grep_matches_max=told.limits.grep_matches,
    )  # fmt: skip
    root = Root(kind=kind, id=name, trusted=told.trusted, branch=branch_of(fork))
    access = frozenset(each for each in ALL_ACCESS if each in told.access)
    return RemoteSession(
        transport=transport, powers=Powers.of(told.powers), version=told.version, fork=fork,
        grant=Grant(id=told.grant_id, subject=subject, root=root, access=access, limits=limits),
        body_bytes_max=told.limits.json_body_bytes,
    )  # fmt: skip


FIRST_BRANCH = "main"


def branch_of(fork: str | None) -> str:
    """The branch of a root, as a `Root` names it."""
    return "" if fork in (None, FIRST_BRANCH) else fork or ""
