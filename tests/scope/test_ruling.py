"""What a policy decides, and what each decision means for the verbs."""

import pytest

import bailiwick
from bailiwick.policy import Allow
from tests.scope.every_verb import TREE, VERBS
from tests.scope.support import Rules, ask, deny, hide, plant, records, snapshot, unruled

KEPT = {"kept/f.txt": "x", "kept/sub/g.txt": "y", "open/h.txt": "z"}


def _said(error):
    """All that a caller can learn from an error but the path, which they named themselves."""
    value = error.value
    return (
        type(value), value.message, value.hint, value.details, value.decided_by, value.status,
        value.errno,
    )  # fmt: skip


@pytest.mark.spec("POL-1")
@pytest.mark.parametrize("name", VERBS)
async def test_each_decision_holds_for_every_verb(either, name):
    """The same call on the same tree: allowed, denied, asked about, with each default."""
    verb = VERBS[name]
    for rule, error in (
        (deny("."), bailiwick.PolicyDenied),
        (ask("."), bailiwick.ApprovalDenied),
        (ask(".", default="allow"), None),
        (deny("no-such-path"), None),
    ):
        async with either(policy=Rules(rule)) as fs:
            await plant(unruled(fs), TREE)
            before = await snapshot(unruled(fs))
            if error is None:
                await verb.call(fs)
            else:
                with pytest.raises(error) as refused:
                    await verb.call(fs)
                assert refused.value.decided_by == rule[0].source
                assert records(fs)[-1].outcome == "denied"
                assert await snapshot(unruled(fs)) == before


@pytest.mark.spec("POL-1")
async def test_a_hidden_path_is_absent_from_listings_and_walks(opening):
    async with opening(policy=Rules(hide("kept"))) as fs:
        await plant(unruled(fs), KEPT)
        assert [entry.name for entry in (await fs.list()).entries] == ["open"]
        assert (await fs.find()).paths == ["open", "open/h.txt"]
        assert (await fs.files()).paths == ["open/h.txt"]
        assert (await fs.glob("**")).paths == (await fs.glob("**/*")).paths
        assert not (await fs.find()).truncated
        assert not await fs.exists("kept")
        assert (await fs.files("kept")).paths == []


@pytest.mark.spec("POL-1")
async def test_naming_a_hidden_path_is_just_as_if_it_were_missing(opening):
    """Whether something stands there, and what, makes no difference to what a caller can learn."""
    rules = Rules(hide("kept", "nothing", "file", "loop"))
    async with opening(policy=rules) as fs:
        await plant(unruled(fs), {**KEPT, "file": "x", "loop": "-> loop"})
        for verb in (
            fs.read_text, fs.read_bytes, fs.stat, fs.lstat, fs.readlink, fs.list, fs.remove,
            fs.truncate, lambda path: fs.set_mode(path, 0o600), lambda path: fs.move(path, "to"),
            lambda path: fs.copy(path, "to"), lambda path: fs.edit(path, old="x", new="y"),
            lambda path: fs.set_times(path, 0), lambda path: fs.grep("x", path),
            lambda path: fs.diff("open/h.txt", path), lambda path: anext(fs.stream(path)),
        ):  # fmt: skip
            said = set()
            for path in ("kept", "nothing", "file", "file/beneath", "nothing/beneath", "loop",
                         "kept/f.txt", "kept/missing", "file/"):  # fmt: skip
                with pytest.raises(bailiwick.PathNotFound) as refused:
                    await verb(path)
                said.add(repr(_said(refused)))
            assert len(said) <= 2, said


