"""`bailiwick.open` on volumes: what is named is what is opened, what does not fit is refused."""

import asyncio
import os
import pathlib
import stat

import apsw
import pytest

import bailiwick
from bailiwick import Limits


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory, and a home of nobody's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return tmp_path


@pytest.mark.spec("VOL-1")
async def test_what_is_written_is_there_the_next_time(here):
    async with bailiwick.open("sqlite:agent.db?volume=demo") as fs:
        await fs.write_text("notes/today.md", "hello", parents=True)
        assert (str(fs.root), str(fs.subject)) == ("workspace:demo", "user:local")
        assert fs.description["kind"] == "volume"
    for named in ("sqlite:agent.db?volume=demo", f"sqlite:{here}/agent.db?volume=demo"):
        async with bailiwick.open(named) as fs:
            assert (await fs.read_text("/notes/today.md")).text == "hello"
    async with bailiwick.open("sqlite:agent.db") as fs:
        assert (await fs.list()).entries == []
    with bailiwick.open_sync("sqlite:agent.db?volume=demo") as fs:
        assert fs.read_text("notes/today.md").text == "hello"


@pytest.mark.spec("VOL-1")
async def test_the_file_of_a_volume_is_private(here):
    async with bailiwick.open("sqlite:agent.db") as fs:
        await fs.write_bytes("large", bytes(2_000_000))
        for path in here.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.spec("VOL-1")
async def test_a_name_with_signs_is_written_with_percent(here):
    async with bailiwick.open("sqlite:what%3F 50%25.db") as fs:
        await fs.write_text("f", "x")
    assert (here / "what? 50%.db").is_file()


@pytest.mark.spec("VOL-2")
async def test_large_content_goes_to_the_folder_that_is_named(here):
    async with bailiwick.open("sqlite:agent.db?blobs=elsewhere") as fs:
        await fs.write_bytes("large", os.urandom(2_000_000))
    kept = sum(path.stat().st_size for path in (here / "elsewhere").rglob("*") if path.is_file())
    assert kept >= 2_000_000
    assert not (here / "agent.db-blobs").exists()


@pytest.mark.spec("VOL-1")
async def test_a_path_object_is_a_directory_whatever_it_is_called(here):
    for name in ("sqlite:agent.db", "memory:"):
        place = here / name
        place.mkdir()
        (place / "f").write_text("x")
        for given in (pathlib.Path(name), place):
            async with bailiwick.open(given, state_dir=str(here / "state")) as fs:
                assert fs.description["kind"] == "disk"
                assert (await fs.read_text("f")).text == "x"


# --- nothing is named -------------------------------------------------------------------------


@pytest.mark.spec("VOL-1")
@pytest.mark.parametrize("data_home", [None, "", "relative", "/own"])
async def test_without_a_place_it_is_a_volume_in_the_users_data_directory(
    here, monkeypatch, data_home
):
    expected = here / "home/.local/share/bailiwick"
    if data_home is not None:
        own = str(here) + data_home if data_home.startswith("/") else data_home
        monkeypatch.setenv("XDG_DATA_HOME", own)
        if data_home.startswith("/"):
            expected = pathlib.Path(own) / "bailiwick"
    async with bailiwick.open() as fs:
        await fs.write_text("f", "kept")
    with bailiwick.open_sync() as fs:
        assert fs.read_text("f").text == "kept"
    assert stat.S_IMODE(expected.stat().st_mode) == 0o700
    assert stat.S_IMODE((expected / "workspace.db").stat().st_mode) == 0o600


@pytest.mark.spec("VOL-1")
async def test_a_data_directory_that_cannot_be_made_is_an_error_with_a_way_out(here, monkeypatch):
    (here / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "file"))
    with pytest.raises(bailiwick.BailiwickError) as refused:
        async with bailiwick.open():
            pass
    assert "sqlite:agent.db" in refused.value.hint
    assert str(here) not in str(refused.value)


# --- what does not fit ------------------------------------------------------------------------


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    "option",
    [
        {"hardlinks": "reject"}, {"cross_mounts": False}, {"cross_mounts": True},
        {"containment": "auto"}, {"durability": "rename"}, {"durability": "full"},
        {"copy_in": ["/tmp"]}, {"history": "on"},
    ],
    ids=repr,
)  # fmt: skip
async def test_options_for_directories_are_refused(here, option):
    with pytest.raises(bailiwick.Unsupported, match="not for a volume"):
        async with bailiwick.open("sqlite:a.db", **option):
            pass
    with pytest.raises(bailiwick.Unsupported), bailiwick.open_sync("sqlite:a.db", **option):
        pass
    assert list(here.iterdir()) == []


