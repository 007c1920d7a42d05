"""The command line. This module picks the command and knows nothing else.

`bailiwick --help` must come at once, so nothing is imported here but `sys`: the commands stand in a
table, and the module of a command is loaded when it is called. That is also why there is no command
line framework: importing one takes longer than starting Python does.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Each command: the module whose `run(arguments) → exit code` does it, and what it is for.
COMMANDS: dict[str, tuple[str, str]] = {
    "root": ("bailiwick.fronts.cli.roots", "the registered trees: list, show, trust, untrust"),
    "grant": ("bailiwick.fronts.cli.grants", "who may do what, where: list, show, add, revoke"),
    "policy": ("bailiwick.fronts.cli.rules", "the rules: show, explain a decision, check a file"),
    "approvals": ("bailiwick.fronts.cli.approvals", "what waits for a person: list, show, answer"),
    "audit": ("bailiwick.fronts.cli.audit", "the ledger: tail, query, export, verify, head"),
    "doctor": ("bailiwick.fronts.cli.doctor", "what this machine can do, and the state's health"),
    "guard": ("bailiwick.fronts.cli.guard", "find direct filesystem use in Python code"),
}

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


def help_text() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items())
    return f"""\
usage: bailiwick COMMAND [ARGUMENTS…]

The filesystem for AI agents: confined, governed, recorded, durable.

{commands}

  bailiwick COMMAND --help   says what a command takes
  bailiwick --version        prints the version

Every command takes --json. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        sys.stderr.write(help_text())
        return EXIT_USAGE
    name, rest = given[0], given[1:]
    if name in ("-h", "--help", "help"):
        sys.stdout.write(help_text())
        return EXIT_OK
    if name == "--version":
        # Loaded already, or this module would not be: what is inside does not import the package.
        sys.stdout.write(f"bailiwick {sys.modules['bailiwick'].__version__}\n")
        return EXIT_OK
    if name not in COMMANDS:
        return _unknown(name)
    return _run(COMMANDS[name][0], rest)


def _run(module: str, arguments: list[str]) -> int:
    from importlib import import_module

    try:
        code: int = import_module(module).run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone. Python would complain once more when it closes stdout.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


def _unknown(name: str) -> int:
    import difflib

    from bailiwick.errors import escape_for_display

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    what = "option" if name.startswith("-") else "command"
    sys.stderr.write(f"bailiwick: there is no {what} {escape_for_display(name)!r}\n")
    hint = f"did you mean {near[0]!r}?" if near else "bailiwick --help lists the commands"
    sys.stderr.write(f"hint: {hint}\n")
    return EXIT_USAGE
