"""What a run of code came to."""

from __future__ import annotations

from typing import Any, Literal

from bailiwick.model import Value
from bailiwick.paths import ScopedPath

ChangedHow = Literal["created", "updated", "deleted", "moved"]


class CodeCall(Value, frozen=True, kw_only=True):
    """One call that code has made. ``path`` is as the code wrote it."""

    verb: str
    path: str | None = None
    error_kind: str | None = None


class CodeChange(Value, frozen=True, kw_only=True):
    """What one call has changed, in the order of the calls."""

    kind: ChangedHow
    path: ScopedPath
    origin: ScopedPath | None = None


class CodeError(Value, frozen=True, kw_only=True):
    """Why code came to no end of its own.

    ``type`` is the name of the exception, ``kind`` the kind of error where it was a call that
    failed, or the run itself. ``traceback`` shows lines of the code only. All of it but ``kind`` is
    what the code says, which may be anything.
    """

    type: str
    message: str
    kind: str | None = None
    traceback: str = ""


class CodeResult(Value, frozen=True, kw_only=True):
    """What became of code.

    ``value`` is what its last expression came to, or its variable ``result``, as JSON has it.
    ``output`` is what it printed, on both streams; ``output_omitted_bytes`` were left out of its
    middle. ``changes`` are those of its tree, all of the request ``request_id``; what it did in
    forks and temporary roots is not among them. Where ``error`` is None it came to its end.
    """

    value: Any
    output: str
    output_omitted_bytes: int
    error: CodeError | None
    calls: list[CodeCall]
    changes: list[CodeChange]
    timed_out: bool
    duration_ms: float
    request_id: str
    sandbox: str

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def truncated(self) -> bool:
        return self.output_omitted_bytes > 0
