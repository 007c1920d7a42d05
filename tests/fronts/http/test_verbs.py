"""Routes that are a verb and nothing else: what a request says reaches the verb, all of it."""

import pytest

from bailiwick.fronts.http.verbs import body_of, route
from bailiwick.model import Edit
from bailiwick.wire import values, verbs
from bailiwick.wire.arguments import WireEdit

pytestmark = pytest.mark.spec("LINE-6")

HASH = "5" * 64


class Scope:
    """Notes what it is called with, and does nothing."""

    def __getattr__(self, verb):
        async def call(**given):
            self.called = verb, given
            raise LookupError

        return call


class Request:
    def __init__(self, body=None, query=None):
        self.body = body
        self.query = query or {}
        self.scope = Scope()

    async def scoped(self, path=None):
        self.asked_for = path
        return self.scope


async def called(row, *, query=None, **said):
    request = Request(query=query) if query is not None else Request(body=body_of(row)(**said))
    with pytest.raises(LookupError):
        await route(row).handler(request)
    verb, given = request.scope.called
    return request.asked_for, verb, {name: each for name, each in given.items() if each is not None}


async def test_a_body_reaches_its_verb():
    body = {
        "path": "a", "to": "b", "replace": True, "expected_sha256": HASH, "lock_token": 7,
        "expected_destination_hash": f"sha256:{HASH}",
    }  # fmt: skip
    given = {
        "path": "a", "to": "b", "replace": True, "expected_sha256": HASH, "lock_token": 7,
        "expected_destination_sha256": HASH,
    }  # fmt: skip
    assert await called(verbs.MOVE, **body) == ("a", "move", given)


async def test_what_the_wire_calls_otherwise_reaches_its_verb():
    given = {"path": "a", "mtime_ns": 1, "atime_ns": 2}
    asked = await called(verbs.SET_TIMES, path="a", modified_ns=1, accessed_ns=2)
    assert asked == ("a", "set_times", given)
    given = {"path": "a", "edits": [Edit("x", "y", True)], "replace_all": False, "dry_run": True}
    asked = await called(verbs.EDIT, path="a", edits=[WireEdit("x", "y", True)], dry_run=True)
    assert asked == ("a", "edit", given)
    asked = await called(verbs.APPEND, path="a", content_base64="AA==")
    assert asked == ("a", "append", {"path": "a", "data": b"\0", "parents": False})


async def test_the_grant_is_one_for_where_something_is_made():
    body = {"paths": ["a"], "destination": "b.zip", "file_mode": "0600"}
    given = {
        "paths": ["a"], "to": "b.zip", "include_ignored": True, "mode": "create",
        "file_mode": 0o600,
    }  # fmt: skip
    assert await called(verbs.CREATE_ARCHIVE, **body) == ("b.zip", "create_archive", given)


async def test_a_query_reaches_its_verb():
    query = {"path": "a", "limit": 3, "fork": "f", "approval": "p"}
    assert await called(verbs.FILES, query=query) == ("a", "files", {"prefix": "a", "limit": 3})
    assert await called(verbs.FIND, query={"empty": False}) == (
        ".", "find", {"empty": False},
    )  # fmt: skip


@pytest.mark.parametrize(("changed", "status"), [(True, 201), (False, 200)])
async def test_what_was_made_is_201(changed, status):
    class Made(Scope):
        async def make_dir(self, **given):
            return values.CHANGE.of(path="a", changed=changed, request_id="r")

    request = Request(body=body_of(verbs.MAKE_DIR)(path="a"))
    request.scope = Made()
    assert (await route(verbs.MAKE_DIR).handler(request)).status == status
