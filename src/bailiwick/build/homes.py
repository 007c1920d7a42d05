"""Where the past of a directory lies: its history, its working copies, the authority's state.

A directory is known by what it is (its number in its filesystem, and when it was made), not by how
it was spelled: through a link, a bind mount or after a move it has the same past, and another one
that stands where it stood has not. Of each directory whose past is kept there is a record, a small
file in ``places`` of the state directory, and a folder beside it with all that is kept.

Where somebody names a state directory of their own, the records lie in there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final, NamedTuple

import msgspec

from bailiwick.errors import (
    FileAlreadyExists,
    IoError,
    PathNotFound,
    PermissionDenied,
    RootNotFound,
    from_os_error,
)

_PLACES: Final = "places"
_LOCK: Final = "lock"
_SUFFIX: Final = ".json"

_LASTING: Final = ("history", "work")
"""The folders with what lasts: of before there were records, too."""

_NAME_CHARACTERS_MAX: Final = 40

_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCKING: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

_KEY_DIGITS: Final = 32
"""Half of a hash: no two directories of one machine share it by accident."""

_EMPTY_PATH: Final = 0x1000
_BIRTH: Final = 0x800
_STATX_BYTES: Final = 256
_MASK_OF_STATX: Final = struct.Struct("I")
_BIRTH_OF_STATX: Final = struct.Struct("80xqI")
"""Of the kernel's ``struct statx``: what it filled in, and when the inode was made."""


class DirectoryIdentity(NamedTuple):
    """What a directory is. ``born_ns`` is 0 where its filesystem does not tell."""

    device: int
    inode: int
    born_ns: int


class PlaceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a directory whose past is kept.

    ``id`` is what the record is called, and ``key`` what the directory's folders are. ``kept`` is
    where they lie and ``state`` where the state of its authority does, both from the state
    directory on. ``path`` is where it was seen last, ``name`` what its root is called. Paths are
    quoted as in a URL: they need not be text.
    """

    id: str
    path: str
    device: int
    inode: int
    born_ns: int
    key: str
    kept: str
    state: str = ""
    name: str = ""

    @property
    def host_path(self) -> str:
        return _unquoted(self.path)


class Kept(NamedTuple):
    """Where what is kept of one directory lies: ``folder`` has a part for each kind of it, and in
    that part this directory has ``key``. ``earlier`` is such a place of before there were records,
    in which something unfinished may lie."""

    folder: str
    key: str
    earlier: tuple[str, str] | None = None


def default_state_dir() -> str:
    """Where the past of directories is kept: the user's state directory, else a private temp one,
    made if missing."""
    own = _own_state_dir()
    if own is not None:
        with suppress(OSError):
            os.makedirs(own, mode=0o700, exist_ok=True)
            if os.access(own, os.W_OK | os.X_OK):
                return own
    fallback = _temp_state_dir()
    with suppress(OSError):
        os.makedirs(fallback, mode=0o700, exist_ok=True)
    if _is_own(fallback):
        return fallback
    raise PermissionDenied(
        "there is no private directory that can be written, to keep state in",
        hint="set $XDG_STATE_HOME to one, or pass state_dir",
    )


def known_state_dir() -> str | None:
    """The default one if it is there already: nothing is made for looking."""
    own = _own_state_dir()
    if own is not None and os.path.isdir(own) and os.access(own, os.W_OK | os.X_OK):
        return own
    fallback = _temp_state_dir()
    return fallback if _is_own(fallback) else None


def _is_own(fallback: str) -> bool:
    """Whether a directory among those of everybody is ours, and nobody else's to write in: what it
    holds is taken for what we were about to do."""
    try:
        status = os.lstat(fallback)
    except OSError:
        return False
    is_private = status.st_uid == os.getuid() and not status.st_mode & 0o022
    return stat.S_ISDIR(status.st_mode) and is_private and os.access(fallback, os.W_OK | os.X_OK)


def _state_dirs() -> Iterator[str]:
    own = _own_state_dir()
    if own is not None:
        yield own
    yield _temp_state_dir()


def _own_state_dir() -> str | None:
    own = user_directory("XDG_STATE_HOME", ".local/state")
    return None if own is None else os.path.join(own, "bailiwick")


def _temp_state_dir() -> str:
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"bailiwick-{os.getuid()}")


def user_directory(variable: str, in_home: str) -> str | None:
    """A directory of the user's, as the XDG Base Directory Specification says: where a variable
    names it, or else in their home. None where nobody knows that: a variable that is empty or no
    absolute path says nothing, and not every user has a home on record."""
    named = os.environ.get(variable, "")
    if os.path.isabs(named):
        return named
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return os.path.join(home, in_home) if os.path.isabs(home) else None


def identity_of(directory: str) -> DirectoryIdentity | None:
    """What a directory is; None where there is none that could be looked at."""
    try:
        held = os.open(directory, getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(held)
        born = getattr(status, "st_birthtime", None)
        born_ns = _born_ns(held) if born is None else int(born * 1e9)
        return DirectoryIdentity(status.st_dev, status.st_ino, born_ns)
    finally:
        os.close(held)


def _born_ns(descriptor: int) -> int:
    """When an inode was made. Python has no call for it; where the C library has none, 0."""
    import ctypes  # loading it takes longer than the rest of this module

    statx = getattr(ctypes.CDLL(None), "statx", None)
    filled = ctypes.create_string_buffer(_STATX_BYTES)
    if statx is None or statx(descriptor, b"", _EMPTY_PATH, _BIRTH, filled) != 0:
        return 0
    (mask,) = _MASK_OF_STATX.unpack_from(filled)
    seconds, nanoseconds = _BIRTH_OF_STATX.unpack_from(filled)
    return int(seconds * 1_000_000_000 + nanoseconds) if mask & _BIRTH else 0


def spelled_key(directory: str) -> str:
    """What the folders of a directory were called before there were records: by where it lies."""
    return hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:_KEY_DIGITS]


def readable_key(file: str) -> str:
    """A name for a state by the path of a file: the directory that it lies in, for people, and a
    hash of all of it, for which there is no other."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(os.path.dirname(file)))
    known = hashlib.sha256(os.fsencode(file)).hexdigest()[:12]
    return f"{readable[:_NAME_CHARACTERS_MAX].strip('.-') or 'root'}-{known}"


def is_within(place: str, directory: str) -> bool:
    """Whether one lies in the other, or is it, whatever links lead there."""
    place, directory = os.path.realpath(place), os.path.realpath(directory)
    return place == directory or place.startswith(directory.rstrip("/") + "/")


