"""What changes the state is known again by its key: who lost the answer is given it, or has it done
now, and nothing is done twice."""

import contextlib

import pytest

from bailiwick.errors import IoError
from bailiwick.state.idempotency import IdempotencyBook
from tests.fronts.http.serving import asking_config, check_error, serving
from tests.postgres_proxy import ProxyThread
from tests.waiting import until

pytestmark = pytest.mark.spec("SCALE-3", "HTTP-11")

KEY = {"idempotency-key": "one"}
TRIES = ({**KEY, "idempotency-try": "1"}, {**KEY, "idempotency-try": "2"})
GRANT = {"subject": "agent_run:c9/*", "root": "workspace:demo", "access": ["read", "list"]}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def config(request, tmp_path):
    """The state in a directory, or in PostgreSQL, and a volume likewise."""
    if request.param == "sqlite":
        yield asking_config(f'volume = "sqlite:{tmp_path}/v.db"')
    else:
        with request.getfixturevalue("postgres").fresh_database() as dsn:
            yield in_postgres(dsn, tmp_path)


def in_postgres(dsn, tmp_path):
    (tmp_path / "beside").mkdir(0o700, exist_ok=True)
    return asking_config(
        f'volume = "{dsn}?volume=main&blobs={tmp_path}/blobs"',
        state=f'[state]\nurl = "{dsn}"\npath = "{tmp_path}/beside"\n',
    )


@contextlib.contextmanager
def answers_lost(monkeypatch):
    """What was done is done, and its answer is not kept: as where a server dies between the two."""

    async def lost(*given):
        raise IoError("the state could not be written")

    with monkeypatch.context() as patched:
        patched.setattr(IdempotencyBook, "keep", lost)
        yield


async def governing(house, name):
    """A request about grants, tokens or trust, what it is answered with, and what tells how often
    it was done."""
    client = house.client()

    async def grants():
        return sorted(each["id"] for each in (await client.get("/grants")).json()["grants"])

    async def trusted():
        return [each["trusted"] for each in (await client.get("/roots")).json()["roots"]]

    if name == "trust":
        return ("POST", "/trust", {"trusted": False}), {"trusted": False}, trusted
    if name == "revoke":
        made = (await client.post("/grants", json=GRANT)).json()["id"]
        return ("POST", f"/grants/{made}/revoke", {"reason": "done"}), {"ended": 1}, grants
    if name == "end a token":
        body = {"name": "builder", "access": ["read", "list"]}
        assert (await client.post("/tokens", json=body)).status_code == 201
        return ("DELETE", "/tokens/builder", None), {"name": "builder"}, grants
    return ("POST", "/grants", GRANT), {"subject": GRANT["subject"]}, grants


async def answering(house, name):
    """The same of an answer to a question, and of what is remembered of it."""
    client, agent = house.client(), await house.agent()
    body = {"path": "asked/a", "content": "a", "parents": True}
    assert (await agent.post("/file/write", json=body)).status_code == 202
    (found,) = (await client.get("/approvals")).json()["approvals"]

    async def rules():
        return [each["id"] for each in (await client.get("/rules")).json()["rules"]]

    method, route, body = "POST", f"/approvals/{found['id']}", {"answer": "always"}
    if name == "answer":
        return (method, route, body), {"answer": "always", "state": "granted"}, rules
    assert (await client.request(method, route, json=body)).status_code == 200
    (rule,) = await rules()
    return ("DELETE", f"/rules/{rule}", None), {"id": rule}, rules


async def reviewing(house, name):
    """The same of what a person says of what an agent did."""
    client, agent = house.client(), await house.agent()
    for path in ("a", "b"):
        body = {"path": path, "content": f"{path}\n"}
        assert (await agent.post("/file/write", json=body)).status_code == 201

    async def hunks():
        queue = (await client.get("/review")).json()["files"]
        return {each["path"]: [hunk["id"] for hunk in each["hunks"]] for each in queue}

    async def both():
        found = await hunks()
        return len(found) == 2 and found

    found = await until(both)
    if name == "take back":
        (run,) = (await client.get("/runs")).json()["runs"]
        body = {"paths": ["a"]}
        return ("POST", f"/runs/{run['id']}/undo", body), {"undone": ["a"]}, hunks
    body = {"accept": found["a"], "reject": found["b"]}
    told = {"accept": {"accepted": found["a"]}, "reject": {"rejected": found["b"], "undone": ["b"]}}
    if name == "both":
        return ("POST", "/review", body), told["accept"] | told["reject"], hunks
    return ("POST", "/review", {name: body[name]}), told[name], hunks


