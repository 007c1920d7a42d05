"""`bailiwick approvals`: what waits for a person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bailiwick.approvals import Answer, Approval, Question, always_for
from bailiwick.errors import PathNotFound
from bailiwick.fronts.cli import EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, takes_authority
from bailiwick.fronts.cli.authority_session import Options, at_terminal, with_authority
from bailiwick.fronts.cli.output import (
    line,
    moment,
    print_fields,
    print_json,
    print_table,
)
from bailiwick.fronts.cli.prompts import diff_lines
from bailiwick.state.approvals.desk import ANSWERS, STATES

if TYPE_CHECKING:
    from bailiwick.authority import CoreAuthority


def run(arguments: list[str]) -> int:
    parser = Parser("bailiwick approvals", "What waits for a person to say yes or no.")
    actions = parser.actions()
    listing = actions.add(
        "list",
        "List questions: those that wait, or others by state.",
        "bailiwick approvals list --only denied",
    )
    listing.add_argument(
        "--only",
        choices=(*STATES, "all"),
        default="pending",
        metavar="STATE",
        help=f"one of {', '.join(STATES)}, or all (default: pending)",
    )
    listing.add_argument("--cursor", help="go on where an earlier answer ended")
    showing = actions.add(
        "show", "Show a question with its paths and its diff.", "bailiwick approvals show 91ab"
    )
    showing.add_argument("id", metavar="ID")
    answering = actions.add(
        "answer", "Answer a question, for good.", "bailiwick approvals answer 91ab once"
    )
    answering.add_argument("id", metavar="ID")
    answering.add_argument(
        "answer",
        choices=ANSWERS,
        help="once; for this grant; always (writes a rule; for an agent: for every run);"
        " no; never under this grant",
    )
    for each in (listing, showing, answering):
        takes_authority(each)
    options = parser.parse_args(arguments)
    if options.action == "list" and options.only == "pending" and options.cursor is not None:
        parser.error("--cursor is for other questions than those that wait")
    return with_authority(options, _ACTIONS[options.action], looking=True)


async def _list(authority: CoreAuthority, options: Options) -> int:
    more: str | None = None
    if options.only == "pending":
        approvals = authority.approvals.pending()
    else:
        state = None if options.only == "all" else options.only
        approvals, more = authority.approvals.list(state=state, cursor=options.cursor)
    if more is not None:
        sys.stderr.write(f"there is more: --cursor {more}\n")
    if options.json:
        print_json(approvals)
    elif not approvals:
        line("nothing waits for an answer" if options.only == "pending" else "no questions")
    else:
        print_table(
            ("ID", "STATE", "SUBJECT", "OPERATION", "ROOT", "WHAT", "UNTIL"),
            [_row(approval) for approval in approvals],
        )
    return EXIT_OK


def _row(approval: Approval) -> tuple[str, ...]:
    question = approval.question
    return (
        approval.id, approval.state, str(question.subject), question.operation, question.root,
        _what(question), moment(approval.expires_ns / 1e9),
    )  # fmt: skip


def _what(question: Question) -> str:
    """What the call names, where it goes, with which arguments, and how much is asked about."""
    asked = (question.target,) if question.target else question.paths[:1]
    what = " → ".join(filter(None, (*asked, question.destination)))
    if question.arguments:
        what += f" ({question.arguments})"
    return what + (f" (+{question.paths_total - 1})" if question.paths_total > 1 else "")


async def _show(authority: CoreAuthority, options: Options) -> int:
    approval = _found(authority, options.id)
    if options.json:
        print_json(approval)
        return EXIT_OK
    question = approval.question
    print_fields((
        ("id", approval.id),
        ("state", approval.state),
        ("subject", question.subject),
        ("root", question.root),
        ("operation", f"{question.operation} ({question.verb})"),
        ("target", question.target),
        ("destination", question.destination),
        ("arguments", question.arguments),
        ("reason", question.reason),
        ("asked by", ", ".join(question.sources)),
        ("prompt", question.prompt),
        ("without answer", question.default),
        ("asked", moment(approval.asked_ns / 1e9)),
        ("until", moment(approval.expires_ns / 1e9)),
        ("answer", approval.answer),
        ("answered by", approval.answered_by),
        ("always means", f"for {always_for(question.subject)}"),
        ("new content", question.preview.sha256),
        ("old content", question.preview.sha256_before),
        ("asked about", question.paths_total),
    ))  # fmt: skip
    print_fields((" ", path) for path in question.paths)
    for each in diff_lines(question.preview.diff or "", question.preview.diff_truncated):
        line(each)
    return EXIT_OK


async def _answer(authority: CoreAuthority, options: Options) -> int:
    answer: Answer = options.answer
    approval = await authority.approvals.answer(
        _found(authority, options.id).id, answer, by=str(at_terminal()), front="cli"
    )
    if options.json:
        print_json(approval)
    else:
        line(f"{approval.id}: {approval.state} ({answer})")
    return EXIT_OK


def _found(authority: CoreAuthority, approval_id: str) -> Approval:
    approval = authority.approvals.get(approval_id)
    if approval is None:
        raise PathNotFound(f"there is no approval {approval_id[:80]!r}")
    return approval


_ACTIONS = {"list": _list, "show": _show, "answer": _answer}
