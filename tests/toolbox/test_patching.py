"""A patch of several files: all of it or nothing, and whoever must be asked is asked before."""

import asyncio
import contextlib

import pytest

import bailiwick
from bailiwick.errors import (
    ApprovalDenied,
    HashMismatch,
    IoError,
    ParseError,
    PathNotFound,
    PolicyDenied,
    Unsupported,
)
from bailiwick.grant import AgentRun, User
from bailiwick.scope.fronting import as_called
from bailiwick.testing.front_contract import ROOT, story_house
from bailiwick.toolbox import Actor
from bailiwick.toolbox.patching import Part, apply, rehearse
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
    Part("create", "new/deep/c.py", lambda _: "z = 1\n"),
    Part("update", "src/b.py", replaced("y = 1", "y = 2"), move_to="lib/b.py"),
    Part("delete", "gone.py"),
    Part("delete", "too.py"),
    Part("update", "src/a.py", replaced("x = 1", "x = 2")),
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


async def test_all_of_it_is_done(kind, tmp_path):
    async with place(kind, tmp_path) as (fs, agent):
        await fs.set_mode("src/b.py", 0o755)
        said = await apply(agent, PATCH)
        files, _ = await tree(fs)
        assert files == AFTER
        assert (await fs.stat("lib/b.py")).mode & 0o777 == 0o755
    assert said == [
        "created new/deep/c.py", "updated src/b.py, now lib/b.py", "deleted gone.py",
        "deleted too.py", "updated src/a.py",
    ]  # fmt: skip


async def test_a_last_hunk_that_does_not_fit_leaves_everything_as_it_was(kind, tmp_path):
    async with place(kind, tmp_path) as (fs, agent):
        before = await tree(fs)
        broken = (*PATCH[:-1], Part("update", "src/a.py", replaced("q = 1", "q = 2")))
        with pytest.raises(ParseError, match="fit"):
            await apply(agent, broken)
        assert await tree(fs) == before


BAD_LAST = {
    "missing": (Part("delete", "none.py"), PathNotFound),
    "taken": (Part("create", "kept.py", lambda _: "mine"), FileExistsError),
    "moved onto something": (
        Part("update", "src/a.py", replaced("x", "y"), move_to="kept.py"), FileExistsError,
    ),
    "outside": (Part("create", "../out", lambda _: "x"), PermissionError),
}  # fmt: skip


@pytest.mark.parametrize("last", BAD_LAST)
async def test_a_last_part_that_cannot_be_done_leaves_everything_as_it_was(kind, tmp_path, last):
    part, refused = BAD_LAST[last]
    async with place(kind, tmp_path) as (fs, agent):
        before = await tree(fs)
        with pytest.raises(refused):
            await apply(agent, (*PATCH[:-1], part))
        assert await tree(fs) == before


ASKED = Part("update", ".git/config", replaced("[core]", "[evil]"))


@pytest.mark.parametrize("answer", ["once", "no"])
@pytest.mark.parametrize("at", [0, 2, len(PATCH)])
async def test_a_person_is_asked_before_any_part_is_written(kind, tmp_path, at, answer):
    async with place(kind, tmp_path) as (fs, agent):
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


async def test_what_changes_while_a_person_thinks_takes_all_of_it_back(kind, tmp_path):
    """The last part fits no more: what came before it is as it was, and the error says so."""
    async with place(kind, tmp_path) as (fs, agent):

        async def asker(approval):
            await fs.write_text("src/a.py", "somebody else's\n")
            return "once"

        before, directories = await tree(fs)
        with pytest.raises(HashMismatch) as refused:
            await apply(as_called(agent, asker=asker), (*PATCH, ASKED))
        files, now = await tree(fs)
        assert files == {**before, "src/a.py": b"somebody else's\n"}
        assert now == directories
    assert "nothing" in refused.value.hint


async def test_where_two_parts_would_ask_nothing_is_done_and_nobody_is_asked(kind, tmp_path):
    async def asker(approval):
        raise AssertionError("nobody is asked")

    async with place(kind, tmp_path) as (fs, agent):
        before = await tree(fs)
        patch = (*PATCH, ASKED, Part("create", ".git/hooks/x", lambda _: "x"))
        with pytest.raises(Unsupported) as refused:
            await apply(as_called(agent, asker=asker), patch)
        assert await tree(fs) == before
    assert "one by one" in refused.value.hint


