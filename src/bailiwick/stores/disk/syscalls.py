"""The system calls the disk store makes that Python has no word for. All ctypes is here.

Each function does one call and nothing else: it decides no policy, makes no path and follows no
rule. The plain names at the end are Python's own functions; rooms that write call them through
this module, so that a test can make exactly one call fail; the watcher lists through it, so that
a test can have something happen between two names.

Linux was run and measured. The macOS parts (``renameatx_np``, ``F_FULLFSYNC``, ``F_GETPATH``) are
written from its headers and were not run.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
import sys
from contextlib import suppress
from typing import Any, Final

if sys.platform != "win32":
    import fcntl

LINUX: Final = sys.platform == "linux"
MACOS: Final = sys.platform == "darwin"
WINDOWS: Final = sys.platform == "win32"

O_PATH: Final[int | None] = getattr(os, "O_PATH", None)
O_CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0)
O_DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
O_NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)

# O_NONBLOCK: a FIFO swapped in must not hang the open. O_NOCTTY: nor a terminal become ours.
READ_FLAGS: Final[int] = (
    os.O_RDONLY | O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
)
LIST_FLAGS: Final[int] = os.O_RDONLY | O_CLOEXEC | O_DIRECTORY
# What holds an object without opening it, a link included; a directory so that it can be searched.
HOLD_FLAGS: Final[int] = (O_PATH or 0) | O_NOFOLLOW | O_CLOEXEC
HOLD_DIRECTORY_FLAGS: Final[int] = HOLD_FLAGS | O_DIRECTORY
STAGE_FLAGS: Final[int] = os.O_RDWR | os.O_CREAT | os.O_EXCL | O_NOFOLLOW | O_CLOEXEC

# linux/openat2.h
RESOLVE_NO_XDEV: Final = 0x01
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08

# Filesystems whose files are conversations with the kernel (linux/magic.h): reading one may block,
# act, or tell of other processes.
KERNEL_FILESYSTEMS: Final[dict[int, str]] = {
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup2",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x73636673: "securityfs",
    0xCAFE4A11: "bpf",
    0xDE5E81E4: "efivarfs",
    0x6165676C: "pstore",
    0xF97CFF8C: "selinuxfs",
    0x43415D53: "smackfs",
    0x62656570: "configfs",
    0x1CD1: "devpts",
    0x42494E4D: "binfmt_misc",
    0x19800202: "mqueue",
    0x6E736673: "nsfs",
    0x5A3C69F0: "apparmorfs",
    0x65735543: "fusectl",
    0x67596969: "rpc_pipefs",
    0x6E667364: "nfsd",
}

# Filesystems that never take two spellings for one name.
_NEVER_FOLDS: Final = {0x9123683E, 0x58465342}  # btrfs, xfs
# These fold only where the kernel was built for it, which it tells in /sys.
_MAY_FOLD: Final = {0xEF53: "ext4", 0xF2F52010: "f2fs", 0x01021994: "tmpfs"}

_ST_NOSYMFOLLOW: Final = 0x2000  # linux/statfs.h, since 5.10

_libc: Any = None if WINDOWS else ctypes.CDLL(None, use_errno=True)


# --- opening beneath --------------------------------------------------------------------------


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


How = Any
"""A prepared argument of `openat2`: one for each combination of flags, never changed."""


def how(flags: int, resolve: int) -> How:
    return ctypes.byref(_OpenHow(flags, 0, resolve))


# 437 on every architecture (the numbers are common to all since 5.0). Plain integers, without
# declared argument types, save 0.5 µs a call; libffi widens them to the words the kernel reads.
_SYS_OPENAT2: Final = 437
_HOW_SIZE: Final = ctypes.sizeof(_OpenHow)
_syscall: Any = _libc.syscall if LINUX else None


def openat2(directory: int, path: bytes, prepared: How) -> int:
    """Open ``path`` as ``prepared`` says; a descriptor, or minus the errno.

    ``path`` must hold no NUL: C would end it there. A negative answer is cheaper than an
    exception, and a lookup that finds nothing is no rarity.
    """
    while True:
        fd: int = _syscall(_SYS_OPENAT2, directory, path, prepared, _HOW_SIZE)
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number != errno.EINTR:
            return -number


_AT_FDCWD: Final = -100


@functools.cache
def has_openat2() -> bool:
    """Whether the kernel confines lookups for this process; asked once, of a harmless name.

    Old kernels and gVisor say ENOSYS; a seccomp filter may say EPERM. Only here does either choose
    the walk: on a real path they are errors like any other.
    """
    if not LINUX or O_PATH is None:
        return False
    fd = openat2(_AT_FDCWD, b".", how(O_PATH | O_CLOEXEC, RESOLVE_BENEATH))
    if fd >= 0:
        os.close(fd)
        return True
    if -fd in (errno.ENOSYS, errno.EPERM):
        return False
    raise OSError(-fd, os.strerror(-fd))


# --- names of what is open --------------------------------------------------------------------

_F_GETPATH: Final = 50  # macOS sys/fcntl.h
_MACOS_PATH_MAX: Final = 1024


def kernel_name(fd: int) -> str:
    """The path the kernel knows an open object by, at this moment. A host path: never shown."""
    if MACOS:
        found: bytes = fcntl.fcntl(fd, _F_GETPATH, bytes(_MACOS_PATH_MAX))
        return os.fsdecode(found.rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{fd}")


def can_reopen() -> bool:
    """Whether an O_PATH descriptor can be opened again for reading, which takes /proc."""
    if O_PATH is None:
        return False
    fd = os.open("/", O_PATH | O_CLOEXEC)
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == "/"
    except OSError:
        return False
    finally:
        os.close(fd)


# --- filesystems ------------------------------------------------------------------------------


def filesystem_type(fd: int) -> int:
    """The magic number of the filesystem an object is on; 0 where that is not known."""
    if not LINUX:
        return 0
    # struct statfs begins with f_type, a word; the whole is 120 bytes on 64-bit machines.
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    kind: int = ctypes.c_ulong.from_buffer(buffer).value & 0xFFFFFFFF
    return kind


TMPFS: Final = 0x01021994

_OF_THIS_MACHINE: Final = {
    0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, TMPFS, 0x858458F6, 0x794C7630, 0x2FC12FC1,
    0xCA451A4E,
}  # fmt: skip
"""ext4, xfs, btrfs, f2fs, tmpfs, ramfs, overlayfs, zfs, bcachefs."""


def tells_times(fd: int) -> bool:
    """Whether what is changed on the filesystem of an object gets the time of this machine's clock,
    to less than a second: others have a clock of their own, or whole seconds."""
    is_fine = os.fstat(fd).st_ctime_ns % 1_000_000_000 != 0
    return is_fine and filesystem_type(fd) in _OF_THIS_MACHINE


_CAP_DAC_OVERRIDE: Final = 1 << 1


def heeds_modes() -> bool:
    """Whether the mode of a directory keeps this process out of it: also root, in a container
    without the capability."""
    try:
        with open("/proc/thread-self/status", "rb") as file:
            _, _, told = file.read().partition(b"\nCapEff:")
        return not int(told.split(maxsplit=1)[0], 16) & _CAP_DAC_OVERRIDE
    except (OSError, LookupError, ValueError):
        return os.geteuid() != 0


def read_at_hand(fd: int, buffer: bytearray | memoryview, offset: int) -> int | None:
    """Read what the kernel has in memory; None where a disk would have to be waited for. Raises
    where it cannot be asked so, or the filesystem cannot tell (EOPNOTSUPP)."""
    if not LINUX:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    try:
        return os.preadv(fd, [buffer], offset, os.RWF_NOWAIT)
    except BlockingIOError:
        return None


def may_fold_names(fd: int) -> bool:
    """Whether the filesystem may take two spellings for one name (case, or Unicode forms)."""
    if not LINUX:
        return True
    kind = filesystem_type(fd)
    if kind in _NEVER_FOLDS:
        return False
    name = _MAY_FOLD.get(kind)
    return name is None or os.path.exists(f"/sys/fs/{name}/features/casefold")


def refuses_links(fd: int) -> bool:
    """Whether the filesystem is mounted with ``nosymfollow``."""
    return LINUX and bool(os.fstatvfs(fd).f_flag & _ST_NOSYMFOLLOW)


def protects_links() -> bool:
    """Whether the kernel keeps from following a stranger's link in a directory like /tmp."""
    try:
        with open("/proc/sys/fs/protected_symlinks") as setting:
            return setting.read().strip() != "0"
    except OSError:
        return False