CALLS = {
    "grant": governing, "revoke": governing, "end a token": governing, "trust": governing,
    "answer": answering, "forget": answering, "accept": reviewing, "reject": reviewing,
    "both": reviewing, "take back": reviewing,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
async def test_it_is_answered_as_it_was_and_done_once(config, tmp_path, monkeypatch, name):
    """The client says which of its tries it is, and others do not: they are answered the same."""
    headers = (KEY, KEY) if "[state]" in config else TRIES
    async with serving(tmp_path, config=config, ask_wait_s=0.1) as house:
        client = house.client()
        (method, route, body), told, stands = await CALLS[name](house, name)
        before = await stands()

        async def ask(shown):
            return await client.request(method, route, json=body, headers=shown)

        with answers_lost(monkeypatch):
            first = await ask({**headers[0], "x-request-id": "r"})
        done = await stands()
        assert done != before, first.text
        again = await ask({**headers[1], "x-request-id": "r"})
        assert again.is_success, again.text
        assert told.items() <= again.json().items()
        assert await stands() == done
        # It is kept from now on.
        last = await ask({**headers[1], "x-request-id": "r"})
        assert last.is_success, last.text
        assert last.json() == again.json()
        assert (await client.get("/audit/verify")).json()["ok"]


@pytest.mark.parametrize("name", ["grant", "revoke", "answer", "accept", "reject"])
async def test_what_was_not_done_is_done_now(config, tmp_path, monkeypatch, name):
    """The first died before it did anything."""
    async with serving(tmp_path, config=config, ask_wait_s=0.1) as house:
        client = house.client()
        (method, route, body), _, stands = await CALLS[name](house, name)
        before = await stands()
        database = type(house.authority._books.grants._database)

        async def lost(*given, **more):
            raise IoError("the database cannot be reached")

        with monkeypatch.context() as patched:
            patched.setattr(database, "write_control", lost)
            patched.setattr("bailiwick.scope.review.Review.reject", lost)
            failed = await client.request(method, route, json=body, headers=KEY)
            check_error(failed.status_code, failed.json(), "io_error")
        assert await stands() == before
        done = await client.request(method, route, json=body, headers=KEY)
        assert done.is_success, done.text
        assert await stands() != before


async def test_a_token_that_nobody_was_told_is_made_anew(config, tmp_path):
    """Its secret is kept nowhere: the first ends when it is asked for again."""
    async with serving(tmp_path, config=config) as house:
        client = house.client()
        body = {"name": "builder", "access": ["read", "list"]}
        secrets = []
        for headers in TRIES:
            told = await client.post("/tokens", json=body, headers=headers)
            assert told.status_code == 201, told.text
            secrets.append(told.json()["token"])
        lost, told = (house.client(each) for each in secrets)
        assert (await lost.get("/list")).status_code == 401
        assert (await told.get("/list")).status_code == 200
        grants = (await client.get("/grants")).json()["grants"]
        assert sum("builder" in each["reason"] for each in grants) == 1


async def test_what_was_passed_on_and_not_told_is_passed_on_anew(config, tmp_path):
    async with serving(tmp_path, config=config) as house:
        agent = await house.agent()
        grant = (await agent.get("/capabilities")).json()["grantId"]
        route, body = f"/grants/{grant}/delegate", {"subject": "agent_run:c2/r2"}
        told = [await agent.post(route, json=body, headers=each) for each in TRIES]
        assert {each.status_code for each in told} == {201}, told[-1].text
        first, again = (house.client(each.json()["token"]) for each in told)
        assert (await first.get("/list")).status_code in {401, 403}
        assert (await again.get("/list")).status_code == 200
        # Under another key it is another.
        other = await agent.post(route, json=body, headers={**TRIES[0], "idempotency-key": "two"})
        assert (await house.client(other.json()["token"]).get("/list")).status_code == 200
        assert (await again.get("/list")).status_code == 200


@pytest.mark.parametrize("commits", [1, 2, 3])
async def test_whatever_commit_is_not_answered_it_is_done_once(postgres, tmp_path, commits):
    """Connections end between COMMIT and its answer."""
    with ProxyThread(postgres) as proxy, postgres.fresh_database() as database:
        config = in_postgres(proxy.through(database), tmp_path)
        async with serving(tmp_path, config=config) as house:
            client = house.client()
            wanted = [f"number {number}" for number in range(4)]
            for reason in wanted:

                async def is_done(body):
                    key = {"idempotency-key": body["reason"].replace(" ", "-")}
                    told = await client.post("/grants", json=body, headers=key)
                    assert told.is_success or told.json()["errorKind"] in {"busy", "io_error"}
                    return told.is_success

                proxy.lose_commits(commits)
                await until(lambda reason=reason: is_done({**GRANT, "reason": reason}))
                await until(lambda: proxy.loses_no_more)

            async def reasons():
                told = await client.get("/grants")
                return told.is_success and [each["reason"] for each in told.json()["grants"]]

            made = [each for each in await until(reasons) if each.startswith("number")]
            assert sorted(made) == wanted


@pytest.mark.parametrize("lost", ["take", "keep"])
async def test_what_one_server_gave_up_another_goes_on_with(tmp_path, monkeypatch, lost):
    """The one lives, and so may be asked no more: its connections are elsewhere."""
    place = f"sqlite:{tmp_path}/v.db"
    async with serving(tmp_path, place=place) as one, serving(tmp_path, place=place) as two:
        books = [each.authority.idempotency for each in (one, two)]
        assert books[0]._database.owner.name != books[1]._database.owner.name
        done = getattr(IdempotencyBook, lost)

        async def and_lost(self, *given):
            if lost == "keep":
                raise IoError("the database cannot be reached")
            write, database = self._database.write, self._database

            async def not_answered(job):
                await write(job)
                raise IoError("the database gave no answer")

            with monkeypatch.context() as within:
                within.setattr(database, "write", not_answered, raising=False)
                return await done(self, *given)

        body = {"path": "log", "content": "x"}
        with monkeypatch.context() as patched:
            patched.setattr(IdempotencyBook, lost, and_lost)
            client = one.client(two.token)
            failed = await client.post("/file/append", json=body, headers=KEY)
            assert failed.status_code >= 500, failed.text

        async def told():
            return (await two.client().post("/file/append", json=body, headers=KEY)).is_success

        await until(told)
        assert (await two.client().get("/file?path=log")).json()["content"] == "x"
