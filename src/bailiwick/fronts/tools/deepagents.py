"""A deepagents backend: the file tools of a deep agent work on a scope.

What the framework's own tools show to the model is raw text, so nothing is tagged here. Absolute
paths begin at the top of the workspace. A rule that asks interrupts the graph. Every method has
both twins; the blocking one may be called from any thread but the scope's own loop.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from bailiwick.errors import (
    BailiwickError,
    BinaryFile,
    FileTooLarge,
    NotADirectory,
    ParseError,
    PathNotFound,
)
from bailiwick.fronts.tools import new_session
from bailiwick.fronts.tools.extras import extra
from bailiwick.fronts.tools.graph_interrupts import GraphAsker
from bailiwick.fronts.tools.places import from_top, to_absolute
from bailiwick.model import Entry
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope
from bailiwick.toolbox import Actor, Pending, by_word, failure
from bailiwick.toolbox.documents import whole_text

with extra("deepagents"):
    from deepagents.backends.protocol import (
        BackendProtocol,
        DeleteResult,
        EditResult,
        FileData,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        GrepMatch,
        GrepResult,
        LsResult,
        ReadResult,
        WriteResult,
    )
    from deepagents.backends.utils import (
        InvalidGlobPatternError,
        compile_grep_include_glob,
        normalize_read_bounds,
        slice_read_response,
    )

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Work = Callable[[Scope], Coroutine[Any, Any, Answer]]

_ENTRIES_MAX = 50_000
"""Entries of one listing: more than that fill any context many times over."""

_LITERALS = {
    "path_not_found": "file_not_found",
    "root_not_found": "file_not_found",
    "is_a_directory": "is_directory",
    "parse_error": "invalid_path",
    "path_outside_workspace": "invalid_path",
    "symlink_escape": "invalid_path",
    "too_many_links": "invalid_path",
    "not_a_directory": "invalid_path",
    "not_a_regular_file": "invalid_path",
}
"""What this framework has words for; every other refusal is ``permission_denied``, and what merely
happened is told by its kind."""

_ABOUT_SIZE = frozenset(("file_too_large", "quota_exceeded"))
"""Refusals that a model can do something about, once it knows them."""


# --- what each does -----------------------------------------------------------------------------


def _ls(path: str) -> Work[LsResult]:
    async def work(scope: Scope) -> LsResult:
        entries: list[Entry] = []
        cursor: str | None = None
        while len(entries) < _ENTRIES_MAX:
            page = await scope.list(from_top(path), cursor=cursor, include_ignored=True)
            entries += page.entries
            cursor = page.next_cursor
            if cursor is None:
                break
        return LsResult(entries=[_info(entry) for entry in entries])

    return work


def _info(entry: Entry) -> FileInfo:
    is_directory = entry.type == "directory"
    info = FileInfo(path=to_absolute(entry.path) + ("/" if is_directory else ""))
    info["is_dir"] = is_directory
    info["size"] = 0 if is_directory else entry.size
    info["modified_at"] = datetime.fromtimestamp(entry.mtime_ns / 1e9, UTC).isoformat()
    return info


def _read(file_path: str, offset: int = 0, limit: int = 2000) -> Work[ReadResult]:
    async def work(scope: Scope) -> ReadResult:
        place = from_top(file_path)
        try:
            document = await whole_text(scope, place)
        except FileTooLarge:
            return await _read_window(scope, place, offset, limit)
        except BinaryFile:
            data = (await scope.read_bytes(place)).data
            content = base64.standard_b64encode(data).decode("ascii")
            return ReadResult(file_data=FileData(content=content, encoding="base64"))
        return slice_read_response(FileData(content=document.text, encoding="utf-8"), offset, limit)

    return work


async def _read_window(scope: Scope, place: str, offset: int, limit: int) -> ReadResult:
    """Lines of a file that is too large to be held. The number of its lines is not known."""
    offset, limit = normalize_read_bounds(offset, limit)
    if limit == 0:
        return ReadResult(file_data=FileData(content="", encoding="utf-8"), no_lines_requested=True)
    read = await scope.read_text(place, line=offset + 1, limit=limit)
    follows = read.next_cursor is not None
    lines = (read.text if follows else read.text.removesuffix("\n")).split("\n")
    if read.partial_line:
        lines.pop()  # half a line would be taken for a whole one, and its rest never be seen
        if not lines:
            raise FileTooLarge("this line is longer than can be read", path=place)
    if not read.text and not follows:
        raise ParseError("the file has fewer lines")
    end = offset + len(lines)
    content = "\n".join(lines) + ("\n" if follows or read.ends_with_newline else "")
    return ReadResult(
        file_data=FileData(content=content, encoding="utf-8"), start_line=offset + 1, end_line=end,
        next_offset=end if follows else None,
    )  # fmt: skip


def _grep(
    pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
) -> Work[GrepResult]:
    async def work(scope: Scope) -> GrepResult:
        base = from_top(path or "/")
        try:
            includes = None if glob is None else compile_grep_include_glob(glob)
        except InvalidGlobPatternError as error:
            return GrepResult(error=str(error), matches=[])
        most = scope.limits.grep_matches_max
        try:
            found = await scope.grep(
                pattern, base, literal=True, include_ignored=True, report_skipped=False,
                max_results=most if includes or max_count is None else min(max_count + 1, most),
            )  # fmt: skip
        except PathNotFound:
            return GrepResult(matches=[])
        matches = [
            GrepMatch(path=to_absolute(match.path), line=match.line, text=match.text)
            for match in found.matches
            if includes is None or includes(_below(match.path, base))
        ]
        cut = max_count is not None and len(matches) > max_count
        return GrepResult(matches=matches[:max_count], truncated=found.truncated or cut)

    return work


def _below(path: str, base: str) -> str:
    top = base.strip("/")
    if top in ("", "."):
        return path
    return path.rpartition("/")[2] if path == top else path.removeprefix(f"{top}/")


def _glob(pattern: str, path: str | None = None) -> Work[GlobResult]:
    async def work(scope: Scope) -> GlobResult:
        base = from_top(path or "/")
        try:
            matches = compile_grep_include_glob(pattern)
        except InvalidGlobPatternError as error:
            return GlobResult(error=str(error))
        try:
            found = await scope.find(
                base, type="file", include_ignored=True, limit=scope.limits.glob_max
            )
        except (PathNotFound, NotADirectory):
            return GlobResult(matches=[])
        infos = [_info(each) for each in found.matches if matches(_below(each.path, base))]
        if found.truncated:
            return GlobResult(matches=infos, truncated=True, truncation_reason="budget")
        if found.unreadable:
            return GlobResult(matches=infos, truncated=True, truncation_reason="unreadable")
        return GlobResult(matches=infos)

    return work


def _write(file_path: str, content: str) -> Work[WriteResult]:
    async def work(scope: Scope) -> WriteResult:
        written = await scope.write_text(from_top(file_path), content, parents=True)
        return WriteResult(path=to_absolute(written.path))

    return work


def _edit(
    file_path: str, old_string: str, new_string: str, replace_all: bool = False
) -> Work[EditResult]:
    async def work(scope: Scope) -> EditResult:
        edited = await scope.edit(
            from_top(file_path), old=old_string, new=new_string, replace_all=replace_all
        )
        return EditResult(path=to_absolute(edited.path), occurrences=edited.replacements)

    return work


def _delete(file_path: str) -> Work[DeleteResult]:
    async def work(scope: Scope) -> DeleteResult:
        removed = await scope.remove(from_top(file_path), recursive=True)
        return DeleteResult(path=to_absolute(removed.path))

    return work


def _upload(path: str, data: bytes) -> Work[FileUploadResponse]:
    async def work(scope: Scope) -> FileUploadResponse:
        try:
            await scope.write_bytes(from_top(path), data, parents=True)
        except BailiwickError as error:
            return FileUploadResponse(path=path, error=literal(error))
        return FileUploadResponse(path=path)

    return work


def _download(path: str) -> Work[FileDownloadResponse]:
    async def work(scope: Scope) -> FileDownloadResponse:
        try:
            read = await scope.read_bytes(from_top(path))
        except BailiwickError as error:
            return FileDownloadResponse(path=path, error=literal(error))
        return FileDownloadResponse(path=path, content=read.data)

    return work


def literal(error: BailiwickError) -> str:
    """The framework's word for an error, where it has one."""
    known = _LITERALS.get(error.kind)
    if known is not None:
        return known
    refused = error.category == "policy" or error.kind == "permission_denied"
    if refused and error.kind not in _ABOUT_SIZE:
        return "permission_denied"
    return error.kind