_AT_SYMLINK_NOFOLLOW: Final = 0x100
_AT_NO_AUTOMOUNT: Final = 0x800
_AT_EMPTY_PATH: Final = 0x1000
_STATX_MNT_ID: Final = 0x1000  # linux/stat.h, since 5.8: stx_mask stands at 0, stx_mnt_id at 144


def mount_of(directory: int, name: str = "") -> int | None:
    """Which mount an object is on, a held one or one name in it; None where that is not told.

    A directory mounted a second time has the same device number, so that alone does not tell.
    """
    if not LINUX:
        status = os.lstat(name, dir_fd=directory) if name else os.fstat(directory)
        return status.st_dev
    if not hasattr(_libc, "statx"):
        return None
    buffer = ctypes.create_string_buffer(256)
    flags = _AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT if name else _AT_EMPTY_PATH
    if _libc.statx(directory, os.fsencode(name), flags, _STATX_MNT_ID, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    mask: int = ctypes.c_uint32.from_buffer(buffer).value
    mount: int = ctypes.c_uint64.from_buffer(buffer, 144).value
    return mount if mask & _STATX_MNT_ID else None


# --- renaming ---------------------------------------------------------------------------------

_LINUX_NOREPLACE: Final = 1
_LINUX_EXCHANGE: Final = 2
_MACOS_SWAP: Final = 2
_MACOS_EXCL: Final = 4

# Where libc has no wrapper (musl before 1.2.6): asm/unistd_64.h, and the table arm64 and riscv use.
_SYS_RENAMEAT2: Final = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "loongarch64": 276}


