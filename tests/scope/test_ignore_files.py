"""Ignore rules through a scope: which paths walks leave out, and when rules take effect."""

import pytest

from tests.scope.support import place_of, plant

TREE = {
    ".gitignore": "*.log\n/build/\n", "a.py": "x", "a.log": "x", "build/out.py": "x",
    "src/.gitignore": "!keep.log\ngenerated.py\n", "src/keep.log": "x", "src/other.log": "x",
    "src/generated.py": "x", "src/main.py": "x", "src/build/fine.py": "x",
    "sub/.bailiwickignore": "private*\n", "sub/private.txt": "x", "sub/public.txt": "x",
    ".git/config": "x", "vendor/.git/HEAD": "x", "vendor/lib.py": "x",
}  # fmt: skip

SHOWN = [
    ".gitignore", "a.py", "src/.gitignore", "src/build/fine.py", "src/keep.log", "src/main.py",
    "sub/.bailiwickignore", "sub/public.txt", "vendor/lib.py",
]  # fmt: skip


@pytest.mark.spec("TREE-6", "TREE-8")
async def test_walks_leave_ignored_paths_out_unless_told(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        everything = sorted(TREE, key=lambda path: path.split("/"))
        assert (await fs.files()).paths == SHOWN
        assert (await fs.files(include_ignored=True)).paths == everything
        assert (await fs.find(type="file")).paths == SHOWN
        assert (await fs.find(type="file", include_ignored=True)).paths == everything
        shown = [path for path in SHOWN if path.endswith(".py")]
        assert (await fs.glob("**/*.py")).paths == shown
        every_py = [path for path in everything if path.endswith(".py")]
        assert (await fs.glob("**/*.py", include_ignored=True)).paths == every_py
        assert {match.path for match in (await fs.grep("x")).matches} == {
            path for path in SHOWN if "ignore" not in path
        }
        assert len((await fs.grep("^x$", include_ignored=True)).matches) == len(TREE) - 3


@pytest.mark.spec("TREE-6", "TREE-8")
async def test_a_listing_leaves_out_or_marks(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        names = [entry.name for entry in (await fs.list()).entries]
        assert names == [".gitignore", "a.py", "src", "sub", "vendor"]
        marked = {e.name: e.ignored for e in (await fs.list(include_ignored=True)).entries}
        assert marked == {
            ".git": True, ".gitignore": False, "a.log": True, "a.py": False, "build": True,
            "src": False, "sub": False, "vendor": False,
        }  # fmt: skip


@pytest.mark.spec("TREE-8")
async def test_a_base_inside_an_ignored_directory_is_walked(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        assert (await fs.files("build")).paths == ["build/out.py"]
        assert (await fs.glob("*", "build")).paths == ["build/out.py"]
        assert [entry.name for entry in (await fs.list("build")).entries] == ["out.py"]
        assert [match.path for match in (await fs.grep("x", "build")).matches] == ["build/out.py"]
        assert (await fs.files(".git")).paths == [".git/config"]


@pytest.mark.spec("TREE-6")
async def test_our_own_change_of_a_rule_shows_at_once(opening):
    async with opening() as fs:
        await plant(fs, {"a.tmp": "x", "b.txt": "x", "d/c.tmp": "x"})
        assert (await fs.read_text("a.tmp")).matched_ignore is None
        await fs.write_text(".gitignore", "*.tmp\n")
        assert (await fs.files()).paths == [".gitignore", "b.txt"]
        assert (await fs.read_text("a.tmp")).matched_ignore == "file"
        await fs.edit(".gitignore", old="*.tmp", new="*.txt")
        assert (await fs.files()).paths == [".gitignore", "a.tmp", "d/c.tmp"]
        assert (await fs.read_text("a.tmp")).matched_ignore is None
        await fs.move(".gitignore", "d/.gitignore")
        assert (await fs.read_text("b.txt")).matched_ignore is None
        await fs.write_text("rules", "b.txt\n")
        await fs.copy("rules", ".bailiwickignore")
        assert (await fs.read_text("b.txt")).matched_ignore == "file"
        await fs.remove(".bailiwickignore")
        assert (await fs.read_text("b.txt")).matched_ignore is None


@pytest.mark.spec("TREE-6")
async def test_a_foreign_change_of_a_rule_shows_in_the_next_listing(disk):
    async with disk() as fs:
        await plant(fs, {"a.tmp": "x", "d/b.tmp": "x"})
        assert (await fs.files()).paths == ["a.tmp", "d/b.tmp"]
        with open(f"{place_of(fs)}/d/.gitignore", "w") as file:
            file.write("*.tmp\n")
        assert (await fs.files()).paths == ["a.tmp", "d/.gitignore"]
        assert [entry.name for entry in (await fs.list("d")).entries] == [".gitignore"]


@pytest.mark.spec("TREE-6")
@pytest.mark.parametrize("under", ["", "d/", "d/e/"])
async def test_a_mark_lags_a_quarter_of_a_second_and_no_more(disk, under):
    """A mark made of what was known before is as old as that."""
    async with disk() as fs:
        await plant(fs, {f"{under}a": "x", f"{under}b": "x", f"{under}c": "x"})
        now_ns = fs._ignores._monotonic_ns() + 10**9  # what was looked at before is old
        fs._ignores._monotonic_ns = lambda: now_ns
        await fs.read_text(f"{under}a")
        with open(f"{place_of(fs)}/.gitignore", "w") as file:
            file.write("*\n")
        now_ns += 200_000_000
        mark = "directory" if under else "file"
        # It may still be of that look; where a look costs little it is not.
        assert (await fs.read_text(f"{under}b")).matched_ignore in (None, mark)
        assert (await fs.read_text(f"{under}a")).matched_ignore is None
        now_ns += 50_000_000
        found = {name: (await fs.read_text(under + name)).matched_ignore for name in "abc"}
        assert set(found.values()) == {mark}


@pytest.mark.spec("TREE-6")
async def test_what_is_known_above_holds_in_a_directory_that_was_not_looked_at(disk):
    async with disk() as fs:
        files = {"d/a.tmp": "file", "e/a.tmp": "file", "f/a.tmp": None, "f/g/a.tmp": None}
        await plant(fs, {".gitignore": "*.tmp\n", "f/.gitignore": "!a.tmp\n"})
        await plant(fs, dict.fromkeys(files, "x"))
        found = {path: (await fs.read_text(path)).matched_ignore for path in files}
        assert found == files


@pytest.mark.spec("TREE-6")
async def test_a_mark_is_as_old_as_the_first_of_what_it_rests_on(disk):
    """Levels are looked at when they are needed: those above may be older."""
    async with disk() as fs:
        await plant(fs, {"a": "x", "d/b": "x"})
        now_ns = fs._ignores._monotonic_ns() + 10**9  # what was looked at before is old
        fs._ignores._monotonic_ns = lambda: now_ns
        await fs.read_text("a")
        with open(f"{place_of(fs)}/.gitignore", "w") as file:
            file.write("b\n")
        now_ns += 200_000_000
        assert (await fs.read_text("d/b")).matched_ignore in (None, "file")  # ``d`` is looked at
        now_ns += 50_000_000
        assert (await fs.read_text("d/b")).matched_ignore == "file"


@pytest.mark.spec("TREE-6")
async def test_a_mark_is_as_old_as_what_others_beneath_the_same_directory_found_missing(disk):
    async with disk() as fs:
        await plant(fs, {"d/a": "x", "e/b": "x"})
        now_ns = fs._ignores._monotonic_ns()
        fs._ignores._monotonic_ns = lambda: now_ns
        for name in ("d/a", "e/b"):
            await fs.read_text(name)
        now_ns += 10**9  # what was looked at before is old
        await fs.read_text("d/a")
        with open(f"{place_of(fs)}/.gitignore", "w") as file:
            file.write("b\n")
        now_ns += 200_000_000
        assert (await fs.read_text("e/b")).matched_ignore in (None, "file")  # ``e`` is looked at
        now_ns += 50_000_000
        assert (await fs.read_text("e/b")).matched_ignore == "file"


@pytest.mark.spec("TREE-6")
async def test_other_names_of_ignore_files_can_be_set(opening):
    async with opening(ignore_files=[".mineignore"]) as fs:
        await plant(fs, {".gitignore": "a\n", ".mineignore": "b\n", "a": "", "b": ""})
        assert (await fs.files()).paths == [".gitignore", ".mineignore", "a"]


@pytest.mark.spec("TREE-6")
async def test_an_ignore_file_that_is_no_readable_file_ignores_nothing(opening):
    async with opening() as fs:
        await plant(fs, {"d/.gitignore/x": "", "e/rules": "*\n", "e/.gitignore": "-> rules"})
        found = (await fs.files()).paths
        assert found == ["d/.gitignore/x", "e/rules"]


@pytest.mark.spec("TREE-6")
async def test_rules_come_and_go_with_ignore_files_and_with_directories_that_hold_them(opening):
    async with opening() as fs:
        await plant(
            fs, {"a.log": "x", "d/a.log": "x", "rules": "*.log\n", "kept/.gitignore": "*.log"}
        )

        async def marks():
            paths = [path for path in ("a.log", "d/a.log") if (await fs.exists(path))]
            return {path for path in paths if (await fs.read_text(path)).matched_ignore}

        assert await marks() == set()
        await fs.move("rules", ".gitignore")
        assert await marks() == {"a.log", "d/a.log"}
        await fs.move(".gitignore", "rules")
        assert await marks() == set()
        await fs.copy("rules", "d/.gitignore")
        assert await marks() == {"d/a.log"}
        await fs.move("a.log", "d/.gitignore", replace=True)  # which ignores nothing
        assert await marks() == set()
        await fs.remove("d/.gitignore")
        await fs.copy("rules", "d/.gitignore")
        assert await marks() == {"d/a.log"}
        await fs.remove("d", recursive=True)
        await fs.move("kept", "d")
        await fs.write_text("d/a.log", "x")
        assert await marks() == {"d/a.log"}


@pytest.mark.spec("TREE-6")
async def test_what_is_known_of_rules_outlives_changes_of_other_files(opening):
    async with opening() as fs:
        await plant(fs, {"a": "x", "b": "x", "d/c": "x"})
        assert (await fs.read_text("a")).matched_ignore is None
        forgotten = fs._ignores._times_forgotten
        await fs.move("a", "d/a")
        await fs.copy("b", "e")
        await fs.remove("b")
        assert fs._ignores._times_forgotten == forgotten
        await fs.remove("d", recursive=True)
        assert fs._ignores._times_forgotten > forgotten
