"""What HTTP says of one file in headers: entity tags, conditions, ranges, HEAD, request ids."""

import re

import msgspec
import pytest

from bailiwick.fronts.http import openapi
from bailiwick.fronts.http.messages import conditions
from bailiwick.fronts.http.messages.ranges import tag_of
from bailiwick.fronts.http.routes import ROUTES
from bailiwick.fronts.http.verbs import new_body
from bailiwick.wire.arguments import DESTINATION, EXPECTED, EXPECTED_THERE, PATH
from tests.fronts.http.serving import check_error, parsed, serving

PLACES = [None, "sqlite:{}/v.db?volume=main"]


def placed(place, tmp_path):
    return None if place is None else place.format(tmp_path)


async def written(client, path="f", content="one\n"):
    got = await client.post("/file/write", json={"path": path, "content": content})
    assert got.status_code in (200, 201), got.text
    return got


# --- entity tags --------------------------------------------------------------------------------


@pytest.mark.spec("HTTP-9")
@pytest.mark.parametrize("place", PLACES)
async def test_every_answer_about_one_file_names_its_version(tmp_path, place):
    async with serving(tmp_path, place=placed(place, tmp_path)) as house:
        client = house.client()
        made = await written(client)
        tags = {made.headers["etag"]}
        for address in ("/file?path=f", "/file?path=f&line=1&limit=1", "/file/bytes?path=f",
                        "/file/raw?path=f", "/stat?path=f"):  # fmt: skip
            for method in ("GET", "HEAD"):
                tags.add((await client.request(method, address)).headers["etag"])
        assert tags == {f'"{made.json()["version"]}"'}
        change = {"path": "f", "oldText": "one", "newText": "two"}
        planned = await client.post("/file/edit", json={**change, "dryRun": True})
        assert planned.headers["etag"] in tags
        for answer in (
            await client.post("/file/edit", json=change),
            await client.put("/file/raw?path=f", content=b"three"),
            await client.post("/file/append", json={"path": "f", "content": "four"}),
            await client.post("/file/truncate", json={"path": "f", "size": 1}),
            await client.post("/file/upload?path=g", content=b"five"),
        ):
            assert answer.headers["etag"] == f'"{answer.json()["version"]}"'
            assert answer.headers["etag"] not in tags
            tags.add(answer.headers["etag"])
        assert "etag" not in (await client.get("/list?path=.")).headers


@pytest.mark.spec("HTTP-9")
def test_a_version_that_does_not_fit_into_a_header_is_no_tag():
    for version in ('a"b', "a\r\nx: y", "a b", "ü", "", "x" * 300):
        assert tag_of(version) is None
    assert tag_of("1:2-3") == b'"1:2-3"'


# --- conditions ---------------------------------------------------------------------------------

CHANGES = {
    "/file/write": {"path": "f", "content": "new"},
    "/file/edit": {"path": "f", "oldText": "one", "newText": "two"},
    "/file/append": {"path": "f", "content": "more"},
    "/file/truncate": {"path": "f", "size": 1},
    "/remove": {"path": "f"},
    "/move": {"path": "f", "destination": "g", "replace": True},
    "/mode": {"path": "f", "fileMode": "0600"},
    "/times": {"path": "f", "modifiedNs": 1},
}

BOUND = {each.path for each in ROUTES if conditions.takes_if_match(conditions.terms_of(each))}
"""Routes that can expect something."""


@pytest.mark.spec("HTTP-9")
def test_a_route_that_can_expect_something_takes_if_match_by_itself():
    assert {"/file/write", "/file/edit", "/file/append", "/file/raw"} <= BOUND
    for route in ROUTES:
        assert (412 in openapi.error_statuses(route)) >= any(conditions.terms_of(route))


@pytest.mark.spec("HTTP-9")
def test_terms_are_found_by_their_names():
    there = EXPECTED_THERE
    source = new_body("Source", (PATH, *EXPECTED, there[1]))
    replaced = new_body("Replaced", (PATH, *DESTINATION, *there))
    move = next(each for each in ROUTES if each.name == "move")
    bound = conditions.terms_of(msgspec.structs.replace(move, body=source))
    assert (bound.hash, bound.version, bound.of_destination) == (
        "expected_hash", "expected_version", False,
    )  # fmt: skip
    bound = conditions.terms_of(msgspec.structs.replace(move, body=replaced))
    assert (bound.hash, bound.version, bound.of_destination) == (
        "expected_destination_hash", "expected_destination_version", True,
    )  # fmt: skip