def _find_rename() -> Any:
    if WINDOWS:
        return None
    wrapper = getattr(_libc, "renameatx_np" if MACOS else "renameat2", None)
    if wrapper is not None or not LINUX:
        return wrapper
    number = _SYS_RENAMEAT2.get(os.uname().machine)
    return None if number is None else functools.partial(_libc.syscall, ctypes.c_long(number))


_rename_with_flags: Any = _find_rename()


def _rename(from_fd: int, source: str, to_fd: int, target: str, flags: int) -> None:
    if _rename_with_flags is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    old, new = os.fsencode(source), os.fsencode(target)
    # Plain integers as in `openat2`: a descriptor and these flags fit in a word either way.
    while _rename_with_flags(from_fd, old, to_fd, new, flags) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def rename_new(from_fd: int, source: str, to_fd: int, target: str) -> None:
    """Rename, unless ``target`` exists (EEXIST). EINVAL or ENOSYS: not possible here."""
    _rename(from_fd, source, to_fd, target, _MACOS_EXCL if MACOS else _LINUX_NOREPLACE)


def exchange(from_fd: int, source: str, to_fd: int, target: str) -> None:
    """Swap two names in one step; both must exist (ENOENT). EINVAL or ENOSYS: not possible here."""
    _rename(from_fd, source, to_fd, target, _MACOS_SWAP if MACOS else _LINUX_EXCHANGE)


NO_SUCH_RENAME: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""What a kernel or filesystem answers that cannot rename so."""


# --- durability and locks ---------------------------------------------------------------------

_F_FULLFSYNC: Final = 51  # macOS sys/fcntl.h: fsync there leaves data in the drive's cache


def flush(fd: int) -> None:
    """Put what was written to ``fd``, a file or a directory, on stable storage."""
    if MACOS:
        try:
            fcntl.fcntl(fd, _F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
        else:
            return
    os.fsync(fd)


CAN_FLUSH_ALL: Final = LINUX and hasattr(_libc, "syncfs")


def flush_all(fd: int) -> None:
    """Put everything that was written to the filesystem of ``fd`` on stable storage, in one go:
    for many files that is a thousand times quicker than each by itself."""
    if _libc.syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def try_lock(fd: int) -> bool:
    """Take the exclusive lock of an open file, if it is free. Raises where there are no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    """Give up the lock of an open file, if it has one."""
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    except OSError:
        return  # there are no locks here


CAN_LOCK_BYTES: Final = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8
_BYTE_LOCK: Final = struct.Struct("hhqqi4x")
"""struct flock: the kind, whence, the first byte, how many, and who has it."""


def share_byte(fd: int, place: int) -> None:
    """Hold one byte of an open file, as others may too, where there are locks. The lock is the
    descriptor's."""
    with suppress(OSError):
        _lock_bytes(fd, fcntl.F_RDLCK, place, 1)


def try_lock_byte(fd: int, place: int) -> bool:
    """Hold one byte alone, if it is free; True where there are no locks."""
    try:
        _lock_bytes(fd, fcntl.F_WRLCK, place, 1)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def unlock_bytes(fd: int, place: int, count: int) -> None:
    with suppress(OSError):
        _lock_bytes(fd, fcntl.F_UNLCK, place, count)


def _lock_bytes(fd: int, kind: int, place: int, count: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _BYTE_LOCK.pack(kind, os.SEEK_SET, place, count, 0))


def byte_locked_by_others(fd: int, place: int, count: int) -> int | None:
    """Some byte that another descriptor holds, of those from a place on; None where none is."""
    wanted = _BYTE_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, count, 0)
    try:
        kind, _, found, _, _ = _BYTE_LOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, wanted))
    except OSError:
        return None  # there are no locks here
    return None if kind == fcntl.F_UNLCK else found


NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)
"""What a filesystem answers that knows no locks."""


# What writes and what the watcher lists with, by the names a test replaces.
open_at = os.open
write = os.write
rename_over = os.rename
unlink = os.unlink
mkdir = os.mkdir
scandir = os.scandir