# --- the backend -------------------------------------------------------------------------------


def _words(told: dict[str, Any]) -> str:
    """A failure as one line, which is what this framework shows."""
    hint = f" ({told['hint']})" if "hint" in told else ""
    return f"Error: {told['errorKind']}: {told['message']}{hint}"


def twins(
    label: str, does: Callable[Arguments, Work[Answer]], failed: Callable[..., Answer]
) -> tuple[
    Callable[Concatenate[BailiwickBackend, Arguments], Answer],
    Callable[Concatenate[BailiwickBackend, Arguments], Coroutine[Any, Any, Answer]],
]:
    """The blocking and the waiting method of one thing that a backend does. ``failed`` says in the
    framework's own form what went wrong."""

    def blocking(
        self: BailiwickBackend, /, *given: Arguments.args, **more: Arguments.kwargs
    ) -> Answer:
        return self._blocking(label, does(*given, **more), failed)

    async def waiting(
        self: BailiwickBackend, /, *given: Arguments.args, **more: Arguments.kwargs
    ) -> Answer:
        return await self._waiting(label, does(*given, **more), failed)

    # The framework looks which arguments a method takes.
    taken = inspect.signature(does)
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = taken.replace(parameters=[me, *taken.parameters.values()])
    blocking.__signature__ = waiting.__signature__ = shown  # type: ignore[attr-defined]
    return blocking, waiting


