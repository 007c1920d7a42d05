"""What was brought back into directories that are shut is taken back: by its request, as a run, in
review, or by going back to a version; the modes too, also for a plain user whom they keep out.

Every function here runs behind the wall.
"""

import asyncio
import os
import shutil
import stat
import subprocess
import sys

import bailiwick
from bailiwick import AgentRun, Authority, User
from bailiwick.errors import IoError
from bailiwick.stores.disk import DiskStore
from tests.authority.support import Person
from tests.hostile import dying_undo, inside, shut_directories
from tests.hostile.shut_directories import STEPS_MAX, Shut, tree_unopened
from tests.sandboxes.workshop import remove

ACCESS = ("read", "write", "list", "delete", "move", "metadata", "execute")

SCRIPTS = {
    **shut_directories.SCRIPTS,
    "new, that nobody may look into": "mkdir -p a/b/c; echo 2 > a/b/c/f; chmod 0 a/b/c a/b a",
    "new, only to be listed": "mkdir -p a/b; echo 2 > a/b/f; chmod 400 a/b a",
    "old, that nobody may look into": "echo 2 > old/in/f; rm old/in/gone; chmod 0 old/in old",
    "old, only to be listed": "echo 2 > old/in/f; rm old/in/gone; chmod 400 old/in old",
    "shut, and nothing else": "chmod 0 old/in; chmod 500 old",
    "shut more": "chmod 755 shut/in; echo 2 > shut/in/f; chmod 0 shut/in shut",
    "shut more, of many": "chmod 755 shut; rm shut/[1-4]?; echo 2 > shut/n; chmod 0 shut",
    "opened, both": "chmod 755 shut shut/in; echo 2 > shut/in/f; echo 2 > shut/n",
    "opened, and a file in its place": "chmod -R u+w shut; rm -r shut; echo 2 > shut",
    "opened, and a link in its place": "chmod -R u+w shut; rm -r shut; ln -s old shut",
}


KILLED = (
    "old", "moved", "opened, and shut otherwise", "opened, and taken away", "replaced",
    "new, that nobody may look into", "shut more",
)  # fmt: skip


def undone(how, name):
    """The tree is what it was before the program ran; and when that is taken back, what the
    program made of it."""
    shut = Shut(SCRIPTS[name])
    before = f"{shut.arena}/before"
    shutil.copytree(shut.place, before, symlinks=True)
    try:
        asyncio.run(HOWS[how](shut, before))
    finally:
        remove(shut.arena)


async def _by_its_request(shut, before):
    async with _with_history(shut) as fs:
        result = await fs.exec(shell=shut.script).result()
        assert (result.withheld, result.conflicts) == ([], [])
        foreseen = await fs.undo(result.request_id, preview=True)
        told = await fs.undo(result.request_id)
        assert told.conflicts == []
        assert foreseen.undone == told.undone
        assert tree_unopened(shut.place) == tree_unopened(before)
        again = await fs.undo(told.request_id)
        assert again.conflicts == []
        assert tree_unopened(shut.place) == shut.wanted
        told = await fs.undo(again.request_id)
        assert told.conflicts == []
    assert tree_unopened(shut.place) == tree_unopened(before)


async def _by_a_version(shut, before):
    """All that the program changed goes back, place by place."""
    async with _with_history(shut) as fs:
        await fs.write_text("first", "1")
        first = (await fs.history("first")).versions[0].version
        result = await fs.exec(shell=shut.script).result()
        assert (result.withheld, result.conflicts) == ([], [])
        await fs.restore(".", first)
        await fs.remove("first")
    assert tree_unopened(shut.place) == tree_unopened(before)


async def _as_a_run(shut, before):
    async with Governed(shut) as (person, agent):
        result = await agent.exec(shell=shut.script).result()
        assert (result.withheld, result.conflicts) == ([], [])
        (run,) = await person.runs()
        told = await run.undo()
        assert told.conflicts == []
    assert tree_unopened(shut.place) == tree_unopened(before)