async def test_a_part_that_is_forbidden_forbids_the_whole(tmp_path):
    async with story_house(str(tmp_path)) as house:
        scope = await house.authority.request_root(AgentRun("story", "1"), ROOT, ACCESS, "patch")
        parts = (
            Part("create", "a", lambda _: "x"),
            Part("create", "reviewed/a", lambda _: "x"),
            Part("create", "private/a", lambda _: "x"),
        )
        with pytest.raises(PolicyDenied) as refused:
            await apply(scope, parts)
        assert refused.value.decided_by == "private"
        assert house.authority.approvals.pending() == []
        assert not await scope.exists("a")
        await scope.aclose()


async def test_a_rehearsal_finds_the_question_of_any_part(kind, tmp_path):
    async with place(kind, tmp_path) as (fs, agent):
        before = await tree(fs)
        actor = Actor(agent, front="tools", session="s")
        for at in (0, 3, len(PATCH)):
            patch = (*PATCH[:at], ASKED, *PATCH[at:])
            pending = await actor.rehearse(
                "patch", lambda scope, patch=patch: rehearse(scope, patch)
            )
            assert pending.question.target == ".git/config"
        moved = Part("update", "src/a.py", replaced("x", "y"), move_to=".git/hooks/a")
        pending = await actor.rehearse("patch", lambda scope: rehearse(scope, (moved,)))
        assert pending.question.target == ".git/hooks/a"
        assert "+y = 1" in pending.shown()["diff"]
        assert await actor.rehearse("patch", lambda scope: rehearse(scope, PATCH)) is None
        assert await tree(fs) == before


async def test_on_a_server_it_is_one_request(tmp_path):
    async with story_house(str(tmp_path)) as house, served(house) as (url, _):
        secret = await house.authority.tokens.issue("p", "user:ann", by=User("local"), front="test")
        async with bailiwick.connect(url, token=secret, root=ROOT) as fs:
            for path, data in BEFORE.items():
                await fs.write_bytes(path, data, parents=True)
            agent = await fs.delegate(AgentRun("a", "1"))
            before = await tree(fs)
            private = Part("create", "private/a", lambda _: "x")
            with pytest.raises(PolicyDenied):
                await apply(agent, (*PATCH, private))
            assert await tree(fs) == before
            await apply(agent, PATCH)
            assert (await tree(fs))[0] == AFTER
            await agent.aclose()


# --- faults between the parts --------------------------------------------------------------------

CHANGES = {"write_text", "write_bytes", "remove"}


class Faulty:
    """A scope whose changes fail from the ``first`` on, as many as are named. A rehearsal is
    spared: whatever goes wrong then has changed nothing."""

    def __init__(self, scope, first, count, fault):
        self._scope = scope
        self._left = [first, count]
        self._fault = fault

    def __getattr__(self, name):
        verb = getattr(self._scope, name)
        if name not in CHANGES:
            return verb

        async def change(*given, **options):
            first, count = self._left
            if first:
                self._left[0] -= 1
            elif count:
                self._left[1] -= 1
                raise self._fault("a fault")
            return await verb(*given, **options)

        return change


STEPS = 6
"""What the patch comes to: a file made, one made elsewhere, one changed, three removed."""


@pytest.mark.parametrize("fault", [IoError, asyncio.CancelledError])
@pytest.mark.parametrize("first", range(STEPS))
@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_a_fault_at_any_part_takes_all_of_it_back(tmp_path, kind, first, fault):
    async with place(kind, tmp_path) as (fs, agent):
        await fs.set_mode("too.py", 0o755)
        before = await tree(fs)
        with pytest.raises(fault) as failed:
            await apply(Faulty(agent, first, 1, fault), PATCH)
        assert await tree(fs) == before
        assert (await fs.stat("too.py")).mode & 0o777 == 0o755
    if fault is IoError:
        assert "nothing was changed" in failed.value.hint


@pytest.mark.parametrize("first", range(1, STEPS))
async def test_what_cannot_be_taken_back_is_named(tmp_path, first):
    async with place("memory", tmp_path) as (fs, agent):
        before, _ = await tree(fs)
        with pytest.raises(IoError) as failed:
            await apply(Faulty(agent, first, STEPS, IoError), PATCH)
        files, _ = await tree(fs)
    changed = {path for path in before.keys() | files if before.get(path) != files.get(path)}
    assert len(changed) == first
    told = failed.value.hint.partition("stay changed: ")[2].partition(";")[0]
    assert set(told.split(", ")) == changed


async def test_a_patch_without_a_fault_has_as_many_changes_as_that(tmp_path):
    async with place("memory", tmp_path) as (fs, agent):
        await apply(Faulty(agent, STEPS, 1, IoError), PATCH)
        assert (await tree(fs))[0] == AFTER
