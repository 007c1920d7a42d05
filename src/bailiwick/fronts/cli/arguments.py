"""How the arguments of a command are read: one parser class, and the options that many share."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

from bailiwick.errors import ParseError, escape_for_display
from bailiwick.fronts.cli import EXIT_USAGE
from bailiwick.operations import ALL_ACCESS, Access

Converted = TypeVar("Converted")

_WIDTH = 88
"""Characters of a line of help: what is pleasant to read, in any window of common size."""

describing: ContextVar[bool] = ContextVar("describing", default=False)
"""Set by whoever wants to know what a command takes and not to run it: see `ParserDescribed`."""


class ParserDescribed(Exception):
    """Raised instead of parsing while `describing`: here is the parser, with everything in it."""

    def __init__(self, parser: Parser) -> None:
        super().__init__()
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """A parser that accepts no abbreviations, so that a new option never changes an old script.

    Its help ends with ``examples``: what can be typed as it stands there.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        examples: Sequence[str] = (),
        epilog: str | None = None,
        usage_hint: str | None = None,
        **more: Any,
    ) -> None:
        self.examples = tuple(examples)
        self._usage_hint = usage_hint
        self._subparsers_by_name: dict[str, Parser] = {}
        shown = [textwrap.fill(epilog, _WIDTH)] if epilog else []
        if examples:
            title = "example:" if len(examples) == 1 else "examples:"
            shown.append("\n".join([title, *(f"  {example}" for example in examples)]))
        super().__init__(
            prog=prog,
            description=textwrap.fill(description, _WIDTH),
            epilog="\n\n".join(shown) or None,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **more,
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        if describing.get():
            raise ParserDescribed(self)
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Wrong usage: exit code 2. What was typed is shown without what could repaint a screen."""
        self.print_usage(sys.stderr)
        hint = self._usage_hint or f"{self.prog} --help shows what it takes, with an example"
        self.exit(EXIT_USAGE, f"{self.prog}: {escape_for_display(message)}\nhint: {hint}\n")

    def actions(self) -> Actions:
        group = self.add_subparsers(dest="action", required=True, metavar="ACTION")
        return Actions(group, self._subparsers_by_name)

    @property
    def subcommands(self) -> dict[str, Parser]:
        """The parsers of its actions, by name; none where it has no actions."""
        return self._subparsers_by_name


class Actions:
    """What one command can do: ``bailiwick root list``, ``bailiwick root show`` …"""

    def __init__(self, group: argparse._SubParsersAction[Parser], known: dict[str, Parser]) -> None:
        self._group = group
        self._known = known

    def add(self, name: str, what: str, *examples: str) -> Parser:
        parser = self._group.add_parser(name, help=what, description=what, examples=examples)
        self._known[name] = parser
        return parser


def takes_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def takes_pages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-pager", action="store_true", help="do not show long output page by page"
    )


def takes_authority(parser: argparse.ArgumentParser, *, place: bool = True) -> None:
    """The options of every command that works on an authority: that of a configuration, or of a
    ``place``."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the configuration (default: ./bailiwick.toml, else $BAILIWICK_CONFIG)",
    )
    if place:
        parser.add_argument(
            "-p",
            "--place",
            metavar="PLACE",
            help="without a configuration: the directory or volume (default: $BAILIWICK_PLACE,"
            " else the directory you are in)",
        )
    parser.add_argument(
        "--state",
        metavar="DIR",
        help="where the authority keeps its state (default: as configured)",
    )
    takes_json(parser)


def takes_place(parser: argparse.ArgumentParser) -> None:
    """The options of every command that works in a place."""
    group = parser.add_argument_group("where, and as whom")
    group.add_argument(
        "-p",
        "--place",
        metavar="PLACE",
        help="a directory, a volume such as sqlite:agent.db?volume=main, or a server's address"
        " (default: $BAILIWICK_PLACE, else the directory you are in)",
    )
    group.add_argument("--token", metavar="TOKEN", help="for a server (default: $BAILIWICK_TOKEN)")
    group.add_argument(
        "--as",
        dest="subject",
        type=subject_name,
        metavar="SUBJECT",
        help="act as an agent does, under the protective rules: agent_run:demo/1",
    )
    takes_json(parser)


def size(text: str) -> int:
    """A size as a person writes it: a number of bytes, or ``10MiB``."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    from bailiwick.config.units import parse_size

    return _converted(parse_size, text)


def duration(text: str) -> float:
    """A time as a person writes it: ``30min``, ``8h``, ``7d``."""
    from bailiwick.config.units import parse_duration

    return _converted(parse_duration, text)


def point_in_time(text: str) -> int:
    """A moment as a person writes it: ``2026-01-31``, ``2026-01-31T12:00:00Z``, or ``2h`` ago."""
    from bailiwick.fronts.cli.moments import moment_ns

    return _converted(moment_ns, text)


def subject_name(text: str) -> str:
    """Whose name it is, as it is written: ``user:ann``, ``agent_run:chat/1``."""
    from bailiwick.grant import parse_subject

    _converted(parse_subject, text)
    return text


def accesses(text: str) -> frozenset[Access]:
    """Accesses as a person writes them: ``read,list``."""
    known: dict[str, Access] = {access: access for access in ALL_ACCESS}
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"no access is called {', '.join(map(repr, unknown)) or repr(text)};"
            f" there are {', '.join(sorted(known))}"
        )
    return frozenset(known[name] for name in names)


def whole_number(text: str) -> int:
    """A number of one or more."""
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above zero")
    return int(text)


def mode_bits(text: str) -> int:
    """Permission bits in octal, such as ``644``."""
    try:
        bits = int(text, 8)
    except ValueError:
        bits = -1
    if not 0 <= bits <= 0o777:
        raise argparse.ArgumentTypeError(f"{text!r} are no permission bits, such as 644")
    return bits


def sha256(text: str) -> str:
    """A hash as programs and people write it: 64 hex digits, with or without ``sha256:``."""
    digits = text.removeprefix("sha256:").lower()
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise argparse.ArgumentTypeError("a hash is sha256: and 64 hex digits")
    return digits


def _converted(convert: Callable[[str], Converted], text: str) -> Converted:
    try:
        return convert(text)
    except ParseError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise argparse.ArgumentTypeError(f"{error.message}{hint}") from None
