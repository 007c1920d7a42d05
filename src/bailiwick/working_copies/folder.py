"""The folder in which one working copy lies, in the state directory: it outlives the process.

    upper/        what was changed, as an overlay mount leaves it
    overlay/      the mount's own
    kept.pack     what is being replaced, until all is; what is large in kept/
    bases.pack    what files held that were changed, when they were touched first; what is large in
                  bases/
    about.json    whose it is, and what for
    survey        what the tree held when it began
    since         what is known of single paths of it since
    lower         the name of the tree that it lies over, where that was written out for it
    session       how the session goes on that works in it, where one does
    record        of an overlay: what was changed by verbs, instead of upper and survey
    content/      of an overlay: what files hold that were changed
    publishing    there while it is brought back
    giving_up     there while it is given up under a key
    volatile      there while what was changed is not flushed: under which start of the machine

It is locked by the process that uses it: the kernel lets go however that ends.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from bailiwick.commands import SessionNote
from bailiwick.errors import IoError, PathNotFound, from_os_error
from bailiwick.finishing import in_thread
from bailiwick.model import KiB, MiB, Value
from bailiwick.paths import ScopedPath
from bailiwick.sparse_files import write_all
from bailiwick.working_copies.boot_id import boot_id
from bailiwick.working_copies.done_keys import note_done, was_done
from bailiwick.working_copies.file_lock import lock_file
from bailiwick.working_copies.pack import Pack
from bailiwick.working_copies.removal import PutAside, sweep
from bailiwick.working_copies.survey import Survey, by_path
from bailiwick.working_copies.unfinished import (
    decode_giving_up,
    decode_publishing,
    encode_giving_up,
    encode_publishing,
    readable,
)
from bailiwick.working_copy import Base, GivingUp, Publishing

_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_MORE_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


_STAGED: Final = "staged"
_HELD_BYTES_MAX: Final = 1 * MiB
"""What is held of a file that is put aside, before it is written."""

_PACKED_BYTES_MAX: Final = 256 * KiB
_DIGEST_BYTES: Final = 32
CHUNK_BYTES: Final = 256 * KiB

Recall = Callable[[bytes, Mapping[str, Base | None]], Survey]

FlushAll = Callable[[int], None]
"""Has all that was written to the filesystem of a descriptor outlive the machine."""

_UPPER: Final = "upper"
_VOLATILE: Final = "volatile"
_UNFINISHED: Final = ("publishing", "giving_up")


class About(Value, frozen=True, kw_only=True):
    """Whose a working copy is, and what it is for."""

    id: str
    root: str
    subject: str
    began_ns: int
    request_id: str = ""
    command: tuple[str, ...] = ()
    via: tuple[str, ...] = ()


class Folder:
    """One open folder, locked. Its methods block."""

    def __init__(
        self, parent: str, about: About, directory: int, lock: int, flush_all: FlushAll
    ) -> None:
        self.path: Final = os.path.join(parent, about.id)
        self.about: Final = about
        self.id: Final = about.id
        self._directory = directory
        self._lock = lock
        self._flush_all = flush_all
        # The mount is given the path of the third: it has to be what it is called, like the others.
        self.upper, self._replaced, overlay = _opened_all(directory, _UPPER, "kept", "overlay")
        os.close(overlay)
        self._parts: dict[str, int] = {}
        self._small_kept = Pack(directory, "kept.pack")
        self._small_bases = Pack(directory, "bases.pack")
        self._unflushed: set[str] = set()
        self.is_removed = False

    @property
    def directory(self) -> int:
        """The folder itself, held: whatever its name stands for by now."""
        return self._directory

    def part(self, name: str, *, making: bool) -> int:
        """A directory of the folder, held until that is closed: what is put in its place meanwhile
        is not looked at. Raises `FileNotFoundError`, and `IoError` where something else stands
        there."""
        if name not in self._parts:
            if making:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=self._directory)
            try:
                self._parts[name] = os.open(name, _DIRECTORY_FLAGS, dir_fd=self._directory)
            except FileNotFoundError:
                raise
            except OSError:
                raise IoError("the folder of a working copy was changed by others") from None
        return self._parts[name]

    @property
    def upper_path(self) -> str:
        return os.path.join(self.path, _UPPER)

    def note_unflushed_upper(self) -> None:
        """What is changed there is not durable before something is saved that is."""
        self._unflushed.add(_UPPER)

    def note_volatile_upper(self) -> None:
        """As that, and where the machine ends before it is flushed it may be torn: files whose
        names are there, and whose content is not."""
        self.note_unflushed_upper()
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            file = os.open(_VOLATILE, flags, 0o600, dir_fd=self._directory)
            try:
                write_all(file, boot_id())
            finally:
                os.close(file)

    @property
    def is_torn(self) -> bool:
        """Whether the machine ended before what was changed was flushed."""
        began = self._load(_VOLATILE)
        return began is not None and began != boot_id()

    @property
    def overlay_path(self) -> str:
        return os.path.join(self.path, "overlay")

    def close(self) -> None:
        self._close_parts()
        held, self._lock, self._directory = (self._lock, self._directory), -1, -1
        _close_all(held)

    def _close_parts(self) -> None:
        parts, self._parts = self._parts, {}
        held, self.upper, self._replaced = (self.upper, self._replaced), -1, -1
        _close_all((*held, *parts.values()))

    def gather(self, move: Callable[[int, int], None]) -> None:
        """Have what lies beside what was changed moved there, where something does."""
        overlay = os.open("overlay", _DIRECTORY_FLAGS, dir_fd=self._directory)
        try:
            move(self.upper, overlay)
        finally:
            os.close(overlay)

    # --- records ------------------------------------------------------------------------------

    def save_about(self) -> None:
        self._save("about.json", msgspec.json.encode(self.about), durable=False)

    def save_survey(self, survey: Survey) -> None:
        self._save("survey", survey.encoded(), durable=False)
        if survey.is_known_since:
            self.save_since(survey)
        else:
            with suppress(FileNotFoundError):
                os.unlink("since", dir_fd=self._directory)

    def save_since(self, survey: Survey) -> None:
        self._save("since", survey.encoded_since(), durable=False)

    def load_survey(self, recall: Recall) -> Survey:
        """As whoever has made it takes it up again."""
        found, since = self._load("survey"), self._load("since")
        if found is None:
            return Survey({})
        with readable():
            known = msgspec.msgpack.decode(since or b"\x80", type=dict[bytes, Base | None])
            return recall(found, by_path(known))

    def save_lower(self, name: str) -> None:
        self._save("lower", name.encode(), durable=False)

    def load_lower(self) -> str:
        return (self._load("lower") or b"").decode("ascii", "replace")

    def save_session(self, note: SessionNote) -> None:
        self._save("session", msgspec.json.encode(note))

    def load_session(self) -> SessionNote | None:
        data = self._load("session")
        if data is None:
            return None
        with readable():
            return msgspec.json.decode(data, type=SessionNote)

    def note_publishing(self, what: Publishing | None) -> None:
        """Durable before anything is changed: whoever finds it goes on from there."""
        if what is None:
            with suppress(FileNotFoundError):
                os.unlink("publishing", dir_fd=self._directory)
            self._small_kept.clear()
            for name in os.listdir(self._replaced):
                os.unlink(name, dir_fd=self._replaced)
        else:
            self._save("publishing", encode_publishing(what))

    def load_publishing(self) -> Publishing | None:
        data = self._load("publishing")
        if data is None:
            return None
        return decode_publishing(data)

    def note_giving_up(self, what: GivingUp | None) -> None:
        """As durable as `note_publishing`."""
        if what is None:
            with suppress(FileNotFoundError):
                os.unlink("giving_up", dir_fd=self._directory)
        else:
            self._save("giving_up", encode_giving_up(what))

    def load_giving_up(self) -> GivingUp | None:
        data = self._load("giving_up")
        return None if data is None else decode_giving_up(data)

    def note_done(self, key: bytes) -> None:
        """What was decided under a key was done."""
        note_done(os.path.dirname(self.path), key)

    def _save(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Whole or not at all. What is not durable at once becomes so with what is saved next and
        is: as long as nothing was changed there is nothing to be found again."""
        staged = name + ".new"
        file = os.open(staged, _NEW_FLAGS, 0o600, dir_fd=self._directory)
        try:
            write_all(file, data)
            if durable and not self._flushed_all():
                os.fsync(file)
        finally:
            os.close(file)
        os.rename(staged, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        if durable:
            self._unflushed.discard(name)
            self.flush()
        else:
            self._unflushed.add(name)

    def flush(self) -> None:
        """Have what was changed, and what was written down about it, outlive the machine."""
        self._flushed_all()
        while self._unflushed:
            with suppress(FileNotFoundError):
                file = os.open(self._unflushed.pop(), _READ_FLAGS, dir_fd=self._directory)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)
        os.fsync(self._directory)

    def _flushed_all(self) -> bool:
        """Flush everything at once, where more was changed than a few records."""
        if _UPPER not in self._unflushed:
            return False
        self._flush_all(self._directory)
        self._unflushed.clear()
        if not self.is_torn:
            with suppress(FileNotFoundError):
                os.unlink(_VOLATILE, dir_fd=self._directory)
        return True

    def _load(self, name: str) -> bytes | None:
        try:
            file = os.open(name, _READ_FLAGS, dir_fd=self._directory)
        except FileNotFoundError:
            return None
        with os.fdopen(file, "rb") as opened:
            return opened.read()

    # --- what is being replaced -----------------------------------------------------------------

    async def keep(self, path: ScopedPath, chunks: AsyncGenerator[bytes, None]) -> None:
        """In as few pieces as can be held: many are small, and each takes a thread."""
        held: list[bytes] = []
        size, flags = 0, _NEW_FLAGS
        async for chunk in chunks:
            held.append(chunk)
            size += len(chunk)
            if size >= _HELD_BYTES_MAX:
                await in_thread(self._add_staged, flags, b"".join(held))
                held, size, flags = [], 0, _MORE_FLAGS
        await in_thread(self._add_kept, path, flags, b"".join(held))

    def keep_all(self, contents: Mapping[ScopedPath, bytes]) -> None:
        """Of many, each of which is small."""
        self._small_kept.add(contents)

    def _add_kept(self, path: ScopedPath, flags: int, data: bytes) -> None:
        """The last of it: what has its name is all of it, whenever somebody is killed."""
        self._add_staged(flags, data)
        directory = self._replaced
        os.rename(_STAGED, _kept_name(path), src_dir_fd=directory, dst_dir_fd=directory)

    def _add_staged(self, flags: int, data: bytes) -> None:
        file = os.open(_STAGED, flags, 0o600, dir_fd=self._replaced)
        try:
            write_all(file, data)
        finally:
            os.close(file)

    def has_kept(self, path: ScopedPath) -> bool:
        return path in self._small_kept or os.access(
            _kept_name(path), os.F_OK, dir_fd=self._replaced, follow_symlinks=False
        )

    def open_kept(self, path: ScopedPath) -> tuple[bytes, int | None]:
        """The first of what was put aside, and a descriptor where there is more."""
        data = self._small_kept.get(path)
        if data is not None:
            return data, None
        return b"", os.open(_kept_name(path), _READ_FLAGS, dir_fd=self._replaced)

    async def kept(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        data, file = await in_thread(self.open_kept, path, let_go=not_read_on)
        async with aclosing(read_on(data, file)) as chunks:
            async for chunk in chunks:
                yield chunk

    def stage(self, data: bytes, mode: int) -> str:
        """The path of a new file that is to be renamed to where it belongs."""
        staged = os.path.join(self.path, "staged")
        file = os.open(staged, _NEW_FLAGS, 0o600)
        try:
            write_all(file, data)
            os.fchmod(file, mode)
            os.fsync(file)
        finally:
            os.close(file)
        return staged

    @property
    def is_overlay(self) -> bool:
        """Whether what was changed in it was changed by verbs: see `overlay_record`."""
        try:
            os.stat("record", dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    # --- what lay below ---------------------------------------------------------------------------

    def has_base(self, path: ScopedPath) -> bool:
        if path in self._small_bases:
            return True
        try:
            os.stat(_base_name(path), dir_fd=self._bases(), follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def save_base(self, path: ScopedPath, data: bytes, *, durable: bool = True) -> None:
        """Whole or not at all. One that is not durable may be lost with the machine, and is known
        to be: its hash goes before it."""
        if len(data) <= _PACKED_BYTES_MAX:
            self._small_bases.add({path: data}, durable=durable)
            return
        name, bases = _base_name(path), self._bases(making=True)
        file = os.open(name + ".new", _NEW_FLAGS, 0o600, dir_fd=bases)
        try:
            write_all(file, hashlib.sha256(data).digest() + data)
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        os.rename(name + ".new", name, src_dir_fd=bases, dst_dir_fd=bases)
        self._small_bases.forget((path,))  # it would go before it

    def save_bases(self, contents: Mapping[ScopedPath, bytes]) -> None:
        """Of many, none of them durable."""
        small = {path: x for path, x in contents.items() if len(x) <= _PACKED_BYTES_MAX}
        self._small_bases.add(small)
        for path in contents.keys() - small.keys():
            self.save_base(path, contents[path], durable=False)

    def load_base(self, path: ScopedPath) -> bytes | None:
        if path in self._small_bases:
            return self._small_bases.get(path)
        try:
            file = os.open(_base_name(path), _READ_FLAGS, dir_fd=self._bases())
        except FileNotFoundError:
            return None
        with os.fdopen(file, "rb") as opened:
            digest, data = opened.read(_DIGEST_BYTES), opened.read()
        return data if hashlib.sha256(data).digest() == digest else None

    def forget_bases(self, paths: Collection[ScopedPath]) -> None:
        self._small_bases.forget(paths)
        with suppress(FileNotFoundError):  # none of them was large
            bases = self._bases()
            for path in paths:
                with suppress(FileNotFoundError):
                    os.unlink(_base_name(path), dir_fd=bases)

    def _bases(self, *, making: bool = False) -> int:
        return self.part("bases", making=making)

    def remove(self) -> None:
        """Take all of it away. Twice does nothing."""
        with suppress(FileNotFoundError):
            self.put_aside().remove()

    def put_aside(self) -> PutAside:
        """Let go of all of it; what is returned is to be removed, by whoever has the time."""
        aside = PutAside(*os.path.split(self.path))
        self.is_removed = True
        self._close_parts()  # else it is freed when they are closed
        return aside


class Folders:
    """The working copies of one root, each in a folder of its own."""

    def __init__(self, state_dir: str, key: str, flush_all: FlushAll) -> None:
        """``key`` names the root among all that have working copies there."""
        self._flush_all: Final = flush_all
        self._path: Final = os.path.join(state_dir, "work", key)

    def make(self, about: About) -> Folder:
        """A new one, locked. Raises `PermissionDenied`, `IoError`."""
        try:
            os.makedirs(self._path, mode=0o700, exist_ok=True)
            place = os.path.join(self._path, about.id)
            os.mkdir(place, 0o700)
            for name in (_UPPER, "overlay", "kept"):
                os.mkdir(os.path.join(place, name), 0o700)
            return self._opened(about)
        except OSError as error:
            raise from_os_error(error) from None

    def all(self) -> list[About]:
        """Those there are, oldest first."""
        found = []
        with suppress(FileNotFoundError):
            for name in os.listdir(self._path):
                with suppress(OSError, msgspec.MsgspecError):
                    found.append(self._about(name))
        return sorted(found, key=lambda each: each.began_ns)

    def unfinished(self) -> list[str]:
        """Those that are being brought back or given up, or were when their process was killed.
        What one was taking away goes."""
        try:
            sweep(self._path)
            names = os.listdir(self._path)
        except FileNotFoundError:
            return []
        return [name for name in names if is_id(name) and self._is_unfinished(name)]

    def _is_unfinished(self, id: str) -> bool:
        place = os.path.join(self._path, id)
        return any(os.path.exists(os.path.join(place, name)) for name in _UNFINISHED)

    def was_done(self, key: bytes) -> bool:
        """Whether what was decided under a key was done."""
        return was_done(self._path, key)

    def lowers(self) -> set[str]:
        """The names of the trees that working copies lie over."""
        found = set()
        with suppress(FileNotFoundError):
            for id in os.listdir(self._path):
                place = os.path.join(self._path, id, "lower")
                with suppress(OSError, ValueError), open(place, encoding="ascii") as file:
                    found.add(file.read())
        return found

    def overlays(self) -> list[About]:
        """Those that verbs work in, oldest first."""
        place = self._path
        return [x for x in self.all() if os.path.exists(os.path.join(place, x.id, "record"))]

    def open(self, id: str) -> Folder:
        """One that is there. Raises `PathNotFound`, and `Busy` where another process has it."""
        if not is_id(id):
            raise PathNotFound("there is no such working copy")
        try:
            return self._opened(self._about(id))
        except (FileNotFoundError, msgspec.MsgspecError):
            raise PathNotFound("there is no such working copy") from None
        except OSError as error:
            raise from_os_error(error) from None

    def _about(self, id: str) -> About:
        with open(os.path.join(self._path, id, "about.json"), "rb") as file:
            about = msgspec.json.decode(file.read(), type=About)
        if about.id != id or not is_id(id):
            # Somebody edited it. It is by this name that all of it is found, and removed.
            raise msgspec.ValidationError("it goes by another name")
        return about

    def _opened(self, about: About) -> Folder:
        place = os.path.join(self._path, about.id)
        directory = os.open(place, _DIRECTORY_FLAGS)
        try:
            lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory)
            try:
                lock_file(lock)
                folder = Folder(self._path, about, directory, lock, self._flush_all)
                folder.save_about()
            except BaseException:
                os.close(lock)
                raise
        except BaseException:
            os.close(directory)
            raise
        return folder


def _base_name(path: ScopedPath) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


def _kept_name(path: ScopedPath) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


def _opened_all(parent: int, *names: str) -> list[int]:
    """Directories in a directory; none of them may be a link."""
    opened: list[int] = []
    try:
        opened.extend(os.open(name, _DIRECTORY_FLAGS, dir_fd=parent) for name in names)
    except BaseException:
        for each in opened:
            os.close(each)
        raise
    return opened


def _close_all(descriptors: Iterable[int]) -> None:
    for each in descriptors:
        if each >= 0:
            os.close(each)


def new_id() -> str:
    return "w" + secrets.token_hex(5)


def is_id(text: str) -> bool:
    return len(text) == 11 and text.isascii() and text.isalnum()


# --- what was begun to be read ----------------------------------------------------------------


async def read_on(data: bytes, file: int | None) -> AsyncGenerator[bytes, None]:
    """The first of a content, and what a descriptor has of it beyond that."""
    try:
        yield data
        while file is not None and (chunk := await in_thread(os.read, file, CHUNK_BYTES)):
            yield chunk
    finally:
        if file is not None:
            os.close(file)


async def not_read_on(begun: tuple[bytes, int | None]) -> None:
    if begun[1] is not None:
        os.close(begun[1])
