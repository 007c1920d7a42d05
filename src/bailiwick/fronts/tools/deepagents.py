"""A deepagents backend: the file tools of a deep agent work on a scope.

What the framework's own tools show to the model is raw text, so nothing is tagged here. Absolute
paths begin at the top of the workspace. A rule that asks interrupts the graph. Every method has
both twins; the blocking one may be called from any thread but the scope's own loop.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

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

    def ls(self, path: str) -> LsResult:
        return self._blocking("ls", _ls(path), lambda error: LsResult(error=error))

    async def als(self, path: str) -> LsResult:
        return await self._waiting("ls", _ls(path), lambda error: LsResult(error=error))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return self._blocking("read", _read(file_path, offset, limit), _unread)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return await self._waiting("read", _read(file_path, offset, limit), _unread)

    def grep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        return self._blocking("grep", _grep(pattern, path, glob, max_count), _unfound_lines)

    async def agrep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        return await self._waiting("grep", _grep(pattern, path, glob, max_count), _unfound_lines)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        return self._blocking("glob", _glob(pattern, path), lambda error: GlobResult(error=error))

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        return await self._waiting(
            "glob", _glob(pattern, path), lambda error: GlobResult(error=error)
        )

    def write(self, file_path: str, content: str) -> WriteResult:
        return self._blocking("write", _write(file_path, content), _unwritten)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        return await self._waiting("write", _write(file_path, content), _unwritten)

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        work = _edit(file_path, old_string, new_string, replace_all)
        return self._blocking("edit", work, lambda error: EditResult(error=error))

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        work = _edit(file_path, old_string, new_string, replace_all)
        return await self._waiting("edit", work, lambda error: EditResult(error=error))

    def delete(self, file_path: str) -> DeleteResult:
        return self._blocking("delete", _delete(file_path), lambda error: DeleteResult(error=error))

    async def adelete(self, file_path: str) -> DeleteResult:
        return await self._waiting(
            "delete", _delete(file_path), lambda error: DeleteResult(error=error)
        )

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
        self, label: str, work: Work[Answer], failed: Callable[[str], Answer]
    ) -> Answer:
        try:
            answer = await self._actor.attempt(label, work)
            if not isinstance(answer, Pending):
                return answer
            word = self._asker.ask(answer)
            if word is None:
                return failed(_words(answer.answer()))
            return await self._actor.run(work, asker=by_word(word.allowed, word.binding))
        except BailiwickError as error:
            return failed(_words(failure(error)))

    def _blocking(self, label: str, work: Work[Answer], failed: Callable[[str], Answer]) -> Answer:
        try:
            answer = self._actor.attempt_blocking(label, work)
            if not isinstance(answer, Pending):
                return answer
            word = self._asker.ask(answer)
            if word is None:
                return failed(_words(answer.answer()))
            return self._actor.run_blocking(work, asker=by_word(word.allowed, word.binding))
        except BailiwickError as error:
            return failed(_words(failure(error)))


def _words(told: dict[str, Any]) -> str:
    """A failure as one line, which is what this framework shows."""
    hint = f" ({told['hint']})" if "hint" in told else ""
    return f"Error: {told['errorKind']}: {told['message']}{hint}"


def _unread(error: str) -> ReadResult:
    return ReadResult(error=error)


def _unwritten(error: str) -> WriteResult:
    return WriteResult(error=error)


def _unfound_lines(error: str) -> GrepResult:
    return GrepResult(error=error)


# --- what each does ------------------------------------------------------------------------------


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


def _read(path: str, offset: int, limit: int) -> Work[ReadResult]:
    async def work(scope: Scope) -> ReadResult:
        place = from_top(path)
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
    pattern: str, path: str | None, glob: str | None, max_count: int | None
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


def _glob(pattern: str, path: str | None) -> Work[GlobResult]:
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


def _write(path: str, content: str) -> Work[WriteResult]:
    async def work(scope: Scope) -> WriteResult:
        written = await scope.write_text(from_top(path), content, parents=True)
        return WriteResult(path=to_absolute(written.path))

    return work


def _edit(path: str, old: str, new: str, replace_all: bool) -> Work[EditResult]:
    async def work(scope: Scope) -> EditResult:
        edited = await scope.edit(from_top(path), old=old, new=new, replace_all=replace_all)
        return EditResult(path=to_absolute(edited.path), occurrences=edited.replacements)

    return work


def _delete(path: str) -> Work[DeleteResult]:
    async def work(scope: Scope) -> DeleteResult:
        removed = await scope.remove(from_top(path), recursive=True)
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
