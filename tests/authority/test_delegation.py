"""Delegation only narrows, ends with whoever it comes from, and shows nothing of the outside."""

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick.search.glob import compile_filter
from tests.authority.support import (
    AGENT,
    EVERYTHING,
    ME,
    everything_said,
    governed,
    refusal,
)
from tests.laws.repository import ROOT
from tests.scope.every_verb import VERBS, plant_tree
from tests.waiting import until

CHILD = bailiwick.AgentRun("c1", "child")
TREE = {
    "a/b/c.md": "x", "a/b/d.txt": "x", "a/e.md": "x", "f.txt": "x", "g/h/i.md": "x", "g/j.md": "x",
}  # fmt: skip
DIRECTORIES = (".", "a", "a/b", "g", "g/h")
GLOBS = ("*.md", "*.txt", "a/**", "a/b/**", "g/h/*", "**/c.*")

ACTS = {
    # access needed, and how to try it on a file without a trace
    "read": (lambda fs, path: fs.read_text(path)),
    "metadata": (lambda fs, path: fs.stat(path)),
    "write": (lambda fs, path: fs.set_times(path, 10**18)),
}


# --- the model: a chain of hands, each of which keeps a set of files and of accesses --------------

hands = st.fixed_dictionaries(
    {
        "access": st.none() | st.sets(st.sampled_from(EVERYTHING), min_size=1),
        "path": st.sampled_from((*DIRECTORIES, ".", ".", ".")),
        "rebase": st.booleans(),
        "allowed": st.lists(st.sampled_from(GLOBS), max_size=2),
        "denied": st.lists(st.sampled_from(GLOBS), max_size=1),
    }
)


class Model:
    """What a chain of delegations reaches: the intersection of what every hand let through."""

    def __init__(self):
        self.access = set(EVERYTHING)
        self.files = set(TREE)
        self.base = self.path = "."

    def after(self, hand):
        """The next one, or None where it would be more than there is."""
        wanted = self.access if hand["access"] is None else hand["access"]
        if not wanted <= self.access:
            return None
        place = self.path if hand["path"] == "." else joined(self.base, hand["path"])
        if not within(place, self.path):
            return None
        child = Model()
        child.access, child.path = set(wanted), place
        child.base = place if hand["rebase"] else self.base
        child.files = {
            each for each in self.files
            if within(each, place)
            and (not hand["allowed"] or covers(hand["allowed"], each, self.base))
            and (not hand["denied"] or not covers(hand["denied"], each, self.base))
        }  # fmt: skip
        return child

    def seen(self, path):
        """How a holder names a file, or None where it lies outside of what they see."""
        if not within(path, self.base):
            return None
        return path if self.base == "." else path[len(self.base) + 1 :]


def joined(base, path):
    return path if base == "." else f"{base}/{path}"


def within(path, directory):
    return directory == "." or path == directory or path.startswith(directory + "/")


def covers(globs, path, base):
    """Globs are meant as their author sees the tree."""
    if not within(path, base):
        return False
    seen = path if base == "." else path[len(base) + 1 :]
    return compile_filter(globs).covers(seen, False)


async def _chain(house, chain):
    """Delegate along a chain as far as it goes; each scope with its model."""
    scope, model = await house.scope(), Model()
    held = [(scope, model)]
    for hand in chain:
        expected = model.after(hand)
        options = {key: value for key, value in hand.items() if value not in (None, [])}
        try:
            scope = await scope.delegate(CHILD, **options)
        except bailiwick.BailiwickError as error:
            # A sub-path that a hand before has shut out is refused, too: that is narrower still.
            if error.kind != "missing_access":
                raise
            assert expected is None or not any(within(each, expected.path) for each in model.files)
            return held
        assert expected is not None, "more was delegated than there was"
        model = expected
        held.append((scope, model))
    return held


async def _agrees(scope, model):
    assert scope.access == model.access
    for path in TREE:
        seen = model.seen(path)
        if seen is None:
            continue
        for access, act in ACTS.items():
            error = await refusal(act(scope, seen))
            if path in model.files and access in model.access:
                assert error is None, (path, access, error)
            else:
                assert error is not None, (path, access)
                assert error.kind == "missing_access", (path, access, error)
    if "list" in model.access:
        top = "." if model.path == model.base else model.seen(model.path)
        seen = {model.seen(each) for each in model.files}
        try:
            assert set((await scope.files(top, limit=1000)).paths) <= seen
        except bailiwick.MissingAccess:
            assert not seen


