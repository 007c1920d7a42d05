"""What got no answer is asked again, and a change is made once, however often it is sent."""

import asyncio
import concurrent.futures
import contextlib
import time

import pytest

import bailiwick
from bailiwick import errors
from bailiwick.client import connect, connect_sync, retries
from tests.client.cutting import CuttingProxy, header
from tests.client.lying import answer, lying
from tests.fronts.http.serving import AGENT, PERSON, serving
from tests.fronts.http.test_lost_answers import volume
from tests.fronts.http.test_serve_command import TOKEN, process
from tests.waiting import PATIENCE_S, until, until_blocking

pytestmark = pytest.mark.spec("PY-5", "SCALE-3", "HTTP-11")

WRITTEN = {
    "kind": "file_write", "path": "a", "mode": "overwrite", "created": True, "sizeBytes": 1,
    "hash": "sha256:" + "0" * 64, "version": "1", "fileMode": "0600", "requestId": "r",
}  # fmt: skip


@pytest.fixture(params=["directory", "sqlite", "postgres"])
def place(tmp_path, request):
    return None if request.param == "directory" else volume(tmp_path, request)


@contextlib.asynccontextmanager
async def through(tmp_path, place=None, **options):
    """A scope on a server, and the proxy between."""
    async with (
        serving(tmp_path, place=place) as house,
        CuttingProxy(house.port) as proxy,
        connect(proxy.url, token=house.token, **options) as fs,
    ):
        fs.house = house
        yield fs, proxy


async def _write_all(fs):
    async def source():
        yield b"x"

    return await fs.write_stream("new", source())


CHANGES = {
    "append": lambda fs: fs.append("f", "x"),
    "create": lambda fs: fs.write_text("new", "x", mode="create"),
    "bytes": lambda fs: fs.write_bytes("new", b"x", mode="create"),
    "edit": lambda fs: fs.edit("f", old="one", new="two"),
    "move": lambda fs: fs.move("f", "g"),
    "remove": lambda fs: fs.remove("f"),
    "directory": lambda fs: fs.make_dir("d/e", parents=True),
    "copy": lambda fs: fs.copy("f", "g"),
}


async def seen(fs):
    found = (await fs.glob("**")).matches
    return {
        each.path: (await fs.read_bytes(each.path)).data if each.type == "file" else each.type
        for each in found
    }


@pytest.fixture(
    params=[
        ("directory", "answer"),
        *(
            (kind, cut)
            for kind in ("sqlite", "postgres")
            for cut in ("answer", "request", "refusal")
        ),
    ],
    ids="-".join,
)
def cut_before(tmp_path, request):
    """A place, and what is cut before it. What a directory knows of the rest: see below."""
    kind, cut = request.param
    request.param = kind
    return None if kind == "directory" else volume(tmp_path, request), cut


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_whose_answer_is_cut_off_is_made_once(tmp_path, cut_before, change):
    place, cut = cut_before
    async with through(tmp_path, place) as (fs, proxy):
        await fs.write_text("f", "one\n")
        proxy.heard.clear()
        proxy.cuts = [cut, cut]
        made = await CHANGES[change](fs)
        first, second, third = proxy.heard
        keys = {header(each, "idempotency-key") for each in (first, second, third)}
        assert len(keys) == 1
        assert [header(each, "idempotency-try") for each in proxy.heard] == ["1", "2", "3"]
        found = await seen(fs)
    (tmp_path / "alone").mkdir()
    async with bailiwick.open(tmp_path / "alone") as plain:
        await plain.write_text("f", "one\n")
        alone = await CHANGES[change](plain)
        assert found == await seen(plain)
    for field in ("path", "created", "changed", "destination", "size", "sha256", "replacements"):
        assert getattr(made, field, None) == getattr(alone, field, None), field


@pytest.mark.parametrize("cut", ["answer", "request"])
@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
async def test_a_transaction_whose_answer_is_cut_off_is_made_once(tmp_path, place, cut):
    async with through(tmp_path, place) as (fs, proxy):
        await fs.write_text("f", "one\n")
        proxy.cuts = [cut, cut]
        async with fs.transaction() as inside:
            first = await inside.append("f", "x")
            await inside.append("f", "y")
            await inside.write_text("g", "z")
        assert first.size == 5
        assert await seen(fs) == {"f": b"one\nxy", "g": b"z"}


@pytest.mark.parametrize("cut", ["request", "refusal"])
async def test_where_nobody_knows_it_is_said_and_not_done(tmp_path, cut):
    """What never came to a directory, and what came to a process that has ended since, look the
    same from there."""
    async with through(tmp_path) as (fs, proxy):
        await fs.write_text("f", "")
        proxy.cuts = [cut]
        with pytest.raises(errors.InternalError) as caught:
            await fs.append("f", "x")
        assert caught.value.details == {"interrupted": True}
        assert await seen(fs) == {"f": b""}


