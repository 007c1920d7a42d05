"""What lies beyond a grant is not reached by any way, and what a request gave up stays given up."""

import os

import pytest

import bailiwick
from tests.authority.support import everything_said, governed, refusal

TREE = {
    "src/a.md": "inside\n", "src/sub/b.md": "inside\n", "src/private/c.md": "s3cr3t\n",
    "src/out": "-> ../secret.txt", "src/way": "-> ../elsewhere", "src/in": "-> private/c.md",
    "secret.txt": "s3cr3t\n", "elsewhere/d.md": "s3cr3t\n", "elsewhere/back": "-> ../src",
}  # fmt: skip

NARROWED = {
    # how a scope comes to reach no more than src, without src/private
    "request": lambda house: house.scope(
        path="src", policy=bailiwick.Narrowing(denied=("src/private/**",))
    ),
    "globs": lambda house: house.scope(
        policy=bailiwick.Narrowing(allowed=("src/**",), denied=("src/private/**",))
    ),
}


async def _delegated(house):
    return await (await house.scope()).delegate(
        bailiwick.AgentRun("c1", "child"), path="src", denied=["src/private/**"]
    )


async def _rebased(house):
    return await (await house.scope()).delegate(
        bailiwick.AgentRun("c1", "child"), path="src", denied=["src/private/**"], rebase=True
    )


WAYS = {**NARROWED, "delegate": _delegated, "rebase": _rebased}

BEYOND = ("secret.txt", "elsewhere/d.md", "src/private/c.md", "elsewhere/back/private/c.md")
LINKED = ("src/out", "src/way/d.md", "src/in", "src/way/back/private/c.md")


def _acts(fs, path):
    """Everything that reads or changes one place."""
    return {
        "read": lambda: fs.read_text(path),
        "stat": lambda: fs.stat(path),
        "exists": lambda: fs.exists(path),
        "grep": lambda: fs.grep("s3cr3t", path),
        "diff": lambda: fs.diff(path, text=""),
        "list": lambda: fs.list(path),
        "write": lambda: fs.write_text(path, "mine"),
        "append": lambda: fs.append(path, "mine"),
        "edit": lambda: fs.edit(path, old="s", new="t"),
        "remove": lambda: fs.remove(path, recursive=True),
        "mode": lambda: fs.set_mode(path, 0o700),
        "make": lambda: fs.make_dir(path + "/new", parents=True),
        "archive": lambda: fs.create_archive(path, "src/x.tar"),
        "watch": lambda: fs.on_change(lambda change: None, path),
    }


@pytest.mark.spec("AUTH-4", "AUTH-5", "PATH-6")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("way", WAYS)
async def test_nothing_beyond_a_grant_is_read_or_changed(tmp_path, way, on_disk):
    state = tmp_path / "state" if on_disk else None
    async with governed(tmp_path, on_disk=on_disk, state_dir=state) as house:
        await house.plant(TREE)
        fs = await WAYS[way](house)
        kept = {path: value for path, value in (await house.tree()).items() if value}
        for path in (*BEYOND, *LINKED):
            seen = path
            if way == "rebase":
                if not path.startswith("src/"):
                    continue
                seen = path.removeprefix("src/")
            for name, act in _acts(fs, seen).items():
                try:
                    said = everything_said(await act())
                except bailiwick.BailiwickError as error:
                    said = everything_said(error)
                assert "s3cr3t" not in said.replace(seen, ""), (name, path, said)
        after = {path: value for path, value in (await house.tree()).items() if value}
        links = {path for path in TREE if path in LINKED}
        for path, value in kept.items():
            if path not in links:  # a link in reach may be replaced or removed: it is in reach
                assert after[path] == value, path


