"""A patch of several files, applied as one: all of it, or nothing.

First everything is looked at: each part is worked out against what stands there, and rehearsed, so
that a hunk that does not fit, a rule that forbids and a name that is taken end the patch before
anything was written. Then whoever must be asked is asked, while still nothing is written. Where the
store has transactions the parts then appear at once. Elsewhere they are done one after the other,
and if one of them fails after all, because somebody else was quicker, those before it are taken
back; the error says so, and names what could not be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from bailiwick.approvals import Question
from bailiwick.errors import (
    ApprovalDenied,
    BailiwickError,
    HashMismatch,
    MissingAccess,
    Unsupported,
)
from bailiwick.finishing import to_the_end
from bailiwick.model import WriteResult
from bailiwick.scope import Scope
from bailiwick.scope.fronting import as_called
from bailiwick.text.codec import decode, form_of
from bailiwick.toolbox.documents import Document, whole_text


class Part(NamedTuple):
    """What a patch does with one file. ``patched`` makes the new text of the old one, which is
    empty for a file that is created; it raises `ParseError` where it does not fit."""

    kind: Literal["create", "update", "delete"]
    path: str
    patched: Callable[[str], str] = str
    move_to: str | None = None

    @property
    def moves(self) -> bool:
        return self.move_to is not None and self.move_to != self.path

    @property
    def done(self) -> str:
        """What to say when it was done."""
        if self.moves:
            return f"updated {self.path}, now {self.move_to}"
        return f"{self.kind}d {self.path}"


class _Step(NamedTuple):
    """One change of a patch, and how to take it back."""

    path: str
    do: Callable[[Scope], Awaitable[Any]]
    back: Callable[[Scope], Awaitable[Any]]


async def apply(scope: Scope, parts: Sequence[Part]) -> list[str]:
    """Do all of a patch, or nothing of it; what was done, part by part.

    Raises what the first part that cannot be done would raise. Only one change of a patch may ask a
    person (`Unsupported` beyond that): their word is about what they saw, and a patch that half of
    was agreed to is none.
    """
    steps = await _planned(scope, parts)
    if len(steps) == 1:
        await steps[0].do(scope)
    else:
        asking = await _asking(scope, steps)
        if "Branches" in scope.powers:
            await _at_once(scope, steps)
        else:
            # What asks comes first: a no then finds nothing written.
            await _one_by_one(scope, [*asking, *(step for step in steps if step not in asking)])
    return [part.done for part in parts]


async def rehearse(scope: Scope, parts: Sequence[Part]) -> None:
    """Judge all of a patch, on a scope that only rehearses: it is told every question."""
    for step in await _planned(scope, parts):
        await _rehearsed(scope, step)


async def _asking(scope: Scope, steps: Sequence[_Step]) -> list[_Step]:
    """Those of the steps that would ask a person, at most one. Raises what any of them would."""
    told: list[Question | None] = []
    try:
        rehearsing = as_called(scope, rehearsal=told.append)
    except Unsupported:
        return []  # a server, which judges all of it itself before it does any
    asking = []
    for step in steps:
        told.clear()
        await _rehearsed(rehearsing, step)
        if any(told):
            asking.append(step)
    if len(asking) > 1:
        raise Unsupported(
            "more than one part of this patch has to be agreed to by a person",
            hint="apply these parts one by one: " + ", ".join(step.path for step in asking),
        )
    return asking


async def _rehearsed(scope: Scope, step: _Step) -> None:
    try:
        await step.do(scope)
    except ApprovalDenied as error:
        if error.decided_by != "rehearsal":
            raise


async def _at_once(scope: Scope, steps: Sequence[_Step]) -> None:
    try:
        async with scope.transaction() as inside:
            for step in steps:
                await step.do(inside)
    except BailiwickError as error:
        _explain(error, "nothing was changed")
        raise


async def _one_by_one(scope: Scope, steps: Sequence[_Step]) -> None:
    done: list[_Step] = []
    try:
        for step in steps:
            await step.do(scope)
            done.append(step)
    except BaseException as error:
        left = await to_the_end(_taken_back(scope, done))
        if isinstance(error, BailiwickError):
            why = "nothing was changed: what came before it was taken back"
            if left:
                why = f"the patch was not applied, but these stay changed: {', '.join(left)}"
            _explain(error, why)
        raise


def _explain(error: BailiwickError, why: str) -> None:
    """Let an error say what became of the whole patch, and what to do about it."""
    more = "read the files again" if isinstance(error, HashMismatch) else error.hint
    error.hint = f"{why}; {more}" if more else why


async def _taken_back(scope: Scope, done: Sequence[_Step]) -> list[str]:
    """Take changes back, the last one first; the places where that could not be."""
    left = []
    for step in reversed(done):
        try:
            await step.back(scope)
        except BailiwickError:
            left.append(step.path)
    return left


# --- what a part comes to ------------------------------------------------------------------------


async def _planned(scope: Scope, parts: Sequence[Part]) -> list[_Step]:
    """Work out all parts. Removals stand last, so that what is hardest to take back is done when
    nothing else can fail any more."""
    steps: list[_Step] = []
    removals: list[_Step] = []
    deletions = sum(part.kind == "delete" for part in parts)
    for part in parts:
        if part.kind == "create":
            steps.append(await _creating(scope, part.path, part.patched("")))
        elif part.kind == "delete":
            removals.append(await _deleting(scope, part.path, keep=deletions > 1))
        else:
            before = await whole_text(scope, part.path)
            text = part.patched(before.text)
            if not part.moves:
                steps.append(_updating(before, text))
                continue
            assert part.move_to is not None
            mode = await _mode_of(scope, part.path)
            steps.append(await _creating(scope, part.move_to, text, like=before, file_mode=mode))
            removals.insert(0, _leaving(before, mode))
    return [*steps, *removals]


async def _creating(
    scope: Scope,
    path: str,
    text: str,
    *,
    like: Document | None = None,
    file_mode: int | None = None,
) -> _Step:
    """A new file; ``like`` another one, where that is what it was before. It is written with the
    new content at once: a person who is asked sees what will stand there."""
    form: dict[str, Any] = {}
    if like is not None:
        known = form_of(decode(like.data))
        form = {"encoding": known.encoding, "bom": known.bom, "file_mode": file_mode}
        if known.line_ending in ("lf", "crlf"):
            form["line_ending"] = known.line_ending
    made = await _missing_above(scope, path)

    async def do(scope: Scope) -> None:
        await scope.write_text(path, text, mode="create", parents=True, **form)

    async def back(scope: Scope) -> None:
        await scope.remove(path)
        for directory in made:
            await scope.remove(directory)

    return _Step(path, do, back)


async def _missing_above(scope: Scope, path: str) -> list[str]:
    """The directories that a new file brings along, the innermost first."""
    missing = []
    above = path.rpartition("/")[0]
    with suppress(BailiwickError):  # whoever may not look leaves them behind
        while above and not await scope.exists(above):
            missing.append(above)
            above = above.rpartition("/")[0]
    return missing


def _updating(before: Document, text: str) -> _Step:
    written: list[WriteResult] = []

    async def do(scope: Scope) -> None:
        done = await scope.write_text(before.path, text, expected_sha256=before.sha256)
        written.append(done)

    async def back(scope: Scope) -> None:
        # Whoever has written since then is not overwritten: their work stays, and that is told.
        await scope.write_bytes(before.path, before.data, expected_sha256=written[-1].sha256)

    return _Step(before.path, do, back)


def _leaving(before: Document, file_mode: int | None) -> _Step:
    """The old name of a file that has another one now."""

    async def do(scope: Scope) -> None:
        # A removal has no condition of its own, so this is looked at right before. Inside a
        # transaction it is its end that compares, and on a server nothing is read within one.
        if "Branches" not in scope.powers:
            now = await whole_text(scope, before.path)
            if now.sha256 != before.sha256:
                raise HashMismatch("it was changed meanwhile", path=before.path)
        await scope.remove(before.path)

    async def back(scope: Scope) -> None:
        await scope.write_bytes(before.path, before.data, mode="create", file_mode=file_mode)

    return _Step(before.path, do, back)


async def _deleting(scope: Scope, path: str, *, keep: bool) -> _Step:
    """``keep`` is whether something may come after it that fails: then what it held is kept."""
    kept: Document | None = None
    mode: int | None = None
    if keep and "Branches" not in scope.powers:
        mode = await _mode_of(scope, path)
        with suppress(BailiwickError):  # what cannot be read cannot be put back, and is told
            kept = await whole_text(scope, path)

    async def do(scope: Scope) -> None:
        await scope.remove(path)

    async def back(scope: Scope) -> None:
        if kept is None:
            raise Unsupported("what was here is not known", path=path)
        await scope.write_bytes(path, kept.data, mode="create", file_mode=mode)

    return _Step(path, do, back)


async def _mode_of(scope: Scope, path: str) -> int | None:
    with suppress(MissingAccess):
        return (await scope.stat(path)).mode
    return None
