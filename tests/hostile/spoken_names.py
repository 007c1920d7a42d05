"""Attacks on the names by which a person says what they mean: of what lies apart (`NAME@VERSION`,
`NAME:PATH@VERSION`, `ID@VERSION`, ``seen``) and of runs (`RUN@VERSION`). An agent chooses the names
of forks and files, and goes on working after it was looked at; others forge, shorten and lengthen.

Every function here runs behind the wall.
"""

import asyncio
import pathlib
import tempfile
import unicodedata
from collections.abc import Awaitable, Iterator
from typing import Any

import httpx

import bailiwick
from bailiwick.errors import KINDS, BailiwickError
from bailiwick.paths import ScopedPath
from bailiwick.verbs.runs.path_stories import hunk_id
from tests.fronts.http.serving import House, serving

SEEN, EVIL = "seen\n", "EVIL\n"
ALL = ("read", "write", "list", "delete", "move", "metadata")
CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
path = "overlay:{place}/tree"
history = "on"
trusted = true
[[root]]
id = "lines"
kind = "workspace"
volume = "sqlite:{place}/v.db?volume=main"
trusted = true
"""
_FORKS = "/roots/workspace/lines"


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        for name in ("tree", "house"):
            (place / name).mkdir()
        return asyncio.run(_attacked(place))


async def _attacked(place: pathlib.Path) -> dict[str, Any]:
    found: dict[str, Any] = {"accepted": [], "internal": [], "refused": 0, "kinds": set()}
    async with serving(place / "house", config=CONFIG.format(place=place)) as house:
        for root in ("workspace:demo", "workspace:lines"):
            agent = await house.agent(*ALL, root=root)
        person = house.client()
        await _after_a_look(found, house, person, agent, place)
        await _by_a_name_that_is_an_id(found, person, agent)
        await _by_a_run_that_went_on(found, person, agent)
    found["kinds"] = sorted(found["kinds"])
    return found


def _note(found: dict[str, Any], what: object, error: str | None) -> None:
    if error is None:
        found["accepted"].append(repr(what)[:120])
        return
    found["refused"] += 1
    found["kinds"].add(error if error in KINDS else f"no kind: {error}")
    if error == "internal_error":
        found["internal"].append(repr(what)[:120])


def _kind_of(answer: httpx.Response) -> str | None:
    return None if answer.status_code < 400 else answer.json().get("errorKind", "?")


async def _written(client: Any, path: str, text: str, at: str = "", **query: str) -> None:
    body = {"path": path, "content": text, "parents": True}
    got = await client.post(f"{at}/file/write", json=body, params=query)
    assert got.status_code < 300, got.text


# --- what was looked at, and is another by now ----------------------------------------------------


async def _after_a_look(
    found: dict[str, Any], house: House, person: Any, agent: Any, place: pathlib.Path
) -> None:
    """Not one way of saying "as I saw it" brings what nobody saw."""
    accented = unicodedata.normalize("NFC", "\u00e9")
    for path in ("good", "other", f"good@{'0' * 32}", "ab:c", accented):
        await _written(agent, path, SEEN)
    (copy,) = (await person.get("/work")).json()["work"]
    name = copy["id"]
    shown = (await person.get(f"/review?work={name}")).json()
    seen = (await person.get(f"/work/{name}")).json()["version"]
    files = {each["path"]: each for each in shown["files"]}
    for path in files:
        await _written(agent, path, EVIL)
    good = f"{files['good']['hunks'][0]['id']}@{files['good']['version']}"
    names = list(_names(name, shown["version"], seen, good, accented))
    async with bailiwick.connect(house.url, token=house.token, root="workspace:demo") as fs:
        for each in names:
            for verdict in ("accept", "reject"):
                body = {verdict: [each.encode("utf-8", "replace").decode()], "work": name}
                _note(found, body, _kind_of(await person.post("/review", json=body)))
            _note(found, each, await _error_of(fs.review.accept([each], work=name)))
            if each != name:
                body = {"seen": each.encode("utf-8", "replace").decode()}
                for route in (f"/work/{name}/apply", f"/work/{name}/discard", "/overlay/apply"):
                    _note(found, (route, each), _kind_of(await person.post(route, json=body)))
                async with await fs.open_work(name) as work:
                    _note(found, each, await _error_of(work.apply(seen=each)))
    found["tree"] = sorted(each.name for each in (place / "tree").rglob("*"))
    # The control: what stands there now, said as it is shown now.
    now = (await person.get(f"/review?work={name}")).json()["version"]
    assert (
        await person.post("/review", json={"accept": [f"{name}:good@{now}"], "work": name})
    ).is_success
    seen = (await person.get(f"/work/{name}")).json()["version"]
    assert (
        await person.post(f"/work/{name}/apply", json={"paths": ["other"], "seen": seen})
    ).is_success
    found["control"] = [(place / "tree" / each).read_text() for each in ("good", "other")]


async def _error_of(said: Awaitable[object]) -> str | None:
    try:
        await said
    except BailiwickError as error:
        return error.kind
    return None


def _names(name: str, version: str, seen: str, good: str, accented: str) -> Iterator[str]:
    """As they were shown, and whatever might be taken for that."""
    id, _, shown = good.partition("@")
    for at in (
        version,
        seen,
        version.upper(),
        version[:-1],
        f"{version}0",
        "0" * 32,
        version[::-1],
    ):
        yield f"{name}@{at}"
        yield f"{name}:good@{at}"
    for at in (shown, shown.upper(), shown[:-1], shown.partition(".")[0], f"{shown}.", "."):
        yield f"{id}@{at}"
        yield f"{id[:4]}@{at}"
    whole = f"{name}@{version}"
    yield from (
        f" {whole}",
        f"{whole} ",
        f"{whole}\n",
        f"{whole}\0",
        f"{whole}@{version}",
        f"@{version}",
    )
    yield from (f"{name}:@{version}", f":good@{version}", f"{name}::good@{version}", f"{name}:")
    yield from (
        f"{name[:-1]}@{version}",
        f"{name}x@{version}",
        f"{name.upper()}",
        name[1:],
        name[:4],
    )
    yield from (
        f"{name}:../tree/good",
        f"{name}:/etc/hostname",
        f"{name}:good/..",
        f"{name}:./good",
    )
    yield from (f"{name}:GOOD", f"{name}:goo", f"{name}:good/", f"{name}:go*", f"{name}:\u202egood")
    yield f"{name}:{unicodedata.normalize('NFD', accented)}"
    yield f"{name}:good@{'0' * 32}"
    yield "".join(chr(ord(each) + 0xFEE0) for each in whole)  # the same in wide letters
    yield f"{name}:{'good' * 50_000}"
    yield f"{name}@{'0' * 100_000}"
    yield "w0123456789"
    yield "w0123456789:good"


# --- names that an agent chooses ------------------------------------------------------------------


def _colliding() -> tuple[str, str]:
    """The name of a fork with which the id of a change in it begins, and that change."""
    for number in range(1_000_000):
        text = f"{number}\n"
        for digit in "abcdef":
            name = f"{digit}{number % 4096:03x}"
            if hunk_id(name, ScopedPath("good"), "", text).startswith(name):
                return name, text
    raise AssertionError("none was found")


async def _by_a_name_that_is_an_id(found: dict[str, Any], person: Any, agent: Any) -> None:
    """Whoever gives the beginning of the id of one change does not mean all of the fork."""
    await _written(person, "good", "", at=_FORKS)
    name, text = _colliding()
    for fork in (name, "f0rk"):
        assert (await agent.post(f"{_FORKS}/fork", json={"name": fork})).is_success
        await _written(agent, "good", text, at=_FORKS, fork=fork)
        await _written(agent, "evil", EVIL, at=_FORKS, fork=fork)
    queue = (await person.get(f"{_FORKS}/review?ofFork={name}")).json()
    (hunk,) = (
        hunk["id"] for each in queue["files"] if each["path"] == "good" for hunk in each["hunks"]
    )
    found["collides"] = hunk.startswith(name)
    body = {"accept": [name], "ofFork": name}
    _note(found, body, _kind_of(await person.post(f"{_FORKS}/review", json=body)))
    found["lines"] = (await person.get(f"{_FORKS}/glob?pattern=**")).json()["matches"]
    # The control: all of it by the name of a fork that is nothing else, one by the whole id.
    told = await person.post(f"{_FORKS}/review", json={"accept": [hunk], "ofFork": name})
    found["one"] = told.json()["applied"]
    told = await person.post(f"{_FORKS}/review", json={"accept": ["f0rk"], "ofFork": "f0rk"})
    found["all"] = told.json()["applied"]


async def _by_a_run_that_went_on(found: dict[str, Any], person: Any, agent: Any) -> None:
    await _written(agent, "run/a", SEEN, at=_FORKS)
    runs = (await person.get(f"{_FORKS}/runs")).json()["runs"]
    run = next(each for each in runs if each["created"])
    await _written(agent, "run/b", EVIL, at=_FORKS)
    version = run["version"]
    for at in (version, version.upper(), version[:-1], f"{version}0", "", ".", "0" * 32):
        for id in (run["id"], run["id"][:8], f"{run['id']}0"):
            body = {"accept": [f"{id}@{at}"]}
            _note(found, body, _kind_of(await person.post(f"{_FORKS}/review", json=body)))
    left = (await person.get(f"{_FORKS}/review")).json()
    found["left"] = sorted(
        each["path"] for each in left["files"] if each["path"].startswith("run/")
    )
    now = next(
        each
        for each in (await person.get(f"{_FORKS}/runs")).json()["runs"]
        if each["id"] == run["id"]
    )
    body = {"accept": [f"{run['id']}@{now['version']}"]}
    found["run"] = (await person.post(f"{_FORKS}/review", json=body)).status_code
