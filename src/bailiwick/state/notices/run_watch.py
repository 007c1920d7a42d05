"""What became of runs since the last look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from bailiwick.notices import RunNotice
from bailiwick.runs import RUN_IDLE_S, RunRow
from bailiwick.state.runs.index import RunIndex

SEEN_EVERY_S = 5.0
"""How often it is told that a run goes on: whoever shows runs wants to know that it does, and an
agent makes hundreds of calls a second."""

RUNS_FOLLOWED_MAX = 1_000
"""Runs at work at a time that are told of, the newest ones."""


class _Followed(msgspec.Struct):
    """A run, when it was last told of, what was told then, and whether it was that it ended."""

    run: RunRow
    told_ns: int
    seen_ns: int
    ended: bool = False


class RunWatch:
    """Compares the runs of a state with what they were."""

    def __init__(self, runs: RunIndex, *, time_ns: Callable[[], int]) -> None:
        self._runs = runs
        self._time_ns = time_ns
        self.begin()

    def begin(self) -> None:
        """Forget all: what is told from here on is what is new since now."""
        self._followed: dict[str, _Followed] = {}
        self._through: int | None = None
        self._began_ns = self._time_ns()

    async def look(self) -> list[RunNotice]:
        """What is to be told now, of the runs of agents."""
        through = await self._runs.through()
        is_first, now = self._through is None, self._time_ns()
        told: list[RunNotice] = []
        if through != self._through:
            self._through = through
            for run in self._runs.seen_since(int(now - RUN_IDLE_S * 1e9), RUNS_FOLLOWED_MAX):
                known = self._followed.get(run.id)
                if known is not None:
                    known.run = run
                    continue
                followed = self._followed[run.id] = _Followed(run, now, run.seen_ns)
                is_new = run.begun_ns >= self._began_ns
                if is_new or not is_first:
                    told.append(_notice("begun" if is_new else "seen", run))
                else:
                    followed.ended = not self._runs.is_active(run)
        for each in list(self._followed.values()):
            told.extend(self._gone_on(each, now))
        return told

    def _gone_on(self, each: _Followed, now: int) -> Iterator[RunNotice]:
        run = each.run
        if run.seen_ns != each.seen_ns and now - each.told_ns >= SEEN_EVERY_S * 1e9:
            each.told_ns, each.seen_ns, each.ended = now, run.seen_ns, False
            yield _notice("seen", run)
        if not each.ended and not self._runs.is_active(run):
            each.ended = True
            yield _notice("ended", run)
        if each.ended and now - run.seen_ns > RUN_IDLE_S * 1e9:
            del self._followed[run.id]


def _notice(kind: Literal["begun", "seen", "ended"], run: RunRow) -> RunNotice:
    return RunNotice(
        kind=kind, id=run.id, title=run.title, subject=run.subject, front=run.front, root=run.root,
        begun_ns=run.begun_ns, seen_ns=run.seen_ns, calls=run.calls, grant_id=run.grant_id,
    )  # fmt: skip
