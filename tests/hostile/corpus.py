"""The corpus: every row, how it is run, and how it is judged.

A row is run for every verb and path, with the kernel's containment and with the walk, in one event
loop. After each case: the outside is exactly as it was, to the last access time; no descriptor is
left open; no staging name is left anywhere; a failure was typed, changed nothing and told no host
path; nothing of the outside stands in the answer or was brought inside; and both containments gave
the same kind of answer. What should be as the plain call has it is compared with that call on a
twin tree.
"""

import asyncio
import hashlib
import os
import re
import signal
from typing import Any, NamedTuple

import bailiwick
from bailiwick.errors import BailiwickError, from_os_error
from tests.hostile import inside, rows_links, rows_names, rows_objects
from tests.hostile.layouts import (
    CANARY,
    SECRET_TEXT,
    Layout,
    Seen,
    difference,
    litter,
    snapshot,
    without_times,
)
from tests.hostile.row import Row
from tests.hostile.verbs import SPECIAL, VERBS, Verb

ROWS: dict[str, Row] = {
    row.number: row for row in (*rows_names.ROWS, *rows_links.ROWS, *rows_objects.ROWS)
}
CONTAINMENTS = {"kernel": "require-kernel", "walk": "walk"}
CASE_SECONDS_MAX = 4.0
SECRET_HASH = hashlib.sha256(SECRET_TEXT.encode()).hexdigest()
OUTSIDE_NAMES = ("outside", "secret", "root-evil", "box", "inner")


class Hang(BaseException):
    """A case took so long that it must be waiting for something that never comes."""


class Outcome(NamedTuple):
    """What a case came to: a kind of error, `ok`, `yes` or `no`; and its value if it had one."""

    kind: str
    value: Any = None


class Case(NamedTuple):
    row: Row
    path: str
    verb: Verb
    containment: str

    def __str__(self) -> str:
        return f"{self.verb.name}({self.path[:60]!r}) by {self.containment}"


def layout_of(row: Row) -> Layout:
    return Layout(f"{inside.arena()}/{row.place}", row.build, row.keep)


def twin_of(row: Row) -> Layout:
    return Layout(f"{inside.arena()}/twin", row.build, ())


def verbs_of(row: Row) -> list[Verb]:
    known = {**VERBS, **SPECIAL}
    return [known[name] for name in row.verbs or VERBS]


def allowed(row: Row, verb: str) -> set[str]:
    return set((row.expect.get(verb) or row.expect["*"]).split("|"))


# --- running ---------------------------------------------------------------------------------


def _give_up(*_: object) -> None:
    raise Hang


async def attempt(fs: bailiwick.Scope, verb: Verb, path: str) -> tuple[Outcome, Exception | None]:
    # Something that only takes for ever is cancelled; what blocks the loop itself, interrupted.
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, 2 * CASE_SECONDS_MAX)
    try:
        async with asyncio.timeout(CASE_SECONDS_MAX):
            value = await verb.through(fs, path)
    except TimeoutError:
        return Outcome(f"HANG: no answer in {CASE_SECONDS_MAX} s"), None
    except BailiwickError as error:
        return Outcome(error.kind), error
    except Exception as error:
        return Outcome(f"UNTYPED {type(error).__name__}: {error}"), error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if isinstance(value, bool) and verb.name == "exists":
        return Outcome("yes" if value else "no", value), None
    return Outcome("ok", value), None


def plainly(verb: Verb, twin: Layout, path: str) -> Outcome:
    """The plain call on the twin. Dot-dot that a caller types is taken by the text."""
    text = twin.spell(path)
    if not text.startswith("/"):
        text = os.path.normpath(text) + ("/" if text.endswith("/") else "")
    try:
        value = verb.plain(twin.root, text)
    except OSError as error:
        return Outcome(from_os_error(error).kind)
    if verb.name == "exists":
        return Outcome("yes" if value else "no", value)
    return Outcome("ok", value)


# --- judging ---------------------------------------------------------------------------------


