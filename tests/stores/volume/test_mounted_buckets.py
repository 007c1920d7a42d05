"""A bucket in a tree of mounts: its objects are files, fetched when they are read."""

import obstore
import pytest

import bailiwick
from bailiwick.errors import IoError, ParseError, PathNotFound, ReadOnly
from bailiwick.stores.bucket import store as bucket_store
from bailiwick.stores.volume.content.bucket import Bucket, open_bucket

pytestmark = pytest.mark.spec("OVER-2")

OBJECTS = {
    "a.txt": b"one\ntwo\n",
    "d/b.txt": b"b" * 5000,
    "d/e/c.txt": b"needle\n",
    "both": b"a file",
    "both/inner": b"and a directory",
}


@pytest.fixture
def url(s3, tmp_path):
    s3.make_bucket("mounted")
    url = s3.url("mounted", f"shelf/{tmp_path.name}")
    bucket = open_bucket(url)
    for key, data in OBJECTS.items():
        obstore.put(bucket._place.store, key, data)
    bucket.close()
    return url


def put(url, key, data):
    bucket = open_bucket(url)
    obstore.put(bucket._place.store, key, data)
    bucket.close()


async def test_it_is_read_as_files(url):
    mounts = {"data": url, "own": "memory:"}
    async with bailiwick.open("mounts:", mounts=mounts) as fs:
        assert (await fs.read_text("data/a.txt")).text == "one\ntwo\n"
        assert (await fs.read_bytes("data/d/b.txt", 4999, 10)).data == b"b"
        assert [(each.name, each.type) for each in (await fs.list("data")).entries] == [
            ("a.txt", "file"), ("both", "directory"), ("d", "directory"),
        ]  # fmt: skip
        assert (await fs.files("data")).paths == [
            "data/a.txt", "data/both/inner", "data/d/b.txt", "data/d/e/c.txt",
        ]  # fmt: skip
        assert [str(each.path) for each in (await fs.grep("needle")).matches] == [
            "data/d/e/c.txt"
        ]  # fmt: skip
        stat = await fs.stat("data/d/b.txt")
        assert (stat.size, stat.read_only, stat.mode & 0o222) == (5000, True, 0)
        assert (await fs.copy("data/d", "own/d", recursive=True)).count == 4
        assert (await fs.read_bytes("own/d/b.txt")).data == b"b" * 5000
        for missing in ("data/none", "data/a.txt/none", "data/d/none/x"):
            with pytest.raises((PathNotFound, bailiwick.NotADirectory)):
                await fs.read_text(missing)
        for attempt in (
            fs.write_text("data/a.txt", "x"), fs.write_text("data/new", "x"),
            fs.remove("data/a.txt"), fs.make_dir("data/new"),
        ):  # fmt: skip
            with pytest.raises(ReadOnly):
                await attempt
    assert (await _read(url, "data/a.txt")) == "one\ntwo\n"


async def _read(url, path):
    async with bailiwick.open("mounts:", mounts={"data": url}) as fs:
        return (await fs.read_text(path)).text


async def test_nothing_is_fetched_before_somebody_reads(url, monkeypatch):
    asked = []
    for name in ("look", "has_beneath", "listed", "read"):
        whole = getattr(Bucket, name)

        def noting(self, *args, _name=name, _whole=whole):
            asked.append((_name, args[0]))
            return _whole(self, *args)

        monkeypatch.setattr(Bucket, name, noting)
    async with bailiwick.open("mounts:", mounts={"data": url, "own": "memory:"}) as fs:
        await fs.list(".")
        await fs.write_text("own/a", "x")
        assert asked == []
        await fs.list("data")
        assert "read" not in {name for name, _ in asked}
        await fs.read_text("data/a.txt")
        assert {key for name, key in asked if name == "read"} == {"a.txt"}


async def test_what_others_put_there_shows(url, monkeypatch):
    monkeypatch.setattr(bucket_store, "_FRESH_NS", 0)
    async with bailiwick.open("mounts:", mounts={"data": url}) as fs:
        before = await fs.stat("data/a.txt")
        put(url, "a.txt", b"changed\n")
        put(url, "new/f", b"new\n")
        assert (await fs.read_text("data/a.txt")).text == "changed\n"
        assert (await fs.stat("data/a.txt")).version != before.version
        assert (await fs.read_text("data/new/f")).text == "new\n"


async def test_what_cannot_be_reached_is_said(s3, monkeypatch):
    async with bailiwick.open("mounts:", mounts={"data": s3.url("no-such-bucket")}) as fs:
        with pytest.raises(IoError, match="bucket"):
            await fs.list("data")
        assert [each.name for each in (await fs.list(".")).entries] == ["data"]
    for address in ("s3://user:secret@data", "s3://data?acess=1", "s3://data/../x"):
        with pytest.raises(ParseError) as caught:
            async with bailiwick.open("mounts:", mounts={"data": address}):
                pass
        assert "secret" not in str(caught.value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ParseError, match="credentials"):
        async with bailiwick.open("mounts:", mounts={"data": "s3://data"}):
            pass


async def test_it_is_named_in_a_configuration(url, tmp_path):
    file = tmp_path / "bailiwick.toml"
    file.write_text(
        f'[[root]]\nkind = "workspace"\nid = "all"\nmounts = {{data = "{url}", own = "memory:"}}\n'
        '[[grant]]\nsubject = "agent_run:*"\nroot = "workspace:all"\naccess = ["read", "list"]\n'
    )
    async with bailiwick.Authority.from_config(file, str(tmp_path / "state")) as authority:
        agent = bailiwick.AgentRun("talk", "1")
        fs = await authority.request_root(agent, "workspace:all", {"read", "list"}, "a test")
        assert (await fs.read_text("data/d/e/c.txt")).text == "needle\n"
