"""The one chokepoint: what every verb has in common, whoever calls it and whatever it does."""

import logging

import pytest

import bailiwick
from bailiwick.limits import Limits
from bailiwick.operations import ALL_ACCESS, OPERATIONS
from tests.scope import support
from tests.scope.every_verb import SECRET, TWO_ROOTS, VERBS, plant_tree
from tests.scope.support import Rules, deny, granted, plant, records, snapshot, unruled

opening, either = support.opening, support.either

every_verb = pytest.mark.parametrize("name", VERBS)
every_change = pytest.mark.parametrize("name", [n for n, verb in VERBS.items() if verb.changes])


# --- access ------------------------------------------------------------------------------------


@pytest.mark.spec("AUTH-3")
def test_the_table_of_operations_holds_every_verb_once():
    listed = [verb for operation in OPERATIONS.values() for verb in operation.verbs]
    assert len(listed) == len(set(listed))
    assert VERBS.keys() | TWO_ROOTS <= set(listed)
    for name, verb in VERBS.items():
        operation = next(each for each in OPERATIONS.values() if name in each.verbs)
        assert verb.access == operation.access | operation.destination_access
        assert (verb.operation, verb.changes) == (operation.name, operation.changes)


@pytest.mark.spec("AUTH-3")
@every_verb
async def test_a_verb_needs_exactly_its_access(either, name):
    verb = VERBS[name]
    async with either() as fs:
        await plant_tree(fs)
        before = await snapshot(fs)
        for missing in verb.access:
            for access in (verb.access - {missing}, ALL_ACCESS - {missing}):
                with pytest.raises(bailiwick.MissingAccess) as refused:
                    await verb.call(granted(fs, access=access))
                assert missing in str(refused.value)
        assert await snapshot(fs) == before
        await verb.call(granted(fs, access=verb.access))


@pytest.mark.spec("AUTH-3")
async def test_a_move_that_replaces_also_needs_delete(opening):
    async with opening() as fs:
        await plant(fs, {"a": "1", "b": "2"})
        mover = granted(fs, access=frozenset({"move", "write"}))
        with pytest.raises(bailiwick.MissingAccess):
            await mover.move("a", "b", replace=True)
        assert await snapshot(fs) == {"a": b"1", "b": b"2"}
        await mover.move("a", "c", replace=True)


@pytest.mark.spec("AUTH-7")
@every_verb
async def test_an_untrusted_root_is_only_read(either, name):
    verb = VERBS[name]
    async with either(trusted=False) as fs:
        await plant_tree(unruled(fs))
        before = await snapshot(fs)
        if verb.changes:
            with pytest.raises(bailiwick.UntrustedWorkspace):
                await verb.call(fs)
            assert await snapshot(fs) == before
        else:
            await verb.call(fs)


@pytest.mark.spec("AUTH-3")
async def test_a_grant_whose_time_is_up_gives_nothing(opening):
    async with opening() as fs:
        await plant_tree(fs)
        for verb in VERBS.values():
            with pytest.raises(bailiwick.GrantExpired):
                await verb.call(granted(fs, expires_at=1.0))
        await granted(fs, expires_at=1e12).read_text("file.txt")


# --- the part of the tree a grant reaches --------------------------------------------------------


@pytest.mark.spec("AUTH-3", "PATH-6")
async def test_a_grant_on_a_part_reaches_nothing_else(opening):
    tree = {"in/f": "x", "in/up": "-> ../out/g", "in/dir": "-> ../out", "out/g": "y", "inner": "z"}
    async with opening(path="in") as fs:
        await plant(unruled(fs), tree)
        before = await snapshot(unruled(fs))
        assert (await fs.read_text("in/f")).text == "x"
        assert (await fs.files("in")).paths == ["in/f"]
        for path in (".", "out/g", "in/up", "in/dir/g", "inner", "missing", "in/../out/g", "out"):
            for call in (fs.read_text, fs.stat, fs.list, fs.exists, fs.files):
                with pytest.raises(bailiwick.MissingAccess):
                    await call(path)
            with pytest.raises(bailiwick.MissingAccess):
                await fs.grep("x", path)
        for call in (
            fs.write_text("out/new", ""), fs.write_text("in/dir/new", ""), fs.remove("out/g"),
            fs.move("in/f", "out/f"), fs.move("out/g", "in/g"), fs.copy("out/g", "in/g"),
            fs.copy("in/f", "in/dir/f"), fs.make_dir("elsewhere"), fs.diff("in/f", "out/g"),
            fs.write_text("other/deep", "", parents=True),
        ):  # fmt: skip
            with pytest.raises(bailiwick.MissingAccess):
                await call
        assert await snapshot(unruled(fs)) == before


