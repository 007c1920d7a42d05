"""`grep` through a scope: against a naive search, with everything it did not look into named."""

import asyncio
import os
import random
import threading

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick.limits import Limits
from bailiwick.reader import reader_of
from bailiwick.verbs import grep
from tests.scope.support import Opener, Rules, ask, deny, hide, place_of, plant, snapshot, unruled

SHARED_TMP = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def _found(result):
    return [(match.path, match.line) for match in result.matches]


@pytest.mark.spec("GREP-1", "GREP-2")
@settings(max_examples=40, suppress_health_check=SHARED_TMP)
@given(
    files=st.dictionaries(
        st.sampled_from(["a", "b", "b/c", "d/e/f", "d/g"]),
        st.text(st.sampled_from("abA \n\r.ä"), max_size=30), max_size=4,
    ),
    needle=st.text("abAä.", min_size=1, max_size=2), ignore_case=st.booleans(),
)  # fmt: skip
async def test_grep_finds_what_a_naive_search_finds(tmp_path, files, needle, ignore_case):
    if "b" in files:
        files.pop("b/c", None)
    fold = str.lower if ignore_case else str
    expected = []
    for path in sorted(files, key=lambda path: path.split("/")):
        for number, line in enumerate(files[path].split("\n"), start=1):
            at = fold(line.removesuffix("\r")).find(fold(needle))
            if at >= 0:
                expected.append((path, number, at + 1))
    async with Opener("memory", tmp_path)() as fs:
        for path, text in files.items():
            await fs.write_bytes(path, text.encode(), parents=True)
        result = await fs.grep(needle, literal=True, ignore_case=ignore_case)
        found = [(match.path, match.line, match.column) for match in result.matches]
        assert found == expected
        assert (result.files_searched, result.truncated) == (len(files), False)


@pytest.mark.spec("GREP-1", "GREP-2")
async def test_a_match_says_where_it_is_and_what_stands_around_it(opening):
    async with opening() as fs:
        await plant(fs, {"b.txt": "one\ntwo\nthree\nfour\n", "a/x.txt": "a two\n"})
        result = await fs.grep("t(w|hr)", context=1)
        first, second, third = result.matches
        assert (first.path, first.line, first.column, first.text) == ("a/x.txt", 1, 3, "a two")
        assert (second.before, second.text, second.after) == (["one"], "two", ["three"])
        assert (third.before, third.text, third.after) == (["two"], "three", ["four"])


@pytest.mark.spec("GREP-1")
async def test_the_ways_to_ask(opening):
    tree = {"a.py": "Cat\ncat.\nconcat\n", "b.md": "cat\n", "src/c.py": "cat\n"}
    async with opening() as fs:
        await plant(fs, tree)
        assert _found(await fs.grep("cat.", literal=True)) == [("a.py", 2)]
        assert _found(await fs.grep("CAT", ignore_case=True, include="a*")) == [
            ("a.py", 1), ("a.py", 2), ("a.py", 3),
        ]  # fmt: skip
        assert _found(await fs.grep("cat", word=True, include=["a.py"])) == [("a.py", 2)]
        assert _found(await fs.grep("cat", include="*.py", exclude="src/**")) == [
            ("a.py", 2), ("a.py", 3),
        ]  # fmt: skip
        assert _found(await fs.grep("cat", exclude=["*.py"])) == [("b.md", 1)]
        assert _found(await fs.grep("cat", "src")) == [("src/c.py", 1)]
        assert _found(await fs.grep("cat", "b.md")) == [("b.md", 1)]
        assert _found(await fs.grep("^cat$", "src/c.py")) == [("src/c.py", 1)]


