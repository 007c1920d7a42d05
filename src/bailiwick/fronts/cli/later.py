"""`bailiwick mount` and `exec`: named in the contract, and not built yet."""

from __future__ import annotations

from bailiwick.errors import Unsupported
from bailiwick.fronts.cli import EXIT_FAILED
from bailiwick.fronts.cli.arguments import Parser, takes_json
from bailiwick.fronts.cli.output import print_error


def mount(arguments: list[str]) -> int:
    return _refused(
        arguments, "mount", "See a volume or a directory as a directory of this machine.",
        "bailiwick mount sqlite:agent.db ./mnt",
        "bailiwick export PLACE DIR takes a tree out into a directory",
    )  # fmt: skip


def execute(arguments: list[str]) -> int:
    return _refused(
        arguments, "exec", "Run a command that reaches only what grants give it.",
        "bailiwick exec -- make test",
        "bailiwick grant show ID --format bwrap gives a grant to another sandbox",
    )  # fmt: skip


def _refused(arguments: list[str], name: str, what: str, example: str, instead: str) -> int:
    parser = Parser(f"bailiwick {name}", f"{what} This comes later.", examples=(example,))
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT")
    takes_json(parser)
    options = parser.parse_args(arguments)
    error = Unsupported(f"`bailiwick {name}` comes later", hint=f"meanwhile: {instead}")
    print_error(error, as_json=options.json)
    return EXIT_FAILED
