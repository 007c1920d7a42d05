"""Reading and writing through the routes: what a client of them relies on."""

import base64
import hashlib

import pytest

from tests.fronts.http.serving import check_error, parsed, serving


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.mark.spec("HTTP-4", "HTTP-3")
async def test_a_file_is_read(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a.txt").write_bytes(b"one\r\ntwo\r\n")
        got = await house.client().get("/file", params={"path": "a.txt"})
        document = got.json()
        assert got.status_code == 200
        assert got.headers["cache-control"] == "no-store"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert document.pop("requestId")
        assert document.pop("version")
        assert document == {
            "kind": "file", "path": "a.txt", "content": "one\r\ntwo\r\n", "encoding": "utf-8",
            "bom": False, "lineEnding": "crlf", "sizeBytes": 10, "returnedBytes": 10,
            "truncated": False, "hash": sha(b"one\r\ntwo\r\n"), "matchedIgnore": None,
            "firstLine": 1, "originalLineCount": 3, "totalLines": 2,
            "endsWithNewline": True, "nextCursor": None, "hasMore": False, "partialLine": False,
        }  # fmt: skip


@pytest.mark.spec("HTTP-4", "READ-3")
async def test_windows_join_to_the_whole(tmp_path):
    async with serving(tmp_path) as house:
        text = "".join(f"line {n}\n" for n in range(1, 1001))
        (house.place / "log").write_text(text)
        client = house.client()
        pages, query = [], {"path": "log", "line": "1", "limit": "300"}
        while True:
            page = (await client.get("/file", params=query)).json()
            pages.append(page["content"])
            if not page["hasMore"]:
                break
            query = {"path": "log", "cursor": page["nextCursor"], "limit": "300"}
        assert "\n".join(pages) == text
        tail = (await client.get("/file", params={"path": "log", "tail": "2"})).json()
        assert tail["content"] == "line 999\nline 1000\n"
        past = await client.get("/file", params={"path": "log", "line": "5000"})
        assert (past.status_code, past.json()["content"]) == (200, "")


@pytest.mark.spec("HTTP-4")
async def test_more_than_was_asked_for_is_cut_with_a_cursor(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "long").write_text("x" * 99 + "\n" + "y" * 100)
        client = house.client()
        whole = (await client.get("/file", params={"path": "long", "maxBytes": "200"})).json()
        assert whole["hash"] is not None
        assert not whole["truncated"]
        cut = (await client.get("/file", params={"path": "long", "maxBytes": "150"})).json()
        assert cut["truncated"]
        assert cut["returnedBytes"] <= 150
        rest = await client.get(
            "/file", params={"path": "long", "maxBytes": "150", "cursor": cut["nextCursor"]}
        )
        joined = cut["content"] + ("" if cut["partialLine"] else "\n") + rest.json()["content"]
        assert joined == "x" * 99 + "\n" + "y" * 100


@pytest.mark.spec("HTTP-4")
async def test_bytes_come_as_base64(tmp_path):
    async with serving(tmp_path) as house:
        content = bytes(range(256)) * 300
        (house.place / "b").write_bytes(content)
        client = house.client()
        got = (await client.get("/file/bytes", params={"path": "b"})).json()
        assert base64.b64decode(got["contentBase64"]) == content[:65536]
        assert (got["truncated"], got["hash"], got["sizeBytes"]) == (True, None, len(content))
        rest = await client.get("/file/bytes", params={"path": "b", "offset": "65536"})
        assert base64.b64decode(rest.json()["contentBase64"]) == content[65536:]
        whole = await client.get("/file/bytes", params={"path": "b", "maxBytes": "262144"})
        assert whole.json()["hash"] == sha(content)


@pytest.mark.spec("HTTP-4", "HTTP-9", "WRITE-1")
async def test_writing_creates_replaces_and_compares(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()

        async def write(content, **more):
            return await client.post("/file/write", json={"path": "a", "content": content, **more})

        made = await write("1", mode="create")
        assert (made.status_code, made.json()["kind"]) == (201, "file_write")
        assert made.json()["hash"] == sha(b"1")
        again = await write("2", mode="create")
        check_error(again.status_code, again.json(), "file_already_exists")
        replaced = await write("2", mode="replace", expectedHash=made.json()["hash"])
        assert (replaced.status_code, replaced.json()["created"]) == (200, False)
        stale = await write("3", mode="replace", expectedSha256=made.json()["hash"][7:])
        check_error(stale.status_code, stale.json(), "hash_mismatch")
        assert stale.json()["details"]["currentHash"] == sha(b"2")
        assert stale.json()["retryable"]
        by_version = await write("3", expectedVersion=replaced.json()["version"])
        assert by_version.status_code == 200
        both = await write("4", expectedHash=sha(b"3"), expectedSha256=sha(b"x"))
        check_error(both.status_code, both.json(), "parse_error")
        assert (house.place / "a").read_text() == "3"


@pytest.mark.spec("HTTP-4", "EDIT-1")
async def test_edits(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("x = 1\ny = 1\n")
        client = house.client()
        done = await client.post(
            "/file/edit", json={"path": "a", "oldText": "x = 1", "newText": "x = 2"}
        )
        document = done.json()
        assert (document["kind"], document["replacements"]) == ("file_edit", 1)
        assert document["hashBefore"] == sha(b"x = 1\ny = 1\n")
        assert document["firstChangedLine"] == 1
        many = [{"oldText": "x", "newText": "a"}, {"oldText": "y", "newText": "b"}]
        dry = await client.post("/file/edit", json={"path": "a", "edits": many, "dryRun": True})
        assert "+a = 2" in dry.json()["diff"]
        assert (house.place / "a").read_text() == "x = 2\ny = 1\n"
        ambiguous = await client.post(
            "/file/edit", json={"path": "a", "oldText": " = ", "newText": "="}
        )
        check_error(ambiguous.status_code, ambiguous.json(), "ambiguous_text_match")
        assert ambiguous.json()["details"]["count"] == 2
        missing = await client.post("/file/edit", json={"path": "a", "oldText": "q", "newText": ""})
        check_error(missing.status_code, missing.json(), "text_not_found")


@pytest.mark.spec("HTTP-4")
async def test_the_other_changes(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()

        async def post(route, status, **body):
            got = await client.post(route, json=body)
            assert got.status_code == status, got.text
            return got.json()

        await post("/dir", 201, path="d/e", parents=True)
        await post("/dir", 200, path="d/e", parents=True)
        assert (await post("/file/append", 201, path="d/log", content="a"))["kind"] == "file_append"
        more = base64.b64encode(b"b").decode()
        await post("/file/append", 200, path="d/log", contentBase64=more)
        assert (house.place / "d/log").read_text() == "ab"
        await post("/file/truncate", 200, path="d/log", size=1)
        await post("/copy", 200, path="d/log", to="copy")
        await post("/move", 200, path="copy", to="moved")
        await post("/symlink", 201, path="link", target="moved")
        assert (await client.get("/readlink", params={"path": "link"})).json()["target"] == "moved"
        await post("/mode", 200, path="moved", fileMode=0o600)
        await post("/times", 200, path="moved", modifiedNs=1_700_000_000_000_000_000)
        stat = (await client.get("/stat", params={"path": "link"})).json()
        assert (stat["type"], stat["mode"], stat["modifiedMs"]) == (
            "file", 0o600, 1_700_000_000_000,
        )  # fmt: skip
        unfollowed = await client.get("/stat", params={"path": "link", "follow": "false"})
        assert unfollowed.json()["type"] == "symlink"
        full = await client.post("/remove", json={"path": "d"})
        check_error(full.status_code, full.json(), "directory_not_empty")
        gone = await post("/remove", 200, path="d", recursive=True)
        assert gone["count"] >= 2
        await post("/archive/create", 201, paths=["moved"], to="a.tar.gz")
        out = await post("/archive/extract", 200, path="a.tar.gz", destination="out")
        assert out["files"] == 1
        assert (house.place / "out/moved").read_text() == "a"


@pytest.mark.spec("HTTP-4", "TREE-1")
async def test_listing_and_searching(tmp_path):
    async with serving(tmp_path) as house:
        for name in ("b.py", "a.py", "sub/c.py", "sub/d.txt"):
            path = house.place / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"# NOTE {name}\n")
        client = house.client()

        async def get(route, **query):
            got = await client.get(route, params=query)
            assert got.status_code == 200, got.text
            return got.json()

        page = await get("/list", limit="2")
        assert [entry["name"] for entry in page["entries"]] == ["a.py", "b.py"]
        entry = page["entries"][0]
        assert entry.keys() == {
            "name", "path", "type", "kind", "ignored", "sizeBytes", "modifiedMs", "modifiedNs",
            "addressable",
            "readOnly",
        }  # fmt: skip
        rest = await get("/list", limit="2", cursor=page["nextCursor"])
        assert [(entry["name"], entry["kind"]) for entry in rest["entries"]] == [
            ("sub", "directory")
        ]
        globbed = await get("/glob", pattern="**/*.py")
        assert globbed["matches"] == ["a.py", "b.py", "sub/c.py"]
        assert (globbed["count"], globbed["cwd"], globbed["kind"]) == (3, ".", "glob")
        assert len((await get("/files"))["entries"]) == 4
        found = await get("/find", pattern="*.txt", type="file")
        assert [each["path"] for each in found["entries"]] == ["sub/d.txt"]
        matched = await get("/grep", pattern="note", ignoreCase="1", include="*.py", path="sub")
        assert [(each["path"], each["line"]) for each in matched["matches"]] == [("sub/c.py", 1)]
        diff = await get("/diff", path="a.py", other="b.py")
        assert "+# NOTE b.py" in diff["text"]
        flag = await client.get("/grep", params={"pattern": "x", "word": "yes"})
        check_error(flag.status_code, flag.json(), "parse_error")


@pytest.mark.spec("HTTP-4")
async def test_an_upload_never_overwrites(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        names = []
        for content in (b"1", b"2", b"3"):
            got = await client.post("/file/upload?path=up/photo.tar.gz&parents=1", content=content)
            assert (got.status_code, got.json()["kind"]) == (201, "file_upload")
            names.append(got.json()["path"])
        assert names == ["up/photo.tar.gz", "up/photo.tar (1).gz", "up/photo.tar (2).gz"]
        assert [(house.place / name).read_bytes() for name in names] == [b"1", b"2", b"3"]
        hidden = [await client.post("/file/upload?path=.env", content=b"x") for _ in range(2)]
        assert [each.json()["path"] for each in hidden] == [".env", ".env (1)"]
        head = house.head("POST /file/upload?path=big HTTP/1.1", "Content-Length: 52428801")
        status, _, document = parsed(await house.send(head))
        check_error(status, document, "file_too_large")


@pytest.mark.spec("HTTP-4", "AUTH-2")
async def test_every_root_has_its_own_address(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    config = "".join(
        f'[[root]]\nid = "{name}"\nkind = "workspace"\npath = "{tmp_path / name}"\ntrusted = true\n'
        for name in ("one", "two")
    )
    async with serving(tmp_path, config=config) as house:
        client = house.client()
        assert (await client.get("/file?path=f")).json()["content"] == "one"
        assert (await client.get("/roots/workspace/two/file?path=f")).json()["content"] == "two"
        listed = (await client.get("/roots")).json()["roots"]
        assert [(root["name"], root["default"]) for root in listed] == [
            ("workspace:one", True), ("workspace:two", False),
        ]  # fmt: skip
        assert str(tmp_path) not in (await client.get("/roots")).text
        across = {"path": "f", "to": "g", "fromRoot": "workspace:two"}
        assert (await client.post("/copy", json=across)).status_code == 200
        assert (tmp_path / "one/g").read_text() == "two"
        over = await client.post("/copy", json={**across, "expectedDestinationVersion": "1"})
        check_error(over.status_code, over.json(), "parse_error")
        deeper = await client.post("/copy", json={**across, "to": "new/g", "parents": True})
        assert deeper.status_code == 200, deeper.text
        for route, kind in (
            ("/roots/workspace/three/file?path=f", "root_not_found"),
            ("/roots/nosuch/two/file?path=f", "parse_error"),
            ("/roots/workspace/two/nosuch", "route_not_found"),
            ("/roots/workspace/two/audit", "route_not_found"),
        ):
            got = await client.get(route)
            check_error(got.status_code, got.json(), kind)


@pytest.mark.spec("ERR-5")
async def test_a_copy_within_a_root_makes_no_parents(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        await client.post("/file/write", json={"path": "a", "content": "a"})
        copy = {"path": "a", "to": "new/a", "parents": True}
        alone = await client.post("/copy", json=copy)
        check_error(alone.status_code, alone.json(), "parse_error")
        batch = {"atomic": False, "operations": [{"op": "copy", **copy}]}
        (result,) = (await client.post("/batch", json=batch)).json()["results"]
        assert result["error"]["errorKind"] == "parse_error", result
        assert (await client.get("/stat?path=new")).status_code == 404
        assert (await client.post("/copy", json={"path": "a", "to": "b"})).status_code == 200


@pytest.mark.spec("HTTP-3", "AUDIT-5")
async def test_a_request_id_goes_with_everything(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client(**{"x-request-id": "mine-42"})
        made = await client.post("/file/write", json={"path": "a", "content": ""})
        assert made.json()["requestId"] == "mine-42"
        missing = await client.get("/file?path=nope")
        assert missing.json()["requestId"] == "mine-42"
        records = (await client.get("/audit?requestId=mine-42")).json()["records"]
        assert {record["verb"] for record in records} == {"write_text", "read_text"}
        assert {record["front"] for record in records} == {"http"}
        odd = await house.client(**{"x-request-id": "a" * 200}).get("/file?path=a")
        assert odd.status_code == 200
        assert odd.json()["requestId"] != "a" * 200, "it got one of ours"


@pytest.mark.spec("HTTP-4")
async def test_a_temporary_root_is_its_makers_alone(tmp_path):
    async with serving(tmp_path) as house:
        client, agent = house.client(), await house.agent("read", "list", "write")
        made = (await client.post("/temp", json={"seconds": 60})).json()
        base = f"/roots/temp/{made['id']}"
        wrote = await client.post(f"{base}/file/write", json={"path": "t", "content": "t"})
        assert wrote.status_code == 201
        assert (await client.get(f"{base}/file?path=t")).json()["content"] == "t"
        other = await agent.get(f"{base}/file?path=t")
        check_error(other.status_code, other.json(), "root_not_found")
        assert (await client.delete(f"/temp/{made['id']}")).status_code == 200
        gone = await client.get(f"{base}/file?path=t")
        check_error(gone.status_code, gone.json(), "root_not_found")


@pytest.mark.spec("HTTP-4", "VOL-11")
async def test_what_a_file_holds_is_told_by_its_name_or_its_first_bytes(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        picture = b"\x89PNG\r\n\x1a\n" + bytes(16)
        told = {}
        for name, content in (("a.md", b"# a"), ("picture", picture), ("empty", b"")):
            (house.place / name).write_bytes(content)
            told[name] = (await client.get(f"/stat?path={name}")).json()["mime"]
        (house.place / "d").mkdir()
        told["d"] = (await client.get("/stat?path=d")).json()["mime"]
        assert (told["a.md"], told["picture"], told["d"]) == ("text/markdown", "image/png", None)
        # Who may not read a file is not told what its first bytes are.
        agent = await house.agent("list", "metadata")
        assert (await agent.get("/stat?path=picture")).json()["mime"] is None
