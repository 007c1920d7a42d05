"""`extract_archive`: an archive is read twice, and only the second time is anything made.

The first time everything in it is looked at, names, links, sizes and content to the last byte; then
every path that would be made is shown to the policy, a person is asked if a rule wants that, and
quotas are charged. The second time the same bytes are unpacked into a stage of the store, which
appears at once, or is merged into a directory so that an error undoes all of it.

The archive is read by its handle, in a thread of its own where it is unpacked; nothing in it names
a file to anything but the store.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, contextmanager
from typing import Any, NamedTuple

from bailiwick.acts import Act, Unpack
from bailiwick.approvals import Preview
from bailiwick.archives.bounds import Bounds
from bailiwick.archives.entries import STEP_BYTES, ArchiveEntry, Need, Steps
from bailiwick.archives.reader import read_archive
from bailiwick.archives.results import ExtractResult
from bailiwick.call import Asked, Call
from bailiwick.errors import (
    BailiwickError,
    FileAlreadyExists,
    HashMismatch,
    IsADirectory,
    NotADirectory,
    NotARegularFile,
    ParseError,
    SymlinkEscape,
    Unsupported,
)
from bailiwick.limits import Limits
from bailiwick.meter import NOTHING, Amount
from bailiwick.model import EntryType
from bailiwick.operations import REPLACE, Access
from bailiwick.paths import DEPTH_MAX, PATH_BYTES_MAX, ScopedPath, folded
from bailiwick.policy import Allow, Ask
from bailiwick.proposal import Proposal, refusal
from bailiwick.resolution import refuse_hidden_twin, twin_exists
from bailiwick.store import Handle, Staged
from bailiwick.unchanged import SeenState, changed_meanwhile, refuse_unasked, standing_at
from bailiwick.verbs.checksum import content_hash
from bailiwick.verbs.modes import mode_in
from bailiwick.verbs.walks.ignore_files import Ignores

_READ: frozenset[Access] = frozenset(("read",))
_WRITE: frozenset[Access] = frozenset(("write",))
_OVERWRITE: frozenset[Access] = frozenset(("write", REPLACE))

_STEP_COST_BYTES = 4 * 1024
"""What any step costs at least, in bytes of unpacking: so many small ones are one turn's work."""

_PATHS_BETWEEN_PAUSES = 256
"""After so many paths looked at, others get their turn."""

Parts = list[ArchiveEntry | bytes]


async def extract(
    call: Call, ignores: Ignores, overwrite: bool, limits: Limits | None
) -> Proposal[ExtractResult]:
    """Unpack the call's path into its destination."""
    source, place = call.handle, call.destination_handle
    store = call.store
    if "Stages" not in store.powers:
        raise Unsupported("this root cannot unpack archives")
    if limits is not None and not isinstance(limits, Limits):
        raise ParseError("limits must be a bailiwick.Limits")
    _check_places(source, place)
    links = store.description.get("symlinks") != "reject"
    bounds = Bounds.of(call.limits, limits, links=links, names=call.grant.root.names)
    archive = _Archive(call, bounds)
    try:
        with _about(source):
            plan = _Plan(call, await archive.contents(), overwrite)
            await plan.check()
    except BailiwickError as error:
        if call.questions is None:
            raise
        return refusal(error)  # what is wrong with an archive tells what it holds
    unpacking = _Unpacking(call, plan)

    async def charge() -> None:
        plan = unpacking.plan
        with _about(source):
            await call.account(plan.bytes - plan.replaced_bytes, plan.files - plan.replaced_files)

    async def settle() -> None:
        if call.metered:
            await unpacking.plan.settle()

    def unpacked(_: None) -> ExtractResult:
        plan = unpacking.plan
        ignores.forget_all()
        call.bytes = plan.bytes
        plan.tell_changes()
        return ExtractResult(
            path=source.path, destination=place.path, files=plan.files,
            directories=len(plan.directories), links=plan.links, bytes=plan.bytes,
            skipped=archive.skipped, request_id=call.request_id,
        )  # fmt: skip

    return Proposal(
        Unpack(source, place, archive.staged, bounds.file_bytes_max, overwrite, settle),
        unpacked, agreement=unpacking, cost=charge,
    )  # fmt: skip


