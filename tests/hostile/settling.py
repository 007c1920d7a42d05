"""Attacks on what a person says of work that is not in the tree yet: by an agent that goes on
changing it while they speak, by names and values that are none, by agents and other roots, and by a
tree in which links appear between what was shown and what is said.

Every function here runs behind the wall.
"""

import asyncio
import os
import pathlib
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from bailiwick.errors import KINDS, BailiwickError
from bailiwick.grant import Subject, parse_subject
from bailiwick.reviews import ReviewResult
from bailiwick.scope import Scope
from tests.fronts.http.serving import AGENT, PERSON, House, serving

SECRET = "outside: SECRET\n"
ALL = ("read", "write", "list", "delete", "move", "metadata")
SEEN, EVIL, OURS = "seen\n", "EVIL\n", "ours\n"
SAID = ("over", "whole", "reject")
ROUNDS = 25

CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
{at}
trusted = true
[[root]]
id = "kept"
kind = "workspace"
path = "overlay:{place}/kept"
trusted = true
[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "write", "list", "delete", "move", "metadata"]
"""

_OVERLAY = 'path = "overlay:{place}/tree"\nhistory = "on"'


@asynccontextmanager
async def _housed(place: pathlib.Path, at: str) -> AsyncGenerator[House, None]:
    for name in ("tree", "kept", "house", "outside"):
        (place / name).mkdir()
    (place / "outside" / "f").write_text(SECRET)
    (place / "kept" / "f").write_text(SECRET)
    async with serving(place / "house", config=CONFIG.format(at=at, place=place)) as house:
        yield house


async def _scope(house: House, subject: Subject) -> Scope:
    """Without the way over HTTP, which takes longer than what is raced for."""
    return await house.authority.request_root(subject, "workspace:demo", ALL, "race")


async def _shown(person: httpx.AsyncClient, where: dict[str, str], path: str) -> str:
    """What the one hunk of a file is called, as it is shown now."""
    found = (await person.get("/review", params={**where, "path": path})).json()["files"]
    return f"{found[0]['hunks'][0]['id']}@{found[0]['version']}"


# --- an agent that goes on ----------------------------------------------------------------------


def race(at: str) -> dict[str, Any]:
    """A person agrees to what they saw, and the agent swaps it for something else just then: each
    time a step later."""
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_RACES[at](pathlib.Path(directory)))


class _Race:
    def __init__(self) -> None:
        self.found = {"evil": 0, "agreed": 0, "refused": 0, "lost": 0}

    async def swap(
        self, saying: Coroutine[Any, Any, ReviewResult], scope: Scope, path: str
    ) -> None:
        """Swap it some steps after the person has begun to speak."""
        said = asyncio.ensure_future(saying)
        for _ in range(int(path.partition("_")[2])):
            await asyncio.sleep(0)
        await scope.write_text(path, EVIL)
        try:
            is_done = not (await said).conflicts
        except BailiwickError:
            is_done = False
        self.found["agreed" if is_done else "refused"] += 1
        # What the agent wrote after all that is still its own, whatever became of the rest.
        self.found["lost"] += (await scope.read_text(path)).text != EVIL

    def paths(self) -> Iterator[str]:
        return (f"{how}_{number}" for number in range(ROUNDS) for how in SAID)

    @staticmethod
    def verdict(person: Scope, path: str, name: str, **of: str) -> Coroutine[Any, Any, Any]:
        if "reject" in path:
            return person.review.reject(name, insist=True, **of)
        return person.review.accept(name, over="over" in path, **of)


async def _in_overlay(place: pathlib.Path) -> dict[str, Any]:
    race = _Race()
    async with _housed(place, _OVERLAY.format(place=place)) as house:
        person, agent = await _scope(house, PERSON), await _scope(house, parse_subject(AGENT))

        async def shown(path: str) -> tuple[str, str]:
            (place / "tree" / path).write_text("old\n")
            await agent.write_text(path, SEEN)
            if "over" in path:
                (place / "tree" / path).write_text(OURS)
            work = (await person.work())[-1].id
            (file,) = (await person.review.queue(work=work, paths=[path])).files
            return work, f"{file.hunks[0].id}@{file.version}"

        for path in race.paths():
            work, name = await shown(path)
            await race.swap(race.verdict(person, path, name, work=work), agent, path)
            race.found["evil"] += (place / "tree" / path).read_text() == EVIL
            await agent.remove(path)
        # Without a name of what was seen it is whatever stands there by then.
        await shown("control")
        await agent.write_text("control", EVIL)
        await person.apply(["control"])
        return {**race.found, "control": (place / "tree" / "control").read_text()}


async def _in_fork(place: pathlib.Path) -> dict[str, Any]:
    race = _Race()
    async with _housed(place, f'volume = "sqlite:{place}/v.db?volume=main"') as house:
        person, agent = await _scope(house, PERSON), await _scope(house, parse_subject(AGENT))

        async def shown(path: str) -> tuple[Scope, str]:
            await person.write_text(path, "old\n")
            fork = await agent.fork(path)
            await fork.write_text(path, SEEN)
            if "over" in path:
                await person.write_text(path, OURS)
            (file,) = (await person.review.queue(fork=path)).files
            return fork, f"{file.hunks[0].id}@{file.version}"

        for path in race.paths():
            fork, name = await shown(path)
            async with aclosing(fork):
                await race.swap(race.verdict(person, path, name, fork=path), fork, path)
            race.found["evil"] += (await person.read_text(path)).text == EVIL
        fork, _ = await shown("control")
        async with aclosing(fork):
            await fork.write_text("control", EVIL)
        await person.merge("control")
        return {**race.found, "control": (await person.read_text("control")).text}


_RACES = {"overlay": _in_overlay, "fork": _in_fork}


# --- names, values, links, others ---------------------------------------------------------------


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_attacked(pathlib.Path(directory)))


class _Tries:
    def __init__(self) -> None:
        self.allowed: list[str] = []
        self.internal = self.refused = self.leaks = 0
        self.kinds: set[str] = set()

    def note(self, answer: httpx.Response, what: str, *, may_pass: bool = False) -> None:
        self.leaks += "SECRET" in answer.text
        self.internal += answer.status_code == 500
        if answer.status_code < 400:
            if not may_pass:
                self.allowed.append(f"{what}: {answer.text[:200]}")
            return
        self.refused += 1
        kind = answer.json().get("errorKind")
        if kind not in KINDS:
            self.kinds.add(f"no kind: {kind}")


async def _attacked(place: pathlib.Path) -> dict[str, Any]:
    tries = _Tries()
    async with _housed(place, _OVERLAY.format(place=place)) as house:
        person, agent = house.client(), await house.agent()
        tree = place / "tree"
        for path in ("f", "d/f", "e/f"):
            write = {"path": path, "content": SEEN, "parents": True}
            assert (await agent.post("/file/write", json=write)).status_code < 300
            (tree / path).parent.mkdir(exist_ok=True)
            (tree / path).write_text(OURS)
        work = (await person.get("/work")).json()["work"][-1]["id"]
        names = [await _shown(person, {"work": work}, path) for path in ("f", "d/f", "e/f")]
        for name in names:
            for how in ({"text": "x\n"}, {"over": True}, {}):
                body = {"work": work, "accept": [name], **how}
                tries.note(await agent.post("/review", json=body), f"an agent: {how}")
                there = await person.post("/roots/workspace/kept/review", json=body)
                tries.note(there, f"by another root: {how}")
        await _odd_names(person, tries, work, names[0])
        await _odd_bodies(person, tries, work, names)
        before = {path: (tree / path).read_text() for path in ("f", "d/f", "e/f")}
        await _links(person, tries, place, work, names)
        outside = {each: (place / each / "f").read_text() for each in ("outside", "kept")}
        listed = sorted(os.listdir(place / "outside"))
    return {
        "allowed": tries.allowed, "internal": tries.internal, "refused": tries.refused,
        "leaks": tries.leaks, "kinds": sorted(tries.kinds), "before": before,
        "outside": outside, "listed": listed, "control": SECRET,
    }  # fmt: skip


async def _odd_names(person: httpx.AsyncClient, tries: _Tries, work: str, name: str) -> None:
    id, _, version = name.partition("@")
    tree, _, apart = version.partition(".")
    forged = (
        id, f"{id}@", f"{id}@{tree}", f"{id}@{apart}.{tree}", f"{id}@{version[:-1]}", f"{id}@0",
        f"{id}@{version}.{version}", f"{id[:3]}@{version}", f"@{version}", f"{work}:f@{version}",
        f"{work}:f", f"{work}:../outside/f", work, f"{id}@{version}\n", f"{id.upper()}@{version}",
        f"{id}@{'0' * 100_000}", f"../{id}@{version}", "", "\0", "*",
    )  # fmt: skip
    for each in forged:
        for how in ({"text": "x\n"}, {"over": True}):
            body = {"work": work, "accept": [each], **how}
            tries.note(await person.post("/review", json=body), f"{each[:60]!r}: {how}")
    for ids in ([name, name.replace(version, "0")], [name, work], []):
        body = {"work": work, "accept": ids, "over": True}
        tries.note(await person.post("/review", json=body), f"{len(ids)} names")
    for other in ("w0000000000", "../kept", "", "\0", work.upper(), "0" * 10_000):
        for key in ("work", "ofFork"):
            body = {key: other, "accept": [name], "over": True}
            tries.note(await person.post("/review", json=body), f"{key}: {other[:20]!r}")


async def _odd_bodies(
    person: httpx.AsyncClient, tries: _Tries, work: str, names: list[str]
) -> None:
    """What would be silently left out of account is refused, and so is what is no text."""
    first = {"work": work, "accept": [names[0]]}
    for body in (
        {**first, "text": "x", "over": True}, {**first, "text": "x", "preview": True},
        {**first, "over": True, "note": "x"}, {**first, "over": True, "insist": True},
        {"work": work, "reject": [names[0]], "text": "x"},
        {"work": work, "reject": [names[0]], "over": True}, {"accept": [names[0]], "over": True},
        {"accept": [names[0]], "text": "x"}, {**first, "ofFork": "main", "over": True},
        {**first, "text": 5}, {**first, "text": ["x"]}, {**first, "text": {"x": 1}},
        {**first, "over": "yes"}, {**first, "over": 1}, {**first, "over": True, "sides": []},
        {**first, "text": "x" * (5 * 1024 * 1024 + 1)}, {**first, "text": "x", "Text": "y"},
    ):  # fmt: skip
        tries.note(await person.post("/review", json=body), str(body)[:200])
    whole = f'{{"work": "{work}", "accept": ["{names[0]}"], '
    for rest in (
        r'"text": "\ud800"}', r'"text": "\udc80\udcff"}', '"text": NaN}', '"over": 1e400}',
        '"over": true, "over": false}', '"text": "a", "text": "b"}',
        f'"text": {"[" * 50_000}{"]" * 50_000}}}', '"text": "a"', f'"text": {"9" * 100_000}}}',
    ):  # fmt: skip
        sent = await person.post(
            "/review", content=whole + rest, headers={"content-type": "application/json"}
        )
        tries.note(sent, rest[:60])
    sent = await person.post(
        "/review", content=(whole + '"text": "').encode() + b'\xff\xfe"}',
        headers={"content-type": "application/json"},
    )  # fmt: skip
    tries.note(sent, "no UTF-8")


async def _links(
    person: httpx.AsyncClient, tries: _Tries, place: pathlib.Path, work: str, names: list[str]
) -> None:
    """A file, and a directory around one, become links to the outside after they were shown."""
    tree = place / "tree"
    os.unlink(tree / "f")
    os.symlink("../outside/f", tree / "f")
    os.rename(tree / "d", tree / "aside")
    os.symlink("../outside", tree / "d")
    os.rename(tree / "e", tree / "beside")
    os.symlink(place / "kept", tree / "e")
    assert (tree / "d" / "f").read_text() == (tree / "f").read_text() == SECRET
    for path, old in zip(("f", "d/f", "e/f"), names, strict=True):
        told = await person.get("/review", params={"work": work, "path": path})
        tries.note(told, f"a look through a link: {path}", may_pass=True)
        again = [
            f"{hunk['id']}@{file['version']}"
            for file in told.json().get("files", [])
            for hunk in file["hunks"]
        ]
        for name in (old, *again):
            for how in ({"text": "x\n"}, {"over": True}):
                body = {"work": work, "accept": [name], **how}
                said = await person.post("/review", json=body)
                tries.note(said, f"through a link: {path}", may_pass=True)