@pytest.mark.spec("AUTH-5")
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(chain=st.lists(hands, min_size=1, max_size=4))
async def test_a_chain_of_delegations_is_an_intersection(chain):
    with tempfile.TemporaryDirectory() as directory:
        async with governed(Path(directory)) as house:
            await house.plant(TREE)
            held = await _chain(house, chain)
            for scope, model in held:
                await _agrees(scope, model)
            for (parent, _), (child, _) in itertools.pairwise(held):
                assert child.access <= parent.access
                assert child.grant.path.lies_in(parent.grant.path)
                assert child.limits.max_file_bytes <= parent.limits.max_file_bytes


@pytest.mark.spec("AUTH-3", "AUTH-5")
async def test_a_child_does_no_verb_that_its_parent_cannot(tmp_path):
    async with governed(tmp_path) as house:
        await plant_tree(await house.bare())
        for missing in EVERYTHING:
            parent = await house.scope([each for each in EVERYTHING if each != missing])
            assert (await refusal(parent.delegate(CHILD, access=EVERYTHING))).kind == (
                "missing_access"
            )
            assert (await refusal(parent.delegate(CHILD, access={missing}))).kind == (
                "missing_access"
            )
            child = await parent.delegate(CHILD)
            grandchild = await child.delegate(AGENT, path="dir", rebase=True)
            for name, verb in VERBS.items():
                if missing in verb.access:
                    for scope in (parent, child, grandchild):
                        assert (await refusal(verb.call(scope))).kind == "missing_access", name