class BailiwickBackend(BackendProtocol):
    """Files of a deep agent: ``create_deep_agent(backend=BailiwickBackend(scope))``.

    It acts as ``agent_run:deepagents/<session>``. Ignored files are there as well: the framework
    takes a backend for a whole filesystem.
    """

    _runs_commands = False

    def __init__(
        self,
        scope: Scope | SyncScope,
        *,
        session: str | None = None,
        allowed_paths: list[str] | None = None,
    ) -> None:
        self._actor = Actor(
            scope, front="deepagents", session=session or new_session(),
            allowed_paths=allowed_paths, reason="files of a deep agent",
            passes_execute=self._runs_commands,
        )  # fmt: skip
        self._asker = GraphAsker()

    async def aclose(self) -> None:
        """Let go of the agent's scope."""
        await self._actor.aclose()

    # --- the protocol, twice -------------------------------------------------------------------

    ls, als = twins("ls", _ls, LsResult)
    read, aread = twins("read", _read, ReadResult)
    grep, agrep = twins("grep", _grep, GrepResult)
    glob, aglob = twins("glob", _glob, GlobResult)
    write, awrite = twins("write", _write, WriteResult)
    edit, aedit = twins("edit", _edit, EditResult)
    delete, adelete = twins("delete", _delete, DeleteResult)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [self._actor.run_blocking(_upload(path, data)) for path, data in files]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [await self._actor.run(_upload(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._actor.run_blocking(_download(path)) for path in paths]

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [await self._actor.run(_download(path)) for path in paths]

    # --- pausing -------------------------------------------------------------------------------

    async def _waiting(
        self, label: str, work: Work[Answer], failed: Callable[..., Answer]
    ) -> Answer:
        try:
            answer = await self._actor.attempt(label, work)
            if not isinstance(answer, Pending):
                return answer
            word = self._asker.ask(answer)
            if word is None:
                return failed(error=_words(answer.answer()))
            return await self._actor.run(work, asker=by_word(word.allowed, word.binding))
        except BailiwickError as error:
            return failed(error=_words(failure(error)))

    def _blocking(self, label: str, work: Work[Answer], failed: Callable[..., Answer]) -> Answer:
        try:
            answer = self._actor.attempt_blocking(label, work)
            if not isinstance(answer, Pending):
                return answer
            word = self._asker.ask(answer)
            if word is None:
                return failed(error=_words(answer.answer()))
            return self._actor.run_blocking(work, asker=by_word(word.allowed, word.binding))
        except BailiwickError as error:
            return failed(error=_words(failure(error)))
