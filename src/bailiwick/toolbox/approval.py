"""What becomes of a rule that wants a person asked: a pause that a framework can show and resume.

Three ways. A front that can ask while a call waits gives an asker. One that pauses and comes back
*attempts* a call: if a question comes up nothing is done and it gets the `Pending`, and later makes
the same call with the person's word. One that must know before it begins *rehearses* the call.

What a person agreed to is what they saw. `Pending.binding` is a hash over it: whoever hands it back
with the person's word gets a refusal where the call would by now do something else.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from bailiwick.approvals import Answer, Approval, Asker, Question
from bailiwick.errors import escape_for_display
from bailiwick.operations import EXEC
from bailiwick.toolbox.hints import MAKE_IT_AGAIN

_DIFF_CHARACTERS_MAX = 8_000


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person. ``approval_id`` is there where the question is kept, so that
    it can be answered elsewhere too; `shown` is what to put before the person."""

    tool: str
    question: Question
    approval_id: str | None = None

    @property
    def binding(self) -> str:
        return binding_of(self.question)

    @property
    def prompt(self) -> str:
        """The question in a line. What stands in it comes from callers and from names of files, so
        whatever could disguise it is made visible."""
        asked = self.question
        what = asked.target or (asked.paths[0] if asked.paths else ".")
        there = f" to {asked.destination}" if asked.destination else ""
        more = f" ({asked.arguments})" if asked.arguments else ""
        return escape_for_display(f"{asked.verb} {what}{there}{more}: {asked.prompt}")

    def shown(self) -> dict[str, Any]:
        """The question as JSON. ``diffTruncated`` says that the person does not see all of it."""
        asked = self.question
        shown: dict[str, Any] = {
            "kind": "approval_pending", "tool": self.tool, "prompt": self.prompt,
            "operation": asked.operation, "paths": [str(path) for path in asked.paths],
            "rules": list(asked.sources), "binding": self.binding,
        }  # fmt: skip
        if asked.destination is not None:
            shown["destination"] = str(asked.destination)
        if asked.paths_total > len(asked.paths):
            shown["pathsTotal"] = asked.paths_total
        if asked.preview.diff:
            shown["diff"] = _cut(asked.preview.diff)
            is_cut = len(asked.preview.diff) > _DIFF_CHARACTERS_MAX
            shown["diffTruncated"] = is_cut or asked.preview.diff_truncated
        if self.approval_id is not None:
            shown["approvalId"] = self.approval_id
        return shown

    def answer(self) -> dict[str, Any]:
        """What a model is told while nobody has answered."""
        told: dict[str, Any] = {
            "ok": False, "errorKind": "approval_pending",
            "message": f"a person has to agree first: {self.prompt}"[:300],
            "hint": MAKE_IT_AGAIN.text,
        }  # fmt: skip
        if self.approval_id is not None:
            told["approvalId"] = self.approval_id
        return told


def _cut(diff: str) -> str:
    """As much of a diff as is shown, by whole lines: half a line could pass for another one. What
    is left out is told in a line that begins like no line of a diff."""
    if len(diff) <= _DIFF_CHARACTERS_MAX:
        return diff
    at = diff.rfind("\n", 0, _DIFF_CHARACTERS_MAX) + 1
    left = diff[at:]
    lines = left.removesuffix("\n").count("\n") + 1
    more = "1 more line" if lines == 1 else f"{lines} more lines"
    verb = "is" if lines == 1 else "are"
    return f"{diff[:at]}… {more} ({len(left)} characters) {verb} not shown here.\n"


def binding_of(question: Question) -> str:
    """A hash over all that a person agrees to: who, what, where, with which content."""
    bound = (
        str(question.subject), question.root, question.operation, question.verb,
        question.target, question.paths_sha256, question.destination, question.arguments,
        question.preview.sha256, question.preview.sha256_before,
        *(() if question.command is None else (question.command,)),
    )  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(bound, enc_hook=str)).hexdigest()[:32]


def is_about_a_command(question: Question) -> bool:
    """Whether it is asked if a command may be run. What it has changed is asked about under its
    name, too, but as a change."""
    return question.operation == EXEC.name


class SpeaksOfOne(ABC):
    """An asker for the one question that a call is paused for. What comes up after that was done
    which they agreed to is another one, which nobody has seen."""

    @abstractmethod
    async def __call__(self, approval: Approval) -> Answer | None: ...


class QuestionRecorder(SpeaksOfOne):
    """An asker that keeps the question and answers nothing: whoever waits for it goes away."""

    def __init__(self) -> None:
        self.asked: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()

    async def __call__(self, approval: Approval) -> Answer | None:
        if not self.asked.done():
            self.asked.set_result(approval)
        await asyncio.get_running_loop().create_future()
        return None


class PersonsWord(SpeaksOfOne):
    """An asker that passes on what a person has said, about what they saw and nothing else.

    Without a binding it is about whatever is asked; but a word about a command is always for that
    command, so that there nobody has answered.
    """

    def __init__(self, answer: Answer, binding: str | None) -> None:
        self._answer = answer
        self._binding = binding

    async def __call__(self, approval: Approval) -> Answer | None:
        if self._binding is None:
            return None if is_about_a_command(approval.question) else self._answer
        return self._answer if binding_of(approval.question) == self._binding else "no"


def by_word(allowed: bool, binding: str | None = None) -> Asker:
    """An asker that says yes or no, for a person who has."""
    return PersonsWord("once" if allowed else "no", binding)