@pytest.mark.spec("ERR-5")
async def test_options_for_volumes_are_refused_elsewhere(here):
    for place in (here, "memory:"):
        with pytest.raises(bailiwick.Unsupported, match="is for volumes"):
            async with bailiwick.open(place, keep_versions_days=3):
                pass


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 40_000, "3", True])
def test_a_retention_that_is_none_is_refused(value):
    with pytest.raises(bailiwick.ParseError):
        bailiwick.open("sqlite:a.db", keep_versions_days=value)


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    "limits",
    [{"feed_changes_max": 5}, {"feed_memory_changes_max": 5}, {"feed_seconds_max": 5.0}],
    ids=repr,
)
async def test_limits_that_a_volume_would_not_keep_are_refused(here, limits):
    with pytest.raises(bailiwick.ParseError, match="no limit of a volume"):
        async with bailiwick.open("sqlite:a.db", limits=Limits(**limits)):
            pass


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize("place", ["memory:", ".", "sqlite:a.db"])
def test_a_limit_of_a_ledger_is_refused_where_there_is_none(here, place):
    with pytest.raises(bailiwick.ParseError, match="there is none here"):
        bailiwick.open(place, limits=Limits(audit_batch_seconds_max=1.0))


@pytest.mark.spec("ERR-5", "EVENT-1")
async def test_the_feed_keeps_no_more_changes_than_it_is_told(here):
    async with bailiwick.open("memory:", limits=Limits(feed_changes_max=16)) as fs:
        changes = fs.watch()
        first = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await fs.write_text("f", "x")
        cursor = (await first).cursor
        await changes.aclose()
        for number in range(40):
            await fs.write_text(f"f{number}", "x")
        async for change in fs.watch(since=cursor):
            assert change.kind == "reset"
            break


@pytest.mark.spec("PATH-7", "VOL-10")
@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("sqlite:missing/a.db", bailiwick.RootNotFound), ("sqlite:.", bailiwick.IsADirectory),
        ("sqlite:text", bailiwick.BailiwickError), ("sqlite:foreign", bailiwick.Unsupported),
        ("sqlite:a.db?branch=none", bailiwick.RootNotFound),
    ],
)  # fmt: skip
async def test_what_cannot_be_opened_is_refused_and_left_as_it_is(here, place, error):
    (here / "text").write_text("this is no database, and it is long enough to be looked at" * 20)
    foreign = apsw.Connection("foreign")
    foreign.execute("CREATE TABLE t (x)")
    foreign.close()
    before = {name: (here / name).read_bytes() for name in ("text", "foreign")}
    with pytest.raises(error) as refused:
        async with bailiwick.open(place):
            pass
    assert str(here) not in str(refused.value)
    assert before == {name: (here / name).read_bytes() for name in ("text", "foreign")}


@pytest.mark.spec("VOL-1")
async def test_one_volume_with_two_settings_is_an_error_that_names_both(here):
    async with bailiwick.open("sqlite:a.db", keep_versions_days=3) as fs:
        await fs.write_text("f", "x")
        with pytest.raises(bailiwick.ParseError, match="other settings") as refused:
            async with bailiwick.open("sqlite:a.db", keep_versions_days=4):
                pass
        assert "'3'" in refused.value.hint
        assert "'4'" in refused.value.hint
        with pytest.raises(bailiwick.ParseError, match="other settings"):
            async with bailiwick.open("sqlite:a.db?blobs=x", keep_versions_days=3):
                pass
        async with bailiwick.open("sqlite:a.db", keep_versions_days=3) as same:
            assert (await same.read_text("f")).text == "x"


@pytest.mark.spec("VOL-13")
async def test_a_fork_is_opened_by_its_name(here):
    async with bailiwick.open("sqlite:a.db") as fs:
        await fs.write_text("f", "of main")
        fork = await fs.fork("try")
        await fork.write_text("f", "of the fork")
        await fork.aclose()
    async with bailiwick.open("sqlite:a.db?volume=main&branch=try") as fork:
        assert (await fork.read_text("f")).text == "of the fork"
    async with bailiwick.open("sqlite:a.db") as fs:
        assert (await fs.read_text("f")).text == "of main"


@pytest.mark.spec("ERR-1")
async def test_who_names_the_file_alone_is_told_how_a_volume_is_named(here):
    (here / "there.db").write_bytes(b"")
    for name in ("agent.db", "there.db"):
        with pytest.raises(bailiwick.BailiwickError) as refused:
            async with bailiwick.open(name, state_dir=str(here / "state")):
                pass
        assert f'"sqlite:{name}"' in refused.value.hint
    assert (here / "there.db").read_bytes() == b""
