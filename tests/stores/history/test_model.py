"""Whatever a run does, undoing it gives the tree before it, and undoing that the tree after it."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, PathNotFound
from bailiwick.paths import ScopedPath
from bailiwick.stores.history.contents import SMALL_BYTES_MAX
from bailiwick.versions import Undoing
from tests.stores.history.places import by, opened
from tests.stores.history.test_undo import everything

pytestmark = pytest.mark.spec("DISK-8", "VOL-5")

PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/b", "e", "e/a", "d/e", "d/e/a"])
SIZES = st.sampled_from([0, 3, 40_000])
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, SIZES),
    st.tuples(st.just("append"), PATHS, SIZES),
    st.tuples(st.just("make_dir"), PATHS, st.just(None)),
    st.tuples(st.just("remove"), PATHS, st.just(None)),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("replace"), PATHS, PATHS),
    st.tuples(st.just("copy"), PATHS, PATHS),
    st.tuples(st.just("symlink"), PATHS, PATHS),
    st.tuples(st.just("set_mode"), PATHS, st.sampled_from([0o600, 0o750])),
)


async def do(fs, number, verb, path, given):
    """One step; what does not fit the tree is refused, and changes nothing."""
    data = f"{number}".encode() * (given if isinstance(given, int) else 0)
    acts = {
        "write": lambda: fs.write(path, data, parents=True),
        "append": lambda: fs.append(path, data + b"+"),
        "make_dir": lambda: fs.make_dir(path, parents=True),
        "remove": lambda: fs.remove(path, recursive=True),
        "move": lambda: fs.move(path, given),
        "replace": lambda: fs.move(path, given, replace=True),
        "copy": lambda: fs.copy(path, given, recursive=True),
        "symlink": lambda: fs.symlink(path, "a"),
        "set_mode": lambda: fs.set_mode(path, given),
    }
    try:
        await acts[verb]()
    except BailiwickError:
        return


def modes(tree):
    return {
        str(path.relative_to(tree)): path.lstat().st_mode
        for path in tree.rglob("*")
        if not path.is_symlink()
    }


async def go(place, first, run):
    tree = place / "tree"
    async with opened(place) as fs:
        for number, step in enumerate(first):
            await do(by(fs, "user:me", "before"), number, *step)
        before, after = (everything(tree), modes(tree)), None
        for number, step in enumerate(run, 100):
            await do(by(fs, "agent:run", "run"), number, *step)
        after = everything(tree), modes(tree)
        versions = by(fs, "user:me", "undo").store.versions
        if not fs.store._core.ledger.entries("WHERE request = 'run'"):
            assert after == before
            return
        await fs.store._core.ledger.quiet()
        done = await versions.undo(Undoing(request_id="run"))
        assert done.plan.conflicts == (), (first, run)
        assert (everything(tree), modes(tree)) == before, (first, run)
        if done.version is not None:
            again = await by(fs, "user:me", "again").store.versions.undo(Undoing(request_id="undo"))
            assert again.plan.conflicts == (), (first, run)
            assert (everything(tree), modes(tree)) == after, (first, run)
        await check_past(fs, before[0])


async def check_past(fs, before):
    """What the past shows at the version before the run is the tree before the run. Of large
    content that was moved about without being read it may say that it is not kept."""
    past = await fs.store.versions.as_of(first_version(fs))
    for name, content in before.items():
        if not isinstance(content, bytes):
            continue
        handle = await past.resolve(ScopedPath(name), "object")
        try:
            assert (await past.read(handle, 0, 1_000_000)).data == content
        except PathNotFound:
            assert len(content) > SMALL_BYTES_MAX, name


def first_version(fs):
    """The version just before the run began."""
    entries = fs.store._core.ledger.entries("WHERE request = 'run' ORDER BY id LIMIT 1")
    return str(entries[0].id - 1)


@example(first=[], run=[("write", "d/a", 0), ("move", "d", "a"), ("write", "d/a", 0)])
@example(first=[("write", "d/a", 0)], run=[("move", "d", "a"), ("write", "d/a", 0)])
@example(first=[("write", "d/e/a", 0)], run=[("move", "d", "a"), ("write", "d/e", 0)])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=st.lists(STEPS, max_size=6), run=st.lists(STEPS, min_size=1, max_size=8))
def test_a_run_undone_and_made_again(first, run):
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(go(Path(place), first, run))
