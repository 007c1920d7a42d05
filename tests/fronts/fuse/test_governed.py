"""A mount of a root that an authority keeps: its rules hold for every program, and all is on
record."""

import contextlib
import errno
import os
import threading

import pytest

import bailiwick
from bailiwick.build.governed import Authority
from bailiwick.fronts.fuse.content import OpenContents
from bailiwick.portal import Portal
from tests.fronts.fuse.mounts import mounted, needs_fuse
from tests.waiting import PATIENCE_S

pytestmark = [needs_fuse, pytest.mark.spec("FUSE-1")]

CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
path = "./project"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write", "delete", "move"]
reason = "coding agent"

[[rule]]
subject = "agent_run:*"
path = ["hidden"]
effect = "hide"

[[rule]]
subject = "agent_run:*"
path = ["fixed/**"]
access = ["write", "delete", "move"]
effect = "deny"

[[rule]]
subject = "agent_run:*"
path = ["asked/**"]
access = ["write"]
effect = "ask"
"""


@contextlib.contextmanager
def governed(tmp_path):
    """The authority, the scope of an agent, and the event loop of both."""
    for name in ("hidden", "fixed", "asked"):
        (tmp_path / "project" / name).mkdir(parents=True)
        (tmp_path / "project" / name / "file").write_text(name)
    (tmp_path / "bailiwick.toml").write_text(CONFIG)
    portal = Portal.borrow()
    opening = Authority.from_config(
        str(tmp_path / "bailiwick.toml"), state_dir=str(tmp_path / "state")
    )
    try:
        authority = portal.run(opening.__aenter__())
        try:
            scope = portal.run(
                authority.request_root(
                    bailiwick.AgentRun("demo", "1"), "workspace:demo",
                    {"read", "list", "metadata", "write", "delete", "move"}, "a test",
                )
            )  # fmt: skip
            yield authority, bailiwick.SyncScope(scope.with_caller("fuse"), portal), portal
            portal.run(scope.aclose())
        finally:
            portal.run(opening.__aexit__(None, None, None))
    finally:
        portal.give_back()


def number(act, *arguments):
    with pytest.raises(OSError) as raised:  # noqa: PT011 (the number is what is looked at)
        act(*arguments)
    return raised.value.errno


def test_rules_hold_for_every_program(tmp_path):
    with governed(tmp_path) as (_, scope, _), mounted(scope, tmp_path / "mnt") as top:
        assert sorted(os.listdir(top)) == ["asked", "fixed"]
        assert number(os.listdir, top / "hidden") == errno.ENOENT
        assert number(open, top / "hidden" / "file") == errno.ENOENT
        assert number(os.mkdir, top / "hidden") == errno.EACCES
        assert (top / "fixed" / "file").read_text() == "fixed"
        for refused in ("fixed/file", "fixed/new", "asked/file", "asked/new"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            assert number(os.open, top / refused, flags) == errno.EACCES
        assert number(os.unlink, top / "fixed" / "file") == errno.EACCES
        assert number(os.truncate, top / "fixed" / "file", 0) == errno.EACCES
        (top / "free").write_text("free")
        with open(top / "fixed" / "file", "rb") as open_file:
            assert number(os.replace, top / "free", top / "fixed" / "file") == errno.EACCES
            assert open_file.read() == b"fixed"
    assert (tmp_path / "project" / "fixed" / "file").read_text() == "fixed"
    assert (tmp_path / "project" / "asked" / "file").read_text() == "asked"
    assert (tmp_path / "project" / "free").read_text() == "free"


def test_a_person_is_asked_while_the_program_waits(tmp_path):
    asked = []

    async def answer(approval):
        asked.append(approval.question)
        return "once" if approval.question.target == "asked/new" else "no"

    with governed(tmp_path) as (_, scope, _):
        scope = scope.with_caller("fuse", asker=answer)
        with mounted(scope, tmp_path / "mnt") as top:
            (top / "asked" / "new").write_text("agreed to")
            assert number((top / "asked" / "file").write_text, "not agreed to") == errno.EACCES
            assert (top / "asked" / "file").read_text() == "asked"
    assert [question.target for question in asked] == ["asked/new", "asked/file"]
    assert (tmp_path / "project" / "asked" / "new").read_text() == "agreed to"
    assert (tmp_path / "project" / "asked" / "file").read_text() == "asked"


@contextlib.contextmanager
def refusing(tmp_path):
    """A mount for an agent of whom nobody agrees to what is written in ``asked``."""

    async def answer(approval):
        return "no"

    with governed(tmp_path) as (_, scope, _):
        scope = scope.with_caller("fuse", asker=answer)
        with mounted(scope, tmp_path / "mnt") as top:
            yield top / "asked"


def test_what_was_refused_is_shown_to_nobody_who_comes_before_the_kernel_lets_go_of_it(
    tmp_path, monkeypatch
):
    lets_go, closed = threading.Event(), OpenContents.closed

    def closed_late(contents, node, *, wrote):
        assert not wrote or lets_go.wait(PATIENCE_S)
        closed(contents, node, wrote=wrote)

    monkeypatch.setattr(OpenContents, "closed", closed_late)
    with refusing(tmp_path) as asked:
        try:
            assert (asked / "file").read_text() == "asked"
            assert number((asked / "file").write_text, "not agreed to") == errno.EACCES
            assert (asked / "file").read_text() == "asked"
            assert (asked / "file").stat().st_size == len("asked")
            assert number((asked / "new").write_text, "not agreed to") == errno.EACCES
            assert number((asked / "new").read_text) == errno.ENOENT
            assert os.listdir(asked) == ["file"]
        finally:
            lets_go.set()


def test_who_reads_a_file_on_does_not_keep_what_was_refused(tmp_path):
    with refusing(tmp_path) as asked, open(asked / "file", encoding="utf-8") as reader:
        assert reader.read() == "asked"
        assert number((asked / "file").write_text, "not agreed to") == errno.EACCES
        reader.seek(0)
        assert reader.read() == "asked"
        assert (asked / "file").read_text() == "asked"


def test_who_still_writes_what_was_refused_goes_on_with_it(tmp_path):
    answers = ["no", "once"]

    async def answer(approval):
        return answers.pop(0)

    with governed(tmp_path) as (_, scope, _):
        scope = scope.with_caller("fuse", asker=answer)
        with mounted(scope, tmp_path / "mnt") as top:
            with open(top / "asked" / "file", "wb", buffering=0) as file:
                file.write(b"written ")
                assert number(os.fsync, file.fileno()) == errno.EACCES
                # One that was lent is closed: who lent it writes still.
                os.close(os.dup(file.fileno()))
                file.write(b"in two parts")
            assert (top / "asked" / "file").read_text() == "written in two parts"
    assert answers == []


def test_what_is_revoked_ends_at_once(tmp_path):
    with governed(tmp_path) as (authority, scope, portal), mounted(scope, tmp_path / "mnt") as top:
        (top / "a").write_text("granted")
        portal.run(authority.revoke(scope.grant.id, by=bailiwick.User("local")))
        assert number((top / "a").write_text, "no more") == errno.EACCES
    assert (tmp_path / "project" / "a").read_text() == "granted"


def test_a_save_is_one_record_that_names_the_front(tmp_path):
    with governed(tmp_path) as (authority, scope, portal):
        with mounted(scope, tmp_path / "mnt") as top, open(top / "a", "wb", buffering=0) as file:
            file.writelines(b"line %d\n" % line for line in range(20))
        portal.run(authority.ledger.flush())
        records = portal.run(authority.ledger.tail(100))
        changes = [each for each in records if (each.path, each.operation) == ("a", "write")]
        assert [(each.verb, each.front, each.outcome) for each in changes] == [
            ("write_bytes", "fuse", "success")
        ]
