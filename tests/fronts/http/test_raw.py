"""Bytes of any size, in and out: ranges, conditions, what a browser is shown, what stays out of
memory."""

import hashlib
import os

import pytest

from tests.fronts.http.serving import check_error, serving
from tests.waiting import until

CONTENT = bytes(range(256)) * 4_096  # a mebibyte, more than is read at once


@pytest.mark.spec("HTTP-4")
@pytest.mark.parametrize("size", [0, 10, 1_000, len(CONTENT)])
@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=5-9", 5, 9),
        ("bytes=5-", 5, None),
        ("bytes=-4", -4, None),
        ("bytes=-5000000", 0, None),
        ("bytes=2-99999999", 2, None),
        ("bytes=262140-262150", 262_140, 262_150),
        ("bytes=100-900000", 100, 900_000),
    ],
)
async def test_ranges(tmp_path, size, asked, first, last):
    async with serving(tmp_path) as house:
        content = CONTENT[:size]
        (house.place / "f").write_bytes(content)
        got = await house.client().get("/file/raw?path=f", headers={"range": asked})
        start = max(0, size + first) if first < 0 else first
        end = size - 1 if last is None else min(last, size - 1)
        if start >= size:
            check_error(got.status_code, got.json(), "range_not_satisfiable")
            assert got.status_code == 416
            return
        assert got.status_code == 206
        assert got.headers["content-range"] == f"bytes {start}-{end}/{size}"
        assert got.content == content[start : end + 1]


@pytest.mark.spec("HTTP-4")
@pytest.mark.parametrize("asked", ["bytes=0-1,3-4", "lines=1-2", "bytes=9-3", "bytes=", "bytes=-"])
async def test_what_is_no_single_range_is_the_whole(tmp_path, asked):
    async with serving(tmp_path) as house:
        (house.place / "f").write_bytes(b"0123456789")
        got = await house.client().get("/file/raw?path=f", headers={"range": asked})
        assert (got.status_code, got.content) == (200, b"0123456789")