class Judge:
    """Runs the cases of one row and collects what is wrong with them."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.layout, self.twin = layout_of(row), twin_of(row)
        self.faults: list[str] = []
        self.outcomes: dict[tuple[str, str], dict[str, str]] = {}
        self.before: dict[str, Seen] = {}
        self.outside_before: dict[str, Seen] = {}
        self.descriptors = 0
        self.cases = 0

    def look_inside(self) -> dict[str, Seen]:
        return snapshot(self.layout.root, skip=self.row.keep)

    def look_outside(self) -> dict[str, Seen]:
        seen = snapshot(self.layout.outside, outside=True)
        if self.row.place == "case":
            evil = snapshot(f"{self.layout.place}/root-evil", outside=True)
            seen |= {f"root-evil/{name}": each for name, each in evil.items()}
        if self.row.shared:
            # mtime and inode stay; what a second name may change is left out.
            kept = {"name": (0, 2, 3), "content": (0, 3)}[self.row.shared]
            seen = {
                name: each._replace(times=tuple(each.times[index] for index in kept))
                for name, each in seen.items()
            }
        return seen

    def reset(self) -> None:
        self.layout.reset()
        self.before = self.look_inside()
        self.outside_before = self.look_outside()

    async def run(self) -> None:
        self.row.ready(self.layout)
        self.reset()
        for containment, option in CONTAINMENTS.items():
            if inside.identity() == "bare" and containment == "kernel":
                continue  # without /proc there is only the walk
            options = {"durability": "rename", **self.row.options, "containment": option}
            async with bailiwick.open(self.layout.root, **options) as fs:
                await attempt(fs, VERBS["write_overwrite"], "f")
                await attempt(fs, VERBS["list"], ".")
                self.reset()
                self.descriptors = count_descriptors()
                for path in self.row.paths:
                    for verb in verbs_of(self.row):
                        case = Case(self.row, path, verb, containment)
                        await self.judge(fs, case)
        self.compare_containments()

    async def judge(self, fs: bailiwick.Scope, case: Case) -> None:
        self.cases += 1
        outcome, error = await attempt(fs, case.verb, self.layout.spell(case.path))
        after, outside_after = self.look_inside(), self.look_outside()
        faults = self.safety_faults(case, outcome, error, after, outside_after)
        faults += self.meaning_faults(case, outcome, after)
        self.faults += [f"{case}: {fault}" for fault in faults]
        self.outcomes.setdefault((case.path, case.verb.name), {})[case.containment] = outcome.kind
        if after != self.before or outside_after != self.outside_before:
            self.reset()
            self.descriptors = count_descriptors()

    def safety_faults(
        self,
        case: Case,
        outcome: Outcome,
        error: Exception | None,
        after: dict[str, Seen],
        outside_after: dict[str, Seen],
    ) -> list[str]:
        faults = []
        if outside_after != self.outside_before:
            faults.append(f"ESCAPE: outside, {difference(self.outside_before, outside_after)}")
        if outcome.value is not None and self.row.shared != "content":
            shown = repr(outcome.value)
            if CANARY in shown or os.environ[inside.CANARY_VARIABLE] in shown:
                faults.append(f"ESCAPE: the answer holds outside content: {shown[:200]}")
            if self.row.place == "bind" and re.search(r"secret|inner", shown):
                faults.append(f"ESCAPE: the answer names outside files: {shown[:200]}")
        brought = [n for n, each in after.items() if each.content == SECRET_HASH]
        known = [n for n, each in self.before.items() if each.content == SECRET_HASH]
        if len(brought) > len(known) and self.row.shared != "content":
            faults.append(f"ESCAPE: outside content was brought inside: {brought}")
        if (now := count_descriptors()) != self.descriptors:
            faults.append(f"{now - self.descriptors:+} descriptors: {named_descriptors()}")
            self.descriptors = now
        if left := set(litter(after)) - set(litter(self.before)):
            faults.append(f"staging names are left: {sorted(left)}")
        if error is not None:
            faults += self.error_faults(case, error, after)
        if rows_objects.controlling_terminal():
            faults.append("ESCAPE: a terminal was acquired")
        return faults

    def error_faults(self, case: Case, error: Exception, after: dict[str, Seen]) -> list[str]:
        faults = []
        if not isinstance(error, BailiwickError):
            faults.append(f"not a typed error: {type(error).__name__}: {error}")
        if after != self.before and without_times(after) != without_times(self.before):
            changed = difference(self.before, after)
            faults.append(f"failed with {getattr(error, 'kind', error)}, yet inside: {changed}")
        told = " ".join(
            str(each)
            for each in (
                error,
                repr(error),
                getattr(error, "details", ""),
                getattr(error, "filename", ""),
            )
        )
        if inside.arena() in told:
            faults.append(f"tells a host path: {told[:200]}")
        told_names = [n for n in OUTSIDE_NAMES if n in told and n not in case.path]
        if told_names and "outside this root" not in told:
            faults.append(f"tells names of the outside ({told_names}): {told[:200]}")
        return faults

    def meaning_faults(self, case: Case, outcome: Outcome, after: dict[str, Seen]) -> list[str]:
        wanted = allowed(self.row, case.verb.name)
        if "twin" not in wanted:
            return [] if outcome.kind in wanted else [f"{outcome.kind}, not {shown(wanted)}"]
        if outcome.kind in wanted:
            return []
        self.twin.reset()
        plain = plainly(case.verb, self.twin, case.path)
        if outcome.kind != plain.kind:
            right = shown(wanted - {"twin"} | {plain.kind})
            return [f"{outcome.kind}, not {right} (as the plain call)"]
        if outcome.kind not in ("ok", "yes", "no"):
            return []
        faults = []
        if outcome.value != plain.value and normal(outcome.value) != normal(plain.value):
            faults.append(f"gave {outcome.value!r:.150}, the plain call {plain.value!r:.150}")
        twin_after = snapshot(self.twin.root)
        if self.comparable(case, after) != self.comparable(case, twin_after):
            faults.append("the tree differs from the plain call's: " + tree_difference(
                self.comparable(case, after), self.comparable(case, twin_after)))  # fmt: skip
        return faults

    def comparable(self, case: Case, seen: dict[str, Seen]) -> dict[str, Any]:
        if case.verb.name != "set_times":
            return {
                name: (kind, mode, self.neutral(content))
                for name, (kind, mode, content) in without_times(seen).items()
            }
        return {
            name: (each.type, each.times) for name, each in seen.items() if each.times[0] < 1 << 60
        }

    def neutral(self, text: str) -> str:
        """The text of a link without the place it was made in."""
        return text.replace(self.layout.place, "").replace(self.twin.place, "")

    def compare_containments(self) -> None:
        for (path, verb), kinds in self.outcomes.items():
            if len(set(kinds.values())) > 1:
                self.faults.append(f"{verb}({path[:60]!r}): the containments differ: {kinds}")


def normal(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, list) else str(value)


def shown(kinds: set[str]) -> str:
    return " or ".join(sorted(kinds))


def tree_difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    names = [n for n in sorted({*ours, *theirs}) if ours.get(n) != theirs.get(n)]
    return "; ".join(f"{n}: {ours.get(n)} against {theirs.get(n)}" for n in names)[:300]


def count_descriptors() -> int:
    return len(inside.open_descriptors())


def named_descriptors() -> list[str]:
    return [os.path.basename(name) for name in inside.open_descriptors().values()]


# --- what is called behind the wall ----------------------------------------------------------


def run_row(number: str) -> int:
    """Run every case of one row; raises with every fault, returns how many cases there were."""
    row = ROWS[number]
    judge = Judge(row)
    asyncio.run(judge.run())
    assert not judge.faults, summary(row, judge.faults)
    return judge.cases


def summary(row: Row, faults: list[str]) -> str:
    lines = [f"row {row.number}, {row.title}: {len(faults)} faults", *faults[:60]]
    return "\n  ".join(lines)


def run_control(number: str) -> None:
    """Prove that the row is an attack: without the boundary it reaches what it is after."""
    row = ROWS[number]
    layout = layout_of(row)
    row.ready(layout)
    assert row.control or row.no_control, f"row {number} has neither a control nor a reason"
    if row.control is None:
        return
    if not isinstance(row.control, tuple):
        layout.reset()
        assert row.control(layout), f"row {number}: the attack does not work on the plain call"
        return
    for name in row.control:
        layout.reset()
        before = snapshot(layout.place, outside=True, skip=("root",))
        value: Any = None
        try:
            value = VERBS[name].plain(layout.root, layout.spell(row.paths[0]))
        except OSError as error:
            value = error
        reached = snapshot(layout.place, outside=True, skip=("root",)) != before
        revealed = not isinstance(value, OSError) and not VERBS[name].changes
        assert reached or revealed, f"row {number}: plain {name} does not reach outside: {value!r}"
    layout.reset()
