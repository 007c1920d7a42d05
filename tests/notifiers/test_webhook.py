"""A webhook: signed, tried again, without content, and nobody waits for it."""

import asyncio
import hashlib
import hmac
import json
import logging
import os
import ssl
import time

import pytest

from bailiwick.approvals import Approval
from bailiwick.build.governed import Authority
from bailiwick.errors import ApprovalTimeout, IoError, ParseError, PermissionDenied
from bailiwick.grant import AgentRun
from bailiwick.notifiers import webhook
from bailiwick.notifiers.outbox import Outbox
from bailiwick.notifiers.webhook import TRIES_MAX, Webhook, read_address, read_secret
from tests.notifiers.listening import (
    babbles,
    breaks,
    drips_headers,
    listening,
    says,
    stalls,
)
from tests.state.rooms import question
from tests.waiting import for_ever, give_a_chance, until

SECRET = b"0123456789abcdef" * 2


def approval(number=0, **fields):
    now = time.time_ns()
    return Approval(
        id=f"q{number}", question=question(**fields), state="pending", asked_ns=now,
        expires_ns=now + 300 * 10**9,
    )  # fmt: skip


def to(url, **how):
    how = {"back_off_s": 0.001, "exchange_s": 30.0} | how
    return Webhook(read_address(url), SECRET, time_ns=time.time_ns, **how)


@pytest.mark.spec("NOTE-1")
async def test_a_question_is_posted_signed_and_without_content():
    async with listening(says("204 No Content")) as hook:
        await to(hook.url)(approval())
        ((line, headers, body),) = hook.requests
    assert line == "POST /hook?key=1 HTTP/1.1"
    assert headers["Host"] == f"127.0.0.1:{hook.port}"
    expected = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    assert headers["X-Bailiwick-Signature"] == f"sha256={expected}"
    document = json.loads(body)
    assert document.keys() == {
        "kind", "id", "root", "subject", "operation", "path", "expiresAt",
    }  # fmt: skip
    assert (document["kind"], document["id"], document["path"]) == ("approval", "q0", ".git/config")
    assert (document["subject"], document["operation"]) == ("agent_run:c1/r1", "write")
    assert document["expiresAt"].endswith("Z")
    assert b"secret" not in body  # which stands in the difference


@pytest.mark.spec("NOTE-1")
@pytest.mark.parametrize(
    "answer", [says("500 Oops"), says("429 Later"), breaks, babbles, drips_headers]
)
async def test_what_was_not_taken_is_sent_again_until_it_is(answer):
    async with listening(answer, answer, says("200 OK")) as hook:
        await to(hook.url)(approval())
        assert len(hook.requests) == 3
        assert len({body for _, _, body in hook.requests}) == 1


@pytest.mark.spec("NOTE-1")
async def test_whoever_stalls_is_given_up_in_time_and_tried_again():
    async with listening(stalls, says("200 OK")) as hook:
        await to(hook.url, exchange_s=0.2)(approval())
        assert len(hook.requests) == 2


@pytest.mark.spec("NOTE-1")
async def test_the_tries_are_bounded_and_it_is_logged(caplog):
    async with listening(says("503 Away")) as hook:
        with caplog.at_level(logging.WARNING, "bailiwick.notifiers"):
            await to(hook.url)(approval())
        assert len(hook.requests) == TRIES_MAX
    assert [each.message for each in caplog.records] == ["a webhook was not told of a question"]


@pytest.mark.spec("NOTE-1")
async def test_a_refusal_is_final():
    async with listening(says("404 Not Here")) as hook:
        await to(hook.url)(approval())
        assert len(hook.requests) == 1


@pytest.mark.spec("NOTE-1")
@pytest.mark.parametrize("answer", [says("503 Away"), says("404 Not Here"), breaks, stalls])
async def test_no_log_tells_more_of_an_address_than_where_it_is(caplog, answer):
    """Of many services the path is what one needs to know to post there."""
    async with listening(answer) as hook:
        url = f"http://127.0.0.1:{hook.port}/services/T0/planted-key?token=planted-token"
        with caplog.at_level(logging.DEBUG):
            await to(url, exchange_s=0.05)(approval())
    told = [f"{each.getMessage()} {vars(each)}" for each in caplog.records]
    assert any(f"http://127.0.0.1:{hook.port}" in each for each in told)
    assert not any("planted" in each or "services" in each for each in told)


@pytest.mark.spec("NOTE-1")
async def test_of_an_answer_without_end_only_the_status_is_read():
    sent = []

    def endless(head, piece):
        async def answer(writer):
            writer.write(head)
            while True:
                writer.write(piece)
                sent.append(len(piece))
                await writer.drain()

        return answer

    body = endless(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", b"x" * 65_536)
    async with listening(body) as hook:
        await to(hook.url)(approval())
        assert len(hook.requests) == 1
    line = endless(b"HTTP/1.1 200 ", b"x" * 65_536)
    async with listening(line, says("200 OK")) as hook:
        await to(hook.url)(approval())
        assert len(hook.requests) == 2
    assert sum(sent) < 64 * 1024 * 1024, "nobody goes on reading"


@pytest.mark.spec("NOTE-1")
async def test_a_redirect_is_not_followed():
    """Whoever answers would choose where this machine sends something: an address inside."""
    async with listening(says("200 OK")) as inside:
        for status in ("301 Moved", "302 Found", "307 Temporary", "308 Permanent"):
            there = f"Location: http://127.0.0.1:{inside.port}/"
            async with listening(says(status, there)) as hook:
                await to(hook.url)(approval())
                assert len(hook.requests) == 1
        await give_a_chance()
        assert inside.requests == []


@pytest.mark.spec("NOTE-1")
async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path, monkeypatch):
    from tests.notifiers.certificates import self_signed

    context, certificate = self_signed(tmp_path)
    async with listening(says("200 OK"), ssl=context) as hook:
        url = f"https://localhost:{hook.port}/"
        await to(url)(approval())
        assert hook.requests == []
        await to(url, trusted=ssl.create_default_context(cafile=certificate))(approval())
        assert len(hook.requests) == 1
        other = f"https://127.0.0.1:{hook.port}/"  # a name that it does not vouch for
        await to(other, trusted=ssl.create_default_context(cafile=certificate))(approval())
        assert len(hook.requests) == 1


