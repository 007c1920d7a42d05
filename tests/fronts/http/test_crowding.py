"""One who takes all there is: streams, calls, temporary roots. Whoever passes on to themselves, or
to others, what they hold has no more of anything for it."""

import asyncio
import time

import pytest

from tests.fronts.http.serving import AGENT, check_error, serving
from tests.fronts.http.test_review import granted

HEIRS = [AGENT, "agent_run:c2/r2", AGENT, "agent_run:c3/r3"]
"""To whom an agent may pass on what it holds: itself, and others."""


def token_of(client):
    return client.headers["authorization"].split()[1]


async def heirs_of(house, agent, count, *, subjects=HEIRS):
    """Tokens that come of an agent's grant, each from the one before."""
    held, holder, tokens = await granted(agent), agent, []
    for number in range(count):
        asked = {"subject": subjects[number % len(subjects)]}
        made = await holder.post(f"/grants/{held}/delegate", json=asked)
        assert made.status_code == 201, made.text
        document = made.json()
        held, holder = document["grant"]["id"], house.client(document["token"])
        tokens.append(document["token"])
        await holder.get("/capabilities")
    return tokens


async def kind_of(asking):
    answer = await asking
    if answer.status_code < 400:
        return "ok"
    check_error(answer.status_code, answer.json(), answer.json()["errorKind"])
    return answer.json()["errorKind"]


# --- temporary roots -----------------------------------------------------------------------------


@pytest.mark.spec("HTTP-12", "AUTH-8")
async def test_a_subject_has_so_many_temporary_roots_whatever_token_it_shows(tmp_path):
    async with serving(tmp_path, lasting=False) as house:
        agent = await house.agent("read", "list", "write")
        tokens = await heirs_of(house, agent, 4)
        clients = [agent, *map(house.client, tokens)]
        made = [await clients[number % 5].post("/temp", json={}) for number in range(16)]
        assert {each.status_code for each in made} == {201}
        for client in clients:
            answer = await client.post("/temp", json={})
            check_error(507, answer.json(), "quota_exceeded")
            assert answer.json()["details"]["limit"] == 16
            assert "DELETE /temp" in answer.json()["hint"] or "close one" in answer.json()["hint"]
        # Others are not concerned, and one that is closed leaves room.
        other = await house.agent("read", "write", subject="agent_run:c9/r9")
        assert (await other.post("/temp", json={})).status_code == 201
        assert (await house.client().post("/temp", json={})).status_code == 201
        gone = made[1].json()["id"]
        assert (await clients[1].delete(f"/temp/{gone}")).status_code == 200
        assert (await agent.post("/temp", json={})).status_code == 201


@pytest.mark.spec("HTTP-12")
async def test_a_temporary_root_whose_time_is_up_leaves_room(tmp_path):
    async with serving(tmp_path, lasting=False) as house:
        agent = await house.agent("read", "list", "write")
        made = [await agent.post("/temp", json={"seconds": 0.2}) for _ in range(16)]
        assert {each.status_code for each in made} == {201}
        over = max(each.json()["expiresAtMs"] for each in made) / 1_000 + 0.05
        while time.time() < over:
            await asyncio.sleep(0.01)
        assert (await agent.post("/temp", json={"seconds": 60})).status_code == 201
        first = made[0].json()["id"]
        for _ in range(2):
            lost = await agent.get(f"/roots/temp/{first}/list")
            assert lost.json()["errorKind"] in ("closed", "grant_expired", "root_not_found")
        assert len(house.authority._temps) == 1
