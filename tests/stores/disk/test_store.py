"""Opening, describing and closing a disk store; settings that would not be kept are refused."""

import asyncio
import ctypes
import os
import shutil
import subprocess
import sys
import traceback

import pytest

from bailiwick.errors import (
    Closed,
    InternalError,
    NotADirectory,
    NotARegularFile,
    ParseError,
    PermissionDenied,
    RootNotFound,
    Unsupported,
)
from bailiwick.limits import Limits
from bailiwick.store import Nominates, Store
from bailiwick.stores.disk import syscalls
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing.contract.chunks import of
from bailiwick.testing.driver import StoreDriver
from tests.stores.disk.conftest import hold
from tests.waiting import loop_turns


@pytest.mark.spec("DISK-1", "DISK-2")
def test_a_store_says_how_it_works(place):
    store = place.open(new_file_mode=0o640, cross_mounts=False, hardlinks="reject").store
    assert isinstance(store, Store)
    assert isinstance(store, Nominates)
    assert store.description == {
        "kind": "disk",
        "containment": "kernel",
        "symlinks": "in-root",
        "hardlinks": "reject",
        "cross_mounts": "no",
        "durability": "rename",
        "new_file_mode": "0640",
        "compare_and_swap": "exchange",
        "foreign_changes": "noticed",
    }
    assert str(place.root) not in str(store.description)


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"symlinks": "follow"}, ParseError),
        ({"hardlinks": "maybe"}, ParseError),
        ({"durability": "none"}, ParseError),
        ({"containment": "chroot"}, ParseError),
        ({"new_file_mode": "public"}, ParseError),
        ({"new_file_mode": 0o4755}, ParseError),
        ({"new_file_mode": -1}, ParseError),
        ({"limits": Limits(link_hops_max=8)}, Unsupported),
    ],
)
def test_a_setting_that_would_not_be_kept_is_refused(place, setting, error):
    with pytest.raises(error):
        place.open(**setting)


def test_the_root_must_be_a_directory_there_is(place):
    (place.root / "f").touch()
    for path, error in {"nothing": RootNotFound, "f": NotADirectory}.items():
        inner = type(place.root)(place.root / path)
        place_root, place.root = place.root, inner
        with pytest.raises(error) as caught:
            place.open()
        place.root = place_root
        assert str(place.root) not in str(caught.value)


@pytest.mark.spec("LINK-5")
def test_a_kernel_filesystem_is_no_root(place):
    place.root = type(place.root)("/proc/self/task")
    with pytest.raises(NotARegularFile):
        place.open(state_dir=place.state)


def test_windows_is_refused_in_plain_words(place, monkeypatch):
    monkeypatch.setattr(syscalls, "WINDOWS", True)
    with pytest.raises(Unsupported, match="Windows"):
        place.open()


@pytest.mark.spec("LIFE-2")
async def test_a_closed_store_refuses_and_leaves_nothing_open(place):
    before = set(os.listdir("/proc/self/fd"))
    fs = place.open(durability="full")
    await fs.write("f", b"x")
    held = await hold(fs, "f")
    entry = await hold(fs, "f", "entry")
    await fs.aclose()
    await fs.aclose()
    calls = (
        hold(fs, "f"),
        fs.store.read(held, 0, 1),
        fs.store.stat(entry),
        fs.store.remove(entry, recursive=False),
        fs.store.append(entry, b"", None),
        fs.store.write_stream(entry, of(b""), None),
        anext(fs.store.stream(held, 0, None)),
        fs.store.children(held),
    )
    for call in calls:
        with pytest.raises(Closed):
            await call
    held.close()
    entry.close()
    assert set(os.listdir("/proc/self/fd")) <= before | {held.path}
    assert place.tree() == {"f": b"x"}


@pytest.mark.spec("LIFE-2")
async def test_closing_waits_for_a_write_under_way(place, monkeypatch):
    fs = place.open(durability="full")
    loop, gate, reached = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    real = syscalls.flush

    def slow(fd):
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(120)
        real(fd)

    monkeypatch.setattr(syscalls, "flush", slow)
    write = asyncio.create_task(fs.write("f", b"x"))
    await reached.wait()
    close = asyncio.create_task(fs.aclose())
    await loop_turns(20)
    assert not close.done()
    gate.set()
    assert (await write).created
    await close
    assert place.tree() == {"f": b"x"}


