"""What a person approves of a move or copy is what arrives: of a tree, a link and a file alike.

An agent may write where nothing asks, and have that carried to where something does. The attack:
have good content approved, put other content in its place, and redeem the approval.
"""

from contextlib import asynccontextmanager

import pytest

import bailiwick
from tests.authority.asked import sha, surfaced, waits
from tests.authority.support import Person, everything_said, governed, refusal, rule
from tests.authority.test_versions_review import house_on_volume

PLACES = ["memory", pytest.param("disk", marks=pytest.mark.slow), "volume"]
ASKS = rule("ask", "kept", access=["write", "move"])
TREE = {"d/x": "good", "d/sub/y": "fine\n", "d/link": "-> x", "free": "text\n", "kept/a": "old\n"}

BULK = {
    "copy": lambda fs: fs.copy("d", "kept/new", recursive=True),
    "move": lambda fs: fs.move("d", "kept/new"),
    "copy_from": lambda fs: fs.copy_from(fs, "d", "kept/new", recursive=True),
}


@asynccontextmanager
async def house_on(where, tmp_path, rules=ASKS, options="", tree=TREE):
    if where == "volume":
        opened = house_on_volume(tmp_path, rules, root=options, more=surfaced())
    else:
        opened = governed(
            tmp_path, rules, on_disk=where == "disk", more=surfaced(), options=options
        )
    async with opened as house:
        await house.plant(tree)
        yield house


async def approved(house, fs, act):
    """Have a call approved; the scope that redeems it."""
    approval = await waits(fs, act)
    await house.authority.approvals.answer(approval, "once", by="user:me", front="cli")
    return fs.with_approval(approval)


async def asked(house, act, answer="no", then=None):
    """What a person is shown."""
    person = Person(answer, then)
    error = await refusal(act(await house.scope(asker=person)))
    (question,) = person.questions
    return question, error


async def relink(fs):
    await fs.remove("d/link")
    await fs.symlink("d/link", "sub")


# what the agent may do between approval and redemption, as nothing asks about ``d``
SWAPS = {
    "content": lambda fs: fs.write_text("d/x", "EVIL"),
    "content deep down": lambda fs: fs.write_text("d/sub/y", "EVIL\n"),
    "mode": lambda fs: fs.set_mode("d/x", 0o755),
    "mode of the top": lambda fs: fs.set_mode("d", 0o711),
    "link": relink,
}


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("verb", BULK)
async def test_the_tree_approved_is_the_tree_that_arrives(tmp_path, verb, swap, where):
    async with house_on(where, tmp_path) as house:
        fs = await house.scope()
        redeeming = await approved(house, fs, BULK[verb])
        await SWAPS[swap](fs)
        before = await house.tree()
        error = await refusal(BULK[verb](redeeming))
        assert (error.kind, error.details.get("differs")) == ("approval_denied", "content")
        assert await house.tree() == before


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("verb", BULK)
async def test_an_approved_tree_arrives_whole_and_once(tmp_path, verb, where):
    async with house_on(where, tmp_path) as house:
        fs = await house.scope()
        redeeming = await approved(house, fs, BULK[verb])
        await BULK[verb](redeeming)
        tree = await house.tree()
        assert (tree["kept/new/x"], tree["kept/new/sub/y"]) == (b"good", b"fine\n")
        assert ("d/x" in tree) is verb.startswith("copy")
        await house.plant({"d/x": "good"})
        assert await refusal(BULK[verb](redeeming)) is not None


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("verb", BULK)
async def test_a_tree_changed_while_a_person_thinks_stays(tmp_path, verb, swap, where):
    async with house_on(where, tmp_path) as house:
        fs = await house.scope()
        _, error = await asked(house, BULK[verb], "once", lambda _: SWAPS[swap](fs))
        assert error.kind == "hash_mismatch"
        assert not any(path.startswith("kept/new") for path in await house.tree())


