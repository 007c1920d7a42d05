"""A batch in which several operations must be asked about: one question, and all or nothing."""

import asyncio

import pytest

from tests.fronts.http.serving import check_error, serving
from tests.fronts.http.test_asking import waiting


def volume(tmp_path):
    return f"sqlite:{tmp_path}/v.db?volume=main"


def writes(*names, content="x\n"):
    return [
        {"op": "write", "path": f".git/{name}", "content": content, "parents": True}
        for name in names
    ]


ALL = ("read", "list", "write", "move", "delete", "metadata")


async def names(client, path="."):
    got = await client.get("/files", params={"path": path, "includeIgnored": "true"})
    return {each["path"] for each in got.json()["entries"]}


async def answer(person, approval, word):
    got = await person.post(f"/approvals/{approval}", json={"answer": word})
    assert got.status_code == 200, got.text


@pytest.mark.spec("ASK-1", "ASK-2", "HTTP-4", "VOL-7")
async def test_all_of_it_is_one_question_and_one_answer(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent(*ALL)
        operations = [
            *writes("a", "b"),
            {"op": "write", "path": "free", "content": ""},
            {"op": "move", "path": ".git/a", "to": ".git/c"},
            {"op": "edit", "path": ".git/b", "oldText": "x", "newText": "y"},
        ]
        pending = await agent.post("/batch", json={"operations": operations})
        assert pending.status_code == 202
        approval = pending.json()["approvalId"]
        assert await names(person) == set()
        (asked,) = (await person.get("/approvals")).json()["approvals"]
        assert asked["id"] == approval
        assert asked["verb"] == "transaction"
        assert set(asked["paths"]) == {".git", ".git/a", ".git/b", ".git/c"}
        for line in ("write_text .git/a", "move .git/a to .git/c", "+x", "+y"):
            assert line in asked["diff"]
        # The same again joins the question; with the approval it is still open.
        for more in ({}, {"approval": approval}):
            again = await agent.post("/batch", json={"operations": operations, **more})
            assert (again.status_code, again.json()["approvalId"]) == (202, approval)
        await answer(person, approval, "once")
        # Something else was not approved, however little it differs.
        for other in (
            operations[:-1],
            [*operations, *writes("d")],
            [*writes("a", "b", content="z\n"), *operations[2:]],
            [operations[1], operations[0], *operations[2:]],
        ):
            got = await agent.post("/batch", json={"operations": other, "approval": approval})
            check_error(got.status_code, got.json(), "approval_denied")
            assert await names(person) == set()
        done = await agent.post("/batch", json={"operations": operations, "approval": approval})
        assert done.status_code == 200, done.text
        assert [each["ok"] for each in done.json()["results"]] == [True] * 5
        assert await names(person) == {".git/b", ".git/c", "free"}
        records = await house.authority.ledger.tail(50)
        assert [each.verb for each in records if each.approval_id == approval] == ["transaction"]
        used = await agent.post("/batch", json={"operations": operations, "approval": approval})
        check_error(used.status_code, used.json(), "approval_denied")


@pytest.mark.spec("ASK-2", "HTTP-4")
@pytest.mark.parametrize("word", ["once", "no"])
async def test_it_goes_on_when_it_is_answered_in_time(tmp_path, word):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        person, agent = house.client(), await house.agent(*ALL)
        call = asyncio.create_task(agent.post("/batch", json={"operations": writes("a", "b")}))
        question = await waiting(person)
        await answer(person, question["id"], word)
        got = await call
        if word == "once":
            assert got.status_code == 200
            assert await names(person) == {".git/a", ".git/b"}
        else:
            check_error(got.status_code, got.json(), "approval_denied")
            assert await names(person) == set()


@pytest.mark.spec("ASK-1", "ASK-2")
async def test_an_answer_for_longer_covers_operations_that_are_alike(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent(*ALL)
        operations = writes("a", "b")
        pending = await agent.post("/batch", json={"operations": operations})
        await answer(person, pending.json()["approvalId"], "grant")
        body = {"operations": operations, "approval": pending.json()["approvalId"]}
        assert (await agent.post("/batch", json=body)).status_code == 200
        later = writes("a", "b", content="later")
        assert (await agent.post("/batch", json={"operations": later})).status_code == 200
        alone = {"path": ".git/a", "content": "alone"}
        assert (await agent.post("/file/write", json=alone)).status_code == 200
        # What was not asked about then is asked about now, by itself.
        third = await agent.post("/batch", json={"operations": writes("a", "c")})
        assert third.status_code == 202
        (asked,) = (await person.get("/approvals")).json()["approvals"]
        assert asked["paths"] == [".git/c"]


@pytest.mark.spec("ASK-2", "POL-3", "HTTP-4")
async def test_nothing_is_learnt_of_what_may_not_be_read_before_the_answer(tmp_path):
    """A guess about a protected file, by way of a copy of it: right or wrong, it is answered in the
    same way, until a person has allowed it to be read."""
    async with serving(tmp_path, place=volume(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent(*ALL)
        await person.put("/file/raw?path=.env", content=b"KEY=right")
        guesses = {
            guess: [
                {"op": "copy", "path": ".env", "to": "copy"},
                {"op": "edit", "path": "copy", "oldText": guess, "newText": "x"},
            ]
            for guess in ("right", "wrong")
        }
        approvals = {}
        for guess, operations in guesses.items():
            got = await agent.post("/batch", json={"operations": operations})
            assert got.status_code == 202, got.text
            assert got.json().keys() == {"kind", "approvalId", "expiresAt", "requestId"}
            approvals[guess] = got.json()["approvalId"]
        # The control: the person, who may read it, is told at once which guess is wrong.
        told = await person.post("/batch", json={"operations": guesses["wrong"]})
        check_error(told.status_code, told.json(), "text_not_found")
        await answer(person, approvals["wrong"], "once")
        body = {"operations": guesses["wrong"], "approval": approvals["wrong"]}
        failed = await agent.post("/batch", json=body)
        check_error(failed.status_code, failed.json(), "text_not_found")
        assert failed.json()["details"]["operation"] == 1
        if approvals["right"] != approvals["wrong"]:
            await answer(person, approvals["right"], "no")
            body = {"operations": guesses["right"], "approval": approvals["right"]}
            refused = await agent.post("/batch", json=body)
            check_error(refused.status_code, refused.json(), "approval_denied")
        assert await names(person) == {".env"}


@pytest.mark.spec("ASK-2", "VOL-7")
async def test_what_was_changed_meanwhile_is_not_what_was_approved(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent(*ALL)
        await person.post("/batch", json={"operations": writes("a", "b", content="first")})
        pending = await agent.post("/batch", json={"operations": writes("a", "b")})
        approval = pending.json()["approvalId"]
        await answer(person, approval, "once")
        await person.post("/file/write", json={"path": ".git/b", "content": "second"})
        body = {"operations": writes("a", "b"), "approval": approval}
        refused = await agent.post("/batch", json=body)
        check_error(refused.status_code, refused.json(), "approval_denied")
        texts = [(await person.get(f"/file?path=.git/{name}")).json()["content"] for name in "ab"]
        assert texts == ["first", "second"]


@pytest.mark.spec("ASK-2")
async def test_an_answer_to_one_operation_is_for_it_alone(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent(*ALL)
        operations = writes("a")
        pending = await agent.post("/batch", json={"operations": operations})
        approval = pending.json()["approvalId"]
        (asked,) = (await person.get("/approvals")).json()["approvals"]
        assert asked["verb"] == "write_text"
        await answer(person, approval, "once")
        operations[0]["approval"] = approval
        done = await agent.post("/batch", json={"operations": operations})
        assert done.status_code == 200, done.text