async def _in_review(shut, before):
    """By what stands there now: where nobody can look, nothing is taken back but the whole run."""
    async with Governed(shut) as (person, agent):
        result = await agent.exec(shell=shut.script).result()
        assert (result.withheld, result.conflicts) == ([], [])
        (run,) = await person.runs()
        told = await person.review.reject(run=run.id)
        if told.conflicts:
            assert inside.identity() == "user"
            assert "so that nobody can look" in str(told.conflicts)
            assert tree_unopened(shut.place) == shut.wanted
            told = await run.undo()
        assert told.conflicts == []
    assert tree_unopened(shut.place) == tree_unopened(before)


def _with_history(shut):
    return bailiwick.open(shut.place, state_dir=shut.state, history="on")


class Governed:
    """A person's scope, and that of an agent who may run programs."""

    def __init__(self, shut):
        self._shut = shut
        self._authority = Authority.open(state_dir=shut.state)

    async def __aenter__(self):
        authority = await self._authority.__aenter__()
        place = self._shut.place
        await authority.add_root("workspace:w", place, trusted=True, history="on")
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")
        agent = await person.delegate(AgentRun("chat", "one"), access=set(ACCESS))
        return person, agent.with_caller("test", asker=Person("once"))

    async def __aexit__(self, *how):
        await self._authority.__aexit__(*how)


HOWS = {
    "by its request": _by_its_request,
    "by a version": _by_a_version,
    "as a run": _as_a_run,
    "in review": _in_review,
}

CASES = [
    (how, name)
    for how in HOWS
    for name in SCRIPTS
    if (how, name) != ("by a version", "opened, and moved")
]
"""What lay in a directory that was moved is not known to have lain elsewhere at a version."""


TOPS = {
    "opened for a while": "chmod 755 .; echo 2 > n; rm top; mkdir -p d/e; chmod 555 d .",
    "opened": "chmod 755 .; echo 2 > n; rm top; mkdir -p d/e; mv old new",
    "changed without being opened": "echo 2 > top",
}


def in_a_shut_top(name):
    """The directory that the root is may be shut itself: it is opened and shut as any other is, and
    keeps its mode, whatever the program gave it, which is its owner's to say. Where somebody has
    shut it since, it stays shut."""
    for mode in (0o555, 0o500):
        shut = Shut(TOPS[name], before="echo 1 > top")
        try:
            os.chmod(shut.place, mode)
            asyncio.run(_in_a_shut_top(shut, mode))
        finally:
            remove(shut.arena)


async def _in_a_shut_top(shut, mode):
    def top():
        return os.lstat(shut.place).st_mode & 0o777

    before = tree_unopened(shut.place)
    async with _with_history(shut) as fs:
        result = await fs.exec(shell=shut.script).result()
        assert (result.withheld, result.conflicts) == ([], [])
        assert (tree_unopened(shut.place), top()) == (shut.wanted, mode)
        os.chmod(shut.place, 0o511)
        told = await fs.undo(result.request_id)
        assert top() == 0o511
        if inside.identity() == "user":
            assert "the root is shut (mode 0511)" in str(told.conflicts)
            os.chmod(shut.place, mode)
            await fs.undo(result.request_id)
            assert top() == mode
        else:
            assert told.conflicts == []
    assert tree_unopened(shut.place) == before


def killed(name):
    """Whoever is killed while it is taken back leaves some of it undone; the next one shuts what
    was opened, and to say it again does the rest."""
    for steps in range(STEPS_MAX):
        shut = Shut(SCRIPTS[name])
        try:
            died = asyncio.run(_dying(shut, steps))
        finally:
            remove(shut.arena)
        if not died:
            assert steps
            return
    raise AssertionError("it always dies")


