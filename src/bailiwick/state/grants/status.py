"""Whether a grant still holds, asked before every operation: a look at shared memory, no query.

What was read of the book stays good for as long as the epoch is the same; any process that revokes
a grant or takes trust away changes the epoch, so the next check here reads again. Where the state
cannot be read, nothing holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from bailiwick.errors import GrantExpired
from bailiwick.grant import Grant, Root
from bailiwick.grant_status import refuse_expired, untrusted
from bailiwick.operations import Operation
from bailiwick.state.database import Database
from bailiwick.state.epoch import current_epoch
from bailiwick.state.grants.book import DAY_NS, GrantBook
from bailiwick.state.grants.rows import revoked
from bailiwick.state.grants.trust import TrustBook
from bailiwick.state.usage.rates import Rates

_log = logging.getLogger("bailiwick.standing")

_HELD_KEPT = 10_000


class _HeldGrant:
    """What the book says of one grant that holds.

    ``until_ns`` is when to look again: its end, or a day from the last look, so that its use gets
    into the book. ``rates`` are the bounds on operations a minute that it is under.
    """

    __slots__ = ("rates", "until_ns")  # read on every check: a slot is quicker than a tuple's name

    def __init__(self, until_ns: int, rates: tuple[tuple[str, int], ...]) -> None:
        self.until_ns = until_ns
        self.rates = rates


class _View:
    """What was read under one epoch."""

    __slots__ = ("held", "seen", "trust")

    def __init__(self, seen: bytes | None, trust: Mapping[str, bool]) -> None:
        self.seen = seen
        self.trust = trust
        self.held: dict[str, _HeldGrant] = {}


class StateStanding:
    """The standing of grants that are kept in a state.

    Operations a minute are counted by each process for itself (see `bailiwick.state.usage.rates`).
    """

    constant = False

    def __init__(
        self,
        database: Database,
        grants: GrantBook,
        trust: TrustBook,
        *,
        time_ns: Callable[[], int],
        monotonic_ns: Callable[[], int],
    ) -> None:
        self._epoch = database.epoch
        self._current = database.epoch.current
        self._grants = grants
        self._trust = trust
        self._time_ns = time_ns
        self.rates = Rates(monotonic_ns)
        self._view = _View(None, {})
        self._warned: set[str] = set()

    def check(self, grant: Grant, operation: Operation) -> None:
        held = self.holds(grant, operation)
        if held.rates or grant.root.quota is not None:
            self._refuse_too_often(held, grant.root)

    def holds(self, grant: Grant, operation: Operation) -> _HeldGrant:
        view = self._view
        try:
            latest = self._current()
        except ValueError:  # the memory is not mapped any more
            latest = b""
        if latest != view.seen:
            view = self._look_again()
        now_ns = self._time_ns()
        held = view.held.get(grant.id)
        if held is None or now_ns >= held.until_ns:
            held = self._look_up(view, grant, now_ns)
        if grant.expires_at is not None:
            refuse_expired(grant, now_ns)
        if operation.changes and (view.trust or not grant.root.trusted):
            self._refuse_untrusted(view, grant.root)
        return held

    def _look_again(self) -> _View:
        seen = current_epoch(self._epoch)
        trust = self._trust.read()
        view = _View(seen if self._epoch.is_steady(seen) else None, trust)
        self._warned -= {root for root, trusted in trust.items() if trusted}
        self._view = view
        return view

    def _look_up(self, view: _View, grant: Grant, now_ns: int) -> _HeldGrant:
        row = self._grants.row(grant.id)
        if row is None or row[1] is not None:
            raise revoked()
        expires_ns, _, seen_ns = row
        if now_ns >= expires_ns:
            raise GrantExpired("the grant's time is up", hint="request the root again")
        if now_ns - seen_ns >= DAY_NS:
            self._grants.note_use(grant.id, now_ns)
        bounds = (
            (f"grant {bound.grant_id}", bound.quota.operations_per_minute)
            for bound in self._grants.lineage(grant.id)
        )
        rates = tuple((name, rate) for name, rate in bounds if rate is not None)
        if len(view.held) >= _HELD_KEPT:
            view.held.clear()
        held = view.held[grant.id] = _HeldGrant(min(expires_ns, now_ns + DAY_NS), rates)
        return held

    def _refuse_untrusted(self, view: _View, root: Root) -> None:
        name = str(root)
        if view.trust.get(name, root.trusted):
            return
        if name not in self._warned:
            self._warned.add(name)
            _log.warning(
                "a change was refused: the root %s is not trusted (said once)",
                name,
                extra={"root": name},
            )
        raise untrusted()

    def _refuse_too_often(self, held: _HeldGrant, root: Root) -> None:
        bounds = held.rates
        if root.quota is not None and root.quota.operations_per_minute is not None:
            bounds = (*bounds, (f"root {root}", root.quota.operations_per_minute))
        if bounds:
            self.rates.pass_through(bounds)