def _check_places(source: Handle, place: Handle) -> None:
    if source.type == "directory":
        raise IsADirectory("is a directory, not an archive", path=source.path)
    if source.type == "other":
        raise NotARegularFile("an archive is a regular file", path=source.path)
    if place.type == "symlink":
        why = "is a link, and nothing is unpacked through one"
        raise SymlinkEscape(why, path=place.path, hint="name the directory it leads to")
    if place.type not in (None, "directory"):
        raise NotADirectory("an archive is unpacked into a directory", path=place.path)


def _staged(call: Call, part: ArchiveEntry | bytes) -> Staged | bytes:
    if isinstance(part, bytes):
        return part
    kind: EntryType = "directory" if part.kind == "directory" else "file"
    mode = None if part.mode is None else mode_in(call.grant.root, part.mode, kind)
    return Staged(ScopedPath(part.path), part.kind, mode, part.mtime_ns, part.target)


@contextmanager
def _about(archive: Handle) -> Iterator[None]:
    """An error that names no place is about the archive."""
    try:
        yield
    except BailiwickError as error:
        error.path = error.path or archive.path
        raise


class _Unpacking:
    """About the archive as it is, and about what it replaces: no other one afterwards, and nothing
    that came meanwhile. The archive itself is read in one version throughout."""

    def __init__(self, call: Call, plan: _Plan) -> None:
        self._call = call
        self._asked: list[Asked] = []
        self._replaced: str | None = None
        self._standing: SeenState | None = None
        self.plan = plan

    async def show(self) -> Preview:
        call, plan = self._call, self.plan
        self._asked = list(call.questions or ())
        self._replaced = await plan.replaced_hash()
        self._standing = await standing_at(call.store, call.destination_handle)
        return Preview(
            size=plan.bytes, sha256=await content_hash(call.store, call.handle),
            sha256_before=self._replaced, diff=plan.in_words(),
        )  # fmt: skip

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        assert self._standing is not None
        await self._standing.require()
        self.plan = self.plan.anew()
        with _about(self._call.handle):
            await self.plan.check()
        refuse_unasked(self._call, self._asked)
        if await self.plan.replaced_hash() != self._replaced:
            raise changed_meanwhile(self._call.destination_handle.path)
        return act

    def close(self) -> None:
        if self._standing is not None:
            self._standing.close()


# --- reading ----------------------------------------------------------------------------------


class _Turn(NamedTuple):
    """What one turn in the thread brought: parts, and what is needed to go on."""

    parts: Parts
    need: Need | None
    skipped: list[str] | None
    """The names left out, once the end has been reached."""


def _take_turn(steps: Steps[list[str]], given: bytes | None, keep_content: bool) -> _Turn:
    """Go on until bytes are needed, the end has come, or it was enough work for one turn."""
    parts: Parts = []
    done = 0
    try:
        event = next(steps) if given is None else steps.send(given)
        while not isinstance(event, Need):
            is_content = isinstance(event, bytes)
            if event and (keep_content or not is_content):
                parts.append(event)
            done += max(len(event) if is_content else 0, _STEP_COST_BYTES)
            if done >= STEP_BYTES:
                return _Turn(parts, None, None)
            event = steps.send(b"")
    except StopIteration as end:
        return _Turn(parts, None, end.value)
    return _Turn(parts, event, None)


