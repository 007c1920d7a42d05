"""The filter, run by a machine of our own: also for the processor that this is not."""

import errno
import struct

import pytest

from bailiwick.sandboxes import seccomp

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
FOREIGN = 0x40000003  # i386
ALLOW, KILL = 0x7FFF0000, 0x80000000
CALLS = {
    "x86_64": {"read": 0, "clone": 56, "ioctl": 16, "socket": 41, "socketpair": 53, "mount": 165,
               "unshare": 272, "ptrace": 101, "setns": 308, "keyctl": 250, "execve": 59},
    "aarch64": {"read": 63, "clone": 220, "ioctl": 29, "socket": 198, "socketpair": 199,
                "mount": 40, "unshare": 97, "ptrace": 117, "setns": 268, "keyctl": 219,
                "execve": 221},
}  # fmt: skip
"""By hand from the tables of the kernel, a second time."""


def refused(code):
    return 0x00050000 | code


def verdict(program, architecture, number, *arguments):
    """What the kernel would do: interpret the instructions that are used."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    instructions = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        code, then, otherwise, operand = instructions[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: value & operand}[code]
            at += then if holds else otherwise


@pytest.fixture(params=sorted(ARCHITECTURES))
def machine(request):
    return request.param


@pytest.fixture
def judge(machine):
    def ask(call, *arguments, network="none", unix=True):
        program = seccomp.program(machine, network, unix=unix)
        number = CALLS[machine].get(call, call)
        return verdict(program, ARCHITECTURES[machine], number, *arguments)

    return ask


@pytest.mark.spec("EXEC-5")
def test_what_is_named_is_refused_and_the_rest_is_not(judge):
    for call in ("mount", "unshare", "ptrace", "setns", "keyctl", 425, 428, 438, 442):
        assert judge(call) == refused(errno.EPERM), call
    for call in ("read", "execve", "clone", "ioctl", 437, 439):
        assert judge(call) == ALLOW, call
    assert judge(435) == refused(errno.ENOSYS)


@pytest.mark.spec("EXEC-5")
def test_namespaces_cannot_be_had_by_clone(judge):
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert judge("clone", bit | 17) == refused(errno.EPERM)
    assert judge("clone", 0x003D0F00) == ALLOW  # a thread


@pytest.mark.spec("EXEC-5")
def test_nothing_is_typed_into_a_terminal(judge):
    assert judge("ioctl", 0, 0x5412) == refused(errno.EPERM)
    assert judge("ioctl", 0, 0x541C) == refused(errno.EPERM)
    assert judge("ioctl", 0, 0x5413) == ALLOW
    # The kernel looks at the lower half only, so that is what counts.
    assert judge("ioctl", 0, 0xFFFFFFFF_00005412) == refused(errno.EPERM)


@pytest.mark.spec("EXEC-4", "EXEC-5")
def test_sockets_are_those_of_the_network_that_was_given(judge):
    unix, inet, inet6, netlink, packet = 1, 2, 10, 16, 17
    none = refused(errno.EAFNOSUPPORT)
    assert judge("socket", unix) == ALLOW
    assert {judge("socket", family) for family in (inet, inet6, netlink, packet, 40)} == {none}
    for network in ("loopback", "host"):
        assert judge("socket", inet, network=network) == ALLOW
        assert judge("socket", inet6, network=network) == ALLOW
        assert judge("socket", netlink, 3, 0, network=network) == ALLOW
        assert judge("socket", netlink, 3, 9, network=network) == none
        assert judge("socket", packet, network=network) == none
    assert judge("socket", unix, network="host", unix=False) == none
    assert judge("socketpair", unix, network="host", unix=False) == ALLOW
    assert judge("socketpair", inet, network="host") == none


@pytest.mark.spec("EXEC-5")
def test_programs_of_another_architecture_are_ended(machine):
    program = seccomp.program(machine, "none")
    assert verdict(program, FOREIGN, 0) == KILL
    if machine == "x86_64":
        assert verdict(program, ARCHITECTURES[machine], 0x40000000) == KILL
        assert verdict(program, ARCHITECTURES[machine], 0x40000000 | 165) == KILL


def test_the_filter_is_no_larger_than_the_kernel_takes(machine):
    assert len(seccomp.program(machine, "host")) // 8 <= 4096