@pytest.mark.spec("GREP-1", "ERR-5")
@pytest.mark.parametrize(
    "asked",
    [
        {"context": 11}, {"context": -1}, {"max_results": 0}, {"max_results": 50_001},
        {"max_file_bytes": -2}, {"include": 5}, {"include": [5]}, {"exclude": "../x"},
        {"include": "/abs"},
    ],
)  # fmt: skip
async def test_what_cannot_be_served_is_refused(opening, asked):
    async with opening() as fs:
        with pytest.raises(bailiwick.ParseError):
            await fs.grep("x", **asked)


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize("pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "(", "[", "a{2000}{2000}", "*"])
async def test_patterns_outside_re2_are_refused_with_a_hint(opening, pattern):
    async with opening() as fs:
        await fs.write_text("f", "aa\n")
        with pytest.raises(bailiwick.ParseError) as refused:
            await fs.grep(pattern)
        assert refused.value.hint


@pytest.mark.spec("GREP-1", "GREP-2", "TREE-7")
async def test_a_cut_answer_says_so(opening):
    async with opening() as fs:
        await plant(fs, {"a": "x\nx\n", "b": "x\nx\n"})
        cut = await fs.grep("x", max_results=3)
        assert _found(cut) == [("a", 1), ("a", 2), ("b", 1)]
        assert cut.truncated
        assert "3 matches" in cut.reason
        whole = await fs.grep("x", max_results=4)
        assert (len(whole.matches), whole.truncated, whole.reason) == (4, False, None)
    assert Limits().grep_matches_default == 1_000


@pytest.mark.spec("GREP-2")
async def test_what_was_not_searched_is_listed_and_logged(opening, caplog):
    tree = {"large": "x" * 50, "binary": b"x\0", "small": "x\n"}
    async with opening() as fs:
        await plant(fs, tree)
        result = await fs.grep("x", max_file_bytes=20)
        assert (result.skipped_paths, result.skipped_binary_paths) == (["large"], ["binary"])
        assert (_found(result), result.files_searched) == ([("small", 1)], 1)
        assert result.skips_reported
        assert {record.levelname for record in caplog.records} == {"WARNING"}
        assert "large (too large)" in caplog.text
        assert "binary (binary)" in caplog.text
        quick = await fs.grep("x", max_file_bytes=20, report_skipped=False)
        assert (quick.skipped_paths, quick.skipped_binary_paths) == ([], [])
        assert (_found(quick), quick.skips_reported) == ([("small", 1)], False)
        all_sizes = await fs.grep("x", max_file_bytes=None)
        assert _found(all_sizes) == [("large", 1), ("small", 1)]


@pytest.mark.spec("GREP-1", "GREP-2")
async def test_a_named_file_that_is_skipped_is_always_named(opening):
    async with opening() as fs:
        await plant(fs, {"large": "x" * 50, "binary": b"x\0"})
        result = await fs.grep("x", "large", max_file_bytes=20, report_skipped=False)
        assert result.skipped_paths == ["large"]
        result = await fs.grep("x", "binary", report_skipped=False)
        assert result.skipped_binary_paths == ["binary"]


@pytest.mark.spec("GREP-3")
async def test_undecodable_and_endless_lines_are_shown_and_marked(opening):
    limits = Limits(grep_line_characters_max=20)
    async with opening(limits=limits) as fs:
        await plant(fs, {"a": b"caf\xe9 needle\n", "b": "y" * 500 + "needle" + "z" * 500})
        first, second = (await fs.grep("needle")).matches
        assert (first.text, first.undecodable) == ("caf\\xe9 needle", True)
        assert second.line_truncated
        assert "needle" in second.text
        assert len(second.text) <= 40
        assert second.column == 501


@pytest.mark.spec("GREP-3")
async def test_after_the_deadline_what_was_found_is_returned(opening):
    async with opening(limits=Limits(grep_seconds_max=0.0)) as fs:
        for number in range(200):
            await fs.write_bytes(f"f{number:03}", b"x\n")
        result = await fs.grep("x")
        assert result.truncated
        assert "seconds" in result.reason
        assert _found(result) == [(f"f{n:03}", 1) for n in range(len(result.matches))]
    assert Limits().grep_seconds_max == 10.0


@pytest.mark.spec("GREP-3", "TREE-7")
async def test_what_a_walk_could_not_reach_does_not_lose_what_it_reached(opening):
    async with opening(limits=Limits(depth_max=2, walk_entries_max=6)) as fs:
        await plant(fs, {"a/b/c/deep": "x", "d": "x"})
        result = await fs.grep("x")
        assert _found(result) == [("d", 1)]
        assert result.truncated
        assert "2 levels" in result.reason
        await plant(fs, {f"e{number}": "x" for number in range(9)})
        cut = await fs.grep("x")
        assert _found(cut)[:2] == [("d", 1), ("e0", 1)]
        assert "6 entries" in cut.reason


@pytest.mark.spec("GREP-3")
async def test_a_file_too_large_to_hold_is_searched_all_the_same(opening):
    limits = Limits(grep_file_bytes_default=4_000, stream_chunk_bytes=1_000)
    async with opening(limits=limits) as fs:
        lines = [f"line {number}" for number in range(2_000)]
        await fs.write_text("f", "\n".join(lines))
        assert (await fs.grep("line")).skipped_paths == ["f"]
        result = await fs.grep("line 1[0-9]99$", max_file_bytes=None, context=1)
        assert [match.line for match in result.matches] == [n * 100 for n in range(11, 21)]
        assert result.matches[0].before == ["line 1098"]
        assert result.matches[-1].after == []


@pytest.mark.spec("GREP-4", "POL-1")
async def test_what_policy_hides_leaves_no_trace(opening, caplog):
    tree = {"open.txt": "x", "gone/deep.txt": "x", "gone.bin": b"x\0"}
    async with opening(policy=Rules(hide("gone", "gone.bin"))) as fs:
        await plant(unruled(fs), tree)
        result = await fs.grep("x")
        assert _found(result) == [("open.txt", 1)]
        assert result.files_searched == 1
        assert "gone" not in repr(result) + caplog.text
        quick = await fs.grep("x", report_skipped=False)
        assert _found(quick) == [("open.txt", 1)]
        for path in ("gone", "gone/deep.txt"):
            with pytest.raises(bailiwick.PathNotFound):
                await fs.grep("x", path)


@pytest.mark.spec("GREP-4", "POL-1")
async def test_what_policy_refuses_is_withheld_and_named(opening):
    policy = Rules(deny("kept", access={"read"}), ask("asked.txt", access={"read"}))
    async with opening(policy=policy) as fs:
        await plant(
            unruled(fs), {"asked.txt": "x", "kept/a.txt": "x", "kept/b.txt": "x", "open.txt": "x"}
        )
        for report in (True, False):
            result = await fs.grep("x", report_skipped=report)
            assert _found(result) == [("open.txt", 1)]
            assert result.withheld == ["asked.txt", "kept"]
        with pytest.raises(bailiwick.PolicyDenied):
            await fs.grep("x", "kept/a.txt")


NESTED_RULES = {
    ".gitignore": "build\n*.log\n", "a.txt": "needle\n", "a.log": "needle\n", "large": "needle" * 9,
    "build/.gitignore": "no.txt\nskip/\n", "build/no.txt": "needle\n", "build/yes.txt": "needle\n",
    "build/sub/.gitignore": "*.tmp\n", "build/sub/x.tmp": "needle\n", "src/b.txt": "Needle\n",
    "build/skip/y.txt": "needle\n", "src/c.bin": b"needle\0", ".hidden/d.txt": "a needle b\n",
    "src/.gitignore": "gen/\n", "src/gen/e.txt": "needle\n", "none.txt": "nothing\n",
}  # fmt: skip

WAYS = (
    {}, {"ignore_case": True}, {"word": True}, {"include_ignored": True}, {"path": "build"},
    {"path": "build/sub"}, {"path": "build", "include_ignored": True}, {"path": "src"},
    {"include": "*.txt"}, {"exclude": "src"}, {"max_results": 2}, {"max_file_bytes": 20},
)  # fmt: skip


@pytest.mark.spec("GREP-1", "GREP-3", "TREE-8")
async def test_leaving_out_the_skips_changes_no_match(opening):
    async with opening(limits=bailiwick.Limits(grep_nominate_files_min=1)) as fs:
        await plant(fs, NESTED_RULES)
        for asked in WAYS:
            careful = await fs.grep("needle", **asked)
            quick = await fs.grep("needle", report_skipped=False, **asked)
            assert quick.matches == careful.matches, asked
            assert quick.truncated == careful.truncated
            assert quick.withheld == careful.withheld
            assert quick.unreadable == careful.unreadable


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize("report_skipped", [True, False])
async def test_a_helper_that_nominates_files_changes_no_answer(tmp_path, report_skipped):
    """The helper names what it must and some more; what rules and limits say is still ours."""
    eager = bailiwick.Limits(grep_nominate_files_min=1)
    async with Opener("memory", tmp_path)(limits=eager) as fs:
        await plant(fs, NESTED_RULES)
        ways = [{"report_skipped": report_skipped, **asked} for asked in WAYS]
        alone = [await fs.grep("needle", **asked) for asked in ways]
        tree, calls = await snapshot(fs), []

        async def nominate(directory, pattern, *, binaries, leave_out, **_):
            calls.append(leave_out)
            left_out = {directory.path.child(name) for name in leave_out}
            return {
                path for path, data in tree.items()
                if data and path.lies_in(directory.path)
                and not any(path.lies_in(each) for each in left_out)
                and (b"eedle" in data or (binaries and b"\0" in data))
            }  # fmt: skip

        fs._pipeline.store.nominate = nominate
        fs._pipeline.reader = reader_of(fs._pipeline.store)
        helped = [await fs.grep("needle", **asked) for asked in ways]
        assert len(calls) == len(ways)
        ignored = {".": ("build",), "build": ("skip",), "src": ("gen",)}
        assert calls == [
            () if "include_ignored" in asked else ignored.get(asked.get("path", "."), ())
            for asked in ways
        ]
        for one, other in zip(alone, helped, strict=True):
            assert other.matches == one.matches
            assert other.skipped_paths == one.skipped_paths
            assert other.skipped_binary_paths == one.skipped_binary_paths
            assert other.truncated == one.truncated
            assert not report_skipped or other.files_searched == one.files_searched


@pytest.mark.spec("GREP-2", "LINK-3", "LINK-5")
async def test_only_regular_files_are_searched(disk):
    async with disk() as fs:
        place = place_of(fs)
        await plant(fs, {"f": "x", "link": "-> f", "d": None, "d/self": "-> .."})
        os.mkfifo(f"{place}/fifo")
        os.symlink("/etc/passwd", f"{place}/outside")
        with open(os.path.join(os.fsencode(place), b"bad-\xff"), "w") as file:
            file.write("x")
        result = await fs.grep("x|root")
        assert _found(result) == [("f", 1)]
        assert result.unreadable == ["bad-\\xff"]
        with pytest.raises(bailiwick.NotARegularFile):
            await fs.grep("x", "fifo")
        with pytest.raises(bailiwick.SymlinkEscape):
            await fs.grep("x", "outside")
        assert _found(await fs.grep("x", "link")) == [("f", 1)]


@pytest.mark.spec("GREP-2", "GREP-3")
async def test_what_a_helper_cannot_name_is_not_dropped_without_the_lists(disk):
    """A name that is no text is unreadable, whether or not the lists were asked for."""
    async with disk(limits=Limits(grep_nominate_files_min=1)) as fs:
        await plant(fs, {"f": "needle"})
        with open(os.path.join(os.fsencode(place_of(fs)), b"bad-\xff"), "w") as file:
            file.write("needle")
        for report in (True, False):
            result = await fs.grep("needle", report_skipped=report)
            assert _found(result) == [("f", 1)]
            assert result.unreadable == ["bad-\\xff"]


HOSTILE = "x[xy]{0,400}x[xy]{900}zz"


def _hostile_text(size):
    choose = random.Random(1)
    return "".join(choose.choices("xy", k=size))


class _Clock:
    """Time that passes only when a search looks at it."""

    def __init__(self, step_ns):
        self.now, self.step, self.looks = 0, step_ns, 0

    def __call__(self):
        self.now += self.step
        self.looks += 1
        return self.now


def _set_clock(monkeypatch, fs, step_ns):
    clock, machine = _Clock(step_ns), fs._pipeline.machine
    monkeypatch.setattr(
        fs._pipeline, "machine", msgspec.structs.replace(machine, monotonic_ns=clock)
    )
    return clock


@pytest.mark.slow
@pytest.mark.spec("GREP-3", "LIFE-1")
@pytest.mark.parametrize("size", [pytest.param(60_000, marks=pytest.mark.slow), 300_000])
async def test_others_get_their_turn_during_a_slow_search(opening, size):
    async with opening(limits=Limits(grep_seconds_max=0.5)) as fs:
        await fs.write_text("f", _hostile_text(size))
        turns = 0

        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        result = await fs.grep(HOSTILE)
        counting.cancel()
        await asyncio.wait([counting])
        assert result.matches == []
        assert turns > 20


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize("path", [".", "f"])
@pytest.mark.parametrize("whole", [True, False])
async def test_the_deadline_holds_inside_a_file(opening, monkeypatch, path, whole):
    limits = Limits(grep_file_bytes_default=(1 << 20) if whole else 1_000)
    async with opening(limits=limits) as fs:
        lines = "".join(f"line {number:05} {'x' * 90}\n" for number in range(9_000))
        await fs.write_text("f", lines)
        clock = _set_clock(monkeypatch, fs, 800_000_000)
        asked = {"max_file_bytes": None, "max_results": 50_000, "context": 2}
        result = await fs.grep("line .*9 x", path, **asked)
        assert result.truncated
        assert "seconds" in result.reason
        assert clock.looks < 40
        found = [match.line for match in result.matches]
        assert found == [10 * n for n in range(1, len(found) + 1)]
        assert 0 < len(found) < 900


@pytest.mark.spec("LIFE-1", "LIFE-2")
async def test_a_cancelled_search_leaves_no_thread_behind(opening):
    async with opening() as fs:
        await fs.write_text("f", _hostile_text(400_000))
        before = set(threading.enumerate())
        searching = asyncio.create_task(fs.grep(HOSTILE))
        while not any(each.name.startswith("bailiwick-grep") for each in threading.enumerate()):
            await asyncio.sleep(0)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        left = set(threading.enumerate()) - before
        assert not [each for each in left if each.name.startswith("bailiwick-grep")]


@pytest.mark.spec("GREP-3", "LIFE-1")
async def test_a_search_with_a_thousand_matches_and_context_leaves_the_loop(opening, monkeypatch):
    """Showing lines is Python's own work: with many of them it is done in the thread as well."""
    inline = []
    search = grep._GrepSearch._search_bytes
    monkeypatch.setattr(
        grep._GrepSearch,
        "_search_bytes",
        lambda self, data: inline.append(1) or search(self, data),
    )
    async with opening() as fs:
        await plant(fs, {"many": "x\n" * 5_000, "few": "x\n" * 50})
        assert len((await fs.grep("x", "many", context=10)).matches) == 1_000
        assert inline == []
        assert len((await fs.grep("x", "few", context=10)).matches) == 50
        assert inline == [1]


@pytest.mark.spec("GREP-4", "PATH-6")
async def test_a_directory_swapped_for_a_link_leads_the_search_to_nothing_hidden(disk):
    """A neighbour puts a link to a hidden directory where the walk has just been."""
    async with disk(policy=Rules(hide("secret"))) as fs:
        await plant(unruled(fs), {"a/f.txt": "needle\n", "secret/f.txt": "needle, hidden\n"})
        store, place = fs._pipeline.store, place_of(fs)
        plain_resolve, swapped = store.resolve, []

        async def swap_first(path, look, **options):
            if path == "a/f.txt" and not swapped:
                swapped.append(path)
                os.rename(os.path.join(place, "a"), os.path.join(place, "b"))
                os.symlink("secret", os.path.join(place, "a"))
            return await plain_resolve(path, look, **options)

        store.resolve = swap_first
        result = await fs.grep("needle")
        assert swapped
        assert _found(result) == []
        assert "secret" not in repr(result)
