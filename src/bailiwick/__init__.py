"""Bailiwick: the filesystem for AI agents. One boundary through which every file operation passes.

async with bailiwick.open("./project") as fs:
    await fs.write_text("notes/today.md", "hello\\n", parents=True)
    print((await fs.read_text("notes/today.md")).text)

with bailiwick.open_sync("./project") as fs:
    print(fs.read_text("README.md").text)
"""

__version__ = "0.2.0"

# Type checkers take this name for true wherever it comes from; importing it would load `typing`,
# which costs more than the rest of this module.
TYPE_CHECKING = False

# A public name is looked up in its module when it is first asked for, so that the command line can
# print its help without loading the library. Type checkers see plain imports. A test keeps the
# two lists the same.
if TYPE_CHECKING:
    from bailiwick import code
    from bailiwick.approvals import Answer, Approval, Asker, Preview, Question
    from bailiwick.archives.results import ArchiveResult, ExtractResult
    from bailiwick.audit import Record
    from bailiwick.build import OpenOptions, open, open_sync
    from bailiwick.build.governed import Authority
    from bailiwick.client import RemoteScope, connect, connect_sync
    from bailiwick.commands import HostShare
    from bailiwick.errors import (
        AmbiguousTextMatch,
        ApprovalDenied,
        ApprovalTimeout,
        BailiwickError,
        BinaryFile,
        Busy,
        Closed,
        DirectoryNotEmpty,
        FileAlreadyExists,
        FileTooLarge,
        ForbiddenOrigin,
        GrantExpired,
        GrantRevoked,
        HardlinkRefused,
        HashMismatch,
        InternalError,
        IoError,
        IsADirectory,
        LockHeld,
        MethodNotAllowed,
        MissingAccess,
        NotADirectory,
        NotARegularFile,
        OperationalError,
        ParseError,
        PathNotFound,
        PathOutsideWorkspace,
        PermissionDenied,
        PolicyDenied,
        PolicyError,
        QuotaExceeded,
        RangeNotSatisfiable,
        RateLimited,
        ReadOnly,
        RootNotFound,
        RouteNotFound,
        SymlinkEscape,
        TextNotFound,
        TooManyLinks,
        Unauthenticated,
        Unsupported,
        UnsupportedMediaType,
        UntrustedWorkspace,
    )
    from bailiwick.fronts.tools import tools
    from bailiwick.grant import (
        AgentRun,
        Automation,
        Core,
        Extension,
        Grant,
        Narrowing,
        Quota,
        Root,
        StandingGrant,
        Subject,
        User,
    )
    from bailiwick.hook import Hook
    from bailiwick.limits import Limits
    from bailiwick.model import (
        BytesRead,
        Change,
        ChangeResult,
        DiffResult,
        Edit,
        EditResult,
        Entry,
        Found,
        JsonRead,
        Page,
        Stat,
        TextRead,
        WriteResult,
    )
    from bailiwick.operations import Command
    from bailiwick.paths import ScopedPath
    from bailiwick.policy import Allow, Ask, Context, Decision, Deny, Hide
    from bailiwick.portal import SyncScope
    from bailiwick.sandbox import CommandLimits, WindowSize
    from bailiwick.scope import Lease, Scope
    from bailiwick.scope.sessions import Session
    from bailiwick.search.results import GrepMatch, GrepResult
    from bailiwick.sync_twins import SyncLease, SyncSession
    from bailiwick.versions import (
        Comparison,
        Conflict,
        Difference,
        Fork,
        History,
        MergeResult,
        RestoreResult,
        Snapshot,
        UndoResult,
        Version,
    )

