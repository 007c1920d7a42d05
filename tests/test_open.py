"""`open` and `open_sync`: places and options, each of which is enforced or refused."""

import functools
import math
import os
import pathlib
import pwd
import re

import msgspec
import pytest

import bailiwick
from bailiwick.limits import Limits
from tests.scope.every_verb import VERBS, plant_tree
from tests.scope.support import Opener, place_of


@pytest.fixture
def place(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "f").write_text("x")
    return tmp_path / "root"


@pytest.fixture
def state(tmp_path):
    (tmp_path / "state").mkdir()
    return {"state_dir": str(tmp_path / "state")}


@pytest.mark.spec("PY-2")
async def test_a_directory_is_opened_by_text_or_path(place, state):
    for given in (str(place), place, pathlib.PurePath(place)):
        async with bailiwick.open(given, **state) as fs:
            assert (await fs.read_text("f")).text == "x"
            assert (await fs.read_text(f"{place}/f")).path == "f"
            assert (await fs.read_text(pathlib.PurePosixPath("./f"))).path == "f"
            assert (fs.root.kind, fs.root.id, str(fs.subject)) == (
                "workspace", "root", "user:local",
            )  # fmt: skip
            assert fs.description["kind"] == "disk"
            assert repr(fs) == "<Scope workspace:root for user:local>"


async def test_memory_is_fresh_each_time():
    async with bailiwick.open("memory:") as fs:
        await fs.write_text("f", "x")
        assert fs.description["kind"] == "memory"
        async with bailiwick.open("memory:") as other:
            assert (await other.list()).entries == []


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    "given", ["", b"bytes", None, 5, "a\0b", "memory:name", "sqlite:", "redis://h/db"]
)
async def test_what_is_no_place_is_refused(given):
    with pytest.raises(bailiwick.ParseError):
        async with bailiwick.open(given):
            pass
    with pytest.raises(bailiwick.ParseError), bailiwick.open_sync(given):
        pass


@pytest.mark.spec("PATH-7")
async def test_a_place_that_cannot_be_opened_is_refused_without_its_host_path(place, state):
    for given, error in (
        (place / "missing", bailiwick.RootNotFound), (place / "f", bailiwick.NotADirectory),
    ):  # fmt: skip
        with pytest.raises(error) as refused:
            async with bailiwick.open(given, **state):
                pass
        assert str(place) not in str(refused.value)


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    "options",
    [
        {"durabilty": "full"}, {"unknown": 1}, {"history": "yes"}, {"read_only": True},
        {"trusted": "yes"}, {"trusted": 1}, {"trusted": None}, {"access": "read"},
        {"access": ["read", "fly"]}, {"access": 5}, {"access": None}, {"mount_point": ""},
        {"mount_point": "relative"}, {"mount_point": "/a/../b"}, {"mount_point": 5},
        {"names": "windows"}, {"limits": {"depth_max": 3}}, {"limits": 5},
        {"limits": Limits(depth_max=-1)}, {"limits": Limits(glob_max=10)},
        {"limits": Limits(grep_matches_max=10)}, {"limits": Limits(grep_seconds_max=math.nan)},
        {"limits": Limits(hook_seconds_max=math.inf)}, {"symlinks": "follow"}, {"symlinks": None},
        {"hardlinks": "maybe"}, {"cross_mounts": "no"}, {"containment": "none"},
        {"durability": "none"}, {"new_file_mode": "public"}, {"new_file_mode": 0o4755},
        {"new_file_mode": -1}, {"new_file_mode": True}, {"copy_in": "/tmp"}, {"copy_in": [5]},
        {"copy_in": [""]}, {"ignore_files": ".gitignore"}, {"ignore_files": ["a/b"]},
        {"ignore_files": [""]}, {"state_dir": ""}, {"state_dir": 5},
    ],
    ids=repr,
)  # fmt: skip
def test_an_option_that_would_not_be_enforced_is_refused(place, options):
    """Before anything is opened, by both ways in."""
    for way in (bailiwick.open, bailiwick.open_sync):
        for given in (str(place), "memory:"):
            with pytest.raises(bailiwick.ParseError):
                way(given, **options)


