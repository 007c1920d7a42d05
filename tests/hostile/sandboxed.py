"""Attacks by a program that runs in a sandbox, and the same by one that does not.

Each is a text of Python that prints what it got. In the sandbox it must get nothing of what is
planted outside its tree; as a plain subprocess it must get it, or the row proves nothing. Every
function here runs behind the wall.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from secrets import token_hex
from typing import Any, NamedTuple

from bailiwick.sandbox import CommandLimits
from bailiwick.sandboxes import plans
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from bailiwick.sandboxes.on_copies import Landlock
from bailiwick.sandboxes.uppers import open_left
from bailiwick.working_copies.removal import remove_tree
from tests.hostile import inside, messages
from tests.hostile.layouts import CANARY
from tests.sandboxes.workshop import Workshop, opened, remove
from tests.waiting import until_blocking

PYTHON = shutil.which("python3", path=plans.PATH)

PRELUDE = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call):
    try: return call()
    except Exception as error: return type(error).__name__
def read(path):
    with open(path, "rb") as file: return file.read(10_000_000)
"""


class Attack(NamedTuple):
    """What is planted, the program with `{…}` for what `plant` returned, and how it is run."""

    program: str
    plant: Callable[["Place"], contextlib.AbstractContextManager[dict[str, Any]]]
    network: str = "none"
    masked: tuple[str, ...] = ()


class Place:
    """A tree, and beside it a directory with a secret."""

    def __init__(self, kind: str = "bubblewrap") -> None:
        if PYTHON is None:
            raise messages.Skip("there is no python3 among the programs of the system: install it")
        self.directory = f"{inside.arena()}/case"
        shutil.rmtree(self.directory, ignore_errors=True)
        self.outside = f"{self.directory}/outside"
        os.makedirs(self.outside)
        self.secret = f"{self.outside}/secret"
        with open(self.secret, "w") as file:
            file.write(CANARY)
        self.workshop = Workshop(self.directory, sandbox(kind))

    def sandboxed(self, program: str, **options: Any) -> str:
        masked = options.pop("masked", ())
        view = self.workshop.view(masked=masked)
        said = asyncio.run(self.workshop.run(PYTHON, "-c", PRELUDE + program, view=view, **options))
        return said.out + said.err

    def plain(self, program: str) -> str:
        """The control: a subprocess as anybody starts one, in the tree itself."""
        done = subprocess.run(
            [PYTHON, "-c", PRELUDE + program],
            cwd=self.workshop.lower,
            capture_output=True,
            close_fds=False,
            preexec_fn=unconfined,
            timeout=60,
        )
        return (done.stdout + done.stderr).decode(errors="replace")

    def outside_is_as_it_was(self) -> bool:
        with open(self.secret) as file:
            return os.listdir(self.outside) == ["secret"] and file.read() == CANARY

    def clear(self) -> None:
        remove(self.directory)


def secrets() -> tuple[str, str]:
    """In a file beside the tree or in somebody's memory, and in our own environment."""
    return CANARY, os.environ[inside.CANARY_VARIABLE]


def unconfined() -> None:
    """For what is run without a sandbox, so that it cannot take down the wall either."""
    if inside.identity() == "operator":
        inside.without_mounting()


_sandboxes: dict[str, Any] = {}


def sandbox(kind: str = "bubblewrap") -> Any:
    if kind not in _sandboxes:
        _sandboxes[kind] = Bubblewrap() if kind == "bubblewrap" else Landlock(remove=remove_tree)
    for lack in _sandboxes[kind].missing():
        if lack.fatal:
            raise messages.Skip(f"{lack.what}: {lack.remedy}")
    return _sandboxes[kind]


@contextlib.contextmanager
def place(kind: str = "bubblewrap") -> Iterator[Place]:
    made = Place(kind)
    try:
        yield made
    finally:
        made.clear()


# --- what is planted -------------------------------------------------------------------------


@contextlib.contextmanager
def secret_beside(where: Place) -> Iterator[dict[str, Any]]:
    yield {"secret": where.secret, "pid": os.getpid()}


@contextlib.contextmanager
def open_descriptor(where: Place) -> Iterator[dict[str, Any]]:
    """Left open, and inheritable, as a careless server would."""
    fds = [os.open(where.secret, os.O_RDONLY), os.open(where.outside, os.O_RDONLY)]
    for fd in fds:
        os.set_inheritable(fd, True)
    try:
        yield {}
    finally:
        for fd in fds:
            os.close(fd)


