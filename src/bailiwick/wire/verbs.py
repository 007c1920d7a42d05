"""The table of verbs: what each is called over HTTP, what it takes there, and what it answers.

Routes and the bodies they take, OpenAPI, the reference and the requests of the client are made from
these rows. The access that a verb needs, and whether it changes something, follow from its
operation. What is unusual about a route is said where it is handled.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Generic, TypeVar, get_args

import msgspec

from bailiwick.model import LineEnding
from bailiwick.operations import OPERATIONS, Access
from bailiwick.wire import values
from bailiwick.wire.arguments import (
    APPROVAL,
    AS_OF,
    BYTES_DEFAULT,
    CHANGE,
    COMMAND,
    CONTENT,
    CURSOR,
    DESTINATION,
    ENCODING,
    EXPECTED,
    EXPECTED_THERE,
    FILE_MODE,
    INCLUDE_IGNORED,
    LINES_MAX,
    LOCK_TOKEN,
    MODE,
    NAME,
    PARENTS,
    PATH,
    PATTERN,
    PREVIEW,
    RECURSIVE,
    REPLACE_ALL,
    SESSION,
    TEXT_BYTES_MAX,
    TOLD,
    TYPE,
    VERSION,
    Accesses,
    Argument,
    Globs,
    Name,
    PathField,
    Seconds,
    Ttl,
    WireEdit,
    a_document,
    a_flag,
    a_number,
    a_text,
    limit,
    somewhere,
)
from bailiwick.wire.forms import Document, Form

Answer = TypeVar("Answer", bound=msgspec.Struct)

_OPERATION = {verb: operation for operation in OPERATIONS.values() for verb in operation.verbs}


@cache
def names_in(path: str) -> tuple[str, ...]:
    """The names in a path that stand for a value: ``{id}`` is ``id``."""
    return tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))


class Verb(msgspec.Struct, Generic[Answer], frozen=True, eq=False):
    """One verb of a scope, as it is asked for over HTTP.

    It takes its arguments in the query, or in a body where it is a POST. ``short`` names that body,
    and the verb in a batch where it can be part of one. ``answer`` is a form, or the document
    itself where that holds no value. ``statuses`` are those of success: with both 200 and 201 it is
    201 where something was made. ``raises`` are those of errors beyond what such a route has.
    """

    name: str
    family: str
    method: str
    path: str
    id: str
    answer: Form[Answer] | type[Document]
    takes: tuple[Argument, ...] = ()
    about: str = ""
    example: str = ""
    short: str = ""
    batched: bool = False
    statuses: tuple[int, ...] = (200,)
    raises: tuple[int, ...] = ()

    @property
    def needs(self) -> frozenset[Access]:
        operation = _OPERATION.get(self.name)
        return frozenset() if operation is None else operation.needed

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    @property
    def asks(self) -> bool:
        """Whether a person may be asked."""
        return APPROVAL in self.takes

    @property
    def form(self) -> Form[Answer]:
        assert isinstance(self.answer, Form), f"{self.name} answers with a value"
        return self.answer

    @property
    def struct(self) -> type[Document]:
        return self.answer.struct if isinstance(self.answer, Form) else self.answer

    @property
    def kind(self) -> str | None:
        """What the answer says that it is."""
        tag = self.struct.__struct_config__.tag
        return None if tag is None else str(tag)


# --- what files hold ---------------------------------------------------------------------------

READ_TEXT = Verb(
    "read_text", "files", "GET", "/file", "readFile", values.FILE,
    (
        PATH, a_number("line", "The first line, from 1.", least=1), limit(LINES_MAX),
        a_number("tail", "The last so many lines instead.", least=1, most=LINES_MAX),
        a_number(
            "max_bytes", "How much at most; a longer file is cut, with a cursor.",
            least=8, most=TEXT_BYTES_MAX,
        ),
        CURSOR, ENCODING, AS_OF, APPROVAL,
    ),
    about="Read the text of a file, or a window of its lines.",
    example="/file?path=README.md&line=1&limit=20", raises=(409, 413, 422),
)  # fmt: skip
READ_BYTES = Verb(
    "read_bytes", "files", "GET", "/file/bytes", "readFileBytes", values.FILE_BYTES,
    (
        PATH, a_number("offset", "Where to begin."),
        a_number(
            "max_bytes", f"How much at most ({BYTES_DEFAULT} unless told).", most=TEXT_BYTES_MAX
        ),
        AS_OF, APPROVAL,
    ),
    about="Read bytes of a file, as base64.",
    example="/file/bytes?path=logo.png&offset=0&maxBytes=1024", raises=(413,),
)  # fmt: skip
WRITE_TEXT = Verb(
    "write_text", "files", "POST", "/file/write", "writeFile", values.FILE_WRITE,
    (
        *CHANGE, PATH, CONTENT.but(required=True), MODE, *EXPECTED, ENCODING,
        a_flag("bom").but(default=None), Argument(name="line_ending", choices=get_args(LineEnding)),
        PARENTS, FILE_MODE,
    ),
    about="Write a whole text file, atomically.",
    example='/file/write {"path": "a.txt", "content": "hello\\n"}',
    short="write", batched=True, statuses=(200, 201), raises=(422,),
)  # fmt: skip
EDIT = Verb(
    "edit", "files", "POST", "/file/edit", "editFile", values.FILE_EDIT,
    (
        *CHANGE, PATH, Argument(name="old_text"), Argument(name="new_text"), REPLACE_ALL,
        a_document("edits", Annotated[list[WireEdit], msgspec.Meta(max_length=1_000)] | None),
        *EXPECTED, a_flag("dry_run"),
    ),
    about="Replace text in a file; all edits land together or not at all.",
    example='/file/edit {"path": "a.txt", "oldText": "hello", "newText": "good day"}',
    short="edit", batched=True, raises=(422,),
)  # fmt: skip
APPEND = Verb(
    "append", "files", "POST", "/file/append", "appendFile", values.FILE_APPEND,
    (
        *CHANGE, PATH, CONTENT, Argument(name="content_base64"), *EXPECTED, PARENTS, FILE_MODE,
    ),
    about="Add to the end of a file, making it where it is missing.",
    example='/file/append {"path": "log.txt", "content": "one more line\\n"}',
    short="append", batched=True, statuses=(200, 201), raises=(422,),
)  # fmt: skip
TRUNCATE = Verb(
    "truncate", "files", "POST", "/file/truncate", "truncateFile", values.FILE_TRUNCATE,
    (*CHANGE, *EXPECTED, PATH, a_number("size", default=0)),
    about="Cut a file, or extend it with zeros.",
    example='/file/truncate {"path": "log.txt", "size": 0}', short="truncate", batched=True,
)  # fmt: skip
STREAM = Verb(
    "stream", "files", "GET", "/file/raw", "download", values.FILE_BYTES,
    (
        PATH, a_flag("inline", "Show it: a picture as what it is, all else as plain text."),
        AS_OF, APPROVAL, SESSION,
    ),
    about="The bytes of a file, streamed. Takes Range, If-Range, If-Match, If-None-Match.",
    example="/file/raw?path=video.mp4", statuses=(200, 206, 304), raises=(409, 412, 413, 416),
)  # fmt: skip
WRITE_STREAM = Verb(
    "write_stream", "files", "PUT", "/file/raw", "putFile", values.FILE_WRITE,
    (
        PATH, MODE, EXPECTED[0], EXPECTED[2], PARENTS, FILE_MODE, LOCK_TOKEN, APPROVAL,
    ),
    about="Write a file of any size from the body, atomically. Takes If-Match, If-None-Match.",
    example="/file/raw?path=video.mp4", statuses=(200, 201), raises=(412, 422),
)  # fmt: skip

# --- the tree ----------------------------------------------------------------------------------

LIST = Verb(
    "list", "tree", "GET", "/list", "list", values.LIST,
    (
        somewhere("The directory; the root unless told."), limit(2_000), CURSOR, INCLUDE_IGNORED,
        AS_OF, APPROVAL,
    ),
    about="One page of a directory, sorted by name.", example="/list?path=src&limit=100",
)  # fmt: skip
STAT = Verb(
    "stat", "tree", "GET", "/stat", "stat", values.STAT,
    (PATH, a_flag("follow", "Whether a link is followed (true unless told)."), AS_OF, APPROVAL),
    about="What is known of a file, directory or link.", example="/stat?path=README.md",
)  # fmt: skip
READLINK: Verb[Any] = Verb(
    "readlink", "tree", "GET", "/readlink", "readLink", values.LinkResult, (PATH, AS_OF, APPROVAL),
    about="The text of a link.", example="/readlink?path=latest",
)  # fmt: skip
MAKE_DIR = Verb(
    "make_dir", "tree", "POST", "/dir", "makeDirectory", values.CHANGE,
    (*CHANGE, PATH, PARENTS, FILE_MODE),
    about="Make a directory; with parents also those above it.",
    example='/dir {"path": "notes/2026", "parents": true}',
    short="dir", batched=True, statuses=(200, 201),
)  # fmt: skip
REMOVE = Verb(
    "remove", "tree", "POST", "/remove", "remove", values.CHANGE,
    (*CHANGE, *EXPECTED, PATH, RECURSIVE, a_flag("missing_ok")),
    about="Remove a file, a link, or a directory (a full one only with recursive).",
    example='/remove {"path": "a.txt"}', short="remove", batched=True,
)  # fmt: skip
MOVE = Verb(
    "move", "tree", "POST", "/move", "move", values.CHANGE,
    (*CHANGE, *EXPECTED, PATH, *DESTINATION, a_flag("replace"), *EXPECTED_THERE),
    about="Give a file, link or directory another name, atomically.",
    example='/move {"path": "a.txt", "destination": "b.txt"}', short="move", batched=True,
)  # fmt: skip
COPY = Verb(
    "copy", "tree", "POST", "/copy", "copy", values.CHANGE,
    (
        *CHANGE, PATH, *DESTINATION, RECURSIVE,
        a_document(
            "from_root",
            Annotated[str | None, msgspec.Meta(description="Another root to copy from: kind:id.")],
        ),
        PARENTS, *EXPECTED_THERE,
    ),
    about="Copy a file or directory to a new name, also from another root (only then parents).",
    example='/copy {"path": "a.txt", "destination": "b.txt"}',
    short="copy", batched=True, raises=(422,),
)  # fmt: skip
SYMLINK = Verb(
    "symlink", "tree", "POST", "/symlink", "symlink", values.CHANGE,
    (*CHANGE, PATH, a_text("target", required=True)),
    about="Make a link.", example='/symlink {"path": "latest", "target": "v2.txt"}',
    short="symlink", batched=True, statuses=(201,),
)  # fmt: skip
SET_MODE = Verb(
    "set_mode", "tree", "POST", "/mode", "setMode", values.CHANGE,
    (*CHANGE, *EXPECTED, PATH, FILE_MODE.but(required=True)),
    about="Set permission bits.", example='/mode {"path": "run.sh", "fileMode": "0700"}',
    short="mode", batched=True,
)  # fmt: skip
SET_TIMES = Verb(
    "set_times", "tree", "POST", "/times", "setTimes", values.CHANGE,
    (*CHANGE, *EXPECTED, PATH, a_number("modified_ns", required=True), a_number("accessed_ns")),
    about="Set the times of a file or directory.",
    example='/times {"path": "a.txt", "modifiedNs": 1700000000000000000}',
    short="times", batched=True,
)  # fmt: skip

# --- searching ---------------------------------------------------------------------------------

_BENEATH = somewhere("Where to look; the whole root unless told.")
# It names the place where an earlier answer ended, so it is as long as a path.
_PLACE = CURSOR.but(characters_max=16_384)
_FOUND = (limit(50_000), _PLACE, INCLUDE_IGNORED)

GLOB = Verb(
    "glob", "search", "GET", "/glob", "glob", values.GLOB,
    (
        PATTERN, _BENEATH, *_FOUND,
        a_flag("entries", "Also what each match is, as entries like those of /find."),
        AS_OF, APPROVAL,
    ),
    about="Files and directories whose path matches: * ** ? [ab] [!ab] {a,b}.",
    example="/glob?pattern=**/*.py",
)  # fmt: skip
FIND = Verb(
    "find", "search", "GET", "/find", "find", values.FIND,
    (
        _BENEATH,
        Argument(name="pattern", about="For the name, or with a slash for the path."),
        TYPE, a_number("depth", "How deep to look.", most=100_000),
        a_flag("empty", "Only what is empty, or only what is not."),
        a_number("size_min", "At least so many bytes."),
        a_number("size_max", "At most so many bytes."),
        a_number("modified_after_ns", "Changed after this time."),
        *_FOUND, AS_OF, APPROVAL,
    ),
    about="Everything beneath a directory that fits all conditions.",
    example="/find?path=src&type=file&sizeMin=1000",
)  # fmt: skip
FILES = Verb(
    "files", "search", "GET", "/files", "files", values.FILES,
    (_BENEATH, *_FOUND, AS_OF, APPROVAL),
    about="All files beneath a directory, flat.", example="/files?path=src",
)  # fmt: skip
GREP = Verb(
    "grep", "search", "GET", "/grep", "grep", values.GREP,
    (
        PATTERN, _BENEATH, a_flag("literal", "The pattern is plain text."),
        a_flag("ignore_case", "Upper and lower case are the same."),
        a_flag("word", "Whole words only."),
        Argument(name="include", about="Only files that match this glob: {*.py,*.md}."),
        Argument(name="exclude", about="No files that match this glob."),
        limit(50_000, "maxResults"),
        a_number("max_file_bytes", "Larger files are skipped; 0 skips none."),
        a_number("context", "Lines on either side of a match.", most=10), INCLUDE_IGNORED,
        a_flag("report_skipped", "Whether skipped files are listed (true unless told)."),
        APPROVAL,
    ),
    about="Lines that match an RE2 pattern.", example="/grep?pattern=def&include=*.py",
)  # fmt: skip
DIFF = Verb(
    "diff", "search", "GET", "/diff", "diff", values.DIFF,
    (
        PATH, Argument(name="other", about="The file to compare with."), AS_OF,
        a_text("other_as_of", "The version of the other to compare with."), APPROVAL,
    ),
    about="What differs between two files, or two versions of one. In an overlay a path alone is "
    "compared with what it lies over.",
    example="/diff?path=a.txt&other=b.txt", raises=(409, 413, 422),
)  # fmt: skip

# --- archives and temporary roots --------------------------------------------------------------

EXTRACT_ARCHIVE = Verb(
    "extract_archive", "archives", "POST", "/archive/extract", "extractArchive", values.EXTRACTED,
    (*CHANGE, PATH, *DESTINATION, a_flag("overwrite")),
    about="Unpack a tar or zip archive into a directory.",
    example='/archive/extract {"path": "a.tar.gz", "destination": "unpacked"}',
    short="extract", raises=(422,),
)  # fmt: skip
CREATE_ARCHIVE = Verb(
    "create_archive", "archives", "POST", "/archive/create", "createArchive", values.ARCHIVED,
    (
        *CHANGE,
        a_document(
            "paths", Annotated[list[PathField], msgspec.Meta(min_length=1, max_length=10_000)],
            required=True,
        ),
        *DESTINATION, a_text("format"), INCLUDE_IGNORED.but(default=True),
        MODE.but(default="create"), FILE_MODE,
    ),
    about="Pack files and directories into an archive.",
    example='/archive/create {"paths": ["src"], "destination": "src.tar.gz"}',
    short="create", statuses=(200, 201), raises=(422,),
)  # fmt: skip
CREATE_TEMP: Verb[Any] = Verb(
    "create_temp", "archives", "POST", "/temp", "makeTemp", values.TempRoot,
    (a_document("seconds", Annotated[float, msgspec.Meta(gt=0, le=365 * 24 * 3600)] | None),),
    about="A private root of its own, gone when it is closed or its time is up.",
    example='/temp {"seconds": 600}', short="temp", statuses=(201,),
)  # fmt: skip

# --- what was, and what is tried apart ---------------------------------------------------------

HISTORY = Verb(
    "history", "versions", "GET", "/history", "history", values.HISTORY,
    (somewhere("Of what; the whole root unless told."), limit(1_000), CURSOR, APPROVAL),
    about="The versions of a file, of a directory, or of everything.",
    example="/history?path=a.txt",
)  # fmt: skip
RESTORE = Verb(
    "restore", "versions", "POST", "/restore", "restore", values.RESTORE,
    (*CHANGE, *EXPECTED, PATH, VERSION.but(json=Name, required=True)),
    about="Make a file or directory what it was.",
    example='/restore {"path": "a.txt", "version": "12"}', short="restore",
)  # fmt: skip
UNDO = Verb(
    "undo", "versions", "POST", "/undo", "undo", values.UNDO,
    (
        *CHANGE, a_text("request_id"), a_text("subject"), VERSION, a_text("through"),
        a_number("since_ns", "Only what was changed from this time on."), PREVIEW,
    ),
    about="Take back what a request, a range of versions or a subject changed.",
    example='/undo {"requestId": "4f1c", "preview": true}', short="undo",
)  # fmt: skip
SNAPSHOT: Verb[Any] = Verb(
    "snapshot", "versions", "POST", "/snapshot", "snapshot", values.SnapshotMade, (NAME, APPROVAL),
    about="Keep the version of now under a name.",
    example='/snapshot {"name": "before-the-migration"}', short="snapshot", statuses=(201,),
)  # fmt: skip
SNAPSHOTS: Verb[Any] = Verb(
    "snapshots", "versions", "GET", "/snapshots", "snapshots", values.SnapshotList,
    about="All snapshots.", example="/snapshots",
)  # fmt: skip
DELETE_SNAPSHOT: Verb[Any] = Verb(
    "delete_snapshot", "versions", "DELETE", "/snapshots/{name}", "deleteSnapshot", values.Deleted,
    (APPROVAL,), about="Let go of a snapshot.", example="/snapshots/before-the-migration",
)  # fmt: skip
FORK: Verb[Any] = Verb(
    "fork", "versions", "POST", "/fork", "fork", values.ForkMade, (NAME, VERSION, APPROVAL),
    about="Make a branch of everything, at once.", example='/fork {"name": "try_it"}',
    short="fork", statuses=(201,),
)  # fmt: skip
FORKS: Verb[Any] = Verb(
    "forks", "versions", "GET", "/forks", "forks", values.ForkList,
    about="All forks.", example="/forks",
)  # fmt: skip
DELETE_FORK: Verb[Any] = Verb(
    "delete_fork", "versions", "DELETE", "/forks/{name}", "deleteFork", values.Deleted,
    (APPROVAL,), about="Remove a fork.", example="/forks/try_it",
)  # fmt: skip
COMPARE = Verb(
    "compare", "versions", "GET", "/compare", "compare", values.COMPARE,
    (NAME.but(about="The fork to compare with."), APPROVAL),
    about="How a fork differs from this branch.", example="/compare?name=try_it",
)  # fmt: skip
MERGE = Verb(
    "merge", "versions", "POST", "/merge", "merge", values.MERGE, (*CHANGE, NAME, PREVIEW),
    about="Take over what a fork changed; with conflicts, nothing.",
    example='/merge {"name": "try_it", "preview": true}', short="merge",
)  # fmt: skip
LOCK = Verb(
    "lock", "versions", "POST", "/lock", "lock", values.LOCK,
    (PATH, a_document("ttl", Ttl, 60.0), APPROVAL),
    about="Keep others from changing a place, for a while.",
    example='/lock {"path": "a.txt", "ttl": 60}', short="lock", statuses=(201,),
)  # fmt: skip

# --- commands, and what they changed -----------------------------------------------------------

EXEC: Verb[Any] = Verb(
    "exec", "commands", "POST", "/exec", "exec", values.ExecLine,
    (
        APPROVAL, *COMMAND, a_document("cwd", PathField, "."),
        Argument(name="publish", choices=("atomic", "partial", "manual"), default="atomic"),
        a_document("roots", list[str], []), *TOLD,
    ),
    about="Run a program in a sandbox, on a working copy. Answers line by line: the command, what "
    "it prints, and what became of it and of what it changed.",
    example='/exec {"argv": ["make", "test"]}', short="exec",
)  # fmt: skip
SESSION_OF_COMMANDS: Verb[Any] = Verb(
    "session", "commands", "POST", "/sessions", "makeSession", values.WireSession,
    (
        a_document("cwd", PathField, "."), a_document("env", dict[str, str] | None),
        a_document("roots", list[str], []),
    ),
    about="One working copy for many commands.", example='/sessions {"cwd": "src"}',
    short="session", statuses=(201,),
)  # fmt: skip
OPEN_SESSION: Verb[Any] = Verb(
    "open_session", "commands", "POST", "/sessions/{id}/open", "openSession", values.WireSession,
    about="Go on with a session that was left, or that is open. Its processes are gone where it "
    "says that they were lost.",
    example="/sessions/w1f0c2d3e4b/open {}", short="openSession",
)  # fmt: skip
WORK: Verb[Any] = Verb(
    "work", "commands", "GET", "/work", "work", values.WorkList, (APPROVAL,),
    about="Working copies that hold what is not in the tree.", example="/work",
)  # fmt: skip
OPEN_WORK = Verb(
    "open_work", "commands", "GET", "/work/{id}", "showWork", values.WORK_CHANGES, (APPROVAL,),
    about="What a working copy would do to the tree as it stands now.",
    example="/work/w1f0c2d3e4b",
)  # fmt: skip

# --- following, and passing on -----------------------------------------------------------------

WATCH = Verb(
    "watch", "events", "GET", "/events", "events", values.EVENT,
    (
        somewhere("Where; the whole root unless told."),
        Argument(name="since", about="A cursor to go on from; Last-Event-ID says the same."),
        a_flag("expand", "Name each path of a directory that changed whole."), SESSION,
    ),
    about="Every change, question, run and verdict as a server-sent event, as it comes. Takes"
    " Last-Event-ID.",
    example="/events?path=src",
)  # fmt: skip
DELEGATE: Verb[Any] = Verb(
    "delegate", "governing", "POST", "/grants/{id}/delegate", "delegateGrant", values.Delegated,
    (
        a_document("subject", str, required=True), a_document("access", Accesses | None),
        a_document("path", str, "."), a_flag("rebase"), a_document("allowed", Globs, []),
        a_document("denied", Globs, []), a_document("expires_in", Seconds | None),
        a_document("reason", str, ""),
    ),
    about="Pass on a part of a grant that the caller holds, with a token.",
    example='/grants/4f1c/delegate {"subject": "agent_run:c1/r8", "access": ["read"]}',
    short="delegate", statuses=(201,),
)  # fmt: skip

VERBS: dict[str, Verb[Any]] = {
    each.name: each for each in list(globals().values()) if isinstance(each, Verb)
}
"""All rows, by what the verb is called on a scope."""
