"""All waits of a request for databases end in time together, whichever of them it is that has no
end: what was not done is done when it is asked for again, and what was done is not done twice."""

import asyncio
import contextlib
from functools import partial

import pytest

from bailiwick.fronts.http.access import deadlines
from bailiwick.patience import AT_ONCE_S
from bailiwick.state.idempotency import IdempotencyBook
from bailiwick.stores.volume.versions.api import VolumeDraft, VolumeVersions
from tests.fronts.http.serving import asking_config, serving
from tests.postgres_proxy import ProxyThread
from tests.waiting import let_pass, until

pytestmark = [pytest.mark.spec("SCALE-6"), pytest.mark.slow]

KEY = {"idempotency-key": "one"}
APPEND = ("/file/append", {"path": "f", "content": "x"})
BATCH = (
    "/batch",
    {"operations": [{"op": "append", "path": path, "content": "x"} for path in ("f", "g")]},
)

STATE_S, VOLUME_S = 1.5, 6.5
"""Each is less than one wait for that database may take, which it then answers; and less than the
state may say nothing and be asked all the same."""

PATIENCE_S = 4.0
"""Less than a request has: then a machine with much else to do answers in time, too."""

WHEN = {
    "the key is taken": (IdempotencyBook, "take", "state"),
    "a draft is begun": (VolumeVersions, "begin", "volume"),
    "the answer is foretold": (IdempotencyBook, "foretell", "state"),
    "it is committed": (VolumeDraft, "commit", "volume"),
    "the answer is kept": (IdempotencyBook, "keep", "state"),
}


class Stalled:
    """A server whose two databases can be made to stand still, each by a way of its own."""

    def __init__(self, house, client, state, volume, monkeypatch):
        self.house = house
        self.client = client
        self.ways = {"state": state, "volume": volume}
        self._monkeypatch = monkeypatch

    def at(self, when, seconds=None):
        """When that is begun, a database stands still: for less than one wait may take."""
        which = WHEN[when][-1]
        seconds = seconds or {"state": STATE_S, "volume": VOLUME_S}[which]
        self.before(when, lambda: self.ways[which].stall_for(seconds))

    def before(self, when, do):
        owner, name, _ = WHEN[when]
        whole = getattr(owner, name)

        async def and_then(*given, **more):
            do()
            return await whole(*given, **more)

        self._monkeypatch.setattr(owner, name, and_then)

    async def asked(self, route, body):
        """What is answered, within the fifteen seconds."""
        async with asyncio.timeout(15):
            return await self.client.post(route, json=body, headers=KEY)

    async def asked_until_done(self, route, body):
        """What it comes to in the end, once both databases answer again."""
        self._monkeypatch.undo()
        for way in self.ways.values():
            way.flow()

        async def done():
            answer = await self.client.post(route, json=body, headers=KEY)
            assert answer.status_code == 200 or answer.json()["retryable"], answer.text
            return answer.status_code == 200 and answer

        return await until(done)

    async def content(self, path):
        async def read():
            answer = await self.client.get(f"/file?path={path}")
            return answer.status_code == 200 and answer.json()

        return (await until(read))["content"]


@pytest.fixture
def serving_stalled(postgres, tmp_path, monkeypatch):
    return partial(two_databases, postgres, tmp_path, monkeypatch)


@contextlib.asynccontextmanager
async def two_databases(postgres, tmp_path, monkeypatch, files=("f", "g")):
    monkeypatch.setattr(deadlines, "WAITS_SECONDS_MAX", PATIENCE_S)
    with (
        postgres.fresh_database() as dsn,
        ProxyThread(postgres) as state,
        ProxyThread(postgres) as volume,
    ):
        config = asking_config(
            f'volume = "{volume.through(dsn)}?volume=main&blobs={tmp_path}/blobs"',
            state=f'[state]\nurl = "{state.through(dsn)}"\npath = "{tmp_path}/beside"\n',
        )
        (tmp_path / "beside").mkdir(0o700)
        async with serving(tmp_path, config=config) as house:
            client = house.client()
            for path in files:
                body = {"path": path, "content": ""}
                assert (await client.post("/file/write", json=body)).status_code == 201
            yield Stalled(house, client, state, volume, monkeypatch)