@pytest.mark.spec("ASK-2", "AUTH-8")
@pytest.mark.parametrize("verb", BULK)
async def test_what_changes_while_a_turn_is_awaited_is_seen(tmp_path, verb):
    """Under a quota a change waits for those before it: the look comes after the waiting."""
    async with house_on("disk", tmp_path, options='quota = { bytes = "1 MiB" }') as house:
        fs = await house.scope(asker=Person("once"))
        meter = fs._pipeline.meter
        take = meter.turns.take

        async def take_late(root, *paths):
            with open(house.place / "d/x", "w") as file:
                file.write("EVIL")
            return await take(root, *paths)

        meter.turns.take = take_late
        error = await refusal(BULK[verb](fs))
        assert error.kind == "hash_mismatch"
        assert not any(path.startswith("kept/new") for path in await house.tree())


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("late", ["d/x", "d/sub/more", "d/sub/zz/more"])
async def test_a_copy_between_roots_publishes_only_what_was_seen(
    tmp_path, monkeypatch, late, where
):
    """Every file is read by itself, and may be another one by the time that its turn comes."""
    async with house_on(where, tmp_path, tree={**TREE, "d/a": "first"}) as house:
        fs, bare = await house.scope(asker=Person("once")), await house.bare()
        store = type(fs._pipeline.store)
        write, published = store.write_stream, []

        async def write_late(self, entry, chunks, plan):
            if not published:
                await bare.write_text(late, "EVIL", parents=True)
            done = await write(self, entry, chunks, plan)
            published.append(entry.path)
            return done

        monkeypatch.setattr(store, "write_stream", write_late)
        assert (await refusal(BULK["copy_from"](fs))).kind == "hash_mismatch"
        assert published
        assert late.replace("d/", "kept/new/") not in published
        assert not any(path.startswith("kept/new") for path in await house.tree())


@pytest.mark.spec("ASK-2", "VOL-7")
async def test_an_approval_holds_for_the_same_draft_made_anew(tmp_path):
    """Who could not wait sends all of it again: other versions, the same content."""
    async with house_on("volume", tmp_path) as house:
        fs = await house.scope()

        async def draft(scope, content):
            async with scope.transaction() as inside:
                await inside.write_text("made/x", content, parents=True)
                return await inside.move("made", "kept/made")

        redeeming = await approved(house, fs, lambda scope: draft(scope, "good"))
        error = await refusal(draft(redeeming, "EVIL"))
        assert error.details.get("differs") == "content"
        assert "kept/made/x" not in await house.tree()
        await draft(redeeming, "good")
        assert (await house.tree())["kept/made/x"] == b"good"


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("verb", ["copy", "move", "copy_from"])
@pytest.mark.parametrize("path", ["free", "d/link"])
async def test_a_single_file_or_link_is_bound_with_its_mode(tmp_path, verb, path, where):
    async def swap(fs):
        if path == "free":
            await fs.set_mode("free", 0o755)  # what makes a hook of a text
        else:
            await relink(fs)

    def act(fs):
        if verb == "copy_from":
            return fs.copy_from(fs, path, "kept/new")
        return getattr(fs, verb)(path, "kept/new")

    async with house_on(where, tmp_path) as house:
        fs = await house.scope()
        redeeming = await approved(house, fs, act)
        await swap(fs)
        error = await refusal(act(redeeming))
        differs = "arguments" if path == "free" else "content"
        assert (error.kind, error.details.get("differs")) == ("approval_denied", differs)
        assert "kept/new" not in await house.tree()


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("verb", ["copy", "move", "copy_from"])
async def test_a_mode_set_while_a_person_thinks_was_not_approved(tmp_path, verb, where):
    def act(fs):
        return (
            fs.copy_from(fs, "free", "kept/new")
            if verb == "copy_from"
            else getattr(fs, verb)("free", "kept/new")
        )

    async with house_on(where, tmp_path) as house:
        fs = await house.scope()
        _, error = await asked(house, act, "once", lambda _: fs.set_mode("free", 0o755))
        assert error.kind == "hash_mismatch"


# --- what is asked, and what is not ----------------------------------------------------------


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
async def test_what_nothing_asks_about_is_not_bound(tmp_path, where):
    """A project moves with the part of it that a rule keeps: the rest may go on changing."""
    rules = rule("ask", "d/sub", "e/sub", access=["write", "move"])
    async with house_on(where, tmp_path, rules) as house:
        fs = await house.scope()
        redeeming = await approved(house, fs, lambda scope: scope.move("d", "e"))
        await fs.write_text("d/x", "gone on")
        await redeeming.move("d", "e")
        assert (await house.tree())["e/x"] == b"gone on"


@pytest.mark.spec("ASK-2")
async def test_a_hook_that_asks_asks_about_the_whole_tree(tmp_path):
    class Hook:
        id = "guard"

        async def before(self, context):
            return bailiwick.Ask("hook:guard", "sure?") if context.operation == "copy" else None

        async def after(self, context, outcome):
            return None

    async with house_on("memory", tmp_path, "") as house:
        house.authority.hooks.register(Hook())
        fs = await house.scope()
        redeeming = await approved(house, fs, lambda scope: scope.copy("d", "e", recursive=True))
        await fs.write_text("d/sub/y", "EVIL")
        error = await refusal(redeeming.copy("d", "e", recursive=True))
        assert error.details.get("differs") == "content"