class _Archive:
    """The archive of one call, held open, and one version of it throughout."""

    def __init__(self, call: Call, bounds: Bounds) -> None:
        self._call = call
        self._handle = call.handle
        self._bounds = bounds
        self._size = call.handle.size
        self._version: str | None = None
        self._contents: list[ArchiveEntry] = []
        self.skipped: list[str] = []

    async def contents(self) -> list[ArchiveEntry]:
        """Read all of it, and return what it holds: the first pass, after which it is checked."""
        async with aclosing(self._batches(keep_content=False)) as batches:
            async for batch in batches:
                self._contents += (part for part in batch if isinstance(part, ArchiveEntry))
        return self._contents

    async def parts(self) -> AsyncGenerator[Parts, None]:
        """The second pass: the same entries as in the first one, with their content."""
        expected = iter(self._contents)
        async with aclosing(self._batches(keep_content=True)) as batches:
            async for batch in batches:
                for part in batch:
                    if isinstance(part, ArchiveEntry) and part != next(expected, None):
                        raise self._changed()
                yield batch
        if next(expected, None) is not None:
            raise self._changed()

    async def staged(self) -> AsyncGenerator[list[Staged | bytes], None]:
        """The second pass, as a store takes it."""
        async with aclosing(self.parts()) as batches:
            async for batch in batches:
                yield [_staged(self._call, part) for part in batch]

    async def _batches(self, keep_content: bool) -> AsyncGenerator[Parts, None]:
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="bailiwick-archive")
        steps = read_archive(self._size, self._bounds)
        given: bytes | None = None
        try:
            while True:
                turn = await loop.run_in_executor(thread, _take_turn, steps, given, keep_content)
                if turn.parts:
                    yield turn.parts
                if turn.skipped is not None:
                    self.skipped = turn.skipped
                    return
                given = b"" if turn.need is None else await self._read(turn.need)
        finally:
            thread.shutdown(wait=False)

    async def _read(self, need: Need) -> bytes:
        """A range of the archive; every range of one and the same version of it."""
        content = await self._call.store.read(self._handle, need.offset, need.length)
        if self._version is None:
            self._version = content.version
        if content.version != self._version or content.size != self._size:
            raise self._changed()
        return content.data

    def _changed(self) -> HashMismatch:
        return HashMismatch("the archive was changed while it was read", path=self._handle.path)


# --- the place --------------------------------------------------------------------------------


