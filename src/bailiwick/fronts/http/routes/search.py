"""Finding files by name, lines by pattern, and what differs."""

from __future__ import annotations

import time

from bailiwick.errors import ParseError
from bailiwick.fronts.http.requests import Request
from bailiwick.fronts.http.table import (
    APPROVAL,
    AS_OF,
    INCLUDE_IGNORED,
    NAME_CHARACTERS_MAX,
    PATH,
    Parameter,
    Route,
    access,
    limit,
)
from bailiwick.fronts.http.verbs import looking
from bailiwick.fronts.http.wire import as_of
from bailiwick.wire import Document, Result, values


class GlobResult(Result, frozen=True, kw_only=True, tag="glob"):
    """The paths that match, sorted."""

    pattern: str
    cwd: str
    matches: list[str]
    count: int
    truncated: bool
    omitted: int
    reason: str | None
    unreadable: list[str]
    next_cursor: str | None
    entries: list[values.ENTRY.struct] | None  # type: ignore[name-defined]
    duration_ms: float
    request_id: str


async def glob(request: Request) -> GlobResult:
    query, began = request.query, time.perf_counter()
    base = query.get("path", ".")
    scope = await request.scoped(base)
    found = await scope.glob(
        query["pattern"], base, limit=query.get("limit"), cursor=query.get("cursor"),
        include_ignored=query.get("include_ignored", False), **as_of(query.get("as_of")),
    )  # fmt: skip
    return GlobResult(
        pattern=query["pattern"], cwd=str(found.base), matches=[str(each) for each in found.paths],
        count=len(found.matches), truncated=found.truncated, omitted=found.omitted,
        reason=found.reason, unreadable=[str(each) for each in found.unreadable],
        next_cursor=found.next_cursor,
        entries=values.ENTRY.write_all(found.matches) if query.get("entries") else None,
        duration_ms=_since(began), request_id=found.request_id,
    )  # fmt: skip


find = looking("find", values.FIND)
files = looking("files", values.FILES)


async def grep(request: Request) -> Document:
    query, began = request.query, time.perf_counter()
    path = query.get("path", ".")
    scope = await request.scoped(path)
    most = query.get("max_file_bytes", -1)
    result = await scope.grep(
        query["pattern"], path, literal=query.get("literal", False),
        ignore_case=query.get("ignore_case", False), word=query.get("word", False),
        include=query.get("include"), exclude=query.get("exclude"),
        max_results=query.get("limit"), max_file_bytes=None if most == 0 else most,
        context=query.get("context", 0), include_ignored=query.get("include_ignored", False),
        report_skipped=query.get("report_skipped", True),
    )  # fmt: skip
    return values.GREP.write(result, pattern=query["pattern"], path=path, duration_ms=_since(began))


async def diff(request: Request) -> Document:
    query = request.query
    path = query["path"]
    if "other" not in query and "as_of" not in query and "other_as_of" not in query:
        raise ParseError("a diff compares with other, or with an earlier version")
    scope = await request.scoped(path)
    more = as_of(query.get("as_of"))
    if "other_as_of" in query:
        more["other_as_of"] = query["other_as_of"]
    result = await scope.diff(path, query.get("other"), **more)
    return values.DIFF.write(result)


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1_000, 3)


_LIST = access("list")
_READ = access("read")
_BENEATH = Parameter(name="path", about="Where to look; the whole root unless told.")
_PATTERN = Parameter(name="pattern", about="What to look for.", required=True, characters_max=8_192)

# It names the place where an earlier answer ended, so it is as long as a path.
_CURSOR = Parameter(
    name="cursor", about="Goes on where an earlier answer ended.", characters_max=16_384
)


def _flag(name: str, about: str) -> Parameter:
    return Parameter(name=name, about=about, type="boolean")


def _number(name: str, about: str, most: int = 2**63 - 1) -> Parameter:
    return Parameter(name=name, about=about, type="integer", most=most)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/glob", name="glob", family="search", handler=glob,
        about="Files and directories whose path matches: * ** ? [ab] [!ab] {a,b}.",
        result=GlobResult,
        parameters=(
            _PATTERN, _BENEATH, limit(50_000), _CURSOR, INCLUDE_IGNORED,
            _flag("entries", "Also what each match is, as entries like those of /find."),
            AS_OF, APPROVAL,
        ),
        needs=_LIST, verb="glob", asks=True, example="GET /glob?pattern=**/*.py",
    ),
    Route(
        method="GET", path="/find", name="find", family="search", handler=find,
        about="Everything beneath a directory that fits all conditions.", result=values.FIND.struct,
        parameters=(
            _BENEATH,
            Parameter(name="pattern", about="For the name, or with a slash for the path."),
            Parameter(
                name="type", about="What it is.", choices=("file", "directory", "symlink", "other")
            ),
            _number("depth", "How deep to look.", 100_000),
            _flag("empty", "Only what is empty, or only what is not."),
            _number("sizeMin", "At least so many bytes."),
            _number("sizeMax", "At most so many bytes."),
            _number("modifiedAfterNs", "Changed after this time."),
            limit(50_000), _CURSOR, INCLUDE_IGNORED, AS_OF, APPROVAL,
        ),
        needs=_LIST, verb="find", asks=True, example="GET /find?path=src&type=file&sizeMin=1000",
    ),
    Route(
        method="GET", path="/files", name="files", family="search", handler=files,
        about="All files beneath a directory, flat.", result=values.FILES.struct,
        parameters=(_BENEATH, limit(50_000), _CURSOR, INCLUDE_IGNORED, AS_OF, APPROVAL),
        needs=_LIST, verb="files", asks=True, example="GET /files?path=src",
    ),
    Route(
        method="GET", path="/grep", name="grep", family="search", handler=grep,
        about="Lines that match an RE2 pattern.", result=values.GREP.struct,
        parameters=(
            _PATTERN, _BENEATH,
            _flag("literal", "The pattern is plain text."),
            _flag("ignoreCase", "Upper and lower case are the same."),
            _flag("word", "Whole words only."),
            Parameter(name="include", about="Only files that match this glob: {*.py,*.md}."),
            Parameter(name="exclude", about="No files that match this glob."),
            limit(50_000, "maxResults"),
            _number("maxFileBytes", "Larger files are skipped; 0 skips none."),
            _number("context", "Lines on either side of a match.", 10),
            INCLUDE_IGNORED,
            _flag("reportSkipped", "Whether skipped files are listed (true unless told)."),
            APPROVAL,
        ),
        needs=access("read", "list"), verb="grep", asks=True,
        example="GET /grep?pattern=def&include=*.py",
    ),
    Route(
        method="GET", path="/diff", name="diff", family="search", handler=diff,
        about="What differs between two files, or two versions of one.", result=values.DIFF.struct,
        parameters=(
            PATH, Parameter(name="other", about="The file to compare with."), AS_OF,
            Parameter(
                name="otherAsOf", about="The version of the other to compare with.",
                characters_max=NAME_CHARACTERS_MAX,
            ),
            APPROVAL,
        ),
        needs=_READ, verb="diff", asks=True, raises=(409, 413, 422),
        example="GET /diff?path=a.txt&other=b.txt",
    ),
)  # fmt: skip