@pytest.mark.spec("AUTH-3", "PATH-6")
async def test_a_link_tells_nothing_of_what_the_grant_does_not_reach(opening):
    async with opening(path="in") as fs:
        await plant(unruled(fs), {"in/f": "x", "out/g": "y"})
        for number, target in enumerate(("g", "none", "g/x", "none/x", "../out/g")):
            await fs.symlink(f"in/l{number}", f"../out/{target}")
            for verb in (fs.read_text, fs.exists, fs.stat, fs.files, fs.list):
                with pytest.raises(bailiwick.MissingAccess):
                    await verb(f"in/l{number}")
        await fs.symlink("in/fine", "none")
        assert await fs.exists("in/fine") is False


# --- records -------------------------------------------------------------------------------------


@pytest.mark.spec("AUDIT-1", "AUDIT-5")
@every_verb
async def test_a_verb_makes_one_record_without_content(either, name, caplog):
    caplog.set_level(logging.DEBUG)
    verb = VERBS[name]
    async with either() as fs:
        await plant_tree(fs)
        before = len(records(fs))
        await verb.call(fs.with_request("mine"))
        (record,) = records(fs)[before:]
        assert (record.verb, record.operation, record.outcome) == (name, verb.operation, "success")
        assert (record.subject, record.grant_id, record.root) == (fs.subject, fs.grant.id, fs.root)
        assert (record.request_id, record.error_kind) == ("mine", None)
        assert record.policy_source == "allow-all"
        assert record.duration_ns >= 0
        assert SECRET not in repr(record) + caplog.text


@pytest.mark.spec("AUDIT-1", "AUDIT-5")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("../outside", "path_outside_workspace"),
        ("/etc/passwd", "path_outside_workspace"),
        ("C:\\windows", "path_outside_workspace"),
        ("a\0b", "parse_error"),
        ("", "parse_error"),
        ("missing", "path_not_found"),
        ("file.txt/x", "not_a_directory"),
        (b"bytes", "parse_error"),
    ],
)
async def test_every_refusal_makes_one_record(opening, path, kind):
    async with opening() as fs:
        await plant_tree(fs)
        root = bailiwick.Root(kind="workspace", id="t", mount_point="/w", trusted=True)
        fs = granted(fs, root=root)
        for call in (fs.read_text, fs.stat, fs.list, fs.files, fs.lstat, fs.remove, fs.truncate):
            if (call, path) == (fs.files, "missing"):
                continue
            before = len(records(fs))
            with pytest.raises(bailiwick.BailiwickError) as refused:
                await call(path)
            (record,) = records(fs)[before:]
            assert (record.error_kind, refused.value.kind) == (kind, kind)
            assert record.request_id == refused.value.request_id
            assert record.path.isprintable()
            policy = refused.value.category == "policy"
            assert record.outcome == ("denied" if policy else "failed")


REFUSED_ARGUMENTS = {
    "read_bytes": lambda fs: fs.read_bytes("file.txt", -1),
    "read_text": lambda fs: fs.read_text("file.txt", line=0),
    "stream": lambda fs: anext(fs.stream("file.txt", -1)),
    "write_bytes": lambda fs: fs.write_bytes("new", SECRET, mode="replace"),
    "write_text": lambda fs: fs.write_text("new", SECRET, mode="bad"),
    "write_json": lambda fs: fs.write_json("new", {SECRET}, file_mode=0o7777),
    "write_stream": lambda fs: fs.write_stream("new", SECRET),
    "append": lambda fs: fs.append("new", 5),
    "truncate": lambda fs: fs.truncate("file.txt", -1),
    "edit": lambda fs: fs.edit("file.txt", old=SECRET),
    "list": lambda fs: fs.list(limit=0),
    "find": lambda fs: fs.find(depth=0),
    "files": lambda fs: fs.files(limit=-1),
    "glob": lambda fs: fs.glob("../*"),
    "grep": lambda fs: fs.grep(SECRET + "("),
    "diff": lambda fs: fs.diff("file.txt"),
    "make_dir": lambda fs: fs.make_dir("d", file_mode=-1),
    "symlink": lambda fs: fs.symlink("new", ""),
    "set_mode": lambda fs: fs.set_mode("file.txt", 0o4000),
    "set_times": lambda fs: fs.set_times("file.txt", 2**90),
    "copy_in": lambda fs: fs.copy_in("relative", "new"),
}


