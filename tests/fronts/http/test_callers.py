"""Who may ask what: tokens, the anonymous reader, sessions, pace, read-only servers."""

import pytest

from bailiwick.fronts.http import openapi, settings
from bailiwick.fronts.http.access import callers
from bailiwick.fronts.http.routes import ROUTES
from bailiwick.grant import User
from tests.fronts.http.serving import AGENT, PERSON, check_error, serving
from tests.waiting import until


def refused(answer, kind):
    check_error(answer.status_code, answer.json(), kind)


@pytest.mark.spec("HTTP-2")
async def test_without_any_token_this_machine_may_read(tmp_path):
    async with serving(tmp_path, tokens=False, ask_wait_s=0.05) as house:
        (house.place / "a").write_text("a")
        (house.place / ".env").write_text("SECRET=1")
        client = house.client()
        assert (await client.get("/file?path=a")).status_code == 200
        assert (await client.get("/list")).status_code == 200
        refused(
            await client.post("/file/write", json={"path": "b", "content": ""}), "unauthenticated"
        )
        refused(await client.put("/file/raw?path=b", content=b""), "unauthenticated")
        for route in ("/audit", "/approvals", "/grants", "/events", "/metrics", "/audit/verify"):
            refused(await client.get(route), "unauthenticated")
        # The protective rules hold for whoever did not say who they are.
        assert (await client.get("/file?path=.env")).status_code == 202
        seen = await client.get("/capabilities")
        assert seen.json()["subject"] == "user:anonymous"
        assert seen.json()["access"] == ["list", "metadata", "read"]
        # Once there is a token, nobody is anonymous any more.
        await house.authority.tokens.issue("t", str(PERSON), by=PERSON, front="test")
        refused(await client.get("/file?path=a"), "unauthenticated")


@pytest.mark.spec("HTTP-2", "ERR-4")
async def test_every_route_wants_a_token_but_those_that_say_so(tmp_path):
    async with serving(tmp_path) as house:
        for client in (house.client(""), house.client("bwk_" + "x" * 43)):
            for route in ROUTES:
                path = route.path.replace("{id}", "x").replace("{name}", "x")
                got = await client.request(route.method, path)
                if route.who == "anyone":
                    assert got.status_code == 200, path
                elif route.method == "HEAD":
                    assert got.status_code == 401
                else:
                    refused(got, "unauthenticated")


@pytest.mark.spec("HTTP-2", "AUTH-3")
async def test_a_token_is_its_subject_with_its_grants(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "src").mkdir()
        (house.place / "src" / "a").write_text("a")
        (house.place / "docs").mkdir()
        (house.place / "docs" / "b").write_text("b")
        (house.place / "c").write_text("c")
        agent = await house.agent("read", "list", "write", path="src")
        await house.agent("read", path="docs")
        agent = house.client(
            await house.authority.tokens.issue("again", AGENT, by=PERSON, front="test")
        )
        assert (await agent.get("/file?path=src/a")).status_code == 200
        # Another grant of the same subject answers for another part of the tree.
        assert (await agent.get("/file?path=docs/b")).status_code == 200
        refused(await agent.get("/file?path=c"), "missing_access")
        wrote = await agent.post("/file/write", json={"path": "src/n", "content": ""})
        assert wrote.status_code == 201
        refused(
            await agent.post("/file/write", json={"path": "docs/n", "content": ""}),
            "missing_access",
        )
        refused(await agent.post("/remove", json={"path": "src/a"}), "missing_access")
        nobody = await house.agent(subject="agent_run:c9/r9")
        refused(await nobody.get("/file?path=src/a"), "missing_access")
        assert (await nobody.get("/roots")).json()["roots"] == []