def is_refused(answer):
    return answer.json().get("errorKind") in ("busy", "io_error")


def test_the_waits_of_a_request_leave_time_to_answer():
    assert deadlines.WAITS_SECONDS_MAX + 12 * AT_ONCE_S <= 15.0


async def test_a_batch_that_waits_again_and_again_ends_in_time(serving_stalled):
    """Each of its waits is answered before it is over by itself."""
    async with serving_stalled() as stalled:
        for when in WHEN:
            stalled.at(when)
        assert is_refused(await stalled.asked(*BATCH))
        assert (await stalled.asked_until_done(*BATCH)).json()["atomic"]
        assert [await stalled.content(path) for path in ("f", "g")] == ["x", "x"]


@pytest.mark.parametrize("when", ["a draft is begun", "it is committed"])
async def test_a_batch_that_has_waited_for_its_key_ends_in_time(serving_stalled, when):
    async with serving_stalled() as stalled:
        stalled.at("the key is taken")
        stalled.at(when, 60.0)
        assert is_refused(await stalled.asked(*BATCH))
        await stalled.asked_until_done(*BATCH)
        assert [await stalled.content(path) for path in ("f", "g")] == ["x", "x"]


async def test_who_asks_for_a_root_that_opens_slowly_is_told_in_time(serving_stalled):
    """All who ask meanwhile, and it goes on being opened."""
    body = {"path": "f", "content": "x"}
    async with serving_stalled(files=()) as stalled:
        stalled.ways["volume"].slow_down(1.0)
        asked = [stalled.asked("/file/write", body) for _ in range(2)]
        for answer in await asyncio.gather(*asked):
            assert answer.json().get("errorKind") == "busy", answer.text
        stalled.ways["volume"].slow_down(0.0)

        async def done():
            return (await stalled.asked("/file/write", body)).is_success

        await until(done)
        assert await stalled.content("f") == "x"


async def test_who_has_patience_left_is_not_told_what_another_is_who_asked_before(serving_stalled):
    """Both wait for the same: for the first scope of one caller on a root."""
    async with serving_stalled(files=()) as stalled:
        stalled.ways["volume"].stall_for(60.0)
        first, second = [{"path": path, "content": "x"} for path in ("f", "g")]
        before = asyncio.ensure_future(stalled.client.post("/file/write", json=first))
        await let_pass(PATIENCE_S - 1.0)
        behind = asyncio.ensure_future(stalled.client.post("/file/write", json=second))
        assert (await before).json().get("errorKind") == "busy"
        stalled.ways["volume"].flow()
        assert (await behind).status_code == 201, (await behind).text


@pytest.mark.parametrize("asked", [APPEND, BATCH], ids=["append", "batch"])
async def test_what_was_done_and_its_answer_not_kept_is_not_told_to_be_busy(serving_stalled, asked):
    """It is known again by its key, and not done twice."""
    async with serving_stalled() as stalled:
        stalled.at("the answer is kept", 60.0)
        told = await stalled.asked(*asked)
        assert told.json().get("errorKind") == "io_error", told.text
        again = await stalled.asked_until_done(*asked)
        assert again.headers["idempotency-replayed"] == "true"
        assert await stalled.content("f") == "x"


@pytest.mark.spec("SCALE-3")
@pytest.mark.parametrize("asked", [APPEND, BATCH], ids=["append", "batch"])
async def test_what_may_have_been_done_is_not_told_to_be_busy(serving_stalled, asked):
    """The database has done it, and its answer does not come."""
    async with serving_stalled() as stalled:
        when = "it is committed" if asked is BATCH else "the key is taken"
        stalled.before(when, stalled.ways["volume"].stall_commit)
        told = await stalled.asked(*asked)
        assert told.json().get("errorKind") == "io_error", told.text
        await stalled.asked_until_done(*asked)
        assert await stalled.content("f") == "x"