@pytest.mark.spec("HTTP-9")
@pytest.mark.parametrize("route", sorted(BOUND & CHANGES.keys()))
@pytest.mark.parametrize("place", PLACES)
async def test_a_change_of_one_file_is_bound_by_if_match(tmp_path, place, route):
    async with serving(tmp_path, place=placed(place, tmp_path)) as house:
        client, body = house.client(), CHANGES[route]

        async def change(tag, **more):
            headers = {"if-match": tag}
            return await client.post(route, json={**body, **more}, headers=headers)

        missing = await change("*")
        check_error(missing.status_code, missing.json(), "hash_mismatch")
        assert missing.status_code == 412
        missing = await change('"1"')
        check_error(missing.status_code, missing.json(), "hash_mismatch")
        assert missing.status_code == 412
        made = await written(client)
        tag, by_hash = made.headers["etag"], f'"{made.json()["hash"]}"'
        await written(client, content="one, again\n")
        for stale in (tag, by_hash, f"W/{tag}", '"x"'):
            late = await change(stale)
            check_error(late.status_code, late.json(), "hash_mismatch")
            assert late.status_code == 412, stale
        for wrong in (f"{tag}, {tag}", "x", '"', "*, *", ""):
            got = await change(wrong)
            check_error(got.status_code, got.json(), "parse_error")
        both = await change(tag, expectedVersion="1")
        check_error(both.status_code, both.json(), "parse_error")
        assert (await client.get("/file?path=f")).json()["content"] == "one, again\n"
        for number in range(3):
            made = await written(client, content=f"one {number}\n")
            right = [made.headers["etag"], f'"{made.json()["hash"]}"', "*"][number]
            assert (await change(right)).status_code == 200, right


