"""The command line. This module picks the command and knows nothing else.

`bailiwick --help` must come at once, so nothing is imported here but `sys`: the commands stand in a
table, and the module of a command is loaded when it is called. That is also why there is no command
line framework: importing one takes longer than starting Python does.

The fronts that serve others stand in the same table by name only: a front never imports another.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Each command: the function `(arguments) → exit code` that does it (in `commands` and named `run`
# unless it is written out), and what it is for.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "files": {
        "ls": ("listing:list_directory", "list a directory"),
        "tree": ("listing:tree", "show a directory and all beneath it"),
        "cat": ("content:cat", "print what files hold"),
        "stat": ("listing:stat", "show what is known of a file or directory"),
        "find": ("search:find", "find files and directories by name, type, size, time"),
        "grep": ("search:grep", "find lines that match a pattern"),
        "diff": ("content:diff", "show what differs between files, versions or forks"),
        "write": ("content:write", "write a file from the input or from a text"),
        "edit": ("content:edit", "replace text in a file"),
        "mkdir": ("tree_changes:mkdir", "make directories"),
        "rm": ("tree_changes:rm", "remove files and directories"),
        "mv": ("tree_changes:mv", "move or rename"),
        "cp": ("tree_changes:cp", "copy files and directories"),
        "watch": ("watch", "follow changes as they are made"),
    },
    "review": {
        "review": ("review", "go through what agents did: accept it, or take it back"),
        "runs": ("runs", "what agents did, run by run: list, show"),
    },
    "versions": {
        "history": ("versions:history", "the versions of a file or directory"),
        "restore": ("versions:restore", "make a file what it was"),
        "undo": ("versions:undo", "take back what a run, a request or somebody changed"),
        "snapshot": ("versions:snapshot", "keep a version under a name: create, list, delete"),
        "fork": ("versions:fork", "a branch of its own: create, list, diff, delete"),
        "merge": ("versions:merge", "take over what a fork changed"),
    },
    "programs": {
        "exec": ("programs:run", "run a program in a sandbox, and bring back what it changed"),
        "code": ("code", "run Python in a sandbox, whose only way to the tree are calls"),
        "run": ("whole_programs", "let a program loose on a working copy, terminal and all"),
        "work": ("programs:work", "what programs changed apart: list, show, diff, apply, discard"),
        "mount": ("mount", "mount a tree on a directory, so that any program works in it"),
    },
    "trees and volumes": {
        "import": ("transfers:bring_in", "bring a directory into a volume or another place"),
        "export": ("transfers:take_out", "take a tree out into a directory"),
        "volume": ("volumes", "keep a volume: create, info, check, repair, gc, copy, compact"),
    },
    "authority": {
        "root": ("roots", "the registered trees: list, show, trust, untrust"),
        "grant": ("grants", "who may do what, where: list, show, add, revoke, token"),
        "policy": ("rules", "the rules: show, explain a decision, check a file"),
        "approvals": ("approvals", "what waits for a person: list, show, answer"),
        "audit": ("audit", "the ledger: tail, query, export, verify, head"),
    },
    "serving": {
        "serve": (
            "bailiwick.fronts.http.serve_command:main",
            "serve trees over HTTP, with a console",
        ),
        "mcp": ("bailiwick.fronts.mcp.stdio_command:main", "serve trees to a model over MCP"),
        "acp": ("bailiwick.fronts.acp.proxy:main", "stand between an ACP editor and its agent"),
    },
    "this machine": {
        "doctor": ("doctor", "what this machine can do, and the state's health"),
        "bench": ("bench", "how fast files are here, plain and through Bailiwick"),
        "guard": ("guard", "find direct filesystem use in Python code"),
        "completion": ("completion", "completion for bash, zsh or fish"),
    },
}

COMMANDS: dict[str, tuple[str, str]] = {
    name: command for group in GROUPS.values() for name, command in group.items()
}

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130

EXIT_REFUSED = 125
"""As `timeout` and `docker run` have it: Bailiwick itself refused or failed, not the program."""

_OF_PROGRAMS = ("exec", "code", "run")
"""Commands whose exit code is that of the program that they run."""

EXIT_UNREAD = 141
"""As a shell says of programs that whoever read their output left, which is no failure of theirs:
128 and the number of SIGPIPE."""

_BEFORE = ("-p", "--place", "--token", "--as")
"""Options with a value that may stand before the command too: they say where, and as whom."""


def help_text() -> str:
    width = max(map(len, COMMANDS))
    groups = "\n\n".join(
        f"{title}:\n"
        + "\n".join(f"  {name:<{width}}  {what}" for name, (_, what) in commands.items())
        for title, commands in GROUPS.items()
    )
    return f"""\
usage: bailiwick [-p PLACE] COMMAND [ARGUMENTS…]

The filesystem for AI agents: confined, governed, recorded, durable.

{groups}

  bailiwick COMMAND --help   says what a command takes, with an example
  bailiwick --version        prints the version

