"""Decides about what lies apart, dies after so many steps of that, asks again under the same key,
and tells what came of it: `python -m tests.fronts.http.dying_decisions PLACE DECISION FOLDER`. Each
try is a process of its own, and so is who asks again. A fourth argument is from which step on, and
a fifth how many of them are passed over each time.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from bailiwick.state.database import Database
from bailiwick.stores.disk import DiskStore
from bailiwick.version_acts import BringBack, DiscardWork, Merge
from bailiwick.working_copies.directory import DirectoryCopy
from bailiwick.working_copies.folder import Folder
from bailiwick.working_copies.overlay_record import OverlayRecord
from tests.fronts.http.serving import serving
from tests.fronts.http.test_commands import RUNNING, ran

KEY = {"idempotency-key": "one", "x-request-id": "r"}
LINES = "".join(f"{number}\n" for number in range(1, 20))
CHANGED = LINES.replace("2\n", "two\n", 1).replace("18\n", "eighteen\n")
MINE = LINES.replace("2\n", "zwei\n", 1)
SETTLED = LINES.replace("2\n", "deux\n", 1)
PLACES = {
    "directory": 'path = "tree"\ndurability = "rename"',
    "volume": 'volume = "sqlite:{folder}/v.db?volume=main"',
    "fork": 'volume = "sqlite:{folder}/v.db?volume=main"',
    "overlay": 'path = "overlay:tree"',
}
CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
trusted = true
{place}
[[rule]]
id = "run"
operation = ["exec"]
effect = "allow"
"""
DECISIONS = {
    "apply": lambda name, _: (f"/work/{name}/apply", {}),
    "apply some": lambda name, _: (f"/work/{name}/apply", {"paths": ["d"]}),
    "discard": lambda name, _: (f"/work/{name}/discard", {}),
    "discard some": lambda name, _: (f"/work/{name}/discard", {"paths": ["d", "gone"]}),
    "apply the overlay": lambda *_: ("/overlay/apply", {}),
    "discard the overlay": lambda *_: ("/overlay/discard", {"paths": ["d", "new"]}),
    "accept": lambda name, _: ("/review", {"accept": [name]}),
    "accept a hunk": lambda _, shown: ("/review", {"accept": [hunks(shown, "text")[0]]}),
    "reject": lambda name, _: ("/review", {"reject": [name], "note": "no"}),
    "reject a hunk": lambda _, shown: (
        "/review", {"reject": [hunks(shown, "text")[0]], "note": "no"},
    ),
    "both": lambda name, shown: (
        "/review", {
            "accept": [hunks(shown, "text")[0]], "reject": [f"{name}:d", f"{name}:gone"],
            "note": "no",
        },
    ),
    "settle": lambda _, shown: ("/review", {"accept": [seen(shown, "text")], "text": SETTLED}),
    "keep theirs": lambda _, shown: ("/review", {"accept": [seen(shown, "text")], "over": True}),
}  # fmt: skip
"""What a person says, by the name of what lies apart, and of what they were shown of it."""


def hunks(shown, path):
    (file,) = (each for each in shown["files"] if each["path"] == path)
    return [hunk["id"] for hunk in file["hunks"]]


def seen(shown, path):
    (file,) = (each for each in shown["files"] if each["path"] == path)
    return f"{file['hunks'][0]['id']}@{file['version']}"


# --- what is done --------------------------------------------------------------------------------


def house_of(folder, place):
    return serving(folder, config=CONFIG.format(place=PLACES[place].format(folder=folder)))


async def written(client, query="", **contents):
    for path, content in contents.items():
        body = {"path": path.replace("_", "/"), "content": content, "parents": True}
        got = await client.post(f"/file/write{query}", json=body)
        assert got.is_success, got.text


async def prepared(house, place, decision):
    """The request, once there is something to decide about."""
    person, agent = house.client(), await house.agent(*RUNNING)
    before = {"text": LINES, "gone": "gone\n", "d_in": "in\n"}
    if place == "overlay":
        (house.place / "d").mkdir()
        for path, content in before.items():
            (house.place / path.replace("_", "/")).write_text(content)
    else:
        await written(person, **before)
    after = {"text": CHANGED, "new": "new\n", "d_in": "changed\n", "d_deep_er": "x\n"}
    if place in ("directory", "volume"):
        shell = "rm gone; " + "".join(
            f"mkdir -p d/deep; printf %b '{content.encode('unicode_escape').decode()}' > {path}; "
            for path, content in ((each.replace("_", "/"), text) for each, text in after.items())
        )
        name = (await ran(agent, shell=shell, publish="manual")).result["workId"]
        of = {"work": name}
    else:
        query = "?fork=try" if place == "fork" else ""
        if query:
            assert (await agent.post("/fork", json={"name": "try"})).is_success
        await written(agent, query, **after)
        assert (await agent.post(f"/remove{query}", json={"path": "gone"})).is_success
        name = "try"
        if not query:
            (copy,) = (await person.get("/work")).json()["work"]
            name = copy["id"]
        of = {"ofFork": name} if query else {"work": name}
    if decision in ("settle", "keep theirs"):
        if place == "overlay":
            (house.place / "text").write_text(MINE)
        else:
            await written(person, text=MINE)
    query = "&".join(f"{key}={value}" for key, value in of.items())
    shown = (await person.get(f"/review?{query}&path=text")).json()
    route, body = DECISIONS[decision](name, shown)
    return route, body | (of if route == "/review" else {})