@pytest.mark.spec("HTTP-9")
async def test_a_condition_that_nobody_looks_at_is_refused(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        await written(client)
        for name in ("if-match", "if-none-match"):
            got = await client.post(
                "/batch",
                json={"operations": [{"op": "remove", "path": "f"}], "atomic": False},
                headers={name: "*"},
            )
            check_error(got.status_code, got.json(), "parse_error")
        assert (house.place / "f").exists()


@pytest.mark.spec("HTTP-9")
async def test_a_write_only_where_nothing_stands(tmp_path):
    async with serving(tmp_path) as house:
        client, body = house.client(), {"path": "f", "content": "one"}
        new = {"if-none-match": "*"}
        assert (await client.post("/file/write", json=body, headers=new)).status_code == 201
        taken = await client.post("/file/write", json=body, headers=new)
        check_error(taken.status_code, taken.json(), "file_already_exists")
        assert taken.status_code == 412
        for headers in ({"if-none-match": '"x"'}, {**new, "if-match": "*"}):
            got = await client.post("/file/write", json=body, headers=headers)
            check_error(got.status_code, got.json(), "parse_error")
        put = await client.put("/file/raw?path=g", content=b"", headers={"if-match": "*"})
        check_error(put.status_code, put.json(), "hash_mismatch")
        assert (put.status_code, (house.place / "g").exists()) == (412, False)
        got = await client.put("/file/raw?path=g&mode=create", headers={"if-match": "*"})
        check_error(got.status_code, got.json(), "parse_error")


@pytest.mark.spec("HTTP-9")
async def test_what_else_is_missing_is_still_not_there(tmp_path):
    async with serving(tmp_path) as house:
        got = await house.client().post(
            "/file/write", json={"path": "no/f", "content": ""}, headers={"if-match": "*"}
        )
        assert got.status_code in (404, 412)
        elsewhere = await house.client().get("/file/raw?path=f", headers={"if-match": "*"})
        check_error(elsewhere.status_code, elsewhere.json(), "path_not_found")


# --- ranges and HEAD ----------------------------------------------------------------------------


@pytest.mark.spec("HTTP-9")
async def test_a_range_beyond_the_end_says_how_long_the_file_is(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "f").write_bytes(b"12345")
        (house.place / "empty").write_bytes(b"")
        for path, asked, size in (("f", "5-", 5), ("f", "-0", 5), ("empty", "0-", 0)):
            for method in ("GET", "HEAD"):
                got = await house.client().request(
                    method, f"/file/raw?path={path}", headers={"range": f"bytes={asked}"}
                )
                assert got.status_code == 416
                assert got.headers["content-range"] == f"bytes */{size}"


READS = [
    "/file?path=f", "/file/bytes?path=f", "/file/raw?path=f", "/list", "/stat?path=f",
    "/find", "/files", "/glob?pattern=*", "/grep?pattern=o", "/diff?path=f&other=f", "/health",
    "/ready", "/openapi.json", "/capabilities", "/roots", "/grants", "/metrics", "/audit",
    "/approvals", "/roots/workspace/demo/file?path=f", "/file?path=missing", "/nowhere",
    "/file?path=f&nosuch=1", "/approvals/none",
]  # fmt: skip


@pytest.mark.spec("HTTP-9")
async def test_head_is_answered_wherever_get_is(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client(**{"x-request-id": "one"})  # ids of ours differ in length
        await written(client)
        for address in READS:
            got, head = await client.get(address), await client.head(address)
            assert (head.status_code, head.content) == (got.status_code, b""), address
            gone = {"date"}
            if address.startswith(("/grep", "/glob", "/metrics", "/audit", "/find", "/files")):
                gone.add("content-length")  # durations and records differ from call to call
            told = [
                {name: value for name, value in each.headers.items() if name not in gone}
                for each in (got, head)
            ]
            if got.status_code == 200 and "content-length" not in gone:
                assert int(head.headers["content-length"]) == len(got.content), address
            for each in told:
                each.pop("content-length", None)
            assert told[0] == told[1], address


@pytest.mark.spec("HTTP-9", "HTTP-3")
async def test_a_head_of_a_stream_ends_and_the_connection_goes_on(tmp_path):
    async with serving(tmp_path) as house:
        answer = await house.send(
            house.head("HEAD /events HTTP/1.1")
            + house.head("HEAD /file?path=missing HTTP/1.1")
            + house.head("GET /health HTTP/1.1", "Connection: close")
        )
        heads = re.findall(rb"HTTP/1\.1 (\d+)", answer)
        assert heads == [b"200", b"404", b"200"]
        assert answer.count(b"errorKind") == 0
        assert house.app.streams == 0


@pytest.mark.spec("HTTP-9")
async def test_what_is_not_read_has_no_head(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        got = await client.head("/file/write")
        assert (got.status_code, got.headers["allow"]) == (405, "POST")
        got = await client.post("/list", json={})
        assert got.headers["allow"] == "GET, HEAD"


# --- request ids --------------------------------------------------------------------------------


@pytest.mark.spec("HTTP-9", "HTTP-3")
async def test_a_request_id_is_echoed(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        await written(client)
        for address in (*READS, "/login", "/file/write"):
            named = {"x-request-id": "mine 1"}
            got = await client.get(address, headers=named)
            if address != "/login":
                assert got.headers["x-request-id"] == "mine 1", address
            if "json" in got.headers.get("content-type", "") and "requestId" in got.json():
                assert got.json()["requestId"] == "mine 1", address
        for address in READS:
            got = await client.get(address)
            if "json" in got.headers["content-type"] and "requestId" in got.json():
                assert got.headers["x-request-id"] == got.json()["requestId"], address
            assert got.headers["x-request-id"]


INSANE = [
    b"x" * 129, b"", b" ", b"a\tb", b"\x80", "ü".encode(), b"a\x7f", b"a\x1b[31m", b"x" * 9_000,
]  # fmt: skip


@pytest.mark.spec("HTTP-9", "HTTP-2")
@pytest.mark.parametrize("given", INSANE)
async def test_an_id_that_cannot_be_used_is_replaced(tmp_path, given):
    async with serving(tmp_path) as house:
        (house.place / "f").write_text("")
        for address, status in (("/file?path=f", 200), ("/file?path=none", 404)):
            head = house.head(f"GET {address} HTTP/1.1", "Connection: close")
            asked = head.replace(b"\r\n\r\n", b"\r\nX-Request-Id: " + given + b"\r\n\r\n")
            answer = await house.send(asked)
            got, headers, document = parsed(answer)
            if got == 400 and b"this is not HTTP" in answer:
                continue  # a control character never reaches the application
            assert got == status
            assert re.fullmatch("[0-9a-f-]+", headers["x-request-id"])
            assert headers["x-request-id"] == document["requestId"]


@pytest.mark.spec("HTTP-9", "HTTP-2")
async def test_no_header_comes_of_a_request_id(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "f").write_text("")
        for inside in (b"\r", b"\n", b"\r\n", b"\x00", b"%0d%0a", b"\xe5\x98\x8a", b"\\r\\n"):
            for address in ("/file?path=f", "/file?path=none", "/file/raw?path=f"):
                head = house.head(f"GET {address} HTTP/1.1", "Connection: close")
                given = b"a" + inside + b"Set-Cookie: x=y"
                answer = await house.send(
                    head.replace(b"\r\n\r\n", b"\r\nX-Request-Id: " + given + b"\r\n\r\n")
                )
                lines = answer.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
                assert not [line for line in lines if line.startswith(b"set-cookie")], inside
                assert b"\n" not in b"".join(lines)
        twice = await house.send(
            house.head("GET /file?path=f HTTP/1.1", "X-Request-Id: a", "X-Request-Id: b",
                       "Connection: close")
        )  # fmt: skip
        check_error(400, parsed(twice)[2], "parse_error")