AMOUNTS = [field.name for field in msgspec.structs.fields(Limits) if type(field.default) is int]


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize("name", AMOUNTS)
@pytest.mark.parametrize("value", [0, -1, 2**63, True, 1.0, "5", None])
def test_an_amount_that_no_verb_could_keep_is_refused(name, value):
    if (name, value) == ("grep_context_max", 0):
        return  # no lines of context is something to ask for
    with pytest.raises(bailiwick.ParseError) as refused:
        bailiwick.open("memory:", limits=Limits(**{name: value}))
    assert name in refused.value.message


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize("extreme", ["least", "most"])
@pytest.mark.parametrize("name", sorted(VERBS))
async def test_verbs_keep_the_most_extreme_limits(tmp_path, name, extreme):
    """They succeed or refuse in words of their own; no limit makes one fail at random."""
    amounts = dict.fromkeys(AMOUNTS, 1 if extreme == "least" else 2**62)
    own = {"text_read_bytes_max": 8} if extreme == "least" else {"stream_chunk_bytes": 100 << 20}
    async with Opener("kernel", tmp_path)() as fs:
        await plant_tree(fs)
        place = place_of(fs)
    amounts |= own | {"link_hops_max": Limits().link_hops_max}  # the kernel's, not ours to set
    amounts |= {"database_connections_max": 2 if extreme == "least" else 1_000}
    async with Opener("kernel", tmp_path)(place=place, limits=Limits(**amounts)) as fs:
        try:
            await VERBS[name].call(fs)
        except (bailiwick.FileTooLarge, bailiwick.ParseError):
            assert extreme == "least"


@functools.cache
def _looked_at():
    """Every attribute that the package names. The defaults of `Limits()` do not count: what was set
    would be ignored."""
    package = pathlib.Path(bailiwick.__file__).parent
    source = "\n".join(path.read_text() for path in package.rglob("*.py"))
    return set(re.findall(r"(?<!Limits\(\))\.(\w+)", source))


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize("field", [field.name for field in msgspec.structs.fields(Limits)])
def test_every_limit_that_can_be_set_is_looked_at(field):
    assert field in _looked_at()


@pytest.mark.spec("ERR-5")
def test_a_misspelt_option_is_met_with_the_right_one():
    with pytest.raises(bailiwick.ParseError) as refused:
        bailiwick.open("memory:", durabilty="full")
    assert "'durability'" in refused.value.hint


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    "option",
    [
        {"hardlinks": "reject"}, {"cross_mounts": False}, {"cross_mounts": True},
        {"containment": "auto"}, {"durability": "rename"}, {"copy_in": ["/tmp"]},
    ],
    ids=repr,
)  # fmt: skip
async def test_options_for_directories_are_refused_in_memory(option):
    with pytest.raises(bailiwick.Unsupported):
        async with bailiwick.open("memory:", **option):
            pass
    with pytest.raises(bailiwick.Unsupported), bailiwick.open_sync("memory:", **option):
        pass


@pytest.mark.spec("ERR-5")
async def test_each_option_does_what_it_says(place, state, tmp_path):
    (place / "other").hardlink_to(place / "f")
    (place / "link").symlink_to("f")
    async with bailiwick.open(place, symlinks="reject", hardlinks="reject", **state) as fs:
        with pytest.raises(bailiwick.HardlinkRefused):
            await fs.read_text("f")
        with pytest.raises(bailiwick.SymlinkEscape):
            await fs.read_text("link")
    async with bailiwick.open(place, mount_point="/workspace", **state) as fs:
        assert (await fs.read_text("/workspace/f")).path == "f"
        with pytest.raises(bailiwick.PathOutsideWorkspace):
            await fs.read_text(f"{place}/f")
    async with bailiwick.open(place, access=["read"], **state) as fs:
        assert fs.access == {"read"}
        with pytest.raises(bailiwick.MissingAccess):
            await fs.list()
    async with bailiwick.open(place, trusted=False, **state) as fs:
        with pytest.raises(bailiwick.UntrustedWorkspace):
            await fs.write_text("new", "")
        with pytest.raises(bailiwick.HardlinkRefused):
            await fs.read_text("f")
    async with bailiwick.open(place, new_file_mode=0o640, durability="rename", **state) as fs:
        assert (await fs.write_text("new", "")).file_mode == 0o640
        assert fs.description["durability"] == "rename"
    async with bailiwick.open(place, containment="walk", **state) as fs:
        assert fs.description["containment"] == "walk"
    assert os.listdir(tmp_path / "state") == [] or not (place / "state").exists()