# --- what a person is shown ------------------------------------------------------------------


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("verb", BULK)
async def test_a_person_sees_what_a_tree_holds(tmp_path, verb, where):
    async with house_on(where, tmp_path) as house:
        question, _ = await asked(house, BULK[verb])
        preview = question.preview
        lines = preview.diff.splitlines()
        assert lines[0] == "5 entries, 9 bytes in files:"
        names = [line.split("  ")[-1] for line in lines[1:]]
        assert names == ["./", "link -> x", "sub/", "sub/y", "x"]
        assert f"4 bytes  {sha(b'good')[:12]}  x" in lines[-1]
        assert preview.size == 9
        assert not preview.diff_truncated


@pytest.mark.spec("ASK-1")
async def test_a_long_tree_is_listed_in_part_and_says_so(tmp_path):
    options = "limits = { ask_diff_lines_max = 4 }"
    async with house_on("memory", tmp_path, options=options) as house:
        preview = (await asked(house, BULK["copy"]))[0].preview
        assert preview.diff.splitlines()[0] == (
            "5 entries, 9 bytes in files; the last 2 are not listed:"
        )
        assert len(preview.diff.splitlines()) == 4
        assert preview.diff_truncated


@pytest.mark.spec("ASK-1")
async def test_a_name_cannot_pass_for_another_line(tmp_path):
    async with house_on("disk", tmp_path, tree={"kept/a": ""}) as house:
        (house.place / "d").mkdir()
        (house.place / "d" / "a\n0644  4 bytes  harmless").write_text("x")
        preview = (await asked(house, BULK["copy"]))[0].preview
        assert len(preview.diff.splitlines()) == 3


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("verb", BULK)
async def test_too_large_a_tree_is_not_asked_about(tmp_path, verb, where):
    options = "limits = { ask_tree_entries_max = 4 }"
    async with house_on(where, tmp_path, options=options) as house:
        person = Person("once")
        fs = await house.scope(asker=person)
        before = await house.tree()
        error = await refusal(BULK[verb](fs))
        assert (error.kind, error.details) == ("unsupported", {"limit": 4})
        assert "parts" in error.hint
        assert not person.asked
        assert await house.tree() == before


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("where", PLACES)
async def test_large_content_is_bound_by_its_version(tmp_path, where):
    options = "limits = { ask_tree_bytes_max = 4 }"
    async with house_on(where, tmp_path, options=options) as house:
        fs = await house.scope()
        preview = (await asked(house, BULK["copy"]))[0].preview
        assert preview.diff.count(sha(b"good")[:12]) == 1
        assert preview.diff.count("bound by its version") == 1
        await BULK["copy"](await approved(house, fs, BULK["copy"]))
        await (await house.bare()).remove("kept/new", recursive=True)
        redeeming = await approved(house, fs, BULK["copy"])
        await fs.write_text("d/sub/y", "EVIL\n")
        error = await refusal(BULK["copy"](redeeming))
        assert error.details.get("differs") == "content"


# what arrives: how it is done, and what the person is shown of it
ARRIVES = {
    "copy": (lambda fs: fs.copy("free", "kept/new"), "+++ b/kept/new\n@@ -0,0 +1 @@\n+text\n"),
    "copy_from": (lambda fs: fs.copy_from(fs, "free", "kept/new"), "+++ b/kept/new\n"),
    "move": (lambda fs: fs.move("free", "kept/new"), "+text\n"),
    "move over": (lambda fs: fs.move("free", "kept/a", replace=True), "-old\n+text\n"),
    "binary": (lambda fs: fs.copy("bin", "kept/new"), f"3 bytes, sha256 {sha(bytes([0, 255, 0]))}"),
    "large": (lambda fs: fs.copy("large", "kept/new"), f"99 bytes, sha256 {sha(b'x' * 99)}"),
    "over large": (lambda fs: fs.move("free", "kept/large", replace=True), "5 bytes, sha256 "),
    "empty": (lambda fs: fs.copy("none", "kept/new"), f"0 bytes, sha256 {sha(b'')}"),
    "link": (lambda fs: fs.copy("d/link", "kept/new"), "a link to x"),
}  # fmt: skip


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", ARRIVES)
async def test_a_person_sees_the_content_that_arrives(tmp_path, name, where):
    act, shown = ARRIVES[name]
    more = {"bin": b"\0\xff\0", "large": "x" * 99, "kept/large": "y" * 99, "none": ""}
    options = "limits = { diff_bytes_max = 64 }"
    async with house_on(where, tmp_path, options=options, tree={**TREE, **more}) as house:
        question, error = await asked(house, act)
        assert shown in question.preview.diff
        # and what the agent is told has nothing of it
        assert "text" not in everything_said(error)