@pytest.mark.spec("AUDIT-1", "AUDIT-5", "ERR-5")
@pytest.mark.parametrize("name", REFUSED_ARGUMENTS)
async def test_a_refused_argument_makes_one_record_too(either, name, caplog):
    async with either() as fs:
        await plant_tree(fs)
        before = await snapshot(fs)
        count = len(records(fs))
        with pytest.raises(bailiwick.ParseError) as refused:
            await REFUSED_ARGUMENTS[name](fs)
        (record,) = records(fs)[count:]
        assert (record.verb, record.error_kind) == (name, "parse_error")
        assert record.request_id == refused.value.request_id
        assert SECRET not in repr(record) + caplog.text
        assert await snapshot(fs) == before


@pytest.mark.spec("AUDIT-1")
async def test_a_record_says_what_was_written(opening):
    async with opening() as fs:
        first = await fs.write_bytes("f", b"12345")
        record = records(fs)[-1]
        assert (record.path, record.bytes, record.sha256_after) == ("f", 5, first.sha256)
        edited = await fs.edit("f", old="5", new="6")
        record = records(fs)[-1]
        assert (record.sha256_before, record.sha256_after) == (first.sha256, edited.sha256)
        await fs.move("f", "g")
        assert (records(fs)[-1].path, records(fs)[-1].destination) == ("f", "g")
        await fs.read_bytes("g", 1, 2)
        assert records(fs)[-1].bytes == 2


@pytest.mark.spec("AUDIT-1")
async def test_a_record_never_says_that_something_was_written_that_was_not(opening):
    async with opening() as fs:
        sha256 = (await fs.write_bytes("f", b"old")).sha256
        await fs.edit("f", old="old", new="new", dry_run=True)
        await fs.edit("f", old="old", new="old")
        for record in records(fs)[-2:]:
            assert (record.sha256_before, record.sha256_after, record.bytes) == (
                sha256, sha256, None,
            )  # fmt: skip
        store = fs._pipeline.store

        async def failing(*what):
            raise bailiwick.IoError("broken")

        store.write = failing
        with pytest.raises(bailiwick.IoError):
            await fs.edit("f", old="old", new="new")
        assert records(fs)[-1].sha256_after is None


class FullLedger:
    """A ledger that cannot record."""

    takes_intents = False

    def note(self, record):
        raise OSError(28, "No space left on device", "/host/secret/ledger.db")

    def settle(self, record, intent, changes):
        self.note(record)


@pytest.mark.spec("AUDIT-1", "PATH-7")
@every_verb
async def test_what_cannot_be_recorded_is_not_acknowledged(either, name):
    async with either() as fs:
        await plant_tree(fs)
        seen = []
        fs._pipeline.changes.subscribe(seen.append)
        fs._pipeline.ledger = FullLedger()
        with pytest.raises(bailiwick.IoError) as failed:
            await VERBS[name].call(fs.with_request("mine"))
        assert "secret" not in f"{failed.value!r} {failed.value} {failed.value.filename}"
        assert failed.value.request_id == "mine"
        assert isinstance(failed.value.__cause__, OSError)
        assert seen == []


@pytest.mark.spec("AUDIT-1", "PATH-7")
async def test_a_refusal_that_cannot_be_recorded_stays_what_it_is(opening, caplog):
    async with opening(policy=Rules(deny("kept"))) as fs:
        await plant(unruled(fs), {"kept": "", "f": ""})
        fs._pipeline.ledger = FullLedger()
        for call, error in (
            (fs.read_text("missing"), bailiwick.PathNotFound),
            (fs.write_text("kept", "x"), bailiwick.PolicyDenied),
            (fs.read_text("../out"), bailiwick.PathOutsideWorkspace),
            (anext(fs.stream("missing")), bailiwick.PathNotFound),
        ):
            caplog.clear()
            with pytest.raises(error) as refused:
                await call
            assert "secret" not in str(refused.value)
            assert "the record could not be written" in caplog.text


