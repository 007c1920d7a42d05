"""Directories that a program shuts behind itself: what was done in them is brought back, told, and
gone from the copy, also for a plain user whom their modes keep out.

Every function here runs behind the wall.
"""

import asyncio
import os
import shutil
import stat
import subprocess
import sys

import bailiwick
from bailiwick.changes_made import OpenedAround
from bailiwick.errors import IoError
from bailiwick.stores.disk import DiskStore
from tests.hostile import inside, sandboxed
from tests.sandboxes.workshop import remove

BEFORE = (
    "mkdir -p old/in; echo 1 > old/in/f; echo 1 > old/in/gone; echo 1 > old/g;"
    " mkdir -p shut/in; for n in $(seq 40); do echo $n > shut/$n; done; ln -s 1 shut/l;"
    " echo 1 > shut/in/f; chmod 555 shut/in shut"
)
SCRIPTS = {
    "new": "mkdir -p a/b; echo 2 > a/b/f; chmod 0 a/b; chmod 500 a",
    "new, of many": "mkdir a; for n in $(seq 40); do echo $n > a/$n; done; chmod 555 a",
    "old": "echo 2 > old/in/f; rm old/in/gone; echo 2 > old/in/n; chmod 0 old/in; chmod 500 old",
    "moved": "mv old new; echo 2 > new/in/n; echo 2 > new/g; chmod 0 new/in; chmod 500 new",
    "opened": "chmod u+w shut; rm shut/1 shut/l; mv shut/2 2; echo 2 > shut/n; echo 2 > shut/3",
    "opened, of many": "chmod u+w shut; rm shut/[1-4]? shut/l",
    "opened for a while": "chmod u+w shut; rm shut/1 shut/l; mv shut/2 2; chmod u-w shut",
    "opened for a while, of many": "chmod 777 shut; rm shut/[1-4]? shut/l; chmod 555 shut",
    "opened, and shut otherwise": "chmod 700 shut; rm shut/[1-9]; echo 2 > shut/n; chmod 500 shut",
    "opened, and taken away": "chmod -R u+w shut; rm -r shut",
    "opened, and moved": "cp -a shut old/new; chmod -R u+w shut; rm -r shut",
    "opened, and replaced": "chmod -R u+w shut; rm -r shut; mkdir shut; echo 2 > shut/1",
    "changed without being opened": "echo 2 > shut/1; echo 2 > shut/in/f",
    "replaced": "rm -r old; mkdir -p old/in; echo 2 > old/in/f; chmod 0 old/in; chmod 0 old",
}
OUT = "chmod u+w shut; ln -s /nowhere/out shut/out; ln -s /nowhere/out old/in/out; chmod u-w shut"
OUT_SCRIPTS = {
    "removed": "chmod u+w shut; rm shut/out; chmod u-w shut",
    "removed, and shut": "rm old/in/out; chmod 500 old/in; chmod 0 old",
    "removed, and shut more": "chmod u+w shut; rm shut/out; chmod 0 shut",
    "replaced": "chmod u+w shut; rm shut/out; echo 2 > shut/out; chmod u-w shut",
    "taken away": "chmod -R u+w shut; rm -r shut old",
}
"""What takes away links that lead out."""

WITHHELD = "; ln -s /nowhere zz"
"""So that what was left of the copy is looked at again."""

KILLED = (
    "new", "new, of many", "old", "moved", "opened", "opened for a while", "opened, and taken away",
    "replaced",
)  # fmt: skip

STEPS_MAX = 60


def tree(top):
    """Every path with its mode and what it holds; the directories are open afterwards."""
    found = {}
    for directory, names, files in os.walk(top):
        for name in names + files:
            path = f"{directory}/{name}"
            mode = os.lstat(path).st_mode
            held = None
            if stat.S_ISDIR(mode):
                os.chmod(path, 0o700)
            elif stat.S_ISLNK(mode):
                held = os.readlink(path)
            else:
                with open(path) as file:
                    held = file.read()
            found[os.path.relpath(path, top)] = (held, oct(mode))
    return found


class Shut:
    """A place, and what the script would have made of it."""

    def __init__(self, script, before="true"):
        sandboxed.sandbox()
        self.arena = f"{inside.arena()}/shut"
        if os.path.exists(self.arena):
            remove(self.arena)
        self.place, self.state = f"{self.arena}/place", f"{self.arena}/state"
        os.makedirs(self.place)
        self.script = f"umask 022; {script}"
        self._run(f"umask 022; {BEFORE}; {before}", self.place)
        plain = f"{self.arena}/plain"
        shutil.copytree(self.place, plain, symlinks=True)
        self._run(self.script, plain)
        self.wanted = tree(plain)

    @staticmethod
    def _run(text, directory):
        subprocess.run(["sh", "-ec", text], cwd=directory, check=True)

    def opened(self):
        return bailiwick.open(self.place, state_dir=self.state)

    def folders(self):
        found = f"{self.state}/work"
        return [name for each in os.listdir(found) for name in os.listdir(f"{found}/{each}")]