@pytest.mark.spec("NOTE-1")
@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "http://", "https://user:pass@example.org/",
        "http://example.org/\r\nX: y", "http://example.org/a b", "http://example.org:99999/",
        "http://example.org/#part", "gopher://example.org", "http://exämple.org/", "//example.org",
    ],
)  # fmt: skip
def test_only_plain_addresses_are_taken(url):
    with pytest.raises(ParseError):
        read_address(url)


@pytest.mark.spec("NOTE-1")
def test_a_secret_is_a_private_file_of_some_length(tmp_path):
    file = tmp_path / "secret"
    with pytest.raises(IoError):
        read_secret(str(file))
    file.write_bytes(SECRET + b"\n")
    for mode in (0o644, 0o640, 0o602, 0o601):
        file.chmod(mode)
        with pytest.raises(PermissionDenied):
            read_secret(str(file))
    file.chmod(0o600)
    assert read_secret(str(file)) == SECRET
    file.write_bytes(b"short")
    with pytest.raises(ParseError):
        read_secret(str(file))
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ParseError):
        read_secret(str(tmp_path / "pipe"))


@pytest.mark.spec("NOTE-1")
async def test_the_queue_is_bounded_and_says_when_it_drops(caplog):
    began = asyncio.Event()

    async def never(approval):
        began.set()
        await for_ever()

    outbox = Outbox(never, name="webhook", most=3)
    outbox.put(approval(0))
    await began.wait()
    with caplog.at_level(logging.WARNING, "bailiwick.notifiers"):
        for number in range(1, 8):
            outbox.put(approval(number))
        await until(lambda: outbox.dropped == 4)
    assert [each.message for each in caplog.records] == [
        "webhook: a question is not told, 3 wait already"
    ]
    await outbox.aclose()


CONFIG = """
[notify]
url = "{url}"
secret_file = "secret"

[[root]]
id = "demo"
kind = "workspace"
path = "tree"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write"]

[[rule]]
subject = "agent_run:*"
operation = ["write"]
path = ["**"]
effect = "ask"
"""


@pytest.mark.spec("NOTE-1")
async def test_a_webhook_that_stalls_holds_up_no_question_and_no_end(tmp_path, monkeypatch):
    (tmp_path / "tree").mkdir()
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "secret").chmod(0o600)
    monkeypatch.setattr("bailiwick.notifiers.outbox.LETTING_GO_S", 0.01)
    async with listening(stalls) as hook:
        (tmp_path / "bailiwick.toml").write_text(CONFIG.format(url=hook.url))
        opening = Authority.from_config(
            tmp_path / "bailiwick.toml", str(tmp_path / "state"), surface="cli"
        )
        async with opening as authority:
            scope = await authority.request_root(
                AgentRun("c1", "r1"), "workspace:demo", ["write"], "to see", wait_s=0.01
            )
            for number in range(3):
                with pytest.raises(ApprovalTimeout):
                    await scope.write_text(f"{number}.txt", "the content")
            ((_, _, body),) = await hook.count(1)
            asked = {each.id for each in authority.approvals.pending()}
            assert len(asked) == 3
    assert json.loads(body)["id"] in asked
    assert b"the content" not in body


@pytest.mark.spec("NOTE-1")
@pytest.mark.parametrize(
    ("notify", "kind"),
    [
        ('url = "http://127.0.0.1:1/"', ParseError),
        ('secret_file = "secret"', ParseError),
        ('url = "ftp://127.0.0.1/"\nsecret_file = "secret"', ParseError),
        ('url = "http://127.0.0.1:1/"\nsecret_file = "open"', PermissionDenied),
        ('url = "http://127.0.0.1:1/"\nsecret_file = "missing"', IoError),
        ("content = true", ParseError),
    ],
)
async def test_what_cannot_be_is_refused_when_it_is_opened(tmp_path, notify, kind):
    for name, mode in (("secret", 0o600), ("open", 0o644)):
        (tmp_path / name).write_bytes(SECRET)
        (tmp_path / name).chmod(mode)
    (tmp_path / "bailiwick.toml").write_text(f"[notify]\n{notify}\n")
    with pytest.raises(kind):
        async with Authority.from_config(tmp_path / "bailiwick.toml", str(tmp_path / "state")):
            pass


def test_the_bounds_are_those_that_are_documented():
    assert (TRIES_MAX, webhook.BACK_OFF_FIRST_S, webhook.BACK_OFF_MAX_S) == (6, 1.0, 16.0)
