"""Roots of an authority on volumes: as a configuration and as a program describe them."""

import asyncio

import pytest

import bailiwick
from bailiwick.config import load
from tests.authority.support import AGENT, EVERYTHING
from tests.build.volume_houses import house

ROOT = '[[root]]\nid = "{id}"\nkind = "workspace"\ntrusted = true\n{more}\n'


def root(name, volume, more=""):
    return ROOT.format(id=name, more=f'volume = "{volume}"\n{more}')


async def opened(tmp_path, text):
    file = tmp_path / "bailiwick.toml"
    file.write_text(text)
    async with bailiwick.Authority.from_config(file, state_dir=str(tmp_path / "state")) as a:
        return [str(each) for each in a.roots()]


# --- what is described ------------------------------------------------------------------------


@pytest.mark.spec("VOL-1")
async def test_two_roots_on_one_file_do_not_see_each_other(tmp_path):
    (tmp_path / "bailiwick.toml").write_text(
        "[state]\nmemory = true\n"
        + root("one", "sqlite:agent.db?volume=one", "keep_versions_days = 7")
        + root("two", "sqlite:agent.db?volume=two")
    )
    async with bailiwick.Authority.from_config(tmp_path / "bailiwick.toml") as authority:
        one, two = [
            await authority.request_root("user:me", f"workspace:{name}", EVERYTHING, "a test")
            for name in ("one", "two")
        ]
        await one.write_text("f", "of one")
        assert not await two.exists("f")
        await two.write_text("f", "of two")
        assert (await one.read_text("f")).text == "of one"
        assert one.description["kind"] == "volume"
        assert authority.host_path("workspace:one") == str(tmp_path / "agent.db")
    assert (tmp_path / "agent.db").exists()


@pytest.mark.spec("VOL-1")
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("sqlite:a.db?branch=x", "sqlite:a.db?branch=x", "same branch"),
        ("sqlite:a.db", "sqlite:./a.db?volume=main&branch=main", "same branch"),
        ("sqlite:a.db", "sqlite:a.db?branch=x&blobs=elsewhere", "different settings"),
    ],
)
async def test_one_volume_for_two_roots_is_an_error_that_names_both(tmp_path, first, second, words):
    with pytest.raises(bailiwick.ParseError, match=words) as refused:
        await opened(tmp_path, root("one", first) + root("two", second))
    assert "workspace:one" in refused.value.message
    assert "workspace:two" in refused.value.message


@pytest.mark.spec("VOL-1")
async def test_two_retentions_of_one_volume_are_an_error_that_names_both(tmp_path):
    text = root("one", "sqlite:a.db", "keep_versions_days = 3") + root(
        "two", "sqlite:a.db?branch=x", "keep_versions_days = 4"
    )
    with pytest.raises(bailiwick.ParseError, match="different settings") as refused:
        await opened(tmp_path, text)
    assert "keep_versions_days 3" in refused.value.hint
    assert "keep_versions_days 4" in refused.value.hint


@pytest.mark.spec("PATH-7")
@pytest.mark.parametrize("volume", ["sqlite:tree/a.db", "sqlite:a.db?blobs=tree/blobs"])
@pytest.mark.parametrize("directory_first", [True, False])
async def test_a_volume_within_a_directory_that_is_served_is_refused(
    tmp_path, volume, directory_first
):
    """Whoever may write that directory could write the volume past every rule."""
    (tmp_path / "tree").mkdir()
    parts = [ROOT.format(id="tree", more='path = "tree"'), root("vol", volume)]
    with pytest.raises(bailiwick.ParseError, match="lies in the root workspace:tree"):
        await opened(tmp_path, "".join(parts if directory_first else reversed(parts)))


@pytest.mark.spec("POL-2")
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('volume = "sqlite:"', "has no file"),
        ('volume = "sqlite:a.db?volum=x"', "no parameter 'volum'"),
        ('volume = "./a.db"', "lies in an SQLite file"),
        ('volume = "sqlite:a.db"\nhardlinks = "allow"', "'hardlinks' is for roots with a path"),
        ('volume = "sqlite:a.db"\ndurability = "full"', "'durability' is for roots with a path"),
        ('volume = "sqlite:a.db"\nhistory = "off"', "always has its history"),
        ('volume = "sqlite:a.db"\nkeep_versions_days = -1', "keep_versions_days"),
        ('volume = "sqlite:a.db"\nlimits = {feed_changes_max = 5}', "'feed_changes_max'"),
        ('path = "."\nkeep_versions_days = 3', "'keep_versions_days' is for roots with a volume"),
        ("memory = true\nkeep_versions_days = 3", "is for roots with a volume"),
    ],
)
def test_what_does_not_fit_is_refused_with_line_and_column(more, words):
    with pytest.raises(bailiwick.ParseError, match=r"^x\.toml:\d+:\d+: ") as refused:
        load(ROOT.format(id="a", more=more), source="x.toml")
    assert words in refused.value.message


