"""Archives that attack whoever unpacks them, and the proof that they do.

Every function here runs behind the wall. A control unpacks the same archive as careless programs
do, in the arena, and must come to harm: it writes to, reads or links what lies outside, or unpacks
without end.
"""

import asyncio
import contextlib
import gzip
import io
import os
import random
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import bailiwick
from bailiwick.errors import BailiwickError
from tests.archives.support import file, member, pack, tar_of, zip_info, zip_of
from tests.hostile import inside
from tests.hostile.attacker import Attacker
from tests.hostile.corpus import CONTAINMENTS
from tests.hostile.layouts import CANARY, Layout, difference, litter, snapshot

PWNED = b"written by the archive\n"

LINK = {"type": tarfile.SYMTYPE}
HARD = {"type": tarfile.LNKTYPE}
CONTIGUOUS = {"type": tarfile.CONTTYPE}


def new_layout() -> Layout:
    layout = Layout(f"{inside.arena()}/case", lambda made: None, ())
    layout.reset()
    return layout


# --- careless programs ------------------------------------------------------------------------


def trusting_tar(data: bytes, to: str) -> None:
    """As tar was unpacked before there were filters."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(to, filter="fully_trusted")


def resolving_tar(data: bytes, to: str) -> None:
    """As careful programs do it by name: resolve every path and every link, and compare."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for info in archive:
            path = os.path.join(to, info.name)
            leads_to = os.path.join(os.path.dirname(path), info.linkname) if info.issym() else path
            if not f"{os.path.realpath(leads_to)}/".startswith(f"{to}/"):
                continue
            if info.issym():
                os.symlink(info.linkname, path)
            elif info.isdir():
                os.mkdir(path)
            else:
                content = archive.extractfile(info)
                assert content is not None
                with open(path, "wb") as target:
                    target.write(content.read())


