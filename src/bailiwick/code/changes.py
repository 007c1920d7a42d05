"""What a call has changed, from what it answered."""

from __future__ import annotations

from typing import Any

from bailiwick.archives.results import ArchiveResult, ExtractResult
from bailiwick.code.results import ChangedHow, CodeChange
from bailiwick.model import ChangeResult, EditResult, WriteResult
from bailiwick.versions import MergeResult, RestoreResult, UndoResult

_KINDS: dict[str, ChangedHow] = {
    "make_dir": "created",
    "symlink": "created",
    "copy": "created",
    "copy_from": "created",
    "copy_in": "created",
    "remove": "deleted",
    "move": "moved",
}


def changes_of(verb: str, result: Any) -> list[CodeChange]:
    """The changes that a result tells of; nothing for what only looks."""
    match result:
        case WriteResult() | ArchiveResult():
            kind: ChangedHow = "created" if result.created else "updated"
            return [CodeChange(kind=kind, path=result.path)]
        case EditResult():
            return [] if result.dry_run else [CodeChange(kind="updated", path=result.path)]
        case ChangeResult():
            return [_of_place(verb, result)] if result.changed else []
        case ExtractResult():
            return [CodeChange(kind="created", path=result.destination)]
        case RestoreResult():
            return [CodeChange(kind="updated", path=result.path)] if result.changed else []
        case UndoResult():
            paths = [] if result.preview else result.undone
            return [CodeChange(kind="updated", path=each) for each in paths]
        case MergeResult():
            paths = [] if result.preview else result.changed
            return [CodeChange(kind="updated", path=each) for each in paths]
    return []


def _of_place(verb: str, result: ChangeResult) -> CodeChange:
    kind: ChangedHow = _KINDS.get(verb, "updated")
    if result.destination is None:
        return CodeChange(kind=kind, path=result.path)
    origin = result.path if kind == "moved" else None
    return CodeChange(kind=kind, path=result.destination, origin=origin)