def brought_back(how, name):
    """Whether in a session, in part, or later: what is told is what stands there."""
    shut = Shut(SCRIPTS[name])
    try:
        told, left = asyncio.run(HOWS[how](shut))
        assert tree(shut.place) == shut.wanted
        assert [(str(each.path), each.error_kind) for each in told.withheld] == [
            ("zz", "symlink_escape")
        ]
        assert told.conflicts == []
        assert told.changes
        assert [str(each.path) for each in left.changes] == ["zz"]
        assert shut.folders() == []
    finally:
        remove(shut.arena)


async def _in_a_session(shut):
    async with shut.opened() as fs, fs.session() as session:
        await session.exec(shell=shut.script + WITHHELD).result()
        told = await session.publish(publish="partial")
        left = await session.changes()
        await session.discard()
    return told, left


async def _in_part(shut):
    async with shut.opened() as fs:
        told = await fs.exec(shell=shut.script + WITHHELD, publish="partial").result()
        async with await fs.open_work(told.work_id) as work:
            left = await work.changes()
            await work.discard()
    return told, left


async def _later(shut):
    async with shut.opened() as fs:
        result = await fs.exec(shell=shut.script + WITHHELD, publish="manual").result()
    async with shut.opened() as fs, await fs.open_work(result.work_id) as work:
        told = await work.apply(publish="partial")
        left = await work.changes()
        await work.discard()
    return told, left


HOWS = {"in a session": _in_a_session, "in part": _in_part, "later": _later}


def killed(name):
    """Whoever is killed while it is brought back has it brought back by the next one, whole."""
    for steps in range(STEPS_MAX):
        shut = Shut(SCRIPTS[name])
        try:
            died = asyncio.run(_dying(shut, steps))
            assert tree(shut.place) == shut.wanted, (steps, name)
            assert shut.folders() == [], (steps, name)
        finally:
            remove(shut.arena)
        if not died:
            assert steps
            return
    raise AssertionError("it always dies")


async def _dying(shut, steps):
    async with shut.opened() as fs:
        result = await fs.exec(shell=shut.script, publish="manual").result()
    program = [sys.executable, "-m", "tests.working_copies.dying_program"]
    words = [*program, shut.place, shut.state, result.work_id, str(steps)]
    ended = subprocess.run(words, cwd=inside.CHECKOUT, check=False)
    assert ended.returncode in (0, 9)
    async with shut.opened() as fs:
        assert await fs.work() == []
    return ended.returncode == 9


def shut_to_whoever_looks():
    """What the machine lets nobody look at is withheld by itself: all the rest is told and
    brought back."""
    shut = Shut("true")
    try:

        async def found():
            async with shut.opened() as fs:
                script = "echo 2 > old/in/f; echo 2 > old/g; echo 2 > n"
                result = await fs.exec(shell=script, publish="manual").result()
                os.chmod(f"{shut.place}/old/in", 0)
                async with await fs.open_work(result.work_id) as work:
                    seen = await work.changes()
                    told = await work.apply(publish="partial")
                    os.chmod(f"{shut.place}/old/in", 0o700)
                    more = await work.apply()
            return seen, told, more

        seen, told, more = asyncio.run(found())
        if inside.identity() != "operator":
            for each in (seen, told):
                assert [str(x.path) for x in each.changes] == ["n", "old/g"]
                assert [(str(x.path), x.error_kind) for x in each.withheld] == [
                    ("old/in/f", "permission_denied")
                ]
            assert [str(x.path) for x in more.changes] == ["old/in/f"]
        held = tree(shut.place)
        assert [held[name][0] for name in ("n", "old/g", "old/in/f")] == ["2\n"] * 3
        assert shut.folders() == []
    finally:
        remove(shut.arena)


def taken_back(name):
    """Where it fails when all was done, the tree is as it was, and it can be tried again."""
    _taken_back(Shut(SCRIPTS[name]))


def links_out_taken_back(name):
    """Also what cannot be made anew, in a directory that is shut."""
    _taken_back(Shut(OUT_SCRIPTS[name], before=OUT))


