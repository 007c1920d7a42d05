"""Landlock: a wall that a thread draws around itself and everything it starts, in the kernel.

It needs no privilege and cannot be taken down again. A ruleset names directories and files by
descriptor and what may be done beneath them; all else of what it handles is refused. Looking at
metadata (`stat`) and changing directory are not handled by Landlock and stay possible.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

EXECUTE = 1 << 0
READ_FILE = 1 << 2
READ_DIR = 1 << 3

# From linux/landlock.h: how many rights on files each version of the interface knows.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_FILE_RIGHTS_NEWEST = 16
_NET_SINCE, _NET_RIGHTS = 4, 0b11
_SCOPE_SINCE, _SCOPES = 6, 0b11

# The same numbers on every architecture that took them from the common table.
_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_COMMON_TABLE = frozenset(("x86_64", "aarch64", "riscv64", "armv7l", "i686", "ppc64le", "s390x"))

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38


class LandlockRule(NamedTuple):
    """What may be done with the object of a descriptor, and with all beneath a directory."""

    fd: int
    rights: int


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc().syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


@cache
def version() -> int:
    """The version of Landlock's interface that this kernel offers; 0 where it has none."""
    if os.uname().sysname != "Linux" or os.uname().machine not in _COMMON_TABLE:
        return 0
    try:
        return _call(
            _SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION)
        )
    except OSError:
        return 0


def create_ruleset(rules: Sequence[LandlockRule]) -> int:
    """Make a ruleset that refuses everything this kernel can refuse, except ``rules``.

    Returns a descriptor, closed on exec. Raises OSError where Landlock is not to be had.
    """
    offered = version()
    if offered < 1:
        raise OSError(errno.EOPNOTSUPP, "Landlock is not available")
    attributes = _RulesetAttributes(
        handled_access_fs=(1 << _FILE_RIGHTS.get(offered, _FILE_RIGHTS_NEWEST)) - 1,
        handled_access_net=_NET_RIGHTS if offered >= _NET_SINCE else 0,
        scoped=_SCOPES if offered >= _SCOPE_SINCE else 0,
    )
    # A kernel takes a longer structure than it knows as long as the rest is zero.
    ruleset_fd = _call(
        _SYS_CREATE_RULESET,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
        ctypes.c_uint32(0),
    )
    try:
        for rule in rules:
            beneath = _PathBeneath(allowed_access=rule.rights, parent_fd=rule.fd)
            _call(
                _SYS_ADD_RULE,
                ctypes.c_int(ruleset_fd),
                ctypes.c_int(_RULE_PATH_BENEATH),
                ctypes.byref(beneath),
                ctypes.c_uint32(0),
            )
    except BaseException:
        os.close(ruleset_fd)
        raise
    return ruleset_fd


def restrict_calling_thread(ruleset_fd: int) -> None:
    """Draw the wall around the calling thread, for as long as it lives. Raises OSError.

    Other threads of the process are not affected; what this thread starts from now on is.
    """
    if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    _call(_SYS_RESTRICT_SELF, ctypes.c_int(ruleset_fd), ctypes.c_uint32(0))