def joining_zip(data: bytes, to: str) -> None:
    """As programs do that write their own loop: join the name to the directory, and open it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            path = os.path.join(to, info.filename)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if stat.S_ISLNK(info.external_attr >> 16):
                os.symlink(archive.read(info), os.fsencode(path))
                continue
            with open(path, "wb") as target:
                target.write(archive.read(info))


# --- attacks ----------------------------------------------------------------------------------


class Attack(NamedTuple):
    """One archive. ``control`` unpacks it carelessly; ``harm`` says whether that did harm."""

    build: Callable[[Layout], bytes]
    kinds: tuple[str, ...]
    control: Callable[[bytes, str], None] | None = None
    no_control: str = ""
    harm: str = "outside"


def _tar(*members: Any) -> Callable[[Layout], bytes]:
    def build(layout: Layout) -> bytes:
        spelled = []
        for info, content in members:
            info.name, info.linkname = layout.spell(info.name), layout.spell(info.linkname)
            spelled.append((info, content))
        return tar_of(*spelled)

    return build


def _zip(*members: Any) -> Callable[[Layout], bytes]:
    def build(layout: Layout) -> bytes:
        return zip_of(
            *((zip_info(layout.spell(name), mode), layout.spell(content.decode()).encode())
              for name, mode, content in members)
        )  # fmt: skip

    return build


def outgrowing(layout: Layout) -> bytes:
    """A path that is short by its links and longer than PATH_MAX without them: whoever resolves it
    by name gives up half way, and takes the rest for plain names."""
    long, path, members = "d" * 247, "", []
    steps = "abcdefghijklmnop"
    for step in steps:
        members.append(member(f"{path}{long}", type=tarfile.DIRTYPE, mode=0o755))
        members.append(member(f"{path}{step}", linkname=long, **LINK))
        path += f"{long}/"
    inner = "/".join(steps) + "/" + "l" * 254
    members.append(member(inner, linkname="../" * len(steps), **LINK))
    members.append(member("escape", linkname=f"{inner}/../../outside", **LINK))
    members.append(member("escape/pwned", PWNED))
    return tar_of(*members)


CLIMB = ("path_outside_workspace",)
FILE = 0o100644
SYMLINK = 0o120777
ON_WINDOWS = "a backslash or a drive letter leads somewhere on Windows only"

ATTACKS: dict[str, Attack] = {
    "tar climbs": Attack(_tar(member("../../outside/pwned", PWNED)), CLIMB, trusting_tar),
    "tar goes down and climbs": Attack(
        _tar(member("d/", type=tarfile.DIRTYPE), member("d/../../../outside/pwned", PWNED)),
        CLIMB, trusting_tar),
    "tar climbs by dots": Attack(
        _tar(member("./.././../outside/pwned", PWNED)), ("path_outside_workspace", "parse_error"),
        trusting_tar),
    "tar climbs to a sibling": Attack(
        _tar(member("../../root-evil/pwned", PWNED)), CLIMB, trusting_tar, harm="sibling"),
    "tar is absolute": Attack(_tar(member("{outside}/pwned", PWNED)), CLIMB, trusting_tar),
    "tar overwrites": Attack(_tar(member("../../outside/secret", PWNED)), CLIMB, trusting_tar),
    "tar makes a directory": Attack(
        _tar(member("../../outside/made", type=tarfile.DIRTYPE, mode=0o777)), CLIMB, trusting_tar),
    "tar backslashes": Attack(
        _tar(member("..\\..\\outside\\pwned", PWNED)), CLIMB, no_control=ON_WINDOWS),
    "tar drive": Attack(_tar(member("C:pwned", PWNED)), CLIMB, no_control=ON_WINDOWS),
    "tar share": Attack(_tar(member("\\\\server\\x", PWNED)), CLIMB, no_control=ON_WINDOWS),
    "tar link, then through it": Attack(
        _tar(member("l", linkname="../../outside", **LINK), member("l/pwned", PWNED)),
        ("symlink_escape",), trusting_tar),
    "tar absolute link, then through it": Attack(
        _tar(member("l", linkname="{outside}", **LINK), member("l/pwned", PWNED)),
        ("symlink_escape",), trusting_tar),
    "tar link through a link": Attack(
        _tar(member("a", linkname=".", **LINK), member("l", linkname="a/../../outside", **LINK),
             member("l/pwned", PWNED)),
        ("symlink_escape",), trusting_tar),
    "tar link, then a file over it": Attack(
        _tar(member("a", linkname="../../outside/secret", **LINK), member("a", PWNED)),
        ("symlink_escape", "parse_error"), trusting_tar),
    "tar inner link, then a file over it": Attack(
        _tar(member("b", b"x"), member("a", linkname="b", **LINK), member("a", PWNED)),
        ("parse_error",), no_control="inside the destination nothing is gained"),
    "tar link to read by": Attack(
        _tar(member("l", linkname="../../outside/secret", **LINK)), ("symlink_escape",),
        trusting_tar, harm="read"),
    "tar hard link to read by": Attack(
        _tar(member("h", linkname="../../outside/secret", **HARD)), CLIMB, trusting_tar,
        harm="read"),
    "tar hard link, then a file over it": Attack(
        _tar(member("h", linkname="{outside}/secret", **HARD), member("h", PWNED)),
        CLIMB, trusting_tar),
    "tar hard link to a link": Attack(
        _tar(member("l", linkname="../../outside/secret", **LINK),
             member("h", linkname="l", **HARD)),
        ("symlink_escape",), trusting_tar, harm="read"),
    "tar contiguous file climbs": Attack(
        _tar(member("../../outside/pwned", PWNED, **CONTIGUOUS)), CLIMB, trusting_tar),
    "tar contiguous file is absolute": Attack(
        _tar(member("{outside}/secret", PWNED, **CONTIGUOUS)), CLIMB, trusting_tar),
    "tar link, then a contiguous file through it": Attack(
        _tar(member("l", linkname="../../outside", **LINK),
             member("l/pwned", PWNED, **CONTIGUOUS)),
        ("symlink_escape",), trusting_tar),
    "tar link, then a contiguous file over it": Attack(
        _tar(member("a", linkname="../../outside/secret", **LINK),
             member("a", PWNED, **CONTIGUOUS)),
        ("symlink_escape", "parse_error"), trusting_tar),
    "tar hard link, then a contiguous file over it": Attack(
        _tar(member("h", linkname="{outside}/secret", **HARD),
             member("h", PWNED, **CONTIGUOUS)),
        CLIMB, trusting_tar),
    "tar outgrows PATH_MAX": Attack(outgrowing, ("parse_error", "symlink_escape"), resolving_tar),
    "tar fifo": Attack(
        _tar(member("fifo", type=tarfile.FIFOTYPE)), ("not_a_regular_file",), trusting_tar,
        harm="special"),
    "tar character device": Attack(
        _tar(member("zero", type=tarfile.CHRTYPE, devmajor=1, devminor=5)),
        ("not_a_regular_file",), no_control="behind the wall nobody can make devices"),
    "tar block device": Attack(
        _tar(member("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0)),
        ("not_a_regular_file",), no_control="behind the wall nobody can make devices"),
    "tar twice": Attack(
        _tar(member("a", b"seen by one"), member("a", b"seen by the other")), ("parse_error",),
        no_control="what is gained is that two programs see two contents"),
    "tar staging name": Attack(
        _tar(member(".bailiwick~0123456789ab-0/x", b"x")), ("parse_error",),
        no_control="the name means something to us only"),
    "zip climbs": Attack(_zip(("../../outside/pwned", FILE, PWNED)), CLIMB, joining_zip),
    "zip goes down and climbs": Attack(
        _zip(("d/../../../outside/pwned", FILE, PWNED)), CLIMB, joining_zip),
    "zip is absolute": Attack(_zip(("{outside}/pwned", FILE, PWNED)), CLIMB, joining_zip),
    "zip link, then through it": Attack(
        _zip(("l", SYMLINK, b"../../outside"), ("l/pwned", FILE, PWNED)), ("symlink_escape",),
        joining_zip),
    "zip absolute link, then through it": Attack(
        _zip(("l", SYMLINK, b"{outside}"), ("l/pwned", FILE, PWNED)), ("symlink_escape",),
        joining_zip),
    "zip link to read by": Attack(
        _zip(("l", SYMLINK, b"../../outside/secret")), ("symlink_escape",), joining_zip,
        harm="read"),
    "zip backslashes": Attack(
        _zip(("..\\..\\outside\\pwned", FILE, PWNED)), CLIMB, no_control=ON_WINDOWS),
}  # fmt: skip


def _did_harm(kind: str, layout: Layout, before: dict[str, Any], to: str) -> bool:
    if kind == "sibling":
        return os.path.exists(f"{layout.place}/root-evil/pwned")
    if kind == "outside":
        return snapshot(layout.outside, outside=True) != before
    for folder, directories, files in os.walk(to):
        for name in (*directories, *files):
            path = f"{folder}/{name}"
            if kind == "special" and stat.S_ISFIFO(os.lstat(path).st_mode):
                return True
            if kind == "read" and os.path.isfile(path):
                with open(path) as found:
                    if CANARY in found.read():
                        return True
    return False


def control(name: str) -> None:
    """A careless program comes to harm, or it is said why there is nothing to gain."""
    attack = ATTACKS[name]
    if attack.control is None:
        assert attack.no_control, "an attack without a control says why"
        return
    layout = new_layout()
    data = attack.build(layout)
    before = snapshot(layout.outside, outside=True)
    to = layout.directory("out")
    # It may stumble after the harm is done.
    with contextlib.suppress(OSError, tarfile.TarError):
        attack.control(data, to)
    try:
        assert _did_harm(attack.harm, layout, before, to), "the attack is none"
    finally:
        assert to.startswith(f"{inside.arena()}/")
        shutil.rmtree(to)  # by descriptors: some of it lies deeper than a path can say


# --- ours -------------------------------------------------------------------------------------


class Watched:
    """A layout of which nothing but what is allowed may change."""

    def __init__(self) -> None:
        self.layout = new_layout()
        os.mkdir(f"{self.layout.root}/into")
        self.outside = snapshot(self.layout.outside, outside=True)
        self.sibling = snapshot(f"{self.layout.place}/root-evil", outside=True)

    def check_outside(self) -> None:
        now = snapshot(self.layout.outside, outside=True)
        assert now == self.outside, difference(self.outside, now)
        assert snapshot(f"{self.layout.place}/root-evil", outside=True) == self.sibling

    def tree(self) -> dict[str, Any]:
        seen = snapshot(self.layout.root)
        assert litter(seen) == [], f"left lying about: {litter(seen)}"
        return {
            name: (each.type, each.mode, each.content)
            for name, each in seen.items()
            if name != "archive"
        }


def containments() -> list[str]:
    bare = inside.identity() == "bare"
    return [option for name, option in CONTAINMENTS.items() if not (bare and name == "kernel")]


async def _error_of(verb: Awaitable[Any]) -> BailiwickError | None:
    try:
        await verb
    except BailiwickError as error:
        return error
    return None


async def _refused(fs: Any, data: bytes, watched: Watched, kinds: tuple[str, ...], to: str) -> None:
    await fs.write_bytes("archive", data)
    before = watched.tree()
    error = await _error_of(fs.extract_archive("archive", to, overwrite=True))
    assert error is not None, "it was unpacked"
    assert error.kind in kinds, f"{error.kind}: {error}"
    assert watched.layout.place not in str(error), "an error names a place of the host"
    watched.check_outside()
    assert watched.tree() == before, "something was made"


async def _attack(name: str) -> None:
    attack = ATTACKS[name]
    watched = Watched()
    data = attack.build(watched.layout)
    for containment in containments():
        options = {"containment": containment, "durability": "rename"}
        async with bailiwick.open(watched.layout.root, **options) as fs:
            for to in ("out", "into", "."):
                await _refused(fs, data, watched, attack.kinds, to)


def attacked(name: str) -> None:
    asyncio.run(_attack(name))


# --- bombs ------------------------------------------------------------------------------------

GIB_OF_ZEROS = 10


def gzip_bomb() -> bytes:
    info = tarfile.TarInfo("zeros")
    info.size = GIB_OF_ZEROS << 30
    mebibyte = gzip.compress(bytes(1 << 20))
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT)) + mebibyte * (GIB_OF_ZEROS << 10)


def quoting_bomb(entries: int = 250) -> bytes:
    """Entries that quote each other: the packed zeros at the end belong to all of them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(1 << 20)
    kernel = packer.compress(zeros) + packer.flush()
    name = b"%04d"
    local = struct.pack("<4s2B4HL2L2H", b"PK\3\4", 20, 0, 0, 8, 0, 0x21, zlib.crc32(zeros),
                        len(kernel), len(zeros), 4, 0) + name % 0  # fmt: skip
    body, directory = local + kernel, b""
    for number in range(entries):
        directory += struct.pack(
            "<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 8, 0, 0x21, zlib.crc32(zeros),
            len(kernel), len(zeros), 4, 0, 0, 0, 0, FILE << 16, 0,
        ) + name % number  # fmt: skip
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, entries, entries, len(directory), len(body), 0)
    return body + directory + end


