"""A filter of system calls, as the bytes that `bwrap --seccomp` takes.

It refuses what a command has no use for and an attacker has: mounts, namespaces, other processes'
memory, keys, and young interfaces into the kernel through which confinement was broken before.
What it does not name it lets pass: what a program may see and use is settled by namespaces and
limits, and this makes the kernel behind them smaller.

Classic BPF, put together by hand, so that no library is needed. Pure: nothing is called here.
"""

from __future__ import annotations

import errno
import struct
from functools import cache

from bailiwick.sandbox import Network

# linux/bpf_common.h, linux/seccomp.h, linux/audit.h
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEW… of mounts, cgroups, host names, IPC, users, processes and networks."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Typing into a terminal, and what the console of the machine can do besides."""
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0

# One number on every architecture.
_REFUSED_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
    "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442, "quotactl_fd": 443,
    "open_tree_attr": 467,
}  # fmt: skip

_REFUSED = {
    "x86_64": {
        "ptrace": 101, "syslog": 103, "uselib": 134, "modify_ldt": 154, "pivot_root": 155,
        "_sysctl": 156, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165,
        "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
        "setdomainname": 171, "iopl": 172, "ioperm": 173, "create_module": 174,
        "init_module": 175, "delete_module": 176, "get_kernel_syms": 177, "query_module": 178,
        "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212, "clock_settime": 227,
        "vserver": 236, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
        "unshare": 272, "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303,
        "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
        "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320,
        "bpf": 321, "userfaultfd": 323,
    },
    "aarch64": {
        "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42,
        "chroot": 51, "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104,
        "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116,
        "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162,
        "settimeofday": 170, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
        "swapoff": 225, "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264,
        "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270,
        "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280,
        "userfaultfd": 282, "kexec_file_load": 294,
    },
}  # fmt: skip

_CLONE3 = 435
_BY_ARGUMENT = {
    "x86_64": {"ioctl": 16, "socket": 41, "socketpair": 53, "clone": 56},
    "aarch64": {"ioctl": 29, "socket": 198, "socketpair": 199, "clone": 220},
}

ARCHITECTURES = frozenset(_ARCHITECTURES)
"""Those that the numbers here are known for."""

_Instruction = tuple[int, int, int, int]


def _give(answer: int) -> _Instruction:
    return (_RETURN, 0, 0, answer)


def _refuse(code: int) -> _Instruction:
    return _give(_REFUSE | code)


def _load_argument(index: int) -> _Instruction:
    """Its lower half, which is all that the kernel looks at of those that are compared here."""
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index)


def _on_number(number: int, then: list[_Instruction]) -> list[_Instruction]:
    return [(_EQUAL, 0, len(then), number), *then]


def _sockets(network: Network, unix: bool) -> list[_Instruction]:
    families = [_AF_UNIX] if unix else []
    rest: list[_Instruction] = []
    if network != "none":
        families += [_AF_INET, _AF_INET6]
        # What programs ask for the addresses of the machine; of the others none is needed.
        netlink = [
            _load_argument(2),
            (_EQUAL, 0, 1, _NETLINK_ROUTE),
            _give(_ALLOW),
        ]
        rest = _on_number(_AF_NETLINK, netlink)
    allowed = [each for family in families for each in _on_number(family, [_give(_ALLOW)])]
    return [_load_argument(0), *allowed, *rest, _refuse(errno.EAFNOSUPPORT)]


@cache
def program(machine: str, network: Network, *, unix: bool = True) -> bytes:
    """The filter for that architecture. ``unix``: sockets between processes can be made; without it
    only pairs of them, which cannot be connected to anything.

    Raises KeyError for an architecture that is not in `ARCHITECTURES`.
    """
    by_argument = _BY_ARGUMENT[machine]
    instructions: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        # The same number means another call elsewhere: a program of another kind is ended.
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _give(_KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":
        instructions += [(_AT_LEAST, 0, 1, _X32_BIT), _give(_KILL_PROCESS)]
    for number in sorted({**_REFUSED[machine], **_REFUSED_EVERYWHERE}.values()):
        instructions += _on_number(number, [_refuse(errno.EPERM)])
    # Its flags lie in memory, where a filter cannot look. Every library then takes `clone`.
    instructions += _on_number(_CLONE3, [_refuse(errno.ENOSYS)])
    instructions += _on_number(
        by_argument["clone"],
        [
            _load_argument(0),
            (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
            _refuse(errno.EPERM),
            _give(_ALLOW),
        ],
    )
    instructions += _on_number(
        by_argument["ioctl"],
        [
            _load_argument(1),
            (_EQUAL, 1, 0, _TIOCSTI),
            (_EQUAL, 0, 1, _TIOCLINUX),
            _refuse(errno.EPERM),
            _give(_ALLOW),
        ],
    )
    instructions += _on_number(by_argument["socket"], _sockets(network, unix))
    instructions += _on_number(by_argument["socketpair"], _sockets("none", unix=True))
    instructions.append(_give(_ALLOW))
    return b"".join(struct.pack("=HBBI", *each) for each in instructions)