@pytest.mark.spec("ERR-5")
async def test_options_of_a_program_are_held_to_the_same(tmp_path):
    place = f"sqlite:{tmp_path}/a.db"
    async with bailiwick.Authority.open() as authority:
        for option in ({"hardlinks": "reject"}, {"copy_in": ["/tmp"]}):
            with pytest.raises(bailiwick.Unsupported):
                await authority.add_root("workspace:a", place, **option)
        await authority.add_root("knowledge:a", place, trusted=True, keep_versions_days=3)
        with pytest.raises(bailiwick.ParseError, match="same branch"):
            await authority.add_root("workspace:b", place)
        with pytest.raises(bailiwick.Unsupported):
            await authority.add_root("workspace:c", str(tmp_path), keep_versions_days=3)


# --- what is governed -------------------------------------------------------------------------


@pytest.mark.spec("AUTH-8")
async def test_a_quota_holds_whoever_writes_at_once(tmp_path):
    quota = 'quota = {bytes = "64 KiB", files = 10}'
    async with house(tmp_path, text=quota) as opened_house:
        fs = await opened_house.scope()

        async def write(number):
            try:
                await fs.write_bytes(f"f{number % 16}", bytes(8 * 1024 + number))
            except bailiwick.QuotaExceeded:
                return 1
            return 0

        refused = await asyncio.gather(*(write(number) for number in range(64)))
        tree = await opened_house.tree()
        assert sum(refused)
        assert len(tree) <= 10
        assert sum(map(len, tree.values())) <= 64 * 1024
        # What was taken away can be used again, to the last byte.
        for path in tree:
            await fs.remove(path)
        await fs.write_bytes("whole", bytes(64 * 1024))
        with pytest.raises(bailiwick.QuotaExceeded):
            await fs.write_bytes("more", b"x")
        await fs.write_bytes("whole", b"less")
        await fs.append("whole", b"x" * (64 * 1024 - 4))
        with pytest.raises(bailiwick.QuotaExceeded):
            await fs.append("whole", b"x")


@pytest.mark.spec("AUTH-8")
async def test_what_is_replaced_at_once_is_counted_as_it_ends(tmp_path):
    async with house(tmp_path, text='quota = {bytes = "1 MiB"}') as opened_house:
        fs = await opened_house.scope()
        for _ in range(3):
            await asyncio.gather(*(fs.write_bytes("one", bytes(1000 + n)) for n in range(24)))
        size = len((await opened_house.tree())["one"])
        await fs.write_bytes("rest", bytes(1024 * 1024 - size))
        with pytest.raises(bailiwick.QuotaExceeded):
            await fs.write_bytes("more", b"x")


@pytest.mark.spec("POL-3")
async def test_the_shipped_rules_hold_on_volumes(tmp_path):
    async with house(tmp_path) as opened_house:
        await opened_house.plant({".env": b"secret", "f": b"x"})
        fs = await opened_house.scope(subject=AGENT)
        with pytest.raises(bailiwick.ApprovalDenied):
            await fs.read_text(".env")
        assert (await fs.read_text("f")).text == "x"


@pytest.mark.spec("EVENT-1", "AUDIT-5")
async def test_a_cursor_of_a_volume_holds_across_restarts(tmp_path):
    async with house(tmp_path) as opened_house:
        fs = await opened_house.scope()
        follower = asyncio.ensure_future(_first(fs.watch()))
        await asyncio.sleep(0)
        while not follower.done():
            await fs.with_request("seen").write_text("f", "x")
        seen = await follower
    async with bailiwick.open(f"sqlite:{tmp_path}/agent.db?volume=demo") as own:
        await own.with_request("elsewhere").write_text("g", "x")
    async with house(tmp_path) as opened_house:
        fs = await opened_house.scope()
        told = []
        async for change in fs.watch(since=seen.cursor):
            told.append(change)
            if change.path == "g":
                break
    assert seen.request_id == "seen"
    assert {each.kind for each in told} <= {"created", "updated"}  # nothing was missed: no rescan
    assert (told[-1].subject, told[-1].request_id) == ("user:local", "elsewhere")


async def _first(changes):
    async for change in changes:
        return change
    return None