@pytest.mark.spec("AUDIT-1")
async def test_a_stream_is_one_record_however_it_ends(opening):
    async with opening(limits=Limits(stream_chunk_bytes=2)) as fs:
        await fs.write_bytes("f", b"123456")
        count = len(records(fs))
        assert [chunk async for chunk in fs.stream("f")] == [b"12", b"34", b"56"]
        early = fs.stream("f")
        await anext(early)
        await early.aclose()
        with pytest.raises(bailiwick.PathNotFound):
            await anext(fs.stream("missing"))
        made = [(record.outcome, record.bytes) for record in records(fs)[count:]]
        assert made == [("success", 6), ("success", 2), ("failed", None)]


@pytest.mark.spec("AUDIT-5")
async def test_results_errors_and_records_carry_the_request_id(opening):
    async with opening() as fs:
        mine = fs.with_request("req-7")
        assert (await mine.write_text("f", "x")).request_id == "req-7"
        assert (await mine.list()).request_id == "req-7"
        with pytest.raises(bailiwick.PathNotFound) as refused:
            await mine.read_text("missing")
        assert refused.value.request_id == "req-7"
        assert {record.request_id for record in records(fs)} == {"req-7"}
        first, second = await fs.read_text("f"), await fs.read_text("f")
        assert len({first.request_id, second.request_id, "req-7"}) == 3
        assert [record.request_id for record in records(fs)[-2:]] == [
            first.request_id, second.request_id,
        ]  # fmt: skip


@pytest.mark.spec("AUDIT-1")
async def test_who_refused_is_named_only_where_someone_decided(opening):
    async with opening(policy=Rules(deny("kept"))) as fs:
        await plant(unruled(fs), {"kept": "", "link": "-> kept"})
        with pytest.raises(bailiwick.PolicyDenied) as refused:
            await fs.read_text("kept")
        assert refused.value.decided_by == records(fs)[-1].policy_source == "deny-rule"
        with pytest.raises(bailiwick.SymlinkEscape) as refused:
            await fs.write_text("link", "x")
        assert refused.value.decided_by is None


@pytest.mark.spec("AUDIT-1", "POL-4")
async def test_who_refused_a_bulk_change_is_on_record(opening):
    here, there = Rules(deny("d/kept", access={"read"})), Rules(deny("new/a", access={"write"}))
    async with opening(policy=there) as fs, opening(policy=here) as source:
        await plant(unruled(source), {"d/a": "", "d/kept": "", "e/a": ""})
        await plant(unruled(fs), {"f/a": ""})
        for call, scopes in (
            (source.copy("d", "x", recursive=True), [source]),
            (fs.move("f", "new"), [fs]),
            (fs.copy("f", "new", recursive=True), [fs]),
            (fs.copy_from(source, "d", "x", recursive=True), [fs, source]),
            (fs.copy_from(source, "e", "new", recursive=True), [fs, source]),
        ):
            with pytest.raises(bailiwick.PolicyDenied) as refused:
                await call
            assert refused.value.decided_by == "deny-rule"
            for scope in scopes:
                record = records(scope)[-1]
                assert (record.outcome, record.policy_source) == ("denied", "deny-rule")


# --- one path, whatever it is called --------------------------------------------------------------


