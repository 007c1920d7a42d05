"""`/ready` tells the truth about what roots are kept in: dead, silent, or there again."""

import contextlib

import pytest

from tests.fronts.http.serving import check_error, serving
from tests.postgres_proxy import ProxyThread
from tests.waiting import until

pytestmark = pytest.mark.spec("SCALE-6")

CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
volume = "{place}"
trusted = true
"""


def in_s3(s3, tmp_path):
    s3.make_bucket("ready")
    blobs = s3.url("ready", tmp_path.name).replace("?", "%3F").replace("&", "%26")
    return f"sqlite:{tmp_path}/v.db?blobs={blobs}"


async def is_ready(client):
    answer = await client.get("/ready")
    if answer.status_code == 200:
        return True
    check_error(answer.status_code, answer.json(), "busy")
    assert answer.json()["retryable"]
    return False


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_an_object_store_that_is_gone_or_silent(s3, tmp_path, how, opened):
    place = in_s3(s3, tmp_path)
    async with serving(tmp_path, config=CONFIG.format(place=place)) as house:
        client = house.client()
        if opened:
            body = {"path": "a", "content": "a"}
            assert (await client.post("/file/write", json=body)).status_code == 201
        assert await is_ready(client)
        with getattr(s3, how)():
            await until(lambda: not_ready(client))
            # Those that need no object store are served all the same.
            assert (await client.get("/list")).status_code == 200
        await until(lambda: is_ready(client))


async def not_ready(client):
    return not await is_ready(client)


async def test_a_bucket_that_is_not_there_is_told_by_its_place_alone(s3, tmp_path):
    place = in_s3(s3, tmp_path).replace("//ready/", "//nosuch/")
    async with serving(tmp_path, config=CONFIG.format(place=place)) as house:
        answer = await house.client("").get("/ready")
        check_error(answer.status_code, answer.json(), "busy")
        # Anybody may ask: where it is kept is for those to know who run it.
        assert "nosuch" not in answer.text
        assert s3.endpoint not in answer.text


@pytest.mark.parametrize("how", ["dead", "silent"])
async def test_a_database_of_volumes_that_is_gone_or_silent(postgres, tmp_path, how):
    """The state is in a directory: only the volume is elsewhere."""
    with postgres.fresh_database() as dsn, ProxyThread(postgres) as proxy:
        place = f"{proxy.through(dsn)}?volume=main&blobs={tmp_path}/blobs"
        async with serving(tmp_path, config=CONFIG.format(place=place)) as house:
            client = house.client()
            assert await is_ready(client)
            with contextlib.ExitStack() as until_back:
                if how == "dead":
                    until_back.enter_context(postgres.killed())
                else:
                    until_back.enter_context(proxy.stalled())
                await until(lambda: not_ready(client))
            await until(lambda: is_ready(client))
            body = {"path": "a", "content": "a"}
            assert (await client.post("/file/write", json=body)).status_code == 201


async def test_who_asks_all_the_time_is_not_passed_on(s3, tmp_path, monkeypatch):
    from bailiwick.stores.volume.content.object_store import ObjectBlobs

    asked, answer = [], ObjectBlobs.answer

    def counted(self):
        asked.append(self)
        answer(self)

    monkeypatch.setattr(ObjectBlobs, "answer", counted)
    config = CONFIG.format(place=in_s3(s3, tmp_path))
    async with serving(tmp_path, config=config, lasting=False) as house:
        client = house.client("")
        for _ in range(50):
            assert await is_ready(client)
        assert 0 < len(asked) < 25
