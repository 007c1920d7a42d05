"""Somebody else at the desk: other agents, whoever was handed one grant in a person's name, and
whoever has no token, against what people answered, said of a run, and were asked for.

Every function here runs behind the wall.
"""

import asyncio
import pathlib
import tempfile
from typing import Any

import httpx

from bailiwick.errors import BailiwickError
from bailiwick.grant import parse_subject
from tests.fronts.http.serving import PERSON, House, serving

ALL = ("read", "write", "list", "delete", "move", "metadata")
OTHER = "agent_run:c9/r9"
SECRET = "kept: SECRET\n"
KEPT = "/roots/workspace/kept"

CONFIG = """
[ask]
surface = "console"
roots = true
[[root]]
id = "demo"
kind = "workspace"
path = "{place}/tree"
trusted = true
history = "on"
[[root]]
id = "kept"
kind = "workspace"
path = "{place}/kept"
trusted = true
[[rule]]
id = "asked"
subject = "agent_run:*"
operation = ["write"]
path = ["asked/**"]
effect = "ask"
"""


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_attacked(pathlib.Path(directory)))


class _Desk:
    """What there is to be taken: an answer for longer, a run with a hunk, a question for a root."""

    def __init__(self, house: House, person: httpx.AsyncClient, victim: httpx.AsyncClient) -> None:
        self.house = house
        self.person = person
        self.victim = victim
        self.allowed: list[str] = []
        self.internal = self.refused = self.leaks = 0

    def note(self, answer: httpx.Response, what: str) -> None:
        self.leaks += "SECRET" in answer.text
        self.internal += answer.status_code >= 500
        # An answer without what was asked for, and a question of one's own, is none.
        empty = answer.status_code == 202 or answer.json().get("approvals") == []
        if answer.status_code < 400 and not empty:
            self.allowed.append(f"{what}: {answer.status_code} {answer.text[:200]}")
        self.refused += answer.status_code >= 400

    async def lay_out(self) -> None:
        write = {"path": "d/f", "content": "mine\n", "parents": True}
        assert (await self.victim.post("/file/write", json=write)).status_code < 300
        ask = {"path": "asked/x", "content": "x\n", "parents": True}
        asked = (await self.victim.post("/file/write", json=ask)).json()["approvalId"]
        answered = await self.person.post(f"/approvals/{asked}", json={"answer": "always"})
        assert answered.status_code == 200, answer_text(answered)
        (rule,) = (await self.person.get("/rules")).json()["rules"]
        (file,) = [
            each
            for each in (await self.person.get("/review")).json()["files"]
            if each["path"] == "d/f"
        ]
        self.rule, self.asked = rule["id"], asked
        self.hunk, self.run = file["hunks"][0]["id"], file["hunks"][0]["run"]
        self.shown = f"{self.hunk}@{file['version']}"
        self.wants = {"path": "mine", "content": "of the victim\n"}
        pending = await self.victim.post(f"{KEPT}/file/write", json=self.wants)
        self.question = pending.json()["approvalId"]

    async def state(self) -> tuple[Any, Any]:
        """What a person finds: answers for longer, and what is left to review."""
        rules, queue = await self.person.get("/rules"), await self.person.get("/review")
        return rules.json()["rules"], queue.json()["files"]

    async def tried_by(self, client: httpx.AsyncClient, who: str) -> None:
        """Everything that is another's, by one who knows all of its names."""
        self.note(await client.get("/rules"), f"{who}: GET /rules")
        for rule in (self.rule, self.rule.upper(), f"{self.rule}%00", f"x%2f..%2f{self.rule}"):
            self.note(await client.delete(f"/rules/{rule}"), f"{who}: DELETE /rules/{rule}")
        for query in ("", f"?run={self.run}", "?path=d/f", f"?work={self.run}"):
            self.note(await client.get(f"/review{query}"), f"{who}: GET /review{query}")
        forged = ("0" * 32, self.hunk[::-1], f"{self.run}:d/f", f"{self.hunk}@0", "main")
        for name in (self.hunk, self.shown, self.run, *forged):
            for verdict in ("accept", "reject"):
                for more in ({}, {"insist": True}, {"preview": True}, {"approval": self.asked}):
                    body = {verdict: [name], **more}
                    self.note(await client.post("/review", json=body), f"{who}: {body}")
        for approval in (self.question, self.asked):
            if who != "the victim":
                self.note(await client.get(f"/approvals/{approval}"), f"{who}: sees {approval}")
            for answer in ("once", "always", "grant"):
                said = await client.post(f"/approvals/{approval}", json={"answer": answer})
                self.note(said, f"{who}: {answer} to {approval}")
        self.note(await client.get(f"{KEPT}/file?path=secret"), f"{who}: the root")
        body = {**self.wants, "approval": self.question}
        self.note(await client.post(f"{KEPT}/file/write", json=body), f"{who}: another's question")

    async def flooded_by(self, client: httpx.AsyncClient) -> int:
        """How many questions one subject has people look at, however many roots it makes up."""
        for number in range(20):
            for name in (f"made-up-{number}", "kept"):
                found = await client.get(f"/roots/workspace/{name}/entries?path=.")
                self.note(found, f"a root called {name}")
        waiting = (await self.person.get("/approvals")).json()["approvals"]
        return sum(each["subject"] == OTHER for each in waiting)


