"""Another user of the machine, against the file of a volume and its blobs.

The attacker is a plain user in a process of their own; the victim is root, who keeps a volume where
the attacker may write: a directory that is open to all, one with the sticky bit, one that is the
attacker's. Each row is first shown on the plain call, which obeys it: then Bailiwick must refuse,
and what lies outside must be as it was.

The second half is about what somebody has put into the folder of blobs: links, pipes, devices, and
objects that are not what they were.
"""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import stat
import time
from collections.abc import Callable
from typing import Any

import apsw

import bailiwick
from bailiwick.build.care import copy_volume, discard_copies
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.testing.driver import StoreDriver
from tests.hostile import inside
from tests.hostile.layouts import empty

SECONDS_MAX = 20
BIG = bytes(range(256)) * 8_000
"""2,048,000 bytes: one blob."""
OLD_NS = 3 * 24 * 3600 * 10**9


def new_place() -> str:
    place = f"{inside.arena()}/foreign-volume"
    os.makedirs(place, exist_ok=True)
    empty(place)
    os.chmod(place, 0o755)
    return place


def become_attacker() -> None:
    os.setgroups([])
    os.setresgid(inside.PLAIN_USER, inside.PLAIN_USER, inside.PLAIN_USER)
    os.setresuid(inside.PLAIN_USER, inside.PLAIN_USER, inside.PLAIN_USER)


