"""Patches: of one file on every store, and of several where they can appear at once."""

import asyncio
import contextlib
import os

import pytest

import bailiwick
from bailiwick.errors import (
    ApprovalDenied,
    HashMismatch,
    IoError,
    IsADirectory,
    MissingAccess,
    ParseError,
    PathNotFound,
    PolicyDenied,
    Unsupported,
)
from bailiwick.grant import AgentRun, User
from bailiwick.scope.front_access import as_called
from bailiwick.testing.front_contract import CONFIG, ROOT, story_house
from bailiwick.toolbox import Actor
from bailiwick.toolbox.patch import PatchPart, apply, rehearse
from tests.fronts.test_front_contract import ACCESS, served

pytestmark = pytest.mark.spec("TOOL-5", "EDIT-3", "POL-4")

BEFORE = {
    "src/a.py": b"x = 1\n",
    "src/b.py": b"y = 1\r\n",
    "gone.py": b"old\n",
    "too.py": b"old too\n",
    ".git/config": b"[core]\n",
    "kept.py": b"kept\n",
}


def replaced(old, new):
    """A hunk: it fits where the old text stands."""

    def patched(text):
        if old not in text:
            raise ParseError("the patch does not fit the file")
        return text.replace(old, new)

    return patched


PATCH = (
    PatchPart("create", "new/deep/c.py", lambda _: "z = 1\n"),
    PatchPart("update", "src/b.py", replaced("y = 1", "y = 2"), move_to="lib/b.py"),
    PatchPart("delete", "gone.py"),
    PatchPart("delete", "too.py"),
    PatchPart("update", "src/a.py", replaced("x = 1", "x = 2")),
)

AFTER = {
    "new/deep/c.py": b"z = 1\n",
    "lib/b.py": b"y = 2\r\n",
    "src/a.py": b"x = 2\n",
    ".git/config": b"[core]\n",
    "kept.py": b"kept\n",
}


async def tree(fs):
    """Everything there is: what files hold, and which directories there are."""
    found = (await fs.find(include_ignored=True)).matches
    files = {
        str(entry.path): (await fs.read_bytes(entry.path)).data
        for entry in found
        if entry.type == "file"
    }
    return files, sorted(str(entry.path) for entry in found if entry.type == "directory")


@contextlib.asynccontextmanager
async def place(kind, tmp_path):
    """A person's scope, and an agent's on the same."""
    options = {}
    if kind == "disk with history":
        options = {"history": "on", "state_dir": str(tmp_path / "state")}
    (tmp_path / "tree").mkdir()
    where = {"memory": "memory:", "volume": f"sqlite:{tmp_path}/v.db"}.get(kind, tmp_path / "tree")
    async with bailiwick.open(where, **options) as fs:
        for path, data in BEFORE.items():
            await fs.write_bytes(path, data, parents=True)
        yield fs, await fs.delegate(AgentRun("a", "1"))


@pytest.fixture(params=["memory", "disk", "disk with history", "volume"])
def kind(request):
    return request.param


@pytest.fixture(params=["memory", "disk", "disk with history"])
def plain(request):
    """The stores without transactions."""
    return request.param


# --- several files: where there are transactions -------------------------------------------------


async def test_all_of_it_is_done(tmp_path):
    async with place("volume", tmp_path) as (fs, agent):
        await fs.set_mode("src/b.py", 0o755)
        said = await apply(agent, PATCH)
        files, _ = await tree(fs)
        assert files == AFTER
        assert (await fs.stat("lib/b.py")).mode & 0o777 == 0o755
    assert said == [
        "created new/deep/c.py", "updated src/b.py, now lib/b.py", "deleted gone.py",
        "deleted too.py", "updated src/a.py",
    ]  # fmt: skip


async def test_several_files_are_refused_where_nothing_makes_them_appear_at_once(plain, tmp_path):
    async def asker(approval):
        raise AssertionError("nobody is asked")

    async with place(plain, tmp_path) as (fs, agent):
        before = await tree(fs)
        with pytest.raises(Unsupported) as refused:
            await apply(as_called(agent, asker=asker), (*PATCH, ASKED))
        assert await tree(fs) == before
    assert "one by one" in refused.value.hint


LAST = {
    "no hunk that fits": (PatchPart("update", "src/a.py", replaced("q = 1", "q = 2")), ParseError),
    "missing": (PatchPart("delete", "none.py"), PathNotFound),
    "taken": (PatchPart("create", "kept.py", lambda _: "mine"), FileExistsError),
    "moved onto something": (
        PatchPart("update", "src/a.py", replaced("x", "y"), move_to="kept.py"), FileExistsError,
    ),
    "outside": (PatchPart("create", "../out", lambda _: "x"), PermissionError),
}  # fmt: skip