def answer_text(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.text}"


async def _attacked(place: pathlib.Path) -> dict[str, Any]:
    for name in ("tree", "kept", "house"):
        (place / name).mkdir()
    (place / "kept" / "secret").write_text(SECRET)
    config = CONFIG.format(place=place)
    async with serving(place / "house", config=config, ask_wait_s=0.05) as house:
        desk = _Desk(house, house.client(), await house.agent(*ALL))
        await desk.lay_out()
        before = await desk.state()
        other = await house.agent(*ALL, subject=OTHER)
        grant = await house.authority.add_grant(
            subject="user:bob", root="workspace:demo", access=ALL, by=PERSON
        )
        handed = await house.authority.tokens.issue(
            "handed", "user:bob", by=PERSON, front="test", grant_id=grant.id
        )
        for who, client in (
            ("the victim", desk.victim), ("another agent", other),
            ("one grant in a person's name", house.client(handed)),
            ("a made-up token", house.client("0" * 43)), ("nobody", house.client("")),
        ):  # fmt: skip
            await desk.tried_by(client, who)
        flooded = await desk.flooded_by(other)
        await _by_odd_values(house, desk)
        found: dict[str, Any] = {"before": before, "after": await desk.state(), "flooded": flooded}
        # And what was asked for is theirs who asked, once a person says so, and no more than that.
        answered = f"/approvals/{desk.question}"
        given = await desk.person.post(answered, json={"answer": "once"})
        found["granted"] = given.json()["state"]
        found["control"] = (
            await desk.victim.post(f"{KEPT}/file/write", json=desk.wants)
        ).status_code
        desk.note(await other.get(f"{KEPT}/file?path=secret"), "another agent, after the yes")
        body = {**desk.wants, "approval": desk.question}
        desk.note(await other.post(f"{KEPT}/file/write", json=body), "another agent, by its id")
        desk.note(
            await desk.victim.post(f"{KEPT}/remove", json={"path": "secret"}), "more than asked"
        )
        forgotten = await desk.person.delete(f"/rules/{desk.rule}")
        found["control_rules"] = forgotten.status_code
    found["kept"] = (place / "kept" / "secret").read_text()
    found["names"] = sorted(each.name for each in (place / "kept").iterdir())
    return found | {
        "allowed": desk.allowed, "internal": desk.internal, "refused": desk.refused,
        "leaks": desk.leaks,
    }  # fmt: skip


ODD: tuple[dict[str, Any], ...] = (
    {"expires_in": float("nan")}, {"expires_in": float("inf")}, {"expires_in": -1},
    {"expires_in": 10**30}, {"path": "/etc"}, {"path": ".."}, {"path": "a/../../b"},
    {"path": "a\0b"}, {"path": "x" * 100_000}, {"reason": "x" * 1_000_000},
    {"root": "workspace:"}, {"root": "workspace:*"}, {"root": "*:kept"},
    {"root": "\x1b[2Jworkspace:kept"}, {"access": ("all",)}, {"access": ()},
    {"access": ("read", "READ")}, {"access": "read"},
)  # fmt: skip


async def _by_odd_values(house: House, desk: _Desk) -> None:
    """What cannot be asked for is no question, whoever is looking."""
    for number, odd in enumerate(ODD):
        given = {
            "root": "workspace:kept", "access": ("read",), "reason": "to see", "wait_s": 0.0,
        } | odd  # fmt: skip
        subject = parse_subject(f"agent_run:odd/{number}")
        count = len(house.authority.approvals.pending())
        try:
            await house.authority.request_root(subject, **given)
            desk.allowed.append(f"{odd}")
        except BailiwickError as error:
            desk.internal += error.kind == "internal_error"
            desk.refused += 1
            if len(house.authority.approvals.pending()) != count:
                desk.allowed.append(f"a person is asked for {str(odd)[:80]}")