@pytest.mark.spec("POL-1")
async def test_creating_at_a_hidden_path_is_denied_whether_it_is_there_or_not(opening):
    async with opening(policy=Rules(hide("kept", "nothing", "file"))) as fs:
        await plant(unruled(fs), {**KEPT, "file": "x"})
        before = await snapshot(unruled(fs))
        for path in ("kept", "nothing", "file", "file/new", "kept/new", "nothing/new"):
            said = set()
            for call in (
                fs.write_text(path, ""), fs.write_bytes(path, b""), fs.append(path, ""),
                fs.write_stream(path, []), fs.make_dir(path), fs.symlink(path, "open"),
                fs.move("open/h.txt", path), fs.copy("open/h.txt", path),
                fs.write_text(path, "", parents=True), fs.make_dir(path, parents=True),
            ):  # fmt: skip
                with pytest.raises(bailiwick.PolicyDenied) as refused:
                    await call
                said.add(repr(_said(refused)))
            assert len(said) == 1, said
        assert await snapshot(unruled(fs)) == before


LINKS = {
    "to": "kept", "to-file": "kept/f.txt", "to-sub": "kept/sub", "to-none": "kept/none",
    "in-file": "kept/f.txt/x", "in-none": "kept/none/x", "open/up": "../kept", "twice": "to",
    "round": "open/../to/../kept",
}  # fmt: skip


@pytest.mark.spec("POL-1", "PATH-6")
async def test_a_link_tells_no_more_of_a_hidden_path_than_its_name(opening):
    """Whoever may make links could probe with them: every answer is as for a missing path."""
    async with opening(policy=Rules(hide("kept"))) as fs:
        await plant(unruled(fs), KEPT)
        for link, text in LINKS.items():
            await fs.symlink(link, text)
        before = await snapshot(unruled(fs))
        ends = ("/", "/f.txt", "/none", "/f.txt/x", "/none/x", "/sub/x", "/f.txt/", "/sub/")
        for verb in (
            fs.read_text, fs.stat, fs.list, fs.lstat, fs.remove, fs.truncate, fs.readlink,
            lambda path: fs.write_text(path, ""), lambda path: fs.make_dir(path),
            lambda path: fs.write_text(path, "", parents=True), lambda path: fs.symlink(path, "x"),
            lambda path: fs.copy("open/h.txt", path), lambda path: fs.move(path, "to-where"),
            lambda path: fs.make_dir(path, parents=True), lambda path: fs.diff("open/h.txt", path),
            lambda path: fs.remove(path, missing_ok=True), lambda path: anext(fs.stream(path)),
            lambda path: fs.copy_from(unruled(fs), "open/h.txt", path, parents=True),
        ):  # fmt: skip
            said = {}
            for link in ("kept", *LINKS):
                for end in ends:
                    if end == "/" and link != "kept":
                        continue
                    with pytest.raises((bailiwick.PathNotFound, bailiwick.PolicyDenied)) as refused:
                        await verb(link + end)
                    assert refused.value.path == (link + end).rstrip("/")
                    said.setdefault(repr(_said(refused)), []).append(link + end)
            assert len(said) == 1, said
        for link in LINKS:
            for end in ("", *ends):
                assert await fs.exists(link + end) is False
                assert (await fs.files(link + end)).paths == []
                with pytest.raises(bailiwick.PathNotFound):
                    await fs.stat(link + end)
        assert await snapshot(unruled(fs)) == before


@pytest.mark.spec("POL-1")
async def test_a_hidden_path_is_in_no_number(opening):
    async with opening(policy=Rules(hide("kept", "open/also"))) as fs:
        await plant(unruled(fs), {"open/h.txt": "z", "open/i/j": ""})
        counts = [(await call).visited for call in (fs.find(), fs.files(), fs.glob("**"))]
        await plant(unruled(fs), {**KEPT, "open/also": "1"})
        assert [(await call).visited for call in (fs.find(), fs.files(), fs.glob("**"))] == counts


