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
