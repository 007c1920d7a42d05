"""`bailiwick history`, `restore`, `undo`, `snapshot`, `fork`, `merge`: the past of a place."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK, documents
from bailiwick.fronts.cli.arguments import (
    Parser,
    point_in_time,
    subject_name,
    takes_pages,
    takes_place,
    whole_number,
)
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.output import line, moment, paint, print_json, print_table
from bailiwick.fronts.cli.place import Action, in_place, with_scope
from bailiwick.fronts.cli.seats import found_run, seated

if TYPE_CHECKING:
    from bailiwick.scope import Scope
    from bailiwick.versions import Conflict, UndoResult

# --- history -----------------------------------------------------------------------------------


def history(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick history",
        "The versions of a file, newest first, and who made them; of a directory, all that happened"
        " to it and to what lay in it.",
        examples=("bailiwick history README.md", "bailiwick -p sqlite:agent.db history src"),
    )
    parser.add_argument("path", nargs="?", default=".", metavar="PATH")
    parser.add_argument("--limit", type=whole_number, default=100, metavar="N")
    parser.add_argument("--cursor", help="go on where an earlier answer ended")
    return in_place(parser, arguments, _history, needs="versions", pages=True)


async def _history(scope: Scope, options: Options) -> int:
    found = await scope.history(options.path, limit=options.limit, cursor=options.cursor)
    if options.json:
        print_json(documents.document("history", found))
        return EXIT_OK
    print_table(
        ("VERSION", "WHEN", "WHAT", "PATH", "SIZE", "WHO", "REQUEST"),
        [
            (
                each.version, "" if each.time_ns is None else moment(each.time_ns / 1e9),
                each.kind, each.path, str(each.size) if each.type == "file" else "",
                each.subject, each.request_id,
            )
            for each in found.versions
        ],
    )  # fmt: skip
    if found.next_cursor is not None:
        sys.stderr.write(f"there is more: --cursor {escape_for_display(found.next_cursor)}\n")
    return EXIT_OK


# --- restore and undo --------------------------------------------------------------------------


def restore(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick restore",
        "Make a file or directory what it was at a version or snapshot. That is a change like any"
        " other: it can be undone.",
        examples=("bailiwick restore README.md 41",),
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("version", metavar="VERSION", help="as `bailiwick history` shows them")
    return in_place(parser, arguments, _restore, needs="versions")


async def _restore(scope: Scope, options: Options) -> int:
    done = await scope.restore(options.path, options.version)
    if options.json:
        print_json(documents.document("restore", done))
    elif done.version is None:
        line(f"{escape_for_display(done.path)} is as it was then: nothing to do")
    else:
        line(f"restored {escape_for_display(done.path)} (changed: {done.changed})")
    return EXIT_OK


def undo(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick undo",
        "Take back what a run, a request, a range of versions or somebody changed, and nothing"
        " else. What was changed again since is left and reported; of a run nothing is done then."
        " An undo can be undone.",
        examples=(
            "bailiwick undo --run 4f1c --preview",
            "bailiwick undo --run 4f1c src/a.py",
            "bailiwick undo 4f1c22ab-3 --preview",
            "bailiwick undo --version 40 --through 44",
            "bailiwick undo --by agent_run:mcp/83631aed --since 2h",
        ),
        epilog="Exit code 1 when something was left because it was changed since.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="REQUEST",
        help="its id, as `bailiwick history` shows it; with --run, paths that are meant alone",
    )  # fmt: skip
    parser.add_argument("--run", metavar="RUN", help="a run, as `bailiwick runs` shows it")
    parser.add_argument(
        "--hunk", action="append", metavar="ID", help="with --run: only this hunk; may be repeated"
    )
    parser.add_argument("--step", metavar="NAME", help="with --run: only this step")
    parser.add_argument("--version", metavar="V", help="instead of a request: from this version")
    parser.add_argument("--through", metavar="V", help="to this one (default: --version alone)")
    parser.add_argument("--by", type=subject_name, metavar="SUBJECT", help="only what they did")
    parser.add_argument(
        "--since",
        type=point_in_time,
        metavar="TIME",
        help="with --by alone: what was done from this time on, such as 2h or 2026-01-31T12:00Z",
    )
    parser.add_argument("--preview", action="store_true", help="only say what would be undone")
    takes_place(parser)
    parser.add_argument("--config", metavar="FILE", help="with --run: a bailiwick.toml")
    parser.add_argument("--state", metavar="DIR", help="with --run: the state of its authority")
    parser.add_argument("--root", metavar="ROOT", help="with --run: only in this root")
    options = parser.parse_args(arguments)
    if options.run is not None:
        others = (options.version, options.through, options.by, options.since, options.subject)
        if any(each is not None for each in others):
            parser.error("--run goes with paths, --hunk, --step and --preview alone")
        return seated(options, _undo_run)
    if options.hunk or options.step or options.config or options.state or options.root:
        parser.error("--hunk, --step, --config, --state and --root go with --run")
    if len(options.names) > 1:
        parser.error("one REQUEST at a time")
    options.request = options.names[0] if options.names else None
    named = (options.request is not None) + (options.version is not None)
    if named > 1 or (not named and options.by is None):
        parser.error(
            "name a REQUEST (`bailiwick history` shows them), a run with --run (`bailiwick runs`"
            " does), versions with --version, or whose changes with --by"
        )
    if options.since is not None and (named or options.by is None):
        parser.error("--since goes with --by alone")
    if not named and options.since is None:
        parser.error("--by alone means all that they ever did: say since when with --since")
    if options.through is not None and options.version is None:
        parser.error("--through needs --version")
    return with_scope(options, _undo, needs="versions")


async def _undo(scope: Scope, options: Options) -> int:
    done = await scope.undo(
        options.request, subject=options.by, version=options.version,
        through=options.through, since_ns=options.since, preview=options.preview,
    )  # fmt: skip
    return _say_undone(done, options)


async def _undo_run(scopes: dict[str, Scope], options: Options) -> int:
    scope, run = await found_run(scopes, options.run)
    done = await scope.undo(
        run=run.info.id, paths=options.names, hunks=options.hunk, step=options.step,
        preview=options.preview,
    )  # fmt: skip
    code = _say_undone(done, options)
    if done.conflicts and not done.undone and not options.json:
        sys.stderr.write(
            "hint: nothing is taken back while anything stands against it: name the paths, or with"
            f" --hunk the hunks, that are to come: `bailiwick runs show {run.info.id}`\n"
        )
    return code


def _say_undone(done: UndoResult, options: Options) -> int:
    if options.json:
        print_json(documents.document("undo", done))
    else:
        if not done.undone and not done.conflicts:
            line("there is nothing left of it to take back")
        word = "would be put back" if done.preview else "put back"
        for path in done.undone:
            line(f"{word}: {escape_for_display(path)}")
        _say_conflicts(done.conflicts, "left as it is")
    return EXIT_FAILED if done.conflicts else EXIT_OK


def _say_conflicts(conflicts: Sequence[Conflict], what: str) -> None:
    for each in conflicts:
        mark = paint(what, "yellow", sys.stderr)
        path, reason = map(escape_for_display, (each.path, each.reason))
        sys.stderr.write(f"{mark}: {path}: {reason}\n")


# --- snapshots ---------------------------------------------------------------------------------


def snapshot(arguments: list[str]) -> int:
    parser = Parser("bailiwick snapshot", "Versions that are kept under a name.")
    actions = parser.actions()
    example = "bailiwick -p sqlite:agent.db snapshot"
    creating = actions.add("create", "Keep the newest version under a name.",
                           f"{example} create before_refactoring")  # fmt: skip
    creating.add_argument("name", metavar="NAME")
    listing = actions.add("list", "List the snapshots.", f"{example} list")
    deleting = actions.add("delete", "Let go of a snapshot.", f"{example} delete old")
    deleting.add_argument("name", metavar="NAME")
    for each in (creating, listing, deleting):
        takes_place(each)
    options = parser.parse_args(arguments)
    return with_scope(options, _SNAPSHOT[options.action], needs="versions")


async def _create_snapshot(scope: Scope, options: Options) -> int:
    made = await scope.snapshot(options.name)
    if options.json:
        print_json({"kind": "snapshot", "snapshot": documents.fields(made)})
    else:
        line(f"snapshot {escape_for_display(made.name)} is version {made.version}")
    return EXIT_OK


async def _list_snapshots(scope: Scope, options: Options) -> int:
    found = await scope.snapshots()
    if options.json:
        print_json({"kind": "snapshots", "snapshots": [documents.fields(each) for each in found]})
    else:
        rows = [(s.name, s.version, s.branch, moment(s.created_ns / 1e9)) for s in found]
        print_table(("NAME", "VERSION", "BRANCH", "MADE"), rows)
    return EXIT_OK


async def _delete_snapshot(scope: Scope, options: Options) -> int:
    await scope.delete_snapshot(options.name)
    return _deleted("snapshot", options)


def _deleted(what: str, options: Options) -> int:
    if options.json:
        print_json({"kind": "deleted", "name": options.name})
    else:
        line(f"{what} {escape_for_display(options.name)} is deleted")
    return EXIT_OK


# --- forks -------------------------------------------------------------------------------------


def fork(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick fork",
        "Branches of a volume: each a tree of its own that costs only what differs.",
        epilog="Work in a fork: -p 'sqlite:agent.db?volume=main&branch=NAME'",
    )
    actions = parser.actions()
    example = "bailiwick -p sqlite:agent.db fork"
    creating = actions.add("create", "Make a branch.", f"{example} create attempt")
    creating.add_argument("name", metavar="NAME")
    creating.add_argument("--version", metavar="V", help="from an earlier version or snapshot")
    listing = actions.add("list", "List the branches.", f"{example} list")
    comparing = actions.add("diff", "Show how a branch differs.", f"{example} diff attempt")
    comparing.add_argument("name", metavar="NAME")
    takes_pages(comparing)
    deleting = actions.add("delete", "Let go of a branch.", f"{example} delete attempt")
    deleting.add_argument("name", metavar="NAME")
    for each in (creating, listing, comparing, deleting):
        takes_place(each)
    options = parser.parse_args(arguments)
    return with_scope(options, _FORK[options.action], needs="versions")


async def _create_fork(scope: Scope, options: Options) -> int:
    made = await scope.fork(options.name, version=options.version)
    await made.aclose()
    if options.json:
        print_json({"kind": "fork", "name": options.name})
    else:
        name = escape_for_display(options.name)
        line(f"fork {name}: work in it with &branch={name} in the name of the volume")
    return EXIT_OK


async def _list_forks(scope: Scope, options: Options) -> int:
    found = await scope.forks()
    if options.json:
        print_json({"kind": "forks", "forks": [documents.fields(each) for each in found]})
    else:
        rows = [(f.name, f.parent, f.version, moment(f.created_ns / 1e9)) for f in found]
        print_table(("NAME", "FROM", "VERSION", "MADE"), rows)
    return EXIT_OK


async def _compare_fork(scope: Scope, options: Options) -> int:
    found = await scope.compare(options.name)
    if options.json:
        print_json(documents.document("compare", found, fork=options.name))
        return EXIT_OK
    colours = {"created": "green", "deleted": "red", "updated": "yellow", "moved": "cyan"}
    for each in found.differences:
        origin = f"{escape_for_display(each.origin)} → " if each.origin else ""
        line(f"{paint(f'{each.kind:<8}', colours[each.kind])}  {origin}"
             f"{escape_for_display(each.path)}")  # fmt: skip
    if found.truncated:
        sys.stderr.write("note: there are more differences than are shown\n")
    return EXIT_OK


async def _delete_fork(scope: Scope, options: Options) -> int:
    await scope.delete_fork(options.name)
    return _deleted("fork", options)


# --- merge -------------------------------------------------------------------------------------


def merge(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick merge",
        "Take over what a fork changed. Where both sides changed the same, nothing is taken over,"
        " and the conflicts are listed.",
        examples=("bailiwick -p sqlite:agent.db merge attempt --preview",),
    )
    parser.add_argument("name", metavar="FORK")
    parser.add_argument("--preview", action="store_true", help="only say what would be changed")
    return in_place(parser, arguments, _merge, needs="versions")


async def _merge(scope: Scope, options: Options) -> int:
    done = await scope.merge(options.name, preview=options.preview)
    if options.json:
        print_json(documents.document("merge", done))
    else:
        word = "would be changed" if done.preview else "changed"
        for path in done.changed:
            line(f"{word}: {escape_for_display(path)}")
        _say_conflicts(done.conflicts, "conflict")
        if done.conflicts:
            sys.stderr.write("hint: settle these in the fork or here, then merge again\n")
    return EXIT_FAILED if done.conflicts else EXIT_OK


_SNAPSHOT: dict[str, Action] = {
    "create": _create_snapshot, "list": _list_snapshots, "delete": _delete_snapshot,
}  # fmt: skip
_FORK: dict[str, Action] = {
    "create": _create_fork, "list": _list_forks, "diff": _compare_fork, "delete": _delete_fork,
}  # fmt: skip