async def test_one_change_has_one_key_and_another_has_another(tmp_path):
    async with through(tmp_path) as (fs, proxy):
        await fs.write_text("f", "")
        await fs.append("f", "x")
        await fs.append("f", "x")
        assert (await seen(fs)) == {"f": b"xx"}
        keys = [header(each, "idempotency-key") for each in proxy.heard if each[:4] == b"POST"]
        assert len(set(keys)) == 3
        assert all(header(each, "idempotency-key") is None for each in proxy.heard
                   if each[:3] == b"GET")  # fmt: skip


async def test_a_read_is_asked_again(tmp_path):
    async with through(tmp_path) as (fs, proxy):
        await fs.write_text("f", "one")
        proxy.cuts = ["answer", "request", "refusal"]
        assert (await fs.read_text("f")).text == "one"


async def test_a_source_is_sent_once_and_it_is_said(tmp_path):
    async with through(tmp_path) as (fs, proxy):
        proxy.heard.clear()
        proxy.cuts = ["answer"]
        with pytest.raises(errors.IoError) as caught:
            await _write_all(fs)
        assert "may have been done" in caught.value.hint
        assert len(proxy.heard) == 1
        assert header(proxy.heard[0], "idempotency-key") is None
        assert await seen(fs) == {"new": b"x"}


def test_blocking_code_has_it_too(tmp_path):
    began, over = asyncio.Event(), asyncio.Event()
    told = {}

    async def serve():
        async with through(tmp_path) as (fs, proxy):
            told.update(url=proxy.url, token=fs.house.token, proxy=proxy)
            began.set()
            await over.wait()

    async def run():
        serving_it = asyncio.create_task(serve())
        await began.wait()
        try:
            await asyncio.to_thread(change)
        finally:
            over.set()
            await serving_it

    def change():
        with connect_sync(told["url"], token=told["token"]) as fs:
            told["proxy"].cuts = ["answer"]
            fs.append("f", "x") if fs.exists("f") else fs.write_text("f", "x")
            told["proxy"].cuts = ["answer", "answer"]
            fs.append("f", "y")
            assert fs.read_text("f").text == "xy"

    asyncio.run(run())


# --- bounds -------------------------------------------------------------------------------------


