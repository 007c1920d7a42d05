"""Routes that are a verb and nothing else: what a request says reaches the verb, all of it."""

import pytest

from bailiwick.fronts.http.routes import archives, files, search, tree
from bailiwick.model import Edit
from bailiwick.wire import values

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


async def called(handler, **said):
    request = Request(**said)
    with pytest.raises(LookupError):
        await handler(request)
    verb, given = request.scope.called
    return request.asked_for, verb, {name: each for name, each in given.items() if each is not None}


async def test_a_body_reaches_its_verb():
    body = tree.MoveBody(
        path="a", to="b", replace=True, expected_sha256=HASH, lock_token=7,
        expected_destination_hash=f"sha256:{HASH}",
    )  # fmt: skip
    given = {
        "path": "a", "to": "b", "replace": True, "expected_sha256": HASH, "lock_token": 7,
        "expected_destination_sha256": HASH,
    }  # fmt: skip
    assert await called(tree.move, body=body) == ("a", "move", given)


async def test_what_the_wire_calls_otherwise_reaches_its_verb():
    body = tree.TimesBody(path="a", modified_ns=1, accessed_ns=2)
    given = {"path": "a", "mtime_ns": 1, "atime_ns": 2}
    assert await called(tree.set_times, body=body) == ("a", "set_times", given)
    edits = [files.WireEdit("x", "y", True)]
    body = files.EditBody(path="a", edits=edits, dry_run=True)
    given = {"path": "a", "edits": [Edit("x", "y", True)], "replace_all": False, "dry_run": True}
    assert await called(files.edit_file, body=body) == ("a", "edit", given)


async def test_the_grant_is_one_for_where_something_is_made():
    body = archives.CreateBody(paths=["a"], destination="b.zip", file_mode="0600")
    given = {
        "paths": ["a"], "to": "b.zip", "include_ignored": True, "mode": "create",
        "file_mode": 0o600,
    }  # fmt: skip
    assert await called(archives.create, body=body) == ("b.zip", "create_archive", given)


async def test_a_query_reaches_its_verb():
    query = {"path": "a", "limit": 3, "fork": "f", "approval": "p"}
    assert await called(search.files, query=query) == ("a", "files", {"prefix": "a", "limit": 3})
    assert await called(search.find, query={"empty": False}) == (".", "find", {"empty": False})


@pytest.mark.parametrize(("changed", "status"), [(True, 201), (False, 200)])
async def test_what_was_made_is_201(changed, status):
    class Made(Scope):
        async def make_dir(self, **given):
            return values.CHANGE.of(path="a", changed=changed, request_id="r")

    request = Request(body=tree.DirBody(path="a"))
    request.scope = Made()
    assert (await tree.make_dir(request)).status == status
