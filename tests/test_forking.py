"""fork(2) while others work: a child that opens things itself can use them, one that goes on with
what its parent had open is told. Each runs in a process of its own, without the threads of pytest.
"""

import subprocess
import sys

import pytest

import bailiwick

pytestmark = [pytest.mark.spec("LIFE-3"), pytest.mark.slow]

_COMMON = """
import asyncio, os, random, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
import bailiwick

def child_of(action):
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(30)
        code = 9
        try:
            action()
            code = 0
        except BaseException as error:
            sys.stderr.write(f"in the child: {error!r}\\n")
        finally:
            os._exit(code)
    return child

def ended_well(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""

_WHILE_WRITING = """
place, rounds = sys.argv[1], int(sys.argv[2])
stop, counts = threading.Event(), [0, 0]

with bailiwick.open_sync(place) as fs:
    fs.write_bytes("f", b"0")

    def write():
        while not stop.is_set():
            counts[0] += 1
            fs.write_bytes("f", b"%d" % counts[0] + b"." * random.choice((1, 100_000)))

    def read():
        while not stop.is_set():
            counts[1] += 1
            fs.read_bytes("f")
            fs.grep("no such text")

    def in_child():
        for call in (lambda: fs.write_bytes("f", b"x"), lambda: fs.read_bytes("f")):
            try:
                call()
            except bailiwick.Closed:
                pass
            else:
                os._exit(4)
        with bailiwick.open_sync(place) as own:
            own.write_bytes(f"child{os.getpid()}", b"c")
            assert own.read_bytes(f"child{os.getpid()}").data == b"c"
            assert own.read_bytes("f").data

    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    well = 0
    for number in range(rounds):
        seen = counts[0]
        while counts[0] == seen:
            stop.wait(random.Random(number).uniform(0, 0.003))
        well += ended_well(child_of(in_child))
    stop.set()
    for thread in threads:
        thread.join()
    assert len([path for path in fs.files().paths if path.startswith("child")]) == well
    print(well)
"""


def _slow(kind):
    return pytest.param(kind, marks=pytest.mark.slow)


def _run(program, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", _COMMON + program, *map(str, arguments)],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize("kind", [_slow("volume"), "disk", _slow("history")])
def test_a_child_forked_while_its_parent_writes_can_use_the_same_place(tmp_path, kind):
    (tmp_path / "tree").mkdir()
    place = f"sqlite:{tmp_path}/v.db" if kind == "volume" else str(tmp_path / "tree")
    program = _WHILE_WRITING
    if kind == "history":
        program = program.replace("(place)", f"(place, history='on', state_dir='{tmp_path}/s')")
    told, complaints = _run(program, place, 12)
    assert told == ["12"], complaints
    with bailiwick.open_sync(place) as fs:
        assert len(fs.files().paths) == 13


CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
trusted = true
{place}

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "write", "delete", "list", "move", "archive", "watch", "metadata"]
"""

_GOVERNED = """
from tests.authority.support import AGENT, EVERYTHING
configuration, state, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
stop, count, shared = threading.Event(), [0], []

async def write():
    async with bailiwick.Authority.from_config(configuration, state_dir=state) as authority:
        fs = await authority.request_root(AGENT, "workspace:demo", EVERYTHING, "parent")
        shared.append(fs)
        while not stop.is_set():
            await fs.write_text("f", f"{count[0]}")
            count[0] += 1

async def in_child():
    try:
        await shared[0].write_text("f", "x")
    except bailiwick.Closed as closed:
        assert "fork" in closed.hint, closed.hint
    else:
        os._exit(4)
    async with bailiwick.Authority.from_config(configuration, state_dir=state) as authority:
        fs = await authority.request_root(AGENT, "workspace:demo", EVERYTHING, "child")
        await fs.write_text(f"child{os.getpid()}", "c")

thread = threading.Thread(target=lambda: asyncio.run(write()))
thread.start()
well = 0
for number in range(rounds):
    seen = count[0]
    while count[0] == seen and thread.is_alive():
        stop.wait(random.Random(number).uniform(0, 0.003))
    well += ended_well(child_of(lambda: asyncio.run(in_child())))
stop.set()
thread.join()
print(well)
"""

_VERIFY = """
async def main():
    async with bailiwick.Authority.from_config(sys.argv[1], state_dir=sys.argv[2]) as authority:
        print((await authority.ledger.verify()).ok)

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["volume", "disk"])
def test_a_child_forked_while_its_parent_writes_can_use_the_same_state(tmp_path, kind):
    (tmp_path / "tree").mkdir()
    place = f'path = "{tmp_path}/tree"'
    if kind == "volume":
        place = f'volume = "sqlite:{tmp_path}/v.db?volume=demo"'
    configuration = tmp_path / "bailiwick.toml"
    configuration.write_text(CONFIG.format(place=place))
    told, complaints = _run(_GOVERNED, configuration, tmp_path / "state", 8)
    assert told == ["8"], complaints
    done = _run(_VERIFY, configuration, tmp_path / "state")
    assert done[0] == ["True"], done


_CLOSING = """
place, state = sys.argv[1:]

