"""`find`, `files` and `glob`: against a naive walk, budgeted, and honest about what is left out."""

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick.limits import Limits
from tests.scope.support import Opener, Rules, deny, hide, place_of, plant, unruled

SHARED_TMP = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

TREE = {
    "a.py": "12", "b.md": "", ".dot": "x", "src/a.py": "123", "src/deep/er/c.py": "1",
    "src/deep/d.md": "", "src/a.txt": "1", "empty": None, "zed/[x].py": "", "link": "-> src",
}  # fmt: skip


def _regex(pattern):
    """The pattern in words of `re`, written the plainest way."""
    pieces = re.split(r"(\*\*/|/\*\*$|\*\*|\*|\?|\[[^\]]+\]|\{[^}]+\})", pattern)
    words = {"**/": "(?:.+/)?", "/**": "/.+", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    text = ""
    for piece in pieces:
        if piece in words:
            text += words[piece]
        elif piece.startswith("["):
            text += piece.replace("[!", "[^")
        elif piece.startswith("{"):
            text += "(?:" + "|".join(re.escape(each) for each in piece[1:-1].split(",")) + ")"
        else:
            text += re.escape(piece)
    return re.compile(text, re.DOTALL)


NAMES = st.sampled_from(["a", "b", "ab", "ba.py", "a.py", ".a", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PIECES = st.sampled_from(["a", "b", "*", "**", "?", "*.py", "[ab]", "[!a]*", "{a,b,ab}", "a*"])
PATTERNS = st.lists(PIECES, min_size=1, max_size=4).map("/".join)


async def _plant_files(fs, paths):
    """Make those that are not in each other's way; returns all paths there are."""
    there = set()
    for path in sorted(paths):
        parts = path.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if path in there or above & {
            each for each in there if (await fs.stat(each)).type == "file"
        }:
            continue
        await fs.write_bytes(path, b"", parents=True)
        there |= above | {path}
    return there


def _in_order(paths):
    return sorted(paths, key=lambda path: path.split("/"))


@pytest.mark.spec("TREE-5")
@settings(max_examples=40, suppress_health_check=SHARED_TMP)
@given(paths=st.sets(PATHS, max_size=12), pattern=PATTERNS)
async def test_glob_finds_what_a_naive_walk_finds(tmp_path, paths, pattern):
    wanted = _regex(pattern)
    async with Opener("memory", tmp_path)() as fs:
        there = await _plant_files(fs, paths)
        found = await fs.glob(pattern)
        assert found.paths == _in_order(path for path in there if wanted.fullmatch(path))
        assert (found.truncated, found.omitted) == (False, 0)


@pytest.mark.spec("TREE-5")
@settings(max_examples=40, suppress_health_check=SHARED_TMP)
@given(
    paths=st.sets(PATHS, max_size=12), depth=st.none() | st.integers(1, 4),
    kind=st.sampled_from([None, "file", "directory"]), name=PIECES | st.none(),
)  # fmt: skip
async def test_find_finds_what_a_naive_walk_finds(tmp_path, paths, depth, kind, name):
    async with Opener("memory", tmp_path)() as fs:
        expected = []
        for path in await _plant_files(fs, paths):
            parts = path.split("/")
            if depth is not None and len(parts) > depth:
                continue
            if kind is not None and (await fs.stat(path)).type != kind:
                continue
            if name not in (None, "**") and not _regex(name).fullmatch(parts[-1]):
                continue
            expected.append(path)
        found = await fs.find(pattern=name, type=kind, depth=depth)
        assert found.paths == _in_order(expected)


@pytest.mark.spec("TREE-5")
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", [".dot", "a.py", "b.md", "empty", "link", "src", "zed"]),
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/a.py", "src/deep/er/c.py", "zed/[x].py"]),
        ("src/**", ["src/a.py", "src/a.txt", "src/deep", "src/deep/d.md", "src/deep/er",
                    "src/deep/er/c.py"]),
        ("src/{a,b}.{py,txt}", ["src/a.py", "src/a.txt"]),
        ("?.[!p]*", ["b.md"]),
        ("zed/[[]x].py", ["zed/[x].py"]),
        ("A.PY", []),
        ("src/*/er", ["src/deep/er"]),
        ("src", ["src"]),
        ("./src/*.py", ["src/a.py"]),
    ],
)  # fmt: skip
async def test_glob_patterns(opening, pattern, expected):
    async with opening() as fs:
        await plant(fs, TREE)
        assert (await fs.glob(pattern)).paths == expected


@pytest.mark.spec("TREE-5")
async def test_patterns_count_from_the_base(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        found = await fs.glob("*.py", "src")
        assert (found.base, found.paths) == ("src", ["src/a.py"])
        assert (await fs.glob("*.py", "link")).paths == ["src/a.py"]
        assert (await fs.find("src", "deep/*.md")).paths == ["src/deep/d.md"]


@pytest.mark.spec("TREE-5")
@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../b", "", "a/\0", "[", "{a", "a\\"])
async def test_patterns_that_lead_out_or_are_none_are_refused(opening, pattern):
    async with opening() as fs:
        try:
            found = await fs.glob(pattern)
        except bailiwick.ParseError:
            return
        assert pattern in ("[", "{a", "a\\")
        assert found.paths == []


@pytest.mark.spec("TREE-5")
async def test_find_takes_conditions(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        await fs.set_times("src/a.py", 2 * 10**18)
        assert (await fs.find(size_min=2, type="file")).paths == ["a.py", "src/a.py"]
        assert (await fs.find(size_min=1, size_max=2, pattern="*.py")).paths == [
            "a.py", "src/deep/er/c.py",
        ]  # fmt: skip
        assert (await fs.find(modified_after_ns=2 * 10**18 - 1)).paths == ["src/a.py"]
        assert (await fs.find(modified_after_ns=2 * 10**18)).paths == []
        assert (await fs.find(empty=True)).paths == ["b.md", "empty", "src/deep/d.md", "zed/[x].py"]
        assert "empty" not in (await fs.find(empty=False)).paths
        assert (await fs.find(type="symlink")).paths == ["link"]
        with pytest.raises(bailiwick.ParseError):
            await fs.find(depth=0)
        with pytest.raises(bailiwick.ParseError):
            await fs.find(type="folder")


@pytest.mark.spec("TREE-5")
async def test_files_is_flat_and_a_missing_prefix_holds_nothing(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        inside = ["src/a.py", "src/a.txt", "src/deep/d.md", "src/deep/er/c.py"]
        assert (await fs.files("src")).paths == inside
        assert (await fs.files("link")).paths == inside
        assert (await fs.files("sr")).paths == []
        missing = await fs.files("no/such/place")
        assert (missing.paths, missing.truncated, missing.base) == ([], False, "no/such/place")
        assert (await fs.files("a.py")).paths == ["a.py"]
        with pytest.raises(bailiwick.PathOutsideWorkspace):
            await fs.files("../x")


@pytest.mark.spec("TREE-5", "PATH-6", "POL-1")
async def test_files_through_a_link_asks_about_what_it_leads_to(opening):
    async with opening(policy=Rules(deny("kept", access={"list"}), hide("gone"))) as fs:
        tree = {"a": "-> kept", "b": "-> gone", "kept/f": "", "gone/f": ""}
        await plant(unruled(fs), tree)
        with pytest.raises(bailiwick.PolicyDenied):
            await fs.files("a")
        assert (await fs.files("b")).paths == []


@pytest.mark.spec("TREE-5", "TREE-7")
async def test_a_cut_answer_says_how_much_is_left_out(opening):
    async with opening() as fs:
        for number in range(9):
            await fs.write_bytes(f"d{number}/f", b"", parents=True)
        for found in (
            await fs.glob("*/f", limit=4), await fs.find(type="file", limit=4),
            await fs.files(limit=4),
        ):  # fmt: skip
            assert found.paths == [f"d{number}/f" for number in range(4)]
            assert (found.truncated, found.omitted) == (True, 5)
            assert "5 more" in found.reason
        whole = await fs.files(limit=9)
        assert (whole.truncated, whole.omitted, whole.reason) == (False, 0, None)


@pytest.mark.spec("TREE-5", "TREE-7")
async def test_a_walk_has_a_budget_and_says_when_it_is_spent(opening):
    async with opening(limits=Limits(walk_entries_max=5)) as fs:
        for number in range(9):
            await fs.write_bytes(f"f{number}", b"")
        found = await fs.find()
        assert found.paths == [f"f{number}" for number in range(5)]
        assert found.truncated
        assert "5 entries" in found.reason
        await fs.write_text(".gitignore", "f*\n")
        assert (await fs.find(pattern="z")).truncated


@pytest.mark.spec("TREE-5", "TREE-7")
async def test_a_walk_does_not_go_deeper_than_its_limit_in_silence(opening):
    async with opening(limits=Limits(depth_max=3)) as fs:
        await fs.make_dir("a/b/c/d/e", parents=True)
        for found in (await fs.find(), await fs.find(depth=10)):
            assert found.paths == ["a", "a/b", "a/b/c"]
            assert found.truncated
            assert "3 levels" in found.reason
        asked = await fs.find(depth=2)
        assert (asked.paths, asked.truncated) == (["a", "a/b"], False)


@pytest.mark.spec("TREE-7", "POL-1")
async def test_what_policy_withholds_is_not_left_out_in_silence(opening):
    async with opening(policy=Rules(deny("kept", access={"list"}))) as fs:
        await plant(unruled(fs), {"kept/x": "1", "open/y": "2"})
        found = await fs.find()
        assert found.paths == ["kept", "open", "open/y"]
        assert found.truncated
        assert "policy" in found.reason
        assert not (await fs.glob("open/*")).truncated


@pytest.mark.spec("TREE-5", "LINK-3")
async def test_walks_do_not_descend_through_links(opening):
    async with opening() as fs:
        await plant(fs, {"d/f": "", "d/up": "-> ..", "d/self": "-> ../d"})
        assert (await fs.find()).paths == ["d", "d/f", "d/self", "d/up"]
        assert (await fs.glob("**/f")).paths == ["d/f"]


@pytest.mark.spec("TREE-5", "ERR-5")
@pytest.mark.parametrize("limit", [0, -1, 50_001])
async def test_a_limit_that_cannot_be_served_is_refused(opening, limit):
    async with opening() as fs:
        for call in (fs.glob("*", limit=limit), fs.find(limit=limit), fs.files(limit=limit)):
            with pytest.raises(bailiwick.ParseError):
                await call
    assert (Limits().glob_default, Limits().glob_max) == (5_000, 50_000)


@pytest.mark.spec("TREE-5", "PATH-5")
async def test_names_that_are_no_text_are_found_but_not_entered(disk):
    async with disk() as fs:
        os.mkdir(os.path.join(os.fsencode(place_of(fs)), b"bad-\xff"))
        found = await fs.find()
        assert [(entry.name, entry.addressable) for entry in found.matches] == [
            ("bad-\\xff", False)
        ]