@pytest.mark.spec("HTTP-2", "AUTH-5")
async def test_what_is_revoked_ends_at_the_next_request(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        person, agent = house.client(), await house.agent("read", "list")
        assert (await agent.get("/file?path=a")).status_code == 200
        grants = (await person.get("/grants")).json()["grants"]
        standing = next(each for each in grants if each["standing"])
        ended = await person.post(f"/grants/{standing['id']}/revoke", json={"reason": "enough"})
        assert ended.json()["ended"] == 2
        refused(await agent.get("/file?path=a"), "missing_access")
        # A new grant is found without a restart.
        again = {"subject": AGENT, "root": "workspace:demo", "access": ["read"]}
        assert (await person.post("/grants", json=again)).status_code == 201
        assert (await agent.get("/file?path=a")).status_code == 200
        # A person who ends what their own server holds is not locked out by it.
        assert (await person.get("/file?path=a")).status_code == 200
        mine = next(
            each for each in (await person.get("/grants")).json()["grants"]
            if each["subject"] == "user:local"
        )  # fmt: skip
        await person.post(f"/grants/{mine['id']}/revoke", json={})
        await person.get("/file?path=a")
        assert (await person.get("/file?path=a")).status_code == 200
        # A token that is ended is unknown at the next request, and what it held is given back.
        await house.authority.tokens.revoke(AGENT.replace("/", "."), by=PERSON, front="test")
        refused(await agent.get("/file?path=src/a"), "unauthenticated")

        async def given_back():
            held = (await person.get("/grants")).json()["grants"]
            return not [each for each in held if each["subject"] == AGENT and not each["standing"]]

        await until(given_back)


@pytest.mark.spec("HTTP-4", "AUTH-5")
async def test_a_grant_is_passed_on_with_a_token_of_its_own(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "src").mkdir()
        (house.place / "src" / "a").write_text("a")
        (house.place / "b").write_text("b")
        agent = await house.agent("read", "list", "write")
        held = (await agent.get("/capabilities")).json()["grantId"]
        made = await agent.post(
            f"/grants/{held}/delegate",
            json={"subject": "agent_run:c1/sub", "access": ["read"], "path": "src", "rebase": True},
        )
        assert made.status_code == 201, made.text
        heir = house.client(made.json()["token"])
        assert (await heir.get("/file?path=a")).json()["content"] == "a"
        refused(await heir.get("/file?path=../b"), "path_outside_workspace")
        refused(await heir.post("/file/write", json={"path": "n", "content": ""}), "missing_access")
        wider = await agent.post(
            f"/grants/{held}/delegate", json={"subject": "user:local", "access": ["read"]}
        )
        refused(wider, "missing_access")
        refused(
            await agent.post("/grants/nosuch/delegate", json={"subject": "agent_run:a/b"}),
            "path_not_found",
        )
        ended = await agent.post(f"/grants/{made.json()['grant']['id']}/revoke", json={})
        assert ended.json()["ended"] == 1
        refused(await heir.get("/file?path=a"), "grant_revoked")


@pytest.mark.spec("HTTP-2")
async def test_an_agent_sees_of_the_authority_what_is_its_own(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        person, agent = house.client(), await house.agent("read")
        await person.get("/file?path=a")
        await agent.get("/file?path=a")
        for query in ("", "?subject=user:local", "?subject=*"):
            records = (await agent.get(f"/audit{query}")).json()["records"]
            assert {record["subject"] for record in records} == {AGENT}
        grants = (await agent.get("/grants")).json()["grants"]
        assert {grant["subject"] for grant in grants} == {AGENT}
        theirs = (await person.get("/grants")).json()["grants"]
        own = next(each for each in theirs if each["subject"] == "user:local")
        refused(await agent.post(f"/grants/{own['id']}/revoke", json={}), "path_not_found")
        body = {"subject": AGENT, "root": "workspace:demo", "access": ["write"]}
        refused(await agent.post("/grants", json=body), "missing_access")
        refused(await agent.get("/audit/verify"), "missing_access")
        refused(await agent.get("/metrics"), "missing_access")
        refused(await agent.post("/trust", json={"trusted": False}), "missing_access")
        assert (await person.get("/audit/verify")).json()["ok"]


@pytest.mark.spec("HTTP-2")
async def test_a_token_may_call_so_often(tmp_path):
    async with serving(tmp_path, reads_per_minute=5, changes_per_minute=2) as house:
        agent = await house.agent("read", "list", "write")
        for _ in range(5):
            assert (await agent.get("/list")).status_code == 200
        limited = await agent.get("/list")
        refused(limited, "rate_limited")
        assert int(limited.headers["retry-after"]) >= 1
        assert limited.json()["details"]["retryAfterS"] > 0
        for _ in range(2):
            assert (await agent.put("/file/raw?path=a", content=b"")).status_code in (200, 201)
        refused(await agent.put("/file/raw?path=a", content=b""), "rate_limited")


@pytest.mark.spec("HTTP-2")
@pytest.mark.parametrize(
    ("loopback", "subject", "bounded"),
    [(True, AGENT, False), (False, AGENT, True), (False, "user:ann", False)],
)
async def test_who_is_bounded_unless_told(tmp_path, loopback, subject, bounded):
    async with serving(tmp_path, loopback=loopback) as house:
        secret = await house.authority.tokens.issue("t", subject, by=PERSON, front="test")
        known = callers.Callers(house.authority, house.app.settings)
        caller = known.find({b"authorization": b"Bearer " + secret.encode()}, "127.0.0.1")
        assert (caller.budget.reads is not None, caller.budget.changes is not None) == (
            bounded,
            bounded,
        )
        assert settings.READS_PER_MINUTE == 60_000


@pytest.mark.spec("HTTP-1")
async def test_a_read_only_server_changes_nothing(tmp_path):
    async with serving(tmp_path, read_only=True) as house:
        (house.place / "a").write_text("a")
        client = house.client()
        assert (await client.get("/file?path=a")).status_code == 200
        for route in ROUTES:
            if route.changes and route.rooted:
                path = route.path.replace("{name}", "x")
                refused(await client.request(route.method, path, json={}), "read_only")
        assert "write" not in (await client.get("/capabilities")).json()["access"]


@pytest.mark.spec("HTTP-8")
async def test_a_person_logs_in_with_a_link_once(tmp_path):
    async with serving(tmp_path) as house:
        link = await house.authority.tokens.new_link(User("local"))
        browser = house.client("")
        got = await browser.get("/login", params={"link": link})
        assert got.status_code == 303
        onward, _, key = got.headers["location"].partition("=")
        assert onward == "/#session"
        browser.headers["x-bailiwick-session"] = key
        cookie = got.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "default-src 'none'" in got.headers["content-security-policy"]
        assert (await browser.get("/list")).status_code == 200
        refused(await house.client("").get("/login", params={"link": link}), "unauthenticated")
        refused(await house.client("").get("/login", params={"link": "x" * 43}), "unauthenticated")
        # A change needs to come from a page of this server.
        body = {"path": "a", "content": ""}
        refused(await browser.post("/file/write", json=body), "forbidden_origin")
        foreign = {"origin": "http://evil.example"}
        refused(await browser.post("/file/write", json=body, headers=foreign), "forbidden_origin")
        same = {"origin": house.url}
        assert (await browser.post("/file/write", json=body, headers=same)).status_code == 201
        fetched = {"sec-fetch-site": "same-origin"}
        assert (await browser.post("/dir", json={"path": "d"}, headers=fetched)).status_code == 201
        # The secret of a cookie is no token, and the other way round.
        secret = browser.cookies[f"bailiwick_session_{house.port}"]
        refused(await house.client(secret).get("/list"), "unauthenticated")
        name, shown = f"bailiwick_session_{house.port}", {"x-bailiwick-session": key}
        swapped = house.client("", cookie=f"{name}={house.token}", **shown)
        refused(await swapped.get("/list"), "unauthenticated")
        assert (await browser.post("/logout", headers=same)).status_code == 204
        kept = house.client("", cookie=f"{name}={secret}", **shown)
        refused(await kept.get("/list"), "unauthenticated")


@pytest.mark.spec("HTTP-8", "WEB-2")
async def test_pages_are_the_packages_own_and_locked_down(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client("")
        page = await client.get("/")
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        for path in (
            "/console/../settings.py", "/console/%2e%2e/settings.py",
            "/console/..%2fsettings.py", "/console//etc/passwd", "/console/nosuch.js",
        ):  # fmt: skip
            got = await house.send(house.head(f"GET {path} HTTP/1.1", "Connection: close"))
            assert b" 404 " in got.split(b"\r\n")[0]
        refused(await client.post("/"), "method_not_allowed")


@pytest.mark.spec("HTTP-2")
async def test_a_token_that_expires_ends(tmp_path, clock):
    async with serving(tmp_path) as house:
        secret = await house.authority.tokens.issue(
            "short", str(PERSON), by=PERSON, front="test", expires_in=60
        )
        client = house.client(secret)
        assert (await client.get("/list")).status_code == 200
        clock.advance(60)
        refused(await client.get("/list"), "unauthenticated")


@pytest.mark.spec("AUDIT-1", "HTTP-2")
async def test_who_is_refused_is_on_record_and_cannot_fill_it(tmp_path, monkeypatch):
    monkeypatch.setattr("bailiwick.fronts.http.access.refusals._GATHER_SECONDS", 0.05)
    async with serving(tmp_path) as house:
        stranger = house.client("x" * 20)
        for _ in range(50):
            refused(await stranger.get("/list"), "unauthenticated")
        refused(await stranger.get("/list", headers={"origin": "null"}), "forbidden_origin")
        person = house.client()

        async def on_record():
            found = (await person.get("/audit?outcome=denied")).json()["records"]
            return found if sum(int(each["details"]["refused"]) for each in found) == 51 else []

        records = await until(on_record)
        counted = {"unauthenticated": 0, "forbidden_origin": 0}
        for record in records:
            assert (record["subject"], record["front"]) == ("user:anonymous", "http")
            counted[record["errorKind"]] += int(record["details"]["refused"])
        assert counted == {"unauthenticated": 50, "forbidden_origin": 1}
        assert len(records) < 40


@pytest.mark.spec("EXEC-1", "HTTP-2")
async def test_execute_is_granted_and_passed_on_by_name_only(tmp_path):
    async with serving(tmp_path) as house:
        person = house.client()
        held = (await person.get("/capabilities")).json()
        assert "execute" in held["access"]
        anybody = {"subject": "agent_run:c9/r9"}
        passed = await person.post(f"/grants/{held['grantId']}/delegate", json=anybody)
        assert "execute" not in passed.json()["grant"]["access"]
        named = {**anybody, "access": ["read", "execute"]}
        passed = await person.post(f"/grants/{held['grantId']}/delegate", json=named)
        assert sorted(passed.json()["grant"]["access"]) == ["execute", "read"]
        given = {"subject": AGENT, "root": "workspace:demo", "access": ["execute", "metadata"]}
        assert (await person.post("/grants", json=given)).status_code == 201
    described = openapi.document()["components"]["schemas"]["GrantBody"]["properties"]["access"]
    assert "execute" in described["items"]["enum"]


@pytest.mark.spec("EXEC-1", "HTTP-2")
async def test_a_server_that_only_reads_lets_nobody_run_anything(tmp_path):
    async with serving(tmp_path, read_only=True) as house:
        held = (await house.client().get("/capabilities")).json()
        assert "execute" not in held["access"]


@pytest.mark.spec("PAST-2", "HTTP-2")
async def test_a_person_makes_a_token_for_an_agent_in_one_step_and_ends_it(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "src").mkdir()
        (house.place / "src" / "a").write_text("a")
        person = house.client()
        wanted = {"name": "builder", "access": ["read", "list", "metadata"], "path": "src"}
        made = await person.post("/tokens", json=wanted)
        assert made.status_code == 201
        assert made.json()["subject"] == "agent_run:builder/token"
        agent = house.client(made.json()["token"])
        assert (await agent.get("/file?path=src/a")).json()["content"] == "a"
        refused(
            await agent.post("/file/write", json={"path": "b", "content": ""}), "missing_access"
        )
        listed = (await person.get("/tokens")).json()["tokens"]
        assert [each["subject"] for each in listed if each["name"] == "builder"] == [
            "agent_run:builder/token"
        ]
        assert made.json()["token"] not in (await person.get("/tokens")).text
        assert (await person.delete("/tokens/builder")).status_code == 200
        refused(await agent.get("/file?path=src/a"), "unauthenticated")
        refused(await person.delete("/tokens/builder"), "path_not_found")
        assert not [
            each for each in (await person.get("/grants")).json()["grants"]
            if each["subject"] == "agent_run:builder/token" and each["holds"] and each["standing"]
        ]  # fmt: skip


@pytest.mark.spec("PAST-2", "HTTP-2")
async def test_nobody_becomes_a_person_by_a_token_made_over_a_network(tmp_path):
    async with serving(tmp_path) as house:
        person, agent = house.client(), await house.agent("read", "list")
        for subject in ("user:local", "core:host", "nobody"):
            refused(
                await person.post("/tokens", json={"name": "x", "subject": subject}), "parse_error"
            )
        refused(await agent.post("/tokens", json={"name": "x"}), "missing_access")
        refused(await agent.get("/tokens"), "missing_access")
        refused(await agent.delete("/tokens/person"), "missing_access")
        refused(await person.post("/tokens", json={"name": "no name"}), "parse_error")
        refused(await person.post("/tokens", json={"name": "x", "access": ["fly"]}), "parse_error")
        assert "x" not in [each["name"] for each in (await person.get("/tokens")).json()["tokens"]]


@pytest.mark.spec("PAST-2", "HTTP-2")
@pytest.mark.parametrize(
    "wanted",
    [
        {"name": "no name", "subject": "agent_run:a/b"},
        {"name": "x" * 5_000, "subject": "agent_run:a/b"},
        {"name": "x", "subject": "agent_run:*"},
        {"name": "x", "root": "workspace:elsewhere"},
        {"name": "x", "path": "../.."},
        {"name": "x", "access": ["read", "fly"]},
        {"name": "x", "expiresIn": -5},
    ],
    ids=["name", "long name", "everybody", "no root", "outside", "no access", "past"],
)
async def test_a_token_that_cannot_be_made_grants_nothing(tmp_path, wanted):
    async with serving(tmp_path) as house:
        person = house.client()
        before = (await person.get("/grants")).json()["grants"]
        answer = await person.post("/tokens", json={"access": ["read"], **wanted})
        assert answer.status_code in {400, 403, 404}, answer.text
        assert (await person.get("/grants")).json()["grants"] == before
        assert "x" not in [each["name"] for each in (await person.get("/tokens")).json()["tokens"]]


@pytest.mark.spec("PAST-2", "HTTP-2")
async def test_an_agent_s_token_takes_no_person_s_place(tmp_path):
    async with serving(tmp_path) as house:
        tokens, local = house.authority.tokens, User("local")
        secret = await tokens.issue("laptop", "user:local", by=local, front="cli")
        person = house.client()
        refused(await person.post("/tokens", json={"name": "laptop"}), "file_already_exists")
        assert (await house.client(secret).get("/tokens")).status_code == 200
        first = (await person.post("/tokens", json={"name": "builder"})).json()["token"]
        assert (await person.post("/tokens", json={"name": "builder"})).status_code == 201
        refused(await house.client(first).get("/capabilities"), "unauthenticated")