@pytest.mark.parametrize("last", LAST)
async def test_a_last_part_that_cannot_be_done_leaves_everything_as_it_was(tmp_path, last):
    part, refused = LAST[last]
    async with place("volume", tmp_path) as (fs, agent):
        before = await tree(fs)
        with pytest.raises(refused):
            await apply(agent, (*PATCH[:-1], part))
        assert await tree(fs) == before


ASKED = PatchPart("update", ".git/config", replaced("[core]", "[evil]"))


@pytest.mark.parametrize("answer", ["once", "no"])
@pytest.mark.parametrize("at", [0, 2, len(PATCH)])
async def test_a_person_is_asked_before_any_part_is_written(tmp_path, at, answer):
    async with place("volume", tmp_path) as (fs, agent):
        before = await tree(fs)
        asked = []

        async def asker(approval):
            assert await tree(fs) == before
            asked.append(approval.question.target)
            return answer

        patch = (*PATCH[:at], ASKED, *PATCH[at:])
        work = apply(as_called(agent, asker=asker), patch)
        if answer == "once":
            await work
            assert (await tree(fs))[0] == {**AFTER, ".git/config": b"[evil]\n"}
        else:
            with pytest.raises(ApprovalDenied):
                await work
            assert await tree(fs) == before
    assert asked == [".git/config"]


@pytest.mark.parametrize("asked", [ASKED, PatchPart("delete", ".git/config")])
async def test_what_changes_while_a_person_thinks_takes_all_of_it_back(tmp_path, asked):
    """One part fits no more: everything else is as it was, and the error says so. What the person
    was asked about is there too, were it a removal that they have agreed to."""
    async with place("volume", tmp_path) as (fs, agent):

        async def asker(approval):
            await fs.write_text("src/a.py", "somebody else's\n")
            return "once"

        before, directories = await tree(fs)
        with pytest.raises(HashMismatch) as refused:
            await apply(as_called(agent, asker=asker), (*PATCH, asked))
        files, now = await tree(fs)
        assert files == {**before, "src/a.py": b"somebody else's\n"}
        assert now == directories
    assert "nothing" in refused.value.hint


async def test_where_two_parts_would_ask_nothing_is_done_and_nobody_is_asked(tmp_path):
    async def asker(approval):
        raise AssertionError("nobody is asked")

    async with place("volume", tmp_path) as (fs, agent):
        before = await tree(fs)
        patch = (*PATCH, ASKED, PatchPart("create", ".git/hooks/x", lambda _: "x"))
        with pytest.raises(Unsupported) as refused:
            await apply(as_called(agent, asker=asker), patch)
        assert await tree(fs) == before
    assert "one by one" in refused.value.hint


async def test_a_part_that_is_forbidden_forbids_the_whole(tmp_path):
    async with story_house(str(tmp_path)) as house:
        scope = await house.authority.request_root(AgentRun("story", "1"), ROOT, ACCESS, "patch")
        parts = (
            PatchPart("create", "a", lambda _: "x"),
            PatchPart("create", "reviewed/a", lambda _: "x"),
            PatchPart("create", "private/a", lambda _: "x"),
        )
        with pytest.raises(PolicyDenied) as refused:
            await apply(scope, parts)
        assert refused.value.decided_by == "private"
        assert house.authority.approvals.pending() == []
        assert not await scope.exists("a")
        await scope.aclose()


async def test_a_rehearsal_finds_the_question_of_any_part(tmp_path):
    async with place("volume", tmp_path) as (fs, agent):
        before = await tree(fs)
        actor = Actor(agent, front="tools", session="s")
        for at in (0, 3, len(PATCH)):
            patch = (*PATCH[:at], ASKED, *PATCH[at:])
            pending = await actor.rehearse(
                "patch", lambda scope, patch=patch: rehearse(scope, patch)
            )
            assert pending.question.target == ".git/config"
        assert await actor.rehearse("patch", lambda scope: rehearse(scope, PATCH)) is None
        assert await tree(fs) == before


