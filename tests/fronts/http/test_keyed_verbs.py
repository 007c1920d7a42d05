"""A key changes nothing of what a verb does: whatever is asked under one is done, and answered."""

import io
import tarfile

import pytest

from tests.fronts.http.serving import serving


def archive():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("one.txt", "d/two.txt"):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            tar.addfile(entry, io.BytesIO(b"new"))
    return packed.getvalue()


ASKED = {
    "write": ("/file/write", {"path": "f", "content": "x"}),
    "write with parents": ("/file/write", {"path": "n/e/w", "content": "x", "parents": True}),
    "append with parents": ("/file/append", {"path": "n/e/w", "content": "x", "parents": True}),
    "append": ("/file/append", {"path": "f", "content": "x"}),
    "truncate": ("/file/truncate", {"path": "f", "size": 1}),
    "edit": ("/file/edit", {"path": "f", "oldText": "one", "newText": "two"}),
    "directories": ("/dir", {"path": "n/e/w", "parents": True}),
    "move": ("/move", {"path": "f", "destination": "g"}),
    "move over": ("/move", {"path": "f", "destination": "other", "replace": True}),
    "move a directory": ("/move", {"path": "d", "destination": "e"}),
    "copy": ("/copy", {"path": "f", "destination": "g"}),
    "copy over": ("/copy", {"path": "f", "destination": "other", "expectedDestinationVersion": ""}),
    "copy a directory": ("/copy", {"path": "d", "destination": "e", "recursive": True}),
    "link": ("/symlink", {"path": "l", "target": "f"}),
    "mode": ("/mode", {"path": "f", "fileMode": "0640"}),
    "times": ("/times", {"path": "f", "modifiedNs": 10**18}),
    "remove": ("/remove", {"path": "f"}),
    "remove a directory": ("/remove", {"path": "d", "recursive": True}),
    "unpack": ("/archive/extract", {"path": "a.tar", "destination": "out"}),
    "unpack into": ("/archive/extract", {"path": "a.tar", "destination": "d", "overwrite": True}),
    "pack": ("/archive/create", {"paths": ["d"], "destination": "packed.tar"}),
    "restore": ("/restore", {"path": "f", "version": ""}),
    "restore a directory": ("/restore", {"path": "d", "version": ""}),
    "undo": ("/undo", {"requestId": ""}),
    "merge": ("/merge", {"name": "try_it"}),
    "snapshot": ("/snapshot", {"name": "kept"}),
    "fork": ("/fork", {"name": "tried"}),
    "lock": ("/lock", {"path": "f", "ttl": 60}),
    "copy from another root": (
        "/copy",
        {
            "path": "d", "destination": "n/e", "recursive": True, "parents": True,
            "fromRoot": "workspace:demo",
        },
    ),
    "one by one": (
        "/batch",
        {"atomic": False, "operations": [
            {"op": "append", "path": "f", "content": "x"}, {"op": "remove", "path": "missing"},
            {"op": "copy", "path": "f", "destination": "g"}, {"op": "remove", "path": "d/a"},
        ]},
    ),
    "batch": (
        "/batch",
        {"atomic": True, "operations": [
            {"op": "write", "path": "p/q/r", "content": "x", "parents": True},
            {"op": "copy", "path": "f", "destination": "g"}, {"op": "remove", "path": "d/a"},
        ]},
    ),
}  # fmt: skip


async def prepared(person, name, body):
    """A small tree with a past, and the body with what is known only now."""

    async def did(route, **given):
        answer = await person.post(route, json=given)
        assert answer.is_success, answer.text
        return answer.json()

    await did("/dir", path="d")
    for path in ("f", "other", "d/a", "d/b"):
        written = await did("/file/write", path=path, content="one")
    assert (await person.put("/file/raw?path=a.tar", content=archive())).is_success
    if name == "copy over":
        seen = (await person.get("/stat?path=other")).json()
        return {**body, "expectedDestinationVersion": seen["version"]}
    if "version" in body:
        await did("/file/write", path="f", content="later")
        await did("/file/write", path="d/a", content="later")
        return {**body, "version": written["version"]}
    if "requestId" in body:
        removed = await did("/remove", path="d", recursive=True)
        return {**body, "requestId": removed["requestId"]}
    if name == "merge":
        await did("/fork", name="try_it")
        for path in ("f", "forked"):
            answer = await person.post(
                "/file/write?fork=try_it", json={"path": path, "content": "there"}
            )
            assert answer.is_success, answer.text
    return body


@pytest.mark.spec("HTTP-11", "SCALE-3")
@pytest.mark.parametrize("name", ASKED)
async def test_what_is_asked_for_under_a_key_is_done_and_answered(tmp_path, name):
    """And so it is where it is asked again; of an archive it is told then that it was done."""
    route, body = ASKED[name]
    place = f"sqlite:{tmp_path}/v.db?volume=demo"
    async with serving(tmp_path, place=place) as house:
        person = house.client()
        body = await prepared(person, name, body)
        told = []
        for number in ("1", "2"):
            headers = {"Idempotency-Key": "once", "Idempotency-Try": number}
            told.append(await person.post(route, json=body, headers=headers))
        first, again = told
        assert first.is_success, first.text
        assert again.is_success or again.json()["details"] == {"done": True}, again.text
        assert again.is_success is not route.startswith("/archive"), again.text
