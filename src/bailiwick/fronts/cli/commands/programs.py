"""`bailiwick exec` and `bailiwick work`: programs in a sandbox, and what they changed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bailiwick.errors import (
    BailiwickError,
    BinaryFile,
    FileTooLarge,
    ParseError,
    PolicyDenied,
    Unsupported,
    escape_for_display,
)
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, documents
from bailiwick.fronts.cli.arguments import Parser, takes_place, whole_number
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.output import line, moment, paint, print_error, print_json, print_table
from bailiwick.fronts.cli.place import is_server, place_of, scope_for, with_scope
from bailiwick.paths import parse
from bailiwick.runs import mode_header
from bailiwick.wire import values

if TYPE_CHECKING:
    from bailiwick.commands import ExecResult, HostShare
    from bailiwick.scope import Scope
    from bailiwick.scope.execution import Execution
    from bailiwick.scope.working_copies import OpenWork
    from bailiwick.working_copy import (
        Publish,
        Published,
        Withheld,
        WorkChange,
        WorkChanges,
        WorkConflict,
    )

EXIT_TIMED_OUT: Final = 124

TIME_WAS_UP: Final = "note: its time was up, and it was ended: --timeout gives it more"

_INPUT_BYTES: Final = 64 * 1024


# --- exec --------------------------------------------------------------------------------------


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick exec",
        "Run a program in a sandbox, on a working copy of the directory. When it has ended, what it"
        " changed is brought back: judged, recorded, and undone by one request.",
        examples=(
            "bailiwick exec -- make test",
            "bailiwick -p ./project exec --network host -- pip download requests",
            "bailiwick exec --publish manual -- sh -c 'sed -i s/a/b/ *.py'",
        ),
        epilog="The exit code is the program's; 124 out of time, 125 refused or failed by"
        " Bailiwick, 126 and 127 as in a shell.",
    )
    parser.add_argument("words", nargs="+", metavar="CMD", help="the program, and its words")
    parser.add_argument("--cwd", default=".", metavar="DIR", help="where it is run")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]",
        help="a variable for it; without a value, the one that is set here",
    )  # fmt: skip
    parser.add_argument("--network", choices=("none", "loopback", "host"), default="none")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="120 unless told")
    parser.add_argument(
        "--publish", choices=("atomic", "partial", "manual"), default="atomic",
        help="all of its changes or none; those that nothing stands against; none: see"
        " `bailiwick work`",
    )  # fmt: skip
    takes_place(parser)
    options = parser.parse_args(arguments)
    try:
        return asyncio.run(_run(options))
    except BailiwickError as error:
        print_error(error, as_json=options.json)
        return EXIT_REFUSED


async def _run(options: Options) -> int:
    async with scope_for(options, "versions", _shared(options)) as scope:
        execution = scope.exec(
            options.words, cwd=options.cwd, env=environment(options.env), network=options.network,
            timeout=options.timeout, publish=options.publish,
            stdin=None if sys.stdin is None or sys.stdin.isatty() else "pipe",
        )  # fmt: skip
        try:
            async with execution:
                if sys.stdin is not None and not sys.stdin.isatty():
                    hand_on_input(execution)
                with _saying_what_may_be_kept():
                    await (print_pieces if options.json else pass_through)(execution)
                    result = await execution.result()
        except BrokenPipeError:
            await _say_what_is_kept(scope, execution)
            raise
    if options.json:
        with told_in_words(lambda: _say_what_was_left(result)):
            print_line({"result": documents.fields(result)})
    else:
        _say_what_was_left(result)
    return exit_code(result)


async def _say_what_is_kept(scope: Scope, execution: Execution) -> None:
    """Whoever read the output has enough: they are told only of what the program has changed."""
    with suppress(Unsupported):
        for each in await scope.work():
            if each.request_id == execution.request_id:
                sys.stderr.write(f"note: what it changed is kept: bailiwick work show {each.id}\n")


@contextmanager
def _saying_what_may_be_kept() -> Iterator[None]:
    """Where it ends before the program does: by Ctrl-C, or since its output cannot be written."""
    try:
        yield
    except (BailiwickError, BrokenPipeError):
        raise
    except (asyncio.CancelledError, OSError):
        sys.stderr.write(
            "note: it was ended; what it has changed, if anything, is kept: bailiwick work list\n"
        )
        raise


@contextmanager
def told_in_words(say: Callable[[], None]) -> Iterator[None]:
    """What cannot be written as JSON, since nobody reads it or its disk is full, is said on
    stderr: else nobody is told what is kept."""
    try:
        yield
    except OSError:
        say()
        raise


def _shared(options: Options) -> HostShare | None:
    """Whoever types it at the machine lets the network through."""
    from bailiwick.commands import HostShare

    if options.network == "none" or is_server(place_of(options)):
        return None
    return HostShare(networks=frozenset(("none", options.network)))


def environment(given: list[str]) -> dict[str, str]:
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name.isascii() and name.isidentifier()):
            shown = escape_for_display(name)
            raise ParseError(f"a variable has no such name: {shown!r}", hint="--env NAME[=VALUE]")
        if equals or name in os.environ:
            found[name] = value if equals else os.environ[name]
    return found


def hand_on_input(execution: Execution) -> None:
    """From a thread that nobody waits for: who types may never end."""
    loop = asyncio.get_running_loop()

    def hand_on(data: bytes) -> None:
        job = execution.write(data) if data else execution.close_input()
        task = asyncio.run_coroutine_threadsafe(_taken(job), loop)
        task.result()

    def read() -> None:
        data = b"x"
        while data:
            data = os.read(0, _INPUT_BYTES)
            try:
                hand_on(data)
            except Exception:
                return  # the program has ended, or the loop has

    threading.Thread(target=read, name="bailiwick-input", daemon=True).start()


async def _taken(job: Any) -> None:
    await job


async def pass_through(execution: Execution) -> None:
    async for piece in execution:
        stream = sys.stderr if piece.stream == "stderr" else sys.stdout
        stream.buffer.write(piece.data)
        stream.buffer.flush()


async def print_pieces(execution: Execution) -> None:
    async for piece in execution:
        print_line(msgspec.to_builtins(values.piece_line(piece)))


def print_line(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def exit_code(result: ExecResult) -> int:
    if result.timed_out:
        return EXIT_TIMED_OUT
    if result.exit_code is None:
        return 128 + (result.signal or 0)
    return result.exit_code


def _say_what_was_left(result: ExecResult) -> None:
    """On stderr: what goes through is the program's."""
    for text in (*map(withheld, result.withheld), *map(conflict, result.conflicts)):
        sys.stderr.write(text + "\n")
    if result.timed_out:
        sys.stderr.write(f"{TIME_WAS_UP}\n")
    if result.truncated:
        sys.stderr.write("note: it printed more than is kept\n")
    if result.work_id is not None:
        kept = result.work_id
        sys.stderr.write(
            f"note: not brought back: bailiwick work show {kept}, then "
            f"bailiwick work apply {kept}{partial(result)}, or discard\n"
        )


