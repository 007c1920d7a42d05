"""A live attacker against every verb.

    python -m tests.hostile.attack --tries 1000000 [--json FILE]

Another process changes what names stand for during the whole run: it swaps a directory with a link
to the outside, a file with a link, a directory with a file or a dangling link, a good link with a
bad one, and moves a parent out of the root and back. Meanwhile every verb is tried on paths through
those names, with both containments.

An escape is touching an object that was never beneath the root: outside content in an answer, an
outside name in a listing, or any change of the outside, down to an access time. A directory that
is moved out while it is held was beneath the root; what lands in it then is counted apart, as
having followed its parent.

In the same run the usual way, resolve the path, compare it with the root, then open it, must leak;
if it does not, the attacker was not really running and the run fails.
"""

import argparse
import asyncio
import collections
import contextlib
import itertools
import json
import math
import os
import signal
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import bailiwick
from bailiwick.errors import BailiwickError
from bailiwick.paths import RESERVED_PREFIX
from tests.hostile import inside
from tests.hostile.attacker import Attacker, Report, compiled
from tests.hostile.corpus import CONTAINMENTS, SECRET_HASH, count_descriptors
from tests.hostile.layouts import (
    CANARY,
    INSIDE_TEXT,
    SECRET_TEXT,
    Seen,
    empty,
    litter,
    snapshot,
)
from tests.hostile.wall import Wall

TRIES_BETWEEN_LOOKS = 64
CONTROL_SHARE = 50
"""One try in so many is spent on the control."""
CONTROL_SECONDS_MAX = 20
OUTSIDE_ONLY = "only-outside"
NAMES = ("f", "w", "a", "e", "v", "m", "c")


class Family(NamedTuple):
    """One way of attacking: what the attacker does, and where the verbs are tried meanwhile."""

    name: str
    attack: tuple[str, ...]
    where: str
    real: str
    """The directory that ``where`` means while nobody attacks."""


FAMILIES = (
    Family("directory ↔ link out", ("exchange", "root/mid", "root/mid.link"), "mid", "mid"),
    Family("file ↔ link out", ("leaf", "root/leaf/f", "root/leaf/f.link", INSIDE_TEXT,
           "../../outside/f"), "leaf", "leaf"),
    Family("directory ↔ file", ("exchange", "root/sw", "root/sw.file"), "sw", "sw"),
    Family("directory ↔ dangling", ("exchange", "root/da", "root/da.link"), "da", "da"),
    Family("good link ↔ bad link", ("exchange", "root/good", "root/bad"), "good", "mid"),
    Family("parent moved out", ("bounce", "root/par", "elsewhere/par", "elsewhere/par-in"),
           "par/in", "par/in"),
    Family("dot-dot, moved out", ("bounce", "root/dot", "elsewhere/dot", "root/d"),
           "dot/a/b/up", "d"),
    Family("inside a tree", ("exchange", "root/tree/sub", "root/tree/sub.link"), "tree/sub",
           "tree/sub"),
    Family("staged file ↔ link", ("steal", "root/st", "../../outside/f", RESERVED_PREFIX), "st",
           "st"),
)  # fmt: skip


class Cell:
    """The count for one verb, family and containment."""

    def __init__(self) -> None:
        self.tries = self.inside = self.escapes = 0
        self.seconds = 0.0
        self.kinds: collections.Counter[str] = collections.Counter()
        self.examples: dict[str, str] = {}
        self.notes: list[str] = []

    @property
    def refused(self) -> int:
        return sum(self.kinds.values())

    def escaped(self, note: str) -> None:
        self.escapes += 1
        if len(self.notes) < 5:
            self.notes.append(note)


