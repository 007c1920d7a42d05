"""An approval is for the call that was shown, whole; and what changed meanwhile is looked at again.

What a person says yes to is one call: its target, where it goes, its arguments, what it replaces.
While they think, the tree goes on: what they did not see must not happen.
"""

import io
import re
import zipfile
from types import SimpleNamespace as Options

import pytest

from bailiwick.approvals import always_for
from bailiwick.fronts.cli.commands import approvals
from bailiwick.fronts.cli.prompts import _prompt, question_lines
from tests.authority.asked import sha, surfaced, waits
from tests.authority.support import ME, Person, governed, refusal, rule
from tests.authority.test_asking_ends import TWO

CHANGING = ["write", "delete", "move", "archive"]
ASKS = rule("ask", "d/sub", "out", "kept.txt", "new", access=CHANGING)
DENIES = rule("deny", "d/private", "out/private", access=["read", "write", "delete", "move"])
TREE = {
    "d/sub/a.txt": "a", "d/precious": "p", "docs/f": "docs", "other/f": "other", "kept.txt": "old",
    "free": "f",
}  # fmt: skip


def zipped(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return made.getvalue()


async def stand(house, tree):
    bare = await house.bare()
    for path, content in tree.items():
        data = content.encode() if isinstance(content, str) else content
        await bare.write_bytes(path, data, parents=True)


# --- bound to the whole call -----------------------------------------------------------------

# what it is: what was shown and approved; what stands there afterwards; what is sent for it
OTHER_CALLS = {
    "another target": (
        lambda fs: fs.remove("d/sub", recursive=True), {},
        lambda fs: fs.remove("d", recursive=True), "target",
    ),
    "another source": (
        lambda fs: fs.move("docs", "new"), {}, lambda fs: fs.move("other", "new"), "target",
    ),
    "a source with the same content": (
        lambda fs: fs.copy("docs/f", "new"), {"docs/g": "docs"},
        lambda fs: fs.copy("docs/g", "new"), "target",
    ),
    "over what is there": (
        lambda fs: fs.extract_archive("z.zip", "out"), {"out/f.txt": "precious"},
        lambda fs: fs.extract_archive("z.zip", "out", overwrite=True), "arguments",
    ),
    "over more than was there": (
        lambda fs: fs.extract_archive("z.zip", "out", overwrite=True), {"out/f.txt": "precious"},
        lambda fs: fs.extract_archive("z.zip", "out", overwrite=True), "replaced content",
    ),
    "a move that replaces": (
        lambda fs: fs.move("free", "new"), {"new": "precious"},
        lambda fs: fs.move("free", "new", replace=True), "arguments",
    ),
    "a move that replaces something": (
        lambda fs: fs.move("free", "new", replace=True), {"new": "precious"},
        lambda fs: fs.move("free", "new", replace=True), "access",
    ),
    "over other content": (
        lambda fs: fs.write_text("kept.txt", "x"), {"kept.txt": "changed"},
        lambda fs: fs.write_text("kept.txt", "x"), "replaced content",
    ),
    "a stream over other content": (
        lambda fs: fs.write_stream("kept.txt", [b"x"]), {"kept.txt": "changed"},
        lambda fs: fs.write_stream("kept.txt", [b"x"]), "replaced content",
    ),
    "an appendix to other content": (
        lambda fs: fs.append("kept.txt", "x"), {"kept.txt": "changed"},
        lambda fs: fs.append("kept.txt", "x"), "replaced content",
    ),
    "cutting other content": (
        lambda fs: fs.truncate("kept.txt", 1), {"kept.txt": "changed"},
        lambda fs: fs.truncate("kept.txt", 1), "replaced content",
    ),
    "removing other content": (
        lambda fs: fs.remove("kept.txt"), {"kept.txt": "changed"},
        lambda fs: fs.remove("kept.txt"), "replaced content",
    ),
    "another mode": (
        lambda fs: fs.write_text("kept.txt", "x"), {},
        lambda fs: fs.write_text("kept.txt", "x", file_mode=0o777), "arguments",
    ),
    "another mode of a stream": (
        lambda fs: fs.write_stream("kept.txt", [b"x"]), {},
        lambda fs: fs.write_stream("kept.txt", [b"x"], file_mode=0o777), "arguments",
    ),
    "another mode of an appendix": (
        lambda fs: fs.append("kept.txt", "x"), {},
        lambda fs: fs.append("kept.txt", "x", file_mode=0o777), "arguments",
    ),
    "parents too": (
        lambda fs: fs.make_dir("out"), {}, lambda fs: fs.make_dir("out", parents=True), "arguments",
    ),
    "not only tried": (
        lambda fs: fs.edit("kept.txt", old="old", new="new", dry_run=True), {},
        lambda fs: fs.edit("kept.txt", old="old", new="new"), "arguments",
    ),
    "an archive over another": (
        lambda fs: fs.create_archive("docs", "new", format="zip"), {},
        lambda fs: fs.create_archive("docs", "new", format="zip", mode="overwrite"), "arguments",
    ),
}  # fmt: skip


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("name", OTHER_CALLS)
async def test_an_approval_is_for_the_whole_call(tmp_path, name, on_disk):
    asked, meanwhile, sent, differs = OTHER_CALLS[name]
    async with governed(tmp_path, ASKS, on_disk=on_disk, more=surfaced()) as house:
        await stand(house, {**TREE, "z.zip": zipped(f_txt="evil").replace(b"f_txt", b"f.txt")})
        fs = await house.scope()
        approval = await waits(fs, asked)
        await house.authority.approvals.answer(approval, "once", by="user:me", front="cli")
        await stand(house, meanwhile)
        before = await house.tree()
        error = await refusal(sent(fs.with_approval(approval)))
        assert (error.kind, error.details.get("differs")) == ("approval_denied", differs)
        assert await house.tree() == before


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
async def test_a_large_file_that_is_replaced_is_bound_too(tmp_path, on_disk):
    """One that is too large to be compared in passing."""
    options = "limits = { text_write_bytes_max = 8 }"
    async with governed(tmp_path, ASKS, on_disk=on_disk, more=surfaced(), options=options) as house:
        await stand(house, {"kept.txt": "a" * 100})

        def act(scope):
            return scope.write_bytes("kept.txt", b"x" * 50)

        fs = await house.scope()
        approval = await waits(fs, act)
        await house.authority.approvals.answer(approval, "once", by="user:me", front="cli")
        await stand(house, {"kept.txt": "b" * 100})
        assert (await refusal(act(fs.with_approval(approval)))).kind == "approval_denied"

        async def meanwhile(approval):
            await stand(house, {"kept.txt": "c" * 100})

        person = Person("once", then=meanwhile)
        asking = fs.with_caller("t", asker=person)
        assert (await refusal(act(asking))).kind == "hash_mismatch"
        assert (await house.tree())["kept.txt"] == b"c" * 100
        person.then = None
        await act(asking)


# --- what a person is shown ------------------------------------------------------------------

SHOWN = {
    "remove tree": (
        lambda fs: fs.remove("d", recursive=True), "d", None, ("recursive", "everything in it"),
    ),
    "remove": (lambda fs: fs.remove("kept.txt"), "kept.txt", None, ()),
    "move": (lambda fs: fs.move("docs", "new"), "docs", "new", ("everything in it",)),
    "replace": (
        lambda fs: fs.move("free", "kept.txt", replace=True), "free", "kept.txt", ("replace",),
    ),
    "copy": (lambda fs: fs.copy("docs/f", "new"), "docs/f", "new", ("file_mode 0600",)),
    "copy tree": (
        lambda fs: fs.copy("docs", "new", recursive=True), "docs", "new",
        ("recursive", "everything in it"),
    ),
    "write": (
        lambda fs: fs.write_text("kept.txt", "x", file_mode=0o777), "kept.txt", None,
        ("mode overwrite", "file_mode 0777"),
    ),
    "make_dir": (lambda fs: fs.make_dir("out/x", parents=True), "out/x", None, ("parents",)),
    "archive": (
        lambda fs: fs.create_archive(["docs", "free", "other"], "new", format="zip"),
        "docs", "new", ("format zip", "mode create", "of docs, free, other"),
    ),
    "copy_from": (
        lambda fs: fs.copy_from(fs, "docs", "new", recursive=True), "new", None,
        ("recursive", "from workspace:demo://docs"),
    ),
}  # fmt: skip


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize("name", SHOWN)
async def test_a_person_sees_the_whole_call(tmp_path, name):
    act, target, destination, arguments = SHOWN[name]
    async with governed(tmp_path, ASKS) as house:
        await stand(house, TREE)
        person = Person("no")
        fs = await house.scope(asker=person)
        assert (await refusal(act(fs))).kind == "approval_denied"
        (question,) = person.questions
        assert (question.target, question.destination) == (target, destination)
        for each in arguments:
            assert each in question.arguments
        assert bool(arguments) is bool(question.arguments)


@pytest.mark.spec("ASK-1")
async def test_what_is_replaced_or_removed_is_shown_by_its_hash(tmp_path):
    old = sha(b"old")
    async with governed(tmp_path, ASKS) as house:
        await stand(house, TREE)
        person = Person("no")
        fs = await house.scope(asker=person)
        for work in (
            fs.write_stream("kept.txt", [b"x"]), fs.append("kept.txt", "x"),
            fs.truncate("kept.txt", 1), fs.remove("kept.txt"),
            fs.move("free", "kept.txt", replace=True),
            fs.create_archive("docs", "kept.txt", format="zip", mode="overwrite"),
        ):  # fmt: skip
            await refusal(work)
        assert [each.preview.sha256_before for each in person.questions] == [old] * 6


@pytest.mark.spec("ASK-1")
async def test_an_edits_text_does_not_stand_among_the_arguments(tmp_path):
    async with governed(tmp_path, ASKS) as house:
        await stand(house, TREE)
        person = Person("no")
        fs = await house.scope(asker=person)
        await refusal(fs.edit("kept.txt", old="old", new="new secret"))
        assert person.questions[0].arguments == ""


# --- what changes while a person is asked ----------------------------------------------------


async def _asked(tmp_path, act, then, rules=ASKS + DENIES, on_disk=True, tree=TREE):
    """Do something that asks, let something happen meanwhile; the error and the tree."""
    async with governed(tmp_path, rules, on_disk=on_disk) as house:
        await stand(house, {**tree, "z.zip": zipped(f="evil", private__s="x")})
        bare = await house.bare()

        async def meanwhile(approval):
            await then(bare)

        person = Person("once", then=meanwhile)
        fs = await house.scope(asker=person)
        error = await refusal(act(fs))
        assert len(person.asked) == 1
        return error, await house.tree()


TREES = {
    "remove": lambda fs: fs.remove("d", recursive=True),
    "move": lambda fs: fs.move("d", "x"),
    "copy": lambda fs: fs.copy("d", "new", recursive=True),
    "copy_from": lambda fs: fs.copy_from(fs, "d", "new", recursive=True),
}


@pytest.mark.spec("ASK-2", "POL-4")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("name", TREES)
async def test_what_came_into_a_tree_meanwhile_is_judged(tmp_path, name, on_disk):
    async def then(bare):
        await bare.write_text("d/private/s", "secret", parents=True)

    error, tree = await _asked(tmp_path, TREES[name], then, on_disk=on_disk)
    assert error.kind == "policy_denied"
    assert tree["d/private/s"] == b"secret"
    assert not any(path.startswith(("x/", "new/")) for path in tree)


@pytest.mark.spec("ASK-2", "POL-4")
@pytest.mark.parametrize("name", TREES)
async def test_what_was_not_among_what_was_asked_is_not_approved(tmp_path, name):
    async def then(bare):
        await bare.write_text("d/sub/more", "2")

    asks = rule("ask", "d/sub", access=["read", "delete", "move"])
    error, tree = await _asked(tmp_path, TREES[name], then, asks)
    assert error.kind == "hash_mismatch"
    assert tree["d/sub/more"] == b"2"
    assert not any(path.startswith(("x/", "new/")) for path in tree)


@pytest.mark.spec("ASK-2", "POL-4")
@pytest.mark.parametrize("name", TREES)
async def test_what_needs_no_asking_may_come_meanwhile(tmp_path, name):
    async def then(bare):
        await bare.write_text("d/harmless", "2")

    asks = rule("ask", "d/sub", access=["read", "delete", "move"])
    error, tree = await _asked(tmp_path, TREES[name], then, asks)
    assert error is None
    assert ("d/harmless" in tree) is name.startswith("copy")


@pytest.mark.spec("ASK-2", "TREE-2")
@pytest.mark.parametrize("answer", ["once", "grant"])
@pytest.mark.parametrize("name", TREES)
async def test_what_was_approved_is_done_whole(tmp_path, name, answer):
    asks = rule("ask", "d/sub", access=["read", "delete", "move"])
    async with governed(tmp_path, asks) as house:
        await stand(house, {**TREE, "d/sub/deep/er": "x"})
        fs = await house.scope(asker=Person(answer))
        await TREES[name](fs)
        tree = await house.tree()
        arrived = {"move": "x", "copy": "new", "copy_from": "new"}.get(name)
        if arrived is not None:
            assert tree[f"{arrived}/sub/deep/er"] == b"x"
        assert ("d/sub/deep/er" in tree) is name.startswith("copy")


@pytest.mark.spec("ASK-2", "PATH-6")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("name", TREES)
async def test_another_directory_under_the_same_name_was_not_asked_about(tmp_path, name, on_disk):
    async def then(bare):
        await bare.move("d", "d.old")
        await bare.write_text("d/sub/a.txt", "b", parents=True)

    asks = rule("ask", "d/sub", access=["read", "delete", "move"])
    error, tree = await _asked(tmp_path, TREES[name], then, asks, on_disk)
    assert error.kind == "hash_mismatch"
    assert tree["d/sub/a.txt"] == b"b"


ENTRIES = {
    "write": lambda fs: fs.write_text("kept.txt", "x"),
    "conditional": lambda fs: fs.write_text(
        "kept.txt", "x", mode="replace", expected_sha256=sha(b"theirs")
    ),
    "stream": lambda fs: fs.write_stream("kept.txt", [b"x"]),
    "append": lambda fs: fs.append("kept.txt", "x"),
    "truncate": lambda fs: fs.truncate("kept.txt", 1),
    "mode": lambda fs: fs.set_mode("kept.txt", 0o640),
    "times": lambda fs: fs.set_times("kept.txt", 10**18),
    "remove": lambda fs: fs.remove("kept.txt"),
    "move": lambda fs: fs.move("kept.txt", "x"),
    "move over": lambda fs: fs.move("free", "kept.txt", replace=True),
    "archive": lambda fs: fs.create_archive("docs", "kept.txt", format="zip", mode="overwrite"),
}  # fmt: skip


@pytest.mark.spec("ASK-2", "EDIT-4")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("how", ["rewritten", "replaced"])
@pytest.mark.parametrize("name", ENTRIES)
async def test_a_file_changed_meanwhile_is_left_alone(tmp_path, name, how, on_disk):
    async def then(bare):
        if how == "replaced":
            await bare.move("kept.txt", "kept.old")
        await bare.write_text("kept.txt", "theirs")

    error, tree = await _asked(tmp_path, ENTRIES[name], then, on_disk=on_disk)
    assert error.kind == "hash_mismatch"
    assert tree["kept.txt"] == b"theirs"


FREE = {
    "write": lambda fs: fs.write_text("new", "x"),
    "stream": lambda fs: fs.write_stream("new", [b"x"]),
    "append": lambda fs: fs.append("new", "x"),
    "make_dir": lambda fs: fs.make_dir("new", parents=True),
    "symlink": lambda fs: fs.symlink("new", "free"),
    "move": lambda fs: fs.move("free", "new", replace=True),
    "copy": lambda fs: fs.copy("free", "new"),
    "copy_from": lambda fs: fs.copy_from(fs, "free", "new"),
    "archive": lambda fs: fs.create_archive("docs", "new", format="zip", mode="overwrite"),
    "extract": lambda fs: fs.extract_archive("z.zip", "new", overwrite=True),
}


@pytest.mark.spec("ASK-2", "WRITE-3")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("name", FREE)
async def test_what_was_free_when_a_person_was_asked_must_be_free(tmp_path, name, on_disk):
    async def then(bare):
        await bare.write_text("new", "theirs")

    error, tree = await _asked(tmp_path, FREE[name], then, on_disk=on_disk)
    assert error.kind in ("hash_mismatch", "file_already_exists")
    assert tree["new"] == b"theirs"
    assert tree["free"] == b"f"


@pytest.mark.spec("ASK-2", "ARCH-1", "POL-4")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("overwrite", [False, True])
async def test_what_an_archive_would_replace_is_looked_at_again(tmp_path, overwrite, on_disk):
    async def then(bare):
        await bare.write_text("out/f", "theirs")

    error, tree = await _asked(
        tmp_path, lambda fs: fs.extract_archive("z.zip", "out", overwrite=overwrite), then, ASKS,
        on_disk, {**TREE, "out/x": "1"},
    )  # fmt: skip
    assert error.kind in ("hash_mismatch", "file_already_exists")
    assert (tree["out/f"], "out/private/s" in tree) == (b"theirs", False)


@pytest.mark.spec("ASK-2", "PATH-6")
async def test_an_archive_is_not_unpacked_into_another_directory(tmp_path):
    async def then(bare):
        await bare.move("out", "out.old")
        await bare.write_text("out/y", "theirs", parents=True)

    error, tree = await _asked(
        tmp_path, lambda fs: fs.extract_archive("z.zip", "out"), then, ASKS,
        tree={**TREE, "out/x": "1"},
    )  # fmt: skip
    assert error.kind == "hash_mismatch"
    assert "out/f" not in tree


@pytest.mark.spec("ASK-2", "POL-1")
async def test_a_rule_made_meanwhile_holds(tmp_path):
    """Somebody who was asked elsewhere has said "never" to the same."""
    async with governed(tmp_path, ASKS) as house:
        await stand(house, TREE)
        fs = await house.scope()

        async def meanwhile(approval):
            strict = fs.with_caller("t", asker=Person("never"))
            assert (await refusal(strict.write_text("kept.txt", "y"))).kind == "approval_denied"

        lenient = fs.with_caller("t", asker=Person("once", then=meanwhile))
        assert (await refusal(lenient.write_text("kept.txt", "x"))).kind == "policy_denied"
        assert (await house.tree())["kept.txt"] == b"old"


# --- between roots ---------------------------------------------------------------------------

READS = rule("ask", "d/sub", "kept.txt", access=["read"])


@pytest.mark.spec("ASK-1", "ASK-2")
async def test_a_copy_to_another_root_is_bound_to_where_it_goes(tmp_path):
    async with governed(tmp_path, READS, more=TWO + surfaced()) as house:
        await stand(house, TREE)
        fs = await house.scope()
        two = await house.scope({"read", "write"}, root="workspace:two")
        approval = await waits(fs, lambda scope: two.copy_from(scope, "d", "a", recursive=True))
        (pending,) = house.authority.approvals.pending()
        question = pending.question
        assert (question.target, question.destination) == ("d", "workspace:two://a")
        assert question.arguments == "recursive, everything in it"
        await house.authority.approvals.answer(approval, "once", by="user:me", front="cli")
        approved = fs.with_approval(approval)
        for work in (
            two.copy_from(approved, "d", "b", recursive=True),
            (await house.scope()).copy_from(approved, "d", "a", recursive=True),
        ):
            error = await refusal(work)
            assert (error.kind, error.details["differs"]) == ("approval_denied", "destination")
        await two.copy_from(approved, "d", "a", recursive=True)


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize("answer", ["grant", "always", "never"])
@pytest.mark.parametrize("path", ["d", "kept.txt"])
async def test_an_answer_about_a_copy_to_another_root_is_remembered(tmp_path, answer, path):
    async with governed(tmp_path, READS, more=TWO) as house:
        await stand(house, TREE)
        person = Person(answer)
        fs = await house.scope(asker=person)
        two = await house.scope({"read", "write"}, root="workspace:two")
        for _ in range(2):
            error = await refusal(two.copy_from(fs, path, "a", recursive=True))
            assert (error is not None) is (answer == "never")
            await (await house.bare("workspace:two")).remove("a", recursive=True, missing_ok=True)
        assert len(person.asked) == 1
        person.answer = "no"
        assert (await refusal(two.copy_from(fs, path, "b", recursive=True))).kind == (
            "approval_denied"
        )
        assert len(person.asked) == 2


@pytest.mark.spec("ASK-1", "AUDIT-1", "AUDIT-3")
@pytest.mark.parametrize("answer", ["once", "no"])
async def test_the_source_of_a_copy_is_no_change_of_its_root(tmp_path, answer):
    async with governed(tmp_path, READS, more=TWO, state_dir=tmp_path / "state") as house:
        await stand(house, TREE)
        fs = await house.scope(asker=Person(answer))
        two = await house.scope({"read", "write"}, root="workspace:two")
        await refusal(two.copy_from(fs, "d", "a", recursive=True))
        ledger = house.authority.ledger
        await ledger.flush()
        assert not ledger.in_flight("workspace:demo", "d")
        assert not ledger.in_flight("workspace:two", "a")
    async with governed(tmp_path, READS, more=TWO, state_dir=tmp_path / "state") as house:
        assert [each for each in await house.operations() if each.error_kind == "interrupted"] == []


# --- for longer ------------------------------------------------------------------------------


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize("answer", ["grant", "always", "never"])
@pytest.mark.parametrize(
    "act",
    [
        lambda fs: fs.copy("d", "e", recursive=True),
        lambda fs: fs.move("d", "e"),
        lambda fs: fs.create_archive("d", "e.zip"),
        lambda fs: fs.extract_archive("z.zip", "out"),
    ],
)
async def test_answers_about_many_paths_are_remembered(tmp_path, act, answer):
    asks = rule("ask", "d/sub", access=["read"]) + rule("ask", "out/f", id="o", access=["write"])
    async with governed(tmp_path, asks) as house:
        person = Person(answer)
        fs = await house.scope(asker=person)
        for _ in range(2):
            for path in ("d", "e", "e.zip", "out"):
                await (await house.bare()).remove(path, recursive=True, missing_ok=True)
            await stand(house, {**TREE, "z.zip": zipped(f="1")})
            error = await refusal(act(fs))
            assert (error is not None) is (answer == "never")
        assert len(person.asked) == 1


# --- at the terminal -------------------------------------------------------------------------


@pytest.mark.spec("ASK-1", "CLI-1")
async def test_the_terminal_and_the_commands_show_the_whole_call(tmp_path, capsys):
    async with governed(tmp_path, ASKS, more=surfaced()) as house:
        await stand(house, TREE)
        fs = await house.scope()
        approval = await waits(fs, lambda scope: scope.remove("d", recursive=True))
        await waits(fs, lambda scope: scope.move("free", "kept.txt", replace=True))
        await waits(
            await house.scope(subject=ME),
            lambda scope: scope.move("free", "kept.txt", replace=True),
        )
        first, second, third = house.authority.approvals.pending()
        lines = list(question_lines(first))
        assert "  remove d" in lines
        assert "  with: recursive, everything in it" in lines
        assert lines.index("  asked about in particular:") < lines.index("  d/sub/a.txt")
        assert "[a]lways for agent_run:*," in _prompt(first.question.subject)
        lines = list(question_lines(second))
        assert lines[1:4] == ["  move free", "  to kept.txt", "  with: replace, file_mode 0600"]
        assert f"replaces or removes content {sha(b'old')}" in lines
        assert "[a]lways for user:me," in _prompt(third.question.subject)
        capsys.readouterr()
        await approvals._list(house.authority, Options(only="pending", follow=False, json=False))
        await approvals._show(house.authority, Options(id=approval, json=False))
        shown = capsys.readouterr().out
        assert "free → kept.txt (replace, file_mode 0600)" in shown
        assert "d (recursive, everything in it) (+1)" in shown
        for name, value in (
            ("target", "d"), ("arguments", "recursive, everything in it"),
            ("always means", "for agent_run:*"),
        ):  # fmt: skip
            assert re.search(rf"^{name} +{re.escape(value)}$", shown, re.MULTILINE)


@pytest.mark.spec("ASK-1")
async def test_always_is_for_every_run_of_an_agent_and_said_so(tmp_path):
    async with governed(tmp_path, ASKS) as house:
        await stand(house, TREE)
        fs = await house.scope(asker=Person("always"))
        await fs.write_text("kept.txt", "x")
        (remembered,) = house.authority.rules.rules()
        assert remembered.subject == always_for(fs.subject) == "agent_run:*"
        assert always_for(ME) == "user:me"
