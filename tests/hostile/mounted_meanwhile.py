"""A filesystem that somebody mounts between the look at what a program left and bringing it back:
nothing of it is removed, chmodded, or written to, though names and modes in it are the same.

Every function here runs behind the wall.
"""

import asyncio
import os

import bailiwick
from bailiwick import publication, version_acts
from bailiwick.stores.history import step_runner
from tests.hostile import inside, kernel, sandboxed
from tests.sandboxes.workshop import remove

SCRIPT = (
    "chmod 700 d/m; rmdir d/m/sub; chmod 700 d/m/kept; mkdir d/m/kept/made; echo 2 > d/m/new;"
    " ln -s new d/m/link; echo 2 > d/other; echo 2 > z"
)
WHENS = ("before the first change", "before the third change")


class Place:
    def __init__(self):
        sandboxed.sandbox()
        self.arena = f"{inside.arena()}/mounted"
        if os.path.exists(self.arena):
            remove(self.arena)
        self.root = f"{self.arena}/root"
        self.mount = f"{self.root}/d/m"
        for name in ("sub", "kept"):
            os.makedirs(f"{self.mount}/{name}")
            os.chmod(f"{self.mount}/{name}", 0o755)
        os.chmod(self.mount, 0o755)
        self.is_mounted = False

    def plant(self, *names):
        """Names that the program saw, and theirs."""
        if not self.is_mounted:
            self.is_mounted = True
            kernel.mount("tmpfs", self.mount, "tmpfs", kernel.MS_NOSUID, "size=64k,mode=0755")
            for name in names:
                os.mkdir(f"{self.mount}/{name}")
                os.chmod(f"{self.mount}/{name}", 0o755)
            self.planted = self.pictured()

    def pictured(self):
        found = {".": oct(os.lstat(self.mount).st_mode)}
        for directory, names, files in os.walk(self.mount):
            for name in names + files:
                path = f"{directory}/{name}"
                found[os.path.relpath(path, self.mount)] = oct(os.lstat(path).st_mode)
        return found

    def opened(self):
        return bailiwick.open(self.root, state_dir=f"{self.arena}/state")


async def _by_a_program(place, begin):
    async with place.opened() as fs:
        result = await fs.exec(shell=SCRIPT, publish="manual").result()
        async with await fs.open_work(result.work_id) as work:
            begin()
            told = await work.apply(publish="partial")
            await work.discard()
            return told


async def _in_an_overlay(place, begin):
    opening = bailiwick.open(f"overlay:{place.root}", state_dir=f"{place.arena}/state")
    async with opening as fs:
        await fs.set_mode("d/m", 0o700)
        await fs.remove("d/m/sub")
        await fs.set_mode("d/m/kept", 0o700)
        await fs.make_dir("d/m/kept/made")
        for path in ("d/m/new", "d/other", "z"):
            await fs.write_text(path, "2\n")
        await fs.symlink("d/m/link", "new")
        begin()
        return await fs.apply(publish="partial")


HOWS = {"by a program": _by_a_program, "in an overlay": _in_an_overlay}


def brought_back(how, when, *, guarded):
    """Returns what became of what was planted, and what else was brought."""
    place = Place()
    before = place.pictured()
    look, do = version_acts.known_by_content, publication._Publication._do
    refuse = publication.refuse_mounted
    count = 0

    async def looking(*args):
        if when == WHENS[0]:
            place.plant("sub", "kept")
        return await look(*args)

    async def doing(self, touch):
        nonlocal count
        count += 1
        if when == WHENS[1] and count == 3:
            place.plant("kept")  # from where the other one was removed just now
        await do(self, touch)

    def begin():
        version_acts.known_by_content = looking
        publication._Publication._do = doing
        if not guarded:
            publication.refuse_mounted = lambda *_: None

    try:
        told = asyncio.run(HOWS[how](place, begin))
        after = place.pictured()
        kernel.unmount(place.mount)
        beneath = place.pictured()
    finally:
        version_acts.known_by_content = look
        publication._Publication._do = do
        publication.refuse_mounted = refuse
        remove(place.arena)
    if guarded and when == WHENS[0]:
        assert beneath == before
    brought = sorted(str(each.path) for each in told.changes)
    withheld = {str(each.path): each.error_kind for each in told.withheld}
    return {"is_as_planted": after == place.planted, "brought": brought, "withheld": withheld}