@pytest.mark.spec("AUTH-4", "AUTH-5")
async def test_a_delegation_without_a_path_is_all_that_the_parent_has(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant(TREE)
        parent = await house.scope(path="a")
        child = await parent.delegate(CHILD)
        assert (await child.read_text("a/e.md")).text == "x"
        rebased = await parent.delegate(CHILD, rebase=True)
        assert (await rebased.read_text("e.md")).text == "x"
        inner = await (await rebased.delegate(CHILD, path="b")).delegate(CHILD)
        assert inner.grant.path == "a/b"
        assert (await inner.read_text("b/c.md")).text == "x"
        assert (await refusal(inner.read_text("e.md"))).kind == "missing_access"


@pytest.mark.spec("AUTH-5")
async def test_globs_are_meant_as_their_author_sees_the_tree(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant({**TREE, "a/private/x.md": "x", "private/y": "x", "a[1]/b/c.md": "x"})
        rebased = await (await house.scope()).delegate(CHILD, path="a", rebase=True)
        kept = await rebased.delegate(CHILD, denied=["private/**", "{b/c.md,e.md}"])
        for path in ("private/x.md", "b/c.md", "e.md"):
            assert (await refusal(kept.read_text(path))).kind == "missing_access", path
        await kept.read_text("b/d.txt")
        only = await rebased.delegate(CHILD, allowed=["b/*.md"])
        await only.read_text("b/c.md")
        assert (await refusal(only.read_text("b/d.txt"))).kind == "missing_access"
        odd = await (await house.scope()).delegate(CHILD, path="a[1]", rebase=True)
        assert (await (await odd.delegate(CHILD, allowed=["b/*"])).read_text("b/c.md")).text == "x"
        for glob in ("/b/**", "../**", ""):
            assert (await refusal(rebased.delegate(CHILD, denied=[glob]))).kind == "parse_error"


# --- a rebased scope --------------------------------------------------------------------------

INSIDE = {
    "outer-name/top/f.txt": "one\ntwo\n", "outer-name/top/d/g.txt": "three\n",
    "outer-name/top/l": "-> f.txt", "outer-name/top/up": "-> ../beside.txt",
    "outer-name/top/data.json": "{", "outer-name/beside.txt": "secret\n",
    "outer-name/top/big/h": "x",
}  # fmt: skip

LOOKING_FROM_THE_TOP = {
    "read_text": lambda fs: fs.read_text("f.txt"),
    "read_bytes": lambda fs: fs.read_bytes("f.txt"),
    "read_json": lambda fs: fs.read_json("data.json"),
    "stat": lambda fs: fs.stat("f.txt"),
    "lstat": lambda fs: fs.lstat("l"),
    "list": lambda fs: fs.list(),
    "list missing": lambda fs: fs.list("nowhere"),
    "find": lambda fs: fs.find(),
    "files": lambda fs: fs.files(),
    "glob": lambda fs: fs.glob("**"),
    "grep": lambda fs: fs.grep("t", context=1),
    "grep binary": lambda fs: fs.grep("x", max_file_bytes=1),
    "read missing": lambda fs: fs.read_text("nowhere/x"),
    "climb": lambda fs: fs.read_text("../beside.txt"),
    "absolute": lambda fs: fs.read_text("/workspace/f.txt"),
    "elsewhere": lambda fs: fs.read_text("/elsewhere"),
    "link out": lambda fs: fs.read_text("up"),
    "write": lambda fs: fs.write_text("n.txt", "x"),
    "write into nothing": lambda fs: fs.write_text("no/n.txt", "x"),
    "append": lambda fs: fs.append("n.txt", "x"),
    "make_dir": lambda fs: fs.make_dir("made"),
    "make_dir again": lambda fs: fs.make_dir("made"),
    "symlink": lambda fs: fs.symlink("new", "f.txt"),
    "set_mode": lambda fs: fs.set_mode("f.txt", 0o600),
    "copy": lambda fs: fs.copy("d", "d2", recursive=True),
    "copy_from": lambda fs: fs.copy_from(fs, "d", "d3", recursive=True),
    "copy over": lambda fs: fs.copy("f.txt", "d"),
    "move": lambda fs: fs.move("d2", "d4"),
    "remove": lambda fs: fs.remove("d4", recursive=True),
    "remove the top": lambda fs: fs.remove(".", recursive=True),
    "hash": lambda fs: fs.write_text("f.txt", "", mode="replace", expected_sha256="0" * 64),
    "archive": lambda fs: fs.create_archive(".", "all.tar"),
    "unpack": lambda fs: fs.extract_archive("all.tar", "unpacked"),
    "unpack no archive": lambda fs: fs.extract_archive("f.txt", "x"),
    "truncate": lambda fs: fs.truncate("d", 1),
    "diff of a directory": lambda fs: fs.diff("d", text=""),
}

SHOWN_FROM_THE_ROOT = {
    "diff": lambda fs: fs.diff("f.txt", "d/g.txt"),
    "edit": lambda fs: fs.edit("f.txt", old="two", new="2"),
    "write through a link": lambda fs: fs.write_text("l", "x"),
}


@pytest.mark.spec("AUTH-5", "PATH-7")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
async def test_a_rebased_scope_shows_nothing_of_the_outside(tmp_path, on_disk):
    state = tmp_path / "state" if on_disk else None
    async with governed(tmp_path, on_disk=on_disk, state_dir=state) as house:
        await house.plant(INSIDE)
        fs = await (await house.scope()).delegate(CHILD, path="outer-name/top", rebase=True)
        heard = []
        unsubscribe = await fs.on_change(heard.append)
        for name, act in LOOKING_FROM_THE_TOP.items():
            try:
                said = everything_said(await act(fs))
            except bailiwick.BailiwickError as error:
                said = everything_said(error)
            for outside in ("outer-name", "top/", "beside", "secret", str(tmp_path)):
                if outside in said and not (outside == "beside" and name in ("list", "find")):
                    pytest.fail(f"{name} says {outside}: {said}")
        await until(lambda: heard)
        unsubscribe()
        for change in heard:
            assert "outer-name" not in repr(change)
        # What is on record is for the operator, and names what was really touched.
        paths = {each.path for each in await house.operations() if each.outcome == "success"}
        assert "outer-name/top/f.txt" in paths


@pytest.mark.spec("AUTH-5", "PATH-7")
@pytest.mark.parametrize("name", SHOWN_FROM_THE_ROOT)
async def test_a_rebased_scope_shows_nothing_of_the_outside_in_texts(tmp_path, name):
    async with governed(tmp_path) as house:
        await house.plant(INSIDE)
        fs = await (await house.scope()).delegate(CHILD, path="outer-name/top", rebase=True)
        try:
            said = everything_said(await SHOWN_FROM_THE_ROOT[name](fs))
        except bailiwick.BailiwickError as error:
            said = everything_said(error)
        assert "outer-name" not in said


@pytest.mark.spec("AUTH-5", "EVENT-1")
async def test_a_rebased_watch_is_seen_from_its_top(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant(INSIDE)
        top = await house.scope()
        fs = await top.delegate(CHILD, path="outer-name/top", rebase=True)
        changes = fs.watch(since=await fs.change_cursor())
        first = asyncio.ensure_future(changes.__anext__())
        await top.write_text("outer-name/beside.txt", "not yours")
        await top.move("outer-name/top/d", "outer-name/d")
        await top.write_text("outer-name/top/f.txt", "yours")
        told = await first
        assert (told.kind, told.path, told.origin) == ("deleted", "d", None)
        told = await changes.__anext__()
        assert (told.kind, told.path) == ("updated", "f.txt")
        await changes.aclose()


# --- ends ---------------------------------------------------------------------------------------


async def _descent(scope, length):
    chain = [scope]
    for number in range(length):
        chain.append(await chain[-1].delegate(bailiwick.AgentRun("c1", f"d{number}")))
    return chain


@pytest.mark.spec("AUTH-5", "AUDIT-1")
@pytest.mark.parametrize("which", [0, 2, 4])
async def test_revoked_in_the_middle_of_a_chain(tmp_path, which):
    async with governed(tmp_path) as house:
        await house.plant(TREE)
        chain = await _descent(await house.scope(), 5)
        sibling = await chain[0].delegate(CHILD)
        ended = await house.authority.revoke(chain[which].grant.id, by=ME, reason="enough")
        assert ended == len(chain) - which + (which == 0)
        for number, scope in enumerate(chain):
            error = await refusal(scope.read_text("f.txt"))
            assert (error and error.kind) == ("grant_revoked" if number >= which else None)
            again = await refusal(scope.delegate(CHILD))
            assert (again and again.kind) == ("grant_revoked" if number >= which else None)
        error = await refusal(sibling.read_text("f.txt"))
        assert (error and error.kind) == ("grant_revoked" if which == 0 else None)
        assert await house.authority.revoke(chain[which].grant.id, by=ME) == 0
        revocations = [each for each in await house.records() if each.operation == "revoke"]
        assert [each.reason for each in revocations][:1] == ["enough"]


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize("act", ["stream", "watch", "upload"])
async def test_revoked_while_something_goes_on(tmp_path, act):
    """What takes long notices too: the feed at its next change, an upload at its end."""
    async with governed(tmp_path) as house:
        await house.plant(TREE)
        fs = await (await house.scope()).delegate(CHILD)
        others = await house.scope()
        if act == "watch":
            changes = fs.watch()
            first = asyncio.ensure_future(changes.__anext__())
            await until(lambda: fs._pipeline.changes._waiting)
            await house.authority.revoke(fs.grant.id, by=ME)
            await others.write_text("f.txt", "y")
            assert (await refusal(first)).kind == "grant_revoked"
            await changes.aclose()
            return

        async def chunks():
            yield b"first"
            await house.authority.revoke(fs.grant.id, by=ME)
            yield b"second"

        if act == "upload":
            error = await refusal(fs.write_stream("f.txt", chunks()))
            assert (error and error.kind) in (None, "grant_revoked")
        else:
            stream = fs.stream("f.txt")
            await stream.__anext__()
            await house.authority.revoke(fs.grant.id, by=ME)
            await stream.aclose()
        assert (await refusal(fs.read_text("f.txt"))).kind == "grant_revoked"


@pytest.mark.spec("AUTH-5")
async def test_what_expires_takes_its_descendants_along(tmp_path, clock):
    async with governed(tmp_path) as house:
        await house.plant(TREE)
        whole = await house.scope()
        parent = await whole.delegate(CHILD, expires_in=60)
        child = await parent.delegate(CHILD, expires_in=1000)
        grandchild = await child.delegate(CHILD)
        assert child.grant.expires_at == grandchild.grant.expires_at == parent.grant.expires_at
        await grandchild.read_text("f.txt")
        clock.advance(60)
        for scope in (parent, child, grandchild):
            assert (await refusal(scope.read_text("f.txt"))).kind == "grant_expired"
            assert (await refusal(scope.delegate(CHILD))).kind == "grant_expired"
        await whole.read_text("f.txt")
        for wrong in (0, -1, float("nan"), "1"):
            assert (await refusal(whole.delegate(CHILD, expires_in=wrong))).kind == "parse_error"


@pytest.mark.spec("AUTH-4", "AUTH-5", "AUDIT-1")
async def test_delegations_and_refused_ones_are_on_record(tmp_path):
    async with governed(tmp_path) as house:
        fs = await house.scope({"read"}, path=".")
        await fs.delegate(CHILD, reason="help me")
        await refusal(fs.delegate(CHILD, access={"write"}, reason="more"))
        acts = [each for each in await house.records() if each.operation == "delegate"]
        assert [(each.subject, each.outcome, each.error_kind, each.reason) for each in acts] == [
            (str(AGENT), "success", None, "help me"),
            (str(AGENT), "denied", "missing_access", "more"),
        ]


@pytest.mark.spec("AUTH-4", "AUDIT-1")
async def test_asking_for_more_than_is_granted_is_refused_and_on_record(tmp_path):
    async with governed(tmp_path) as house:
        for subject, access in (
            (bailiwick.Extension("x"), {"read"}), (bailiwick.Automation("x"), {"list"}),
        ):  # fmt: skip
            error = await refusal(house.scope(access, subject=subject))
            assert error.kind == "missing_access"
        assert (await refusal(house.scope({"read"}, root="workspace:none"))).kind == (
            "root_not_found"
        )
        acts = [each for each in await house.records() if each.error_kind is not None]
        assert [each.error_kind for each in acts] == [
            "missing_access", "missing_access", "root_not_found",
        ]  # fmt: skip


# --- other processes and restarts -----------------------------------------------------------------


@pytest.mark.spec("AUTH-5")
async def test_grants_survive_a_restart(tmp_path):
    place = tmp_path / "tree"
    place.mkdir()
    options = {"on_disk": True, "place": place, "state_dir": tmp_path / "state"}
    async with governed(tmp_path, **options) as house:
        await house.plant(TREE)
        chain = await _descent(await house.scope(), 2)
        added = await house.authority.add_grant(
            subject="automation:x", root="workspace:demo", access={"read"}, by=ME
        )
    async with governed(tmp_path, **options) as house:
        held = {entry.grant.id for entry in house.authority.grants()}
        assert {scope.grant.id for scope in chain} | {added.id} <= held
        fs = await house.scope({"read"}, subject=bailiwick.Automation("x"))
        assert (await fs.read_text("f.txt")).text == "x"
        assert await house.authority.revoke(chain[0].grant.id, by=ME) == 3
        await house.authority.revoke(added.id, by=ME)
        assert (await refusal(fs.read_text("f.txt"))).kind == "grant_revoked"
    async with governed(tmp_path, **options) as house:
        error = await refusal(house.scope({"read"}, subject=bailiwick.Automation("x")))
        assert error.kind == "missing_access"


class Holder:
    """Another process that holds a scope, and reads a file each time it is told."""

    def __init__(self, configuration, state):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.authority.holder", str(configuration), str(state)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.grant_id = self.line()

    def line(self):
        return self._process.stdout.readline().strip()

    def act(self, what="read"):
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return self.line()

    def end(self):
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(120) == 0


@pytest.mark.slow
@pytest.mark.spec("AUTH-5", "AUTH-7")
async def test_another_process_stops_at_its_next_operation(tmp_path):
    place, state = tmp_path / "tree", tmp_path / "state"
    place.mkdir()
    (place / "f.txt").write_text("x")
    async with governed(tmp_path, on_disk=True, place=place, state_dir=state) as house:
        configuration = next(tmp_path.glob("bailiwick-*.toml"))
        holder = await asyncio.to_thread(Holder, configuration, state)
        try:
            assert (holder.act(), holder.act("write")) == ("ok", "ok")
            await house.authority.set_trust("workspace:demo", False, by=ME)
            assert (holder.act(), holder.act("write")) == ("ok", "untrusted_workspace")
            await house.authority.set_trust("workspace:demo", True, by=ME)
            assert holder.act("write") == "ok"
            assert await house.authority.revoke(holder.grant_id, by=ME) == 2
            assert (holder.act(), holder.act("write")) == ("grant_revoked", "grant_revoked")
        finally:
            holder.end()
