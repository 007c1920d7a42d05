"""The tools on a scope of a server: the same story, and what only a server can say."""

import asyncio
import contextlib

import pytest

import bailiwick
from bailiwick.errors import Unsupported
from bailiwick.fronts.tools import tools
from bailiwick.grant import User
from bailiwick.scope.front_access import as_called, caller_of
from bailiwick.testing.front_contract import CASES, ROOT, story_house
from bailiwick.toolbox import by_word
from tests.fronts.test_front_contract import served
from tests.fronts.tools.support import name
from tests.fronts.tools.test_front_contract import ToolsFront

pytestmark = pytest.mark.slow

ON_FILES = {"read", "write", "edit", "list", "delete", "undo"}


@contextlib.asynccontextmanager
async def connected(house, subject=None):
    """The root of the story over HTTP: as the agent of the story, or as somebody else."""
    async with served(house) as (url, secret):
        if subject is not None:
            secret = await house.authority.tokens.issue(
                "other", str(subject), by=User("local"), front="test"
            )
        async with bailiwick.connect(url, token=secret, root=ROOT) as scope:
            yield scope


@contextlib.asynccontextmanager
async def as_an_agent(house):
    async with connected(house) as scope:
        yield ToolsFront(tools(scope, "notes"))


@contextlib.asynccontextmanager
async def as_a_person(house):
    """What a person connects to is passed on to an agent there, so that the rules are for it."""
    async with connected(house, User("ann")) as scope:
        box = tools(scope, "notes", session="s7")
        try:
            yield ToolsFront(box)
        finally:
            await box.aclose()
        records = await house.authority.ledger.tail(50)
        acted = {str(record.subject) for record in records if record.operation in ON_FILES}
        assert acted == {"agent_run:tools/s7"}


@contextlib.asynccontextmanager
async def in_blocking_code(house):
    """The blocking scope of a server, whose loop is another than that of the calls."""
    async with served(house) as (url, secret):
        opened = bailiwick.connect_sync(url, token=secret, root=ROOT)
        scope = await asyncio.to_thread(opened.__enter__)
        try:
            yield ToolsFront(tools(scope, "notes"))
        finally:
            await asyncio.to_thread(opened.__exit__, None, None, None)


@pytest.mark.spec("ERR-4", "TOOL-1", "TOOL-4", "PY-5")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("front", [as_an_agent, as_a_person, in_blocking_code])
async def test_the_tools_tell_the_same_story_over_http(tmp_path, front, case):
    async with story_house(str(tmp_path)) as house, front(house) as driver:
        await case(driver, house)


@pytest.mark.spec("TOOL-6", "PY-5")
async def test_paths_are_narrowed_on_the_server(tmp_path):
    async with story_house(str(tmp_path)) as house, connected(house, User("ann")) as scope:
        await scope.write_text("other/a", "x", parents=True)
        box = tools(scope, "notes", allowed_paths=["mine/**"])
        inside = await box.call(name("write_file"), {"path": "mine/a", "content": "x"})
        outside = await box.call(name("read_file"), {"path": "other/a"})
        await box.aclose()
    assert inside["ok"] is True
    assert outside["ok"] is False
    assert outside["errorKind"] in ("missing_access", "path_not_found")


@pytest.mark.spec("TOOL-6", "PY-5")
async def test_a_size_that_only_the_server_could_hold_to_is_refused(tmp_path):
    async with story_house(str(tmp_path)) as house, connected(house) as scope:
        box = tools(scope, "notes", max_file_size_mb=1)
        refused = await box.call(name("write_file"), {"path": "a", "content": "x"})
        assert not await scope.exists("a")
    assert refused["errorKind"] == "unsupported"


@pytest.mark.spec("ASK-2", "PY-5")
async def test_it_is_the_servers_people_who_are_asked(tmp_path):
    """A word that was given here is about nothing the server has asked, so it asks for itself; and
    it cannot be found out beforehand whether it will."""
    asked = {"path": "reviewed/a", "content": "x"}
    async with story_house(str(tmp_path)) as house, connected(house) as scope:
        box = tools(scope, "notes")
        assert await box.rehearse(name("write_file"), asked) is None
        assert not await scope.exists("reviewed/a")
        call = asyncio.ensure_future(box.call(name("write_file"), asked, asker=by_word(True)))
        await house.answer("no")
        assert (await call)["errorKind"] == "approval_denied"
        attempt = asyncio.ensure_future(box.attempt(name("write_file"), asked))
        await house.answer("once")
        assert (await attempt)["ok"] is True


@pytest.mark.spec("PY-5")
async def test_a_server_has_no_rehearsals(tmp_path):
    async with story_house(str(tmp_path)) as house, connected(house) as scope:
        with pytest.raises(Unsupported):
            as_called(scope, rehearsal=print)
        assert caller_of(as_called(scope, wait_s=3.0, front="x")).wait_s == 3.0
