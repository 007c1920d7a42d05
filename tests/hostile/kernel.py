"""System calls that the wall and the attackers need and the standard library lacks.

Thin: each function is one call and raises `OSError`. Linux only.
"""

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_NOSYMFOLLOW = 256
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_STRICTATIME = 1 << 24

# The numbers above 423 are the same on every architecture.
SYS_OPENAT2 = 437
SYS_MOUNT_SETATTR = 442
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ERRNO = 0x00050000
SECCOMP_RET_ALLOW = 0x7FFF0000

CAPABILITY_LAST = 63
"""The most a capability set can hold; the kernel answers EINVAL for those it does not have."""

CAPABILITIES_KEPT = {
    "chown": 0,
    "dac_override": 1,
    "dac_read_search": 2,
    "fowner": 3,
    "fsetid": 4,
    "kill": 5,
    "setgid": 6,
    "setuid": 7,
    "mknod": 27,
}
"""What the rows need as root: owners, modes and device nodes. Not mounting, rebooting, raw I/O."""

CAPABILITIES_OF_OPERATOR = {"setpcap": 8, "net_admin": 12, "sys_chroot": 18, "sys_admin": 21}
"""What starting a sandbox as root takes besides."""

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _text(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags))


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    _checked(
        _libc.mount(
            _text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(data or None)
        )
    )


def unmount(target: str) -> None:
    _checked(_libc.umount2(_text(target), 0))


def mount_read_only(path: str) -> None:
    """Make ``path`` and every mount beneath it read-only."""
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    _checked(
        _libc.syscall(
            ctypes.c_long(SYS_MOUNT_SETATTR),
            ctypes.c_int(AT_FDCWD),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.c_uint(AT_RECURSIVE),
            ctypes.c_char_p(attributes),
            ctypes.c_size_t(len(attributes)),
        )
    )


def renameat2(source: str, destination: str, flags: int) -> None:
    _checked(
        _libc.renameat2(
            AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(destination), ctypes.c_uint(flags)
        )
    )


def die_with_parent(signal_number: int) -> None:
    _checked(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0))


def own_proc_entry() -> None:
    """Let a process that changed its user read its own files in /proc again."""
    _checked(_libc.prctl(PR_SET_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0))


def gain_no_privileges() -> None:
    _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0))


def keep_capabilities(kept: set[int]) -> None:
    """Give up every capability but ``kept``, for good: the bounding set is cut too."""
    for number in set(range(CAPABILITY_LAST + 1)) - kept:
        _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)
    bits = sum(1 << number for number in kept)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    version_3 = struct.pack("=Ii", 0x20080522, 0)
    sets = struct.pack("=IIIIII", low, low, 0, high, high, 0)
    _checked(_libc.capset(ctypes.c_char_p(version_3), ctypes.c_char_p(sets)))


def deny_system_call(number: int, errno: int) -> None:
    """From now on ``number`` fails with ``errno`` in this process and its children."""
    load_number, jump_if_equal, give = 0x20, 0x15, 0x06
    program = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in [
            (load_number, 0, 0, 0),
            (jump_if_equal, 0, 1, number),
            (give, 0, 0, SECCOMP_RET_ERRNO | errno),
            (give, 0, 0, SECCOMP_RET_ALLOW),
        ]
    )
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    gain_no_privileges()
    _checked(
        _libc.prctl(
            PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.c_char_p(header), 0, 0
        )
    )