A PLACE is a directory, a volume such as sqlite:agent.db, or the address of a server. Without -p it
is $BAILIWICK_PLACE, else the directory you are in.
Every command takes --json. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code. Without ``arguments`` they are those of the
    process, which is for this command alone."""
    if arguments is None:
        _put_off_collecting()
    _stand_in_for_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    before = _taken_before(given)
    if not given:
        sys.stderr.write(help_text())
        return EXIT_USAGE
    name, rest = given[0], given[1:]
    if name in ("-h", "--help", "help"):
        return _say(help_text())
    if name == "--version":
        # Loaded already, or this module would not be: what is inside does not import the package.
        return _say(f"bailiwick {sys.modules['bailiwick'].__version__}\n")
    if name not in COMMANDS:
        return _unknown(name)
    # They go to the end, where an action such as `fork list` takes them too.
    end = rest.index("--") if "--" in rest else len(rest)
    return _run(name, rest[:end] + before + rest[end:])


def _put_off_collecting() -> None:
    """What is loaded stays to the end, and goes with the process. To look for garbage in it while
    it is loaded, and once more when the interpreter ends, is a quarter of what it takes to start a
    server and to stop it."""
    import atexit
    import gc

    gc.disable()
    atexit.register(gc.freeze)


def _collect_from_here() -> None:
    import gc

    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _stand_in_for_closed_streams() -> None:
    """Where a standard stream was closed before we were started, nothing is read and what is
    written is lost: else the next file that is opened would be taken for it."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            import os

            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing > number:
                try:
                    os.fstat(number)
                except OSError:
                    os.dup2(nothing, number)
                    os.close(nothing)
                    nothing = number
            setattr(sys, name, os.fdopen(nothing, mode, closefd=False))


def _taken_before(given: list[str]) -> list[str]:
    """Take the options that stand before the command; they are handed to it with its own."""
    before: list[str] = []
    while given:
        name, joined, _ = given[0].partition("=")
        if name not in _BEFORE or (not joined and len(given) == 1):
            break
        count = 1 if joined else 2
        before += given[:count]
        del given[:count]
    return before


def command(name: str) -> Callable[[list[str]], int]:
    """The function that does a command, loaded now."""
    from importlib import import_module

    module, _, function = COMMANDS[name][0].partition(":")
    if "." not in module:
        module = f"{__name__}.commands.{module}"
    found: Callable[[list[str]], int] = getattr(import_module(module), function or "run")
    return found


def _say(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        return _without_output(error)
    return EXIT_OK


def _run(name: str, arguments: list[str]) -> int:
    try:
        # What an output cannot show in its encoding is written as an escape, never an exception.
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
        run = command(name)
        _collect_from_here()
        code = run(arguments)
        sys.stdout.flush()
    except OSError as error:
        return _without_output(error, EXIT_REFUSED if name in _OF_PROGRAMS else EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except ModuleNotFoundError as error:
        return _not_installed(name, error, as_json="--json" in arguments)
    return code


def _without_output(error: OSError, failed: int = EXIT_FAILED) -> int:
    """Whoever read the output has gone, or its disk is full. Anything else is raised: what is
    opened or looked at has a name, and what is written has none."""
    from bailiwick.errors import BailiwickError

    if isinstance(error, BailiwickError) or error.filename is not None:
        raise error
    is_unread = isinstance(error, BrokenPipeError)
    if not is_unread:
        sys.stderr.write(f"bailiwick: the output cannot be written: {error.strerror}\n")
    # Python would complain once more when it closes stdout.
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_UNREAD if is_unread else failed


_EXTRAS = {"serve": "server"}
"""The extra that brings what a command needs, where it is not called like the command."""


def _not_installed(name: str, error: ModuleNotFoundError, *, as_json: bool) -> int:
    """A command that needs an extra, in an installation without it."""
    missing = (error.name or "").partition(".")[0]
    if name not in GROUPS["serving"]:
        raise error
    if missing == "bailiwick":
        hint = "install a version of Bailiwick that has it"
    else:
        hint = f"pip install 'bailiwick[{_EXTRAS.get(name, name)}]'"
    return _refused(name, "is not part of this installation", hint, as_json=as_json)


def _refused(name: str, why: str, instead: str, *, as_json: bool) -> int:
    """A command that there is, and that cannot be run here."""
    from bailiwick.errors import Unsupported
    from bailiwick.fronts.cli.output import print_error

    print_error(Unsupported(f"`bailiwick {name}` {why}", hint=instead), as_json=as_json)
    return EXIT_FAILED


def _unknown(name: str) -> int:
    import difflib

    from bailiwick.errors import escape_for_display

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    what = "option" if name.startswith("-") else "command"
    sys.stderr.write(f"bailiwick: there is no {what} {escape_for_display(name)!r}\n")
    hint = f"did you mean {near[0]!r}?" if near else "bailiwick --help lists the commands"
    sys.stderr.write(f"hint: {hint}\n")
    return EXIT_USAGE