def partial(result: ExecResult) -> str:
    """How all is brought back that can be."""
    merge = " --merge" if result.conflicts else ""
    return f" --partial{merge}" if result.withheld or result.conflicts else ""


def withheld(each: Withheld) -> str:
    by = f" (decided by {each.decided_by})" if each.decided_by else ""
    return escape_for_display(f"withheld {each.path}: {each.error_kind}: {each.reason}{by}")


def conflict(each: WorkConflict) -> str:
    return escape_for_display(f"conflict {each.path}: {each.reason}")


# --- work --------------------------------------------------------------------------------------


def work(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick work",
        "What programs changed in working copies and is not in the directory: look at it, bring it"
        " back, or give it up.",
    )
    actions = parser.actions()
    for name, what, example in (
        ("list", "the working copies there are", "bailiwick work list"),
        ("show", "what one would change", "bailiwick work show w1f0c2d3e4b"),
        ("diff", "its difference, of all files or one", "bailiwick work diff w1f0c2d3e4b a.py"),
        ("apply", "bring it back, all or some paths", "bailiwick work apply w1f0c2d3e4b src"),
        ("discard", "give it up, all or some paths", "bailiwick work discard w1f0c2d3e4b"),
    ):
        action = actions.add(name, what, example)
        if name != "list":
            action.add_argument("id", metavar="ID")
        if name in ("diff", "apply", "discard"):
            action.add_argument("paths", nargs="*", default=[], metavar="PATH")
        if name == "apply":
            action.add_argument(
                "--partial", action="store_true", help="leave out what is refused or in conflict"
            )
            action.add_argument(
                "--merge", action="store_true",
                help="join texts that others have changed meanwhile with theirs, where lines allow",
            )  # fmt: skip
        if name in ("apply", "discard"):
            action.add_argument(
                "--hunks", type=_numbers, metavar="N[,N…]",
                help="some hunks of one file, by their numbers in its difference; with --seen",
            )  # fmt: skip
            action.add_argument(
                "--seen", metavar="VERSION",
                help="only what was looked at: the version that `work show` and `work diff` tell",
            )  # fmt: skip
        takes_place(action)
    options = parser.parse_args(arguments)
    if getattr(options, "hunks", None) and len(options.paths) != 1:
        parser.error("--hunks are those of one file")
    if getattr(options, "hunks", None) and options.seen is None:
        parser.error("--hunks need --seen: numbers are of the difference that `work diff` showed")
    options.no_pager = True
    return with_scope(options, _ACTIONS[options.action], needs="versions")


def _numbers(text: str) -> list[int]:
    return [whole_number(each) for each in text.split(",")]


def _chosen(options: Options) -> dict[str, Any]:
    """Which paths, or which hunks of one; and what of it was looked at."""
    if options.hunks:
        hunks = {options.paths[0]: options.hunks}
        return {"paths": (), "hunks": hunks, "seen": options.seen}
    return {"paths": options.paths or None, "seen": options.seen}