def nested_bomb(levels: int = 4, width: int = 8) -> bytes:
    """A zip of zips of zips, as 42.zip is."""
    inner = zip_of(("zeros", bytes(500_000)))
    for _ in range(levels):
        inner = zip_of(*((f"{number}.zip", inner) for number in range(width)))
    return inner


def bombs_are_bombs() -> None:
    """What a careless program unpacks is thousands of times what it was given."""
    data = gzip_bomb()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        content = archive.extractfile(archive.next())
        assert content is not None
        unpacked = sum(len(content.read(1 << 20)) for _ in range(64))
    assert unpacked == 64 << 20
    quoting = quoting_bomb()
    with zipfile.ZipFile(io.BytesIO(quoting)) as archive:
        total = sum(info.file_size for info in archive.infolist())
    assert total > 10_000 * len(quoting)


async def _bombs() -> None:
    watched = Watched()
    async with bailiwick.open(watched.layout.root, durability="rename") as fs:
        await _refused(fs, gzip_bomb(), watched, ("file_too_large",), "out")
        await _refused(fs, quoting_bomb(), watched, ("parse_error", "file_too_large"), "out")
        lying = tar_of(member("a", b"x" * 100))
        huge = lying[:124] + b"\x80" + b"\xff" * 11 + lying[136:]
        total = sum(huge[:148]) + 8 * 0x20 + sum(huge[156:512])
        huge = huge[:148] + b"%06o\0 " % total + huge[156:]
        await _refused(fs, huge, watched, ("file_too_large",), "out")
        many = pack("tar.gz", [file(f"f{number}") for number in range(10_001)])
        await _refused(fs, many, watched, ("file_too_large",), "out")
        deep = pack("tar", [file("/".join(["d"] * 70))])
        await _refused(fs, deep, watched, ("parse_error",), "out")
        wide = pack("tar", [file("/".join([f"{n}-{m}" for m in range(60)])) for n in range(200)])
        await _refused(fs, wide, watched, ("file_too_large",), "out")
        await fs.write_bytes("archive", nested_bomb())
        result = await fs.extract_archive("archive", "nested")
        assert (result.files, result.directories) == (8, 0)
        assert result.bytes < 100_000, "an archive in an archive was opened"
    watched.check_outside()


