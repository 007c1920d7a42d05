"""How the arguments of a command are read: one parser class, and the options that many share."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli import EXIT_USAGE


class Parser(argparse.ArgumentParser):
    """A parser that accepts no abbreviations, so that a new option never changes an old script."""

    def __init__(self, prog: str, description: str, **more: Any) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        """Wrong usage: exit code 2. What was typed is shown without what could repaint a screen."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {escape_for_display(message)}\n")

    def actions(self) -> Actions:
        return Actions(self.add_subparsers(dest="action", required=True, metavar="ACTION"))


class Actions:
    """What one command can do: ``bailiwick root list``, ``bailiwick root show`` …"""

    def __init__(self, group: argparse._SubParsersAction[Parser]) -> None:
        self._group = group

    def add(self, name: str, what: str) -> Parser:
        return self._group.add_parser(name, help=what, description=what)


def takes_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def takes_authority(parser: argparse.ArgumentParser) -> None:
    """The options of every command that works on an authority."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the configuration (default: ./bailiwick.toml, else $BAILIWICK_CONFIG)",
    )
    parser.add_argument(
        "--state",
        metavar="DIR",
        help="where the authority keeps its state (default: as configured)",
    )
    takes_json(parser)
