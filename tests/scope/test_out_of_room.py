"""A quota that is exceeded while a person takes back what an agent did: nothing is lost, the answer
says so, and once there is room to say it again does the rest."""

import errno
import itertools
import os

import pytest

from bailiwick import AgentRun, Authority, BailiwickError, Edit, Quota, QuotaExceeded, User
from bailiwick.stores.disk import syscalls
from tests.scope.test_review import ids
from tests.scope.test_runs import ACCESS, each_kind, rooted
from tests.scope.volumes import tree

pytestmark = [pytest.mark.spec("RUN-3", "REVIEW-1"), pytest.mark.slow]

MANY = 16
STEP = 5
"""Calls between two instants: with 1 there are some dozens of them."""


async def done(place, person, agent):
    """What an agent does, and a person beside it. Returns what is to stand there again. What was
    there before is planted in a directory, and has no versions in it."""
    before = {
        name: f"{name} 1\n2\n3\n4\n{name} 5\n"
        for name in ("edited", "removed", "replaced", "moved", "over")
    }
    before |= {f"gone/{number}": f"{number}\n" for number in range(MANY)}
    for name, text in before.items():
        if place is None:
            await person.write_text(name, text, parents=True)
        else:
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(text)
    wanted, one = await tree(person), await agent("one")
    await one.edit("edited", [Edit("edited 1\n", "one\n")])
    await one.remove("removed")
    await one.write_text("replaced", "other\n")
    await one.write_text("made", "made\n")
    await one.move("moved", "over", replace=True)
    await one.remove("gone", recursive=True)
    await person.edit("edited", [Edit("edited 5\n", "mine\n")])
    wanted["edited"] = "edited 1\n2\n3\n4\nmine\n"
    return wanted


def neither(before, wanted, now):
    """Where it is neither as it was nor as it is to be. What something was moved over comes when
    that has left."""
    found = {
        path
        for path in now | before | wanted
        if now.get(path) not in (before.get(path), wanted.get(path))
    }
    return found - (
        {"over"} if now.get("moved") == wanted["moved"] and "over" not in now else set()
    )


async def reject(person):
    return await person.review.reject(await ids(person), note="no")


async def undo(person):
    (run,) = await person.runs()
    return await run.undo()


def exceeding(patch, calls, number):
    """Have the disk take nothing more from some call on."""
    left = itertools.count(calls, -1)

    def counted(real):
        def call(*arguments, **options):
            if next(left) <= 0:
                raise OSError(number, os.strerror(number))
            return real(*arguments, **options)

        return call

    for name in ("write", "mkdir"):
        patch.setattr(syscalls, name, counted(getattr(syscalls, name)))


@pytest.mark.parametrize("number", [errno.EDQUOT, errno.ENOSPC])
@pytest.mark.parametrize("act", [reject, undo])
async def test_a_disk_that_takes_nothing_more_at_any_instant(tmp_path, monkeypatch, act, number):
    wanted_kind = {errno.EDQUOT: "quota_exceeded", errno.ENOSPC: "io_error"}[number]
    for calls in itertools.count(0, STEP):
        place = tmp_path / str(calls)
        place.mkdir()
        async with rooted(place, "directory") as (person, agent):
            wanted = await done(place / "tree", person, agent)
            before, error = await tree(person), None
            with monkeypatch.context() as patch:
                exceeding(patch, calls, number)
                try:
                    assert (await act(person)).conflicts == []
                except BailiwickError as caught:
                    error = caught
            now = await tree(person)
            if error is None:
                assert now == wanted
                break
            assert error.kind == wanted_kind
            assert neither(before, wanted, now) == set()
            assert now == before or "changes were made" in error.message
            assert (await act(person)).conflicts == []
            assert await tree(person) == wanted
            assert await ids(person) == []
    assert calls > 2 * STEP


@each_kind
async def test_a_quota_of_the_root_is_kept_when_something_comes_back(tmp_path, kind):
    place = f"sqlite:{tmp_path}/v.db" if kind == "volume" else str(tmp_path / "tree")
    (tmp_path / "tree").mkdir()
    options = {} if kind == "volume" else {"history": "on"}
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root(
            "workspace:w", place, trusted=True, quota=Quota(bytes=3_000), **options
        )
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")
        await person.write_text("large", "large\n" * 300)
        one = await person.delegate(AgentRun("chat", "one"))
        await one.remove("large")
        await person.write_text("mine", "mine\n" * 400)
        then = await tree(person)
        (run,) = await person.runs()
        for act in (lambda: person.review.reject(run=run.id), run.undo):
            with pytest.raises(QuotaExceeded):
                await act()
            assert await tree(person) == then
            assert len(await ids(person)) == 1
        assert await one.review.notes() == []
        await person.write_text("mine", "mine\n")
        assert (await person.review.reject(run=run.id, note="no")).conflicts == []
        assert await tree(person) == {"large": "large\n" * 300, "mine": "mine\n"}
        assert await ids(person) == []
        assert [each.note for each in await one.review.notes()] == ["no"]
