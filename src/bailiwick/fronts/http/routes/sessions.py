"""Sessions: one working copy over many commands, open between requests."""

from __future__ import annotations

from typing import Any

from bailiwick.errors import MissingAccess, Unsupported
from bailiwick.fronts.http.access.executions import HttpSession
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.routes.commands import given, refuse_untold, told, typed
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import route
from bailiwick.operations import Command, environment_of
from bailiwick.scope.sessions import Session
from bailiwick.wire import command_verbs, values, verbs


async def make(request: Request) -> Reply:
    _check(request.body)
    scope = await request.scoped(request.body.cwd)
    executions, caller = request.app.executions, request.caller
    executions.refuse_more_sessions(caller, scope)
    body = request.body
    session = scope.session(cwd=body.cwd, env=body.env, roots=body.roots)
    if not session.id:
        raise Unsupported("no commands are run in this root")
    return Reply(_shown(request, executions.keep_session(caller, scope, session)), 201)


async def open_again(request: Request) -> values.WireSession:
    scope = await request.scoped()
    executions, caller, id = request.app.executions, request.caller, request.names["id"]
    entry = executions.open_session(id, caller)
    if entry is None or not entry.is_of(caller):
        executions.refuse_more_sessions(caller, scope)
        entry = executions.keep_session(caller, scope, await scope.open_session(id))
    return _shown(request, entry)


async def listed(request: Request) -> values.SessionList:
    found = request.app.executions.sessions(request.caller)
    return values.SessionList(sessions=[_shown(request, each) for each in found])


async def show(request: Request) -> values.WireSession:
    return _shown(request, _found(request))


async def put_right(request: Request) -> values.WireSession:
    entry, body = _own(request), request.body
    _check(body)
    if body.cwd is not None:
        entry.session.cwd = body.cwd
    if body.env is not None:
        entry.session.env = dict(body.env)
    return _shown(request, entry)


async def run(request: Request) -> Reply:
    body, entry = request.body, _own(request)
    refuse_untold(request)
    execution = _asked(request, entry).exec(cwd=body.cwd, terminal=body.terminal, **given(body))
    begun = await request.app.executions.begin(
        request.caller, entry.scope, execution, typed(body), entry.id
    )
    return told(request, begun)


async def changes(request: Request) -> Any:
    return values.WORK_CHANGES.write(await _asked(request).changes())


async def difference(request: Request) -> Any:
    return values.WORK_DIFF.write(await _asked(request).diff(request.query["path"]))


async def publish(request: Request) -> Any:
    body = request.body
    return values.PUBLISHED.write(
        await _asked(request).publish(body.publish, paths=body.paths, merge=body.merge)
    )


async def discard(request: Request) -> values.WorkDiscarded:
    given_up = await _asked(request).discard(request.body.paths)
    return values.WorkDiscarded(id=request.names["id"], discarded=[*map(str, given_up)])


async def close(request: Request) -> values.SessionClosed:
    entry = _found(request)
    await request.app.executions.close_session(entry)
    return values.SessionClosed(id=entry.id)


def _check(body: Any) -> None:
    """Refuse what no command could be run with, before it is kept."""
    Command(argv=("true",), cwd=body.cwd or ".", environment=environment_of(body.env or {}))


def _found(request: Request) -> HttpSession:
    return request.app.executions.session(request.names["id"], request.caller)


def _own(request: Request) -> HttpSession:
    """A session that the caller has opened. What is done in it is done in their name."""
    entry = _found(request)
    if not entry.is_of(request.caller):
        raise MissingAccess(
            "only whoever opened a session works in it",
            hint="close it, and look at its working copy: GET /work",
        )
    request.scope = entry.scope
    return entry


def _asked(request: Request, entry: HttpSession | None = None) -> Session:
    """The session as this request uses it: under its id, with its approval."""
    session = (entry or _own(request)).session
    if request.request_id is not None:
        session = session.with_request(request.request_id)
    approval = request.query.get("approval") or getattr(request.body, "approval", None)
    return session if approval is None else session.with_approval(approval)


def _shown(request: Request, entry: HttpSession) -> values.WireSession:
    session, scope = entry.session, entry.scope
    # Variables are where secrets are handed over: they are for whoever did that.
    env = session.env if entry.is_of(request.caller) else {}
    running = [each.id for each in request.app.executions.running_in(entry.id)]
    return values.WireSession(
        id=entry.id, cwd=str(session.cwd), env=env, lost=session.lost, running=running,
        subject=str(scope.subject), root=str(scope.root),
    )  # fmt: skip


_OF_ONE: dict[str, Any] = {"rooted": False, "who": "caller"}

ROUTES: tuple[Route, ...] = (
    route(verbs.SESSION_OF_COMMANDS, make, who="caller"),
    route(command_verbs.SESSIONS, listed, **_OF_ONE),
    route(verbs.OPEN_SESSION, open_again, who="caller"),
    route(command_verbs.SESSION_SHOWN, show, **_OF_ONE),
    route(command_verbs.SESSION_SET, put_right, **_OF_ONE),
    route(command_verbs.SESSION_EXEC, run, answers="lines", **_OF_ONE),
    route(command_verbs.SESSION_CHANGES, changes, **_OF_ONE),
    route(command_verbs.SESSION_DIFF, difference, **_OF_ONE),
    route(command_verbs.SESSION_PUBLISH, publish, **_OF_ONE),
    route(command_verbs.SESSION_DISCARD, discard, **_OF_ONE),
    route(command_verbs.SESSION_CLOSE, close, **_OF_ONE),
)
