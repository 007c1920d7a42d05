"""`bailiwick mount`: a tree on a directory, so that any program works in it.

The front that mounts is loaded by its name: a front never imports another.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AsyncExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from bailiwick.ending_signals import ending_signals
from bailiwick.errors import Unsupported, escape_for_display
from bailiwick.fronts.cli import EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, subject_name, takes_json
from bailiwick.fronts.cli.authority_session import Options, guarded
from bailiwick.fronts.cli.output import line, print_json
from bailiwick.fronts.cli.place import is_server, scope_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bailiwick.portal import SyncScope
    from bailiwick.scope import Scope

_FRONT: Final = "bailiwick.fronts.fuse"


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick mount",
        "Mount a tree on an empty directory. Any program works in it, under the same grant, rules,"
        " ledger and history; what it saves is one version. It stays until Ctrl-C, SIGTERM or"
        " `fusermount3 -u DIR`, and then saves what is still being written.",
        examples=(
            "bailiwick mount sqlite:agent.db ./tree",
            "bailiwick mount ./project ./tree --as agent_run:demo/1",
            "bailiwick mount sqlite:agent.db ./yesterday --as-of before-the-change",
            "bailiwick mount --clean ./tree",
        ),
    )
    parser.add_argument("place", nargs="?", metavar="PLACE", help="a directory, sqlite:agent.db …")
    parser.add_argument("directory", nargs="?", metavar="DIR", help="the directory to mount on")
    parser.add_argument("--read-only", action="store_true", help="change nothing")
    parser.add_argument(
        "--as-of", metavar="VERSION", help="what was at a version or snapshot, read-only"
    )
    parser.add_argument("--fork", metavar="NAME", help="a fork, not the tree that it was made from")
    parser.add_argument("--clean", metavar="DIR", help="take away a mount whose process was killed")
    parser.add_argument(
        "--as", dest="subject", type=subject_name, metavar="SUBJECT",
        help="programs act as an agent does, under the protective rules: agent_run:demo/1",
    )  # fmt: skip
    parser.add_argument("--token", metavar="TOKEN", help="for a server (default: $BAILIWICK_TOKEN)")
    takes_json(parser)
    options = parser.parse_args(arguments)
    if options.clean is not None:
        if options.place is not None:
            parser.error("--clean takes the directory alone")
        return guarded(lambda: _clean(options), as_json=options.json)
    if options.directory is None:
        parser.error("it takes a PLACE and a DIR")
    return guarded(lambda: _mount(options), as_json=options.json)


def _clean(options: Options) -> int:
    import_module(_FRONT).clean(options.clean)
    if options.json:
        print_json({"cleaned": os.path.abspath(options.clean)})
    else:
        line(f"cleaned {escape_for_display(options.clean)}")
    return EXIT_OK


def _mount(options: Options) -> int:
    front = import_module(_FRONT)
    _refuse_inside(options)
    with _opened(options) as scope:
        mount = front.FuseMount(
            scope, options.directory, as_of=options.as_of, read_only=options.read_only
        )
        # From before it is mounted: whoever is killed by a signal leaves a dead mount.
        with _ended_by_signals(mount), mount:
            _tell(options, mount)
            mount.wait()
    return EXIT_OK


def _refuse_inside(options: Options) -> None:
    """A tree with a mount of itself in it has no end, and would wait for itself."""
    from bailiwick.build.places import read_place

    if is_server(options.place):
        return
    served = read_place(options.place).directory
    if served is None:
        return
    outer, inner = os.path.realpath(served), os.path.realpath(options.directory)
    if os.path.commonpath((outer, inner)) == outer:
        raise Unsupported(
            "a directory cannot be mounted inside of itself",
            hint="mount it on a directory elsewhere",
        )


@contextmanager
def _opened(options: Options) -> Iterator[SyncScope]:
    """The scope that is mounted, on an event loop of its own."""
    from bailiwick.portal import Portal, SyncScope

    portal, stack = Portal.borrow(), AsyncExitStack()
    try:
        yield SyncScope(portal.run(_scope(options, stack)), portal)
    finally:
        try:
            portal.run(stack.aclose(), stoppable=False)
        finally:
            portal.give_back()


async def _scope(options: Options, stack: AsyncExitStack) -> Scope:
    from bailiwick.scope.front_access import as_called

    looking = options.read_only and options.as_of is None and options.fork is None
    scope = await stack.enter_async_context(
        scope_for(options, "looking" if looking else "versions")
    )
    scope = as_called(scope, front="fuse")
    if options.fork is not None:
        scope = await scope.open_fork(options.fork)
        stack.push_async_callback(scope.aclose)
    return scope


@contextmanager
def _ended_by_signals(mount: Any) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: mount.end()) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(options: Options, mount: Any) -> None:
    if options.json:
        print_json({"mounted": mount.directory, "readOnly": mount.read_only})
        sys.stdout.flush()
        return
    how = " read-only" if mount.read_only else ""
    shown = escape_for_display(mount.directory)
    sys.stderr.write(f"mounted{how} on {shown}; Ctrl-C saves what is open and unmounts\n")