# By module, the public names that live there.
_HOMES = {
    "bailiwick.approvals": "Answer Approval Asker Preview Question",
    "bailiwick.archives.results": "ArchiveResult ExtractResult",
    "bailiwick.audit": "Record",
    "bailiwick.build": "OpenOptions open open_sync",
    "bailiwick.build.governed": "Authority",
    "bailiwick.client": "RemoteScope connect connect_sync",
    "bailiwick.commands": "HostShare",
    "bailiwick.errors": (
        "AmbiguousTextMatch ApprovalDenied ApprovalTimeout BailiwickError BinaryFile Busy "
        "Closed DirectoryNotEmpty FileAlreadyExists FileTooLarge ForbiddenOrigin GrantExpired "
        "GrantRevoked HardlinkRefused HashMismatch InternalError IoError IsADirectory "
        "LockHeld MethodNotAllowed MissingAccess NotADirectory NotARegularFile "
        "OperationalError ParseError PathNotFound PathOutsideWorkspace PermissionDenied "
        "PolicyDenied PolicyError QuotaExceeded RangeNotSatisfiable RateLimited ReadOnly "
        "RootNotFound RouteNotFound SymlinkEscape TextNotFound TooManyLinks Unauthenticated "
        "Unsupported UnsupportedMediaType UntrustedWorkspace"
    ),
    "bailiwick.grant": (
        "AgentRun Automation Core Extension Grant Narrowing Quota Root StandingGrant Subject User"
    ),
    "bailiwick.hook": "Hook",
    "bailiwick.limits": "Limits",
    "bailiwick.model": (
        "BytesRead Change ChangeResult DiffResult Edit EditResult Entry Found "
        "JsonRead Page Stat TextRead WriteResult"
    ),
    "bailiwick.paths": "ScopedPath",
    "bailiwick.operations": "Command",
    "bailiwick.policy": "Allow Ask Context Decision Deny Hide",
    "bailiwick.portal": "SyncScope",
    "bailiwick.sandbox": "CommandLimits WindowSize",
    "bailiwick.scope": "Lease Scope",
    "bailiwick.scope.sessions": "Session",
    "bailiwick.search.results": "GrepMatch GrepResult",
    "bailiwick.sync_twins": "SyncLease SyncSession",
    "bailiwick.versions": (
        "Comparison Conflict Difference Fork History MergeResult RestoreResult Snapshot UndoResult "
        "Version"
    ),
}

# Public modules; `tools` can be called as well.
_MODULES = frozenset({"acp", "code", "tools"})

_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "AgentRun",
    "Allow",
    "AmbiguousTextMatch",
    "Answer",
    "Approval",
    "ApprovalDenied",
    "ApprovalTimeout",
    "ArchiveResult",
    "Ask",
    "Asker",
    "Authority",
    "Automation",
    "BailiwickError",
    "BinaryFile",
    "Busy",
    "BytesRead",
    "Change",
    "ChangeResult",
    "Closed",
    "Command",
    "CommandLimits",
    "Comparison",
    "Conflict",
    "Context",
    "Core",
    "Decision",
    "Deny",
    "DiffResult",
    "Difference",
    "DirectoryNotEmpty",
    "Edit",
    "EditResult",
    "Entry",
    "Extension",
    "ExtractResult",
    "FileAlreadyExists",
    "FileTooLarge",
    "ForbiddenOrigin",
    "Fork",
    "Found",
    "Grant",
    "GrantExpired",
    "GrantRevoked",
    "GrepMatch",
    "GrepResult",
    "HardlinkRefused",
    "HashMismatch",
    "Hide",
    "History",
    "Hook",
    "HostShare",
    "InternalError",
    "IoError",
    "IsADirectory",
    "JsonRead",
    "Lease",
    "Limits",
    "LockHeld",
    "MergeResult",
    "MethodNotAllowed",
    "MissingAccess",
    "Narrowing",
    "NotADirectory",
    "NotARegularFile",
    "OpenOptions",
    "OperationalError",
    "Page",
    "ParseError",
    "PathNotFound",
    "PathOutsideWorkspace",
    "PermissionDenied",
    "PolicyDenied",
    "PolicyError",
    "Preview",
    "Question",
    "Quota",
    "QuotaExceeded",
    "RangeNotSatisfiable",
    "RateLimited",
    "ReadOnly",
    "Record",
    "RemoteScope",
    "RestoreResult",
    "Root",
    "RootNotFound",
    "RouteNotFound",
    "Scope",
    "ScopedPath",
    "Session",
    "Snapshot",
    "StandingGrant",
    "Stat",
    "Subject",
    "SymlinkEscape",
    "SyncLease",
    "SyncScope",
    "SyncSession",
    "TextNotFound",
    "TextRead",
    "TooManyLinks",
    "Unauthenticated",
    "UndoResult",
    "Unsupported",
    "UnsupportedMediaType",
    "UntrustedWorkspace",
    "User",
    "Version",
    "WindowSize",
    "WriteResult",
    "__version__",
    "code",
    "connect",
    "connect_sync",
    "open",
    "open_sync",
    "tools",
]

# Type checkers must not see this: they would take every misspelt name for one that exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        module = _MODULE_OF.get(name)
        if module is None and name not in _MODULES:
            raise AttributeError(f"module 'bailiwick' has no attribute {name!r}")
        from importlib import import_module

        if module is None:
            return import_module(f"bailiwick.{name}")
        value = globals()[name] = getattr(import_module(module), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