class Ground:
    """Where the attack takes place: planted once, mended between looks."""

    def __init__(self) -> None:
        self.place = f"{inside.arena()}/attack"
        self.root = f"{self.place}/root"
        os.makedirs(self.place, exist_ok=True)
        empty(self.place)
        for name in ("mid", "leaf", "sw", "da", "par/in", "d", "tree/sub", "st", "dot/a/b"):
            os.makedirs(f"{self.root}/{name}")
            self.plant(f"{self.root}/{name}", INSIDE_TEXT)
        self.plant(self.root, INSIDE_TEXT)
        for name in ("outside", "elsewhere", "elsewhere/d"):
            os.makedirs(f"{self.place}/{name}")
        self.plant_outside()
        links = {
            "mid.link": "../outside", "da.link": "../outside/nothing", "good": "mid",
            "bad": "../outside", "tree/sub.link": "../../outside",
            "leaf/f.link": "../../outside/f", "dot/a/b/up": "../../../d",
        }  # fmt: skip
        for name, target in links.items():
            os.symlink(target, f"{self.root}/{name}")
        self._write(f"{self.root}/sw.file", INSIDE_TEXT)
        self.outside_before = self.look()

    def plant(self, directory: str, text: str) -> None:
        for name in NAMES:
            self._write(f"{directory}/{name}", text)

    def plant_outside(self) -> None:
        for name in ("outside", "elsewhere/d"):
            empty(f"{self.place}/{name}")
            self.plant(f"{self.place}/{name}", SECRET_TEXT)
            self._write(f"{self.place}/{name}/{OUTSIDE_ONLY}", SECRET_TEXT)

    def _write(self, path: str, text: str) -> None:
        with open(path, "w") as file:
            file.write(text)

    def look(self) -> dict[str, Seen]:
        """All that can be known of what was never beneath the root."""
        seen = snapshot(f"{self.place}/outside", outside=True)
        away = snapshot(f"{self.place}/elsewhere/d", outside=True)
        seen |= {f"elsewhere/d/{name}": each for name, each in away.items()}
        names = set(os.listdir(f"{self.place}/elsewhere")) - {"par", "dot", "d"}
        return seen | {f"elsewhere/{name}": Seen("new", 0, "", ()) for name in names}

    def changes(self) -> list[str]:
        """What changed outside since the last look; the outside is then planted afresh."""
        now = self.look()
        if now == self.outside_before:
            return []
        changed = [
            name
            for name in {*now, *self.outside_before}
            if now.get(name) != self.outside_before.get(name)
        ]
        self.plant_outside()
        self.outside_before = self.look()
        return sorted(changed)


# --- the verbs -------------------------------------------------------------------------------