def _answering(address: str | bytes) -> contextlib.AbstractContextManager[None]:
    @contextlib.contextmanager
    def serve() -> Iterator[None]:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(address)
            server.listen()

            def answer() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        connection, _ = server.accept()
                        with connection:
                            connection.send(CANARY.encode())

            thread = threading.Thread(target=answer)
            thread.start()
            try:
                yield
            finally:
                server.shutdown(socket.SHUT_RDWR)
                thread.join()

    return serve()


@contextlib.contextmanager
def socket_in_the_tree(where: Place) -> Iterator[dict[str, Any]]:
    before = os.getcwd()
    os.chdir(where.workshop.lower)
    try:
        with _answering("sock"):
            yield {}
    finally:
        os.chdir(before)


@contextlib.contextmanager
def socket_without_a_file(where: Place) -> Iterator[dict[str, Any]]:
    # Its name is one for the whole machine, on which several may be trying this.
    name = f"\0bailiwick-{token_hex(8)}"
    with _answering(name):
        yield {"name": name}


@contextlib.contextmanager
def victim(where: Place) -> Iterator[dict[str, Any]]:
    """A process of the same user that has the secret in its memory and lets itself be traced."""
    program = f"""
import ctypes
kept = ctypes.create_string_buffer({CANARY.encode()!r})
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
print(ctypes.addressof(kept), flush=True)
input()
"""
    process = subprocess.Popen(
        [PYTHON, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=unconfined,
    )
    with process:
        yield {
            "victim": process.pid, "address": int(process.stdout.readline()), "size": len(CANARY),
        }  # fmt: skip
        process.kill()


@contextlib.contextmanager
def masked_file(where: Place) -> Iterator[dict[str, Any]]:
    os.makedirs(where.workshop.lower / "conf/inner")
    for name in ("conf/.env", "conf/inner/key", "seen"):
        (where.workshop.lower / name).write_text(CANARY if name != "seen" else "seen")
    yield {}


@contextlib.contextmanager
def device_in_the_tree(where: Place) -> Iterator[dict[str, Any]]:
    os.mknod(where.workshop.lower / "zero", 0o020666, os.makedev(1, 5))
    yield {}


NAMELESS = (
    "s = attempt(lambda: socket.socket(socket.AF_UNIX))\n"
    "print(attempt(lambda: (s.connect({name!r}), s.recv(99))))"
)

ATTACKS = {
    "a path of the host": Attack("print(attempt(lambda: read({secret!r})))", secret_beside),
    "roots of processes": Attack(
        "import glob\n"
        "for root in glob.glob('/proc/*/root') + glob.glob('/proc/*/task/*/cwd'):\n"
        "    print(attempt(lambda: read(root + {secret!r})))",
        secret_beside,
    ),
    "inherited descriptors": Attack(
        "for fd in range(3, 300):\n"
        "    print(attempt(lambda: os.pread(fd, 99, 0)))\n"
        "    print(attempt(lambda: os.read(os.open('secret', os.O_RDONLY, dir_fd=fd), 99)))",
        open_descriptor,
    ),
    "descriptors of other processes": Attack(
        "import glob\n"
        "for path in glob.glob('/proc/*/fd/*'):\n"
        "    if int(path.rpartition('/')[2]) > 2:\n"
        "        print(attempt(lambda: os.read(os.open(path, os.O_NONBLOCK), 99)))",
        open_descriptor,
    ),
    "the environment of others": Attack(
        "import glob\nfor path in glob.glob('/proc/*/environ'): print(attempt(lambda: read(path)))",
        secret_beside,
    ),
    "a socket in the tree": Attack(
        "s = attempt(lambda: socket.socket(socket.AF_UNIX))\n"
        "print(os.listdir('.'), attempt(lambda: (s.connect('sock'), s.recv(99))))",
        socket_in_the_tree,
    ),
    "a socket without a file": Attack(NAMELESS, socket_without_a_file),
    "a socket without a file, on the host's network": Attack(
        NAMELESS, socket_without_a_file, network="host"
    ),
    "memory of others": Attack(
        "class V(ctypes.Structure): _fields_ = [('b', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
        "mine = ctypes.create_string_buffer({size})\n"
        "here, there = V(ctypes.addressof(mine), {size}), V({address}, {size})\n"
        "for pid in [{victim}, *range(1, 30)]:\n"
        "    libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)\n"
        "    print(mine.raw)\n"
        "    def peek():\n"
        "        with open(f'/proc/{{pid}}/mem', 'rb') as f:\n"
        "            f.seek({address}); return f.read({size})\n"
        "    print(attempt(peek))",
        victim,
    ),
    "a masked file": Attack(
        "paths = ['conf/.env', 'conf/inner/key', './conf/./.env', '/proc/self/cwd/conf/.env',\n"
        "         os.path.abspath('conf/.env'), 'conf/inner/../.env']\n"
        "for path in paths:\n"
        "    for call in (read, os.stat, os.lstat, os.listxattr, lambda p: os.access(p, 0),\n"
        "                 lambda p: os.link(p, 'linked'), lambda p: os.rename(p, 'moved'),\n"
        "                 lambda p: os.unlink(p), lambda p: os.chmod(p, 0o777),\n"
        "                 lambda p: os.truncate(p, 3), lambda p: os.utime(p)):\n"
        "        print(attempt(lambda: call(path)))\n"
        "print(os.listdir('conf'), [list(x) for x in os.walk('.')])\n"
        "os.symlink('conf/.env', 'l'); print(attempt(lambda: read('l')))\n"
        "fd = os.open('conf', os.O_RDONLY); print(attempt(lambda: os.open('.env', 0, dir_fd=fd)))\n"
        "# What stands over a name may uncover it when it goes.\n"
        "def over():\n"
        "    open('conf/.env', 'w').close(); os.unlink('conf/.env')\n"
        "    os.mkdir('conf/.env'); os.rmdir('conf/.env')\n"
        "    os.rename('seen', 'conf/.env'); os.rename('conf/.env', 'seen')\n"
        "    return read('conf/.env')\n"
        "print(attempt(over))\n"
        "def moved():\n"
        "    os.rename('conf', 'conf2'); print([list(x) for x in os.walk('.')])\n"
        "    return read('conf2/.env')\n"
        "print(attempt(moved))\n"
        "import shutil\n"
        "def anew():\n"
        "    for n in ('conf', 'conf2'): shutil.rmtree(n, ignore_errors=True)\n"
        "    os.mkdir('conf'); return os.listdir('conf'), read('conf/.env')\n"
        "print(attempt(anew))\n"
        "print(attempt(lambda: os.listxattr('conf')))",
        masked_file,
        masked=("conf/.env", "conf/inner"),
    ),
}


def run(name: str, kind: str = "bubblewrap") -> None:
    """The attack in a sandbox: nothing of the secret, and no name of what was masked."""
    attack = ATTACKS[name]
    with place(kind) as where, attack.plant(where) as planted:
        program = attack.program.format(**planted)
        said = where.sandboxed(program, network=attack.network, masked=attack.masked)
        assert not any(secret in said for secret in secrets()), f"{name}: it came out: {said}"
        assert "Traceback" not in said, said
        if attack.masked:
            names = {os.path.basename(path) for path in attack.masked}
            listed = [each for each in names if f"'{each}'" in said]
            assert not listed, f"{name}: {listed} can be seen: {said}"
        assert where.outside_is_as_it_was()


def control(name: str) -> None:
    """The same by a plain subprocess: it must get the secret."""
    attack = ATTACKS[name]
    with place() as where, attack.plant(where) as planted:
        said = where.plain(attack.program.format(**planted))
        found = any(secret in said for secret in secrets())
        assert found, f"{name} gets nothing without a sandbox either: {said}"


# --- changing what is outside ------------------------------------------------------------------

CHANGES = (
    "attempt(lambda: open({secret!r}, 'w').write('x'))\n"
    "attempt(lambda: os.symlink({outside!r}, 'out'))\n"
    "attempt(lambda: open('out/new', 'w').close())\n"
    "attempt(lambda: os.makedirs({outside!r} + '/made'))\n"
    "attempt(lambda: os.rename('own', {outside!r} + '/own'))\n"
)


def changes(kind: str = "bubblewrap") -> None:
    with place(kind) as where:
        where.workshop.plant({"own": "x"})
        program = CHANGES.format(secret=where.secret, outside=where.outside)
        where.sandboxed(program)
        assert where.outside_is_as_it_was()
        where.plain(program)
        assert not where.outside_is_as_it_was(), "the control changed nothing"


def device() -> None:
    program = (
        "attempt(lambda: os.mknod('own', 0o20666, 0x105))\n"
        "for name in ('zero', 'own'): print(attempt(lambda: read(name)[:9]))"
    )
    with place() as where, device_in_the_tree(where):
        assert "\\x00" not in where.sandboxed(program)
        assert "\\x00" in where.plain(program)


# --- power -------------------------------------------------------------------------------------

CALLS = """
import platform
numbers = {numbers}
for name, (number, *arguments) in sorted(numbers.items()):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    code = ctypes.get_errno() if result < 0 else 0
    print(name, errno.errorcode.get(code, "ok"))
print("clone3", libc.syscall(ctypes.c_long(435), None, ctypes.c_long(0)),
      errno.errorcode[ctypes.get_errno()])
"""
KEYCTL_GET_SESSION = (0, -3, 1)


def calls() -> None:
    """Whatever the filter names is refused; without it the kernel looks at the arguments."""
    from bailiwick.sandboxes import seccomp

    machine = os.uname().machine
    refused = {**seccomp._REFUSED[machine], **seccomp._REFUSED_EVERYWHERE}
    numbers = {name: (number, -1, -1, -1, -1, -1) for name, number in refused.items()}
    # Without arguments that make sense most are refused by anybody; these do something.
    new_user = 0x10000000
    numbers |= {
        "unshare a user": (refused["unshare"], new_user),
        "a key": (refused["keyctl"], *KEYCTL_GET_SESSION),
        "clone a user": (seccomp._BY_ARGUMENT[machine]["clone"], new_user, 0, 0, 0, 0),
    }
    del numbers["reboot"]
    program = CALLS.format(numbers=numbers)
    with place() as where:
        said = dict(line.split(" ", 1) for line in _lines(where.sandboxed(program)))
        assert said.pop("clone3") == "-1 ENOSYS"
        assert {name: result for name, result in said.items() if result != "EPERM"} == {}
        only = {name: numbers[name] for name in ("unshare a user", "a key", "userfaultfd")}
        plain = dict(line.split(" ", 1) for line in _lines(where.plain(CALLS.format(numbers=only))))
        assert plain["unshare-a-user"] == plain["a-key"] == "ok", plain
        assert plain["clone3"] != "-1 ENOSYS"


def _lines(text: str) -> list[str]:
    found = []
    for line in text.strip().splitlines():
        name, _, result = line.rpartition(" ") if "clone3" not in line else line.partition(" ")
        found.append(f"{name.replace(' ', '-')} {result}")
    return found


STATUS = "print(read('/proc/self/status').decode())"


def power() -> None:
    with place() as where:
        said = where.sandboxed(STATUS)
        status = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(status[name], 16) == 0, (name, status[name])
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        if inside.identity() == "operator":
            plain = where.plain(STATUS)
            assert "CapEff:\t0000000000000000" not in plain


SETTINGS = """
found = []
for top in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/self"):
    for at, _, files in os.walk(top) if os.path.isdir(top) else [("/proc", [], ["sysrq-trigger"])]:
        for name in files:
            if os.path.islink(os.path.join(at, name)): continue
            try: os.close(os.open(os.path.join(at, name), os.O_WRONLY | os.O_NONBLOCK))
            except OSError: continue
            found.append(os.path.join(at, name))
print(found)
"""
"""Opened for writing, and never written."""


def settings() -> None:
    with place() as where:
        assert where.sandboxed(SETTINGS).strip() == "[]"
        if inside.identity() == "operator":
            done = subprocess.run(
                ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", PYTHON, "-c",
                 PRELUDE + SETTINGS],
                capture_output=True, text=True,
            )  # fmt: skip
            assert "/proc/self/" in done.stdout, done
        else:
            assert "/proc/self/" in where.plain(SETTINGS)


