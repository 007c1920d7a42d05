"""`bailiwick review`: what agents did that nobody has agreed to, or would do to the tree, hunk by
hunk."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from bailiwick.errors import (
    BailiwickError,
    Busy,
    ParseError,
    PathNotFound,
    Unsupported,
    escape_for_display,
)
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK, documents
from bailiwick.fronts.cli.arguments import Parser
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.hunks import show_hunk, terminal_width
from bailiwick.fronts.cli.output import line, paint, print_json
from bailiwick.fronts.cli.seats import seated, takes_seat
from bailiwick.verbs.review.names import refuse_both

if TYPE_CHECKING:
    from bailiwick.paths import ScopedPath
    from bailiwick.reviews import ReviewFile, ReviewHunk, ReviewQueue, ReviewResult
    from bailiwick.scope import Scope

EXIT_LEFT = 3
"""Something is left to look at."""

_ID_SHOWN = 8
"""So much of an id is shown to people, and may be given for it."""

_FILES_AT_A_TIME = 1_000
"""Of a queue: for each page all of it is looked at."""

_KEYS = (
    "y accept", "n reject", "e note and reject", "s skip", "f file", "a all", "u back", "q quit",
)  # fmt: skip


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick review",
        "Goes through what agents did that nobody has agreed to, hunk by hunk. What is rejected is"
        " taken back, and the agent is told. Working copies are gone through as well, and a fork if"
        " it is named: of those what is accepted is applied or merged, what is rejected is given up"
        " there."
        " Exit status 3 says that something is left.",
        examples=(
            "bailiwick review",
            "bailiwick review 4f1c",
            "bailiwick review w1f0c2d3e4b",
            "bailiwick -p sqlite:agent.db review attempt",
            "bailiwick review --accept 4b03c4",
        ),
    )
    parser.add_argument(
        "of", metavar="RUN|WORK|FORK", nargs="?",
        help="only what this run had to do with, or what this working copy or fork would do; where"
        " several are called so: run:…, work:… or fork:…",
    )  # fmt: skip
    parser.add_argument(
        "--accept", metavar="ID", nargs="+", action="extend", default=[],
        help="hunks, ID@VERSION for one as it was shown, runs, RUN:PATH, or as well WORK or FORK",
    )  # fmt: skip
    parser.add_argument(
        "--reject", metavar="ID", nargs="+", action="extend", default=[],
        help="those are taken back",
    )  # fmt: skip
    parser.add_argument("--note", metavar="TEXT", help="what the agent is told of a rejection")
    parser.add_argument(
        "--insist", action="store_true", help="reject also while the agent is in the middle of it"
    )
    takes_seat(parser)
    options = parser.parse_args(arguments)
    if options.note is not None and not options.reject:
        parser.error("--note is for what is rejected by --reject")
    for each in set(options.accept).intersection(options.reject):
        parser.error(f"{escape_for_display(each)} is either accepted or rejected")
    return seated(options, _review)


class _Seat(NamedTuple):
    """What is reviewed in one root: all of it, a run, a working copy or a fork."""

    scope: Scope
    run: str | None = None
    work: str | None = None
    fork: str | None = None
    is_named: bool = True
    """Whether somebody asked for just this; else it is passed over while others work in it."""

    @property
    def is_apart(self) -> bool:
        return self.work is not None or self.fork is not None

    def told(self) -> dict[str, str]:
        """Where it is, for programs."""
        apart = {"work": self.work, "fork": self.fork}
        named = {name: value for name, value in apart.items() if value is not None}
        return {"root": str(self.scope.root), **named}

    async def files(self) -> tuple[list[ReviewFile], bool]:
        """All that is left, and whether there is more than was looked at."""
        files: list[ReviewFile] = []
        cursor: str | None = None
        while True:
            page = await self._page(cursor, _FILES_AT_A_TIME)
            if page is None:
                return files, False
            files += page.files
            cursor = page.next_cursor
            if cursor is None:
                return files, page.truncated

    async def left(self) -> tuple[int, bool]:
        """How many hunks, and whether there is more than was looked at."""
        named = self if self.is_apart else self._replace(run=None)
        page = await named._page(None, 1, brief=True)
        return (0, False) if page is None else (page.left, page.truncated)

    async def _page(
        self, cursor: str | None, limit: int, *, brief: bool = False
    ) -> ReviewQueue | None:
        """Some of what is left; of a working copy that holds nothing any more, None."""
        try:
            return await self.scope.review.queue(
                run=self.run, work=self.work, fork=self.fork, cursor=cursor, limit=limit,
                brief=brief,
            )  # fmt: skip
        except PathNotFound:
            if self.work is None:
                raise
        except Busy:
            if self.work is None or self.is_named:
                raise
            sys.stderr.write(f"note: somebody works in {self.work}: not looked at\n")
        return None

    async def accept(self, names: list[str]) -> ReviewResult:
        return await self.scope.review.accept(names, work=self.work, fork=self.fork)

    async def reject(self, names: list[str], note: str | None, insist: bool) -> ReviewResult:
        return await self.scope.review.reject(
            names, note=note, insist=insist, work=self.work, fork=self.fork
        )


async def _seats(scopes: dict[str, Scope], of: str | None) -> list[_Seat]:
    """What a text means, in whichever root it is; without one all that agents did, and what is not
    applied yet. Raises `PathNotFound`, `ParseError`."""
    if of is None:
        seats = [_Seat(scope) for scope in _with_history(scopes)]
        for scope in scopes.values():
            with suppress(Unsupported):
                works = await scope.work()
                seats += [_Seat(scope, work=each.id, is_named=False) for each in works]
        return seats
    found = [seat for scope in scopes.values() for seat in await _called(scope, of)]
    if not found:
        raise PathNotFound(
            f"there is no run, working copy or fork {of[:40]!r}",
            hint="`bailiwick runs`, `bailiwick work list` and `bailiwick fork list` show them",
        )
    if len(found) > 1:
        raise ParseError(
            f"{len(found)} are called {of[:40]!r}", hint="say run:…, work:… or fork:…, or --root"
        )
    return found


def _with_history(scopes: dict[str, Scope]) -> list[Scope]:
    """Those in which something is known of what agents did; all where that is none of them."""
    kept = {name: scope for name, scope in scopes.items() if "history" in scope.powers} or scopes
    for name in scopes.keys() - kept.keys():
        sys.stderr.write(f"note: {name} keeps no history: there is nothing to review in it\n")
    return list(kept.values())


async def _called(scope: Scope, of: str) -> list[_Seat]:
    kind, colon, name = of.partition(":")
    if not colon or kind not in ("run", "work", "fork"):
        kind, name = "", of
    found: list[_Seat] = []
    if kind in ("", "run"):
        with suppress(PathNotFound, Unsupported):
            found.append(_Seat(scope, run=(await scope.run_info(name)).info.id))
    with suppress(Unsupported):
        if kind in ("", "work"):
            found += [_Seat(scope, work=each.id) for each in await scope.work() if each.id == name]
    with suppress(Unsupported):
        if kind in ("", "fork"):
            forks = await scope.forks()
            found += [_Seat(scope, fork=name) for each in forks if each.name == name]
    return found


async def _review(scopes: dict[str, Scope], options: Options) -> int:
    seats = await _seats(scopes, options.of)
    if options.accept or options.reject:
        await _refuse_both(seats, options)
        return await _say(seats, options)
    looked = [(seat, *await seat.files()) for seat in seats]
    found = [(seat, file) for seat, files, _ in looked for file in files]
    is_cut = any(cut for *_, cut in looked)
    left = sum(len(file.hunks) for _, file in found)
    if options.json:
        files = [{**seat.told(), **documents.fields(file)} for seat, file in found]
        print_json({"kind": "review", "files": files, "left": left, "truncated": is_cut})
    elif left and sys.stdin.isatty() and sys.stdout.isatty():
        return await _ask(found, options.insist, is_cut)
    else:
        for seat, file in found:
            _show_file(seat, file)
            for hunk in file.hunks:
                _show_hunk(hunk, None)
        _show_left(left, is_cut)
    return EXIT_LEFT if left or is_cut else EXIT_OK


async def _refuse_both(seats: list[_Seat], options: Options) -> None:
    """A run is accepted with all that is left of it: so a hunk of it cannot be rejected then."""
    if options.accept and options.reject:
        for seat in seats:
            files, _ = await seat.files()
            refuse_both(options.accept, options.reject, files, seat.work or seat.fork)


async def _say(seats: list[_Seat], options: Options) -> int:
    """Verdicts that were given by ids, each in the root or the working copy that has it. Where one
    fails, what came of those before it is told all the same."""
    results: list[ReviewResult] = []
    failure: BailiwickError | None = None
    try:
        async for result in _spoken(seats, options):
            results += [result]
    except BailiwickError as error:
        if not results:
            raise
        failure = error
    counted = [await seat.left() for seat in seats]
    left, is_cut = sum(each for each, _ in counted), any(cut for _, cut in counted)
    conflicts = [each for result in results for each in result.conflicts]
    if options.json:
        said = {
            "accepted": [each for result in results for each in result.accepted],
            "rejected": [each for result in results for each in result.rejected],
            "applied": [str(each) for result in results for each in result.applied],
            "undone": [str(each) for result in results for each in result.undone],
            "conflicts": [documents.fields(each) for each in conflicts],
        }
        print_json({"kind": "review_result", **said, "left": left, "truncated": is_cut})
    else:
        # What is accepted of what is apart is told as applied.
        accepted = sum(len(result.accepted) for result in results if not result.applied)
        if accepted:
            line(f"accepted: {accepted} hunk{'' if accepted == 1 else 's'}")
        _show_results(results)
        _show_left(left, is_cut)
    if failure is not None:
        raise failure
    if conflicts:
        return EXIT_FAILED
    return EXIT_LEFT if left or is_cut else EXIT_OK


async def _spoken(seats: list[_Seat], options: Options) -> AsyncIterator[ReviewResult]:
    """What comes of each verdict; of what is apart, of all that is said alike at once."""
    if all(seat.is_apart for seat in seats):
        (seat,) = seats
        if options.accept:
            yield await seat.accept(options.accept)
        if options.reject:
            yield await seat.reject(options.reject, options.note, options.insist)
        return
    for id in options.accept:
        yield await _say_one(seats, id, True, options)
    for id in options.reject:
        yield await _say_one(seats, id, False, options)


async def _say_one(seats: list[_Seat], id: str, accepts: bool, options: Options) -> ReviewResult:
    missing: PathNotFound | None = None
    for seat in seats:
        try:
            if accepts:
                return await seat.accept([id])
            return await seat.reject([id], options.note, options.insist)
        except PathNotFound as error:
            missing = error
    assert missing is not None, "there is a root"
    raise missing


def _show_results(results: list[ReviewResult], accepted: Sequence[ScopedPath] = ()) -> None:
    """What came of it, each path once, and where people ``accepted`` something."""
    for what, paths in (
        ("accepted", accepted),
        ("applied", [path for result in results for path in result.applied]),
        ("taken back", [path for result in results for path in result.undone]),
    ):
        for path in dict.fromkeys(paths):
            line(f"{what}: {escape_for_display(path)}")
    for conflict in [each for result in results for each in result.conflicts]:
        place = escape_for_display(conflict.path)
        line(paint(f"left as it is: {place}: {conflict.reason}", "red"))


def _show_left(left: int, is_cut: bool) -> None:
    words = f"{left} left" if left else "nothing is left to review"
    line(f"{words} of what was looked at: there is more" if is_cut else words)


def _show_file(seat: _Seat, file: ReviewFile) -> None:
    came = "" if file.origin is None else f" (from {escape_for_display(file.origin)})"
    apart = seat.work or seat.fork
    where = "" if apart is None else f" in {escape_for_display(apart)}, not applied yet"
    over = ", over something else that is gone" if file.replaces else ""
    line(paint(f"{file.kind} {escape_for_display(file.path)}{came}{over}{where}", "yellow"))
    if file.against is not None:
        line(paint(escape_for_display(file.against), "red"))


def _show_hunk(hunk: ReviewHunk, width: int | None) -> None:
    whose = escape_for_display(hunk.title or hunk.subject or "an agent")
    id = hunk.id if width is None else hunk.id[:_ID_SHOWN]
    line(paint(f"{hunk.header} {id}", "cyan"))
    line(paint(f"by {whose}", "dim"))
    for each in show_hunk(hunk.lines, width):
        line(each)


# --- at a terminal -----------------------------------------------------------------------------


class _SeenHunk(NamedTuple):
    """A hunk that a person was shown, and what it is called."""

    seat: _Seat
    file: ReviewFile
    hunk: ReviewHunk

    @property
    def name(self) -> str:
        return f"{self.hunk.id}@{self.file.version}"


_Said = tuple[bool, str | None]
"""Whether a hunk is accepted, and the note to a rejection."""


async def _ask(found: list[tuple[_Seat, ReviewFile]], insist: bool, is_cut: bool) -> int:
    """Go through hunks, and do what was said of them at the end."""
    hunks = [_SeenHunk(seat, file, hunk) for seat, file in found for hunk in file.hunks]
    said: dict[int, _Said] = {}
    place = 0
    while place < len(hunks):
        seat, file, hunk = hunks[place]
        _show_file(seat, file)
        _show_hunk(hunk, terminal_width())
        key, note = _key(place + 1, len(hunks))
        if key == "q":
            break
        if key == "u":
            place = max(0, place - 1)
            said.pop(place, None)
            continue
        end = {
            "f": next((p for p in range(place, len(hunks)) if hunks[p][1] is not file), len(hunks)),
            "a": len(hunks),
        }.get(key, place + 1)
        if key != "s":
            said |= dict.fromkeys(range(place, end), (key not in "ne", note))
        place = end
    chosen = [(hunks[number], *each) for number, each in said.items()]
    results: list[ReviewResult] = []
    accepted: list[ScopedPath] = []
    for some, accepts, note in _together(chosen):
        seat, names = some[0].seat, [each.name for each in some]
        try:
            done = await (seat.accept(names) if accepts else seat.reject(names, note, insist))
            results.append(done)
            if not seat.is_apart:  # what was accepted there is told as applied
                accepted += [each.file.path for each in some if each.hunk.id in done.accepted]
        except BailiwickError as error:  # changed while they looked at it, or in use: said alone
            why = f"{error.message} ({error.hint})" if error.hint else error.message
            line(paint(f"left as it is: {escape_for_display(why)}", "red"))
    _show_results(results, accepted)
    left = len(hunks) - sum(len(each.accepted) + len(each.rejected) for each in results)
    _show_left(left, is_cut)
    return EXIT_LEFT if left or is_cut else EXIT_OK


def _together(
    chosen: list[tuple[_SeenHunk, bool, str | None]],
) -> Iterator[tuple[list[_SeenHunk], bool, str | None]]:
    """What is said at once: of what is apart all that is accepted, and then what is rejected with
    one note, since each changes what it is compared with; else hunk by hunk, so that one that
    stands against something keeps no other back."""
    together: dict[tuple[int, bool, str | None], list[_SeenHunk]] = {}
    for shown, accepts, note in chosen:
        if shown.seat.is_apart:
            together.setdefault((id(shown.seat), not accepts, note), []).append(shown)
        else:
            yield [shown], accepts, note
    for (_, rejects, note), some in sorted(together.items(), key=lambda each: each[0][1]):
        yield some, not rejects, note


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have an interrupt end a question: the event loop, which would see to it, stands still while
    somebody is asked."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _key(number: int, count: int) -> tuple[str, str | None]:
    """What a person presses, and their note. The end of what they type is to quit."""
    while True:
        try:
            with _interruptible():
                key = input(f"({number}/{count}) y,n,e,s,f,a,u,q,? ").strip().lower()
                if key == "e":
                    note = input("note: ").strip()
                    if note:
                        return key, note
                    line("an empty note is none: n rejects without one")
                    continue
        except EOFError:
            return "q", None
        except KeyboardInterrupt:
            line("\nnothing of it was done")
            raise
        if len(key) == 1 and key in "ynsfauq":
            return key, None
        one_line = "  ".join(_KEYS)
        line(one_line if len(one_line) < terminal_width() else "\n".join(_KEYS))
