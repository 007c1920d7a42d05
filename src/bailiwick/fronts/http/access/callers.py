"""Who asks: from the headers of a request to a caller, before anything else of it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from bailiwick.errors import ForbiddenOrigin, MissingAccess, Unauthenticated
from bailiwick.fronts.http.access.gates import Pace, is_loopback, same_origin
from bailiwick.fronts.http.settings import (
    BUDGETS_KEPT,
    CHANGES_PER_MINUTE,
    READS_PER_MINUTE,
    ServerSettings,
)
from bailiwick.grant import Core, Subject, User, parse_subject

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.fronts.http.access.scope_cache import Holding
    from bailiwick.fronts.http.table import Route
    from bailiwick.state.grants.tokens import Token

ANONYMOUS = User("anonymous")
"""Who calls from this machine where nobody needs a token: may read, and nothing else."""

COOKIE = "bailiwick_session"
"""What the cookie of a session is called, before the port: a browser sends every cookie of a host
to all of its ports, so that without it two servers on one machine would overwrite each other's."""

KEY = b"x-bailiwick-session"
"""Where a page shows the other half of its session. A cookie reaches whatever listens on any port
of the host; what a page keeps for itself reaches its own server alone."""

_CALLERS_KEPT = 10_000
_SHOWN_KEPT = 256


class CallerBudget:
    """What one subject may have of this process, by whichever tokens it calls."""

    __slots__ = ("changes", "forks", "reads", "requests", "streams", "subject")

    def __init__(self, subject: str, reads: Pace | None, changes: Pace | None) -> None:
        self.subject = subject
        self.reads = reads
        self.changes = changes
        self.requests = 0
        self.streams = 0
        self.forks: dict[object, Callable[[], None]] = {}
        """The forks that are open for it, the longest first, each with what lets go of it."""

    @property
    def is_untouched(self) -> bool:
        """Whether a new one would be the same."""
        paces = (self.reads, self.changes)
        used = self.requests or self.forks
        return not used and all(pace is None or pace.is_paid for pace in paces)


class HttpCaller:
    """One token, session or the anonymous reader: who it is, and what is remembered for it."""

    __slots__ = (
        "budget", "by_cookie", "digest", "grant_id", "holding", "is_person", "subject", "token",
    )  # fmt: skip

    def __init__(
        self,
        subject: Subject,
        grant_id: str | None,
        by_cookie: bool,
        digest: bytes = b"",
        token: Token | None = None,
    ) -> None:
        self.subject = subject
        self.grant_id = grant_id
        self.by_cookie = by_cookie
        self.digest = digest
        self.token = token
        self.budget = CallerBudget(str(subject), None, None)
        self.holding: Holding | None = None
        # Whether all that a person or the host may do is theirs. Whoever was handed one grant has
        # that and no more, whatever name it was handed to.
        named = isinstance(subject, (User, Core)) and subject != ANONYMOUS
        self.is_person = named and grant_id is None

    @property
    def holder(self) -> str:
        """To whom belongs what is held for this caller alone. The name in the token of one grant
        was chosen by whoever passed it on: it proves nothing."""
        return str(self.subject) if self.grant_id is None else f"grant {self.grant_id}"