# --- using too much ----------------------------------------------------------------------------

FORKS = """
import signal
children = []
for _ in range(900):
    try: pid = os.fork()
    except OSError: break
    if pid == 0: signal.pause()
    children.append(pid)
print(len(children), flush=True)
for pid in children: os.kill(pid, 9)
for pid in children: os.waitpid(pid, 0)
"""
"""Ends by itself after so many: it must not be able to stop the machine it is tried on."""


def forks() -> None:
    limits = CommandLimits(seconds_max=60, processes_max=40)
    with place() as where:
        reached = int(where.sandboxed(FORKS, limits=limits))
        # For root the numbers that are never given out a second time come on top.
        most = 40 + (300 if inside.identity() == "operator" else 0)
        assert 20 < reached <= most, reached
        assert int(where.plain(FORKS)) == 900
        after = int(where.sandboxed("print(sum(1 for _ in range(400) if not os.system('true')))",
                                    limits=limits))  # fmt: skip
        assert after == 400, "one after the other there may be any number"


MEMORY = """
import mmap
kept = []
try:
    for _ in range(300): kept.append(bytearray(1 << 20))
except MemoryError: pass
print(len(kept))
"""


def memory(kind: str = "bubblewrap") -> None:
    limits = CommandLimits(seconds_max=60, memory_bytes_max=100 << 20)
    with place(kind) as where:
        assert int(where.sandboxed(MEMORY, limits=limits)) < 100
        assert int(where.plain(MEMORY)) == 300