@pytest.mark.spec("AUTH-5", "TREE-2")
@pytest.mark.parametrize("way", ["request", "delegate", "globs"])
async def test_nothing_is_carried_over_the_edge_of_a_grant(tmp_path, way):
    async with governed(tmp_path) as house:
        await house.plant(TREE)
        before = await house.tree()
        fs = await WAYS[way](house)
        whole = await house.scope()
        for work in (
            fs.move("src/a.md", "elsewhere/a.md"), fs.move("elsewhere/d.md", "src/d.md"),
            fs.copy("elsewhere", "src/e", recursive=True), fs.copy("src/a.md", "a.md"),
            fs.move("src", "src2"), fs.move("src/private", "src/public"),
            fs.copy("src/private/c.md", "src/c.md"), fs.symlink("elsewhere/l", "d.md"),
            fs.copy_from(fs, "secret.txt", "src/s"), fs.copy_from(whole, "secret.txt", "s"),
            whole.copy_from(fs, "secret.txt", "copied"), fs.move("src/a.md", "src/private/a.md"),
            fs.write_text("elsewhere/new", "x"), fs.create_archive("src/a.md", "x.tar"),
            fs.create_archive(["src/a.md", "secret.txt"], "src/x.tar"),
            fs.remove("src/private", recursive=True),
            fs.copy("src/private", "src/sub/all", recursive=True),
        ):  # fmt: skip
            error = await refusal(work)
            # What a tree holds beyond the grant is not named: the tree is not empty for it.
            assert error.kind in ("missing_access", "directory_not_empty"), error
        assert await house.tree() == before


@pytest.mark.spec("AUTH-4", "LINK-1", "LINK-4")
async def test_what_a_request_gave_up_cannot_be_had_back(tmp_path):
    async with governed(tmp_path, on_disk=True, state_dir=tmp_path / "state") as house:
        await house.plant({"f": "x" * 100, "l": "-> f", "d/g": "x"})
        os.link(house.place / "d/g", house.place / "d/h")
        usual = await house.scope()
        for path in ("l", "d/h"):
            await usual.read_text(path)
        strict = await house.scope(
            policy=bailiwick.Narrowing(symlinks="reject", hardlinks="reject", max_file_bytes=50)
        )
        heir = await strict.delegate(bailiwick.AgentRun("c1", "child"))
        for fs in (strict, heir):
            assert (await refusal(fs.read_text("l"))).kind == "symlink_escape"
            assert (await refusal(fs.symlink("m", "f"))).kind == "symlink_escape"
            assert (await refusal(fs.read_text("d/h"))).kind == "hardlink_refused"
            assert (await refusal(fs.write_bytes("n", b"x" * 51))).kind == "file_too_large"
            assert (await refusal(fs.append("f", b"x"))).kind == "file_too_large"
            assert fs.limits.max_file_bytes == 50
        for path in ("l", "d/h"):
            await usual.read_text(path)
        assert set(await house.tree()) == {"f", "l", "d", "d/g", "d/h"}


@pytest.mark.spec("AUTH-4")
async def test_a_request_is_read_strictly(tmp_path):
    async with governed(tmp_path) as house:
        for access in ("read", {"reed"}, {"read", 1}):
            assert (await refusal(house.scope(access))).kind == "parse_error"
        for root in ("workspace:nowhere", "workspace"):
            error = await refusal(house.scope({"read"}, root=root))
            assert error.kind in ("root_not_found", "parse_error")
        for path in ("../x", "/elsewhere", "a\0b"):
            error = await refusal(house.scope({"read"}, path=path))
            assert error.kind in ("path_outside_workspace", "parse_error")
        for glob in ("", "../**", "/x"):
            assert (await refusal(_without(house, glob))).kind == "parse_error"
        for subject in ("agent_run:c1", "nobody:x", "", "user:*"):
            assert (await refusal(house.scope({"read"}, subject=subject))).kind == "parse_error"
        fs = await house.scope(set())
        assert (await refusal(fs.exists("f"))).kind == "missing_access"


async def _without(house, glob):
    return await house.scope({"read"}, policy=bailiwick.Narrowing(denied=(glob,)))
