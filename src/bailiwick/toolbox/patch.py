"""A patch, applied as one: all of it, or nothing.

First everything is looked at: each part is worked out against what stands there, and rehearsed, so
that a hunk that does not fit, a rule that forbids and a name that is taken end the patch before
anything was written. What is removed is always removed last.

A patch of several files needs a store with transactions, where its parts appear at once. Elsewhere
it could only be done file by file, and taken back file by file when somebody else was quicker: over
what people have written meanwhile, past a person who would have to be asked again, and not at all
after a crash. So it is refused there, and each file is a patch of its own.

A file that also gets another name is two changes wherever there are no transactions. The new file
is written before the old one goes, so that at no moment there is none; a person who is asked about
the removal alone is asked then, and after a no the new file is taken back.
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
    IsADirectory,
    MissingAccess,
    ParseError,
    Unsupported,
)
from bailiwick.finishing import to_the_end
from bailiwick.model import WriteResult
from bailiwick.paths import parse
from bailiwick.scope import Scope
from bailiwick.scope.front_access import as_called
from bailiwick.text.codec import decode, form_of
from bailiwick.toolbox.documents import TextDocument, whole_text
from bailiwick.toolbox.hints import Advice


class PatchPart(NamedTuple):
    """What a patch does with one file. ``patched`` makes the new text of the old one, which is
    empty for a file that is created; it raises `ParseError` where it does not fit."""

    kind: Literal["create", "update", "delete"]
    path: str
    patched: Callable[[str], str] = str
    move_to: str | None = None


class _PatchStep(NamedTuple):
    """One change of a patch."""

    path: str
    do: Callable[[Scope], Awaitable[WriteResult | None]]


async def apply(scope: Scope, parts: Sequence[PatchPart]) -> list[str]:
    """Do all of a patch, or nothing of it; what was done, part by part.

    Raises what the first part that cannot be done would raise, and `Unsupported` for several files
    where the store has no transactions. Only one change of a patch may ask a person (`Unsupported`
    beyond that): their word is about what they saw, and a patch that half of was agreed to is none.
    """
    steps = await _planned(scope, parts)
    if len(steps) > 1:
        await _refuse_questions(scope, steps)
    if len(steps) == 1:
        await steps[0].do(scope)
    elif "forks" in scope.powers:
        await _together(scope, steps)
    else:
        made, left = steps
        await _one_after_the_other(scope, made, left)
    return [_done(scope, part) for part in parts]


async def rehearse(scope: Scope, parts: Sequence[PatchPart]) -> None:
    """Judge all of a patch, on a scope that only rehearses: it is told every question."""
    for step in await _planned(scope, parts):
        await _rehearsed(scope, step)


async def _refuse_questions(scope: Scope, steps: Sequence[_PatchStep]) -> None:
    """Raise what any of the steps would, and where more than one of them would ask a person."""
    told: list[Question | None] = []
    try:
        rehearsing = as_called(scope, rehearsal=told.append)
    except Unsupported:
        return  # a server, which cannot rehearse
    asking = []
    for step in steps:
        told.clear()
        await _rehearsed(rehearsing, step)
        if any(told):
            asking.append(step.path)
    if len(asking) > 1:
        raise Unsupported(
            "more than one change of this patch has to be agreed to by a person",
            hint=Advice("make these changes one by one: " + ", ".join(asking)),
        )


async def _rehearsed(scope: Scope, step: _PatchStep) -> None:
    try:
        await step.do(scope)
    except ApprovalDenied as error:
        if error.decided_by != "rehearsal":
            raise


def _done(scope: Scope, part: PatchPart) -> str:
    """What to say when a part was done."""
    if _moves(scope, part):
        return f"updated {part.path}, now {part.move_to}"
    return f"{part.kind}d {part.path}"


# --- doing it ------------------------------------------------------------------------------------


async def _together(scope: Scope, steps: Sequence[_PatchStep]) -> None:
    try:
        async with scope.transaction() as inside:
            for step in steps:
                await step.do(inside)
    except BailiwickError as error:
        _explain(error, "nothing was changed")
        raise


async def _one_after_the_other(scope: Scope, made: _PatchStep, left: _PatchStep) -> None:
    """Give a file its new name: the new one is written, then the old one is removed."""
    if "delete" not in scope.access:  # a server says so only when the new one is there
        raise MissingAccess("the grant does not hold: delete", path=left.path)
    above = await _missing_above(scope, made.path)
    written = await made.do(scope)
    assert written is not None, "what is made is written"
    try:
        await left.do(scope)
    except BaseException as error:
        was_taken_back = await to_the_end(_taken_back(scope, written, above, left.path))
        if isinstance(error, BailiwickError):
            why = "nothing was changed: the new file was taken back"
            if not was_taken_back:
                why = f"the patch was not applied, but {made.path} stays: look at both files"
            _explain(error, why)
        raise


async def _taken_back(
    scope: Scope, written: WriteResult, above: Sequence[str], origin: str
) -> bool:
    """Remove a new file again, and the directories that came with it; whether that could be done.

    Not where it is the only one left, since an answer may be lost after the old one was removed;
    and not where somebody else has written to it since. Removals have no condition, so that this
    can only be looked at right before.
    """
    try:
        await scope.read_bytes(origin, 0, 1)
        if (await whole_text(scope, written.path)).sha256 != written.sha256:
            return False
        await scope.remove(written.path)
    except BailiwickError:
        return False
    with suppress(BailiwickError):  # others use them by now
        for directory in above:
            await scope.remove(directory)
    return True


async def _missing_above(scope: Scope, path: str) -> list[str]:
    """The directories that a new file brings along, the innermost first."""
    missing = []
    above = path.rpartition("/")[0]
    with suppress(BailiwickError):  # whoever may not look leaves them behind
        while above and not await scope.exists(above):
            missing.append(above)
            above = above.rpartition("/")[0]
    return missing


def _explain(error: BailiwickError, why: str) -> None:
    """Let an error say what became of the whole patch, and what to do about it."""
    more = "read the files again" if isinstance(error, HashMismatch) else error.hint
    error.hint = Advice(f"{why}; {more}" if more else why)


# --- what a part comes to ------------------------------------------------------------------------


async def _planned(scope: Scope, parts: Sequence[PatchPart]) -> list[_PatchStep]:
    """Work out all parts: first what is written, then what is removed."""
    _refuse_twice(scope, parts)
    if len(parts) > 1 and "forks" not in scope.powers:
        raise Unsupported(
            "a patch of several files needs a store with transactions, which this one has not",
            hint=Advice("apply its parts one by one"),
        )
    writes: list[_PatchStep] = []
    removals: list[_PatchStep] = []
    for part in parts:
        if part.kind == "create":
            writes.append(_creating(part.path, part.patched("")))
        elif part.kind == "delete":
            removals.append(await _deleting(scope, part.path))
        else:
            before = await whole_text(scope, part.path)
            text = part.patched(before.text)
            if not _moves(scope, part):
                writes.append(_updating(before, text))
                continue
            assert part.move_to is not None
            form = await _form_of(scope, before)
            writes.append(_creating(part.move_to, text, **form))
            removals.append(_leaving(before, text))
    return [*writes, *removals]


def _refuse_twice(scope: Scope, parts: Sequence[PatchPart]) -> None:
    """Each part is worked out against what stands there now, so that of two about one file the
    second would not know of the first."""
    named: set[str] = set()
    for part in parts:
        places = {_place(scope, part.path)}
        if part.move_to is not None:
            places.add(_place(scope, part.move_to))
        if named & places:
            raise ParseError(
                "two parts of this patch are about the same file", path=min(named & places),
                hint=Advice("make them one part, or two patches"),
            )  # fmt: skip
        named |= places


def _place(scope: Scope, path: str) -> str:
    """The place that a path names; what names none is left to the call, whose refusal is on
    record."""
    try:
        return parse(path, scope.root.mount_point, scope.root.names).path
    except BailiwickError:
        return path


def _moves(scope: Scope, part: PatchPart) -> bool:
    return part.move_to is not None and _place(scope, part.move_to) != _place(scope, part.path)


def _creating(path: str, text: str, **form: Any) -> _PatchStep:
    """A new file. It is written with all of its content at once: a person who is asked sees what
    will stand there."""

    async def do(scope: Scope) -> WriteResult:
        return await scope.write_text(path, text, mode="create", parents=True, **form)

    return _PatchStep(path, do)


def _updating(before: TextDocument, text: str) -> _PatchStep:
    async def do(scope: Scope) -> WriteResult:
        return await scope.write_text(before.path, text, expected_sha256=before.sha256)

    return _PatchStep(before.path, do)


async def _form_of(scope: Scope, document: TextDocument) -> dict[str, Any]:
    """How to write a file that is to be like another one, which it was before."""
    known = form_of(decode(document.data))
    form: dict[str, Any] = {"encoding": known.encoding, "bom": known.bom}
    if known.line_ending in ("lf", "crlf"):
        form["line_ending"] = known.line_ending
    with suppress(MissingAccess):
        stat = await scope.lstat(document.path)
        if stat.type != "file":
            raise Unsupported(
                "a patch gives no other name to a link", path=document.path,
                hint=Advice("patch the file that it leads to"),
            )  # fmt: skip
        form["file_mode"] = stat.mode
    return form


def _leaving(before: TextDocument, text: str) -> _PatchStep:
    """The old name of a file that has another one now. It goes as it was read: a removal has no
    condition of its own."""

    async def do(scope: Scope) -> None:
        try:
            now = await whole_text(scope, before.path)
        except Unsupported:
            # A transaction on a server is one request, in which nothing can be read. There a write
            # is the condition, and nobody ever sees what it has written.
            await scope.write_text(before.path, text, expected_sha256=before.sha256)
        else:
            if now.sha256 != before.sha256:
                raise HashMismatch("it was changed meanwhile", path=before.path)
        await scope.remove(before.path)

    return _PatchStep(before.path, do)


async def _deleting(scope: Scope, path: str) -> _PatchStep:
    if (await scope.lstat(path)).type == "directory":
        raise IsADirectory("a patch removes files, and this is a directory", path=path)

    async def do(scope: Scope) -> None:
        await scope.remove(path)

    return _PatchStep(path, do)
