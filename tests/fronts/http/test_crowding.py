"""One who takes all there is: streams, calls, temporary roots. Whoever passes on to themselves, or
to others, what they hold has no more of anything for it."""

import contextlib
import itertools
import time
from types import SimpleNamespace

import pytest

from bailiwick.fronts.http.access import gates, scope_cache
from bailiwick.fronts.http.access import streams as bounds
from bailiwick.fronts.http.routes import grants
from bailiwick.state.approvals import desk
from tests.fronts.http.serving import AGENT, check_error, serving
from tests.fronts.http.test_review import granted, streaming
from tests.waiting import until

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
        await until(lambda: time.time() >= over)
        assert (await agent.post("/temp", json={"seconds": 60})).status_code == 201
        first = made[0].json()["id"]
        for _ in range(2):
            lost = await agent.get(f"/roots/temp/{first}/list")
            assert lost.json()["errorKind"] in ("closed", "grant_expired", "root_not_found")
        assert len(house.authority._temps) == 1


# --- tokens --------------------------------------------------------------------------------------


@pytest.mark.spec("HTTP-12")
async def test_who_delegates_to_itself_keeps_no_more_forks_open(tmp_path, monkeypatch):
    monkeypatch.setattr(scope_cache, "_FORKS_KEPT", 4)
    place = f"sqlite:{tmp_path}/v.db"
    async with serving(tmp_path, place=place, lasting=False) as house:
        agent = await house.agent("read", "list", "write", "delete")
        await agent.post("/file/write", json={"path": "a", "content": "x"})
        for number in range(5):
            made = await agent.post("/fork", json={"name": f"f{number}"})
            assert made.status_code == 201
        clients = [agent, *map(house.client, await heirs_of(house, agent, 4, subjects=[AGENT]))]
        for number in range(25):
            asked = clients[number % 5].get(f"/file?path=a&fork=f{number // 5}")
            assert await kind_of(asked) == "ok"
        callers = [caller for caller, _ in house.app._callers._known.values()]
        open_forks = [fork for each in callers if each.holding for fork in each.holding._forks]
        assert len(open_forks) == 4


@pytest.mark.spec("HTTP-12", "EVENT-1")
async def test_who_delegates_to_itself_follows_no_more_streams(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "EVENT_STREAMS_PER_CALLER_MAX", 3)
    monkeypatch.setattr(bounds, "EVENT_STREAMS_MAX", 5)
    async with serving(tmp_path, lasting=False) as house, contextlib.AsyncExitStack() as streams:
        agent = await house.agent("watch", "read", "list")
        tokens = await heirs_of(house, agent, 8)
        for token in (*tokens[:2], token_of(agent)):
            await streams.enter_async_context(streaming(house, token=token))
        for token in (token_of(agent), *tokens):
            assert await kind_of(house.client(token).get("/events")) == "rate_limited"
        # Whom the agent is not has what it had: another agent, and a person even where the
        # streams of agents are all taken.
        other = await house.agent("watch", "read", "list", subject="agent_run:c9/r9")
        for _ in range(2):
            await streams.enter_async_context(streaming(house, token=token_of(other)))
        assert await kind_of(other.get("/events")) == "rate_limited"
        await streams.enter_async_context(streaming(house))


@pytest.mark.spec("HTTP-12")
async def test_without_a_bound_for_each_they_would_take_all_streams(tmp_path, monkeypatch):
    """The control: the same tokens, where a subject may have as many as all together."""
    monkeypatch.setattr(bounds, "EVENT_STREAMS_PER_CALLER_MAX", 8)
    monkeypatch.setattr(bounds, "EVENT_STREAMS_MAX", 8)
    async with serving(tmp_path, lasting=False) as house, contextlib.AsyncExitStack() as streams:
        agent = await house.agent("watch", "read", "list")
        for token in await heirs_of(house, agent, 8):
            await streams.enter_async_context(streaming(house, token=token))
        other = await house.agent("watch", "read", "list", subject="agent_run:c9/r9")
        assert await kind_of(other.get("/events")) == "rate_limited"


