"""A secret that somebody writes into the address of a volume is refused, and shown nowhere."""

import contextlib
import logging
import os
from urllib.parse import quote

import pytest

import bailiwick
from bailiwick.errors import BailiwickError, ParseError
from bailiwick.fronts.cli import main

pytestmark = pytest.mark.spec("VOL-2", "VOL-3")

SECRET = "hush4711"
ADDRESSES = {
    "before the place": f"s3://key:{SECRET}@bucket/prefix",
    "as a user": f"az://{SECRET}@container/prefix",
    "as a setting": f"s3://bucket/prefix?secret_access_key={SECRET}",
    "as a token": f"gs://bucket/prefix?bearer_token={SECRET}",
    "in the endpoint": f"s3://bucket/p?allow_http=true&endpoint=http://key:{SECRET}@127.0.0.1:9/",
    "behind the endpoint": f"az://c/p?account=a&endpoint=https://127.0.0.1/?sig={SECRET}",
    "in a fragment": f"gs://bucket/prefix#{SECRET}",
    "as the kind of credentials": f"s3://bucket/prefix?credentials={SECRET}",
}


@pytest.fixture
def credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", SECRET)


def address(path, how):
    return f"sqlite:{path}?blobs={quote(ADDRESSES[how], safe=':/')}"


def said(error):
    """All that an error says, and those that led to it."""
    found = []
    while error is not None:
        details = getattr(error, "details", None), getattr(error, "hint", None)
        found.append(f"{error} {error!r} {error.args} {details}")
        error = error.__cause__ or error.__context__
    return "\n".join(found)


@pytest.mark.parametrize("how", ADDRESSES)
async def test_a_secret_in_an_address_is_refused_and_not_shown(tmp_path, credentials, how, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ParseError) as caught:
        async with bailiwick.open(address(tmp_path / "v.db", how)):
            pass
    assert SECRET not in said(caught.value)
    assert SECRET not in caplog.text
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes()


@pytest.mark.parametrize("how", ADDRESSES)
def test_the_command_line_does_not_show_it(tmp_path, credentials, how, capfd):
    for arguments in (["volume", "info"], ["volume", "check"], ["ls", "-p"]):
        with contextlib.suppress(SystemExit):
            assert main([*arguments, address(tmp_path / "v.db", how)]) != 0
        out, errors = capfd.readouterr()
        assert SECRET not in out + errors


async def test_two_roots_with_different_addresses_are_named_without_it(tmp_path, credentials):
    file = tmp_path / "bailiwick.toml"
    places = [ADDRESSES["before the place"], ADDRESSES["as a setting"]]
    file.write_text(
        "".join(
            f'[[root]]\nid = "r{number}"\nkind = "workspace"\n'
            f'volume = "sqlite:v.db?branch=b{number}&blobs={quote(place, safe=":/")}"\n'
            for number, place in enumerate(places)
        )
    )
    with pytest.raises(BailiwickError) as caught:
        async with bailiwick.Authority.from_config(file, state_dir=str(tmp_path / "state")):
            pass
    assert "different settings" in str(caught.value)
    assert SECRET not in said(caught.value)


@pytest.mark.slow
async def test_what_is_told_of_a_place_is_where_it_is(tmp_path, s3):
    """The control: of an address without a secret the place is told."""
    blobs = s3.url("there-is-none", "prefix")
    async with bailiwick.open(f"sqlite:{tmp_path / 'v.db'}?blobs={quote(blobs, safe=':/')}") as fs:
        with pytest.raises(BailiwickError) as caught:
            await fs.write_bytes("f", bytes(2_000_000))
    assert f"s3://there-is-none/prefix at {s3.endpoint}" in said(caught.value)
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in said(caught.value)