@pytest.mark.spec("POL-1", "TREE-6")
async def test_a_hidden_ignore_file_gives_nothing_away(opening):
    """What it ignores would tell what it says; for those who may see it, it ignores as ever."""
    rules = Rules(hide(".gitignore", "d/.gitignore"))
    async with opening(policy=rules) as fs:
        tree = {"secret": "", "d/inner": "", "e/shown": "", ".gitignore": "secret\n"}
        await plant(unruled(fs), tree)
        await plant(unruled(fs), {"d/.gitignore": "inner\n", "e/.gitignore": "shown\n"})
        for _ in range(2):
            assert (await fs.read_text("secret")).matched_ignore is None
            assert (await fs.write_text("d/inner", "x")).matched_ignore is None
            assert (await fs.read_text("e/shown")).matched_ignore == "file"
            assert (await fs.find()).paths == ["d", "d/inner", "e", "e/.gitignore", "secret"]
            assert (await fs.files("d")).paths == ["d/inner"]
            all_of_it = unruled(fs)
            assert (await all_of_it.read_text("secret")).matched_ignore == "file"
            assert (await all_of_it.read_text("d/inner")).matched_ignore == "file"
            assert (await all_of_it.files("d")).paths == ["d/.gitignore"]


@pytest.mark.spec("POL-1", "POL-4")
async def test_a_directory_that_holds_a_hidden_path_is_not_empty(opening):
    async with opening(policy=Rules(hide("d/kept"))) as fs:
        await plant(unruled(fs), {"d/kept/f": "x"})
        assert (await fs.list("d")).entries == []
        for call in (fs.remove("d"), fs.remove("d", recursive=True)):
            with pytest.raises(bailiwick.DirectoryNotEmpty) as refused:
                await call
            assert "kept" not in f"{refused.value} {refused.value.path}"
        with pytest.raises(bailiwick.BailiwickError):
            await fs.move("d", "e")
        assert await snapshot(unruled(fs)) == {"d": None, "d/kept": None, "d/kept/f": b"x"}


_REFUSED = {
    "deny-rule": bailiwick.PolicyDenied,
    "ask-rule": bailiwick.ApprovalDenied,
    "hide-rule": bailiwick.DirectoryNotEmpty,
}


async def move_a_link(fs):
    """Touches nothing of what the link leads to."""
    await fs.move("top", "e")


@pytest.mark.spec("POL-4", "AUDIT-1")
@pytest.mark.parametrize("rule", [deny("d/sub/kept"), ask("d/sub/kept"), hide("d/sub/kept")])
@pytest.mark.parametrize(
    "change",
    [
        lambda fs: fs.remove("d", recursive=True),
        lambda fs: fs.move("d", "e"),
        lambda fs: fs.copy("d", "e", recursive=True),
        move_a_link,
        lambda fs: fs.remove("top/../d/sub", recursive=True),
    ],
)
async def test_a_bulk_change_over_a_protected_path_is_refused_as_a_whole(opening, rule, change):
    async with opening(policy=Rules(rule)) as fs:
        tree = {"d/a": "1", "d/sub/b": "2", "d/sub/kept": "3", "d/z": "4", "top": "-> d"}
        await plant(unruled(fs), tree)
        before = await snapshot(unruled(fs))
        if change is move_a_link:
            await change(fs)
            await fs.move("e", "top")
        else:
            source = rule[0].source
            with pytest.raises(_REFUSED[source]) as refused:
                await change(fs)
            # The operator learns who refused; the caller does not, where something is hidden.
            assert records(fs)[-1].policy_source == source
            assert refused.value.decided_by == (None if source == "hide-rule" else source)
        assert await snapshot(unruled(fs)) == before


@pytest.mark.spec("POL-4")
@pytest.mark.parametrize("rule", [deny("new/kept", access={"write"}), hide("new/kept")])
async def test_what_would_arrive_at_a_protected_path_is_refused_as_a_whole(opening, rule):
    """Nothing is protected where it stands, but it would be where it is going."""
    async with opening(policy=Rules(rule)) as fs:
        await plant(unruled(fs), {"d/a": "1", "d/kept/f": "2"})
        before = await snapshot(unruled(fs))
        for call in (fs.move("d", "new"), fs.copy("d", "new", recursive=True)):
            with pytest.raises(bailiwick.PolicyDenied) as refused:
                await call
            assert refused.value.path == "new/kept"
        assert await snapshot(unruled(fs)) == before


