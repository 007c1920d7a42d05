"""An overlay of a server: through the client it is looked at, applied and given up as here."""

import asyncio
import contextlib

import pytest

import bailiwick
from bailiwick.client import connect, connect_sync
from bailiwick.errors import HashMismatch, MissingAccess, ParseError, PathNotFound, Unsupported
from tests.fronts.http.serving import AGENT, check_error, serving

pytestmark = pytest.mark.spec("OVER-1", "PY-5")

OLD = "".join(f"{n}\n" for n in range(20))
NEW = OLD.replace("1\n", "ONE\n", 1).replace("18\n", "EIGHTEEN\n")


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.txt").write_text(OLD)
    (place / "b.txt").write_text("b\n")
    return place


@contextlib.asynccontextmanager
async def overlaid(tmp_path, project):
    async with serving(tmp_path, place=f"overlay:{project}") as house:
        yield house


def told(result):
    return {(str(each.path), each.kind) for each in result.changes}


async def program(fs, project):
    """One day in an overlay, and all that was told of it."""
    found = [told(await fs.changes())]
    await fs.write_text("a.txt", NEW)
    await fs.write_text("new/c.txt", "c\n", parents=True)
    await fs.remove("b.txt")
    found.append(told(await fs.changes()))
    shown = await fs.diff("a.txt")
    found += [shown.a, shown.b, shown.added_lines, shown.removed_lines, shown.equal, shown.text]
    with pytest.raises(HashMismatch):
        await fs.apply(hunks={"a.txt": [1]}, seen="0" * 32)
    seen = (await fs.changes()).version
    found.append(told(await fs.apply(hunks={"a.txt": [1]}, seen=seen)))
    found.append((project / "a.txt").read_text())
    found.append(told(await fs.apply(iter(["new"]))))
    (project / "b.txt").write_text("theirs\n")
    refused = await fs.with_request("all-1").apply(merge=False)
    found.append((refused.request_id, [str(each.path) for each in refused.conflicts]))
    found.append(told(await fs.apply(publish="partial")))
    found.append([str(each) for each in await fs.discard(["b.txt"])])
    found.append(told(await fs.changes()))
    found.append(sorted(each.name for each in project.iterdir()))
    found.append((await fs.read_text("b.txt")).text)
    await fs.write_text("a.txt", OLD)
    found.append([str(each) for each in await fs.discard(hunks={"a.txt": [2]})])
    found.append([str(each) for each in await fs.discard()])
    return found


async def test_it_is_the_same_as_here(tmp_path, project):
    other = tmp_path / "other"
    other.mkdir()
    for each in project.iterdir():
        (other / each.name).write_bytes(each.read_bytes())
    async with bailiwick.open(f"overlay:{other}", state_dir=str(tmp_path / "own")) as here:
        expected = await program(here, other)
    async with overlaid(tmp_path, project) as house, connect(house.url, token=house.token) as there:
        assert await program(there, project) == expected


async def test_only_a_person_applies_and_nobody_hears_of_what_is_hidden(tmp_path, project):
    config = (
        f'[[root]]\nkind = "workspace"\nid = "demo"\npath = "overlay:{project}"\ntrusted = true\n'
        '[[rule]]\neffect = "hide"\npath = ["secret"]\nsubject = ["agent_run:*"]\n'
        '[[rule]]\neffect = "allow"\npath = ["**"]\naccess = ["read", "write", "list"]\n'
    )
    async with (
        serving(tmp_path, config=config) as house,
        connect(house.url, token=house.token) as person,
    ):
        await house.agent("read", "write", "list", "metadata")
        secret = await house.authority.tokens.issue(
            "second", AGENT, by=bailiwick.User("local"), front="test"
        )
        async with connect(house.url, token=secret) as agent:
            await person.write_text("secret", "SECRET\n")
            await agent.write_text("plain", "plain\n")
            assert told(await agent.changes()) == {("plain", "created")}
            assert "SECRET" in (await person.diff("secret")).text
            with pytest.raises(PathNotFound):
                await agent.diff("secret")
            for refused in (agent.apply, agent.discard):
                with pytest.raises(MissingAccess):
                    await refused()
                with pytest.raises(MissingAccess):
                    await refused(["plain"])
        assert not (project / "plain").exists()
        assert told(await person.apply()) == {("plain", "created"), ("secret", "created")}
        assert (project / "secret").read_text() == "SECRET\n"


async def test_a_root_that_is_no_overlay_says_so(tmp_path):
    async with serving(tmp_path) as house, connect(house.url, token=house.token) as fs:
        await fs.write_text("a.txt", "a\n")
        for verb in (fs.changes, fs.apply, fs.discard):
            with pytest.raises(Unsupported, match="no overlay"):
                await verb()
        with pytest.raises(ParseError):
            await fs.diff("a.txt")
        client = house.client()
        for method, route in (
            ("GET", "/overlay"), ("POST", "/overlay/apply"), ("POST", "/overlay/discard"),
        ):  # fmt: skip
            got = await client.request(method, route, json={} if method == "POST" else None)
            check_error(got.status_code, got.json(), "unsupported")


async def test_odd_words_are_refused(tmp_path, project):
    async with overlaid(tmp_path, project) as house:
        async with connect(house.url, token=house.token) as fs:
            await fs.write_text("a.txt", NEW)
            for odd in ({"a.txt": [0]}, {"a.txt": [9]}, {}, {"a.txt": "1"}):
                with pytest.raises((ParseError, PathNotFound)):
                    await fs.apply(hunks=odd)
                with pytest.raises((ParseError, PathNotFound)):
                    await fs.discard(hunks=odd)
            with pytest.raises(ParseError):
                await fs.apply(publish="some")
        client = house.client()
        for body in (
            {"paths": []},
            {"paths": "a"},
            {"hunks": {"a.txt": []}},
            {"merge": 1},
            {"x": 1},
        ):
            got = await client.post("/overlay/apply", json=body)
            check_error(got.status_code, got.json(), "parse_error")
        assert (project / "a.txt").read_text() == OLD


@pytest.mark.spec("PY-2")
async def test_its_blocking_twin(tmp_path, project):

    def work(url, token):
        with connect_sync(url, token=token) as fs:
            fs.write_text("a.txt", NEW)
            assert told(fs.changes()) == {("a.txt", "updated")}
            assert "+ONE" in fs.diff("a.txt").text
            assert told(fs.apply()) == {("a.txt", "updated")}
            assert fs.discard() == []

    async with overlaid(tmp_path, project) as house:
        await asyncio.to_thread(work, house.url, house.token)
        assert (project / "a.txt").read_text() == NEW