TWICE = {
    "an update and a move": (
        PatchPart("update", "src/a.py", replaced("x", "X")),
        PatchPart("update", "src/a.py", replaced("1", "2"), move_to="b.py"),
    ),
    "spelled otherwise": (
        PatchPart("update", "src/a.py", replaced("x", "X")),
        PatchPart("update", "src/./a.py", replaced("1", "2")),
    ),
    "removed and made": (PatchPart("delete", "gone.py"), PatchPart("create", "gone.py", str)),
    "a chain": (
        PatchPart("update", "src/a.py", str, move_to="m.py"),
        PatchPart("update", "m.py", str, move_to="n.py"),
    ),
    "two onto one": (
        PatchPart("update", "src/a.py", str, move_to="m.py"),
        PatchPart("update", "src/b.py", str, move_to="./m.py"),
    ),
    "an update and a removal": (
        PatchPart("update", "src/a.py", replaced("x", "X")), PatchPart("delete", "src/a.py"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("twice", TWICE)
async def test_no_two_parts_are_about_the_same_file(kind, tmp_path, twice):
    async with place(kind, tmp_path) as (fs, agent):
        before = await tree(fs)
        with pytest.raises(ParseError, match="same file"):
            await apply(agent, TWICE[twice])
        assert await tree(fs) == before


# --- one file: on every store --------------------------------------------------------------------

ONE = {
    "create": (PatchPart("create", "n/c.py", lambda _: "z\n"), {"n/c.py": b"z\n"}),
    "update": (PATCH[-1], {"src/a.py": b"x = 2\n"}),
    "delete": (PatchPart("delete", "gone.py"), {"gone.py": None}),
    "move": (PATCH[1], {"src/b.py": None, "lib/b.py": b"y = 2\r\n"}),
    "move to itself": (
        PatchPart("update", "src/a.py", replaced("x", "X"), move_to="src/./a.py"),
        {"src/a.py": b"X = 1\n"},
    ),
}  # fmt: skip


def after(changes):
    return {path: data for path, data in {**BEFORE, **changes}.items() if data is not None}


@pytest.mark.parametrize("one", ONE)
async def test_one_file_is_patched_on_every_store(kind, tmp_path, one):
    part, changes = ONE[one]
    async with place(kind, tmp_path) as (fs, agent):
        await fs.set_mode("src/b.py", 0o755)
        await apply(agent, (part,))
        assert (await tree(fs))[0] == after(changes)
        if one == "move":
            assert (await fs.stat("lib/b.py")).mode & 0o777 == 0o755


async def test_a_patch_removes_no_directory(kind, tmp_path):
    async with place(kind, tmp_path) as (fs, agent):
        await fs.make_dir("empty")
        with pytest.raises(IsADirectory):
            await apply(agent, (PatchPart("delete", "empty"),))
        assert await fs.exists("empty")


async def test_a_link_is_removed_as_such_and_not_given_another_name(kind, tmp_path):
    """The file that it leads to would stay where it is, under both names."""
    async with place(kind, tmp_path) as (fs, agent):
        await fs.symlink("l.py", "kept.py")
        before = await tree(fs)
        with pytest.raises(Unsupported, match="link"):
            await apply(agent, (PatchPart("update", "l.py", replaced("k", "K"), move_to="m.py"),))
        assert await tree(fs) == before
        await apply(agent, (PatchPart("delete", "l.py"),))
        assert (await tree(fs))[0] == BEFORE
        assert not await fs.exists("l.py")


MOVED_IN = PatchPart("update", "src/a.py", replaced("x", "y"), move_to=".git/hooks/a")
MOVED_OUT = PatchPart("update", ".git/config", replaced("core", "more"), move_to="kept/config")


async def test_a_person_sees_what_will_stand_at_the_new_place(kind, tmp_path):
    async with place(kind, tmp_path) as (_, agent):
        actor = Actor(agent, front="tools", session="s")
        pending = await actor.rehearse("patch", lambda scope: rehearse(scope, (MOVED_IN,)))
        assert pending.question.target == ".git/hooks/a"
        assert "+y = 1" in pending.shown()["diff"]


@pytest.mark.parametrize("answer", ["once", "no"])
@pytest.mark.parametrize("part", [MOVED_IN, MOVED_OUT])
async def test_a_move_that_asks_is_made_whole_or_not_at_all(kind, tmp_path, part, answer):
    async with place(kind, tmp_path) as (fs, agent):
        before = await tree(fs)
        old = BEFORE[part.path]

        async def asker(approval):
            files, _ = await tree(fs)
            assert files[part.path] == old, "what is removed is removed last"
            return answer

        work = apply(as_called(agent, asker=asker), (part,))
        if answer == "no":
            with pytest.raises(ApprovalDenied):
                await work
            assert await tree(fs) == before
        else:
            await work
            new = part.patched(old.decode()).encode()
            assert (await tree(fs))[0] == after({part.path: None, part.move_to: new})


async def test_a_file_that_changes_while_a_person_thinks_about_its_removal_stays(kind, tmp_path):
    async with place(kind, tmp_path) as (fs, agent):

        async def asker(approval):
            await fs.write_text(".git/config", "[core]\nand a line\n")
            return "once"

        with pytest.raises(HashMismatch) as refused:
            await apply(as_called(agent, asker=asker), (MOVED_OUT,))
        assert (await tree(fs))[0] == after({".git/config": b"[core]\nand a line\n"})
    assert "nothing was changed" in refused.value.hint


class Slow:
    """A scope on which somebody acts right before a transaction begins."""

    def __init__(self, scope, act):
        self._scope = scope
        self._act = act

    def __getattr__(self, name):
        return getattr(self._scope, name)

    @contextlib.asynccontextmanager
    async def transaction(self):
        await self._act()
        async with self._scope.transaction() as inside:
            yield inside


async def test_a_file_that_changed_after_it_was_read_is_not_moved(tmp_path):
    async with place("volume", tmp_path) as (fs, agent):

        async def person():
            await fs.write_bytes("src/b.py", b"theirs\n")

        with pytest.raises(HashMismatch):
            await apply(Slow(agent, person), (PATCH[1],))
        assert (await tree(fs))[0] == after({"src/b.py": b"theirs\n"})


async def test_a_move_both_ends_of_which_ask_is_refused(kind, tmp_path):
    async def asker(approval):
        raise AssertionError("nobody is asked")

    async with place(kind, tmp_path) as (fs, agent):
        before = await tree(fs)
        part = PatchPart("update", ".git/config", replaced("core", "more"), move_to=".git/other")
        with pytest.raises(Unsupported) as refused:
            await apply(as_called(agent, asker=asker), (part,))
        assert await tree(fs) == before
    assert "one by one" in refused.value.hint


async def test_a_move_without_the_right_to_remove_writes_nothing(kind, tmp_path):
    async with place(kind, tmp_path) as (fs, _):
        access = ("read", "list", "metadata", "write")
        agent = await fs.delegate(AgentRun("a", "2"), access=access)
        before = await tree(fs)
        with pytest.raises(MissingAccess):
            await apply(agent, (PATCH[1],))
        assert await tree(fs) == before


# --- faults between the two halves of a move -----------------------------------------------------

CHANGES = {"write_text", "write_bytes", "remove"}


class Meddling:
    """A scope where something happens before, or after, the change of a given number; a rehearsal
    is spared. A fault that comes after a change is an answer that was lost."""

    def __init__(self, scope, number, *, before=None, after=None):
        self._scope = scope
        self._left = number
        self._before = before
        self._after = after

    def __getattr__(self, name):
        verb = getattr(self._scope, name)
        if name not in CHANGES:
            return verb

        async def change(*given, **options):
            self._left -= 1
            if self._left == -1 and self._before is not None:
                await self._before()
            result = await verb(*given, **options)
            if self._left == -1 and self._after is not None:
                await self._after()
            return result

        return change


def failing(fault):
    async def fail():
        raise fault("a fault")

    return fail


@pytest.mark.parametrize("fault", [IoError, asyncio.CancelledError])
@pytest.mark.parametrize("number", [0, 1])
async def test_a_fault_in_a_move_takes_it_back(plain, tmp_path, number, fault):
    async with place(plain, tmp_path) as (fs, agent):
        before = await tree(fs)
        with pytest.raises(fault) as failed:
            await apply(Meddling(agent, number, before=failing(fault)), (PATCH[1],))
        assert await tree(fs) == before
    if fault is IoError and number:
        assert "nothing was changed" in failed.value.hint


async def test_a_file_that_is_gone_already_is_not_taken_back_from_its_new_place(plain, tmp_path):
    """The removal was done and its answer lost: what is at the new place is all that is left."""
    async with place(plain, tmp_path) as (fs, agent):
        with pytest.raises(IoError) as failed:
            await apply(Meddling(agent, 1, after=failing(IoError)), (PATCH[1],))
        assert (await tree(fs))[0] == after({"src/b.py": None, "lib/b.py": b"y = 2\r\n"})
    assert "lib/b.py stays" in failed.value.hint


async def test_what_a_person_wrote_to_the_new_file_meanwhile_is_theirs(plain, tmp_path):
    async with place(plain, tmp_path) as (fs, agent):

        async def person():
            await fs.write_bytes("lib/b.py", b"hours of work\n")
            await fs.write_bytes("src/b.py", b"also theirs\n")

        with pytest.raises(HashMismatch) as failed:
            await apply(Meddling(agent, 0, after=person), (PATCH[1],))
        changes = {"lib/b.py": b"hours of work\n", "src/b.py": b"also theirs\n"}
        assert (await tree(fs))[0] == after(changes)
    assert "nothing was changed" not in failed.value.hint
    assert "lib/b.py stays" in failed.value.hint


async def test_a_directory_that_others_use_by_now_stays(plain, tmp_path):
    async with place(plain, tmp_path) as (fs, agent):

        async def person():
            await fs.write_text("lib/other", "theirs\n")
            await fs.write_bytes("src/b.py", b"also theirs\n")

        with pytest.raises(HashMismatch) as failed:
            await apply(Meddling(agent, 0, after=person), (PATCH[1],))
        changes = {"lib/other": b"theirs\n", "src/b.py": b"also theirs\n"}
        assert (await tree(fs))[0] == after(changes)
    assert "nothing was changed" in failed.value.hint


# --- on a server ---------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def served_place(tmp_path, config=CONFIG):
    """A person's scope over HTTP, and an agent's on the same."""
    async with story_house(str(tmp_path), config) as house, served(house) as (url, _):
        secret = await house.authority.tokens.issue("p", "user:ann", by=User("local"), front="test")
        async with bailiwick.connect(url, token=secret, root=ROOT) as fs:
            for path, data in BEFORE.items():
                await fs.write_bytes(path, data, parents=True)
            agent = await fs.delegate(AgentRun("a", "1"))
            try:
                yield fs, agent
            finally:
                await agent.aclose()


async def test_on_a_server_it_is_one_request(tmp_path):
    async with served_place(tmp_path) as (fs, agent):
        before = await tree(fs)
        private = PatchPart("create", "private/a", lambda _: "x")
        with pytest.raises(PolicyDenied):
            await apply(agent, (*PATCH, private))
        assert await tree(fs) == before
        with pytest.raises(ParseError, match="same file"):
            await apply(agent, TWICE["an update and a move"])
        assert await tree(fs) == before
        await apply(agent, PATCH)
        assert (await tree(fs))[0] == AFTER


async def test_on_a_server_too_a_file_that_changed_meanwhile_is_not_moved(tmp_path):
    async with served_place(tmp_path) as (fs, agent):

        async def person():
            await fs.write_text("src/b.py", "y = 1\nand a line\n")

        with pytest.raises(HashMismatch) as refused:
            await apply(Slow(agent, person), (PATCH[1],))
        files, _ = await tree(fs)
        assert files.keys() == BEFORE.keys()
        assert b"and a line" in files["src/b.py"]
    assert "nothing was changed" in refused.value.hint


def served_from_a_directory(tmp_path):
    """The story where the server's root is a directory, which has no transactions."""
    os.mkdir(tmp_path / "tree")
    volume = 'volume = "sqlite:story.db?volume=story"'
    assert volume in CONFIG
    return served_place(tmp_path, CONFIG.replace(volume, 'path = "tree"'))


async def test_on_a_directory_of_a_server_files_are_patched_one_by_one(tmp_path):
    async with served_from_a_directory(tmp_path) as (fs, agent):
        before = await tree(fs)
        parts = (
            PatchPart("create", "ok.txt", lambda _: "1"),
            PatchPart("create", "reviewed/x", lambda _: "2"),
        )
        with pytest.raises(Unsupported) as refused:
            await apply(agent, parts)
        assert "one by one" in refused.value.hint
        assert await tree(fs) == before
        for part in PATCH:
            await apply(agent, (part,))
        assert (await tree(fs))[0] == AFTER


async def test_on_a_directory_of_a_server_a_move_needs_the_right_to_remove(tmp_path):
    """A server says so only when it is asked to remove: then the new file could not go either."""
    async with served_from_a_directory(tmp_path) as (fs, _):
        access = ("read", "list", "metadata", "write")
        agent = await fs.delegate(AgentRun("a", "2"), access=access)
        before = await tree(fs)
        with pytest.raises(MissingAccess):
            await apply(agent, (PATCH[1],))
        assert await tree(fs) == before
        await agent.aclose()
