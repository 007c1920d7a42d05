"""Tokens in the state: hashes only, shared by processes, on record; links that count once."""

import asyncio

import pytest

from bailiwick.errors import ParseError
from bailiwick.grant import User
from bailiwick.state.grants import tokens
from bailiwick.state.grants.tokens import TokenBook, listed_tokens
from bailiwick.state.ledger.chain import LEDGER
from tests.state.states import open_state

pytestmark = pytest.mark.both_engines(lean=True)

ANN = User("ann")


class Kept:
    """A book, its clock and what it put on record."""

    def __init__(self, directory=None):
        self.now = 1_000_000_000
        self.records = []
        self.database = open_state(directory, (LEDGER, tokens.PART))
        self.book = TokenBook(
            self.database,
            lambda connection, record: self.records.append(record),
            time_ns=lambda: self.now,
        )


@pytest.mark.spec("HTTP-2", "AUDIT-1")
async def test_a_token_is_found_by_its_secret_and_kept_as_a_hash(tmp_path):
    kept = Kept(str(tmp_path / "state"))
    secret = await kept.book.issue("ci", "agent_run:ci/main", by=ANN, front="cli")
    found = kept.book.find(secret.encode())
    assert (found.name, found.subject, found.kind) == ("ci", "agent_run:ci/main", "token")
    assert kept.book.find(secret.encode()[:-1]) is None
    assert kept.book.find(b"") is None
    again = await kept.book.issue("ci", "agent_run:ci/main", by=ANN, front="cli")
    assert kept.book.find(secret.encode()) is None
    assert kept.book.find(again.encode()) is not None
    assert await kept.book.revoke("ci", by=ANN, front="cli")
    assert not await kept.book.revoke("ci", by=ANN, front="cli")
    assert kept.book.find(again.encode()) is None
    said = [(record.act, record.details["became"], record.subject) for record in kept.records]
    assert said == [("token", became, "user:ann") for became in ("issued", "issued", "revoked")]
    await kept.database.aclose()
    for file in (tmp_path / "state").rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes()
            assert again.encode() not in file.read_bytes()


@pytest.mark.spec("HTTP-2", "AUDIT-1", "SCALE-6")
async def test_a_secret_that_a_name_has_already_is_the_same_token(tmp_path):
    """As servers that serve together are each given it: one that starts ends what nobody does."""
    one, two = (Kept(str(tmp_path / "state")) for _ in range(2))
    chosen = "chosen-by-somebody"
    given = {"by": ANN, "front": "http", "secret": chosen}
    assert await one.book.issue("http", "user:local", **given) == chosen
    first = one.book.find(chosen.encode())
    two.now += 1
    assert await two.book.issue("http", "user:local", **given) == chosen
    for kept in (one, two):
        assert kept.book.find(chosen.encode()) == first
    assert len(one.records) == 1
    assert two.records == []
    # Whatever is different is another one.
    for kept, more in ((two, {"origin": "a file"}), (one, {"expires_in": 60.0}), (two, {})):
        await kept.book.issue("http", "user:local", **given, **more)
        other = kept.book.find(chosen.encode())
        assert other != first, more
        first = other
    await two.book.issue("http", "user:other", **given)
    assert one.book.find(chosen.encode()).subject == "user:other"
    await two.book.issue("http", "user:other", by=ANN, front="http", secret="another-by-somebody")
    assert one.book.find(chosen.encode()) is None
    assert (len(one.records), len(two.records)) == (2, 4)
    await one.database.aclose()
    await two.database.aclose()


@pytest.mark.spec("HTTP-2")
async def test_another_process_knows_at_once(tmp_path):
    one, two = (Kept(str(tmp_path / "state")) for _ in range(2))
    secret = await one.book.issue("t", "user:a", by=ANN, front="cli")
    assert two.book.find(secret.encode()) is not None
    seen = two.book.state
    await one.book.revoke("t", by=ANN, front="cli")
    assert two.book.find(secret.encode()) is None
    assert two.book.state is not seen
    await one.database.aclose()
    await two.database.aclose()


@pytest.mark.spec("HTTP-2")
async def test_a_token_lasts_as_long_as_it_was_given(tmp_path):
    kept = Kept()
    secret = await kept.book.issue("t", "user:a", by=ANN, front="cli", expires_in=10)
    assert [token.name for token in kept.book.tokens()] == ["t"]
    kept.now += 10 * 10**9
    assert kept.book.find(secret.encode()) is None
    assert kept.book.tokens() == []
    await kept.database.aclose()


@pytest.mark.spec("HTTP-2")
@pytest.mark.parametrize("secret", ["short", "with a space in it", "x" * 600, "ünïcödé-ünïcödé-x"])
async def test_a_secret_that_someone_chose_is_hard_to_guess(secret):
    kept = Kept()
    with pytest.raises(ParseError, match="16 to 512"):
        await kept.book.issue("t", "user:a", by=ANN, front="cli", secret=secret)
    await kept.database.aclose()


@pytest.mark.spec("HTTP-2")
async def test_names_and_subjects_are_checked():
    kept = Kept()
    for name, subject in (("", "user:a"), ("a b", "user:a"), ("t", "nobody"), ("t", "user:*")):
        with pytest.raises(ParseError):
            await kept.book.issue(name, subject, by=ANN, front="cli")
    with pytest.raises(ParseError):
        listed_tokens([("a b", "user:a")])
    await kept.database.aclose()


@pytest.mark.spec("HTTP-2")
async def test_a_configuration_ends_what_it_lists_no_more():
    kept = Kept()
    listed = {"kept": "user:a", "changed": "user:b", "gone": "user:c"}
    secrets = {
        name: await kept.book.issue(name, subject, by=ANN, front="cli", origin="here")
        for name, subject in listed.items()
    }
    other = await kept.book.issue("own", "user:d", by=ANN, front="cli")
    await kept.book.sync_configured({"kept": "user:a", "changed": "user:x"}, origin="here")
    found = {name for name, secret in secrets.items() if kept.book.find(secret.encode())}
    assert found == {"kept"}
    assert kept.book.find(other.encode()) is not None
    await kept.database.aclose()


@pytest.mark.spec("HTTP-8")
async def test_a_link_counts_once_however_many_try():
    kept = Kept()
    link = await kept.book.new_link(ANN)
    assert kept.book.find(link.encode()) is None
    got = await asyncio.gather(*(kept.book.redeem_link(link, front="http") for _ in range(8)))
    sessions = [each for each in got if each is not None]
    assert len(sessions) == 1
    assert kept.book.find(sessions[0].encode()).kind == "session"
    assert kept.book.tokens() == []
    await kept.book.end_session(sessions[0].encode(), front="http")
    assert kept.book.find(sessions[0].encode()) is None
    late = await kept.book.new_link(ANN)
    kept.now += 601 * 10**9
    assert await kept.book.redeem_link(late, front="http") is None
    assert await kept.book.redeem_link("nosuch", front="http") is None
    await kept.database.aclose()
