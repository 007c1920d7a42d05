"""What was, and what is tried apart, over HTTP, on a volume."""

import pytest

from bailiwick.fronts.http.access.leases import LeaseNames
from tests.fronts.http.serving import check_error, serving


def volume(tmp_path):
    return f"sqlite:{tmp_path}/v.db?volume=main"


async def write(client, path, content, status=(200, 201), **more):
    body = {"path": path, "content": content, "parents": True, **more}
    got = await client.post("/file/write", json=body)
    assert got.status_code in status, got.text
    return got.json()


@pytest.mark.spec("HTTP-4", "VOL-5")
async def test_history_restore_and_undo(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        client = house.client()
        await write(client, "a", "one\n")
        second = await write(client, "a", "two\n")
        told = (await client.get("/history?path=a")).json()
        assert [each["kind"] for each in told["versions"]] == ["updated", "created"]
        first = told["versions"][1]["version"]
        old = await client.get("/file", params={"path": "a", "asOf": first})
        assert old.json()["content"] == "one\n"
        raw = await client.get("/file/raw", params={"path": "a", "asOf": first})
        assert raw.content == b"one\n"
        diff = (await client.get("/diff", params={"path": "a", "asOf": first})).json()
        assert "+two" in diff["text"]
        plan = await client.post("/undo", json={"requestId": second["requestId"], "preview": True})
        assert plan.json()["undone"] == ["a"]
        assert (await client.get("/file?path=a")).json()["content"] == "two\n"
        done = await client.post("/undo", json={"requestId": second["requestId"]})
        assert (done.json()["undone"], done.json()["conflicts"]) == (["a"], [])
        assert (await client.get("/file?path=a")).json()["content"] == "one\n"
        back = await client.post("/restore", json={"path": "a", "version": second["version"]})
        assert back.json()["changed"] == 1
        assert (await client.get("/file?path=a")).json()["content"] == "two\n"


@pytest.mark.spec("HTTP-4", "VOL-6")
async def test_snapshots_and_forks(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        client = house.client()
        await write(client, "a", "one")
        assert (await client.post("/snapshot", json={"name": "s"})).status_code == 201
        await write(client, "a", "two")
        assert (await client.get("/file?path=a&asOf=s")).json()["content"] == "one"
        assert [each["name"] for each in (await client.get("/snapshots")).json()["snapshots"]] == [
            "s"
        ]
        assert (await client.post("/fork", json={"name": "f"})).status_code == 201
        body = {"path": "a", "content": "three"}
        assert (await client.post("/file/write?fork=f", json=body)).status_code == 200
        assert (await client.get("/file?path=a")).json()["content"] == "two"
        assert (await client.get("/file?path=a&fork=f")).json()["content"] == "three"
        assert "f" in [each["name"] for each in (await client.get("/forks")).json()["forks"]]
        compared = (await client.get("/compare?name=f")).json()
        assert [each["path"] for each in compared["differences"]] == ["a"]
        merged = (await client.post("/merge", json={"name": "f"})).json()
        assert (merged["changed"], merged["conflicts"]) == (["a"], [])
        assert (await client.get("/file?path=a")).json()["content"] == "three"
        assert (await client.delete("/forks/f")).status_code == 200
        gone = await client.get("/file?path=a&fork=f")
        check_error(gone.status_code, gone.json(), "path_not_found")
        assert (await client.delete("/snapshots/s")).status_code == 200


@pytest.mark.spec("HTTP-4", "VOL-7")
async def test_a_lock_keeps_others_out(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        client = house.client()
        agent = await house.agent("read", "write", "list")
        await write(client, "a", "one")
        lock = (await client.post("/lock", json={"path": "a", "ttl": 30})).json()
        held = await agent.post("/file/write", json={"path": "a", "content": "two"})
        check_error(held.status_code, held.json(), "lock_held")
        assert held.status_code == 423
        await write(client, "a", "mine", lockToken=lock["token"])
        renewed = await client.post(f"/lock/{lock['id']}/renew", json={"ttl": 60})
        assert renewed.json()["expiresAtMs"] > lock["expiresAtMs"]
        stolen = await agent.post(f"/lock/{lock['id']}/release")
        check_error(stolen.status_code, stolen.json(), "path_not_found")
        assert (await client.post(f"/lock/{lock['id']}/release")).status_code == 200
        assert (
            await agent.post("/file/write", json={"path": "a", "content": "two"})
        ).status_code == 200


@pytest.mark.spec("HTTP-4", "VOL-7")
@pytest.mark.parametrize("where", ["", "?fork=f"])
async def test_a_lock_is_known_to_every_process_of_a_server(tmp_path, where):
    """Each process has an authority and an application of its own, on one state and one volume."""
    key = {"lock_key": b"of one server" * 3, "workers": 2, "place": volume(tmp_path)}
    async with serving(tmp_path, **key) as one, serving(tmp_path, **key) as two:
        first, second = one.client(two.token), two.client()
        agent = await two.agent("read", "write", "list")
        assert (await first.post("/fork", json={"name": "f"})).status_code == 201
        lock = (await first.post(f"/lock{where}", json={"path": "a", "ttl": 30})).json()
        change = {"path": "a", "content": "two"}
        held = await agent.post(f"/file/write{where}", json=change)
        check_error(held.status_code, held.json(), "lock_held")
        done = await second.post(f"/file/write{where}", json={**change, "lockToken": lock["token"]})
        assert done.status_code == 201, done.text
        renewed = (await second.post(f"/lock/{lock['id']}/renew", json={"ttl": 60})).json()
        assert renewed["expiresAtMs"] > lock["expiresAtMs"]
        assert (renewed["id"], renewed["token"]) == (lock["id"], lock["token"])
        assert (await second.post(f"/lock/{lock['id']}/release")).json()["held"]
        assert (await agent.post(f"/file/write{where}", json=change)).status_code == 200
        # What was given back is given back, whoever is asked.
        assert not (await first.post(f"/lock/{lock['id']}/release")).json()["held"]
        late = await first.post(f"/lock/{lock['id']}/renew", json={})
        check_error(late.status_code, late.json(), "lock_held")
        newer = (await second.post(f"/lock{where}", json={"path": "a", "ttl": 30})).json()
        assert (await first.post(f"/lock/{newer['id']}/release")).json()["held"]
        for token in (lock["token"], 999_999):
            stale = await first.post(f"/file/write{where}", json={**change, "lockToken": token})
            check_error(stale.status_code, stale.json(), "lock_held")
            assert stale.json()["details"]["stale"] is True
        assert (
            await first.post(f"/file/write{where}", json={**change, "lockToken": newer["token"]})
        ).status_code == 200


@pytest.mark.spec("HTTP-4", "VOL-7")
async def test_nobody_makes_up_the_name_of_a_lock(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        client = house.client()
        name = (await client.post("/lock", json={"path": "a"})).json()["id"]
        other = LeaseNames(b"another server").name(house.app.leases.find(name, None))
        flipped = name[:-2] + ("A" if name[-2] != "A" else "B") + name[-1]
        for made_up in (other, flipped, name[:-4], name + "AAAA", "x", "%FF", "A" * 64, "%00"):
            for what, body in (("renew", {"ttl": 60}), ("release", None)):
                got = await client.post(f"/lock/{made_up}/{what}", json=body)
                assert got.json()["errorKind"] in ("path_not_found", "parse_error"), made_up
        assert (await client.post(f"/lock/{name}/release")).json()["held"]


@pytest.mark.spec("HTTP-4", "VOL-7")
async def test_a_batch_is_all_or_nothing(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        client = house.client()
        await write(client, "a", "one")
        operations = [
            {"op": "write", "path": "b", "content": "b"},
            {"op": "move", "path": "a", "to": "c"},
            {"op": "dir", "path": "d"},
        ]
        done = await client.post("/batch", json={"operations": operations})
        assert done.status_code == 200, done.text
        assert [each["ok"] for each in done.json()["results"]] == [True] * 3
        broken = [
            {"op": "write", "path": "e", "content": "e"},
            {"op": "remove", "path": "nosuch"},
        ]
        failed = await client.post("/batch", json={"operations": broken})
        check_error(failed.status_code, failed.json(), "path_not_found")
        assert failed.json()["details"]["operation"] == 1
        names = [each["name"] for each in (await client.get("/list")).json()["entries"]]
        assert names == ["b", "c", "d"]
        # One after the other, where that is asked for.
        each = await client.post("/batch", json={"operations": broken, "atomic": False})
        assert [one["ok"] for one in each.json()["results"]] == [True, False]
        assert each.json()["results"][1]["error"]["errorKind"] == "path_not_found"


@pytest.mark.spec("HTTP-4", "VOL-9")
async def test_a_lock_is_named_where_it_is_held_against(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        client = house.client()
        token = (await client.post("/lock", json={"path": "a"})).json()["token"]
        plain = {"op": "write", "path": "a", "content": "a"}
        under = {**plain, "lockToken": token}
        for body, status in (
            ({"operations": [under]}, 400),
            ({"operations": [plain], "lockToken": token, "atomic": False}, 400),
            ({"operations": [plain]}, 423),
            ({"operations": [plain], "lockToken": token}, 200),
            ({"operations": [under], "atomic": False}, 200),
        ):
            done = await client.post("/batch", json=body)
            assert done.status_code == status, (body, done.text)
            assert all(each["ok"] for each in done.json().get("results", ()))
        wrong = {"operations": [plain], "lockToken": token + 1}
        assert (await client.post("/batch", json=wrong)).status_code == 423


@pytest.mark.spec("ERR-5")
async def test_a_root_without_a_power_says_so(tmp_path):
    async with serving(tmp_path, place="memory:") as house:
        client = house.client()
        await write(client, "a", "one")
        batch = {"operations": [{"op": "dir", "path": "d"}]}
        for method, route, body in (
            ("GET", "/history?path=a", None),
            ("GET", "/file?path=a&asOf=1", None),
            ("POST", "/undo", {"requestId": "x"}),
            ("POST", "/snapshot", {"name": "s"}),
            ("POST", "/fork", {"name": "f"}),
            ("GET", "/list?fork=f", None),
            ("POST", "/lock", {"path": "a"}),
            ("POST", "/batch", batch),
        ):
            got = await client.request(method, route, json=body)
            check_error(got.status_code, got.json(), "unsupported")
            assert got.status_code == 501


@pytest.mark.spec("HTTP-4", "VOL-6")
async def test_a_fork_is_not_removed_from_within_itself(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        client = house.client()
        for name in "fg":
            assert (await client.post("/fork", json={"name": name})).status_code == 201
        refused = await client.delete("/forks/f?fork=f")
        check_error(refused.status_code, refused.json(), "parse_error")
        assert (await client.get("/list?fork=f")).status_code == 200
        assert (await client.delete("/forks/f?fork=g")).status_code == 200
