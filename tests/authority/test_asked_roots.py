"""A root that nobody granted can be asked for: a person's yes grants it, with an end."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from bailiwick import (
    AgentRun,
    ApprovalDenied,
    ApprovalTimeout,
    Authority,
    MissingAccess,
    ParseError,
    RootNotFound,
    User,
)
from tests.waiting import until

AGENT = AgentRun("chat", "1")

CONFIG = """
[ask]
timeout = "60 s"
surface = "{surface}"
roots = {roots}

[[root]]
id = "w"
kind = "workspace"
memory = true
trusted = true

[[root]]
id = "other"
kind = "workspace"
memory = true
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:other"
access = ["read"]
"""


@asynccontextmanager
async def opened(tmp_path, *, roots="true", surface="console"):
    (tmp_path / "bailiwick.toml").write_text(CONFIG.format(roots=roots, surface=surface))
    path, state = str(tmp_path / "bailiwick.toml"), str(tmp_path / "state")
    async with Authority.from_config(path, state) as authority:
        yield authority


def asking(authority, root="workspace:w", access=("read", "write"), **more):
    more = {"reason": "to help", "wait_s": 60.0, **more}
    return asyncio.ensure_future(authority.request_root(AGENT, root, access, **more))


async def one_question(authority):
    await until(lambda: authority.approvals.pending())
    (asked,) = authority.approvals.pending()
    return asked


async def answer(authority, answer):
    asked = await one_question(authority)
    await authority.approvals.answer(asked.id, answer, by="user:ann", front="test")
    return asked.question


@pytest.mark.spec("NOTE-3")
async def test_a_yes_grants_what_was_asked_to_who_asked_and_ends(tmp_path, clock):
    async with opened(tmp_path) as authority:
        coming = asking(authority, path="docs", expires_in=7_200)
        question = await answer(authority, "once")
        assert (str(question.subject), question.root, question.operation, question.verb) == (
            "agent_run:chat/1", "workspace:w", "grant", "request_root",
        )  # fmt: skip
        assert (question.access, question.target) == (("read", "write"), "docs")
        assert question.arguments == "read, write, for 2 h"
        assert (question.reason, question.default) == ("to help", "deny")
        scope = await coming
        await scope.write_text("docs/a.txt", "a\n", parents=True)
        with pytest.raises(MissingAccess):
            await scope.remove("docs/a.txt")
        (entry,) = [
            each
            for each in authority.grants()
            if each.kind == "standing" and str(each.grant.root) == "workspace:w"
        ]
        assert str(entry.grant.subject) == "agent_run:chat/1"
        # It stands until its end, for this subject alone, and for no more than was asked.
        again = await authority.request_root(AGENT, "workspace:w", ("read",), "again", path="docs")
        assert (await again.read_text("docs/a.txt")).text == "a\n"
        for who, access in ((AgentRun("chat", "2"), ("read",)), (AGENT, ("delete",))):
            more = {"wait_s": 0.0}
            with pytest.raises(ApprovalTimeout):
                await authority.request_root(who, "workspace:w", access, "more", **more)
        clock.advance(7_201)
        with pytest.raises(ApprovalTimeout):
            await authority.request_root(AGENT, "workspace:w", ("read",), "late", wait_s=0.0)


@pytest.mark.spec("NOTE-3")
async def test_a_no_and_no_answer_grant_nothing(tmp_path):
    async with opened(tmp_path) as authority:
        coming = asking(authority)
        await answer(authority, "no")
        with pytest.raises(ApprovalDenied):
            await coming
        with pytest.raises(ApprovalTimeout) as open_still:
            await authority.request_root(AGENT, "workspace:w", ("read",), "x", wait_s=0.0)
        assert open_still.value.details["pending"]
        assert [
            each
            for each in authority.grants()
            if each.kind == "standing" and str(each.grant.root) == "workspace:w"
        ] == []
        # Whoever comes back after the answer gets what was granted meanwhile.
        await answer(authority, "once")
        scope = await authority.request_root(AGENT, "workspace:w", ("read",), "x", wait_s=0.0)
        assert scope.access == {"read"}


@pytest.mark.spec("NOTE-3")
@pytest.mark.parametrize("lasting", ["grant", "always", "never"])
async def test_a_root_is_never_granted_for_longer_by_an_answer(tmp_path, lasting):
    async with opened(tmp_path) as authority:
        coming = asking(authority)
        asked = await one_question(authority)
        with pytest.raises(ParseError):
            await authority.approvals.answer(asked.id, lasting, by="user:ann", front="test")
        await answer(authority, "no")
        with pytest.raises(ApprovalDenied):
            await coming
        assert not authority.rules.rules()


@pytest.mark.spec("NOTE-3")
@pytest.mark.parametrize("root", ["workspace:w", "workspace:missing"])
async def test_asking_tells_nobody_whether_there_is_a_root(tmp_path, root):
    """What an agent hears is word for word the same, up to a person's yes."""
    heard = []
    async with opened(tmp_path) as authority:
        for given in ({"path": "a"}, {"path": "/a"}, {"expires_in": 1e9}, {"expires_in": -1}):
            try:
                await authority.request_root(AGENT, root, ("read",), "x", wait_s=0.0, **given)
            except (ApprovalTimeout, ApprovalDenied, ParseError) as error:
                heard.append((type(error).__name__, str(error.message).replace(root, "ROOT")))
        asked = await one_question(authority)
        question = asked.question
        heard.append((question.prompt.replace(root, "ROOT"), question.arguments, question.target))
        await authority.approvals.answer(asked.id, "no", by="user:ann", front="test")
        for _ in range(4):
            try:
                coming = asking(authority, root)
                await until(lambda coming=coming: coming.done() or authority.approvals.pending())
                for each in authority.approvals.pending():
                    await authority.approvals.answer(each.id, "no", by="user:ann", front="test")
                await coming
            except ApprovalDenied as error:
                heard.append(str(error.message))
    assert heard == [
        ("ApprovalTimeout", "nobody has answered yet"),
        ("ParseError", "the path in a root that is asked for is relative to it"),
        ("ParseError", "a root is asked for at most 1 d"),
        ("ParseError", "a root is asked for at most 1 d"),
        ("nobody granted this: read of a in ROOT, for 1 h", "read, for 1 h", "a"),
        "a person was asked for this root and refused",
        "a person was asked for this root and refused",
        "this subject has asked for 3 roots within the hour already",
        "this subject has asked for 3 roots within the hour already",
    ]