async def test_handles_of_another_store_are_refused(place):
    fs, other = place.open(), StoreDriver(MemoryStore())
    await other.write("f", b"x")
    held = await hold(other, "f")
    with pytest.raises(InternalError):
        await fs.store.read(held, 0, 1)
    held.close()


async def test_an_object_is_no_entry(place):
    fs = place.open()
    await fs.write("f", b"x")
    held = await hold(fs, "f")
    with pytest.raises(InternalError):
        await fs.store.remove(held, recursive=False)
    held.close()


@pytest.mark.spec("GREP-3")
async def test_nominated_files_are_named_from_the_root(place):
    for path in ("d/hit", "d/e/hit", "d/miss", "hit"):
        (place.root / path).parent.mkdir(parents=True, exist_ok=True)
        (place.root / path).write_bytes(b"a needle" if path.endswith("hit") else b"hay")
    (place.root / "d" / "binary").write_bytes(b"\0")
    (place.root / "d" / ".bailiwick~0-0").write_bytes(b"a needle")
    fs = place.open()
    held = await hold(fs, "d")
    asked = {"literal": True, "ignore_case": False, "word": False, "deadline_s": 10.0}
    asked["file_bytes_max"] = None
    if "Nominates" in fs.store.powers:
        found = await fs.store.nominate(held, "needle", binaries=False, leave_out=(), **asked)
        assert found == {"d/hit", "d/e/hit"}
        found = await fs.store.nominate(held, "needle", binaries=True, leave_out=("e",), **asked)
        assert found == {"d/hit", "d/binary"}
        # What no caller can name is reported, not nominated: that takes a walk.
        (place.root / "d" / os.fsdecode(b"\xff")).write_bytes(b"a needle")
        found = await fs.store.nominate(held, "needle", binaries=False, leave_out=(), **asked)
        assert found is None
    strict = place.open(cross_mounts=False)
    assert await strict.store.nominate(held, "x", binaries=False, leave_out=(), **asked) is None
    held.close()


@pytest.mark.spec("ERR-3")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_permissions_are_told_apart_from_faults(place):
    """As another user, since nothing is refused to root."""
    (place.root / "locked").mkdir(mode=0o000)
    (place.root / "shared").mkdir()
    (place.root / "shared").chmod(0o777)
    place.state.mkdir()
    for folder, mode in ((place.root, 0o755), (place.root.parent, 0o755), (place.state, 0o777)):
        folder.chmod(mode)
    child = os.fork()
    if child == 0:
        os._exit(_as_another_user(place))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (place.root / "shared" / "f").read_bytes() == b"x"


MAKING = """
import sys
from bailiwick.stores.disk import syscalls
print(syscalls.heeds_modes())
try:
    open(sys.argv[1], "x")
    print(False)
except PermissionError:
    print(True)
"""


@pytest.mark.spec("DISK-8")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing takes capabilities away")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has them")
@pytest.mark.parametrize("powers", ["all", "none"])
def test_root_without_its_powers_is_kept_out_by_modes(place, powers):
    """As in a container that was given none of them."""
    (place.root / "shut").mkdir(mode=0o555)
    words = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if powers == "none" else []
    words += [sys.executable, "-c", MAKING, place.root / "shut" / "f"]
    told = subprocess.run([*map(str, words)], capture_output=True, check=True).stdout.split()
    assert told == [b"True" if powers == "none" else b"False"] * 2


PR_SET_DUMPABLE = 4  # linux/prctl.h: /proc/self is closed to a process that changed its user


def _as_another_user(place):
    os.chdir(place.root)
    os.setgid(12345)
    os.setuid(12345)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)
    place.root, place.state = ".", "../state"

    async def look():
        fs = place.open(containment="require-kernel")
        await fs.write("shared/f", b"x")
        refused = 0
        for call in (fs.read("locked/f"), fs.write("locked/f", b"x"), fs.write("f", b"x")):
            try:
                await call
            except PermissionDenied:
                refused += 1
        await fs.aclose()
        return 0 if refused == 3 else 1

    try:
        return asyncio.run(look())
    except BaseException:
        traceback.print_exc()
        return 2
