"""Attacks on the HTTP front that once worked: each is tried here as its finder did."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from bailiwick.errors import ParseError
from bailiwick.fronts.http import settings
from bailiwick.fronts.http.routes import ROUTES
from tests.fronts.http.serving import AGENT, PERSON, check_error, serving
from tests.processes import in_a_group
from tests.waiting import PATIENCE_S, until

VOLUME = "sqlite:{}/v.db?volume=main"


def refused(answer, kind):
    check_error(answer.status_code, answer.json(), kind)


async def granted(client):
    """The id of the grant under which a client works."""
    return (await client.get("/capabilities")).json()["grantId"]


async def passed_on(house, client, subject, **how):
    """A client with the token of a grant that another has passed on."""
    made = await client.post(
        f"/grants/{await granted(client)}/delegate", json={"subject": subject, **how}
    )
    assert made.status_code == 201, made.text
    return house.client(made.json()["token"])


class Browser:
    """What a logged-in browser has: a cookie, and the key that its page keeps."""

    def __init__(self, house, answer):
        self.house = house
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.key = answer.headers["location"].removeprefix("/#session=")

    @classmethod
    async def login(cls, house):
        link = await house.authority.tokens.new_link(PERSON)
        answer = await house.client("").get("/login", params={"link": link})
        assert answer.status_code == 303
        return cls(house, answer)

    def client(self, key=None, cookie=None, **headers):
        shown = self.key if key is None else key
        if shown:
            headers["x-bailiwick-session"] = shown
        return self.house.client("", cookie=cookie or self.cookie, **headers)


# --- one grant, and no more ----------------------------------------------------------------------


@pytest.mark.spec("HTTP-2", "AUTH-5")
async def test_a_token_for_one_grant_is_no_person(tmp_path):
    async with serving(tmp_path) as house:
        (tmp_path / "other").mkdir()
        await house.authority.add_root("workspace:other", str(tmp_path / "other"), trusted=True)
        (house.place / "a").mkdir()
        (house.place / "a" / "x").write_text("x")
        person = house.client()
        agent = await house.agent("read", "write")
        await agent.get("/file?path=a/x")
        guest = await passed_on(house, person, "user:guest", access=["read"], path="a")
        assert (await guest.get("/file?path=a/x")).status_code == 200
        body = {"subject": "agent_run:*", "root": "workspace:demo", "access": ["write"]}
        refused(await guest.post("/grants", json=body), "missing_access")
        refused(await guest.post("/trust", json={"trusted": False}), "missing_access")
        refused(await guest.get("/audit/verify"), "missing_access")
        mine = await granted(guest)
        grants = (await guest.get("/grants")).json()["grants"]
        assert [each["id"] for each in grants] == [mine]
        records = (await guest.get("/audit")).json()["records"]
        assert {each["grantId"] for each in records} == {mine}
        roots = (await guest.get("/roots")).json()["roots"]
        assert [each["name"] for each in roots] == ["workspace:demo"]


@pytest.mark.spec("HTTP-2", "AUTH-5", "ASK-2")
async def test_who_passes_on_to_a_name_gets_nothing_of_that_name(tmp_path):
    async with serving(tmp_path, place=VOLUME.format(tmp_path), ask_wait_s=0.05) as house:
        other = "agent_run:B/1"
        first = await house.agent("read", "list", "write", subject="agent_run:A/1")
        second = await house.agent("read", "list", "write", subject=other)
        asked = await second.post(
            "/file/write", json={"path": ".git/config", "content": "secret", "parents": True}
        )
        assert asked.status_code == 202
        lock = (await second.post("/lock", json={"path": "plan"})).json()["id"]
        theirs = await granted(second)
        forged = await passed_on(house, first, other)
        await forged.get("/list")
        assert (await forged.get("/approvals")).json()["approvals"] == []
        approval = asked.json()["approvalId"]
        refused(await forged.get(f"/approvals/{approval}"), "path_not_found")
        mine = await granted(forged)
        records = (await forged.get("/audit")).json()["records"]
        assert {each["grantId"] for each in records} == {mine}
        refused(await forged.get(f"/audit?grantId={theirs}"), "path_not_found")
        grants = (await forged.get("/grants")).json()["grants"]
        assert {each["id"] for each in grants} == {mine}
        refused(await forged.post(f"/grants/{theirs}/revoke", json={}), "path_not_found")
        refused(await forged.post(f"/lock/{lock}/release"), "path_not_found")
        # What descends from its own grant is its own.
        heir = await passed_on(house, forged, "agent_run:C/1", access=["read"])
        await heir.get("/list")
        last = await granted(heir)
        assert {each["id"] for each in (await forged.get("/grants")).json()["grants"]} == {
            mine, last,
        }  # fmt: skip
        below = (await forged.get(f"/audit?grantId={last}")).json()["records"]
        assert {each["grantId"] for each in below} == {last}
        assert (await forged.post(f"/grants/{last}/revoke", json={})).status_code == 200
        assert (await second.get("/list")).status_code == 200
        # A person gives back any lock.
        assert (await house.client().post(f"/lock/{lock}/release")).json()["held"]


@pytest.mark.spec("HTTP-4", "AUTH-5")
async def test_the_lock_of_who_sees_a_part_is_given_back_where_it_is(tmp_path):
    async with serving(tmp_path, place=VOLUME.format(tmp_path)) as house:
        person, agent = house.client(), await house.agent("read", "list", "write")
        made = {"path": "part/in", "content": "1", "parents": True}
        assert (await person.post("/file/write", json=made)).status_code == 201
        await agent.get("/file?path=part/in")
        grant = (await agent.get("/grants")).json()["grants"][-1]["id"]
        passed = {"subject": "agent_run:c3/r3", "access": ["read", "write"], "path": "part"}
        handed = await agent.post(f"/grants/{grant}/delegate", json={**passed, "rebase": True})
        heir = house.client(handed.json()["token"])
        locked = (await heir.post("/lock", json={"path": "in"})).json()
        again = (await heir.post(f"/lock/{locked['id']}/renew", json={})).json()
        assert (locked["path"], again["path"]) == ("in", "in")
        assert (await person.post(f"/lock/{locked['id']}/release")).json()["held"] is True
        records = (await person.get("/audit?verb=lock")).json()["records"]
        assert {each["path"] for each in records} == {"part/in"}


@pytest.mark.spec("HTTP-4", "AUTH-5")
@pytest.mark.parametrize("where", ["", "?fork=f"])
async def test_a_person_gives_back_a_lock_whose_holder_lost_its_grant(tmp_path, where):
    async with serving(tmp_path, place=VOLUME.format(tmp_path)) as house:
        person, agent = house.client(), await house.agent("read", "write", path="a")
        await person.post("/dir", json={"path": "a"})
        await person.post("/fork", json={"name": "f"})
        locked = await agent.post(f"/lock{where}", json={"path": "a/b", "ttl": 60})
        lock = locked.json()["id"]
        write = {"path": "a/b", "content": ""}
        refused(await person.post(f"/file/write{where}", json=write), "lock_held")
        await person.post(f"/grants/{await granted(agent)}/revoke", json={})
        refused(await agent.post(f"/lock/{lock}/renew", json={"ttl": 600}), "grant_revoked")
        assert (await person.post(f"/lock/{lock}/release")).json()["held"]
        assert (await person.post(f"/file/write{where}", json=write)).status_code == 201


@pytest.mark.spec("HTTP-2", "AUTH-5")
async def test_one_grant_is_passed_on_so_often(tmp_path, monkeypatch):
    monkeypatch.setattr("bailiwick.fronts.http.routes.grants.DELEGATED_TOKENS_MAX", 2)
    async with serving(tmp_path) as house:
        agent = await house.agent("read", "list")
        held, made = await granted(agent), []
        for number in range(2):
            body = {"subject": f"agent_run:sub/{number}"}
            made.append(await agent.post(f"/grants/{held}/delegate", json=body))
        more = {"subject": "agent_run:sub/9"}
        refused(await agent.post(f"/grants/{held}/delegate", json=more), "quota_exceeded")
        # What has ended leaves room.
        gone = made[0].json()["grant"]["id"]
        assert (await agent.post(f"/grants/{gone}/revoke", json={})).status_code == 200
        again = await agent.post(f"/grants/{held}/delegate", json=more)
        assert again.status_code == 201
        for wrong in ("agent_run:c1/r1 ", " user:x", "agent_run:c1 /x", "user: x"):
            asked = await agent.post(f"/grants/{held}/delegate", json={"subject": wrong})
            refused(asked, "parse_error")
        with pytest.raises(ParseError):
            await house.authority.tokens.issue("t", "user:x ", by=PERSON, front="test")


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.spec("HTTP-8")
async def test_a_cookie_without_the_key_of_its_page_counts_for_nothing(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a.png").write_bytes(b"\x89PNG")
        browser = await Browser.login(house)
        assert browser.cookie.startswith(f"bailiwick_session_{house.port}=")
        page = browser.client()
        assert (await page.get("/roots")).status_code == 200
        # Another server on this machine is sent the cookie, and replays it.
        stolen = browser.client(key="")
        refused(await stolen.get("/roots"), "unauthenticated")
        refused(await stolen.get("/file/raw?path=a.png"), "unauthenticated")
        body = {"path": "b", "content": ""}
        replayed = await stolen.post("/file/write", json=body, headers={"origin": house.url})
        refused(replayed, "unauthenticated")
        refused(await browser.client(key="x" * 43).get("/roots"), "unauthenticated")
        refused(await stolen.post("/logout", headers={"origin": house.url}), "unauthenticated")
        # Neither half is a token; nor are both.
        halves = browser.cookie.partition("=")[2], browser.key
        for secret in (*halves, ".".join(halves)):
            refused(await house.client(secret).get("/roots"), "unauthenticated")
        # Where no header can be sent the key stands in the query, and nowhere else.
        shown = await stolen.get(f"/file/raw?path=a.png&session={browser.key}")
        assert shown.status_code == 200
        refused(await stolen.get(f"/list?session={browser.key}"), "unauthenticated")
        assert (await page.post("/logout", headers={"origin": house.url})).status_code == 204
        refused(await page.get("/roots"), "unauthenticated")


@pytest.mark.spec("HTTP-8")
async def test_two_servers_of_one_machine_keep_their_sessions_apart(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    async with serving(tmp_path / "1") as one, serving(tmp_path / "2") as two:
        first, second = await Browser.login(one), await Browser.login(two)
        both = f"{first.cookie}; {second.cookie}"
        assert (await first.client(cookie=both).get("/roots")).status_code == 200
        assert (await second.client(cookie=both).get("/roots")).status_code == 200
        refused(await one.client("", cookie=second.cookie).get("/roots"), "unauthenticated")


@pytest.mark.spec("HTTP-8")
@pytest.mark.parametrize("site", ["same-site", "cross-site", "none"])
async def test_only_the_servers_own_page_acts_by_cookie(tmp_path, site):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        page = (await Browser.login(house)).client(**{"sec-fetch-site": site})
        refused(await page.get("/list"), "forbidden_origin")
        refused(await page.get("/file/raw?path=a"), "forbidden_origin")
        # Not even with an origin that is right: a browser does not say both.
        body = {"path": "b", "content": ""}
        written = await page.post("/file/write", json=body, headers={"origin": house.url})
        refused(written, "forbidden_origin")
        assert (await page.get("/")).status_code == 200
        assert not (house.place / "b").exists()


@pytest.mark.spec("HTTP-2")
async def test_a_page_from_elsewhere_calls_for_nobody(tmp_path):
    async with serving(tmp_path, tokens=False) as house:
        (house.place / "a.png").write_bytes(b"\x89PNG")
        open_to_all = house.client("")
        assert (await open_to_all.get("/file/raw?path=a.png&inline=true")).status_code == 200
        crossing = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "image"}
        refused(await open_to_all.get("/file/raw?path=a.png", headers=crossing), "forbidden_origin")


@pytest.mark.spec("HTTP-8")
@pytest.mark.parametrize(
    "foreign",
    [
        'theme={"a":1}',
        'x="unterminated',
        "a b=c",
        "k=v,w",
        "a=[1]",
        "$Version=1",
        'x=a"b',
        "=",
        ";",
    ],
)
async def test_cookies_of_others_are_in_nobodys_way(tmp_path, foreign):
    async with serving(tmp_path, lasting=False) as house:
        browser = await Browser.login(house)
        for cookie in (f"{foreign}; {browser.cookie}", f"{browser.cookie}; {foreign}"):
            assert (await browser.client(cookie=cookie).get("/roots")).status_code == 200


@pytest.mark.spec("HTTP-2", "HTTP-8")
async def test_a_token_is_no_cookie_however_often_it_was_seen(tmp_path):
    async with serving(tmp_path) as house:
        token = f"{'a' * 20}.{'b' * 20}"
        await house.authority.tokens.issue("t", str(PERSON), by=PERSON, front="t", secret=token)
        assert (await house.client(token).get("/roots")).status_code == 200
        half, _, key = token.partition(".")
        cookie = f"bailiwick_session_{house.port}={half}"
        client = house.client("", cookie=cookie, **{"x-bailiwick-session": key})
        refused(await client.get("/roots"), "unauthenticated")


@pytest.mark.spec("HTTP-8")
async def test_a_prefetch_does_not_use_a_link_up(tmp_path):
    async with serving(tmp_path) as house:
        link = await house.authority.tokens.new_link(PERSON)
        for header in ({"sec-purpose": "prefetch;prerender"}, {"purpose": "prefetch"}):
            early = await house.client("", **header).get("/login", params={"link": link})
            refused(early, "forbidden_origin")
        opened = await house.client("").get("/login", params={"link": link})
        assert opened.status_code == 303


@pytest.mark.spec("HTTP-2")
async def test_a_server_does_not_open_because_its_last_token_ended(tmp_path):
    async with serving(tmp_path) as house:
        book, stranger = house.authority.tokens, house.client("")
        await book.revoke("person", by=PERSON, front="test")
        refused(await stranger.get("/list"), "unauthenticated")
    async with serving(tmp_path, tokens=False) as house:
        book, stranger = house.authority.tokens, house.client("")
        assert (await stranger.get("/list")).status_code == 200
        await book.issue("t", str(PERSON), by=PERSON, front="test")
        refused(await stranger.get("/list"), "unauthenticated")
        await book.revoke("t", by=PERSON, front="test")
        refused(await stranger.get("/list"), "unauthenticated")


@pytest.mark.spec("HTTP-3", "HTTP-8")
async def test_no_answer_may_be_drawn_into_a_page_from_elsewhere(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        client = house.client()
        answers = [
            await client.get(path)
            for path in ("/list", "/file/raw?path=a", "/nosuch", "/", "/openapi.json", "/health")
        ]
        answers.append(await client.post("/file/write", json={"path": "b", "content": ""}))
        answers.append(await house.client("").get("/list"))
        for answer in answers:
            assert answer.headers["cross-origin-resource-policy"] == "same-origin", answer.url
        raw = await house.send(b"nonsense\r\n\r\n")
        assert b"cross-origin-resource-policy: same-origin" in raw


# --- streams -------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def streaming(house, *headers, token=None, path="/events"):
    """The rest of a stream of events, once it has begun."""
    reader, writer = await house.connect()
    try:
        writer.write(house.head(f"GET {path} HTTP/1.1", *headers, token=token))
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 120)
        await asyncio.wait_for(reader.readuntil(b"retry: 1000"), 120)
        yield reader
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.mark.spec("HTTP-2", "HTTP-8", "EVENT-1")
@pytest.mark.parametrize("how", ["revoked", "expired", "logged out"])
async def test_a_stream_ends_with_what_let_it_begin(tmp_path, monkeypatch, clock, how):
    monkeypatch.setattr("bailiwick.fronts.http.routes.events.EVENT_LOOK_SECONDS", 0.05)
    async with serving(tmp_path) as house:
        book, lines, token, path = house.authority.tokens, [], "", "/events"
        if how == "logged out":
            browser = await Browser.login(house)
            lines, path = [f"Cookie: {browser.cookie}"], f"/events?session={browser.key}"
        else:
            token = await book.issue(
                "t", str(PERSON), by=PERSON, front="test",
                expires_in=60 if how == "expired" else None,
            )  # fmt: skip
        async with streaming(house, *lines, token=token, path=path) as stream:
            if how == "revoked":
                await book.revoke("t", by=PERSON, front="test")
            elif how == "logged out":
                page = browser.client(origin=house.url)
                assert (await page.post("/logout")).status_code == 204
            else:
                clock.advance(60)
            await house.client().post("/file/write", json={"path": "leak", "content": ""})
            rest = await asyncio.wait_for(_until_end(stream), 120)
        assert b"leak" not in rest
        assert b'"errorKind":"unauthenticated"' in rest


async def _until_end(stream):
    """What comes up to the last chunk."""
    return await stream.readuntil(b"\r\n0\r\n\r\n")


@pytest.mark.spec("HTTP-2", "EVENT-1")
async def test_one_caller_follows_so_many_streams(tmp_path, monkeypatch):
    monkeypatch.setattr("bailiwick.fronts.http.access.streams.EVENT_STREAMS_PER_CALLER_MAX", 2)
    monkeypatch.setattr("bailiwick.fronts.http.access.streams.EVENT_STREAMS_MAX", 3)
    async with serving(tmp_path) as house, contextlib.AsyncExitStack() as streams:
        agent = await house.agent("watch", "read", "list")
        token = agent.headers["authorization"].split()[1]
        for _ in range(2):
            await streams.enter_async_context(streaming(house, token=token))
        refused(await agent.get("/events"), "rate_limited")
        other = await house.agent("watch", "read", "list", subject="agent_run:c9/r9")
        token = other.headers["authorization"].split()[1]
        last = await streams.enter_async_context(contextlib.AsyncExitStack())
        await last.enter_async_context(streaming(house, token=token))
        refused(await other.get("/events"), "rate_limited")
        # One that has ended leaves room.
        await last.aclose()
        await until(lambda: house.app.streams < 3)
        async with streaming(house, token=token):
            pass
    assert settings.EVENT_STREAMS_MAX < settings.CONNECTIONS_MAX


# --- the wire ------------------------------------------------------------------------------------


@pytest.mark.spec("HTTP-2")
async def test_what_comes_after_the_body_is_no_header(tmp_path):
    async with serving(tmp_path) as house:
        line, sent = "PUT /file/raw?path=s HTTP/1.1", b"3\r\nabc\r\n0\r\n"
        chunked = ("Transfer-Encoding: chunked", "Connection: close")
        trailer = f"Authorization: Bearer {house.token}\r\n\r\n".encode()
        got = await house.send(house.head(line, *chunked, token="") + sent + trailer)
        assert b" 401 " in got.split(b"\r\n")[0]
        got = await house.send(house.head(line, *chunked) + sent + b"X-Request-Id: no no\r\n\r\n")
        assert b" 201 " in got.split(b"\r\n")[0]


@pytest.mark.spec("HTTP-5")
@pytest.mark.parametrize(
    "path",
    ["/%6cist", "//list", "/list/", "/roots//workspace/demo/list", "/roots/workspace/demo/%6cist",
     "/roots/workspace/demo//list", "/lis%74?path=.", "/console/%69ndex.html", "/%6cogin?link=x"],
)  # fmt: skip
async def test_an_address_has_one_spelling(tmp_path, path):
    async with serving(tmp_path, lasting=False) as house:
        got = await house.send(house.head(f"GET {path} HTTP/1.1", "Connection: close"))
        assert b" 404 " in got.split(b"\r\n")[0]


@pytest.mark.spec("HTTP-5")
@pytest.mark.parametrize(
    "body",
    ['{"path":"a","content":"1","path":"b"}', '{"path":"a","content":"1","\\u0070ath":"b"}'],
)
async def test_a_key_is_given_once(tmp_path, body):
    async with serving(tmp_path, lasting=False) as house:
        kind = {"content-type": "application/json"}
        refused(await house.client().post("/file/write", content=body, headers=kind), "parse_error")
        nested = '{"atomic":false,"operations":[{"op":"write",' + body[1:] + "]}"
        refused(await house.client().post("/batch", content=nested, headers=kind), "parse_error")
        assert list(house.place.iterdir()) == []


@pytest.mark.spec("HTTP-1")
async def test_a_read_only_server_refuses_every_change(tmp_path):
    async with serving(tmp_path, read_only=True) as house:
        client = house.client()
        for route in ROUTES:
            if route.changes:
                path = route.path.replace("{name}", "x").replace("{id}", "x")
                refused(await client.request(route.method, path, json={}), "read_only")


@pytest.mark.spec("HTTP-2", "HTTP-4")
async def test_a_batch_counts_for_what_is_in_it(tmp_path):
    async with serving(tmp_path, changes_per_minute=10) as house:
        client = house.client()

        def batch(count):
            operations = [{"op": "write", "path": f"{n}", "content": ""} for n in range(count)]
            return client.post("/batch", json={"operations": operations, "atomic": False})

        assert (await batch(6)).status_code == 200
        refused(await batch(6), "rate_limited")
        assert (await batch(3)).status_code == 200
        client = await house.agent("write", "read")
        too_many = await batch(11)
        refused(too_many, "rate_limited")
        assert "smaller" in too_many.json()["hint"]


# --- forks, batches ------------------------------------------------------------------------------


@pytest.mark.spec("VOL-5", "AUTH-5")
async def test_a_fork_is_seen_through_the_grant_that_reaches(tmp_path):
    async with serving(tmp_path, place=VOLUME.format(tmp_path)) as house:
        person = house.client()
        for folder in "ab":
            body = {"path": f"{folder}/x", "content": folder, "parents": True}
            await person.post("/file/write", json=body)
        await person.post("/fork", json={"name": "f"})
        await house.agent("read", "list", path="b")
        agent = await house.agent("read", "list", path="a")
        for path in ("a/x", "b/x", "a/x"):
            assert (await agent.get(f"/file?path={path}&fork=f")).status_code == 200
        # Taken back, and granted anew.
        for each in (await person.get("/grants")).json()["grants"]:
            if each["subject"] == AGENT and each["standing"]:
                await person.post(f"/grants/{each['id']}/revoke", json={})
        refused(await agent.get("/file?path=a/x&fork=f"), "missing_access")
        await house.authority.add_grant(
            subject=AGENT, root="workspace:demo", access=["read"], by=PERSON
        )
        assert (await agent.get("/file?path=a/x&fork=f")).status_code == 200
        # Deleted by another, and made again.
        assert (await person.request("DELETE", "/forks/f")).status_code == 200
        gone = await agent.get("/file?path=a/x&fork=f")
        assert gone.status_code in (404, 503)
        body = {"path": "new", "content": "new"}
        await person.post("/file/write", json=body)
        assert (await person.post("/fork", json={"name": "f"})).status_code == 201
        assert (await agent.get("/file?path=new&fork=f")).json()["content"] == "new"


@pytest.mark.spec("HTTP-4", "ASK-2")
async def test_a_batch_that_asks_twice_says_how_it_can_pass(tmp_path):
    async with serving(tmp_path, place=VOLUME.format(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent("read", "list", "write")
        operations = [
            {"op": "write", "path": f".git/{name}", "content": "", "parents": True} for name in "qr"
        ]
        pending = await agent.post("/batch", json={"operations": operations})
        assert pending.status_code == 202
        approval = pending.json()["approvalId"]
        await person.post(f"/approvals/{approval}", json={"answer": "once"})
        operations[0]["approval"] = approval
        second = await agent.post("/batch", json={"operations": operations})
        refused(second, "unsupported")
        assert "atomic" in second.json()["hint"]


# --- the tokens of a server ----------------------------------------------------------------------


@contextlib.contextmanager
def _started(folder, *more):
    """A server as somebody starts it, and what it says."""
    environment = {**os.environ, "HOME": str(folder)}
    environment.pop("BAILIWICK_TOKEN", None)
    with in_a_group(
        [sys.executable, "-m", "bailiwick", "serve", str(folder / "tree"), "--port", "0",
         "--json", "--state", str(folder / "state"), *more],
        stdout=subprocess.PIPE, env=environment,
    ) as server:  # fmt: skip
        yield json.loads(server.stdout.readline())
        server.terminate()
        assert server.wait(PATIENCE_S) == 0


def _status(told, token):
    asked = urllib.request.Request(
        told["url"] + "/grants", headers={"authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=120) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.slow
@pytest.mark.spec("HTTP-1", "HTTP-2")
def test_the_token_of_a_server_ends_with_it(tmp_path):
    (tmp_path / "tree").mkdir()
    chosen = "chosen-by-a-person-123"
    with _started(tmp_path) as first:
        assert _status(first, first["token"]) == 200
    with _started(tmp_path, "--token", chosen) as second:
        assert [_status(second, each) for each in (first["token"], chosen)] == [401, 200]
    with _started(tmp_path, "--workers", "2") as third:
        tokens = (first["token"], chosen, third["token"])
        assert [_status(third, each) for each in tokens] == [401, 401, 200]
    with _started(tmp_path, "--token", chosen) as last:
        assert [_status(last, each) for each in (third["token"], chosen)] == [401, 200]