async def stands(house, place):
    """All that can be seen, in the tree and apart from it, and what the agent is told of it."""
    person, agent = house.client(), await house.agent(*RUNNING)
    found = {}
    for query in ("", *(["&fork=try"] if place == "fork" else ())):
        for path in (await person.get(f"/glob?pattern=**{query}")).json()["matches"]:
            read = await person.get(f"/file?path={path}{query}")
            found[f"{path}{query}"] = read.json().get("content", read.json().get("errorKind"))
    if place == "overlay":
        beneath = [each for each in house.place.rglob("*") if each.is_file()]
        found |= {f"beneath {x.relative_to(house.place)}": x.read_text() for x in beneath}
    work = []
    for each in (await person.get("/work")).json()["work"]:
        told = (await person.get(f"/work/{each['id']}")).json()
        work.append(sorted([x["path"], x["kind"]] for x in told["changes"]))
    notes = (await agent.get("/list")).json().get("review", [])
    return {"tree": found, "work": work, "notes": sorted([x["path"], x["lines"]] for x in notes)}


def plain(document):
    """Without what is another each time: the name of a working copy, and the ids made from it."""
    told = {key: value for key, value in document.items() if key not in ("id", "version")}
    for key in ("accepted", "rejected"):
        if key in told:
            told[key] = len(told[key])
    return told


# --- dying ----------------------------------------------------------------------------------------


class Death:
    """Ends the process at one of the steps of what it does, from when it is ``awaited`` on."""

    def __init__(self, step):
        self._left = step
        self.awaited = False

    def pass_by(self):
        if self.awaited:
            self._left -= 1
            if self._left < 0:
                os._exit(9)

    def lurk(self):
        """Before each, and after what is committed: as where its answer is lost."""
        for kind, names in {
            Folder: ("note_publishing", "note_giving_up", "note_done", "remove", "save_since"),
            DirectoryCopy: ("_settle", "_rewrite"),
            OverlayRecord: ("append",),
        }.items():
            for name in names:
                setattr(kind, name, self._blocking(getattr(kind, name)))
        changes = ("write_stream", "remove", "make_dir", "move", "symlink", "set_mode")
        for kind, names in {
            DiskStore: changes, Database: ("write", "write_control"), BringBack: ("on",),
            Merge: ("on",), DiscardWork: ("on",),
        }.items():  # fmt: skip
            for name in names:
                setattr(kind, name, self._awaited(getattr(kind, name)))

    def _blocking(self, done):
        def counted(*given, **more):
            self.pass_by()
            return done(*given, **more)

        return counted

    def _awaited(self, done):
        async def counted(*given, **more):
            self.pass_by()
            result = await done(*given, **more)
            self.pass_by()
            return result

        return counted


async def decide(folder, place, decision, step):
    death = Death(step)
    death.lurk()
    async with house_of(folder, place) as house:
        route, body = await prepared(house, place, decision)
        (folder / "request").write_text(json.dumps([route, body]))
        death.awaited = True
        told = await house.client().post(route, json=body, headers=KEY)
        assert told.status_code == 200, told.text
        os._exit(0)  # closing has steps of its own


async def ask_again(folder, place):
    route, body = json.loads((folder / "request").read_text())
    async with house_of(folder, place) as house:
        told = [await house.client().post(route, json=body, headers=KEY) for _ in range(2)]
        assert told[0].content == told[1].content
        answer = {"status": told[0].status_code, "answer": plain(told[0].json())}
        answer |= await stands(house, place)
    (folder / "answer").write_text(json.dumps(answer))


def in_a_process(work):
    """What it ended with."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(work)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    work.close()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(place, decision, top, first="0", stride="1"):
    """A line for each step that it died at, the last of them without dying."""
    step, code = int(first), 9
    while code == 9:
        folder = Path(top) / str(step)
        folder.mkdir()
        (folder / "tree").mkdir()
        code = in_a_process(decide(folder, place, decision, step))
        assert code in (0, 9), code
        assert in_a_process(ask_again(folder, place)) == 0
        print((folder / "answer").read_text(), flush=True)
        step += int(stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