def _taken_back(shut):
    before = f"{shut.arena}/before"
    shutil.copytree(shut.place, before, symlinks=True)
    finish = OpenedAround.close

    async def fail(around, directories, touches=()):
        if touches:
            raise IoError("the disk is gone")
        await finish(around, directories)

    async def tried():
        async with shut.opened() as fs:
            result = await fs.exec(shell=shut.script, publish="manual").result()
            async with await fs.open_work(result.work_id) as work:
                OpenedAround.close = fail
                try:
                    await work.apply()
                except IoError:
                    failed = tree_unopened(shut.place)
                finally:
                    OpenedAround.close = finish
                told = await work.apply()
        return failed, told

    try:
        failed, told = asyncio.run(tried())
        assert failed == tree_unopened(before)
        assert (told.withheld, told.conflicts) == ([], [])
        assert tree(shut.place) == shut.wanted
        assert shut.folders() == []
    finally:
        remove(shut.arena)


def special_bits():
    """A directory that is opened for what comes into it, or is taken back there, keeps setgid and
    sticky."""
    for mode in (0o3555, 0o2555, 0o1575):
        shut = Shut("echo 2 > held/f", before=f"mkdir held; echo 1 > held/f; chmod {mode:o} held")

        def bits(place=f"{shut.place}/held"):
            return stat.S_IMODE(os.lstat(place).st_mode)

        async def changed(shut=shut, bits=bits):
            found = [bits()]
            async with bailiwick.open(shut.place, state_dir=shut.state, history="on") as fs:
                result = await fs.exec(shell=shut.script).result()
                found.append(bits())
                assert (await fs.undo(result.request_id)).conflicts == []
            return [*found, bits()]

        try:
            assert asyncio.run(changed()) == [mode] * 3
            with open(f"{shut.place}/held/f") as file:
                assert file.read() == "1\n"
        finally:
            remove(shut.arena)


def tree_unopened(top):
    """The same, and the directories have their modes again."""
    found = tree(top)
    for path, (_, mode) in reversed(found.items()):
        if stat.S_ISDIR(int(mode, 8)):
            os.chmod(f"{top}/{path}", stat.S_IMODE(int(mode, 8)))
    return found


# --- two at once ------------------------------------------------------------------------------

WAITING = """
import asyncio, sys
import bailiwick
from bailiwick.stores.disk import DiskStore

place, state, id = sys.argv[1:]
plain = DiskStore.write_stream

async def write_stream(store, entry, chunks, plan):
    print("at", entry.path, flush=True)
    assert sys.stdin.readline()
    return await plain(store, entry, chunks, plan)

DiskStore.write_stream = write_stream

async def main():
    async with bailiwick.open(place, state_dir=state) as fs, await fs.open_work(id) as work:
        told = await work.apply()
        print("told", len(told.changes), len(told.withheld), len(told.conflicts), flush=True)

asyncio.run(main())
"""

TWO = ("echo 2 > shut/a1; echo 2 > shut/a2", "echo 2 > shut/b1; echo 2 > shut/b2")