@pytest.mark.spec("HTTP-4", "HTTP-9")
async def test_conditions(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()

        async def get(**headers):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.get("/file/raw?path=f", headers=named)

        async def put(content, **headers):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.put("/file/raw?path=f", content=content, headers=named)

        created = await put(b"one", if_none_match="*")
        assert created.status_code == 201
        taken = await put(b"two", if_none_match="*")
        check_error(taken.status_code, taken.json(), "file_already_exists")
        assert taken.status_code == 412
        tag = (await get()).headers["etag"]
        assert (await get(if_none_match=tag)).status_code == 304
        assert (await get(if_none_match=f'"x", {tag}')).status_code == 304
        assert (await get(if_none_match=f"W/{tag}")).status_code == 304
        assert (await get(if_none_match='"x"')).status_code == 200
        assert (await get(if_match=tag)).status_code == 200
        failed = await get(if_match='"x"')
        check_error(failed.status_code, failed.json(), "hash_mismatch")
        assert failed.status_code == 412
        ranged = await get(range="bytes=1-1", if_range=tag)
        assert (ranged.status_code, ranged.content) == (206, b"n")
        stale = await get(range="bytes=1-1", if_range='"x"')
        assert (stale.status_code, stale.content) == (200, b"one")
        assert (await put(b"two", if_match=tag)).status_code == 200
        late = await put(b"three", if_match=tag)
        check_error(late.status_code, late.json(), "hash_mismatch")
        assert late.status_code == 412
        by_hash = '"sha256:' + hashlib.sha256(b"two").hexdigest() + '"'
        assert (await put(b"three", if_match=by_hash)).status_code == 200
        assert (await put(b"four", if_match="*")).status_code == 200
        assert (await put(b"five", if_match="*, *")).status_code == 400
        assert (await put(b"five", if_match='W/"x"')).status_code == 412
        assert (house.place / "f").read_bytes() == b"four"


@pytest.mark.spec("HTTP-4")
async def test_head_says_what_get_would(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "f").write_bytes(CONTENT)
        client = house.client()
        head = await client.head("/file/raw?path=f")
        got = await client.get("/file/raw?path=f")
        assert got.content == CONTENT
        assert head.content == b""
        for name in ("content-length", "etag", "content-type", "accept-ranges"):
            assert head.headers[name] == got.headers[name]


@pytest.mark.spec("HTTP-8")
@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.js", "a.xhtml", "a.pdf", "a.png.html", "a"])
async def test_bytes_are_never_a_page(tmp_path, name):
    async with serving(tmp_path) as house:
        (house.place / name).write_text("<script>alert(1)</script>")
        client = house.client()
        got = await client.get("/file/raw", params={"path": name})
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"].startswith("attachment")
        shown = await client.get("/file/raw", params={"path": name, "inline": "true"})
        assert shown.headers["content-type"] == "text/plain; charset=utf-8"
        for each in (got, shown):
            assert each.headers["content-security-policy"] == "default-src 'none'; sandbox"
            assert each.headers["x-content-type-options"] == "nosniff"


@pytest.mark.spec("HTTP-8")
async def test_a_picture_is_shown_and_a_name_cannot_break_out_of_its_header(tmp_path):
    async with serving(tmp_path) as house:
        name = 'ü"; x\r.png'
        (house.place / name).write_bytes(b"\x89PNG")
        got = await house.client().get("/file/raw", params={"path": name, "inline": "1"})
        assert got.headers["content-type"] == "image/png"
        assert got.headers["content-disposition"] == (
            "inline; filename*=UTF-8''%C3%BC%22%3B%20x%0D.png"
        )


@pytest.mark.spec("HTTP-4", "WRITE-4")
async def test_a_body_that_breaks_off_leaves_nothing(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "f").write_bytes(b"before")
        _, writer = await house.connect()
        writer.write(house.head("PUT /file/raw?path=f HTTP/1.1", "Content-Length: 1000000"))
        writer.write(b"x" * 300_000)
        await writer.drain()
        await until(lambda: house.server.server_state.tasks)
        writer.close()
        await writer.wait_closed()
        await until(lambda: not house.server.server_state.tasks)
        assert [path.name for path in house.place.iterdir()] == ["f"]
        assert (house.place / "f").read_bytes() == b"before"


@pytest.mark.spec("HTTP-2")
async def test_a_file_may_be_as_large_as_its_root_says(tmp_path):
    config = (
        f'[[root]]\nid = "demo"\nkind = "workspace"\npath = "{tmp_path / "tree"}"\n'
        'trusted = true\nlimits = {max_file_bytes = "100 KiB"}\n'
    )
    (tmp_path / "tree").mkdir()
    async with serving(tmp_path, config=config) as house:
        client = house.client()

        async def parts():
            for _ in range(300):
                yield b"x" * 1024

        for body in (b"x" * 200_000, parts()):
            got = await client.put("/file/raw?path=f", content=body)
            check_error(got.status_code, got.json(), "file_too_large")
            assert got.json()["details"]["limit"] == 100 * 1024
        assert not list(house.place.iterdir())


@pytest.mark.slow
@pytest.mark.spec("HTTP-4")
async def test_a_large_file_goes_in_and_out_a_chunk_at_a_time(tmp_path):
    size, piece = 64 * 1024 * 1024, os.urandom(1024 * 1024)
    async with serving(tmp_path) as house:
        client = house.client()
        before = resident()

        async def parts():
            for _ in range(size // len(piece)):
                yield piece

        made = await client.put("/file/raw?path=big", content=parts())
        assert made.json()["sizeBytes"] == size
        after_in = resident()
        digest, most = hashlib.sha256(), 0
        async with client.stream("GET", "/file/raw?path=big") as answer:
            async for chunk in answer.aiter_bytes():
                digest.update(chunk)
                most = max(most, resident())
        assert f"sha256:{digest.hexdigest()}" == made.json()["hash"]
        # The client of the test is in this process as well.
        assert max(after_in, most) - before < 48 * 1024 * 1024


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
