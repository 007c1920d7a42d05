"""The hostile names and links against a volume, every verb, held against memory.

A volume has no path of the host to give away: names are rows. What can still go wrong is that a
name means something else than it says, that a link inside leads somewhere, or that one verb takes
what another refuses. So every hostile path is given to every verb, on a volume and in memory, and
both must answer alike; what lies beside the database must be as it was, and nobody may have seen
what is in it.
"""

import asyncio
import os
import shutil
from typing import Any

import bailiwick
from bailiwick.testing.hostile_paths import HOSTILE_PATHS
from tests.hostile import inside
from tests.hostile.layouts import empty, snapshot
from tests.hostile.verbs import VERBS

SECRET = b"the secret beside the database\n"
LINKS = {
    "to-secret": "{outside}/secret",
    "climbing": "../outside/secret",
    "far-up": "../" * 60 + "etc/passwd",
    "to-root": "/",
    "to-above": "..",
    "round": "round",
    "there": "back",
    "back": "there",
    "dangling": "nowhere",
    "through": "to-root/d/f",
    "proc": "/proc/self/root",
}
"""Texts of links, planted inside: none of them is ever the business of the host."""


def _place() -> str:
    place = f"{inside.arena()}/hostile-volume"
    os.makedirs(place, exist_ok=True)
    empty(place)
    os.makedirs(f"{place}/outside")
    os.makedirs(f"{place}/inside")
    with open(f"{place}/outside/secret", "wb") as file:
        file.write(SECRET)
    return place


async def _planted(fs: bailiwick.Scope, outside: str) -> None:
    await fs.write_bytes("d/f", b"needle\n", parents=True)
    for name, text in LINKS.items():
        await fs.symlink(name, text.format(outside=outside))


async def _answer(fs: bailiwick.Scope, verb: str, path: str) -> Any:
    try:
        return "done", await VERBS[verb].through(fs, path)
    except bailiwick.BailiwickError as error:
        return "named the host" if "hostile-volume" in str(error) else "refused", error.kind


async def _compare(place: str, template: str, verb: str, path: str, number: int) -> list[str]:
    """One verb on one path, on a fresh copy of the volume and in memory."""
    outside, file = f"{place}/outside", f"{place}/inside/{number}.db"
    shutil.copyfile(template, file)
    try:
        async with bailiwick.open(f"sqlite:{file}") as fs, bailiwick.open("memory:") as twin:
            await _planted(twin, outside)
            here, there = await _answer(fs, verb, path), await _answer(twin, verb, path)
    finally:
        for end in ("", "-wal", "-shm"):
            if os.path.exists(file + end):
                os.unlink(file + end)
    faults = []
    if here != there and not _is_time_of_creation(verb, here, there):
        faults.append(f"{verb} {path[:60]!r}: {here!r} on a volume, {there!r} in memory")
    if here[0] == "named the host" and "hostile-volume" not in path:
        faults.append(f"{verb} {path[:60]!r} was refused by the name of a place of the host")
    if SECRET in repr(here).encode() or SECRET.strip() in repr(here).encode():
        faults.append(f"{verb} {path[:60]!r} showed the secret")
    return faults


def _is_time_of_creation(verb: str, here: Any, there: Any) -> bool:
    """Both are done and differ in nothing but what a store may choose."""
    return verb in ("stat", "lstat") and here[0] == there[0] == "done"


def attack_volume(share: int, of: int) -> dict[str, Any]:
    """Every ``of``-th of all cases, beginning with number ``share``."""
    return asyncio.run(_attack(share, of))


async def _attack(share: int, of: int) -> dict[str, Any]:
    place = _place()
    template = f"{place}/template.db"
    async with bailiwick.open(f"sqlite:{template}") as fs:
        await _planted(fs, f"{place}/outside")
    with open(f"{place}/inside/../outside/secret", "rb") as file:
        control = file.read() == SECRET  # the plain call obeys what the volume refuses
    before = snapshot(f"{place}/outside", outside=True)
    paths = [row.text for row in HOSTILE_PATHS if "\0" not in row.text or row.kinds]
    paths += [f"{name}{end}" for name in LINKS for end in ("", "/", "/x")]
    cases = [(verb, path) for path in paths for verb in VERBS]
    faults: list[str] = []
    tried = 0
    for number, (verb, path) in enumerate(cases):
        if number % of == share:
            faults += await _compare(place, template, verb, path, number)
            tried += 1
    if snapshot(f"{place}/outside", outside=True) != before:
        faults.append("something beside the volume was changed")
    return {"cases": tried, "of": len(cases), "faults": faults[:30], "control": control}