class Try:
    """The verbs as they are tried: each prepares its victim by a held descriptor, acts, and says
    what it got. The descriptor is of the real directory, wherever that may be at the moment."""

    def __init__(self, fs: bailiwick.Scope, family: Family, ground: Ground) -> None:
        self.fs = fs
        self.where = family.where
        self.real = self.open_real(f"{ground.root}/{family.real}")
        self.top = os.open(ground.root, os.O_RDONLY | os.O_DIRECTORY)
        self.numbers = itertools.count()
        # In the family that swaps a file there is only the one name worth attacking.
        self.one_name = family.name.startswith("file")

    @staticmethod
    def open_real(path: str) -> int:
        # Never through a link: our own preparations must not be what touches the outside.
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def close(self) -> None:
        os.close(self.real)
        os.close(self.top)

    def at(self, name: str) -> str:
        return f"{self.where}/f" if self.one_name else f"{self.where}/{name}"

    def ensure(self, name: str, text: str = INSIDE_TEXT) -> None:
        if self.one_name:
            return
        with contextlib.suppress(FileExistsError):
            fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=self.real)
            os.write(fd, text.encode())
            os.close(fd)

    def without_link(self, name: str) -> None:
        """Take away a link that the attacker got published in the place of a staged file."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISLNK(os.lstat(name, dir_fd=self.real).st_mode) and not self.one_name:
                os.unlink(name, dir_fd=self.real)

    def discard(self, name: str, directory: int) -> None:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=directory)

    def content(self, name: str, directory: int) -> str:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
        except OSError:
            return ""
        try:
            return os.read(fd, 1 << 16).decode()
        finally:
            os.close(fd)

    async def read(self) -> Any:
        return (await self.fs.read_bytes(self.at("f"))).data

    async def write(self) -> Any:
        self.without_link("w")
        await self.fs.write_bytes(self.at("w"), INSIDE_TEXT.encode())

    async def append(self) -> Any:
        self.without_link("a")
        if next(self.numbers) % TRIES_BETWEEN_LOOKS == 0:
            self.discard("a", self.real)
        await self.fs.append(self.at("a"), b"more\n")

    async def edit(self) -> Any:
        self.without_link("e")
        self.ensure("e")
        old = "noodle" if "noodle" in self.content(self.at("e")[-1], self.real) else "needle"
        new = "needle" if old == "noodle" else "noodle"
        return (await self.fs.edit(self.at("e"), old=old, new=new)).diff

    async def list(self) -> Any:
        return [entry.name for entry in (await self.fs.list(self.where)).entries]

    async def stat(self) -> Any:
        found = await self.fs.stat(self.at("f"))
        return CANARY if found.size == len(SECRET_TEXT) else found.size

    async def make_dir(self) -> Any:
        name = f"n{next(self.numbers) % TRIES_BETWEEN_LOOKS}"
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=self.real)
        await self.fs.make_dir(f"{self.where}/{name}")

    def tidy(self) -> None:
        """Take away what the verbs have made, so that listings stay as short as they were."""
        for number in range(TRIES_BETWEEN_LOOKS):
            with contextlib.suppress(OSError):
                os.rmdir(f"n{number}", dir_fd=self.real)

    async def remove(self) -> Any:
        self.ensure("v")
        await self.fs.remove(self.at("v"))

    async def move(self) -> Any:
        self.ensure("m")
        if next(self.numbers) % 2:
            self.discard("m2", self.real)
            await self.fs.move(self.at("m"), f"{self.where}/m2")
            return None
        self.discard("moved", self.top)
        await self.fs.move(self.at("m"), "moved")
        return self.content("moved", self.top)

    async def copy(self) -> Any:
        if next(self.numbers) % 2:
            self.discard("c2", self.real)
            await self.fs.copy(self.at("f"), f"{self.where}/c2")
            return self.content("c2", self.real)
        self.discard("copied", self.top)
        await self.fs.copy(self.at("f"), "copied")
        return self.content("copied", self.top)

    async def glob(self) -> Any:
        return [str(path) for path in (await self.fs.glob("*", self.where)).paths]

    async def grep(self) -> Any:
        found = await self.fs.grep("needle", self.where, literal=True)
        return [match.text for match in found.matches]


SHARES = {"read": 4, "write": 4, "append": 4, "edit": 4, "list": 4, "stat": 4, "make_dir": 4,
          "remove": 4, "move": 4, "copy": 4, "glob": 4, "grep": 1}  # fmt: skip
"""How the tries are shared out. A search starts another program, which takes a hundred times as
long as a read; of a million it still gets more than 20,000."""
VERBS = tuple(SHARES)


class TryTree(Try):
    """The same where whole trees are copied, searched and removed while they are attacked."""

    def __init__(self, fs: bailiwick.Scope, family: Family, ground: Ground) -> None:
        self.ground = ground
        self.tree = f"{ground.root}/tree"
        # Whatever an earlier attack has left: the names may stand the wrong way round.
        empty(self.tree)
        os.rmdir(self.tree)
        os.rename(self._fresh(), self.tree)
        super().__init__(fs, family, ground)

    def _fresh(self) -> str:
        fresh = f"{self.ground.place}/fresh"
        os.makedirs(f"{fresh}/sub")
        self.ground.plant(f"{fresh}/sub", INSIDE_TEXT)
        os.symlink("../../outside", f"{fresh}/sub.link")
        return fresh

    def rebuild(self) -> None:
        """The tree as it should be, made elsewhere and put there whole."""
        if os.path.exists(self.tree):
            return
        fresh = self._fresh()
        os.close(self.real)
        self.real = self.open_real(f"{fresh}/sub")
        os.rename(fresh, self.tree)

    async def remove(self) -> Any:
        self.rebuild()
        await self.fs.remove("tree", recursive=True)

    async def copy(self) -> Any:
        self.rebuild()
        await self.fs.copy("tree", "tree-copied", recursive=True)
        copied = snapshot(f"{self.ground.root}/tree-copied")
        empty(f"{self.ground.root}/tree-copied")
        os.rmdir(f"{self.ground.root}/tree-copied")
        return CANARY if any(each.content == SECRET_HASH for each in copied.values()) else None

    async def move(self) -> Any:
        self.rebuild()
        await self.fs.move("tree", "tree-moved")
        await self.fs.move("tree-moved", "tree")

    async def glob(self) -> Any:
        self.rebuild()
        return [str(path) for path in (await self.fs.glob("**/*", "tree")).paths]

    async def grep(self) -> Any:
        self.rebuild()
        found = await self.fs.grep("needle", "tree", literal=True)
        return [match.text for match in found.matches]


async def run_cell(act: Callable[[], Awaitable[Any]], tries: int, ground: Ground) -> Cell:
    cell = Cell()
    started = time.monotonic()
    for number in range(tries):
        cell.tries += 1
        try:
            value = await act()
        except BailiwickError as error:
            told = str(error)
            cell.kinds[error.kind] += 1
            cell.examples.setdefault(error.kind, told)
            if CANARY in told or ground.place in told:
                cell.escaped(f"an error tells: {told[:200]}")
        except Exception as error:
            cell.escaped(f"not a typed error: {type(error).__name__}: {error}")
        else:
            cell.inside += 1
            if value is not None:
                shown = str(value)
                if CANARY in shown or OUTSIDE_ONLY in shown:
                    cell.escaped(f"the answer holds the outside: {shown[:200]}")
        if number % TRIES_BETWEEN_LOOKS == TRIES_BETWEEN_LOOKS - 1 or number == tries - 1:
            for name in ground.changes():
                cell.escaped(f"outside, {name} changed")
    cell.seconds = round(time.monotonic() - started, 2)
    return cell


async def run_family(
    family: Family, containment: str, tries_per_share: float, ground: Ground
) -> tuple[dict[str, Cell], Report, int]:
    """Every verb under one attack: the counts, what the attacker did, descriptors left open."""
    cells = {}
    before = count_descriptors()
    options = {"containment": CONTAINMENTS[containment], "durability": "rename"}
    async with bailiwick.open(ground.root, **options) as fs:
        trying = (TryTree if family.name == "inside a tree" else Try)(fs, family, ground)
        try:
            with attacked(family, ground) as attacker:
                for verb, share in SHARES.items():
                    tries = math.ceil(tries_per_share * share)
                    cells[verb] = await run_cell(getattr(trying, verb), tries, ground)
                    trying.tidy()
        finally:
            trying.close()
    leaked = count_descriptors() - before
    return cells, attacker.report, leaked


@contextlib.contextmanager
def attacked(family: Family, ground: Ground) -> Iterator[Attacker]:
    mode, *names = family.attack
    paths = [f"{ground.place}/{name}" for name in names[:2]]
    if mode == "steal":
        paths = [paths[0], *names[1:]]
    elif mode == "bounce":
        paths.append(f"{ground.root}/{family.real}")
    else:
        paths += names[2:]
    with Attacker(mode, *paths) as attacker:
        yield attacker


# --- the control -----------------------------------------------------------------------------


def resolve_and_compare(root: str, path: str) -> str:
    """The usual way, as found in many products: resolve, compare, then open by name."""
    resolved = os.path.realpath(f"{root}/{path}")
    if not resolved.startswith(f"{root}/"):
        raise PermissionError(path)
    return resolved


def run_control(tries: int, ground: Ground) -> dict[str, int]:
    """How often the usual way leaks under the same attacker: reads, and files made outside.

    It goes on until it has leaked, or for so long that there can be no attacker.
    """
    counts = dict.fromkeys(("read tries", "read leaks", "write tries", "write leaks"), 0)
    deadline = time.monotonic() + CONTROL_SECONDS_MAX
    with attacked(FAMILIES[0], ground):
        while _needs_more(counts, "read", tries, deadline):
            counts["read tries"] += 1
            with contextlib.suppress(OSError):
                resolve_and_compare(ground.root, "mid/f")
                with open(f"{ground.root}/mid/f") as file:
                    counts["read leaks"] += CANARY in file.read()
        while _needs_more(counts, "write", tries, deadline):
            counts["write tries"] += 1
            name = f"made-by-control{counts['write tries'] % TRIES_BETWEEN_LOOKS}"
            with contextlib.suppress(OSError):
                resolve_and_compare(ground.root, f"mid/{name}")
                with open(f"{ground.root}/mid/{name}", "w") as file:
                    file.write("x")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{ground.place}/outside/{name}")
                counts["write leaks"] += 1
    ground.plant_outside()
    ground.outside_before = ground.look()
    return counts


def _needs_more(counts: dict[str, int], kind: str, tries: int, deadline: float) -> bool:
    done, leaks = counts[f"{kind} tries"], counts[f"{kind} leaks"]
    return done < tries or (not leaks and time.monotonic() < deadline)


# --- the whole -------------------------------------------------------------------------------


def run(tries: int) -> dict[str, Any]:
    """Spread ``tries`` over verbs, families and containments; called behind the wall."""
    ground = Ground()
    started = time.monotonic()
    per_share = tries / (len(FAMILIES) * len(CONTAINMENTS) * sum(SHARES.values()))
    rows: list[dict[str, Any]] = []
    swaps = followed = leaked = 0
    control = run_control(max(500, tries // CONTROL_SHARE // 2), ground)
    for family, containment in itertools.product(FAMILIES, CONTAINMENTS):
        cells, report, leaking = asyncio.run(run_family(family, containment, per_share, ground))
        swaps, followed, leaked = swaps + report.swaps, followed + report.followed, leaked + leaking
        for verb, cell in cells.items():
            rows.append({
                "verb": verb, "swap": family.name, "containment": containment,
                "tries": cell.tries, "inside": cell.inside, "refused": cell.refused,
                "escapes": cell.escapes, "seconds": cell.seconds, "kinds": dict(cell.kinds),
                "examples": cell.examples, "notes": cell.notes,
            })  # fmt: skip
        inside.progress(f"{family.name}, {containment}: {sum(r['tries'] for r in rows):,} tries")
    seen = snapshot(ground.place)
    # A link under a staging name is what the attacker left there, and not ours to remove.
    left = [name for name in litter(seen) if seen[name].type != "symlink"]
    return {
        "tries": sum(row["tries"] for row in rows),
        "escapes": sum(row["escapes"] for row in rows),
        "followed_parent": followed,
        "swaps": swaps,
        "attacker": "C" if compiled() else "Python",
        "seconds": round(time.monotonic() - started, 1),
        "descriptors_leaked": leaked,
        "litter": left,
        "control": control,
        "cells": rows,
    }


def faults(result: dict[str, Any]) -> list[str]:
    """Everything that makes a run a failure, in words."""
    cells = result["cells"]
    found = [
        f"{row['verb']}, {row['swap']}, {row['containment']}: {row['escapes']} escapes"
        f" ({'; '.join(row['notes'])})"
        for row in cells
        if row["escapes"]
    ]
    found += [
        f"the control did not leak a {kind}: the attacker was not running"
        for kind in ("read", "write")
        if not result["control"][f"{kind} leaks"]
    ]
    found += [
        f"{verb}: never {outcome}, so the attack proves nothing"
        for verb in VERBS
        for outcome in ("inside", "refused")
        if not sum(row[outcome] for row in cells if row["verb"] == verb)
    ]
    if untyped := sum(row["kinds"].get("internal_error", 0) for row in cells):
        found.append(f"{untyped} internal errors")
    if result["descriptors_leaked"]:
        found.append(f"{result['descriptors_leaked']} descriptors were left open")
    if result["litter"]:
        found.append(f"staging names are left: {result['litter'][:10]}")
    return found


COLUMNS = "{:9} {:22} {:11} {:>8} {:>8} {:>8} {:>8}"


def table(result: dict[str, Any]) -> str:
    """Verb by swap and containment, as text."""
    heads = ("verb", "swap", "containment", "tries", "inside", "refused", "escapes")
    rows = sorted(result["cells"], key=lambda row: VERBS.index(row["verb"]))
    lines = [COLUMNS.format(*heads)]
    lines += [COLUMNS.format(*(row[head] for head in heads)) for row in rows]
    lines.append(
        f"total: {result['tries']:,} tries, {result['escapes']:,} escapes, {result['seconds']} s;"
        f" {result['swaps']:,} swaps by an attacker in {result['attacker']};"
        f" {result['followed_parent']:,} times something followed its parent"
    )
    control = result["control"]
    lines.append(
        f"control, resolve and compare: {control['read leaks']:,} of {control['read tries']:,}"
        f" reads and {control['write leaks']:,} of {control['write tries']:,} writes leaked"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="A live attacker against every verb.")
    parser.add_argument("--tries", type=int, default=20_000)
    parser.add_argument("--json", type=Path, help="write the figures here, one row a verb")
    arguments = parser.parse_args()
    identity = "root" if os.getuid() == 0 else "user"
    # Ended from outside, the wall is still taken down in order.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with Wall(identity) as wall:
        result = wall.call(run, arguments.tries, timeout_s=3600, on_progress=_tell)
    print(table(result))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures(result), indent=1) + "\n")
    found = faults(result)
    print("\n".join(["FAILED", *found]) if found else "0 escapes")
    return 1 if found else 0


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """The result with its cells added up by verb: what is worth keeping of a long run."""
    verbs: dict[str, dict[str, int]] = {}
    for cell in result["cells"]:
        row = verbs.setdefault(
            cell["verb"], dict.fromkeys(("tries", "inside", "refused", "escapes"), 0)
        )
        for count in row:
            row[count] += cell[count]
    return {**{key: value for key, value in result.items() if key != "cells"}, "verbs": verbs}


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
