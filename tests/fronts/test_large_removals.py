"""A directory of a volume that holds more names than are counted: whoever removes it is told so."""

import pytest

from bailiwick.client import connect
from bailiwick.limits import Limits
from bailiwick.state.idempotency import IdempotencyBook
from bailiwick.stores.volume import VolumeStore
from tests.fronts.cli.command import within
from tests.fronts.cli.places import Typed
from tests.fronts.http.serving import serving

pytestmark = pytest.mark.spec("TREE-4", "TREE-7")

CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
volume = "sqlite:{folder}/agent.db"
trusted = true
limits = {{removed_counted_max = 2, feed_subtree_paths_max = 2}}

[[grant]]
subject = "user:person"
root = "workspace:demo"
access = ["read", "list", "metadata", "write", "delete"]
reason = "whoever works here"
"""
TREES = {"few": "ab", "many": "abc", "more": "abcd"}


async def planted(client):
    for tree, names in TREES.items():
        for name in names:
            body = {"path": f"{tree}/{name}", "content": "x", "parents": True}
            assert (await client.post("/file/write", json=body)).status_code == 201
    return client


@pytest.mark.spec("HTTP-4")
async def test_over_http_and_to_its_client(tmp_path):
    async with serving(tmp_path, config=CONFIG.format(folder=tmp_path)) as house:
        client = await planted(house.client())
        for tree, went in (("few", (3, False)), ("many", (2, True))):
            told = (await client.post("/remove", json={"path": tree, "recursive": True})).json()
            assert (told["count"], told["countTruncated"]) == went
        async with connect(house.url, token=house.token, root="workspace:demo") as fs:
            gone = await fs.remove("more", recursive=True)
            assert (gone.count, gone.count_truncated) == (2, True)
            assert (await fs.list(".")).entries == []


@pytest.mark.spec("SCALE-3")
async def test_an_answer_that_was_lost_says_what_is_not_known_any_more(tmp_path, monkeypatch):
    async def lost(*given):
        """The server dies before it has kept it."""

    removed, copied = {"path": "many", "recursive": True}, {"path": "more", "destination": "copy"}
    async with serving(tmp_path, config=CONFIG.format(folder=tmp_path)) as house:
        client = await planted(house.client())
        for route, body, first, again in (
            ("/remove", removed, (2, True), (2, True)),
            ("/copy", {**copied, "recursive": True}, (5, False), (3, True)),
        ):
            headers = {"idempotency-key": route}
            with monkeypatch.context() as patched:
                patched.setattr(IdempotencyBook, "keep", lost)
                told = (await client.post(route, json=body, headers=headers)).json()
            assert (told["count"], told["countTruncated"]) == first
            told = (await client.post(route, json=body, headers=headers)).json()
            assert (told["count"], told["countTruncated"]) == again


@pytest.mark.spec("CLI-1")
def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    typed = Typed(f"sqlite:{tmp_path}/agent.db")
    within("volume", "create", typed.place)
    typed.fill({f"{tree}/{name}": b"x" for tree, names in TREES.items() for name in names})
    opened = VolumeStore.open

    def with_limits(path, **given):
        return opened(path, **{**given, "limits": Limits(removed_counted_max=2)})

    monkeypatch.setattr(VolumeStore, "open", with_limits)
    assert typed.ok("rm", "-r", "few").startswith("removed few (3 objects), ")
    assert typed.ok("rm", "-r", "many").startswith("removed many (more than 2 objects), ")
    told = typed.json("rm", "-r", "more")
    assert (told["count"], told["countTruncated"]) == (2, True)
