"""What a transaction must ask, put as one question when all of it is known.

Where every change of a transaction is given at once, and nobody is told a result before the end, a
person need not be asked about one after the other. What would be asked is gathered while the
changes are made in the draft, which nobody sees, and the whole of it is answered with one word:
everything comes to pass, or nothing does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from bailiwick.approvals import Approvals, Asker, Preview, Question, Verdict
from bailiwick.errors import escape_for_display
from bailiwick.operations import VERSION

if TYPE_CHECKING:
    from bailiwick.scope.versioning import VersionVerbs

Scoped = TypeVar("Scoped", bound="VersionVerbs")


def asking_once(
    scope: Scoped, *, lock_token: int | None = None
) -> AbstractAsyncContextManager[Scoped]:
    """`Scope.transaction`, in which people are asked at its end, once, about all of it.

    For a front that knows all operations beforehand, and tells no result of any before it is over.
    What fails inside after something was to be asked fails only after the answer: what is wrong
    with a change may tell what the file holds.
    """
    return scope._transaction(lock_token, gathers=True)


class Gathered:
    """`Approvals` of a draft that let everything pass, and keep what was to be asked.

    ``whole`` is the approval that was given for all of it; any other is of one operation alone.
    """

    def __init__(self, approvals: Approvals, whole: str | None, paths_max: int) -> None:
        self._approvals = approvals
        self._whole = whole
        self._paths_max = paths_max
        self._questions: list[Question] = []

    def interactive(self, front: str) -> bool:
        return self._approvals.interactive(front)

    async def ask(
        self, question: Question, *, asker: Asker | None, wait_s: float | None
    ) -> Verdict:
        return self._keep(question)

    async def redeem(self, approval_id: str, question: Question) -> Verdict:
        if approval_id != self._whole:
            return await self._approvals.redeem(approval_id, question)
        return self._keep(question)

    def _keep(self, question: Question) -> Verdict:
        self._questions.append(question)
        return Verdict(allowed=True, approval_id=None, by="whoever is asked at the end")

    @property
    def question(self) -> Question | None:
        """All of it as one question; None where there is nothing to ask."""
        if len(self._questions) < 2:
            return self._questions[0] if self._questions else None
        first, all_ = self._questions[0], self._questions
        paths = list(dict.fromkeys(path for each in all_ for path in each.paths))
        cut = any(each.paths_total > len(each.paths) for each in all_)
        operations = {each.operation for each in all_}
        alike = len(operations) == 1 and not any(each.destination for each in all_)
        return msgspec.structs.replace(
            first,
            # An answer for longer covers what is alike, path by path; of a mixture it is about
            # this once, as for everything that changes many paths at once.
            operation=first.operation if alike else VERSION.name,
            verb="transaction",
            access=tuple(sorted({held for each in all_ for held in each.access})),
            paths=tuple(paths[: self._paths_max]),
            paths_total=sum(each.paths_total for each in all_) if cut else len(paths),
            paths_sha256=_digest(each.paths_sha256 for each in all_),
            destination=None,
            prompt="; ".join(dict.fromkeys(each.prompt for each in all_)),
            sources=tuple(dict.fromkeys(source for each in all_ for source in each.sources)),
            default="allow" if all(each.default == "allow" for each in all_) else "deny",
            target="",
            arguments=f"{len(all_)} operations together",
            preview=self._preview(),
        )

    def _preview(self) -> Preview:
        """Every operation on a line, then what each would do; bound is what each was bound to."""
        previews = [each.preview for each in self._questions]
        return Preview(
            sha256=_digest(part for each in self._questions for part in _bound(each)),
            size=sum(each.size or 0 for each in previews),
            diff="\n".join(map(_line, self._questions)) + "\n"
            + "".join(each.diff for each in previews if each.diff),
            diff_truncated=any(each.diff_truncated for each in previews),
        )  # fmt: skip


def _line(question: Question) -> str:
    """One operation as a person reads it."""
    named = escape_for_display(question.target or ", ".join(question.paths))
    to = "" if question.destination is None else f" to {escape_for_display(question.destination)}"
    given = f" ({escape_for_display(question.arguments)})" if question.arguments else ""
    return f"{question.verb} {named}{to}{given}"


def _bound(question: Question) -> Iterator[str]:
    preview = question.preview
    yield from (
        question.operation, question.verb, question.target, question.destination or "",
        question.arguments, ",".join(question.access), str(question.paths_total),
        question.paths_sha256, preview.sha256 or "", preview.sha256_before or "",
    )  # fmt: skip


def _digest(parts: Iterator[str]) -> str:
    """A hash over texts, none of which can be taken for two."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode(errors="surrogatepass")
        digest.update(b"%d:%b," % (len(text), text))
    return digest.hexdigest()
