"""Reviews of a tree of mounts: all of them are looked at, or it is said which cannot be."""

from contextlib import asynccontextmanager

import pytest

import bailiwick
from bailiwick import AgentRun, Authority, Unsupported, User
from tests.scope.test_review import left
from tests.scope.test_runs import ACCESS, text

pytestmark = pytest.mark.spec("REVIEW-1", "PAST-3")


def mounts_in(tmp_path):
    (tmp_path / "docs").mkdir(exist_ok=True)
    return {"docs": str(tmp_path / "docs"), "notes": f"sqlite:{tmp_path}/notes.db"}


@asynccontextmanager
async def seats(tmp_path, mounts):
    named = ", ".join(f'{name} = "{place}"' for name, place in mounts.items())
    (tmp_path / "bailiwick.toml").write_text(
        '[[root]]\nkind = "workspace"\nid = "w"\ntrusted = true\nhistory = "on"\n'
        f"mounts = {{{named}}}\n"
    )
    config, state = tmp_path / "bailiwick.toml", str(tmp_path / "state")
    async with Authority.from_config(str(config), state) as authority:
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")
        yield person, await person.delegate(AgentRun("chat", "one"))


async def test_the_queue_has_what_was_done_in_every_mount(tmp_path):
    async with seats(tmp_path, mounts_in(tmp_path)) as (person, one):
        for number in range(3):  # so that the mounts count differently
            await person.write_text("notes/own", f"{number}\n")
        await one.write_text("notes/a", "a\n")
        await one.write_text("docs/b", "b\n")
        assert await left(person) == [
            ("docs/b", "created", ["+b"]), ("notes/a", "created", ["+a"]),
        ]  # fmt: skip
        (run,) = await person.runs()
        assert (run.created, run.hunks, run.reviewed) == (2, 2, 0)
        done = await person.review.accept(run=run.id)
        assert (len(done.accepted), done.left) == (2, 0)
        await one.write_text("docs/c", "c\n")
        await one.write_text("notes/a", "another\n")
        assert [path for path, _, _ in await left(person)] == ["docs/c", "notes/a"]
        done = await person.review.reject(paths=["."], note="not those")
        assert (done.conflicts, done.left) == ([], 0)
        assert not await person.exists("docs/c")
        assert await text(person, "notes/a") == "a\n"


@pytest.mark.parametrize("mount", ["docs", "notes"])
async def test_what_was_moved_in_a_mount_goes_back_to_where_it_lay(tmp_path, mount):
    async with seats(tmp_path, mounts_in(tmp_path)) as (person, one):
        await person.write_text(f"{mount}/d/f", "f\n", parents=True)
        await person.write_text(f"{mount}/g", "g\n")
        await person.move(f"{mount}/d", f"{mount}/e")
        await one.remove(f"{mount}/g")
        await one.move(f"{mount}/e/f", f"{mount}/g")
        (file,) = (await person.review.queue()).files
        assert (file.path, file.origin, file.replaces) == (f"{mount}/g", f"{mount}/e/f", True)
        assert (await person.review.reject(paths=["."])).conflicts == []
        assert await text(person, f"{mount}/e/f") == "f\n"
        assert await text(person, f"{mount}/g") == "g\n"


async def test_the_past_of_all_mounts_is_told_by_time_and_by_the_page(tmp_path):
    async with bailiwick.open("mounts:", mounts=mounts_in(tmp_path), history="on") as fs:
        expected = []
        for number in range(9):
            path = f"{'docs' if number % 3 else 'notes'}/{number}"
            await fs.write_text(path, "x\n")
            expected.insert(0, path)
        for limit in (1, 2, 100):
            told, cursor = [], None
            while True:
                page = await fs.history(".", limit=limit, cursor=cursor)
                told += [str(each.path) for each in page.versions if each.type == "file"]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert told == expected


async def test_a_mount_without_a_past_is_named(tmp_path):
    async with seats(tmp_path, {**mounts_in(tmp_path), "scratch": "memory:"}) as (person, one):
        await one.write_text("docs/b", "b\n")
        with pytest.raises(Unsupported) as refused:
            await person.review.queue()
        assert refused.value.path == "scratch"