def mounted_for_long():
    """What was changed in an overlay before somebody mounted another filesystem there is withheld
    however long that is there, kept over restarts, and applied when it is gone again. What is
    changed in it since goes into it; giving up all gives up both."""
    place = Place()
    opening = {"state_dir": f"{place.arena}/state"}

    async def tried():
        async with bailiwick.open(f"overlay:{place.root}", **opening) as fs:
            await fs.remove("d/m/sub")
            await fs.write_text("d/m/new", "2\n")
            place.plant("sub", "kept")
        async with bailiwick.open(f"overlay:{place.root}", **opening) as fs:
            covered = await fs.apply(publish="partial")
            await fs.write_text("d/m/since", "2\n")
            since = await fs.apply(publish="partial")
            inside_it = sorted(os.listdir(place.mount))
            kernel.unmount(place.mount)
            gone = await fs.apply(publish="partial")
            beneath = sorted(os.listdir(place.mount))
            await fs.write_text("d/m/more", "2\n")
            place.is_mounted = False
            place.plant()
            await fs.discard()
            left = await fs.changes()
            kernel.unmount(place.mount)
            after = await fs.changes()
        return covered, since, inside_it, gone, beneath, left, after

    try:
        covered, since, inside_it, gone, beneath, left, after = asyncio.run(tried())
    finally:
        remove(place.arena)
    assert covered.changes == []
    assert sorted(str(each.path) for each in covered.withheld) == ["d/m/new", "d/m/sub"]
    assert [str(each.path) for each in since.changes] == ["d/m/since"]
    assert inside_it == ["kept", "since", "sub"]
    assert [str(each.path) for each in gone.changes] == ["d/m/sub", "d/m/new"]
    assert beneath == ["kept", "new"]
    assert (left.changes, left.withheld, after.changes) == ([], [], [])


def undone(*, guarded):
    """What is taken back is what was looked at for that. What stands in a filesystem that somebody
    mounts then has the same names, modes and bytes, and is theirs."""
    place = Place()
    before = place.pictured()
    prepare, mounts_in = step_runner.Applier._prepare, step_runner.mounts_in

    async def preparing(self, steps):
        place.plant("sub", "kept", "made")
        with open(f"{place.mount}/new", "w") as file:
            file.write("2\n")
        os.chmod(f"{place.mount}/new", 0o600)
        place.planted = place.pictured()
        if not guarded:
            step_runner.mounts_in = lambda _: self._mounts
        return await prepare(self, steps)

    async def tried():
        opening = bailiwick.open(place.root, state_dir=f"{place.arena}/state", history="on")
        async with opening as fs:
            result = await fs.exec(
                shell="umask 022; mkdir d/m/made; rmdir d/m/sub; echo 2 > d/m/new;"
                " chmod 600 d/m/new; echo 2 > z"
            ).result()
            step_runner.Applier._prepare = preparing
            told = await fs.undo(result.request_id)
            after = place.pictured()
            step_runner.Applier._prepare, step_runner.mounts_in = prepare, mounts_in
            kernel.unmount(place.mount)
            if guarded:
                await fs.undo(result.request_id)
                assert place.pictured() == before
            return told, after

    try:
        told, after = asyncio.run(tried())
    finally:
        step_runner.Applier._prepare, step_runner.mounts_in = prepare, mounts_in
        remove(place.arena)
    return {
        "is_as_planted": after == place.planted,
        "undone": [str(each) for each in told.undone],
        "conflicts": {str(each.path): each.reason for each in told.conflicts},
    }