class _Plan:
    """What will be made, compared with what stands there already."""

    def __init__(self, call: Call, contents: list[ArchiveEntry], overwrite: bool) -> None:
        self._call = call
        self._contents = contents
        self._overwrite = overwrite
        self._place = call.destination_handle
        self._standing: set[ScopedPath] = set()
        self._missing: set[ScopedPath] = set()
        self._folded: dict[ScopedPath, dict[str, str]] = {}
        self.directories = _directories_of(contents)
        self.files = sum(entry.kind in ("file", "copy") for entry in contents)
        self.links = sum(entry.kind == "symlink" for entry in contents)
        self.bytes = sum(entry.size for entry in contents)
        self.replaced_files = self.replaced_bytes = 0
        self._replaced: list[ScopedPath] = []

    def anew(self) -> _Plan:
        """A plan of the same contents, to be compared with what stands there by now."""
        return _Plan(self._call, self._contents, self._overwrite)

    def in_words(self) -> str:
        """What will be made, for the person who is asked."""
        counts = f"{self.files} files, {len(self.directories)} directories, {self.links} links"
        return f"unpack {counts}; {self.replaced_files} existing files are replaced"

    async def replaced_hash(self) -> str | None:
        """Stands for all that is replaced, each in its version; None where nothing is."""
        if not self._replaced:
            return None
        digest = hashlib.sha256()
        for count, path in enumerate(self._replaced, 1):
            if count % _PATHS_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
            held = await self._call.store.resolve(path, "entry")
            with closing(held):
                version = (await self._call.store.stat(held)).version
            digest.update(f"{path}\0{version}\0".encode())
        return digest.hexdigest()

    async def check(self) -> None:
        """Refuse what may not be made, before anything is."""
        call, place = self._call, self._place
        top = place.path
        call.pipeline.obey(call, call.decide(call.handle.path, _READ), call.target)
        decides = call.must_decide_below(top, _WRITE)
        leaves = ((entry.path, entry) for entry in self._contents if entry.kind != "directory")
        dirs = ((path, None) for path in self.directories)
        for count, (text, entry) in enumerate((*dirs, *leaves), 1):
            if count % _PATHS_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
            path = ScopedPath(text).beneath(top)
            _check_length(path)
            allowed = not decides or self._decide(path, _WRITE, entry is None)
            if place.type is not None:
                await self._meet(path, entry)
                if decides and entry is not None and path in self._standing:
                    self._decide(path, _OVERWRITE, False, asked=not allowed)

    def _decide(
        self, path: ScopedPath, access: frozenset[Access], is_directory: bool, asked: bool = False
    ) -> bool:
        """Whether a path may be made so without a question, which is put once: ``asked`` if it was.
        Raises where it may not be made."""
        call = self._call
        decision = call.decide(path, access, is_directory)
        if isinstance(decision, Allow):
            return True
        assert call.destination is not None
        if not (asked and isinstance(decision, Ask)):
            call.pipeline.obey(call, decision, call.destination, path)
        return False

    async def settle(self) -> None:
        """Take the turn at the place, and charge for what will really be added: others may have
        changed what will be replaced, put something there, or taken it away."""
        call, place = self._call, self._place
        await call.take_turn(place.path)
        size, files = self.bytes, self.files
        met = self._contents if place.type is not None else ()
        for count, entry in enumerate(met, 1):
            if count % _PATHS_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
            if entry.kind == "directory":
                continue
            try:
                path = ScopedPath(entry.path).beneath(place.path)
                held = await call.store.resolve(path, "entry", parents=True)
            except BailiwickError:
                continue  # what stands in the way is for the merge to say
            with closing(held):
                if held.type == "file":
                    size, files = size - held.size, files - 1
        charged = call.charged or NOTHING
        await call.account(size - charged.size, files - charged.files)
        call.added = Amount(size, files)

    async def _meet(self, path: ScopedPath, entry: ArchiveEntry | None) -> None:
        """Look at what has the name of something that is to be made."""
        if path.parent in self._missing:
            self._missing.add(path)
            return
        held = await self._call.store.resolve(path, "entry")
        with closing(held):
            if held.path != path:
                raise SymlinkEscape("a link stands in the way, and is not followed", path=path)
            if held.type is None:
                await self._check_siblings(held)
                self._missing.add(path)
            elif entry is None:
                _check_enterable(held)
                self._standing.add(path)
            else:
                self._check_replaceable(held, entry)
                self._standing.add(path)
                self._replaced.append(path)
                self.replaced_files += 1
                self.replaced_bytes += held.size

    def _check_replaceable(self, held: Handle, entry: ArchiveEntry) -> None:
        if not self._overwrite or entry.kind == "symlink":
            hint = None if self._overwrite else "overwrite=True replaces files"
            raise FileAlreadyExists("already exists", path=held.path, hint=hint)
        if held.type == "directory":
            raise IsADirectory("a file of the archive meets a directory", path=held.path)
        if held.type == "symlink":
            raise SymlinkEscape("is a link, and writing through one is refused", path=held.path)

    async def _check_siblings(self, held: Handle) -> None:
        if self._call.grant.root.names != "portable":
            return
        parent = held.path.parent
        if parent not in self._folded:
            names = await self._call.store.names_beside(held)
            self._folded[parent] = {folded(name): name for name in names}
        name = held.path.name
        twin = self._folded[parent].get(folded(name), name)
        assert self._call.destination is not None
        refuse_hidden_twin(self._call, held.path)
        if twin != name:
            raise twin_exists(self._call, self._call.destination, held.path, twin)

    def tell_changes(self) -> None:
        """What was made, for whoever listens."""
        call, place = self._call, self._place
        if place.type is None:
            kept = call.limits.feed_subtree_paths_max
            names = (*self.directories, *(entry.path for entry in self._contents))
            beneath = tuple(dict.fromkeys(sorted(names)))
            call.changed(
                "created", place.path, "directory", subtree=True, beneath=beneath[:kept],
                beneath_truncated=len(beneath) > kept,
            )  # fmt: skip
            return
        for text in self.directories:
            path = ScopedPath(text).beneath(place.path)
            if path not in self._standing:
                call.changed("created", path, "directory")
        for entry in self._contents:
            if entry.kind == "directory":
                continue
            path = ScopedPath(entry.path).beneath(place.path)
            made: EntryType = "symlink" if entry.kind == "symlink" else "file"
            call.changed("updated" if path in self._standing else "created", path, made)


def _directories_of(contents: list[ArchiveEntry]) -> list[str]:
    """All directories that will be there, also those that no entry names, parents first."""
    found: set[str] = {entry.path for entry in contents if entry.kind == "directory"}
    for entry in contents:
        above = entry.path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return sorted(found, key=lambda path: path.split("/"))


def _check_length(path: ScopedPath) -> None:
    if len(path.encode()) > PATH_BYTES_MAX or len(path.parts) > DEPTH_MAX:
        raise ParseError(
            "a path would be too long or too deep", path=path,
            details={"limit": PATH_BYTES_MAX, "depth": DEPTH_MAX},
        )  # fmt: skip


def _check_enterable(held: Handle) -> None:
    if held.type == "symlink":
        raise SymlinkEscape("is a link, and nothing is unpacked through one", path=held.path)
    if held.type != "directory":
        raise FileAlreadyExists("a directory of the archive meets something else", path=held.path)
