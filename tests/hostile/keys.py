"""Attacks by keys under which changes are made once: another agent's key, a key that is none, and
one that somebody may not use any more.

Every function here runs behind the wall.
"""

import asyncio
import pathlib
import tempfile
from typing import Any

import httpx

from bailiwick.errors import IoError
from bailiwick.state.idempotency import IdempotencyBook
from tests.fronts.http.serving import AGENT, PERSON, serving

ALL = ("read", "write", "list", "delete", "move", "metadata")
CHANGES: dict[str, dict[str, Any]] = {
    "/file/write": {"path": "private/a", "content": "of the victim\n", "parents": True},
    "/edit": {"path": "private/a", "old": "of", "new": "by"},
    "/snapshot": {"name": "theirs"},
    "/fork": {"name": "theirs"},
    "/lock": {"path": "private/a", "ttl": 60},
    "/batch": {
        "atomic": False,
        "operations": [
            {"op": "write", "path": "private/b", "content": "of the victim\n"},
            {"op": "edit", "path": "private/b", "old": "of", "new": "by"},
        ],
    },
    "/remove": {"path": "private/b"},
}
KEYS = ("", "a b", "a\tb", "x" * 256, "\xff", "é", "a,b\x7f")
TRIES = ("0", "-1", "1000", "1e2", "NaN", "", "1_0", "\xb2", "\xb9\xb2", "1 2", "+1", "0x1")


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_attacked(pathlib.Path(directory)))


async def _attacked(place: pathlib.Path) -> dict[str, Any]:
    found: dict[str, Any] = {"told": [], "internal": [], "odd": [], "control": []}
    async with serving(place, place=f"sqlite:{place}/v.db?volume=main") as house:
        victim = await house.agent(*ALL)
        others = {
            "another": await house.agent(*ALL, subject="agent_run:c1/r2"),
            "one beside it": await house.agent(*ALL, subject="agent_run:c1/r3", path="public"),
            "one without a grant": await house.agent(subject="agent_run:c1/r4"),
            "nobody": house.client("0" * 43),
        }

        def told(answer: httpx.Response, who: str) -> None:
            found["internal"] += [who] if answer.status_code == 500 else []
            if answer.headers.get("idempotency-replayed") or "of the victim" in answer.text:
                found["told"].append(f"{who}: {answer.text[:100]}")

        for counted in ({}, {"idempotency-try": "1"}):
            for route, body in CHANGES.items():
                key = {"idempotency-key": f"{route}{len(counted)}"}
                done = await victim.post(route, json=body, headers=key | counted)
                again = counted and {"idempotency-try": "2"}
                found["control"].append(
                    (await victim.post(route, json=body, headers=key | again)).status_code
                    == done.status_code
                )
                for who, client in others.items():
                    told(await client.post(route, json=body, headers=key | again), who)
                # The same key, for something else.
                other = {**body, "path": "private/c"} if "path" in body else {"name": "x"}
                told(await victim.post(route, json=other, headers=key | again), "something else")
        for name, values in (("idempotency-key", KEYS), ("idempotency-try", TRIES)):
            for value in values:
                sent = {"idempotency-key": "k", name: value}
                answer = await victim.post(
                    "/file/write", json={"path": "odd", "content": "x"},
                    headers={each: text.encode("latin-1") for each, text in sent.items()},
                )  # fmt: skip
                found["odd"].append(answer.status_code)
        # What was answered once is not told again to who may not ask any more.
        grants = house.authority.grants()
        found["ended"] = [
            await house.authority.revoke(each.id, by=PERSON)
            for each in grants
            if each.kind == "standing" and str(each.grant.subject) == AGENT
        ]
        for route, body in CHANGES.items():
            for counted in ({}, {"idempotency-try": "2"}):
                key = {"idempotency-key": f"{route}{len(counted)}"}
                told(await victim.post(route, json=body, headers=key | counted), "after its grant")
    return found


GRANT = {"subject": "agent_run:c9/*", "root": "workspace:demo", "access": ["read", "list"]}
EVE = "user:eve"


def run_governing() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_governed(pathlib.Path(directory)))


async def _governed(place: pathlib.Path) -> dict[str, Any]:
    """Somebody else shows the key under which a person changes the state: while that goes on, after
    its answer was lost, so that what came of it is kept with the key, and after it was kept."""
    found: dict[str, Any] = {"told": [], "blocked": [], "own": [], "control": []}
    key, keep = {"idempotency-key": "of-the-victim"}, IdempotencyBook.keep
    goes_on, is_done = asyncio.Event(), asyncio.Event()

    async def lost(*given: Any) -> None:
        is_done.set()
        await goes_on.wait()
        raise IoError("the state could not be written")

    async with serving(place) as house:
        victim = house.client()
        eve = await house.authority.tokens.issue("eve", EVE, by=PERSON, front="test")
        others = {
            "an agent": await house.agent(*ALL),
            "another person": house.client(eve),
            "nobody": house.client("0" * 43),
        }
        known = {each.id for each in house.authority.grants()}

        async def attack(when: str) -> None:
            ids = {each.id for each in house.authority.grants()} - known
            for who, client in others.items():
                answer = await client.post("/grants", json=GRANT, headers=key)
                is_own = answer.is_success and answer.json()["id"] in found["own"]
                replayed = answer.headers.get("idempotency-replayed") and not is_own
                if replayed or any(each in answer.text for each in ids):
                    found["told"].append(f"{who}, {when}: {answer.text[:100]}")
                if answer.status_code in (409, 500, 503):
                    found["blocked"].append(f"{who}, {when}: {answer.text[:100]}")
                if who == "another person" and answer.is_success:
                    found["own"].append(answer.json()["id"])
                    known.add(answer.json()["id"])

        IdempotencyBook.keep = lost  # type: ignore[method-assign, assignment]
        asking = asyncio.create_task(victim.post("/grants", json=GRANT, headers=key))
        try:
            async with asyncio.timeout(60):
                await is_done.wait()
            IdempotencyBook.keep = keep  # type: ignore[method-assign]  # of others
            (made,) = {each.id for each in house.authority.grants()} - known
            await attack("while it goes on")
        finally:
            IdempotencyBook.keep = keep  # type: ignore[method-assign]
            goes_on.set()
        await asking
        await attack("after the answer was lost")
        for when in ("once it was told", "and again"):
            again = await victim.post("/grants", json=GRANT, headers=key)
            found["control"].append(again.json().get("id") == made)
            await attack(when)
    return found
