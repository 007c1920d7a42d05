"""`bailiwick approvals`: what waits for a person."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from bailiwick.approvals import Answer, Approval, Question, RememberedRule, always_for
from bailiwick.errors import PathNotFound, escape_for_display
from bailiwick.fronts.cli import EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, takes_authority
from bailiwick.fronts.cli.authority_session import Options, at_terminal, with_authority
from bailiwick.fronts.cli.output import (
    line,
    moment,
    paint,
    plain,
    print_fields,
    print_json,
    print_json_line,
    print_table,
)
from bailiwick.fronts.cli.prompts import diff_lines
from bailiwick.notices import ApprovalNotice, Notice
from bailiwick.root_questions import ASKED_VERB
from bailiwick.state.approvals.desk import ANSWERS, STATES

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority


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
    listing.add_argument(
        "--follow",
        action="store_true",
        help="then tell each question as it comes, with a bell on a terminal, until Ctrl-C;"
        " --json prints one document on each line",
    )
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
    rules = actions.add(
        "rules", "List what was answered for longer than once.", "bailiwick approvals rules"
    )
    forgetting = actions.add(
        "forget",
        "Take back an answer for longer: from now on it is asked again.",
        "bailiwick approvals forget remembered-mzxw6ytboi3dgnjt",
    )
    forgetting.add_argument("id", metavar="RULE", help="as `bailiwick approvals rules` names it")
    for each in (listing, showing, answering, rules, forgetting):
        takes_authority(each)
    # `bailiwick approvals --follow` says which action is meant.
    if "--follow" in arguments and arguments[0].startswith("-"):
        arguments = ["list", *arguments]
    options = parser.parse_args(arguments)
    if options.action == "list" and options.only == "pending" and options.cursor is not None:
        parser.error("--cursor is for other questions than those that wait")
    if options.action == "list" and options.only != "pending" and options.follow:
        parser.error("--follow tells of questions that wait")
    return with_authority(options, _ACTIONS[options.action], looking=True)


async def _list(authority: Authority, options: Options) -> int:
    if options.follow:
        return await _follow(authority, as_json=options.json)
    more: str | None = None
    if options.only == "pending":
        approvals = authority.approvals.pending()
    else:
        state = None if options.only == "all" else options.only
        approvals, more = authority.approvals.list(state=state, cursor=options.cursor)
    if options.json:
        print_json({
            "kind": "approvals", "approvals": approvals, "truncated": more is not None,
            "nextCursor": more,
        })  # fmt: skip
        return EXIT_OK
    if not approvals:
        line("nothing waits for an answer" if options.only == "pending" else "no questions")
    else:
        print_table(
            ("ID", "STATE", "SUBJECT", "OPERATION", "ROOT", "WHAT", "UNTIL"),
            [_row(approval) for approval in approvals],
        )
    if more is not None:
        sys.stderr.write(f"there is more: --cursor {more}\n")
    return EXIT_OK


async def _follow(authority: Authority, *, as_json: bool) -> int:
    """Questions as they come, whichever process asks, and what becomes of them."""
    told: asyncio.Queue[ApprovalNotice] = asyncio.Queue()

    def tell(notice: Notice) -> None:
        if isinstance(notice, ApprovalNotice):
            told.put_nowait(notice)

    end = authority.notices.follow(tell, runs=False)
    try:
        for approval in authority.approvals.pending(brief=True):
            _tell(ApprovalNotice(kind="asked", approval=approval), as_json=as_json)
        while True:
            _tell(await told.get(), as_json=as_json)
    finally:
        end()


_COLOURS = {"asked": "yellow", "answered": "green", "expired": "dim"}


def _tell(notice: ApprovalNotice, *, as_json: bool) -> None:
    approval, question = notice.approval, notice.approval.question
    if as_json:
        print_json_line({"kind": notice.kind, **plain(approval)})
    else:
        kind = paint(f"{notice.kind:<8}", _COLOURS[notice.kind])
        asked = f"{question.subject} {question.operation} {question.root} {_what(question)}"
        became = {
            "asked": f"until {moment(approval.expires_ns / 1e9)}",
            "answered": f"{approval.answer} by {approval.answered_by}",
            "expired": f"without answer: {question.default}",
        }[notice.kind]
        bell = "\a" if notice.kind == "asked" and sys.stdout.isatty() else ""
        line(f"{bell}{kind}  {escape_for_display(f'{approval.id}  {asked}  {became}')}")
    sys.stdout.flush()  # whoever waits for it, a person or a pipe, has it now


async def _rules(authority: Authority, options: Options) -> int:
    rules = authority.rules.rules()
    if options.json:
        print_json(rules)
    elif not rules:
        line("nothing was answered for longer than once")
    else:
        print_table(
            ("ID", "EFFECT", "FOR", "HOLDS", "OPERATION", "ROOT", "WHAT", "BY", "SINCE"),
            [_rule_row(rule) for rule in rules],
        )
    return EXIT_OK


def _rule_row(rule: RememberedRule) -> tuple[str, ...]:
    what = " → ".join(filter(None, (rule.command or ", ".join(rule.paths), rule.destination)))
    return (
        rule.id, rule.effect, rule.subject,
        "always" if rule.grant_id is None else f"grant {rule.grant_id}", rule.operation, rule.root,
        what, rule.by, moment(rule.created_ns / 1e9),
    )  # fmt: skip


async def _forget(authority: Authority, options: Options) -> int:
    if not await authority.rules.forget(options.id, by=str(at_terminal()), front="cli"):
        raise PathNotFound(
            f"no answer for longer is called {options.id[:80]!r}",
            hint="`bailiwick approvals rules` lists them",
        )
    if options.json:
        print_json({"id": options.id, "forgotten": True})
    else:
        line(f"{escape_for_display(options.id)}: forgotten")
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


async def _show(authority: Authority, options: Options) -> int:
    approval = _found(authority, options.id)
    if options.json:
        print_json(approval)
        return EXIT_OK
    question = approval.question
    asked_root = question.verb == ASKED_VERB
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
        ("always means", None if asked_root else f"for {always_for(question.subject)}"),
        ("new content", question.preview.sha256),
        ("old content", question.preview.sha256_before),
        ("asked about", question.paths_total),
    ))  # fmt: skip
    print_fields((" ", path) for path in question.paths)
    for each in diff_lines(question.preview.diff or "", question.preview.diff_truncated):
        line(each)
    return EXIT_OK


async def _answer(authority: Authority, options: Options) -> int:
    answer: Answer = options.answer
    approval = await authority.approvals.answer(
        _found(authority, options.id).id, answer, by=str(at_terminal()), front="cli"
    )
    if options.json:
        print_json(approval)
    else:
        line(f"{approval.id}: {approval.state} ({answer})")
    return EXIT_OK


def _found(authority: Authority, approval_id: str) -> Approval:
    approval = authority.approvals.get(approval_id)
    if approval is None:
        raise PathNotFound(
            f"there is no approval {approval_id[:80]!r}",
            hint="`bailiwick approvals list --only all` shows them",
        )
    return approval


_ACTIONS = {
    "list": _list, "show": _show, "answer": _answer, "rules": _rules, "forget": _forget,
}  # fmt: skip
