"""Attacks by keys under which changes are made once: another agent's key, a key that is none, and
one that somebody may not use any more.

Every function here runs behind the wall.
"""

import asyncio
import pathlib
import tempfile
from typing import Any

import httpx

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
