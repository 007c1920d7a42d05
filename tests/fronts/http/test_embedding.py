"""The application inside another one, and others inside it."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from bailiwick.build.governed import Authority
from bailiwick.fronts.http import create_app
from bailiwick.grant import User
from tests.fronts.http.serving import check_error

PERSON = User("local")


async def token(authority):
    return await authority.tokens.issue("t", str(PERSON), by=PERSON, front="test")


def client(app, secret):
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    shown = {"authorization": f"Bearer {secret}"}
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=shown)


@pytest.mark.spec("HTTP-9", "AUTH-7")
async def test_it_is_mounted_in_another_application(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("a")
    async with Authority.open() as authority:
        await authority.add_root("workspace:demo", str(tmp_path / "tree"))
        app = create_app(authority)
        outer = Starlette(
            routes=[
                Route("/", lambda request: PlainTextResponse("outer")),
                Mount("/files", app=app),
            ]
        )
        async with client(outer, await token(authority)) as person:
            assert (await person.get("/")).text == "outer"
            assert (await person.get("/files/file?path=a")).json()["content"] == "a"
            assert (await person.get("/files/roots/workspace/demo/list")).status_code == 200
            # What was only registered is not trusted, until a person says so.
            refused = await person.put("/files/file/raw?path=b", content=b"")
            check_error(refused.status_code, refused.json(), "untrusted_workspace")
            await person.post("/files/trust", json={"trusted": True})
            made = await person.put("/files/file/raw?path=b", content=b"")
            assert made.status_code == 201
            missing = await person.get("/files/nosuch")
            check_error(missing.status_code, missing.json(), "route_not_found")
        await app.aclose()
        async with client(app, "x" * 20) as late:
            assert (await late.get("/health")).status_code == 503


@pytest.mark.spec("HTTP-9", "HTTP-2")
async def test_others_are_mounted_behind_the_same_checks():
    async def inner(scope, receive, send):
        subject = str(scope["bailiwick.subject"])
        await PlainTextResponse(subject)(scope, receive, send)

    async with Authority.open() as authority:
        await authority.add_root("workspace:demo", "memory:")
        secret = await token(authority)
        app = create_app(authority, mounts={"/mcp": inner})
        async with client(app, secret) as person:
            assert (await person.post("/mcp")).text == "user:local"
            assert (await person.get("/mcp/more")).text == "user:local"
            assert (await person.get("/mcpx")).status_code == 404
            foreign = await person.post("/mcp", headers={"origin": "http://evil.example"})
            check_error(foreign.status_code, foreign.json(), "forbidden_origin")
            elsewhere = await person.post("/mcp", headers={"host": "evil.example"})
            check_error(elsewhere.status_code, elsewhere.json(), "forbidden_origin")
        async with client(app, "x" * 20) as stranger:
            refused = await stranger.post("/mcp")
            check_error(refused.status_code, refused.json(), "unauthenticated")
        await app.aclose()


@pytest.mark.spec("HTTP-2")
async def test_a_host_has_the_names_it_was_given():
    async with Authority.open() as authority:
        await authority.add_root("workspace:demo", "memory:")
        secret = await token(authority)
        for allowed, host, status in (
            (["files.example"], "files.example:8080", 200),
            (["files.example"], "localhost", 403),
            (["*"], "anything.example", 200),
        ):
            app = create_app(authority, allowed_hosts=allowed)
            async with client(app, secret) as person:
                got = await person.get("/list", headers={"host": host})
                assert got.status_code == status
            await app.aclose()


@pytest.mark.spec("HTTP-4")
async def test_the_short_routes_mean_the_root_that_was_named(tmp_path):
    async with Authority.open() as authority:
        for name in ("one", "two"):
            await authority.add_root(f"workspace:{name}", "memory:", trusted=True)
        app = create_app(authority, root="workspace:two")
        async with client(app, await token(authority)) as person:
            await person.put("/file/raw?path=a", content=b"x")
            assert (await person.get("/roots/workspace/two/file?path=a")).status_code == 200
            assert (await person.get("/roots/workspace/one/file?path=a")).status_code == 404
        await app.aclose()
