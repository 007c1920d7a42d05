"""Take a system call away from this process, as a container or an old kernel would.

Plain BPF by ctypes: the test suite needs no library that a fresh machine does not have.
"""

import ctypes
import errno
import os
import platform
import struct

OPENAT2 = 437  # one number on every architecture of the common table
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h

_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
_NUMBER_OFFSET, _ARCH_OFFSET = 0, 4  # struct seccomp_data
_RETURN_ERRNO, _RETURN_ALLOW = 0x00050000, 0x7FFF0000  # linux/seccomp.h
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2  # linux/prctl.h


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def deny(syscall_number, errno_code):
    """From now on, in this process and its children, the call fails with the errno given.

    There is no way back: use it in a process of its own.
    """
    instructions = [
        (_LOAD_WORD, 0, 0, _ARCH_OFFSET),
        (_JUMP_IF_EQUAL, 0, 3, AUDIT_ARCH[platform.machine()]),
        (_LOAD_WORD, 0, 0, _NUMBER_OFFSET),
        (_JUMP_IF_EQUAL, 0, 1, syscall_number),
        (_RETURN, 0, 0, _RETURN_ERRNO | errno_code),
        (_RETURN, 0, 0, _RETURN_ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp is not available")


def openat2_of_here():
    """Try `openat2(".")` and name the errno, or "ok"."""
    libc = ctypes.CDLL(None, use_errno=True)
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, 0)
    at_current_directory = -100
    descriptor = libc.syscall(OPENAT2, at_current_directory, b".", how, len(how))
    if descriptor < 0:
        return errno.errorcode[ctypes.get_errno()]
    os.close(descriptor)
    return "ok"