@pytest.mark.spec("POL-4")
async def test_where_no_rule_can_match_nothing_is_visited(opening):
    class Elsewhere(Rules):
        def may_refuse_below(self, grant, access, directory):
            return directory == "." or directory.lies_in(bailiwick.ScopedPath("kept"))

    policy = Elsewhere(deny("kept"))
    async with opening(policy=policy) as fs:
        await plant(unruled(fs), {**KEPT, "open/more": ""})
        policy.seen.clear()
        await fs.remove("open", recursive=True)
        assert [context.path for context in policy.seen] == ["open"]


@pytest.mark.spec("POL-1", "WRITE-4")
async def test_directories_made_on_the_way_are_seen_too(opening):
    async with opening(policy=_Exactly("new/kept")) as fs:
        for call in (
            fs.write_text("new/kept/f", "", parents=True),
            fs.make_dir("new/kept/sub", parents=True),
        ):
            with pytest.raises(bailiwick.PolicyDenied) as refused:
                await call
            assert refused.value.path == "new/kept"
        assert await snapshot(fs) == {}
        await unruled(fs).make_dir("new/kept", parents=True)
        await fs.write_text("new/kept/f", "", parents=True)


class _Exactly(Rules):
    """Denies one path and nothing beneath it."""

    def __init__(self, path):
        super().__init__(deny(path))
        self._path = path

    def decide(self, context):
        return super().decide(context) if context.path == self._path else Allow("else")


@pytest.mark.spec("POL-1")
async def test_a_policy_that_fails_refuses(opening):
    class Failing(Rules):
        def decide(self, context):
            raise LookupError("secret detail")

    async with opening(policy=Failing()) as fs:
        await unruled(fs).write_text("f", "x")
        for call in (fs.read_text("f"), fs.write_text("f", ""), fs.list(), fs.remove("f")):
            with pytest.raises(bailiwick.PolicyDenied) as refused:
                await call
            assert "secret detail" not in str(refused.value)


@pytest.mark.spec("POL-1", "SCALE-6")
@pytest.mark.parametrize("failure", [bailiwick.Busy, bailiwick.IoError, bailiwick.Closed])
async def test_a_policy_that_cannot_read_its_rules_has_not_decided(opening, failure):
    """Nothing is done, and whoever asks is told to try again: not that a rule says no."""

    class Unread(Rules):
        fails = True

        def decide(self, context):
            if self.fails:
                raise failure("the database does not answer in time")
            return super().decide(context)

    policy = Unread()
    async with opening(policy=policy) as fs:
        await unruled(fs).write_text("f", "x")
        calls = (
            lambda: fs.read_text("f"), lambda: fs.write_text("f", ""), lambda: fs.list(),
            lambda: fs.remove("f"), lambda: fs.move("f", "g"), lambda: fs.copy("f", "g"),
        )  # fmt: skip
        for call in calls:
            with pytest.raises(failure) as failed:
                await call()
            assert failed.value.retryable
        policy.fails = False
        assert await snapshot(fs) == {"f": b"x"}
        await fs.move("f", "g")


@pytest.mark.spec("POL-1", "PATH-6")
async def test_what_a_policy_is_shown(opening):
    policy = Rules()
    async with opening(policy=policy) as fs:
        await fs.with_request("mine").write_bytes("f", b"123")
        # Whether a file that comes there meanwhile might be replaced is asked too.
        context, meanwhile = policy.seen
        assert meanwhile.access == {"write", "replace"}
        assert (context.operation, context.path, context.access) == ("write", "f", {"write"})
        assert (context.subject, context.root, context.size) == (fs.subject, fs.root, 3)
        assert (context.request_id, context.grant_id) == ("mine", fs.grant.id)
        policy.seen.clear()
        await fs.move("f", "g")
        assert [(c.path, c.destination, c.access) for c in policy.seen] == [
            ("f", "g", {"move", "read"}), ("g", None, {"write"}),
        ]  # fmt: skip
