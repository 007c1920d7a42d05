"""One name for one thing on the wire; the names that came before are still understood."""

import pytest

from bailiwick.fronts.http import openapi, reference
from bailiwick.stores.history import core as history_core
from bailiwick.stores.volume import store as volume_store
from bailiwick.versions import POWER_NAMES as NAMES
from tests.fronts.http.serving import PERSON, check_error, serving

WORDS = {"created", "updated", "moved", "deleted"}


def volume(tmp_path):
    return f"sqlite:{tmp_path}/v.db?volume=main"


async def done(client, route, **body):
    got = await client.post(route, json=body)
    assert got.status_code in (200, 201), got.text
    return got.json()


@pytest.mark.spec("HTTP-10", "VOL-6")
async def test_one_set_of_words_for_changes(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        client = house.client()
        for name in ("edited", "gone", "here"):
            await done(client, "/file/write", path=name, content="1")
        await done(client, "/fork", name="f")
        await done(client, "/file/write?fork=f", path="edited", content="2")
        await done(client, "/file/write?fork=f", path="new", content="2")
        await done(client, "/move?fork=f", path="here", destination="there")
        await done(client, "/remove?fork=f", path="gone")
        compared = (await client.get("/compare?name=f")).json()["differences"]
        assert {each["path"]: each["kind"] for each in compared} == {
            "edited": "updated", "gone": "deleted", "new": "created", "there": "moved",
        }  # fmt: skip
        told = set()
        for name in compared:
            found = await client.get("/history", params={"fork": "f", "path": name["path"]})
            told |= {each["kind"] for each in found.json()["versions"]}
        assert told == WORDS


@pytest.mark.spec("HTTP-10", "HTTP-5")
@pytest.mark.parametrize("name", ["limit", "maxResults"])
async def test_how_many_is_called_limit_and_has_an_older_name(tmp_path, name):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("x\n" * 5)
        client = house.client()
        found = await client.get("/grep", params={"pattern": "x", name: "2"})
        assert len(found.json()["matches"]) == 2
        both = await client.get("/grep?pattern=x&limit=2&maxResults=2")
        check_error(both.status_code, both.json(), "parse_error")
    document = openapi.document()["paths"]["/grep"]["get"]
    assert "maxResults" not in [each["name"] for each in document["parameters"]]


BRINGING = [
    ("/move", {"path": "a"}),
    ("/copy", {"path": "a"}),
    ("/archive/create", {"paths": ["a"]}),
    ("/archive/extract", {"path": "packed.tar"}),
]


@pytest.mark.spec("HTTP-10", "HTTP-5")
@pytest.mark.parametrize(("route", "body"), BRINGING)
async def test_where_something_goes_is_called_destination_and_has_an_older_name(
    tmp_path, route, body
):
    async with serving(tmp_path) as house:
        client = house.client()
        for name in ("destination", "to"):
            (house.place / "a").write_text("a")
            await done(client, "/archive/create", paths=["a"], to="packed.tar", mode="overwrite")
            await done(client, route, **body, **{name: f"{name}.tar"})
            assert (house.place / f"{name}.tar").exists()
        for wrong in ({}, {"destination": "b", "to": "b"}, {"destination": None}, {"to": ""}):
            got = await client.post(route, json={**body, **wrong})
            check_error(got.status_code, got.json(), "parse_error")
        batch = [{"op": "move", "path": "packed.tar", "to": "c"}]
        await done(client, "/batch", operations=batch, atomic=False)
        assert (house.place / "c").exists()


@pytest.mark.spec("HTTP-10")
async def test_an_entry_has_a_type_and_its_older_name(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "d").mkdir()
        (house.place / "d" / "f").write_text("")
        client = house.client()
        for address in ("/list?path=.", "/find?path=.", "/glob?pattern=**&entries=true"):
            entries = (await client.get(address)).json()["entries"]
            told = {each["path"]: (each["type"], each["kind"]) for each in entries}
            assert told["d"] == ("directory", "directory")
    assert "`kind`" not in reference.page().partition("### GET /list")[2].partition("###")[0]


@pytest.mark.spec("HTTP-10", "EDIT-4")
async def test_an_edit_says_how_the_file_is_written(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / ".gitignore").write_text("*.log\n")
        (house.place / "a.log").write_bytes(b"\xff\xfe" + "one\r\ntwo\r\n".encode("utf-16-le"))
        body = {"path": "a.log", "oldText": "one", "newText": "three"}
        for dry in (True, False):
            got = await done(house.client(), "/file/edit", **body, dryRun=dry)
            assert (got["encoding"], got["bom"]) == ("utf-16-le", True)
            assert (got["lineEnding"], got["matchedIgnore"]) == ("crlf", "file")


@pytest.mark.spec("HTTP-10", "HTTP-5")
async def test_permission_bits_are_octal_text_and_a_number_is_taken_too(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        for given in ("0640", 0o640):
            made = await done(client, "/file/write", path="a", content="", fileMode=given)
            assert made["fileMode"] == "0640"
            await done(client, "/mode", path="a", fileMode="0600")
            put = await client.put("/file/raw", params={"path": "a", "fileMode": given})
            assert put.json()["fileMode"] == "0640"
        stat = (await client.get("/stat?path=a")).json()
        assert (stat["fileMode"], stat["mode"]) == ("0640", 0o640)
        for wrong in ("640", "0o640", "0888", "-1", "", "07777777", 0o10000, -1, True):
            got = await client.post("/mode", json={"path": "a", "fileMode": wrong})
            check_error(got.status_code, got.json(), "parse_error")
        for wrong in ("0888", "007", "0o640", "-1", "4096", "٣"):
            got = await client.put("/file/raw", params={"path": "a", "fileMode": wrong})
            check_error(got.status_code, got.json(), "parse_error")


@pytest.mark.spec("HTTP-10", "AUTH-4")
async def test_powers_have_names_of_their_own(tmp_path):
    async with serving(tmp_path, place=volume(tmp_path)) as house:
        told = (await house.client().get("/capabilities")).json()["powers"]
        assert {"history", "forks", "locks"} <= set(told)
        assert not [name for name in told if name != name.lower()]
        scope = await house.authority.request_root(PERSON, "workspace:demo", {"read"}, "looking")
        assert sorted(scope.powers) == told
        assert "Branches" in scope.powers, "the names of the protocols are known too"
        assert "Watches" not in scope.powers


def test_every_power_of_a_store_has_a_name():
    found = {*volume_store._POWERS, *history_core._POWERS, "Narrows", "Stages"}
    assert found <= NAMES.keys()
    assert len(set(NAMES.values())) == len(NAMES)
