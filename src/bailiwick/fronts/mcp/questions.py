"""Putting a question to the person behind a client: a form with the four answers.

In the handshake's dialect the client is asked while the call waits. In the other one nobody is
asked back: the call ends with what is to be asked, and the client makes it again with the answer.
Nothing has been done by then. What has to be remembered is what was asked, and a hash over that
says it: so only the very same call can be answered with it, and any process that serves can take
the answer, whichever of them put the question.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from bailiwick.approvals import Answer, Approval, Asker, Question, always_for
from bailiwick.errors import escape_for_display
from bailiwick.toolbox import Pending
from bailiwick.toolbox.approval import PersonsWord

_log = logging.getLogger("bailiwick.mcp")

Result = TypeVar("Result")

_KEY = "approval"
_MESSAGE_CHARACTERS_MAX = 8_000
_ANSWERS: tuple[Answer, ...] = ("once", "grant", "always", "no")


class Peer(Protocol):
    """The client, as far as questions go."""

    @property
    def modern(self) -> bool:
        """Whether it speaks the envelope's dialect."""
        ...

    @property
    def can_elicit(self) -> bool: ...

    async def elicit(self, form: dict[str, Any]) -> Any:
        """Put a form to the person; what the client answered."""
        ...


class Again(Protocol):
    """A request that may have come before."""

    input_responses: dict[str, Any] | None
    request_state: str | None


async def settled(
    peer: Peer,
    again: Again,
    run: Callable[[Asker | None], Awaitable[Result]],
    attempt: Callable[[], Awaitable[Result | Pending]],
    *,
    waits: bool = False,
) -> Result | Pending | dict[str, Any]:
    """Make a call, with the questions that rules put on the way.

    The answer is that of the call, or what the client is to ask its person first. A client that
    cannot ask leaves it to whoever looks at the console, and so does a person who answers nothing:
    they are waited for where the call ``waits``.
    """
    if not peer.can_elicit:
        return await run(None)
    if not peer.modern:
        return await _by_form(peer, run, waits)
    outcome = await attempt()
    if not isinstance(outcome, Pending):
        return outcome
    if again.request_state != outcome.binding:
        return input_required(outcome)
    answer = answer_in((again.input_responses or {}).get(_KEY))
    if answer is None:
        return outcome
    # They saw one question; if it is another by now, nobody has agreed to that.
    return await run(PersonsWord(answer, outcome.binding))


def input_required(pending: Pending) -> dict[str, Any]:
    """What the client is to ask, in place of a result."""
    asked = {"method": "elicitation/create", "params": form_of(pending)}
    return {
        "resultType": "input_required",
        "inputRequests": {_KEY: asked},
        "requestState": pending.binding,
    }


async def _by_form(
    peer: Peer, run: Callable[[Asker | None], Awaitable[Result]], waits: bool
) -> Result | Pending:
    """Make a call that asks by a form meanwhile. Cancelled while a person is asked, it has changed
    nothing, and the question stays open."""
    left: asyncio.Future[Pending] = asyncio.get_running_loop().create_future()

    async def ask(approval: Approval) -> Answer | None:
        pending = Pending(tool="", question=approval.question, approval_id=approval.id)
        answer = None
        try:
            answer = answer_in(await peer.elicit(form_of(pending)))
        except Exception as error:
            _log.warning("a client could not ask", exc_info=error)
        if answer is None and not waits and not left.done():
            left.set_result(pending)
        return answer

    doing = asyncio.ensure_future(run(ask))
    try:
        await asyncio.wait((doing, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))
    return left.result() if doing.cancelled() else doing.result()


def answer_in(response: Any) -> Answer | None:
    """What a person said. None where they said nothing: the question stays open elsewhere."""
    if not isinstance(response, dict):
        return None
    if response.get("action") == "decline":
        return "no"
    content = response.get("content")
    if response.get("action") != "accept" or not isinstance(content, dict):
        return None
    answer = content.get("answer")
    return answer if answer in _ANSWERS else None


def form_of(pending: Pending) -> dict[str, Any]:
    """The question as a form. What stands in it comes from callers and files, so it is escaped."""
    asked = pending.question
    whom = escape_for_display(always_for(asked.subject))
    names = ("Once", "For this grant", f"Always for {whom}", "No")
    answer = {
        "type": "string", "title": "Allow it?", "enum": list(_ANSWERS), "enumNames": list(names),
    }  # fmt: skip
    return {
        "message": _message(pending, asked),
        "requestedSchema": {
            "type": "object", "properties": {"answer": answer}, "required": ["answer"],
        },
    }  # fmt: skip


def _message(pending: Pending, asked: Question) -> str:
    lines = [
        f"{asked.subject} asks to {asked.operation} in {asked.root}:",
        pending.prompt,
        f"asked by {', '.join(asked.sources)}",
    ]
    if asked.paths_total > 1:
        shown = ", ".join(asked.paths[:20])
        lines.append(f"{asked.paths_total} paths are concerned: {shown}")
    # By newlines alone: other marks that end a line for some readers are part of it here.
    lines += (asked.preview.diff or "").removesuffix("\n").split("\n")
    text = "\n".join(escape_for_display(line.expandtabs(4)) for line in lines)
    if len(text) > _MESSAGE_CHARACTERS_MAX:
        text = text[:_MESSAGE_CHARACTERS_MAX] + "\n… the rest is not shown"
    elif asked.preview.diff_truncated:
        text += "\n… the rest is not shown"
    return text
