"""What programs do to a tree, with a sandbox and without: the same script, two directories.

Scripts are made of words that name nothing outside the directory they start in. Every function here
runs behind the wall.
"""

import asyncio
import os
import random
import shutil
import stat
import subprocess

import bailiwick
from tests.hostile import inside

NAMES = ("a", "b", "c", "d", "e")
STEPS = 25


def _path(chance):
    return "/".join(chance.choice(NAMES) for _ in range(chance.randint(1, 3)))


def _step(chance):
    """One line of a script: what it is about need not be there."""
    one, other, word = _path(chance), _path(chance), chance.randint(0, 3)
    mode, name = chance.choice(("755", "700", "711")), chance.choice(NAMES)
    return chance.choice(
        (
            f"echo {word} > {one}", f"echo {word} > {one}", f"echo {word} >> {one}", f"rm {one}",
            f"mkdir {one}", f"mkdir -p {one}", f"rmdir {one}", f"rm -r {one}",
            f"mv -T {one} {other}", f"mv {one} {other}", f"cp -r {one} {other}",
            f"ln -s {name} {one}", f"chmod {mode} {one}", f"cp {one} .t && mv .t {one}",
            f"touch {one}", f"sed -i s/1/2/ {one}",
            f"[ ! -f {one} ] || chmod 400 {one}",
        )
    )  # fmt: skip


def script(chance):
    steps = "\n".join(_step(chance) for _ in range(STEPS))
    return f"umask 022\n{steps}\nrm -rf .t\ntrue\n"


def _run(text, directory):
    subprocess.run(["sh", "-c", text], cwd=directory, check=True, capture_output=True)


def tree(top):
    """Every path, with what it holds and its mode."""
    found = {}
    for directory, names, files in os.walk(top):
        for name in names + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            held = None
            if stat.S_ISLNK(status.st_mode):
                found[os.path.relpath(path, top)] = os.readlink(path)
                continue
            if stat.S_ISREG(status.st_mode):
                with open(path) as file:
                    held = file.read()
            found[os.path.relpath(path, top)] = (held, oct(status.st_mode))
    return found


async def _brought_in(fs, found):
    for path, held in sorted(found.items()):
        if isinstance(held, str):
            await fs.symlink(path, held)
            continue
        text, mode = held
        if text is None:
            await fs.make_dir(path, file_mode=0o700)
        else:
            await fs.write_bytes(path, text.encode(), file_mode=int(mode, 8) & 0o777)
    for path, held in sorted(found.items(), reverse=True):
        if not isinstance(held, str) and held[0] is None:
            await fs.set_mode(path, int(held[1], 8) & 0o777)


async def _taken_out(fs, top="."):
    """What a scope holds, as `tree` tells it of a directory."""
    found = {}
    for entry in (await fs.list(top, include_ignored=True)).entries:
        stat_ = await fs.lstat(entry.path)
        if entry.type == "symlink":
            found[str(entry.path)] = stat_.target
        elif entry.type == "directory":
            found[str(entry.path)] = (None, oct(stat.S_IFDIR | stat_.mode & 0o777))
            found |= await _taken_out(fs, entry.path)
        else:
            text = (await fs.read_bytes(entry.path)).data.decode()
            found[str(entry.path)] = (text, oct(stat.S_IFREG | stat_.mode & 0o777))
    return found


def same_in_a_store(seed, kind):
    """The same for what is no directory, whose tree is written out."""
    chance = random.Random(seed)
    arena = f"{inside.arena()}/trees"
    shutil.rmtree(arena, ignore_errors=True)
    plain = f"{arena}/plain"
    os.makedirs(plain)
    _run(script(chance), plain)
    was = tree(plain)
    text = script(chance)
    _run(text, plain)
    places = {
        "memory": "memory:",
        "volume": f"sqlite:{arena}/agent.db",
        "overlay": f"overlay:{arena}/under",
    }
    os.makedirs(f"{arena}/under")

    async def bring_back():
        async with bailiwick.open(places[kind], state_dir=f"{arena}/state") as fs:
            await _brought_in(fs, was)
            if kind == "overlay":
                await fs.apply(chance.sample(sorted(was), len(was) // 2), publish="partial")
            result = await fs.exec(shell=text).result()
            assert (result.exit_code, result.withheld, result.conflicts) == (0, [], []), text
            assert await _taken_out(fs) == tree(plain), text
            assert result.work_id is None
            if kind == "volume" and result.changes:
                await fs.undo(result.request_id)
                assert await _taken_out(fs) == was, text
            if kind == "overlay":
                applied = await fs.apply()
                assert (applied.withheld, applied.conflicts) == ([], []), text
                assert tree(f"{arena}/under") == tree(plain), text

    try:
        asyncio.run(bring_back())
    finally:
        shutil.rmtree(arena, ignore_errors=True)


def same(seed, history):
    """What is brought back is what the program would have left; undone it is what was."""
    chance = random.Random(seed)
    arena = f"{inside.arena()}/trees"
    shutil.rmtree(arena, ignore_errors=True)
    place, plain = f"{arena}/place", f"{arena}/plain"
    os.makedirs(place)
    _run(script(chance), place)
    shutil.copytree(place, plain, symlinks=True)
    text = script(chance)
    _run(text, plain)
    was, wanted = tree(place), tree(plain)

    async def bring_back():
        async with bailiwick.open(place, state_dir=f"{arena}/state", history=history) as fs:
            result = await fs.exec(shell=text).result()
            assert (result.exit_code, result.withheld, result.conflicts) == (0, [], []), text
            assert tree(place) == wanted, text
            assert result.work_id is None
            if history == "on" and result.changes:
                await fs.undo(result.request_id)
                assert tree(place) == was, text

    try:
        asyncio.run(bring_back())
    finally:
        shutil.rmtree(arena, ignore_errors=True)