@pytest.mark.spec("LIFE-2")
async def test_a_failed_opening_leaves_nothing_open(place, state, tmp_path):
    """The harness counts descriptors: the first source was open when the second failed."""
    (tmp_path / "incoming").mkdir()
    for given, sources in (
        (place, [str(tmp_path / "incoming"), str(tmp_path / "missing")]),
        (tmp_path / "missing", [str(tmp_path / "incoming")]),
    ):
        with pytest.raises(bailiwick.RootNotFound):
            async with bailiwick.open(given, copy_in=sources, **state):
                pass
        with (
            pytest.raises(bailiwick.RootNotFound),
            bailiwick.open_sync(given, copy_in=sources, **state),
        ):
            pass


async def test_the_default_state_directory_is_the_users(place, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    async with bailiwick.open(place) as fs:
        await fs.write_text("g", "y")
    assert (tmp_path / "home" / "bailiwick").is_dir()
    assert sorted(os.listdir(place)) == ["f", "g"]


@pytest.mark.parametrize("home", ["", "relative", None])
async def test_a_home_that_is_none_is_the_one_on_record(place, tmp_path, monkeypatch, home):
    """And never the root of the machine, where root could write."""
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    on_record = pwd.getpwuid(os.getuid())
    entry = pwd.struct_passwd((*on_record[:5], str(tmp_path / "home"), on_record.pw_shell))
    monkeypatch.setattr("pwd.getpwuid", lambda uid: entry)
    async with bailiwick.open(place) as fs:
        await fs.write_text("g", "y")
    assert (tmp_path / "home" / ".local" / "state" / "bailiwick").is_dir()


async def test_who_has_no_home_at_all_names_a_place(place, tmp_path, monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for each in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(each, raising=False)
    with pytest.raises(bailiwick.RootNotFound) as caught:
        async with bailiwick.open():
            raise AssertionError("it was opened")
    assert "$HOME" in caught.value.hint
    for named in (place, f"sqlite:{tmp_path / 'own.db'}"):
        async with bailiwick.open(named) as fs:
            await fs.write_text("g", "y")
    assert (tmp_path / f"bailiwick-{os.getuid()}").is_dir()


async def test_a_state_directory_inside_the_root_is_refused(place):
    with pytest.raises(bailiwick.BailiwickError):
        async with bailiwick.open(place, state_dir=str(place)):
            pass


async def test_two_scopes_on_one_place_see_each_other(tmp_path):
    opener = Opener("kernel", tmp_path)
    place = opener.place()
    async with opener(place=place) as one, opener(place=place) as two:
        await one.write_text("f", "x")
        assert (await two.read_text("f")).text == "x"


@pytest.mark.spec("ERR-1")
async def test_without_any_state_directory_it_says_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "tree").mkdir()
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    with pytest.raises(bailiwick.PermissionDenied) as caught:
        async with bailiwick.open(str(tmp_path / "tree")):
            raise AssertionError("it was opened")
    assert "XDG_STATE_HOME" in caught.value.hint
    assert "state_dir" in caught.value.hint


@pytest.mark.spec("ERR-1")
@pytest.mark.parametrize("history", ["off", "on"])
async def test_a_state_directory_that_cannot_be_made_is_told_with_the_setting(tmp_path, history):
    (tmp_path / "tree").mkdir()
    state = "/proc/bailiwick/state"  # nobody makes a directory there, not even root
    for opening in (
        bailiwick.open(str(tmp_path / "tree"), state_dir=state, history=history),
        bailiwick.Authority.open(state_dir=state),
    ):
        with pytest.raises(bailiwick.BailiwickError) as caught:
            async with opening as opened:
                await opened.write_text("f", "x")
        assert "state_dir" in caught.value.hint
        assert not caught.value.retryable