async def test_it_is_tried_so_often_and_then_it_is_said_what_is_not_known(monkeypatch):
    monkeypatch.setattr(retries, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(retries, "PAUSE_SECONDS_MAX", 0.01)
    async with lying(b"") as liar, connect(liar.url) as fs:
        with pytest.raises(errors.IoError) as caught:
            await fs.write_text("a", "x")
        assert caught.value.details == {"unanswered": True}
        assert "may have been done" in caught.value.hint
        assert len(liar.heard) == 1 + 1 + retries.RETRIES_MAX


async def test_it_is_tried_for_so_long():
    async with lying(b"") as liar, connect(liar.url, retry=0.3) as fs:
        began = time.monotonic()
        for call in (fs.write_text("a", "x"), fs.stat("a")):
            with pytest.raises(errors.IoError):
                await call
        assert time.monotonic() - began < 10
        assert len(liar.heard) < 2 + 2 * 6


async def test_who_wants_no_second_try_has_none():
    async with lying(b"") as liar, connect(liar.url, retry=0) as fs:
        with pytest.raises(errors.IoError):
            await fs.write_text("a", "x")
        assert len(liar.heard) == 2
    for retry in (-1, True, "1", None, float("nan")):
        with pytest.raises(errors.ParseError):
            connect("http://127.0.0.1:1", retry=retry)


CLOSING = answer(
    {"errorKind": "closed", "error": "the server is closing", "details": {"retryAfterS": 0.01}},
    "503 Not now", "Retry-After: 1",
)  # fmt: skip


async def test_a_server_that_closes_is_asked_again_as_for_the_first_time():
    """It has done nothing, so the next one need not look whether it was done."""
    said = [CLOSING, CLOSING, answer(WRITTEN, "201 Made")]
    async with lying(said) as liar, connect(liar.url) as fs:
        assert (await fs.write_text("a", "x")).created
        tries = [header(each.encode(), "idempotency-try") for each in liar.heard[1:]]
        assert tries == ["1"] * 3


async def test_what_may_have_been_done_is_not_told_as_what_was_not():
    """The last word is of a server that refuses; an earlier try may have done it."""
    async with lying([b"", CLOSING]) as liar, connect(liar.url, retry=0.3) as fs:
        with pytest.raises(errors.IoError) as caught:
            await fs.write_text("a", "x")
        assert caught.value.details == {"unanswered": True}
        liar.said = CLOSING
        with pytest.raises(errors.Closed):
            await fs.write_text("a", "x")


async def test_one_who_is_cancelled_does_not_wait_for_the_next_try():
    async with lying(b"") as liar, connect(liar.url, retry=60) as fs:
        writing = asyncio.create_task(fs.write_text("a", "x"))
        await until(lambda: len(liar.heard) > 6)
        began = time.monotonic()
        writing.cancel()
        with pytest.raises((asyncio.CancelledError, errors.IoError)):
            await writing
        assert time.monotonic() - began < 5


# --- whose key it is ----------------------------------------------------------------------------


async def test_a_key_is_good_for_its_caller_and_its_request_alone(tmp_path, place):
    """Whoever shows the key of another is given no answer of theirs; the control is that they
    themselves are."""
    first = {"idempotency-key": "k", "idempotency-try": "1"}
    again = {"idempotency-key": "k", "idempotency-try": "2"}
    body = {"path": "f", "content": "secret"}
    async with serving(tmp_path, place=place) as house:
        person = house.client()
        agent = await house.agent("read", "write", "metadata", subject=AGENT)
        other = await house.agent("metadata", subject="agent_run:c2/r2")
        made = await person.post("/file/write", json=body, headers=first)
        assert made.status_code == 201
        control = await person.post("/file/write", json=body, headers=again)
        assert control.headers["idempotency-replayed"] == "true"
        assert control.json()["hash"] == made.json()["hash"]
        told = await agent.post("/file/write", json=body, headers=again)
        assert "idempotency-replayed" not in told.headers
        refused = await other.post("/file/write", json=body, headers=again)
        assert refused.status_code in (403, 500)
        assert "secret" not in refused.text
        assert "idempotency-replayed" not in refused.headers
        another = await person.post("/file/write", json={**body, "content": "x"}, headers=again)
        assert "idempotency-replayed" not in another.headers


async def test_an_answer_is_not_given_again_to_who_may_not_ask_any_more(tmp_path, place):
    first = {"idempotency-key": "k", "idempotency-try": "1"}
    again = {"idempotency-key": "k", "idempotency-try": "2"}
    body = {"path": "f", "content": "x"}
    async with serving(tmp_path, place=place) as house:
        agent = await house.agent("read", "write", subject=AGENT)
        assert (await agent.post("/file/write", json=body, headers=first)).status_code == 201
        replayed = await agent.post("/file/write", json=body, headers=again)
        assert replayed.headers["idempotency-replayed"] == "true"
        for grant in house.authority.grants():
            if str(grant.grant.subject) == AGENT:
                await house.authority.revoke(grant.id, by=PERSON)
        refused = await agent.post("/file/write", json=body, headers=again)
        assert refused.status_code in (401, 403)


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
async def test_of_tries_that_are_under_way_together_one_makes_it(tmp_path, place):
    """The first is still at work when its sender asks again: all are told of the same change."""
    body = {"path": "f", "content": "x", "mode": "create"}
    async with serving(tmp_path, place=place) as house:
        told = await asyncio.gather(*(
            house.client().post(
                "/file/write", json=body,
                headers={"idempotency-key": "k", "idempotency-try": str(number)},
            )
            for number in range(2, 8)
        ))  # fmt: skip
        assert {each.status_code for each in told} == {201}, [each.text for each in told]
        assert len({each.json()["version"] for each in told}) == 1
        assert sum("idempotency-replayed" not in each.headers for each in told) == 1


@pytest.mark.parametrize("number", ["0", "-1", "x", "", "1000", "1.5", "\xb2"])
async def test_what_is_no_number_of_a_try_is_refused(tmp_path, number):
    async with serving(tmp_path) as house:
        body = {"path": "f", "content": "x"}
        headers = {"idempotency-key": "k", "idempotency-try": number.encode("latin-1")}
        refused = await house.client().post("/file/write", json=body, headers=headers)
        assert refused.json()["errorKind"] == "parse_error"


# --- servers that die ---------------------------------------------------------------------------


def test_a_server_that_is_killed_under_its_clients_is_not_noticed(tmp_path):
    """Every line is there once, in its order, though the server was killed among them."""
    command = f"sqlite:{tmp_path}/v.db", "--token", TOKEN
    with contextlib.ExitStack() as stack:
        server, told = stack.enter_context(process(tmp_path, *command))
        port, written = told["url"].rpartition(":")[2], []

        def kill():
            running = server
            for lines in (5, 40, 80):
                until_blocking(lambda lines=lines: len(written) >= lines)
                running.kill()
                running.wait()
                running, _ = stack.enter_context(process(tmp_path, *command, "--port", port))

        with (
            concurrent.futures.ThreadPoolExecutor(1) as beside,
            connect_sync(told["url"], token=TOKEN, retry=PATIENCE_S) as fs,
        ):
            killing = beside.submit(kill)
            fs.write_text("log", "")
            while not killing.done() or len(written) < 100:
                line = f"{len(written)}\n"
                fs.append("log", line)
                written.append(line)
            killing.result()
            assert fs.read_text("log").text == "".join(written)