async def _dying(shut, steps):
    before = tree_unopened(shut.place)
    async with _with_history(shut) as fs:
        request = (await fs.exec(shell=shut.script).result()).request_id
    program = [sys.executable, "-m", "tests.hostile.dying_undo"]
    words = [*program, shut.place, shut.state, request, str(steps)]
    ended = subprocess.run(words, cwd=inside.CHECKOUT, check=False)
    assert ended.returncode in (0, 9)
    async with _with_history(shut) as fs:
        if ended.returncode == 9:
            await fs.undo(request, preview=True)
            _check_modes(shut, before, came=True)
            await fs.undo(request)
        after = tree_unopened(shut.place)
        for path, told in after.items():
            if told == CAME and path not in shut.wanted:
                before[path] = CAME
        assert after == before, steps
    return ended.returncode == 9


CAME = (None, oct(stat.S_IFDIR | 0o700))
"""A whole tree that comes again at once is its owner's alone for an instant."""


def _check_modes(shut, before, *, came=False):
    """No directory has a mode that neither the program nor anybody before it has given it."""
    for path, told in tree_unopened(shut.place).items():
        if told[0] is None and not (came and told == CAME and path not in shut.wanted):
            assert told in [each[path] for each in (before, shut.wanted) if path in each], path


def failing(name):
    """Where the machine fails, what was opened is shut at once; to say it again does the rest."""
    for steps in range(STEPS_MAX):
        shut = Shut(SCRIPTS[name])
        try:
            failed = asyncio.run(_failing(shut, steps))
        finally:
            remove(shut.arena)
        if not failed:
            assert steps
            return
    raise AssertionError("it always fails")


async def _failing(shut, steps):
    before = tree_unopened(shut.place)
    made = {name: getattr(DiskStore, name) for name in dying_undo.STEPS if name != "set_mode"}
    left, failed = steps, False

    def counted(change):
        async def changed(*args, **how):
            nonlocal left
            left -= 1
            if left < 0:
                raise IoError("the disk is gone")
            return await change(*args, **how)

        return changed

    async with _with_history(shut) as fs:
        request = (await fs.exec(shell=shut.script).result()).request_id
        for name, change in made.items():
            setattr(DiskStore, name, counted(change))
        try:
            await fs.undo(request)
        except IoError:
            failed = True
        finally:
            for name, change in made.items():
                setattr(DiskStore, name, change)
        _check_modes(shut, before)
        if failed:
            await fs.undo(request)
        assert tree_unopened(shut.place) == before, steps
    return failed


def theirs(name):
    """What somebody has shut since, or given another mode, is not opened: it is told by its name,
    and the rest is taken back."""
    script, place, mode = THEIRS[name]
    shut = Shut(script)
    try:
        asyncio.run(_theirs(shut, place, mode))
    finally:
        remove(shut.arena)


THEIRS = {
    "open when it ran": ("echo 2 > old/in/n; echo 2 > z", "old/in", 0o555),
    "shut when it ran": ("echo 2 > shut/1; echo 2 > z", "shut", 0o500),
    "made by it": ("mkdir d; echo 2 > d/f; echo 2 > z", "d", 0o500),
    "opened by it": ("chmod 755 shut; echo 2 > shut/1; echo 2 > z", "shut", 0o555),
    "in its way": ("echo 2 > old/in/f; echo 2 > z", "old", 0o600),
}


async def _theirs(shut, place, mode):
    before = tree_unopened(shut.place)
    async with _with_history(shut) as fs:
        request = (await fs.exec(shell=shut.script).result()).request_id
        was = os.lstat(f"{shut.place}/{place}").st_mode & 0o777
        os.chmod(f"{shut.place}/{place}", mode)
        told = await fs.undo(request)
        assert not os.path.exists(f"{shut.place}/z")
        if inside.identity() == "user":
            assert f"{place} is shut (mode {mode:04o})" in str(told.conflicts)
            assert os.lstat(f"{shut.place}/{place}").st_mode & 0o777 == mode
            os.chmod(f"{shut.place}/{place}", was)
            await fs.undo(request)
            assert tree_unopened(shut.place) == before