def kept():
    return sorted(os.path.join(top, name) for top, _, names in os.walk(state) for name in names)

async def main():
    async with bailiwick.open(place, history="on", state_dir=state) as fs:
        await fs.write_text("f", "one")
        before = kept()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                asyncio.run(fs.aclose())
            finally:
                os._exit(0)  # whether that can be done on another loop is not asked here
        assert ended_well(child)
        assert before and kept() == before
        await fs.write_text("f", "two")
        assert len((await fs.history("f")).versions) == 2
    print("well")

asyncio.run(main())
"""


def test_closing_in_the_child_touches_nothing_of_the_parents(tmp_path):
    (tmp_path / "tree").mkdir()
    assert _run(_CLOSING, tmp_path / "tree", tmp_path / "state")[0] == ["well"]


_HALF_WAY = """
import io, tarfile
place, state, verb, where = sys.argv[1:]

async def pieces():
    yield b"a" * 300_000  # so much is staged before more is asked for
    await asyncio.get_running_loop().create_future()

def archive():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("inner"))
    return made.getvalue()

VERBS = {
    "write_stream": lambda fs: fs.write_stream("f", pieces()),
    "extract": lambda fs: fs.extract_archive("a.tar", "x"),
}

def staged():
    return [name for name in os.listdir(place) if name not in ("a.tar", "f", "x")]

async def begun(coroutine):
    while True:
        waited_for = coroutine.send(None)
        if staged():
            return coroutine
        if waited_for is None:
            await asyncio.sleep(0)
        else:
            waited_for._asyncio_future_blocking = False
            await asyncio.wait((waited_for,))

async def close(coroutine):
    coroutine.close()
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0)

async def main():
    async with bailiwick.open(place, history="off", state_dir=state) as fs:
        await fs.write_bytes("a.tar", archive())
        coroutine = await begun(VERBS[verb](fs))
        before = staged()
        child = child_of(
            coroutine.close if where == "outside" else lambda: asyncio.run(close(coroutine))
        )
        assert ended_well(child)
        assert staged() == before
        await close(coroutine)
        assert not staged()
    print("well")

asyncio.run(main())
"""


@pytest.mark.parametrize("verb", ["write_stream", "extract"])
@pytest.mark.parametrize("where", ["outside", "in a loop"])
def test_a_child_that_collects_a_verb_half_way_leaves_the_stage_to_its_parent(
    tmp_path, verb, where
):
    (tmp_path / "tree").mkdir()
    assert _run(_HALF_WAY, tmp_path / "tree", tmp_path / "state", verb, where)[0] == ["well"]


_AT_WORK = """
from bailiwick.finishing import Errand
begun, may_end = threading.Event(), threading.Event()
errand = Errand(lambda: (begun.set(), may_end.wait()))
thread = threading.Thread(target=errand)
thread.start()
begun.wait()
well = ended_well(child_of(errand.end))
may_end.set()
errand.end()
thread.join()
assert well
print("well")
"""


def test_a_child_does_not_wait_for_a_thread_that_only_its_parent_has():
    assert _run(_AT_WORK)[0] == ["well"]


_MID_STATEMENT = """
from bailiwick.sqlite import fork_safety
fork_safety._WAIT_S_MAX = 0.1  # nobody comes out of a statement that waits for the fork
place, database, how = sys.argv[1:]

def in_child():
    try:
        with bailiwick.open_sync(f"sqlite:{database}.other"):
            os._exit(4)
    except bailiwick.Busy as busy:
        assert "in the middle of a statement" in busy.message and "anew" in busy.hint
    with bailiwick.open_sync(place, history="off") as fs:  # which needs no database
        fs.write_text("child", "c")

children = []
connection = fork_safety.connect(database)
connection.execute("CREATE TABLE t (a)")
if how == "statement":
    connection.create_scalar_function("forked", lambda: children.append(child_of(in_child)))
    connection.execute("INSERT INTO t VALUES (forked())")
else:
    connection.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)")
    children.append(child_of(in_child))
    connection.execute("COMMIT")
assert ended_well(children[0])
assert connection.execute("SELECT count(*) FROM t").get == 1
with bailiwick.open_sync(f"sqlite:{database}.other") as fs:
    fs.write_text("parent", "p")
print("well")
"""


@pytest.mark.parametrize("how", ["statement", "transaction"])
def test_a_child_forked_in_the_middle_of_a_statement_is_refused_databases(tmp_path, how):
    (tmp_path / "tree").mkdir()
    assert _run(_MID_STATEMENT, tmp_path / "tree", tmp_path / "d.db", how)[0] == ["well"]
    assert (tmp_path / "tree/child").read_text() == "c"