SURVIVOR = """
import signal
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except OSError: pass
told, tell = os.pipe()
if os.fork():
    os.read(told, 1)
    os._exit(0) if {leave} else signal.pause()
os.setsid()
if os.fork(): os._exit(0)
open("alive", "w").write(str(os.getpid()))
os.write(tell, b"x")
os.execv(sys.executable, [sys.executable, "-c", "import signal; signal.pause()", {marker!r}])
"""


def _running(marker: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                if marker.encode() in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def survivor(kind: str = "bubblewrap") -> None:
    marker = f"marker-{os.getpid()}"
    with place(kind) as where:
        for leave, limits in ((True, CommandLimits()), (False, CommandLimits(seconds_max=5))):
            where.sandboxed(SURVIVOR.format(leave=leave, marker=marker), limits=limits)
            assert (where.workshop.upper / "alive").exists()
            assert _running(marker) == []
        subprocess.run(
            [PYTHON, "-c", PRELUDE + SURVIVOR.format(leave=True, marker=marker)],
            cwd=where.workshop.lower,
            preexec_fn=unconfined,
        )
        left = until_blocking(lambda: _running(marker))
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert left, "the control leaves nobody"


# --- what is left ------------------------------------------------------------------------------

LEAVING = """
import shutil
os.symlink({outside!r}, "out"); os.symlink("/", "root"); os.mkfifo("fifo")
attempt(lambda: socket.socket(socket.AF_UNIX).bind("sock"))
os.mkdir("shut"); open("shut/in", "w").close(); os.chmod("shut", 0)
with open("mute", "w") as file: file.write("text")
os.chmod("mute", 0o4000)
os.unlink("gone"); shutil.rmtree("again"); os.mkdir("again")
with open(b"odd\\xff\\n", "w"): pass
shutil.move("old", "new")
for _ in range(300):
    os.mkdir("d"); os.chdir("d")
"""


def leavings(kind: str = "bubblewrap") -> None:
    """Whatever a program leaves is told, nothing of it is followed, and all can be cleared away."""
    with place(kind) as where:
        where.workshop.plant({"gone": "x", "again/x": "x", "old/x": "x"})
        said = where.sandboxed(LEAVING.format(outside=where.outside))
        assert said == "", said
        changes = {change.path: change for change in where.workshop.changes(depth_max=50)}
        kinds = {path: change.kind for path, change in changes.items() if path[0] != "d"}
        mounts = kind == "bubblewrap"
        moved = changes["new"].moved_from
        assert moved == ("old" if mounts and inside.identity() == "operator" else None)
        if moved is None:
            assert kinds.pop("new/x") == "file_created"
        if mounts:
            assert kinds.pop("sock") == "special_dropped"
            assert kinds.pop("again") == "directory_replaced"
        else:
            assert kinds.pop("again/x") == "removed"
            kinds.pop("again", None)  # it was made anew, with whatever mode
        assert kinds == {
            "out": "symlink_created", "root": "symlink_created", "fifo": "special_dropped",
            "shut": "directory_created", "shut/in": "file_created", "mute": "file_created",
            "gone": "removed",
            "odd\udcff\n": "file_created", "old": "removed", "new": "directory_created",
        }  # fmt: skip
        assert changes["/".join(["d"] * 50)].kind == "too_deep"
        with opened(where.workshop.upper) as upper, open(open_left(upper, "mute"), "rb") as file:
            assert file.read() == b"text"
        assert where.outside_is_as_it_was()
