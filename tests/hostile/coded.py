"""Attacks by code that runs with `state` in a sandbox, and the same without one.

Code may be anything. It must get nothing of what is planted outside its tree, nothing of its tree
but by calls, and whatever it writes into the pipe is a call, a refusal, or its end. Every function
here runs behind the wall.
"""

import asyncio
import os
import socket
import threading
from typing import Any

import bailiwick
from bailiwick import code
from bailiwick.code.results import CodeResult
from bailiwick.operations import ALL_ACCESS
from tests.hostile import sandboxed
from tests.hostile.layouts import CANARY
from tests.hostile.sandboxed import PRELUDE, Place, place, secrets

ATTACKS = (
    "a path of the host",
    "roots of processes",
    "inherited descriptors",
    "descriptors of other processes",
    "the environment of others",
    "a socket without a file",
    "memory of others",
)
"""Those of programs that are about the machine. That each gets the secret without a sandbox is
shown there."""

READING = ("read", "list", "metadata", "execute")

RAW = """
import gc, json, os
channel = next(each for each in gc.get_objects() if type(each).__name__ == "Channel")
fd = channel._output
def frame(document):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return len(text).to_bytes(4, "big") + text
def write(data):
    while data: data = data[os.write(fd, data):]
def call(verb, arguments={}, id=None, on=0):
    channel._id += 1
    write(frame({"id": id or channel._id, "on": on, "verb": verb, "arguments": arguments}))
    return channel.receive()
"""
"""The pipe itself, as code finds it."""


def ran(where: Place, source: str, *, access: Any = None, denied: Any = (), **bounds: Any) -> Any:
    """A run in the tree of a place: what came of it."""

    async def run() -> CodeResult:
        state = f"{where.directory}/state"
        async with bailiwick.open(str(where.workshop.lower), state_dir=state) as fs:
            if access is not None or denied:
                fs = await fs.delegate(
                    bailiwick.User("me"), access=access or ALL_ACCESS, denied=denied
                )
            return await code.run(fs, source, **bounds)

    sandboxed.sandbox()
    return asyncio.run(run())


def said(result: CodeResult) -> str:
    return repr(result)


def attack(name: str) -> None:
    row = sandboxed.ATTACKS[name]
    with place() as where, row.plant(where) as planted:
        result = ran(where, PRELUDE + row.program.format(**planted))
        assert result.ok, result.error
        assert not any(each in said(result) for each in secrets()), said(result)
        assert where.outside_is_as_it_was()


# --- the tree ------------------------------------------------------------------------------------

LOOK_EVERYWHERE = """
import os
paths = [top + tail for top in ("", "/proc/self/cwd", "/proc/1/cwd", "/proc/1/root")
         for tail in ({tree!r} + "/conf/.env", "/conf/.env", "/work/conf/.env")]
for directory, names, files in os.walk({top!r}):
    if directory == "/": names[:] = [n for n in names if n not in ("proc", "sys", "usr", "dev")]
    paths += [os.path.join(directory, name) for name in files if name in (".env", "seen")]
for path in paths:
    try:
        with open(path, "rb") as file: print(file.read(1000))
    except OSError: pass
"""
ASK_EVERYWHERE = """
for ask in (lambda: state.read_text("conf/.env").text, lambda: state.read_bytes("conf/.env"),
            lambda: list(state.stream("conf/.env")), lambda: state.grep("", include_ignored=True),
            lambda: state.stat("conf/.env"), lambda: state.list("conf"), lambda: state.files(),
            lambda: state.diff("conf/.env", text=""), lambda: state.copy("conf/.env", "out"),
            lambda: state.create_archive(["conf"], "a.tar"), lambda: state.read_bytes("a.tar"),
            lambda: state.move("conf", "seen2"), lambda: state.symlink("l", "conf/.env"),
            lambda: state.read_text("l").text, lambda: state.find("."),
            lambda: state.glob("**/*", include_ignored=True)):
    try: print(ask())
    except Exception as error: print(type(error).__name__)
"""


def hidden_files() -> None:
    """Neither by the filesystem nor by calls; with the whole grant by calls alone."""
    with place() as where:
        where.workshop.plant({"conf/.env": CANARY, "seen": "seen"})
        tree = str(where.workshop.lower)
        look = LOOK_EVERYWHERE.format(tree=tree, top="/")
        result = ran(where, look + ASK_EVERYWHERE, denied=("conf/**",))
        assert result.ok, result.error
        assert CANARY not in said(result), said(result)
        assert "'seen'" in result.output, "calls do not reach the tree at all"
        assert CANARY not in said(ran(where, look))
        control = ran(where, "print(state.read_text('conf/.env').text)")
        assert CANARY in said(control), said(control)
        assert CANARY in where.plain(LOOK_EVERYWHERE.format(tree=tree, top=tree))


