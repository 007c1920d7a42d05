"""The verbs of a scope that make, move, copy and remove."""

from __future__ import annotations

from collections.abc import Awaitable

from bailiwick import operations
from bailiwick.call import Call, Target, place_in
from bailiwick.errors import ParseError
from bailiwick.model import ChangeResult, Expected
from bailiwick.paths import PathText
from bailiwick.proposal import Proposal
from bailiwick.scope.content import new
from bailiwick.scope.core import ScopeCore
from bailiwick.verbs import copies, entries
from bailiwick.verbs.arguments import an_int, check_all, check_lock_token, expected
from bailiwick.verbs.walks.ignore_files import Ignores


class ShapingVerbs(ScopeCore):
    """Making, moving, copying, removing."""

    async def make_dir(
        self,
        path: PathText,
        *,
        parents: bool = False,
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Make a directory; with ``parents`` also those above it, and an existing one is fine."""
        return await self._run(
            operations.WRITE, "make_dir", new(path, parents),
            lambda call: entries.make_dir(call, parents, file_mode),
            parents=parents, file_mode=file_mode, lock_token=lock_token,
        )  # fmt: skip

    async def remove(
        self,
        path: PathText,
        *,
        recursive: bool = False,
        missing_ok: bool = False,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Remove a file, a link itself, or a directory (a full one only with ``recursive``).

        ``expected_version`` and, for a file, ``expected_sha256`` say what must stand there at that
        instant: else it is `HashMismatch`, and nothing is changed.
        """
        return await self._run(
            operations.DELETE, "remove", Target(path, "entry", parents=missing_ok is True),
            lambda call: entries.remove(
                call, self._ignores, recursive, missing_ok,
                expected(expected_version, expected_sha256),
            ),
            recursive=recursive, missing_ok=missing_ok, lock_token=lock_token,
        )  # fmt: skip

    async def move(
        self,
        path: PathText,
        to: PathText,
        *,
        replace: bool = False,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        expected_destination_sha256: str | None = None,
        expected_destination_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Give a file, link or directory another name, atomically.

        ``expected_version`` and, for a file, ``expected_sha256`` say what must be moved;
        ``expected_destination_version`` and ``expected_destination_sha256``, with ``replace``, what
        it must take the place of. Else it is `HashMismatch`, and nothing is changed.
        """
        return await self._run(
            operations.MOVE, "move", Target(path, "entry"),
            lambda call: entries.move(
                call, self._ignores, replace, expected(expected_version, expected_sha256),
                _at_destination(expected_destination_version, expected_destination_sha256),
            ),
            Target(to, "entry", creates=True), replace=replace, lock_token=lock_token,
        )  # fmt: skip

    async def copy(
        self,
        path: PathText,
        to: PathText,
        *,
        recursive: bool = False,
        expected_destination_sha256: str | None = None,
        expected_destination_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Copy a file or link, or with ``recursive`` a directory, to a new name.

        With ``expected_destination_version`` or ``expected_destination_sha256`` a file is copied
        over the file that has them; another one there is `HashMismatch`, and nothing is changed.
        """
        return await self._run(
            operations.COPY, "copy", Target(path, "entry"),
            lambda call: copies.copy(
                call, self._ignores, recursive,
                _at_destination(expected_destination_version, expected_destination_sha256),
            ),
            Target(to, "entry", creates=True), recursive=recursive, lock_token=lock_token,
        )  # fmt: skip

    async def copy_from(
        self,
        other: ScopeCore,
        path: PathText,
        to: PathText,
        *,
        recursive: bool = False,
        parents: bool = False,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Copy from another scope into this one; the grants and policies of both apply."""
        there = self._call(
            operations.COPY_DESTINATION, "copy_from", new(to, parents), lock_token=lock_token
        )
        there.given = given = {"recursive": recursive, "parents": parents}

        async def source() -> tuple[Call, Ignores]:
            check_all(given)
            check_lock_token(there, lock_token)
            if not isinstance(other, ScopeCore):
                raise ParseError(f"other must be a scope, not {type(other).__name__}")
            return _source_call(other, there, path)

        copy = copies.copy_between(source, self._ignores, recursive=recursive)
        return await self._rebased(self._pipeline.run(there, copy))

    async def copy_in(
        self,
        host_path: str,
        to: PathText,
        *,
        recursive: bool = False,
        parents: bool = False,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Copy from a host directory that this root's configuration lists."""
        there = self._call(
            operations.COPY_IN_DESTINATION, "copy_in", new(to, parents), lock_token=lock_token
        )
        there.given = given = {"recursive": recursive, "parents": parents}

        async def source() -> tuple[Call, Ignores]:
            check_all({"host_path": host_path, **given})
            check_lock_token(there, lock_token)
            scope = copies.source_for(self._lent.copy_in, host_path)
            # The shipped rules hold for what lies on the host as well.
            reader = await scope._read_by(self.subject)
            return _source_call(reader, there, host_path)

        copy = copies.copy_between(source, self._ignores, recursive=recursive)
        return await self._rebased(self._pipeline.run(there, copy))

    async def symlink(
        self, path: PathText, target: str, *, lock_token: int | None = None
    ) -> ChangeResult:
        """Make a link at ``path`` whose text is ``target``, relative to the link's directory."""
        return await self._run(
            operations.WRITE, "symlink", new(path, False),
            lambda call: entries.symlink(call, target), target=target, lock_token=lock_token,
        )  # fmt: skip

    async def set_mode(
        self,
        path: PathText,
        file_mode: int,
        *,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Set the permission bits of a file or directory.

        ``expected_version`` and, for a file, ``expected_sha256`` say what must stand there at that
        instant: else it is `HashMismatch`, and nothing is changed.
        """

        def act(call: Call) -> Awaitable[Proposal[ChangeResult]]:
            an_int("file_mode", file_mode)
            return entries.set_mode(call, file_mode, expected(expected_version, expected_sha256))

        return await self._run(
            operations.WRITE, "set_mode", Target(path, "entry"), act, lock_token=lock_token
        )

    async def set_times(
        self,
        path: PathText,
        mtime_ns: int,
        *,
        atime_ns: int | None = None,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Set the times of a file or directory.

        ``expected_version`` and, for a file, ``expected_sha256`` say what must stand there at that
        instant: else it is `HashMismatch`, and nothing is changed.
        """
        return await self._run(
            operations.WRITE, "set_times", Target(path, "entry"),
            lambda call: entries.set_times(
                call, mtime_ns, atime_ns, expected(expected_version, expected_sha256)
            ),
            mtime_ns=mtime_ns, atime_ns=atime_ns, lock_token=lock_token,
        )  # fmt: skip


def _at_destination(version: str | None, sha256: str | None) -> Expected:
    return expected(version, sha256, "expected_destination")


def _source_call(other: ScopeCore, there: Call, path: PathText) -> tuple[Call, Ignores]:
    """The half of a copy between roots that the other scope answers for."""
    scope = other.with_request(there.request_id)
    call = scope._call(operations.COPY_SOURCE, there.verb, Target(path, "entry"))
    call.elsewhere = place_in(there.grant, there.handle.path)
    call.given = {"recursive": (there.given or {}).get("recursive")}
    return call, scope._ignores