@pytest.mark.spec("PATH-6")
@pytest.mark.parametrize(
    "alias",
    [
        "kept/f",
        "./kept//f",
        "open/../kept/f",
        "{mount}/kept/f",
        "to-dir/f",
        "to-file",
        "open/back/f",
    ],
)
async def test_no_alias_reaches_what_the_canonical_name_is_refused(opening, alias):
    policy = Rules(deny("kept"))
    tree = {"kept/f": "x", "open": None, "to-dir": "-> kept", "to-file": "-> kept/f",
            "open/back": "-> ../kept"}  # fmt: skip
    async with opening(policy=policy) as fs:
        await plant(unruled(fs), tree)
        before = await snapshot(unruled(fs))
        path = alias.format(mount=fs.root.mount_point.rstrip("/"))
        policy.seen.clear()
        for call in (fs.read_bytes, fs.read_text, fs.stat, fs.exists, fs.read_json):
            with pytest.raises(bailiwick.PolicyDenied):
                await call(path)
        with pytest.raises(bailiwick.PolicyDenied):
            await anext(fs.stream(path))
        with pytest.raises(bailiwick.PolicyDenied):
            await fs.grep("x", path)
        with pytest.raises(bailiwick.PolicyDenied):
            await fs.diff("to-file", text="")
        seen = {context.path for context in policy.seen}
        on_the_way = {"kept", "open", "open/back", "to-dir", "to-file"}  # of what links lead to
        assert seen - on_the_way == {"kept/f"}
        assert {record.path for record in records(fs)} == {"kept/f"}
        if alias != "to-file":
            for call in (
                fs.write_text(path, "y"), fs.remove(path), fs.set_mode(path, 0o600),
                fs.edit(path, old="x", new="y"), fs.move(path, "open/f"), fs.copy(path, "open/f"),
                fs.truncate(path), fs.append(path, "y"), fs.lstat(path),
            ):  # fmt: skip
                with pytest.raises(bailiwick.PolicyDenied):
                    await call
        assert await snapshot(unruled(fs)) == before


@pytest.mark.spec("PATH-6")
async def test_directories_are_seen_by_their_canonical_name(opening):
    policy = Rules(deny("kept"))
    async with opening(policy=policy) as fs:
        await plant(unruled(fs), {"kept/f": "x", "d": None, "d/link": "-> ../kept"})
        for path in ("kept", "kept/", "./kept", "d/link", "d/link/", "d/../kept"):
            for call in (fs.list(path), fs.find(path), fs.files(path), fs.glob("*", path)):
                with pytest.raises(bailiwick.PolicyDenied):
                    await call
            with pytest.raises(bailiwick.PolicyDenied):
                await fs.write_text(f"{path.rstrip('/')}/new", "")


@pytest.mark.spec("HOOK-1")
@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt])
async def test_a_hook_that_would_end_the_process_has_failed(opening, raised):
    class Leaving:
        id = "leaving"
        early = False

        async def before(self, context):
            if self.early:
                raise raised

        async def after(self, context, record):
            raise raised

    hook = Leaving()
    async with opening(hooks=[hook]) as fs:
        assert (await fs.write_text("f", "x")).created
        hook.early = True
        with pytest.raises(bailiwick.PolicyDenied, match="leaving"):
            await fs.write_text("f", "y")
        assert fs._pipeline.hooks.failures == {"leaving": 3}


# --- events -------------------------------------------------------------------------------------


@pytest.mark.spec("EVENT-2")
async def test_a_listeners_exception_never_reaches_the_writer(opening, caplog):
    async with opening() as fs:
        seen = []

        def failing(change):
            raise RuntimeError("listener")

        end = fs._pipeline.changes.subscribe(failing)
        fs._pipeline.changes.subscribe(lambda change: seen.append((change.kind, change.path)))
        await fs.write_text("f", "x")
        await fs.edit("f", old="x", new="y")
        await fs.move("f", "g")
        end()
        end()
        await fs.remove("g")
        assert seen == [("created", "f"), ("updated", "f"), ("moved", "g"), ("deleted", "g")]
        assert caplog.text.count("change listener failed") == 3


@pytest.mark.spec("EVENT-2")
@every_verb
async def test_exactly_what_changes_is_told(either, name):
    async with either() as fs:
        await plant_tree(fs)
        seen = []
        fs._pipeline.changes.subscribe(seen.append)
        await VERBS[name].call(fs.with_request("mine"))
        assert len(seen) == VERBS[name].changes
        assert {change.request_id for change in seen} <= {"mine"}
        assert SECRET not in repr(seen)


@pytest.mark.spec("EVENT-2")
async def test_a_refused_change_is_not_told(opening):
    async with opening() as fs:
        seen = []
        fs._pipeline.changes.subscribe(seen.append)
        for call in (fs.write_text("a/b", ""), fs.remove("x"), fs.move("x", "y")):
            with pytest.raises(bailiwick.PathNotFound):
                await call
        await fs.remove("x", missing_ok=True)
        assert seen == []