CHANGES = """
told = []
for change in (lambda: state.write_text("new", "x"), lambda: state.append("own", "x"),
               lambda: state.remove("own"), lambda: state.move("own", "gone"),
               lambda: state.make_dir("d"), lambda: state.symlink("s", "own"),
               lambda: state.set_mode("own", 0o777), lambda: state.truncate("own"),
               lambda: state.edit("own", old="x", new="y"),
               lambda: state.write_stream("new", [b"x"])):
    try: change(); told.append("done")
    except BailiwickError as error: told.append(error.kind)
told
"""


def reading_only() -> None:
    with place() as where:
        where.workshop.plant({"own": "x"})
        result = ran(where, CHANGES, access=READING)
        assert set(result.value) == {"missing_access"}, said(result)
        assert result.changes == []
        assert os.listdir(where.workshop.lower) == ["own"]
        assert "done" in ran(where, CHANGES).value


def commands() -> None:
    """A shell is one of the sandbox, which can change nothing that lies outside."""
    with place() as where:
        program = (
            "import os, subprocess\n"
            f"os.system('echo x > {where.secret}; echo y > {where.outside}/n')\n"
            f"subprocess.run(['cp', '/etc/passwd', '{where.outside}/p'])\n"
            f"try: open('{where.secret}', 'w').write('z')\nexcept OSError: pass\n"
        )
        result = ran(where, program)
        assert result.ok, result.error
        assert where.outside_is_as_it_was()
        where.plain(program)
        assert not where.outside_is_as_it_was(), "the control changed nothing"


def network() -> None:
    with place() as where, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.send(CANARY.encode())

        thread = threading.Thread(target=answer)
        thread.start()
        program = (
            "import socket\n"
            f"try: print(socket.create_connection(('127.0.0.1', {port}), 5).recv(99))\n"
            "except OSError as error: print(type(error).__name__)\n"
        )
        result = ran(where, program)
        assert result.ok, result.error
        assert CANARY not in said(result)
        assert CANARY in where.plain(program)
        thread.join()


# --- the pipe ------------------------------------------------------------------------------------


def raw_calls() -> None:
    """The control of all that follows: this is how the pipe is reached."""
    with place() as where:
        where.workshop.plant({"own": "x"})
        result = ran(where, RAW + "call('exists', {'path': 'own'})['value']")
        assert result.value is True, said(result)


BROKEN = {
    "garbage": "write(b'\\xff' * 100)",
    "text": "write(b'read_text own\\n')",
    "a line without an end": "write((1 << 30).to_bytes(4, 'big') + b'x' * 10_000_000)",
    "no JSON": "write(frame(b'{'))",
    "another document": "write(frame([1]))",
    "a depth without an end": "write(frame(b'{\"done\": ' + b'[' * 1_000_000))",
    "an id that was": "call('exists', {'path': 'a'}, id=1); call('exists', {'path': 'a'}, id=1)",
    "an id to come": "call('exists', {'path': 'a'}, id=99)",
    "two at a time": "write(2 * frame({'id': 1, 'verb': 'exists'}))",
}


def broken(name: str) -> None:
    """What is no message ends the run, and changes nothing."""
    with place() as where:
        where.workshop.plant({"own": "x"})
        after = "\nstate.write_text('after', 'x')\nimport signal; signal.pause()"
        result = ran(where, RAW + BROKEN[name] + after, timeout=30)
        assert result.error.type == "ChannelBroken", said(result)
        assert not result.timed_out
        assert os.listdir(where.workshop.lower) == ["own"]


PRIVATE = (
    "_grant", "grant", "__class__", "__dict__", "_pipeline", "_lent", "_run", "_code_process",
    "exec", "session", "run", "code", "delegate", "with_request", "with_approval", "with_caller",
    "aclose", "close", "next", "send", "finish", "leave", "on_change", "open_work", "limits",
)  # fmt: skip


