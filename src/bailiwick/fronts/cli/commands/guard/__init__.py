"""`bailiwick guard`: finds direct filesystem use in Python code that should go through a scope.

It reads text; it never imports or executes what it looks at. It finds what can be seen from the
text of one file: a determined author can hide a call from it. It is a fence for honest code, not a
wall; the wall is the sandbox that code runs in.
"""

from __future__ import annotations

import sys

from bailiwick.errors import BailiwickError
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, takes_json
from bailiwick.fronts.cli.commands.guard import allow_list, checker, files, reports
from bailiwick.fronts.cli.commands.guard.checker import Finding
from bailiwick.fronts.cli.output import print_error, print_json


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick guard",
        "Find direct filesystem use in Python code that should go through a scope.",
        examples=("bailiwick guard src",),
        epilog="Exceptions: [tool.bailiwick.guard] allow = […] in pyproject.toml, or a comment"
        " '# bailiwick: allow: REASON' beside the code. Exit code 1 when something was found.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and directories")
    parser.add_argument("--format", choices=("text", "json", "sarif"), default="text")
    parser.add_argument(
        "--project",
        metavar="FILE",
        help="the pyproject.toml with the allow-list (default: the nearest one, upwards from here)",
    )
    takes_json(parser)
    options = parser.parse_args(arguments)
    if options.json and options.format == "sarif":
        parser.error("--json and --format sarif are two formats")
    try:
        allowed = allow_list.read_allow_list(options.project or allow_list.find_project("."))
    except BailiwickError as error:
        print_error(error, as_json=options.json)
        return EXIT_FAILED
    findings, count = check(options.paths, allowed)
    if options.format == "sarif":
        print_json(reports.sarif_document(findings, sys.modules["bailiwick"].__version__))
    elif options.json or options.format == "json":
        print_json(reports.json_document(findings, count))
    else:
        reports.print_text(findings, count)
    return EXIT_FAILED if findings else EXIT_OK


def check(paths: list[str], allowed: allow_list.AllowList) -> tuple[list[Finding], int]:
    """Everything found at or beneath the paths, and how many files were looked at."""
    findings: list[Finding] = []
    count = 0
    for candidate in files.candidates(paths):
        if candidate.trouble is None and allowed.allows_file(candidate.path):
            continue
        count += 1
        if candidate.trouble is not None:
            findings.append(_unreadable(candidate.path, candidate.trouble))
        else:
            findings += [
                found for found in _check_file(candidate.path) if not allowed.allows(found)
            ]
    return findings, count


def _check_file(path: str) -> list[Finding]:
    """What is in one file. One that cannot be checked is a finding: it may hold anything."""
    try:
        content = files.read(path)
        found = checker.uses_in(content, path)
    except files.UnreadableFile as error:
        return [_unreadable(path, str(error))]
    except checker.Unparsable as error:
        return [_unreadable(path, str(error), error.line)]
    comments = allow_list.comments_in(content) if b"bailiwick" in content else []
    kept = allow_list.apply_comments(found, comments, path)
    return sorted(kept, key=lambda each: (each.line, each.column))


def _unreadable(path: str, why: str, line: int = 1) -> Finding:
    message = f"this file could not be checked: {why}"
    return Finding(path, line, 1, line, 1, "unreadable", "", "", message)
