"""What versions must not open: approvals that go further than what was seen, quotas that forks or
transactions get round, names and hashes that plans and conflicts would tell."""

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

import bailiwick
from bailiwick import (
    ApprovalDenied,
    Automation,
    HashMismatch,
    LockHeld,
    PolicyDenied,
    QuotaExceeded,
)
from bailiwick.store import WritePlan
from tests.authority.asked import sha, surfaced, waits
from tests.authority.support import (
    EVERYTHING,
    ME,
    House,
    Person,
    everything_said,
    refusal,
    rule,
)
from tests.scope.volumes import text, tree

AGENTS = "agent_run:*"
HIDES = rule("hide", "hid", "hid/**", id="keeps", subject=AGENTS)


def asks(path, access="write", **conditions):
    return rule("ask", path, id="asks", access=[access], subject=AGENTS, **conditions)


@asynccontextmanager
async def house_on_volume(tmp_path, rules="", *, root="", grant="", more="", place=""):
    file = tmp_path / "bailiwick.toml"
    file.write_text(f"""
[state]
durability = "rename"
{more}
[[root]]
id = "demo"
kind = "workspace"
trusted = true
volume = "sqlite:v.db?volume=demo{place}"
{root}
[[grant]]
subject = "agent_run:*"
root = "workspace:*"
access = {json.dumps(EVERYTHING)}
{grant}
{rules}
""")
    opening = bailiwick.Authority.from_config(file, state_dir=str(tmp_path / "state"))
    async with opening as authority:
        yield House(authority, None)


async def approve(house, approval_id, answer="once"):
    await house.authority.approvals.answer(approval_id, answer, by=str(ME), front="cli")


def question(house, approval_id):
    return house.authority.approvals.get(approval_id).question


# --- what a person approved ---------------------------------------------------------------------


@pytest.mark.spec("ASK-1", "ASK-2", "VOL-5")
async def test_an_approval_to_read_is_for_the_version_that_was_asked_about(tmp_path):
    async with house_on_volume(tmp_path, more=surfaced()) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        old = (await person.write_text(".env", "SECRET=real\n")).version
        await person.write_text(".env", "harmless\n")
        now = await waits(agent, lambda fs: fs.read_text(".env"))
        await approve(house, now)
        refused = await refusal(agent.with_approval(now).read_text(".env", as_of=old))
        assert (type(refused), refused.details) == (ApprovalDenied, {"differs": "arguments"})
        assert await text(agent.with_approval(now), ".env") == "harmless\n"
        for act in (
            lambda fs: fs.read_text(".env", as_of=old),
            lambda fs: fs.diff(".env", as_of=old),
            lambda fs: fs.diff(".env", ".env", other_as_of=old),
            lambda fs: fs.restore(".env", old),
        ):
            then = await waits(agent, act)
            assert old in question(house, then).arguments
            await approve(house, then)
            await act(agent.with_approval(then))


@pytest.mark.spec("ASK-1", "VOL-5")
async def test_an_answer_for_longer_is_for_what_stands_there_not_for_what_stood_there(tmp_path):
    async with house_on_volume(tmp_path) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        old = (await person.write_text(".env", "SECRET=real\n")).version
        await person.write_text(".env", "harmless\n")
        asked = Person("grant")
        agent = agent.with_caller("test", asker=asked)
        assert await text(agent, ".env") == await text(agent, ".env") == "harmless\n"
        assert len(asked.asked) == 1
        asked.answer = "no"
        with pytest.raises(ApprovalDenied):
            await agent.read_text(".env", as_of=old)
        assert len(asked.asked) == 2


@pytest.mark.spec("ASK-2", "VOL-6")
async def test_an_approval_is_for_the_branch_that_it_was_given_in(tmp_path):
    async with house_on_volume(tmp_path, more=surfaced()) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        await person.write_text(".git/config", "x", parents=True)
        fork = await agent.fork("sandbox")

        def write(fs):
            return fs.write_text(".git/config", "evil")

        apart = await waits(fork, write)
        assert "sandbox" in question(house, apart).arguments
        await approve(house, apart)
        refused = await refusal(write(agent.with_approval(apart)))
        assert (type(refused), refused.details) == (ApprovalDenied, {"differs": "branch"})
        assert await text(person, ".git/config") == "x"
        async with fork.transaction() as inside:  # which ends in that branch
            await write(inside.with_approval(apart))
        assert await text(fork, ".git/config") == "evil"
        await fork.aclose()