def bombs() -> None:
    asyncio.run(_bombs())


# --- damage -----------------------------------------------------------------------------------


def _sound(known: str) -> bytes:
    entries = [
        (bailiwick.archives.entries.ArchiveEntry("d", "directory", 0, 0o755, 10**18), b""),
        file("d/a", b"some text that can be packed, some text " * 3), file("b", b"two"),
        (bailiwick.archives.entries.ArchiveEntry("l", "symlink", 0, 0o777, 10**18, "d/a"), b""),
    ]  # fmt: skip
    return pack(known, entries)


async def _survive(fs: Any, watched: Watched, data: bytes, whole: dict[str, Any]) -> str:
    await fs.write_bytes("archive", data)
    before = watched.tree()
    error = await _error_of(fs.extract_archive("archive", "out"))
    watched.check_outside()
    if error is not None:
        assert error.kind not in ("internal_error", "io_error"), f"{error.kind}: {error}"
        assert watched.tree() == before, "something was made of a refused archive"
        return "refused"
    made = {name for name in watched.tree() if name.startswith("out")}
    await fs.remove("out", recursive=True)
    return "whole" if made == set(whole) else "other"


async def _damaged(known: str, tries: int, seed: int) -> dict[str, int]:
    watched = Watched()
    chance, counts = random.Random(seed), {"refused": 0, "whole": 0, "other": 0}
    async with bailiwick.open(watched.layout.root, durability="rename") as fs:
        data = _sound(known)
        await fs.write_bytes("archive", data)
        await fs.extract_archive("archive", "out")
        whole = {name: each for name, each in watched.tree().items() if name.startswith("out")}
        await fs.remove("out", recursive=True)
        step = max(1, len(data) // 600)
        for cut in range(0, len(data), step):
            outcome = await _survive(fs, watched, data[:cut], whole)
            assert outcome == "refused", f"cut at {cut} of {len(data)}: {outcome}"
        for _ in range(tries):
            broken = bytearray(data)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(broken))
                broken[at] ^= chance.randrange(1, 256)
            counts[await _survive(fs, watched, bytes(broken), whole)] += 1
    return counts


