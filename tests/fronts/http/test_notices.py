"""Questions, runs and verdicts on the stream of events: told to whom they concern."""

import asyncio
import contextlib
import json

import pytest

from bailiwick.notices import ReviewNotice
from tests.fronts.http.serving import AGENT, PERSON, check_error, serving
from tests.fronts.http.test_asking import BODY, config
from tests.waiting import PATIENCE_S, give_a_chance

ALL = ("read", "list", "metadata", "write", "watch")


class Told:
    """What a stream tells, by the names of its events."""

    def __init__(self):
        self.heard = asyncio.Condition()
        self.events = []
        self.began = asyncio.Event()

    async def listen(self, client, route, headers):
        async with client.stream("GET", route, headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            event = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    event[name] = value
                    continue
                self.began.set()
                if "data" in event:
                    async with self.heard:
                        self.events.append(event)
                        self.heard.notify_all()
                event = {}

    def named(self, name):
        return [json.loads(each["data"]) for each in self.events if each["event"] == name]

    async def wait_for(self, name, count=1, **like):
        def found():
            return [each for each in self.named(name) if all(each[k] == v for k, v in like.items())]

        async with self.heard:
            await asyncio.wait_for(self.heard.wait_for(lambda: len(found()) >= count), PATIENCE_S)
        return found()


@contextlib.asynccontextmanager
async def listening(client, route="/events", **headers):
    told = Told()
    task = asyncio.create_task(told.listen(client, route, headers))
    await asyncio.wait(
        {task, asyncio.ensure_future(told.began.wait())}, return_when=asyncio.FIRST_COMPLETED
    )
    if task.done():
        task.result()
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.spec("NOTE-1")
async def test_a_question_and_its_answer_are_told_as_they_come(tmp_path):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent()
        async with listening(person) as told:
            pending = (await agent.post("/file/write", json=BODY)).json()
            (asked,) = await told.wait_for("approval")
            assert (asked["kind"], asked["id"]) == ("asked", pending["approvalId"])
            assert (asked["subject"], asked["root"]) == (AGENT, "workspace:demo")
            assert (asked["operation"], asked["paths"]) == ("write", ["migrations/1.sql"])
            # What would be written is not in it: who may see that asks for it.
            assert "diff" not in asked
            assert "create table" not in json.dumps(told.events)
            await person.post(f"/approvals/{asked['id']}", json={"answer": "no"})
            (answered,) = await told.wait_for("approval", kind="answered")
            assert (answered["id"], answered["state"]) == (asked["id"], "denied")
            assert (answered["answer"], answered["answeredBy"]) == ("no", "user:local")


@pytest.mark.spec("NOTE-1")
async def test_a_question_that_nobody_answers_is_told_when_its_time_is_up(tmp_path, clock):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent()
        async with listening(person) as told:
            await agent.post("/file/write", json=BODY)
            (asked,) = await told.wait_for("approval", kind="asked")
            clock.advance(301)
            (expired,) = await told.wait_for("approval", kind="expired")
            assert (expired["id"], expired["state"]) == (asked["id"], "expired")


@pytest.mark.spec("NOTE-1", "EVENT-1")
async def test_coming_back_goes_on_with_changes_and_tells_what_is_open(tmp_path):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent()
        async with listening(person) as told:
            await person.put("/file/raw?path=first", content=b"")
            await told.wait_for("change")
            await agent.post("/file/write", json=BODY)
            await told.wait_for("approval", kind="asked")
            # Only changes are places to go on from.
            assert [each["event"] for each in told.events if "id" in each] == ["change"]
            last = next(each["id"] for each in told.events if "id" in each)
        await person.put("/file/raw?path=away", content=b"")
        async with listening(person, **{"last-event-id": last}) as again:
            (missed,) = await again.wait_for("change")
            assert missed["path"] == "away"
            (still_open,) = await again.wait_for("approval")
            assert still_open["kind"] == "asked"


@pytest.mark.spec("NOTE-1")
async def test_an_agent_is_told_its_own_questions_and_runs_only(tmp_path):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent(*ALL)
        other = await house.agent(*ALL, subject="agent_run:c2/r2")
        async with (
            listening(person) as seen_by_person,
            listening(agent) as seen_by_agent,
            listening(other) as seen_by_other,
        ):
            await agent.post("/file/write", json=BODY)
            await seen_by_person.wait_for("approval", kind="asked", subject=AGENT)
            await seen_by_agent.wait_for("approval", kind="asked", subject=AGENT)
            await seen_by_person.wait_for("run", kind="begun", subject=AGENT)
            await seen_by_agent.wait_for("run", kind="begun", subject=AGENT)
            # What comes after it is told, so what came before it was kept back.
            await other.post("/file/write", json=BODY | {"content": "-- other"})
            await seen_by_other.wait_for("approval", kind="asked")
            await seen_by_other.wait_for("run", kind="begun")
            for name in ("approval", "run"):
                subjects = {each["subject"] for each in seen_by_other.named(name)}
                assert subjects == {"agent_run:c2/r2"}
                assert {each["subject"] for each in seen_by_agent.named(name)} == {AGENT}
            assert len({each["id"] for each in seen_by_person.named("approval")}) == 2


@pytest.mark.spec("NOTE-1")
async def test_whoever_has_the_token_of_one_grant_hears_what_came_of_it(tmp_path):
    """The name in such a token was chosen by whoever passed it on, and may be somebody else's."""
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        agent = await house.agent(*ALL)
        other = await house.agent(*ALL, subject="agent_run:c2/r2")
        mine = (await other.get("/capabilities")).json()["grantId"]
        passed = await other.post(
            f"/grants/{mine}/delegate", json={"subject": AGENT, "access": ALL}
        )
        assert passed.status_code == 201, passed.text
        heir = house.client(passed.json()["token"])
        async with listening(heir) as told:
            await agent.post("/file/write", json=BODY)
            await heir.post("/file/write", json=BODY | {"content": "-- heir"})
            await told.wait_for("approval")
            await told.wait_for("run")
            await give_a_chance(1.2)
            assert len({each["id"] for each in told.named("approval")}) == 1
            assert len({each["id"] for each in told.named("run")}) == 1


@pytest.mark.spec("NOTE-1")
async def test_a_verdict_is_told_to_people_and_to_whose_work_it_was(tmp_path):
    async with serving(tmp_path, config=config(tmp_path)) as house:
        agent = await house.agent(*ALL)
        other = await house.agent(*ALL, subject="agent_run:c2/r2")
        verdict = ReviewNotice(
            kind="rejected", root="workspace:demo", subject=AGENT, by="user:local", run="4f1c",
            path="a.py", hunks=("h1",), lines="1-2", note="not like this",
        )  # fmt: skip
        elsewhere = ReviewNotice(
            kind="accepted", root="workspace:other", subject=AGENT, by="user:local"
        )
        async with (
            listening(house.client()) as person,
            listening(agent) as seen_by_agent,
            listening(other) as seen_by_other,
        ):
            await house.authority.notices.book.tell(elsewhere)
            await house.authority.notices.book.tell(verdict)
            for told in (person, seen_by_agent):
                (heard,) = await told.wait_for("review")
                assert (heard["kind"], heard["note"]) == ("rejected", "not like this")
                assert (heard["path"], heard["run"], heard["hunks"]) == ("a.py", "4f1c", ["h1"])
            await other.post("/dir", json={"path": "made"})
            await seen_by_other.wait_for("change")
            assert seen_by_other.named("review") == []


@pytest.mark.spec("NOTE-1", "RUN-1")
async def test_a_run_is_told_when_it_begins_and_when_it_has_ended(tmp_path):
    async with serving(tmp_path) as house:
        agent = await house.agent(*ALL)
        async with listening(house.client()) as told:
            await agent.post(
                "/file/write", json={"path": "a", "content": "1"},
                headers={"x-bailiwick-run": "Tidy up"},
            )  # fmt: skip
            (begun,) = await told.wait_for("run", kind="begun")
            assert begun["title"] == "Tidy up"
            for entry in house.authority.grants():
                if entry.kind == "held" and str(entry.grant.subject) == AGENT:
                    await house.authority.revoke(entry.id, by=PERSON)
            (ended,) = await told.wait_for("run", kind="ended")
            assert ended["id"] == begun["id"]


@pytest.mark.spec("NOTE-2")
async def test_people_see_answers_for_longer_and_take_them_back(tmp_path):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent()
        asked = (await agent.post("/file/write", json=BODY)).json()["approvalId"]
        await person.post(f"/approvals/{asked}", json={"answer": "always"})
        (rule,) = (await person.get("/rules")).json()["rules"]
        assert (rule["approvalId"], rule["effect"], rule["by"]) == (asked, "allow", "user:local")
        assert (rule["operation"], rule["paths"]) == ("write", ["migrations/1.sql"])
        assert (await agent.post("/file/write", json=BODY)).status_code == 201
        # An agent neither sees what it is allowed nor has anything taken back.
        for refused in (await agent.get("/rules"), await agent.delete(f"/rules/{rule['id']}")):
            check_error(refused.status_code, refused.json(), "missing_access")
        gone = await person.delete(f"/rules/{rule['id']}")
        assert gone.json() == {"kind": "rule_forgotten", "id": rule["id"]}
        assert (await person.get("/rules")).json()["rules"] == []
        again = await person.delete(f"/rules/{rule['id']}")
        check_error(again.status_code, again.json(), "path_not_found")
        waits = await agent.post("/file/write", json=BODY | {"mode": "overwrite"})
        assert waits.status_code == 202


@pytest.mark.spec("NOTE-2")
async def test_people_look_again_at_what_they_answered_and_agents_do_not(tmp_path):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent()
        asked = (await agent.post("/file/write", json=BODY)).json()["approvalId"]
        await person.post(f"/approvals/{asked}", json={"answer": "no"})
        shown = (await person.get(f"/approvals/{asked}")).json()
        assert (shown["state"], shown["answeredBy"]) == ("denied", "user:local")
        assert "+create table" in shown["diff"]
        (listed,) = (await person.get("/approvals?state=denied")).json()["approvals"]
        assert listed["diff"] == shown["diff"]
        for answer in (
            await agent.get(f"/approvals/{asked}"),
            await agent.get("/approvals?state=all"),
        ):
            assert answer.status_code == 200
            assert "create table" not in answer.text