@pytest.mark.spec("ASK-1", "VOL-7")
async def test_what_a_draft_wrote_is_what_a_person_sees_moved(tmp_path):
    """Outside, the file has its old and harmless text still."""
    async with house_on("volume", tmp_path) as house:
        person = Person("no")
        fs = await house.scope(asker=person)
        async with fs.transaction() as draft:
            await draft.write_text("free", "evil\n")
            error = await refusal(draft.move("free", "kept/post-checkout"))
            assert error.kind == "approval_denied"
        assert "+evil\n" in person.questions[0].preview.diff
        assert "kept/post-checkout" not in await house.tree()


@pytest.mark.spec("ASK-1", "POL-4")
async def test_what_a_rule_keeps_from_being_read_is_not_put_into_a_question(tmp_path):
    """The question is whether it may be read at all: it is not answered by showing it about."""
    rules = rule("ask", "free", access=["read"])
    async with house_on("memory", tmp_path, rules) as house:
        question, _ = await asked(house, lambda fs: fs.copy("free", "elsewhere"))
        assert "text\n" not in question.preview.diff
        assert f"5 bytes, sha256 {sha(b'text' + bytes([10]))}" in question.preview.diff


@pytest.mark.spec("ASK-1", "ARCH-1")
@pytest.mark.parametrize("where", PLACES)
async def test_a_person_sees_what_an_archive_holds(tmp_path, where):
    async with house_on(where, tmp_path) as house:
        question, _ = await asked(house, lambda fs: fs.create_archive("d", "kept/d.tar"))
        preview = question.preview
        assert preview.diff.splitlines()[0] == "5 entries, 9 bytes in files:"
        assert f"{sha(b'good')[:12]}  d/x" in preview.diff
        fs = await house.scope()
        redeeming = await approved(house, fs, lambda scope: scope.create_archive("d", "kept/d.tar"))
        await fs.write_text("d/x", "EVIL")
        error = await refusal(redeeming.create_archive("d", "kept/d.tar"))
        assert error.details.get("differs") == "content"


# --- told to the agent -----------------------------------------------------------------------


@pytest.mark.spec("ASK-2", "POL-1")
async def test_the_agent_is_told_nothing_of_what_it_may_not_read(tmp_path):
    rules = ASKS + rule("ask", "d/sub", id="keeps", access=["read"])
    async with house_on("memory", tmp_path, rules) as house:
        bare = await house.bare()

        async def swap(_):
            await bare.write_text("d/sub/y", "secret")

        person = Person("once", swap)
        error = await refusal(BULK["move"](await house.scope(asker=person)))
        assert error.kind == "hash_mismatch"
        redeeming = await approved(house, await house.scope(), BULK["move"])
        await bare.write_text("d/sub/y", "another")
        late = await refusal(BULK["move"](redeeming))
        assert late.kind == "approval_denied"
        said = everything_said(error) + everything_said(late)
        assert "sub" not in said
        for content in (b"fine\n", b"secret", b"another"):
            assert sha(content)[:12] not in said


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("verb", BULK)
async def test_a_rehearsal_tells_the_same_question(tmp_path, verb):
    async with house_on("memory", tmp_path) as house:
        fs = await house.scope()
        told = []
        error = await refusal(BULK[verb](fs._as_called(rehearsal=told.append)))
        assert error.decided_by == "rehearsal"
        question, _ = await asked(house, BULK[verb])
        assert told[0].preview == question.preview


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize("answer", ["once", "grant", "always", "no"])
@pytest.mark.parametrize("verb", BULK)
async def test_every_answer_means_what_it_says(tmp_path, verb, answer):
    async with house_on("memory", tmp_path) as house:
        person = Person(answer)
        fs = await house.scope(asker=person)
        for turn in range(2):
            await house.plant({"d/x": f"turn {turn}"})
            error = await refusal(BULK[verb](fs))
            assert (error is not None) is (answer == "no")
            await (await house.bare()).remove("kept/new", recursive=True, missing_ok=True)
        assert len(person.asked) == (1 if answer in ("grant", "always") else 2)