@pytest.mark.spec("NOTE-3")
async def test_a_yes_for_what_is_not_there_grants_nothing(tmp_path):
    async with opened(tmp_path) as authority:
        coming = asking(authority, "workspace:missing")
        await answer(authority, "once")
        with pytest.raises(RootNotFound):
            await coming
        assert not any(str(each.grant.root) == "workspace:missing" for each in authority.grants())


@pytest.mark.spec("NOTE-3")
async def test_nobody_wears_a_person_out_by_asking(tmp_path, clock):
    async with opened(tmp_path) as authority:
        for number in range(3):
            with pytest.raises(ApprovalTimeout):
                await authority.request_root(AGENT, f"workspace:{number}", ("read",), "x", wait_s=0)
        with pytest.raises(ApprovalDenied, match="3 roots"):
            await authority.request_root(AGENT, "workspace:w", ("read",), "x", wait_s=0)
        # The same again is the same question, and others are not kept from asking.
        with pytest.raises(ApprovalTimeout):
            await authority.request_root(AGENT, "workspace:0", ("read",), "x", wait_s=0)
        with pytest.raises(ApprovalTimeout):
            await authority.request_root(
                AgentRun("chat", "2"), "workspace:w", ("read",), "x", wait_s=0
            )
        assert len(authority.approvals.pending()) == 4
        clock.advance(3_601)
        with pytest.raises(ApprovalTimeout):
            await authority.request_root(AGENT, "workspace:w", ("read",), "x", wait_s=0)


@pytest.mark.spec("NOTE-3")
async def test_several_calls_that_ask_the_same_are_one_question(tmp_path):
    async with opened(tmp_path) as authority:
        coming = [asking(authority) for _ in range(4)]
        await answer(authority, "once")
        for scope in await asyncio.gather(*coming):
            await scope.aclose()
        granted = [
            each
            for each in authority.grants()
            if each.kind == "standing" and str(each.grant.root) == "workspace:w"
        ]
        assert len(granted) == 1
        assert authority.approvals.pending() == []


@pytest.mark.spec("NOTE-3")
@pytest.mark.parametrize("off", [{"roots": "false"}, {"surface": "none"}])
async def test_without_being_told_to_nobody_is_asked(tmp_path, off):
    async with opened(tmp_path, **off) as authority:
        with pytest.raises(MissingAccess):
            await authority.request_root(AGENT, "workspace:w", ("read",), "x", wait_s=0)
        with pytest.raises(RootNotFound):
            await authority.request_root(AGENT, "workspace:missing", ("read",), "x", wait_s=0)
        assert authority.approvals.pending() == []


@pytest.mark.spec("NOTE-3")
async def test_an_agent_cannot_answer_its_own_question(tmp_path):
    async with opened(tmp_path) as authority:
        coming = asking(authority)
        asked = await one_question(authority)
        with pytest.raises(ApprovalDenied):
            await authority.approvals.answer(asked.id, "once", by=str(AGENT), front="test")
        coming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await coming
        person = await authority.request_root(User("ann"), "workspace:w", ("read",), "own")
        await person.aclose()