@pytest.mark.spec("ASK-2", "AUTH-8", "VOL-13")
async def test_the_first_branch_is_another_one_to_a_root_on_a_fork(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db?volume=demo") as own:
        await own.write_bytes(".git/config", b"x" * 900, parents=True)
        await (await own.fork("b")).aclose()
    bounded = {"place": "&branch=b", "root": BOUND, "more": surfaced()}
    async with house_on_volume(tmp_path, **bounded) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        first = await agent.open_fork("main")
        assert (first.grant.root.branch, agent.grant.root.branch) == ("main", "")
        again = await first.open_fork("b")
        assert again.grant.root.branch == ""
        approval = await waits(first, lambda fs: fs.write_text(".git/config", "evil"))
        await approve(house, approval)
        with pytest.raises(ApprovalDenied):
            await agent.with_approval(approval).write_text(".git/config", "evil")
        await (await person.open_fork("main")).remove(".git", recursive=True)
        with pytest.raises(QuotaExceeded):
            await agent.write_bytes("f", b"x" * 200)
        for each in (again, first):
            await each.aclose()


@pytest.mark.spec("ASK-1", "VOL-6")
async def test_an_answer_for_longer_holds_in_its_branch(tmp_path):
    async with house_on_volume(tmp_path) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        await person.write_text(".git/config", "x", parents=True)
        asked = Person("always")
        agent = agent.with_caller("test", asker=asked)
        fork = await agent.fork("sandbox")
        await fork.write_text(".git/config", "1")
        await fork.write_text(".git/config", "2")
        async with fork.transaction() as inside:
            await inside.write_text(".git/config", "3")
        assert len(asked.asked) == 1
        asked.answer = "no"
        with pytest.raises(ApprovalDenied):
            await agent.write_text(".git/config", "evil")
        assert (len(asked.asked), await text(person, ".git/config")) == (2, "x")
        await fork.aclose()


@pytest.mark.spec("ASK-1", "ASK-2", "VOL-6")
async def test_an_approved_merge_brings_the_links_and_modes_that_were_shown(tmp_path):
    async with house_on_volume(tmp_path, asks("conf/**"), more=surfaced()) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        await person.make_dir("conf")
        fork = await person.fork("k")
        await fork.symlink("conf/l", "../docs")
        await fork.write_text("conf/s", "echo\n")
        approval = await waits(agent, lambda fs: fs.merge("k"))
        shown = question(house, approval).preview.diff
        assert "../docs" in shown
        assert "mode 0" in shown
        await approve(house, approval)
        await fork.remove("conf/l")
        await fork.symlink("conf/l", "../evil")
        with pytest.raises(ApprovalDenied):
            await agent.with_approval(approval).merge("k")
        await fork.remove("conf/l")
        await fork.symlink("conf/l", "../docs")
        await fork.set_mode("conf/s", 0o777)
        with pytest.raises(ApprovalDenied):
            await agent.with_approval(approval).merge("k")
        assert (await person.list("conf")).entries == []
        await fork.aclose()


@pytest.mark.spec("ASK-1", "VOL-6")
async def test_an_approved_fork_is_of_the_version_that_was_shown(tmp_path):
    rules = '[[rule]]\nid = "v"\nsubject = "agent_run:*"\noperation = "version"\neffect = "ask"\n'
    async with house_on_volume(tmp_path, rules, more=surfaced()) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        old = (await person.write_text("f", "old")).version
        await person.write_text("f", "new")
        now = await waits(agent, lambda fs: fs.fork("k"))
        await approve(house, now)
        with pytest.raises(ApprovalDenied):
            await agent.with_approval(now).fork("k", version=old)
        then = await waits(agent, lambda fs: fs.fork("k", version=old))
        assert question(house, then).preview.diff == f"make the fork k from the version {old}"
        await approve(house, then)
        fork = await agent.with_approval(then).fork("k", version=old)
        assert await text(fork, "f") == "old"
        await fork.aclose()


@pytest.mark.spec("VOL-7", "POL-4", "ASK-1")
async def test_a_commit_asks_about_what_nobody_was_asked_about_inside(tmp_path):
    async with house_on_volume(tmp_path, asks("conf/**")) as house:
        person, asked = await house.scope(subject=ME), Person("once")
        agent = (await house.scope()).with_caller("test", asker=asked)
        async with agent.transaction() as inside:
            await inside.write_text("conf/a", "1", parents=True)
        assert ([each.paths for each in asked.questions], await tree(person)) == (
            [("conf/a",)], {"conf/a": "1"},
        )  # fmt: skip

        # A draft that would put something else where nobody has looked.
        async def beside(draft):
            store = draft._pipeline.store
            handle = await store.resolve(bailiwick.ScopedPath("conf/b"), "entry")
            await store.write(handle, b"evil", sha(b"evil"), WritePlan())
            handle.close()

        asked.answer = "no"
        with pytest.raises(ApprovalDenied):  # noqa: PT012
            async with agent.transaction() as inside:
                await inside.write_text("free", "1")
                await beside(inside)
        assert asked.questions[-1].paths == ("conf/b",)
        assert await tree(person) == {"conf/a": "1"}


# --- quotas -------------------------------------------------------------------------------------

BOUND = "[root.quota]\nbytes = 1000\n"
GRANT_BOUND = "[grant.quota]\nbytes = 1000\n"


async def held(fs):
    return sum([(await fs.stat(path)).size for path in (await fs.files()).paths])


def used(fs):
    return tuple(fs._pipeline.meter.used_by_root("workspace:demo"))


@pytest.mark.spec("AUTH-8", "VOL-6")
async def test_what_a_fork_removes_is_not_given_back_to_the_root(tmp_path):
    async with house_on_volume(tmp_path, root=BOUND) as house:
        fs = await house.scope()
        await fs.write_bytes("f0", b"x" * 900)
        fork = await fs.fork("k")
        await fork.remove("f0")
        with pytest.raises(QuotaExceeded):
            await fs.write_bytes("f1", b"x" * 900)
        await fork.write_bytes("f1", b"x" * 900)  # instead of what it has removed
        with pytest.raises(QuotaExceeded):
            await fork.write_bytes("f2", b"x" * 200)
        assert used(fs) == (900, 1)
        await fs.merge("k")
        assert (await held(fs), used(fs)) == (900, (900, 1))
        await fork.remove("f1")
        await fs.merge("k")
        assert (await held(fs), used(fs)) == (0, (0, 0))
        await fork.aclose()


@pytest.mark.spec("AUTH-8", "VOL-7")
async def test_what_a_transaction_removes_is_given_back_when_it_is_committed(tmp_path):
    async with house_on_volume(tmp_path, root=BOUND) as house:
        fs = await house.scope()
        await fs.write_bytes("f0", b"x" * 900)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with fs.transaction() as inside:
                await inside.remove("f0")
                with pytest.raises(QuotaExceeded):
                    await fs.write_bytes("f1", b"x" * 900)
                raise ZeroDivisionError
        assert (await held(fs), used(fs)) == (900, (900, 1))
        async with fs.transaction() as inside:
            await inside.remove("f0")
            await inside.write_bytes("f1", b"x" * 800)
            assert used(fs) == (900, 1)
            with pytest.raises(QuotaExceeded):
                await inside.write_bytes("f2", b"x" * 300)
        assert (await held(fs), used(fs)) == (800, (800, 1))


@pytest.mark.spec("AUTH-8", "VOL-7")
async def test_two_who_remove_the_same_do_not_make_room_twice(tmp_path):
    async with house_on_volume(tmp_path, root=BOUND) as house:
        fs = await house.scope()
        await fs.write_bytes("f0", b"x" * 900)
        with pytest.raises(QuotaExceeded):  # noqa: PT012
            async with fs.transaction() as inside:
                await inside.remove("f0")
                await inside.write_bytes("f1", b"x" * 900)
                await fs.remove("f0")
                await fs.write_bytes("f2", b"x" * 900)
        assert (await held(fs), used(fs)) == (900, (900, 1))


@pytest.mark.spec("AUTH-8", "VOL-6")
@pytest.mark.parametrize("bounds", [{"root": BOUND}, {"grant": GRANT_BOUND}], ids=["root", "grant"])
async def test_what_a_fork_adds_counts_once_and_is_given_back_with_it(tmp_path, bounds):
    async with house_on_volume(tmp_path, **bounds) as house:
        fs = await house.scope()
        fork = await fs.fork("k")
        await fork.write_bytes("f", b"x" * 600)
        with pytest.raises(QuotaExceeded):
            await fs.write_bytes("g", b"x" * 600)
        await fs.merge("k")
        with pytest.raises(QuotaExceeded):
            await fs.write_bytes("g", b"x" * 600)
        await fork.write_bytes("h", b"x" * 300)
        await fork.aclose()
        await fs.delete_fork("k")
        await fs.write_bytes("g", b"x" * 400)
        await fs.remove("g")
        await fs.remove("f")
        await fs.write_bytes("g", b"x" * 1000)
        assert await held(fs) == 1000


@pytest.mark.spec("AUTH-8", "VOL-6")
async def test_what_a_fork_takes_over_from_the_first_branch_is_not_counted_again(tmp_path):
    async with house_on_volume(tmp_path, root=BOUND) as house:
        fs = await house.scope()
        fork = await fs.fork("k")
        await fs.write_bytes("f", b"x" * 600)
        await fork.merge("main")
        assert (await held(fork), used(fs)) == (600, (600, 1))
        await fork.aclose()


@pytest.mark.spec("AUTH-8", "VOL-6")
async def test_what_forks_hold_is_known_after_a_restart_and_forks_that_are_gone_are_forgotten(
    tmp_path,
):
    async with house_on_volume(tmp_path, root=BOUND) as house:
        fs = await house.scope()
        await fs.write_bytes("f", b"x" * 100)
        fork = await fs.fork("k")
        await fork.write_bytes("g", b"x" * 600)
        await fork.aclose()
    async with house_on_volume(tmp_path, root=BOUND) as house:
        fs = await house.scope()
        with pytest.raises(QuotaExceeded):
            await fs.write_bytes("h", b"x" * 400)
        await fs.write_bytes("h", b"x" * 300)
        assert used(fs) == (1000, 3)
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db?volume=demo") as own:
        await own.delete_fork("k")
    async with house_on_volume(tmp_path, root=BOUND) as house:
        fs = await house.scope()
        await fs.write_bytes("i", b"x" * 600)
        assert used(fs) == (1000, 3)


# --- what is told -------------------------------------------------------------------------------


@pytest.mark.spec("POL-1", "VOL-6")
async def test_a_conflict_that_comes_up_late_does_not_tell_what_is_hidden(tmp_path):
    async with house_on_volume(tmp_path, HIDES + asks("d/**")) as house:
        person = await house.scope(subject=ME)
        await person.write_text("d/y", "1", parents=True)
        await person.make_dir("hid")
        fork = await person.fork("w")
        await fork.write_text("d/y", "2")

        async def meanwhile(approval):
            await person.move("d/y", "hid/very-secret-name")
            await person.write_text("hid/very-secret-name", "3")

        agent = (await house.scope()).with_caller("test", asker=Person("once", meanwhile))
        with pytest.raises((HashMismatch, PolicyDenied)) as refused:
            await agent.merge("w")
        assert "secret" not in everything_said(refused.value)
        with pytest.raises(PolicyDenied) as refused:
            await agent.merge("w")
        assert "secret" not in everything_said(refused.value)
        await fork.aclose()


@pytest.mark.spec("POL-1", "VOL-7")
async def test_a_commit_that_fails_does_not_tell_what_is_hidden(tmp_path):
    async with house_on_volume(tmp_path, HIDES) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        await person.write_text("d/y", "1", parents=True)
        await person.make_dir("hid")
        with pytest.raises(PolicyDenied) as refused:  # noqa: PT012
            async with agent.transaction() as inside:
                await inside.write_text("d/y", "2")
                await person.move("d/y", "hid/very-secret-name")
                await person.write_text("hid/very-secret-name", "3")
        assert "secret" not in everything_said(refused.value)


@pytest.mark.spec("POL-1", "POL-3", "VOL-6")
async def test_an_heir_is_not_told_the_hash_of_what_its_elder_may_not_read(tmp_path):
    rules = rule("allow", "**/.env", access=["read"], subject="automation:*")
    async with house_on_volume(tmp_path, rules) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        await person.write_text(".env", "S")
        fork = await person.fork("w")
        await fork.write_text(".env", "S2")
        heir = await agent.delegate(Automation("t"))
        with pytest.raises(ApprovalDenied):
            await heir.read_text(".env")
        for fs in (agent, heir):
            (found,) = (await fs.compare("w")).differences
            assert (found.path, found.sha256, found.sha256_before) == (".env", None, None)
        await fork.aclose()


@pytest.mark.spec("POL-1", "VOL-7")
async def test_who_holds_a_lease_on_what_is_hidden_is_not_told(tmp_path):
    async with house_on_volume(tmp_path, HIDES) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        old = (await person.write_text("hid/x", "0", parents=True)).version
        await person.write_text("hid/x", "1", parents=True)
        await person.write_text("d/y", "1", parents=True)
        fork = await person.fork("w")
        await fork.write_text("hid/x", "2")
        async with person.lock("hid/x"):
            for act in (agent.merge("w"), agent.merge("w", preview=True), agent.restore(".", old)):
                error = await refusal(act)
                assert isinstance(error, PolicyDenied)
                assert "user:me" not in everything_said(error)
        await fork.aclose()
        fork = await person.fork("v")
        await fork.write_text("d/y", "2")
        async with person.lock("d/y"):
            assert (await agent.merge("v", preview=True)).changed == ["d/y"]
            with pytest.raises(LockHeld) as held_by:
                await agent.merge("v")
            assert held_by.value.details == {"owner": str(ME)}
        assert (await agent.merge("v")).changed == ["d/y"]
        await fork.aclose()


@pytest.mark.spec("POL-1", "VOL-5")
async def test_an_undo_that_cannot_be_done_does_not_name_what_is_in_the_way(tmp_path):
    async with house_on_volume(tmp_path, HIDES) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        await agent.make_dir("x/inner", parents=True)
        moved = await agent.move("x/inner", "outer")
        await person.move("x", "outer/hidden")
        error = await refusal(agent.undo(moved.request_id))
        assert (error.kind, error.path) == ("parse_error", None)


@pytest.mark.spec("VOL-7")
async def test_a_lease_on_the_root_covers_everything(tmp_path):
    async with house_on_volume(tmp_path) as house:
        person, agent = await house.scope(subject=ME), await house.scope()
        await person.write_text("d/x", "1", parents=True)
        async with person.lock(".") as lease:
            for act in (
                agent.write_text("d/x", "2"), agent.write_text("n", "2"), agent.remove("d/x"),
                agent.make_dir("e"), agent.move("d", "e"), agent.set_mode("d", 0o700),
            ):  # fmt: skip
                assert isinstance(await refusal(act), LockHeld)
            with pytest.raises(LockHeld):
                await agent.lock("d/x")
            with pytest.raises(LockHeld):
                async with agent.transaction() as inside:
                    await inside.write_text("d/x", "3")
            await person.write_text("d/x", "4", lock_token=lease.token)
        await agent.write_text("d/x", "5")
        async with agent.lock("d/x"):
            with pytest.raises(LockHeld):
                await person.lock(".")


# --- what stands on record ----------------------------------------------------------------------

_KILLED = """
import asyncio, os, pathlib, sys
import bailiwick
from tests.authority.test_versions_review import house_on_volume

async def main():
    async with house_on_volume(pathlib.Path(sys.argv[1])) as house:
        fs = await house.scope()
        async with fs.with_request("T").transaction() as inside:
            for name in "abcdefgh":
                await inside.write_text(name, "1")
            if sys.argv[2] == "before":
                os.kill(os.getpid(), 9)
        os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.spec("AUDIT-1", "VOL-7")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.slow
async def test_the_ledger_after_a_crash_tells_a_transaction_that_came_to_pass(tmp_path, when):
    """What is inside is on record as it went; that all of it came to pass, the record of the
    transaction says, and there is none where it did not."""
    killed = [sys.executable, "-c", _KILLED, str(tmp_path), when]
    await asyncio.to_thread(subprocess.run, killed, check=False, timeout=120)
    async with house_on_volume(tmp_path) as house:
        person = await house.scope(subject=ME)
        found = [each for each in await house.operations() if each.request_id == "T"]
        inside = [each for each in found if each.details.get("branch") == "transaction:T"]
        ends = [(each.verb, each.outcome) for each in found if each not in inside]
        assert len(inside) == 8
        if when == "before":
            assert (ends, await tree(person)) == ([], {})
        else:
            assert ends == [("transaction", "success")]
            assert {each.outcome for each in inside} == {"success"}
            assert len(await tree(person)) == 8