def private_names() -> None:
    with place() as where:
        where.workshop.plant({"own": "x"})
        result = ran(
            where,
            f"{RAW}\n[call(each, {{}})['error']['kind'] for each in {PRIVATE!r}]"
            "+ [call('exists', {'path': 'own'}, on=each)['error']['kind'] for each in (1, -1, 99)]",
        )
        assert set(result.value) == {"parse_error"}, said(result)
        assert {each.verb for each in result.calls} == {"exists"}


def forged_ends() -> None:
    """Whoever says that it is done is done: nothing that comes after is answered."""
    with place() as where:
        where.workshop.plant({"own": "x"})
        source = (
            "write(frame({'done': 'forged'}) + frame({'id': 1, 'verb': 'write_text', 'arguments':"
            " {'path': 'after', 'text': 'x'}}))\nimport signal; signal.pause()"
        )
        result = ran(where, RAW + source, timeout=30)
        assert (result.value, result.timed_out) == ("forged", False), said(result)
        assert os.listdir(where.workshop.lower) == ["own"]


def floods() -> None:
    with place() as where:
        where.workshop.plant({"own": "x"})
        source = "while True:\n    try: state.exists('own')\n    except OSError: pass"
        result = ran(where, source, calls_max=200, timeout=50)
        assert (result.error.type, len(result.calls)) == ("ChannelBroken", 200), said(result)
        # Calls that nobody reads the answers of: each answer fills the pipe a little more.
        source = (
            f"{RAW}\nimport itertools\nfor number in itertools.count(1):\n"
            "    write(frame({'id': number, 'verb': 'read_text', 'arguments': {'path': 'own'}}))"
        )
        result = ran(where, source, timeout=4)
        assert not result.ok
        assert len(result.calls) <= 10_000
        result = ran(where, "while True: print('y' * 1000)", timeout=3)
        assert result.timed_out
        assert len(result.output) < 300_000


def silences() -> None:
    """A message that is announced and does not come, and pipes that are closed."""
    with place() as where:
        result = ran(
            where, RAW + "write(b'\\0\\0\\1\\0{')\nimport signal; signal.pause()", timeout=3
        )
        assert result.timed_out, said(result)
        for source in (
            "os.close(fd)\nstate.exists('a')",
            "os.closerange(0, 50)",
            "os.close(fd); os.close(1); os.close(2); os._exit(0)",
            "os.kill(os.getpid(), 9)",
            "os._exit(0)",
        ):
            result = ran(where, RAW + source, timeout=30)
            assert not result.ok, said(result)
            assert not result.timed_out, said(result)


def survivors() -> None:
    """A process that has left its parent and keeps the pipe: it goes when the code has ended."""
    with place() as where:
        where.workshop.plant({"own": "x"})
        source = (
            f"{RAW}\nos.set_inheritable(fd, True)\n"
            "if os.fork() == 0:\n"
            "    os.setsid()\n"
            "    if os.fork() == 0:\n"
            "        try: state.exists('own')\n"
            "        except RuntimeError: print('refused', flush=True)\n"
            "        import signal\n        signal.pause()\n"
            "    os._exit(0)\n"
            "os.wait()\nimport select\n'ended'"
        )
        before = sandboxed_processes()
        result = ran(where, source, timeout=50)
        assert result.value == "ended", said(result)
        assert sandboxed_processes() == before


def sandboxed_processes() -> int:
    """Processes of ours or that came to us, all of them seen from here."""
    with open("/proc/self/task/" + str(threading.get_native_id()) + "/children") as file:
        return len(file.read().split())


FORKING = """
import os, signal
count = 0
try:
    while True:
        count += 1
        if os.fork() == 0: signal.pause()
except OSError: pass
count
"""
FILLING = """
count = 0
try:
    with open('/tmp/x', 'wb', 0) as file:
        while True: count += file.write(b'x' * (1 << 20))
except OSError: pass
count
"""


def greed() -> None:
    with place() as where:
        result = ran(where, "x = bytearray(256 << 20)", memory_bytes_max=64 << 20)
        assert result.error.type == "MemoryError", said(result)
        assert ran(where, "len(bytearray(256 << 20))").value == 256 << 20
        result = ran(where, "def f(): f()\nf()")
        assert result.error.type == "RecursionError", said(result)
        assert len(result.error.traceback) < 20_000
        result = ran(where, FORKING, timeout=50)
        assert result.ok, said(result)
        assert result.value < 500  # for root the kernel keeps 300 numbers besides
        result = ran(where, FILLING, memory_bytes_max=64 << 20)
        assert result.value <= 65 << 20, said(result)
