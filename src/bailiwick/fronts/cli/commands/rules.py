"""`bailiwick policy`: the rules in force, and why they say what they say."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from bailiwick.config import Config, load
from bailiwick.errors import BailiwickError, IoError, ParseError, PathNotFound
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, takes_authority, takes_json
from bailiwick.fronts.cli.authority_session import Options, note_unsynchronised, with_authority
from bailiwick.fronts.cli.output import line, print_error, print_json
from bailiwick.operations import OPERATIONS, Command
from bailiwick.policies.explanation import word_for
from bailiwick.policies.toml_text import format_toml

if TYPE_CHECKING:
    from bailiwick.authority import CoreAuthority

_CONFIG_BYTES_MAX = 8 * 1024 * 1024
"""Far above any configuration, and a device named by mistake ends here."""


def run(arguments: list[str]) -> int:
    parser = Parser("bailiwick policy", "The rules in force, and why they say what they say.")
    actions = parser.actions()
    takes_authority(
        actions.add(
            "show", "Show all rules, in the order they are consulted.", "bailiwick policy show"
        )
    )
    explaining = actions.add(
        "explain",
        "Say what is decided about an operation, and by which rule.",
        "bailiwick policy explain agent_run:c1/r7 write migrations/1.sql",
    )
    explaining.add_argument("subject", metavar="SUBJECT", help="such as agent_run:c1/r7")
    explaining.add_argument("operation", metavar="OPERATION", help="such as write, or a verb")
    explaining.add_argument("path", metavar="PATH")
    explaining.add_argument("--root", help="such as workspace:demo (default: the only one)")
    explaining.add_argument(
        "--command", metavar="WORDS", help="what exec would run: 'git push origin'"
    )
    takes_authority(explaining)
    checking = actions.add(
        "check",
        "Check a configuration file without using it.",
        "bailiwick policy check bailiwick.toml",
    )
    checking.add_argument("file", metavar="FILE")
    takes_json(checking)
    options = parser.parse_args(arguments)
    if options.action == "check":
        return _check(options)
    return with_authority(options, _ACTIONS[options.action], looking=True)


async def _show(authority: CoreAuthority, options: Options) -> int:
    rules = authority.policy.show()
    if options.json:
        print_json(rules)
    else:
        line(format_toml(rules).rstrip("\n"))
    return EXIT_OK


async def _explain(authority: CoreAuthority, options: Options) -> int:
    roots = authority.roots()
    if options.root is None and len(roots) != 1:
        raise ParseError(
            "which root?", hint=f"--root {' or '.join(map(str, roots))}" if roots else None
        )
    note_unsynchronised(authority)
    root = options.root or str(roots[0])
    explanation = authority.explain(
        options.subject, root, _operation(options.operation), options.path,
        command=None if options.command is None else _command(options.command),
    )  # fmt: skip
    if options.json:
        print_json({
            "subject": explanation.subject, "root": explanation.root,
            "operation": explanation.operation, "path": explanation.path,
            **({} if explanation.command is None else {"command": explanation.command}),
            "decision": word_for(explanation.decision).partition(" ")[0],
            "accesses": [
                {
                    "access": each.access,
                    "decision": word_for(each.decision).partition(" ")[0],
                    "rule": each.rule,
                    "later": each.later,
                }
                for each in explanation.accesses
            ],
        })  # fmt: skip
    else:
        line(str(explanation))
    return EXIT_OK


def _command(text: str) -> Command:
    """The words of a command, as a shell would read them. Nothing else of a shell is meant."""
    try:
        return Command(argv=tuple(shlex.split(text)))
    except ValueError as error:
        raise ParseError(f"these are no words of a command: {error}") from None


def _operation(name: str) -> str:
    """An operation by its own name, or by that of a verb."""
    if name in OPERATIONS:
        return name
    found = next((each.name for each in OPERATIONS.values() if name in each.verbs), None)
    if found is None:
        raise ParseError(
            f"{name[:80]!r} is no operation", hint=f"there are {', '.join(OPERATIONS)}"
        )
    return found


def _check(options: Options) -> int:
    from bailiwick.build.announcements import check_webhook_blocking

    try:
        config = _load(options.file)
        check_webhook_blocking(config.notify, os.path.dirname(os.path.abspath(options.file)))
    except BailiwickError as error:
        print_error(error, as_json=options.json)
        return EXIT_FAILED
    counts = {
        "roots": len(config.roots), "grants": len(config.grants), "rules": len(config.rules),
    }  # fmt: skip
    if options.json:
        print_json({"ok": True, **counts})
    else:
        line("in order: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return EXIT_OK


def _load(file: str) -> Config:
    try:
        with open(file, "rb") as opened:
            content = opened.read(_CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        raise PathNotFound(f"there is no {file}") from None
    except (OSError, ValueError) as error:
        raise IoError(f"{file} cannot be read: {error}") from None
    if len(content) > _CONFIG_BYTES_MAX:
        raise ParseError(f"{file} is too large for a configuration")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ParseError(f"{file} is not UTF-8") from None
    return load(text, source=file)


_ACTIONS = {"show": _show, "explain": _explain}