def _as_attacker(act: Callable[[], None]) -> None:
    """Do something as another user, in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            become_attacker()
            act()
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, (
        "the attacker could not even try"
    )


async def _written(path: str, text: str) -> None:
    fs = StoreDriver(VolumeStore.open(path))
    await fs.write("f", text.encode())
    await fs.aclose()


def _plain_read(path: str) -> bytes:
    """What a program sees that opens the file of a volume and looks at nothing."""
    connection = apsw.Connection(path)
    try:
        rows = connection.execute(
            "SELECT i.data FROM dentry d JOIN inode i ON i.id = d.node WHERE d.name = 'f'"
            " ORDER BY i.born DESC"
        )
        return bytes(next(iter(rows))[0])
    finally:
        connection.close()


def _attackers_own(place: str) -> str:
    """A volume that the attacker has made, with content of theirs."""
    os.makedirs(f"{place}/own", mode=0o755)
    asyncio.run(_written(f"{place}/own/v.db", "the attacker's"))
    for folder, _, names in os.walk(f"{place}/own"):
        for each in (folder, *(f"{folder}/{name}" for name in names)):
            os.chown(each, inside.PLAIN_USER, inside.PLAIN_USER)
            os.chmod(each, 0o755 if os.path.isdir(each) else 0o644)
    return f"{place}/own/v.db"


# --- rows: what the attacker does to the volume of the victim ------------------------------------


def _replace(file: str, own: str) -> None:
    shutil.copyfile(own, f"{file}.new")
    os.chmod(f"{file}.new", 0o644)
    os.rename(f"{file}.new", file)


def _overwrite(file: str, own: str) -> None:
    with open(own, "rb") as source, open(file, "r+b") as target:
        target.write(source.read())


def _link(file: str, own: str) -> None:
    os.symlink(own, file)


def _plant_log(file: str, own: str) -> None:
    """A log that SQLite takes for what the last process has not yet moved into the database."""
    copy = f"{os.path.dirname(own)}/copy.db"
    shutil.copyfile(file, copy)
    connection = apsw.Connection(copy)
    connection.execute("PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0")
    connection.execute("UPDATE inode SET data = ?1 WHERE data IS NOT NULL", (b"the attacker's",))
    shutil.copyfile(f"{copy}-wal", f"{file}-wal")
    os.chmod(f"{file}-wal", 0o666)
    connection.close()


ROWS: dict[str, tuple[int, int, Callable[[str, str], None], bool]] = {
    "a directory that everybody may write": (0o777, 0o600, _replace, True),
    "a directory of the attacker's": (0o755, 0o600, _replace, True),
    "a file that everybody may write": (0o755, 0o666, _overwrite, True),
    "a link where the file is to be made": (0o1777, 0o600, _link, False),
    "a log beside the file": (0o1777, 0o644, _plant_log, True),
}
"""The mode of the directory, that of the file, what the attacker does, and whether the victim has
a volume there already."""


def attack_file(name: str) -> dict[str, Any]:
    mode, file_mode, act, is_there = ROWS[name]
    place = new_place()
    own, directory = _attackers_own(place), f"{place}/shared"
    os.mkdir(directory)
    file = f"{directory}/v.db"
    if is_there:
        asyncio.run(_written(file, "the victim's"))
        os.chmod(file, file_mode)
    os.chmod(directory, mode)
    if name == "a directory of the attacker's":
        os.chown(directory, inside.PLAIN_USER, inside.PLAIN_USER)
    _as_attacker(lambda: act(file, own))
    copy = f"{place}/control"
    shutil.copytree(directory, copy, symlinks=True)
    control = _plain_read(f"{copy}/v.db")
    answer = _refusal(f"sqlite:{file}")
    return {"control": control.decode(), **answer}


def _refusal(place: str | None) -> dict[str, Any]:
    async def opened() -> str:
        async with bailiwick.open(*([] if place is None else [place])) as fs:
            return (await fs.read_text("f")).text

    try:
        return {"read": asyncio.run(opened())}
    except bailiwick.BailiwickError as error:
        return {"kind": error.kind, "message": error.message, "hint": error.hint}


COPY_TARGETS = ("a link to a volume", "a link to a document", "a link to nothing", "a link beside")


def attack_copy(name: str) -> dict[str, Any]:
    """The attacker has put a link where root is about to copy a volume to."""
    place = new_place()
    shared, private = f"{place}/shared", f"{place}/private"
    os.mkdir(shared)
    os.chmod(shared, 0o1777)
    os.mkdir(private, 0o700)
    asyncio.run(_written(f"{place}/source.db", "the source's"))
    target = f"{shared}/copy.db"
    leads_to = {
        "a link to a volume": f"{private}/v.db", "a link to a document": f"{private}/report.txt",
        "a link to nothing": f"{private}/new.db", "a link beside": f"{private}/new.db",
    }[name]  # fmt: skip
    if name == "a link to a volume":
        asyncio.run(_written(leads_to, "the victim's"))
    elif name == "a link to a document":
        with open(leads_to, "wb") as document:
            document.write(b"the victim's report")
    beside = "-wal" if name == "a link beside" else ""
    _as_attacker(lambda: os.symlink(leads_to, target + beside))
    before = _all_files(private)
    answers = []
    for attempt in (
        lambda: copy_volume(f"sqlite:{place}/source.db", f"sqlite:{target}?volume=other"),
        lambda: discard_copies(f"sqlite:{target}?volume=other"),
    ):
        try:
            asyncio.run(attempt())
            answers.append("done")
        except bailiwick.BailiwickError as error:
            answers.append(error.kind)
    untouched = _all_files(private) == before
    with open(target + beside, "ab") as obeyed:  # the plain call goes where the link leads
        obeyed.write(b"!")
    control = os.path.exists(leads_to) and _all_files(private) != before
    return {"answers": answers, "untouched": untouched, "control": control}


def _all_files(directory: str) -> dict[str, bytes]:
    found = {}
    for name in sorted(os.listdir(directory)):
        with open(f"{directory}/{name}", "rb") as file:
            found[name] = file.read()
    return found


def attack_data_directory() -> dict[str, Any]:
    """The place of `bailiwick.open()`: private when it is made, refused when it is not any more."""
    place = new_place()
    own = _attackers_own(place)
    os.environ["XDG_DATA_HOME"] = place

    async def write() -> None:
        async with bailiwick.open() as fs:
            await fs.write_text("f", "the victim's")

    asyncio.run(write())
    directory = f"{place}/bailiwick"
    made = stat.S_IMODE(os.stat(directory).st_mode)
    before = _refusal(None)
    os.chmod(directory, 0o777)
    _as_attacker(lambda: _replace(f"{directory}/workspace.db", own))
    return {"made": made, "before": before, "after": _refusal(None)}


def own_and_shared_places() -> dict[str, Any]:
    """What must go on working: root's files for a plain user, links of one's own, a shared /tmp."""
    place = new_place()
    os.mkdir(f"{place}/sticky")
    os.chmod(f"{place}/sticky", 0o1777)
    os.mkdir(f"{place}/real")
    asyncio.run(_written(f"{place}/real/v.db", "the victim's"))
    os.symlink(f"{place}/real/v.db", f"{place}/linked.db")
    os.mkdir(f"{place}/group", 0o775)
    os.chmod(f"{place}/group", 0o775)
    found = {}
    for each in ("sticky/v.db", "linked.db", "group/v.db"):
        asyncio.run(_written(f"{place}/{each}", "the victim's"))
        found[each] = _refusal(f"sqlite:{place}/{each}")
    return found


# --- what was put into the folder of blobs -------------------------------------------------------


async def _with_blob(place: str) -> tuple[str, str]:
    """A volume with one blob: its file, and the path of the blob."""
    file = f"{place}/v.db"
    fs = StoreDriver(VolumeStore.open(file))
    await fs.write("f", BIG)
    await fs.write("fine", b"fine")
    await fs.aclose()
    (blob,) = [
        f"{folder}/{name}" for folder, _, names in os.walk(f"{file}-blobs") for name in names
    ]
    return file, blob


def _fifo(blob: str, _: str) -> None:
    os.unlink(blob)
    os.mkfifo(blob)


def _device(blob: str, _: str) -> None:
    os.unlink(blob)
    os.symlink("/dev/zero", blob)


def _to_secret(blob: str, secret: str) -> None:
    os.unlink(blob)
    os.symlink(secret, blob)


def _huge(blob: str, _: str) -> None:
    os.truncate(blob, 1 << 40)  # a hole: it takes no room, and would take all memory


def _directory(blob: str, _: str) -> None:
    os.unlink(blob)
    os.mkdir(blob)


def _other_bytes(blob: str, _: str) -> None:
    with open(blob, "r+b") as file:
        file.write(b"other")


OBJECTS: dict[str, Callable[[str, str], None]] = {
    "a pipe": _fifo,
    "a link to a device": _device,
    "a link to a secret": _to_secret,
    "a huge object": _huge,
    "a directory": _directory,
    "other bytes": _other_bytes,
}


def attack_object(name: str) -> dict[str, Any]:
    """Put something else in the place of a blob: reading it is an error that names the file, soon,
    and without the memory that it asks for."""
    place = new_place()
    file, blob = asyncio.run(_with_blob(place))
    secret = f"{place}/secret"
    with open(secret, "wb") as kept:
        kept.write(BIG)  # the right bytes: only a link that is followed can give them
    OBJECTS[name](blob, secret)
    control = _plain_open(blob)
    signal.alarm(SECONDS_MAX)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = asyncio.run(_read_and_collect(file))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    signal.alarm(0)
    with open(secret, "rb") as kept:
        left = kept.read() == BIG
    return {"control": control, "grown_kib": grown, "secret_is_left": left, **answer}


def _plain_open(blob: str) -> str:
    """What a plain program would meet there: how it goes without looking first."""
    status = os.stat(blob)
    if stat.S_ISFIFO(status.st_mode):
        return "waits for ever"
    if stat.S_ISDIR(status.st_mode):
        return "fails"
    with open(blob, "rb") as file:
        return "gives bytes" if file.read(16) else "fails"


async def _read_and_collect(file: str) -> dict[str, Any]:
    later = time.time_ns() + OLD_NS
    fs = StoreDriver(VolumeStore.open(file, clock_ns=lambda: later))
    try:
        try:
            answer = {"kind": "read", "path": "", "right": await fs.read("f") == BIG}
        except bailiwick.BailiwickError as error:
            answer = {"kind": error.kind, "path": str(error.path), "right": False}
        answer["fine"] = await fs.read("fine") == b"fine"
        checked = await fs.store.versions.check()
        answer["lost"] = checked.lost
        with contextlib.suppress(bailiwick.BailiwickError):
            await fs.remove("f")
            await fs.store.versions.collect(keep_days=0)
    finally:
        await fs.aclose()
    return answer


def attack_collecting() -> dict[str, Any]:
    """A link where the volume has its blobs leads to documents: collecting must not take them for
    blobs that were left over. Without the look at names and links it would delete them all."""
    place = new_place()
    file, blob = asyncio.run(_with_blob(place))
    shelf = os.path.dirname(os.path.dirname(blob))
    documents = f"{place}/documents/ab"
    os.makedirs(documents)
    likely = os.path.basename(blob)[:-1] + ("0" if blob[-1] != "0" else "1")
    for name in ("report.txt", likely):
        with open(f"{documents}/{name}", "w") as document:
            document.write("dear to somebody")
    control = sorted(os.listdir(f"{place}/documents/ab"))
    for name in ("report.txt", "left-by-somebody"):  # beside the blobs, without any link
        with open(f"{os.path.dirname(blob)}/{name}", "w") as document:
            document.write("dear to somebody")
    beside = asyncio.run(_collected(file))
    kept_beside = sorted(os.listdir(os.path.dirname(blob)))
    os.rename(shelf, f"{place}/aside")
    os.symlink(f"{place}/documents", shelf)
    walked = [name for _, _, names in os.walk(shelf) for name in names]
    linked = asyncio.run(_collected(file))
    return {
        "control": control == sorted(walked), "beside": beside, "kept_beside": kept_beside,
        "linked": linked, "kept": sorted(os.listdir(documents)) == control,
    }  # fmt: skip


async def _collected(file: str) -> str:
    later = time.time_ns() + OLD_NS
    fs = StoreDriver(VolumeStore.open(file, clock_ns=lambda: later))
    try:
        await fs.store.versions.collect(keep_days=0)
        return "done"
    except bailiwick.BailiwickError as error:
        return error.kind
    finally:
        await fs.aclose()


def attack_folder() -> dict[str, Any]:
    """Folders of blobs that are another user's, everybody's, or a link that one has planted."""
    place = new_place()
    found: dict[str, Any] = {}
    for name, mode, owner in (("theirs", 0o755, inside.PLAIN_USER), ("open", 0o777, 0)):
        os.mkdir(f"{place}/{name}")
        os.chown(f"{place}/{name}", owner, owner)
        os.chmod(f"{place}/{name}", mode)
        found[name] = _refusal(f"sqlite:{place}/v.db?blobs={place}/{name}").get("kind")
    sticky, theirs = f"{place}/sticky", f"{place}/theirs"
    os.mkdir(sticky)
    os.chmod(sticky, 0o1777)
    _as_attacker(lambda: os.symlink(theirs, f"{sticky}/v.db-blobs"))
    found["planted"] = _refusal(f"sqlite:{sticky}/v.db").get("kind")
    with open(f"{place}/through", "wb") as file:
        file.write(b"x")
    os.mkdir(f"{place}/mine")
    FolderBlobs(f"{place}/mine").put("a/b/c", [b"mine"])
    found["control"] = os.path.exists(f"{place}/mine/a/b/c")
    found["written to theirs"] = os.listdir(theirs)
    return found
