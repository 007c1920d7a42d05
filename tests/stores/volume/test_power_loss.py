"""A power cut at any instant: what was acknowledged is there, and the volume is whole."""

import asyncio
import os
import random
import shutil

import pytest

from bailiwick.errors import BailiwickError
from tests.stores.volume.power_loss import Left, forgetful
from tests.stores.volume.volumes import opened

WRITERS, STEPS, CUTS = 5, 14, 40
SIZES = (10, 3_000, 6_000, 70_000, 1_600_000)


async def act(fs, log, name, chance):
    """One writer: random changes of names of its own, noted before and after."""
    tree = {}
    for step in range(STEPS):
        verb = chance.choice(("write", "write", "append", "move", "remove"))
        path = f"{name}/{chance.choice('ab')}"
        after = dict(tree)
        if verb == "write":
            data = b"%d " % step * (chance.choice(SIZES) // 2)
            after[path] = data
            call = fs.write(path, data, parents=True)
        elif verb == "append":
            after[path] = after.get(path, b"") + b"%d " % step * 40
            call = fs.append(path, b"%d " % step * 40, parents=True)
        elif path not in tree:
            continue
        elif verb == "move":
            after[f"{name}/moved"] = after.pop(path)
            call = fs.move(path, f"{name}/moved", replace=True)
        else:
            del after[path]
            call = fs.remove(path)
        log.mark("begin", name, after)
        await call
        log.mark("done", name, after)
        tree = after


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The log of some busy moments of a volume, and its files before them."""
    folder = tmp_path_factory.mktemp("forgetful")
    path = folder / "v.db"

    async def run():
        async with opened(path) as fs:
            for number in range(WRITERS):
                await fs.make_dir(f"w{number}")
        before = {str(path): path.read_bytes()}
        with pytest.MonkeyPatch.context() as patch:
            log, files = forgetful(patch)
            async with opened(path) as fs:
                await asyncio.gather(
                    *(act(fs, log, f"w{n}", random.Random(n)) for n in range(WRITERS))
                )
            files.unregister()
        return folder, log.events, before

    return asyncio.run(run())


def cuts(events, count, seed):
    """Instants to look at: just after something was acknowledged, or just before or after a sync,
    where there is most to lose."""
    at = [
        number + chance
        for number, event in enumerate(events)
        for chance in (0, 1)
        if event[0].startswith("sync") or event[:2] == ("mark", "done")
    ]
    return sorted(random.Random(seed).sample(at, min(count, len(at))))


def expected(events):
    """For each writer what it was told last, and what was under way."""
    done, begun = {f"w{n}": {} for n in range(WRITERS)}, {}
    for kind, *rest in events:
        if kind == "mark":
            word, name, tree = rest
            (done if word == "done" else begun)[name] = tree
    return done, begun


async def faults_after(written, place, cut, deaf=()):
    """What is wrong with the volume that a power cut would have left."""
    folder, events, before = written
    shutil.rmtree(place, ignore_errors=True)
    os.mkdir(place)
    left = Left(before, cut, deaf)
    left.go(events[:cut])
    left.put(str(folder), str(place))
    done, begun = expected(events[:cut])
    faults = []
    try:
        async with opened(place / "v.db") as fs:
            faults += [each.what for each in (await fs.store.versions.check()).problems]
            for name in done:
                seen = {
                    f"{name}/{entry.name}": await fs.read(f"{name}/{entry.name}")
                    for entry in await fs.entries(name)
                }
                if seen not in (done[name], begun.get(name, done[name])):
                    faults.append(f"{name} lost something")
            await fs.write("after", b"goes on")
    except BailiwickError as error:
        faults.append(f"{type(error).__name__}: {error}")
    return faults


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-4")
async def test_whatever_was_acknowledged_survives_a_power_cut(written, tmp_path):
    _, events, _ = written
    assert {event[0] for event in events} >= {"sync", "sync-data", "sync-folder", "rename", "mkdir"}
    for cut in cuts(events, CUTS, seed=3):
        assert await faults_after(written, tmp_path / "left", cut) == [], cut


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-4")
@pytest.mark.parametrize("deaf", ["sync", "sync-data", "sync-folder"])
async def test_without_any_one_kind_of_sync_something_would_be_lost(written, tmp_path, deaf):
    """The control: each of them is needed, and its absence is seen."""
    _, events, _ = written
    for cut in cuts(events, CUTS, seed=4):
        if await faults_after(written, tmp_path / "left", cut, deaf=(deaf,)):
            return
    pytest.fail(f"nothing was lost without {deaf}")