class Callers:
    """Knows callers by what they show. What was looked up is kept until a token changes."""

    def __init__(
        self,
        authority: Authority,
        settings: ServerSettings,
        forgotten: Callable[[HttpCaller], None] = lambda caller: None,
    ) -> None:
        self._authority = authority
        self._tokens = authority.tokens
        self._forgotten = forgotten
        self._settings = settings
        self._seen: object = None
        self._known: dict[bytes, tuple[HttpCaller, Token]] = {}
        # By the header as it came, for a little while: what a client sends with every request is
        # neither taken apart nor hashed each time.
        self._shown: dict[bytes, HttpCaller] = {}
        self._budgets: dict[tuple[str, bool], CallerBudget] = {}
        self._anonymous = HttpCaller(ANONYMOUS, None, False)
        # Decided once: a server that had a token does not open because the last one has ended.
        self._open = not self._tokens.tokens()

    def find(
        self, headers: dict[bytes, bytes], client: str | None, query: bytes = b""
    ) -> HttpCaller:
        """The caller of a request. Raises `Unauthenticated`.

        ``query`` is that of a route which takes the key of a session there.
        """
        state = self._tokens.state
        if state is not self._seen:
            self._look_again(state)
        shown = headers.get(b"authorization")
        if shown is not None:
            caller = self._shown.get(shown)
            return self._by_token(shown) if caller is None else caller
        cookie = headers.get(b"cookie")
        if cookie is not None:
            secret = session_of(cookie, headers, query)
            if secret:
                return self._known_by(secret, by_cookie=True)
        if self._open and client is not None and is_loopback(client):
            return self._anonymous
        raise _unknown("this server wants a token")

    def _by_token(self, shown: bytes) -> HttpCaller:
        kind, _, secret = shown.partition(b" ")
        if kind.lower() != b"bearer":
            raise _unknown("this server takes Bearer tokens")
        caller = self._known_by(secret.strip(), by_cookie=False)
        if caller.token is not None and caller.token.expires_ns is None:
            if len(self._shown) >= _SHOWN_KEPT:
                self._shown.clear()
            self._shown[shown] = caller
        return caller

    def _known_by(self, secret: bytes, *, by_cookie: bool) -> HttpCaller:
        key = hashlib.sha256(secret).digest()
        known = self._known.get(key)
        if known is not None and known[1].expires_ns is None and known[0].by_cookie == by_cookie:
            return known[0]
        token = self._tokens.find(secret)
        if token is None or (token.kind == "session") != by_cookie:
            raise _unknown("this token is not known, or no more")
        if known is None:
            if len(self._known) >= _CALLERS_KEPT:
                self._shown.clear()
                self._forgotten(self._known.pop(next(iter(self._known)))[0])
            subject = parse_subject(token.subject)
            caller = HttpCaller(subject, token.grant_id, by_cookie, key, token)
            caller.budget = self._budget_of(caller)
            known = self._known[key] = caller, token
        return known[0]

    def holds(self, caller: HttpCaller) -> bool:
        """Whether a caller who was found earlier would be found now."""
        if caller.token is None:
            return self._open and not self._tokens.tokens()
        return self._tokens.holds(caller.digest, caller.token)

    def _look_again(self, state: object) -> None:
        """Forget whoever has no token any more; the others keep their scopes and their pace."""
        self._seen = state
        self._shown.clear()
        self._open = self._open and not self._tokens.tokens()
        for key, (caller, token) in list(self._known.items()):
            if not self._tokens.holds(key, token):
                del self._known[key]
                self._forgotten(caller)

    def _budget_of(self, caller: HttpCaller) -> CallerBudget:
        """The budget that a caller shares with all who act for the same subject. It outlives their
        tokens: one who could have a new one by a new token would be bounded by nothing."""
        subject = str(caller.subject)
        if caller.grant_id is not None:
            # A name that somebody chose must not be charged; one that has ended has no line.
            subject = self._authority.accountable(caller.grant_id) or f"grant {caller.grant_id}"
        key = subject, caller.is_person
        budget = self._budgets.get(key)
        if budget is None:
            if len(self._budgets) >= BUDGETS_KEPT:
                self._budgets = {
                    kept: each for kept, each in self._budgets.items() if not each.is_untouched
                }
            budget = self._budgets[key] = self._new_budget(subject, is_person=caller.is_person)
        return budget

    def _new_budget(self, subject: str, *, is_person: bool) -> CallerBudget:
        """Bounds for an agent over a network; for others, and on this machine, where they are
        set. Every worker counts for itself, so each has its part."""
        settings = self._settings
        reads, changes = settings.reads_per_minute, settings.changes_per_minute
        if not is_person and not settings.loopback:
            reads = READS_PER_MINUTE if reads is None else reads
            changes = CHANGES_PER_MINUTE if changes is None else changes
        if is_person and not settings.loopback:
            reads = changes = None
        return CallerBudget(subject, self._pace(reads), self._pace(changes))

    def _parts(self) -> int:
        return max(self._settings.workers, self._authority.rates.parts)

    def _pace(self, per_minute: int | None) -> Pace | None:
        return None if per_minute is None else Pace(max(1, per_minute // self._parts()))


def admit(caller: HttpCaller, route: Route, headers: dict[bytes, bytes]) -> None:
    """Refuse a caller who may not ask this at all."""
    if caller.subject is ANONYMOUS:
        if route.who != "reader":
            raise _unknown("this needs a token")
        if route.changes:
            raise _unknown("without a token this server is only read")
    elif route.who == "person" and not caller.is_person:
        raise MissingAccess("only a person or the host may ask this")
    _refuse_foreign(caller, route.method, headers)
    pace = caller.budget.changes if route.changes else caller.budget.reads
    if pace is not None:
        pace.take()


def admit_mounted(caller: HttpCaller, method: str, headers: dict[bytes, bytes]) -> None:
    """Refuse a caller of what is mounted. What it does is not known here, so that anything but
    looking counts as a change."""
    _refuse_foreign(caller, method, headers)
    pace = caller.budget.reads if method in ("GET", "HEAD") else caller.budget.changes
    if pace is not None:
        pace.take()


def _refuse_foreign(caller: HttpCaller, method: str, headers: dict[bytes, bytes]) -> None:
    """Refuse what a page from elsewhere made a browser ask. A browser that says where a request
    comes from is believed before its origin, which not every request has."""
    site = headers.get(b"sec-fetch-site")
    if site is not None and site != b"same-origin" and (caller.by_cookie or site != b"none"):
        raise ForbiddenOrigin("a page from elsewhere may not call this server")
    if caller.by_cookie and method not in ("GET", "HEAD") and not same_origin(headers):
        raise ForbiddenOrigin("a change by a logged-in page must come from this server's own page")


def cookie_name(headers: dict[bytes, bytes]) -> bytes:
    """What the cookie of a session is called here: with the port as the browser knows it."""
    host = headers.get(b"host", b"")
    _, colon, port = host.rpartition(b":")
    name = COOKIE.encode()
    return b"%b_%b" % (name, port) if colon and port.isdigit() else name


def session_of(cookie: bytes, headers: dict[bytes, bytes], query: bytes = b"") -> bytes:
    """The secret of the session that a request shows: what its cookie holds and the key of its
    page, joined. Empty where either is missing. Cookies of others may look like anything."""
    key = headers.get(KEY)
    if key is None:
        key = next((pair[8:] for pair in query.split(b"&") if pair.startswith(b"session=")), b"")
    wanted = cookie_name(headers)
    for pair in cookie.split(b";"):
        name, _, value = pair.strip().partition(b"=")
        if name == wanted and value and key:
            return b"%b.%b" % (value, key)
    return b""


def _unknown(why: str) -> Unauthenticated:
    return Unauthenticated(why, hint="send the header: Authorization: Bearer TOKEN")
