"""`bailiwick review`: what agents did that nobody has agreed to, hunk by hunk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bailiwick.errors import PathNotFound, escape_for_display
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK, documents
from bailiwick.fronts.cli.arguments import Parser
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.commands.runs import painted
from bailiwick.fronts.cli.output import line, paint, print_json
from bailiwick.fronts.cli.seats import found_run, seated, takes_seat

if TYPE_CHECKING:
    from bailiwick.reviews import ReviewFile, ReviewHunk, ReviewResult
    from bailiwick.scope import Scope

EXIT_LEFT = 3
"""Something is left to look at."""

_KEYS = "y accept  n reject  e note and reject  s skip  f file  a all  u back  q quit"


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick review",
        "Goes through what agents did that nobody has agreed to, hunk by hunk. What is rejected is"
        " taken back, and the agent is told. Exit status 3 says that something is left.",
        examples=("bailiwick review", "bailiwick review 4f1c", "bailiwick review --accept 4b03c4"),
    )
    parser.add_argument("run", metavar="RUN", nargs="?", help="only what this run had to do with")
    parser.add_argument(
        "--accept", metavar="ID", nargs="+", default=[], help="hunks or runs, or RUN:PATH"
    )
    parser.add_argument(
        "--reject", metavar="ID", nargs="+", default=[], help="those are taken back"
    )
    parser.add_argument("--note", metavar="TEXT", help="what the agent is told of a rejection")
    parser.add_argument(
        "--insist", action="store_true", help="reject also while the agent is in the middle of it"
    )
    takes_seat(parser)
    return seated(parser.parse_args(arguments), _review)


async def _review(scopes: dict[str, Scope], options: Options) -> int:
    if options.accept or options.reject:
        return await _say(scopes, options)
    if options.run is not None:
        await found_run(scopes, options.run)
    found = [
        (scope, file) for scope in scopes.values() for file in await _files(scope, options.run)
    ]
    left = sum(len(file.hunks) for _, file in found)
    if options.json:
        files = [{"root": str(scope.root), **documents.fields(file)} for scope, file in found]
        print_json({"kind": "review", "files": files, "left": left})
    elif left and sys.stdin.isatty() and sys.stdout.isatty():
        return await _ask(found)
    else:
        for _, file in found:
            _show_file(file)
            for hunk in file.hunks:
                _show_hunk(hunk)
        line(f"{left} left" if left else "nothing is left to review")
    return EXIT_LEFT if left else EXIT_OK


async def _files(scope: Scope, run: str | None) -> list[ReviewFile]:
    """All that is left in a root; of a run that another root has, nothing."""
    files: list[ReviewFile] = []
    cursor: str | None = None
    while True:
        try:
            page = await scope.review.queue(run=run, cursor=cursor)
        except PathNotFound:
            if run is None:
                raise
            return files
        files += page.files
        cursor = page.next_cursor
        if page.truncated and cursor is None:
            sys.stderr.write("note: there is more than was looked at\n")
        if cursor is None:
            return files


async def _say(scopes: dict[str, Scope], options: Options) -> int:
    """Verdicts that were given by ids, each in the root that has it."""
    asked = [(id, True) for id in options.accept] + [(id, False) for id in options.reject]
    results = [await _say_one(scopes, id, accepts, options) for id, accepts in asked]
    left = sum([(await scope.review.queue(limit=1)).left for scope in scopes.values()])
    conflicts = [each for result in results for each in result.conflicts]
    if options.json:
        said = {
            "accepted": [each for result in results for each in result.accepted],
            "rejected": [each for result in results for each in result.rejected],
            "undone": [str(each) for result in results for each in result.undone],
            "conflicts": [documents.fields(each) for each in conflicts],
        }
        print_json({"kind": "review_result", **said, "left": left})
    else:
        _show_results(results)
        line(f"{left} left")
    if conflicts:
        return EXIT_FAILED
    return EXIT_LEFT if left else EXIT_OK


async def _say_one(
    scopes: dict[str, Scope], id: str, accepts: bool, options: Options
) -> ReviewResult:
    missing: PathNotFound | None = None
    for scope in scopes.values():
        try:
            if accepts:
                return await scope.review.accept(id)
            return await scope.review.reject(id, note=options.note, insist=options.insist)
        except PathNotFound as error:
            missing = error
    assert missing is not None, "there is a root"
    raise missing


def _show_results(results: list[ReviewResult]) -> None:
    for result in results:
        for path in result.undone:
            line(f"taken back: {escape_for_display(path)}")
        for conflict in result.conflicts:
            place = escape_for_display(conflict.path)
            line(paint(f"left as it is: {place}: {conflict.reason}", "red"))


def _show_file(file: ReviewFile) -> None:
    line(paint(f"{file.kind} {escape_for_display(file.path)}", "yellow"))


def _show_hunk(hunk: ReviewHunk) -> None:
    whose = escape_for_display(hunk.title or hunk.subject or "an agent")
    line(paint(f"{hunk.header} {hunk.id}", "cyan"))
    line(paint(f"by {whose}", "dim"))
    for each in hunk.lines:
        line(painted(each))


# --- at a terminal -----------------------------------------------------------------------------


async def _ask(found: list[tuple[Scope, ReviewFile]]) -> int:
    """Go through hunks, and do what was said of them at the end."""
    hunks = [(scope, file, hunk) for scope, file in found for hunk in file.hunks]
    said: dict[int, tuple[bool, str | None]] = {}
    place = 0
    while place < len(hunks):
        _, file, hunk = hunks[place]
        _show_file(file)
        _show_hunk(hunk)
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
    results = []
    for number, (accepts, note) in said.items():
        scope, _, hunk = hunks[number]
        if accepts:
            results.append(await scope.review.accept(hunk.id))
        else:
            results.append(await scope.review.reject(hunk.id, note=note))
    _show_results(results)
    left = len(hunks) - sum(len(each.accepted) + len(each.rejected) for each in results)
    line(f"{left} left" if left else "nothing is left to review")
    return EXIT_LEFT if left else EXIT_OK


def _key(number: int, count: int) -> tuple[str, str | None]:
    """What a person presses, and their note. The end of what they type is to quit."""
    while True:
        try:
            key = input(f"({number}/{count}) y,n,e,s,f,a,u,q,? ").strip().lower()
            if key == "e":
                return key, input("note: ").strip() or None
        except EOFError:
            return "q", None
        if key and key in "ynsfauq":
            return key, None
        line(_KEYS)