async def _list(scope: Scope, options: Options) -> int:
    found = await scope.work()
    if options.json:
        print_json({"kind": "work", "work": [documents.fields(each) for each in found]})
        return EXIT_OK
    if not found:
        line("nothing waits here to be brought back or given up")
        return EXIT_OK
    print_table(
        ("ID", "BEGAN", "WHO", "COMMAND", "REQUEST"),
        [
            (
                each.id, moment(each.began_ns / 1e9), each.subject, " ".join(each.command),
                each.request_id,
            )
            for each in found
        ],
    )  # fmt: skip
    return EXIT_OK


async def _show(scope: Scope, options: Options) -> int:
    async with await scope.open_work(options.id) as copy:
        found = await copy.changes()
    if options.json:
        print_json(documents.document("work", found, id=options.id))
        return EXIT_OK
    for change in found.changes:
        line(changed(change))
    for text in (*map(withheld, found.withheld), *map(conflict, found.conflicts)):
        line(paint(text, "red"))
    _say_version(found)
    return EXIT_OK


def _say_version(found: WorkChanges) -> None:
    """For whoever says yes to it: what is changed after they looked is not meant."""
    if found.changes:
        sys.stderr.write(f"note: apply or discard what you saw with --seen {found.version}\n")


def changed(each: WorkChange) -> str:
    came = "" if each.origin is None else f" (from {escape_for_display(each.origin)})"
    slash = "/" if each.type == "directory" else ""
    return f"{each.kind} {escape_for_display(each.path)}{slash}{came}"


async def _diff(scope: Scope, options: Options) -> int:
    async with await scope.open_work(options.id) as copy:
        found = await copy.changes()  # before any of it is shown
        known = {each.path: each for each in found.changes}
        differing = [
            str(each.path)
            for each in found.changes
            if each.type == "file" or _mode_set(each) is not None
        ]
        told: dict[str, dict[str, Any]] = {}
        for path in options.paths or differing:
            place = parse(path, scope.root.mount_point, scope.root.names).path
            told[path] = await _difference(copy, path, known.get(place))
    if options.json:
        print_json(
            {"kind": "work", "id": options.id, "differences": told, "version": found.version}
        )
        return EXIT_OK
    for path, each in told.items():
        if each["header"] is not None:
            line(f"{escape_for_display(path)}: {each['header']}")
        if "errorKind" in each:
            line(f"{escape_for_display(path)} is not shown: {each['error']}")
        sys.stdout.write(each["text"])
    _say_version(found)
    return EXIT_OK


async def _difference(copy: OpenWork, path: str, change: WorkChange | None) -> dict[str, Any]:
    """Of one path, with the header of what becomes of its mode, where it gets another; or why it is
    not shown, which keeps no other back."""
    header = None if change is None else _mode_set(change)
    told: dict[str, Any] = {"text": "", "truncated": False, "added": 0, "removed": 0}
    try:
        # A directory of which only the mode is another has no lines to differ in.
        if header is None or change is None or change.type == "file":
            told = documents.fields(await copy.diff(path))
    except (BinaryFile, FileTooLarge, PolicyDenied) as error:
        told |= {"truncated": True, "errorKind": error.kind, "error": error.message}
    return {**told, "header": header}


def _mode_set(each: WorkChange) -> str | None:
    if each.mode_before is None or each.mode is None:
        return None
    return mode_header(each.mode_before, each.mode)


async def _apply(scope: Scope, options: Options) -> int:
    async with await scope.open_work(options.id) as copy:
        publish: Publish = "partial" if options.partial else "atomic"
        published = await copy.apply(publish=publish, merge=options.merge, **_chosen(options))
    return _say_published(published, options)


def _say_published(published: Published, options: Options) -> int:
    if options.json:
        print_json(documents.document("work", published, id=options.id))
    else:
        for change in published.changes:
            line(changed(change))
        for text in (*map(withheld, published.withheld), *map(conflict, published.conflicts)):
            sys.stderr.write(text + "\n")
        left = bool(published.withheld or published.conflicts)
        if left and not (published.changes or options.partial):
            joined = bool(published.conflicts) and not options.merge
            merge = ", --merge joins the lines of both where it can" if joined else ""
            rest = "--partial brings back all the rest"
            sys.stderr.write(f"hint: nothing was brought back; {rest}{merge}\n")
        elif not (published.changes or left):
            sys.stderr.write("note: there was nothing to bring back\n")
    return EXIT_FAILED if published.withheld or published.conflicts else EXIT_OK


async def _discard(scope: Scope, options: Options) -> int:
    async with await scope.open_work(options.id) as copy:
        given_up = await copy.discard(**_chosen(options))
    if options.json:
        print_json(
            {"kind": "work", "id": options.id, "discarded": [str(each) for each in given_up]}
        )
    else:
        line(f"gave up {len(given_up)} change{'' if len(given_up) == 1 else 's'}")
    return EXIT_OK


_ACTIONS: Final = {
    "list": _list, "show": _show, "diff": _diff, "apply": _apply, "discard": _discard,
}  # fmt: skip
