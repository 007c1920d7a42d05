"""An agent asks for its runs in short, and in full: a short answer tells nothing that the full one
keeps back, whatever is hidden, out of reach or another's by then.

Every function here runs behind the wall.
"""

import asyncio
import pathlib
import tempfile
from typing import Any

from tests.fronts.http.serving import AGENT, serving

ALL = ["read", "write", "list", "delete", "move", "metadata"]
HIDDEN = "secret-plan"
CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
volume = "sqlite:{place}/v.db?volume=main"
trusted = true
[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = {access}
path = "{reach}"
"""
RULE = '[[rule]]\nid = "kept"\neffect = "{effect}"\nsubject = ["agent_run:*"]\npath = ["{path}"]\n'
LATER = {
    "nothing": ("", "."),
    "hidden": (RULE.format(effect="hide", path=f"**/{HIDDEN}*"), "."),
    "denied": (RULE.format(effect="deny", path=f"**/{HIDDEN}*"), "."),
    "out of reach": ("", "open"),
}
"""What became of the rules and of the grant after the agent had done its work."""

ASKED = (
    "", "path=open", f"path=open/{HIDDEN}", f"path={HIDDEN}", "path=..", "path=%2e%2e", "limit=1",
    "cursor=0", "cursor=9", "cursor=..", "step=x", "step=", "path=.", "limit=1000",
)  # fmt: skip


FIELDS = ("kind", "origin", "added", "removed", "hunkCount", "reviewedCount", "title")


def run() -> dict[str, Any]:
    found = {}
    for later in LATER:
        with tempfile.TemporaryDirectory() as directory:
            found[later] = asyncio.run(_asked(pathlib.Path(directory), later))
    return found


def _config(place: pathlib.Path, later: str) -> str:
    rules, reach = LATER[later]
    return CONFIG.format(place=place, access=ALL, reach=reach) + rules


async def _asked(place: pathlib.Path, later: str) -> dict[str, Any]:
    async with serving(place, config=_config(place, "nothing")) as house:
        agent = await house.agent()
        for path in ("open/a", f"open/{HIDDEN}", f"{HIDDEN}2", "gone"):
            body = {"path": path, "content": f"{path}\n" * 7, "parents": True}
            assert (await agent.post("/file/write", json=body)).is_success
        for path, to in ((f"{HIDDEN}2", "open/moved"), ("gone", f"open/{HIDDEN}3")):
            body = {"path": path, "destination": to}
            assert (await agent.post("/move", json=body)).is_success
        other = await house.agent(subject="agent_run:c2/r2")
        body = {"path": "open/others", "content": "x\n"}
        assert (await other.post("/file/write", json=body)).is_success
    async with serving(place, config=_config(place, later)) as house:
        agent, person = await house.agent(), house.client()
        told = {"more": [], "named": [], "internal": 0, "asked": 0, "changes": 0}
        runs = await _both(agent, "/runs?", told)
        everybody = (await person.get("/runs?brief=true")).json()["runs"]
        for each in everybody:
            for asked in ASKED:
                asked += "&" if asked else ""
                await _both(agent, f"/runs/{each['id']}/changes?{asked}", told)
        told["runs"], told["of all"] = len(runs.get("runs", ())), len(everybody)
        own = next(each["id"] for each in everybody if each["subject"] == AGENT)
        control = await person.get(f"/runs/{own}/changes?brief=true")
        told["control"] = HIDDEN in control.text
        return told


async def _both(agent: Any, route: str, told: dict[str, Any]) -> dict[str, Any]:
    """The short answer, once it was held against the full one."""
    brief, full = [await agent.get(f"{route}brief={x}") for x in ("true", "false")]
    told["asked"] += 1
    told["internal"] += brief.status_code == 500 or full.status_code == 500
    if HIDDEN in brief.text.replace(route, "") and HIDDEN not in full.text:
        told["named"].append(route)
    if brief.status_code != full.status_code:
        told["more"].append((route, brief.status_code, full.status_code))
    if brief.is_success and full.is_success:
        told["more"] += [(route, each) for each in _more(brief.json(), full.json())]
        told["changes"] += len(brief.json().get("changes", ()))
    return brief.json()  # type: ignore[no-any-return]


def _more(brief: dict[str, Any], full: dict[str, Any]) -> list[object]:
    """What a short answer tells that the full one does not."""
    key, name = ("runs", "id") if "runs" in brief else ("changes", "path")
    known = {each[name]: each for each in full[key]}
    found: list[object] = [each[name] for each in brief[key] if each[name] not in known]
    for each in brief[key]:
        beside = known.get(each[name], {})
        if key == "changes" and each.get("hunks"):
            found.append(each["hunks"])
        found += [
            (each[name], field, each[field], beside.get(field))
            for field in FIELDS
            if each.get(field) and each[field] != beside.get(field)
        ]
    if brief.get("nextCursor") != full.get("nextCursor"):
        found.append((brief.get("nextCursor"), full.get("nextCursor")))
    return found