@pytest.mark.spec("HTTP-12", "AUTH-8")
@pytest.mark.parametrize("front", ["server", "grant"])
async def test_who_delegates_to_itself_calls_no_more_often(tmp_path, monkeypatch, front):
    """By the rates of the server and by the quota of its grant: for each way a control calls as
    often by tokens that were not delegated."""
    monkeypatch.setattr(gates, "time", SimpleNamespace(monotonic=lambda: 1_000.0))
    quota = "quota = {operations_per_minute = 30}" if front == "grant" else ""
    config = f"""
        [[root]]
        id = "demo"
        kind = "workspace"
        memory = true
        trusted = true
        [[grant]]
        subject = "{AGENT}"
        root = "workspace:demo"
        access = ["read", "list", "write", "metadata"]
        {quota}
        [[grant]]
        subject = "agent_run:others/*"
        root = "workspace:demo"
        access = ["read", "list", "write", "metadata"]
    """
    rates = {} if front == "grant" else {"changes_per_minute": 30}
    async with serving(tmp_path, config=config, lasting=False, **rates) as house:
        agent = await house.agent()
        tokens = await heirs_of(house, agent, 6)
        crowd = [agent, *map(house.client, tokens)]

        async def changes(clients, name):
            made = ({"path": f"{name}{number}"} for number in range(42))
            return [
                await kind_of(client.post("/dir", json=body))
                for client, body in zip(itertools.cycle(clients), made, strict=False)
            ]

        kinds = await changes(crowd, "crowd")
        spent = 6 if front == "server" else 0  # on delegating
        assert kinds == ["ok"] * (30 - spent) + ["rate_limited"] * (12 + spent)
        # Once it is used up a new token is of no use either.
        held = await granted(agent)
        again = await agent.post(f"/grants/{held}/delegate", json={"subject": AGENT})
        if front == "grant":
            late = house.client(again.json()["token"])
            assert await kind_of(late.post("/dir", json={"path": "late"})) == "rate_limited"
        else:
            assert again.status_code == 429
        others = [await house.agent(subject=f"agent_run:others/{number}") for number in range(7)]
        assert await changes(others, "other") == ["ok"] * 42


@pytest.mark.spec("HTTP-12", "AUTH-5")
async def test_tokens_that_come_of_one_agent_are_bounded_together(tmp_path, monkeypatch):
    monkeypatch.setattr(grants, "DELEGATED_TOKENS_MAX", 4)
    async with serving(tmp_path, lasting=False) as house:
        agent = await house.agent("read", "list")
        tokens = await heirs_of(house, agent, 4)
        for client in (agent, *map(house.client, tokens)):
            held = await granted(client)
            made = await client.post(f"/grants/{held}/delegate", json={"subject": AGENT})
            check_error(507, made.json(), "quota_exceeded")
        other = await house.agent("read", "list", subject="agent_run:c9/r9")
        assert len(await heirs_of(house, other, 4)) == 4


@pytest.mark.spec("HTTP-12")
async def test_questions_of_heirs_count_for_whom_they_come_from(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "PENDING_MAX", 3)
    rules = '[[rule]]\nid = "asked"\neffect = "ask"\naccess = ["write"]\n'
    config = f"""
        {rules}
        [[root]]
        id = "demo"
        kind = "workspace"
        memory = true
        trusted = true
        [[grant]]
        subject = "agent_run:*"
        root = "workspace:demo"
        access = ["read", "list", "write", "metadata"]
    """
    async with serving(tmp_path, config=config, lasting=False, ask_wait_s=0.0) as house:
        agent = await house.agent()
        tokens = await heirs_of(house, agent, 4)
        crowd = [agent, *map(house.client, tokens)]
        kinds = [
            await kind_of(client.post("/dir", json={"path": f"d{number}"}))
            for number, client in enumerate(crowd)
        ]
        assert kinds == ["ok", "ok", "ok", "approval_denied", "approval_denied"]
        other = await house.agent(subject="agent_run:c9/r9")
        assert await kind_of(other.post("/dir", json={"path": "x"})) == "ok"
        assert len(house.authority.approvals.pending()) == 4