class Applying:
    """A process that brings a working copy back, and waits before each file."""

    def __init__(self, shut, id):
        words = [sys.executable, "-c", WAITING, shut.place, shut.state, id]
        self.process = subprocess.Popen(
            words, cwd=inside.CHECKOUT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def said(self):
        return self.process.stdout.readline().split()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        with self.process:
            self.process.kill()


async def _left_by_two(shut):
    ids = []
    async with shut.opened() as fs:
        for script in TWO:
            result = await fs.exec(
                shell=f"chmod u+w shut; {script}; chmod u-w shut", publish="manual"
            ).result()
            ids.append(result.work_id)
    return ids


def _look_at_both(shut, *names):
    assert stat.S_IMODE(os.lstat(f"{shut.place}/shut").st_mode) == 0o555
    there = set(os.listdir(f"{shut.place}/shut"))
    assert there.issuperset(names)
    assert not [name for name in there if name.startswith(".bailiwick")]


def _opened_in_turn(shut):
    first_id, second_id = asyncio.run(_left_by_two(shut))
    first = Applying(shut, first_id)
    assert first.said() == ["at", "shut/a1"]
    second = Applying(shut, second_id)
    assert second.said() == ["at", "shut/b1"]
    return first, second


def opened_by_two_processes():
    """The first to be done leaves it open for the other, who shuts it."""
    shut = Shut("true")
    first, second = _opened_in_turn(shut)
    try:
        first.go_on()
        assert first.said() == ["at", "shut/a2"]
        first.go_on()
        assert first.said() == ["told", "2", "0", "0"]
        second.go_on()
        assert second.said() == ["at", "shut/b2"]
        second.go_on()
        assert second.said() == ["told", "2", "0", "0"]
        _look_at_both(shut, "a1", "a2", "b1", "b2")
        assert shut.folders() == []
    finally:
        first.end()
        second.end()
        remove(shut.arena)


def opened_by_one_who_is_killed():
    """Whoever else has it open goes on, and shuts it; the next finishes what was begun."""
    shut = Shut("true")
    first, second = _opened_in_turn(shut)
    try:
        first.end()
        for told in (["at", "shut/b2"], ["told", "2", "0", "0"]):
            second.go_on()
            assert second.said() == told
        _look_at_both(shut, "b1", "b2")

        async def opened_again():
            async with shut.opened() as fs:
                assert await fs.work() == []

        asyncio.run(opened_again())
        _look_at_both(shut, "a1", "a2", "b1", "b2")
    finally:
        first.end()
        second.end()
        remove(shut.arena)


def opened_by_two_tasks():
    """In one process it is the same."""
    shut = Shut("true")
    plain = DiskStore.write_stream
    begun = {"a": asyncio.Event(), "b": asyncio.Event()}
    wait_for = {"shut/a1": begun["b"], "shut/b1": asyncio.Event()}

    async def write_stream(store, entry, chunks, plan):
        begun[entry.path.name[0]].set()
        if entry.path in wait_for:
            await wait_for[entry.path].wait()
        return await plain(store, entry, chunks, plan)

    async def apply(id, after):
        async with shut.opened() as fs, await fs.open_work(id) as work:
            await after()
            told = await work.apply()
            wait_for["shut/b1"].set()
            return len(told.changes), told.withheld, told.conflicts

    async def at_once():
        return None

    async def both(ids):
        return await asyncio.gather(apply(ids[0], at_once), apply(ids[1], begun["a"].wait))

    try:
        ids = asyncio.run(_left_by_two(shut))
        DiskStore.write_stream = write_stream
        assert asyncio.run(both(ids)) == [(2, [], []), (2, [], [])]
        _look_at_both(shut, "a1", "a2", "b1", "b2")
    finally:
        DiskStore.write_stream = plain
        remove(shut.arena)


def opened_by_an_undo():
    """Whoever brings something back meanwhile is not shut out when it is done."""
    shut = Shut("true")
    plain, plain_remove = DiskStore.write_stream, DiskStore.remove
    undoing, bringing, undone = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def write_stream(store, entry, chunks, plan):
        if entry.path == "shut/b1":
            bringing.set()
            await undone.wait()
        return await plain(store, entry, chunks, plan)

    async def remove_one(store, entry, **how):
        undoing.set()
        await bringing.wait()
        return await plain_remove(store, entry, **how)

    async def both():
        async with bailiwick.open(shut.place, state_dir=shut.state, history="on") as fs:
            scripts = [f"chmod u+w shut; {script}; chmod u-w shut" for script in TWO]
            done = await fs.exec(shell=scripts[0]).result()
            left = await fs.exec(shell=scripts[1], publish="manual").result()
            DiskStore.write_stream, DiskStore.remove = write_stream, remove_one

            async def undo():
                result = await fs.undo(done.request_id)
                undone.set()
                return result.conflicts

            async def apply():
                await undoing.wait()
                async with await fs.open_work(left.work_id) as work:
                    told = await work.apply()
                return len(told.changes), told.withheld, told.conflicts

            return await asyncio.gather(undo(), apply())

    try:
        assert asyncio.run(both()) == [[], (2, [], [])]
        _look_at_both(shut, "b1", "b2")
        assert not os.path.exists(f"{shut.place}/shut/a1")
    finally:
        DiskStore.write_stream, DiskStore.remove = plain, plain_remove
        remove(shut.arena)


def shut_again_where_nothing_could_be_done():
    """The first change fails: what was opened for it is not left so."""
    shut = Shut("true")
    plain = DiskStore.write_stream

    async def write_stream(store, entry, chunks, plan):
        raise IoError("the disk is gone")

    async def tried():
        [id, _] = await _left_by_two(shut)
        async with shut.opened() as fs, await fs.open_work(id) as work:
            DiskStore.write_stream = write_stream
            try:
                await work.apply()
            except IoError:
                _look_at_both(shut)
                return
            finally:
                DiskStore.write_stream = plain
        raise AssertionError("nothing failed")

    try:
        asyncio.run(tried())
    finally:
        remove(shut.arena)