class Homes:
    """The records of one state directory. Its methods block; several processes may use it."""

    def __init__(self, base: str | None = None) -> None:
        """``base`` is a state directory: one within the user's own means the user's own. Who names
        another means it for all that they serve, and there everything lies side by side."""
        own = default_state_dir() if base is None else _standard_state_dir(base)
        self._is_own: Final = own is not None
        self.base: Final = os.path.realpath(own or base or "")

    def kept(self, directory: str, *, making: bool) -> Kept:
        """Where the past of a directory lies. ``making`` writes down that it has one: who only
        looks, or notes unfinished changes, leaves no record."""
        identity, spelled = identity_of(directory), spelled_key(directory)
        if identity is None:
            return Kept(self.base, spelled)
        if making:
            with self._locked():
                record = self._noted(directory, identity)
        else:
            record = self._find(directory, identity) or self._fresh(directory, identity)
        place = self._absolute(record.kept), record.key
        earlier = self.base, spelled
        return Kept(*place, None if place == earlier else earlier)

    def state(self, directories: Mapping[str, str], earlier: str) -> str:
        """The one state of directories that are served together, by the names of their roots. It is
        the one that they had ``earlier``, by how they were named then, unless that is another's by
        now; else that of the first which has one. Those without one have it from then on, and are
        called so from then on."""
        with self._locked():
            records: dict[str, PlaceRecord] = {}
            for name, directory in directories.items():
                identity = identity_of(directory)
                if identity is not None:
                    records[name] = self._noted(directory, identity)
            if not records:
                return earlier
            states = [each.state for each in records.values() if each.state]
            chosen = states[0] if states else next(iter(records.values())).kept
            before, ours = _quoted(self._relative(earlier)), {each.id for each in records.values()}
            if os.path.isdir(earlier) and all(
                each.state != before or each.id in ours for each in self._all()
            ):
                chosen = before
            for name, record in records.items():
                state = record.state or chosen
                self._write(record, msgspec.structs.replace(record, name=name, state=state))
        return self._absolute(chosen)

    def name_of(self, directory: str) -> str | None:
        """What the root of a directory was called when it was served last."""
        identity = identity_of(directory)
        record = None if identity is None else self._find(directory, identity)
        return None if record is None else record.name or None

    def take_over(self, directory: str, path: str) -> None:
        """Have a directory go on with the past of the one that stood at ``path`` and does not any
        more: whoever moved it to another disk knows that it is the same. Raises `PathNotFound`, and
        `FileAlreadyExists` where it has a past of its own."""
        identity, stood = identity_of(directory), os.path.realpath(path)
        if identity is None:
            raise RootNotFound("there is no such directory", hint="check how it is written")
        with self._locked():
            gone = [each for each in self._all() if each.host_path == stood and self._is_gone(each)]
            if not gone:
                raise PathNotFound(
                    "no past is kept of a directory that stood there and does not any more",
                    hint="name where it stood when Bailiwick last worked in it",
                )
            own = self._find(directory, identity)
            if own is not None and self._has_past(own):
                raise FileAlreadyExists(
                    "this directory has a past of its own", hint="`bailiwick history .` shows it"
                )
            place = own or self._fresh(directory, identity)
            earlier = max(gone, key=lambda each: os.stat(self._path(each.id)).st_mtime_ns)
            taken = msgspec.structs.replace(
                place, key=earlier.key, kept=earlier.kept, state=earlier.state, name=earlier.name
            )
            self._write(None, taken)
            if taken.id != earlier.id:
                os.unlink(self._path(earlier.id))

    def _is_gone(self, record: PlaceRecord) -> bool:
        """Whether the directory of a record does not stand where it was seen last."""
        now = identity_of(record.host_path)
        return now is None or (now.inode, now.born_ns) != (record.inode, record.born_ns)

    def _has_past(self, record: PlaceRecord) -> bool:
        """Whether anything was changed in a directory while its history was kept."""
        from bailiwick.stores.history.ledger import has_entries

        return has_entries(os.path.join(self._absolute(record.kept), "history", record.key))

    # --- records -----------------------------------------------------------------------------

    def _noted(self, directory: str, identity: DirectoryIdentity) -> PlaceRecord:
        """The record of a directory, made if there is none, which says where it is now. With the
        lock held."""
        found = self._find(directory, identity)
        if found is None:
            found = self._fresh(directory, identity)
            self._write(None, found)
            return found
        record = found
        if identity_of(record.host_path) != identity:
            record = msgspec.structs.replace(record, path=_quoted(os.path.realpath(directory)))
        record = msgspec.structs.replace(record, device=identity.device)
        self._write(found, record)
        return record

    def _find(self, directory: str, identity: DirectoryIdentity) -> PlaceRecord | None:
        path = os.path.realpath(directory)
        for name in _names(identity, path):
            record = self._read(name)
            # The number of a device may be another one after a restart, and a copy of a whole
            # filesystem has the same numbers for its files: where device and path are both others
            # it is not known to be the same directory, and has a past of its own.
            if record is None or identity.device == record.device or record.host_path == path:
                return record
        return None

    def _fresh(self, directory: str, identity: DirectoryIdentity) -> PlaceRecord:
        """A record for a directory that has none: of what was kept of it by its path, if no other
        directory has taken that over."""
        path, spelled = os.path.realpath(directory), spelled_key(directory)
        name = next(each for each in _names(identity, path) if self._read(each) is None)
        record = PlaceRecord(
            id=name, path=_quoted(path), **identity._asdict(), key=name,
            kept=f"{_PLACES}/{name}" if self._is_own else ".",
        )  # fmt: skip
        if any(each.key == spelled for each in self._all()):
            return record
        served = f"serve/{readable_key(path + '/.')}"
        if self._is_own and os.path.isdir(os.path.join(self.base, served)):
            return msgspec.structs.replace(record, key=spelled, kept=served, state=served)
        if any(os.path.isdir(os.path.join(self.base, each, spelled)) for each in _LASTING):
            return msgspec.structs.replace(record, key=spelled, kept=".")
        return record

    def _relative(self, state: str) -> str:
        state = os.path.realpath(state)
        return os.path.relpath(state, self.base) if is_within(state, self.base) else state

    def _absolute(self, place: str) -> str:
        return os.path.normpath(os.path.join(self.base, _unquoted(place)))

    # --- files -------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return os.path.join(self.base, _PLACES, name + _SUFFIX)

    def _read(self, name: str) -> PlaceRecord | None:
        try:
            with open(self._path(name), "rb") as file:
                return msgspec.json.decode(file.read(), type=PlaceRecord)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            raise IoError(
                "the record of a directory cannot be read", details={"record": self._path(name)}
            ) from None
        except OSError as error:
            raise from_os_error(error) from None

    def _all(self) -> Iterator[PlaceRecord]:
        with suppress(FileNotFoundError):
            for name in os.listdir(os.path.join(self.base, _PLACES)):
                if name.endswith(_SUFFIX):
                    record = self._read(name.removesuffix(_SUFFIX))
                    if record is not None:
                        yield record

    def _write(self, before: PlaceRecord | None, record: PlaceRecord) -> None:
        """Put a record in place of another: all of it, or nothing, also in a power cut. With the
        lock held."""
        if record == before:
            return
        path = self._path(record.id)
        descriptor = os.open(f"{path}.new", _MAKE, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(descriptor)
        os.rename(f"{path}.new", path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Have the records for oneself. They say whose past is whose: who may not be trusted with
        that must not be able to write them."""
        places = os.path.join(self.base, _PLACES)
        try:
            os.makedirs(self.base, mode=0o700, exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(places, 0o700)
            status = os.lstat(places)
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                raise PermissionDenied("others may change the records of what is kept")
            lock = os.open(os.path.join(places, _LOCK), _LOCKING, 0o600)
        except OSError as error:
            failed = from_os_error(error)
            failed.hint = "set $XDG_STATE_HOME, or pass state_dir: one that can be written"
            raise failed from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _names(identity: DirectoryIdentity, path: str) -> Iterator[str]:
    """What a record may be called. Where nobody knows when a directory was made, its number may be
    that of one which is gone: there the path counts, too."""
    device, inode, born_ns = identity
    known = f"{inode} {born_ns}" if born_ns else f"{device} {inode} {_quoted(path)}"
    name = hashlib.sha256(known.encode()).hexdigest()[:_KEY_DIGITS]
    return (name if number == 1 else f"{name}-{number}" for number in count(1))


def _standard_state_dir(state: str) -> str | None:
    """The one of the state directories that are made unasked in which ``state`` lies."""
    return next((each for each in _state_dirs() if is_within(state, each)), None)


def _quoted(path: str) -> str:
    from urllib.parse import quote_from_bytes

    return quote_from_bytes(os.fsencode(path), safe="/ ")


def _unquoted(text: str) -> str:
    from urllib.parse import unquote_to_bytes

    return os.fsdecode(unquote_to_bytes(text))
