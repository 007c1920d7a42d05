"""The kind of a file's content in `Stat`: the same from every store, and for who may read it."""

import pytest

import bailiwick
from tests.authority.support import AGENT, EVERYTHING, governed

pytestmark = pytest.mark.spec("VOL-11")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(30)


@pytest.mark.parametrize("kind", ["memory", "disk", "volume"])
async def test_every_store_tells_the_same(tmp_path, kind):
    (tmp_path / "tree").mkdir()
    place = {
        "memory": "memory:", "disk": str(tmp_path / "tree"), "volume": f"sqlite:{tmp_path}/v.db",
    }[kind]  # fmt: skip
    options = {"state_dir": str(tmp_path / "state")} if kind == "disk" else {}
    async with bailiwick.open(place, **options) as fs:
        await fs.make_dir("d.json")
        await fs.write_bytes("picture", PNG)
        await fs.write_bytes("picture.txt", PNG)  # its name says what it is meant to be
        await fs.write_text("words", "hello")
        await fs.write_bytes("large", PNG + bytes(2_000_000))
        await fs.symlink("link", "picture")
        found = {path: (await fs.stat(path)).mime for path in ("d.json", "picture", "picture.txt",
                 "words", "large", "link")}  # fmt: skip
        assert found == {
            "d.json": None, "picture": "image/png", "picture.txt": "text/plain",
            "words": "text/plain", "large": "image/png", "link": "image/png",
        }  # fmt: skip
        assert (await fs.lstat("link")).mime is None
        assert (await fs.lstat("picture")).mime == "image/png"


@pytest.mark.spec("POL-2")
async def test_what_may_not_be_read_is_not_looked_into(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant({"id_rsa": PNG, "key.pem": PNG, "f": PNG})
        fs = await house.scope(EVERYTHING, subject=AGENT)
        assert (await fs.stat("id_rsa")).mime is None
        assert (await fs.stat("f")).mime == "image/png"
        blind = await house.scope({"metadata"}, subject=AGENT)
        assert (await blind.stat("f")).mime is None