def damaged(known: str, tries: int, seed: int) -> dict[str, int]:
    return asyncio.run(_damaged(known, tries, seed))


# --- a live attacker --------------------------------------------------------------------------


def _swapping(layout: Layout) -> bytes:
    """A destination whose directory keeps becoming a link to the outside."""
    layout.directory("into/d")
    layout.link("into/evil", "../../outside")
    os.makedirs(f"{layout.outside}/e", exist_ok=True)
    return pack("tar", [file("d/pwned", PWNED), file("d/e/pwned", PWNED), file("x", b"x")])


async def _raced(tries: int, containment: str) -> dict[str, int]:
    layout = new_layout()
    data = _swapping(layout)
    names = set(os.listdir(layout.outside))
    counts: dict[str, int] = {}
    into = f"{layout.root}/into"
    options = {"containment": containment, "durability": "rename"}
    async with bailiwick.open(layout.root, **options) as fs:
        await fs.write_bytes("archive", data)
        with Attacker("exchange", f"{into}/d", f"{into}/evil") as attacker:
            for _ in range(tries):
                error = await _error_of(fs.extract_archive("archive", "into", overwrite=True))
                kind = "ok" if error is None else error.kind
                counts[kind] = counts.get(kind, 0) + 1
                assert set(os.listdir(layout.outside)) == names, "it was led outside"
                assert os.listdir(f"{layout.outside}/e") == [], "it was led outside"
        counts["swaps"] = attacker.report.swaps
    assert litter(snapshot(layout.root)) == []
    return counts


def raced(tries: int, containment: str) -> dict[str, int]:
    return asyncio.run(_raced(tries, CONTAINMENTS[containment]))


def raced_control(tries: int) -> bool:
    """A program that looks before it writes is led outside all the same."""
    layout = new_layout()
    _swapping(layout)
    into = f"{layout.root}/into"
    with Attacker("exchange", f"{into}/d", f"{into}/evil"):
        for _ in range(tries):
            path = f"{into}/d/pwned"
            try:
                if not os.path.realpath(os.path.dirname(path)).startswith(layout.root):
                    continue
                with open(path, "wb") as target:
                    target.write(PWNED)
            except OSError:
                continue
            if os.path.exists(f"{layout.outside}/pwned"):
                return True
    return False


# --- killed -----------------------------------------------------------------------------------

KILLED = """
import asyncio, os, signal, sys
import bailiwick
from bailiwick.stores.disk import syscalls

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with bailiwick.open(sys.argv[1], durability="rename") as fs:
        syscalls.rename_new = die
        await fs.extract_archive("archive", "out")

asyncio.run(main())
"""


async def _killed() -> None:
    watched = Watched()
    shut = bailiwick.archives.entries.ArchiveEntry("d", "directory", 0, 0o000, 10**18)
    async with bailiwick.open(watched.layout.root, durability="rename") as fs:
        await fs.write_bytes("archive", pack("tar", [(shut, b""), file("d/e/f", b"x")]))
    before = watched.tree()
    ended = subprocess.run([sys.executable, "-c", KILLED, watched.layout.root], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert litter(snapshot(watched.layout.root)), "it was killed too late to leave anything"
    async with bailiwick.open(watched.layout.root, durability="rename"):
        assert watched.tree() == before
    watched.check_outside()


def killed() -> None:
    """Killed with everything staged, directories without rights among it: the next start clears."""
    asyncio.run(_killed())
