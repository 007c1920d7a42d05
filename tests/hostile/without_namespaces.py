"""Attacks on the machine by a program that Landlock alone keeps from it, and the same by one that
nothing does. Every function here runs behind the wall."""

import os

from tests.hostile import inside
from tests.hostile.sandboxed import place, victim

SIGNALS = """
for pid in ({victim}, {monitor}, -1):
    print(attempt(lambda: os.kill(pid, {number})))
print(attempt(lambda: os.pidfd_open({victim})))
"""


def signals() -> None:
    """Neither a process beside it, nor the one that is to end it, can be reached by a signal."""
    with place("landlock") as where, victim(where) as planted:
        pid = planted["victim"]
        program = "import signal; signal.signal(15, signal.SIG_IGN)\n" + SIGNALS
        where.sandboxed(program.format(victim=pid, monitor="os.getppid()", number=15))
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "it was ended"
        where.plain(f"os.kill({pid}, 9)")
        assert os.waitpid(pid, 0)[1] == 9, "the control ends nobody"


NETWORKS = """
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, 17, 40):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        made = attempt(lambda: socket.socket(family, kind))
        if not isinstance(made, str): print("made", family, kind)
"""


def networks() -> None:
    with place("landlock") as where:
        assert where.sandboxed(NETWORKS).strip() == ""
        assert "made" in where.plain(NETWORKS)


POWERS = """
import struct, subprocess
ASK = "import ctypes, struct; d = ctypes.create_string_buffer(24);" \\
      " ctypes.CDLL(None).capget(struct.pack('=II', 0x20080522, 0), d); print(sum(d.raw))"
exec(ASK.replace("print(", "print('powers', "))
print("program", subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True).stdout)
print("bounding", sum(libc.prctl(23, n, 0, 0, 0) == 1 for n in range(41)))
print("privileges", libc.prctl(39, 0, 0, 0, 0))
"""


def powers() -> None:
    """It has none, and neither has a program that it starts, whoever that belongs to."""
    with place("landlock") as where:
        said = dict(line.split() for line in where.sandboxed(POWERS).splitlines() if line)
        assert said["powers"] == said["program"] == "0", said
        assert said["privileges"] == "1"
        if inside.identity() == "operator":
            assert said["bounding"] == "0"
            assert "powers 0" not in where.plain(POWERS)


PEEKING = """
open("own", "w").write("x"); os.mkdir("d")
for path in ({work!r}, {work!r} + "/stamps", {upper!r}, {upper!r} + "/new", "../stamps", "/tmp/x",
             "/dev/shm/x", "/etc/hostname", "/proc/1/cmdline", "/root", "/home"):
    for call in (read, os.listdir, lambda p: open(p, "a").close(), os.unlink, os.mkdir,
                 lambda p: os.rename("own", p), lambda p: os.link(p, "linked"),
                 lambda p: os.truncate(p, 0)):
        got = attempt(lambda: call(path))
        if not isinstance(got, str): print("did", path, got)
"""


def peeking() -> None:
    """Of its own working copy it reaches the tree, and of the machine what everybody reads."""
    with place("landlock") as where:
        workshop = where.workshop
        program = PEEKING.format(work=str(workshop.work), upper=str(workshop.upper))
        assert where.sandboxed(program).strip() == ""
        assert os.listdir(workshop.work) == []
        assert sorted(os.listdir(workshop.upper)) == ["d", "own"]
