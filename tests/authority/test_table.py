"""The tables of the specification, written down a second time, against every verb of every scope.

What each cell should come to is computed here from the tables alone; what it did come to is read
from the ledger: exactly one record for every call, with outcome, error kind and deciding rule.
"""

import asyncio
import io
import itertools
import tarfile

import msgspec
import pytest

import bailiwick
from bailiwick.grant import ROOT_KINDS
from bailiwick.operations import OPERATIONS
from tests.authority.support import EVERYTHING, House, governed, refusal
from tests.scope.every_verb import SECRET, TWO_ROOTS, VERBS, VERSIONED
from tests.scope.support import plant, unruled

pytestmark = pytest.mark.slow

SUBJECTS = {
    "user": bailiwick.User("u"),
    "core": bailiwick.Core("c"),
    "agent_run": bailiwick.AgentRun("c1", "r1"),
    "own": bailiwick.Extension("x"),  # the roots here have the id x
    "extension": bailiwick.Extension("other"),
    "automation": bailiwick.Automation("t"),
}

# --- the table of operations ----------------------------------------------------------------------

NEEDS = {
    # operation: access at the path; at the destination; what rules look at there besides
    "read": ("read", "", ""),
    "metadata": ("metadata", "", ""),
    "list": ("list", "", ""),
    "search": ("read list", "", ""),
    "write": ("write", "", ""),
    "edit": ("read write", "", ""),
    "delete": ("delete", "", ""),
    "move": ("move", "write", ""),
    "copy": ("read", "write", ""),
    "archive-extract": ("archive", "archive write", ""),
    "archive-create": ("archive read", "archive read", "write"),
    "watch": ("watch", "", ""),
}
"""An archive is a new file: rules about writing hold for it."""

COUNTS_AS_READING = {"move", "archive-extract"}
"""What is moved or unpacked can be read where it arrives."""

READS_WHAT_STANDS = {"append", "truncate"}
"""Verbs of writing whose result tells of what was there before."""

CHANGES = {"write", "edit", "delete", "move", "copy", "archive-extract", "archive-create"}

# --- the table of kinds: read list metadata watch write delete move archive ----------------------

COLUMNS = ("read", "list", "metadata", "watch", "write", "delete", "move", "archive")
ALL, LOOKS, NONE = "AAAAAAAA", "AAAA----", "--------"


def _row(kind, who, explicit, holds_write):
    """The row of a kind's table that a subject stands in, and the rules it was written as."""
    people = who in ("user", "core")
    trusted = people or who == "agent_run"
    if kind == "workspace":
        return (ALL, "trusted") if trusted else (LOOKS, "looking")
    if kind == "extension-storage":
        if who == "own":
            return ALL, "own"
        return (LOOKS, "core") if who == "core" else (NONE, "")
    if kind == "artifact":
        if who == "core":
            return ALL, "core"
        return (ALL, "makers") if holds_write else (LOOKS, "looking")
    if kind == "temp":
        return NONE, ""  # nobody here made it; see `test_a_temporary_root_is_its_creators`
    if kind == "knowledge":
        return (ALL, "explicit") if explicit else (NONE, "")
    if kind == "downloads":
        return ("AAAAAA--", "trusted") if trusted else ("AAAAA---", "staging")
    assert kind == "secret"
    if not explicit:
        return NONE, ""
    return ("?-A-AA--", "keepers") if people else ("?-------", "")


def cell(kind, who, explicit, held, access):
    """Allow, deny or ask, and the id of the rule that says so."""
    letters, name = _row(kind, who, explicit, "write" in held)
    letter = letters[COLUMNS.index(access)]
    if letter == "-":
        return "-", f"kind.{kind}.others"
    return letter, f"kind.{kind}.{'read' if letter == '?' else name}"


def expected(verb, kind, who, *, explicit, held, trusted):
    """Outcome, error kind, and the rules that may have decided, of one call."""
    operation = OPERATION_OF[verb]
    at_path, there, besides = (set(each.split()) for each in NEEDS[operation])
    if not at_path | there <= set(held):
        return "denied", "missing_access", {None}
    if operation in CHANGES and not trusted:
        return "denied", "untrusted_workspace", {None}
    if operation in COUNTS_AS_READING or verb in READS_WHAT_STANDS:
        at_path |= {"read"}
    sources, asking = {None}, set()
    for accesses in (at_path, there, besides):
        cells = {cell(kind, who, explicit, held, access) for access in accesses}
        refusing = {source for letter, source in cells if letter == "-"}
        if refusing:
            return "denied", "policy_denied", refusing
        asking |= {source for letter, source in cells if letter == "?"}
        sources = {source for _, source in cells} or sources
    if asking:
        return "denied", "approval_denied", asking  # all that is to be asked is one question
    return "success", None, sources


# --- the verbs ------------------------------------------------------------------------------------

_number = itertools.count(1)


def _tar():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("packed"), io.BytesIO())
    return made.getvalue()


TREE = {
    "dir/file.txt": f"one {SECRET}\n", "dir/other.txt": f"two {SECRET}\n",
    "dir/data.json": f'["{SECRET}"]\n', "dir/link": "-> file.txt", "tree/inner.txt": SECRET,
    "a.tar": _tar(), "out": None,
}  # fmt: skip


async def _drain(fs):
    return [chunk async for chunk in fs.stream("dir/file.txt")]


async def _listen(fs):
    (await fs.on_change(lambda change: None, "dir"))()


async def _watch(fs):
    """Until it is let in: from then on it waits for changes."""
    changes = fs.watch("dir")
    try:
        await changes.__anext__()
    finally:
        await changes.aclose()


async def _move(fs):
    await fs.move("tree", "moved")
    await unruled(fs).move("moved", "tree")


async def _edit(fs):
    await fs.edit("dir/file.txt", old=SECRET, new=SECRET[::-1], dry_run=True)


def _fresh():
    return f"out/{next(_number)}"


CALLS = {
    "read_bytes": lambda fs: fs.read_bytes("dir/file.txt"),
    "read_text": lambda fs: fs.read_text("dir/file.txt"),
    "read_json": lambda fs: fs.read_json("dir/data.json"),
    "stream": _drain,
    "diff": lambda fs: fs.diff("dir/file.txt", "dir/other.txt"),
    "stat": lambda fs: fs.stat("dir/file.txt"),
    "lstat": lambda fs: fs.lstat("dir/link"),
    "exists": lambda fs: fs.exists("dir/file.txt"),
    "readlink": lambda fs: fs.readlink("dir/link"),
    "list": lambda fs: fs.list("dir"),
    "find": lambda fs: fs.find("dir"),
    "files": lambda fs: fs.files("dir"),
    "glob": lambda fs: fs.glob("*", "dir"),
    "grep": lambda fs: fs.grep(SECRET, "dir"),
    "write_bytes": lambda fs: fs.write_bytes("out/w", b"x"),
    "write_text": lambda fs: fs.write_text("out/w", "x"),
    "write_json": lambda fs: fs.write_json("out/w", [1]),
    "write_stream": lambda fs: fs.write_stream("out/w", [b"x"]),
    "append": lambda fs: fs.append("out/w", "x"),
    "truncate": lambda fs: fs.truncate("dir/other.txt", 10),
    "make_dir": lambda fs: fs.make_dir("out/made", parents=True),
    "symlink": lambda fs: fs.symlink(_fresh(), "nowhere"),
    "set_mode": lambda fs: fs.set_mode("dir/file.txt", 0o600),
    "set_times": lambda fs: fs.set_times("dir/file.txt", 10**18),
    "edit": _edit,
    "remove": lambda fs: fs.remove(_fresh(), recursive=True, missing_ok=True),
    "move": _move,
    "copy": lambda fs: fs.copy("tree", _fresh(), recursive=True),
    "extract_archive": lambda fs: fs.extract_archive("a.tar", _fresh()),
    "create_archive": lambda fs: fs.create_archive("tree", _fresh() + ".tar"),
    "on_change": _listen,
    "watch": _watch,
}

OPERATION_OF = {verb: each.name for each in OPERATIONS.values() for verb in each.verbs}


@pytest.mark.spec("AUTH-3")
def test_the_table_has_every_operation_and_every_verb():
    """Versions, programs, overlays, runs and reviews have tests of their own, and so have copies
    between roots, below."""
    assert set(NEEDS) | {"copy-in", "version", "exec"} == set(OPERATIONS)
    built = {verb for verb in OPERATION_OF if hasattr(bailiwick.Scope, verb)}
    elsewhere = {"exec", "session", "work", "changes", "discard", "runs", "review"}
    assert built == set(CALLS) | TWO_ROOTS | VERSIONED | elsewhere
    assert set(VERBS) <= set(CALLS)
    for name, operation in OPERATIONS.items():
        if name in NEEDS:
            at_path, there, _ = (set(each.split()) for each in NEEDS[name])
            assert (operation.needed, operation.changes) == (at_path | there, name in CHANGES)
    assert set(EVERYTHING) == set(COLUMNS)


async def _let_in(work):
    """Let a call end by itself, or stop it where it would wait for ever."""
    task = asyncio.ensure_future(work)
    await asyncio.wait((task,), timeout=None if work.__name__ != "_watch" else 0.01)
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()


async def _fill(authority, name, explicit, kind_trusted):
    await authority.add_root(name, "memory:", trusted=kind_trusted, symlinks="in-root")
    for subject in SUBJECTS.values():
        await authority.add_grant(
            subject=str(subject) if explicit else str(subject).partition(":")[0] + ":*",
            root=name if explicit else "*", access=EVERYTHING, by=bailiwick.User("me"),
        )  # fmt: skip
    await plant(await House(authority, None).bare(name), TREE)


def _holdings():
    """Everything, and everything but one."""
    yield EVERYTHING
    for missing in EVERYTHING:
        yield tuple(each for each in EVERYTHING if each != missing)


FEW_KINDS = ("workspace", "artifact")
"""The usual kind, and the one of most cells, for `make unit`."""


def _is(record, outcome, error_kind, sources):
    return (record.outcome, record.error_kind) == (outcome, error_kind) and (
        record.policy_source in sources
    )


@pytest.mark.spec("AUTH-1", "AUTH-2", "AUTH-3", "AUTH-7", "AUDIT-1", "AUDIT-5")
@pytest.mark.parametrize(
    "explicit",
    [pytest.param(True, id="named"), pytest.param(False, id="pattern", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "untrusted"])
@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[] if k in FEW_KINDS else [pytest.mark.slow]) for k in ROOT_KINDS],
)
async def test_every_cell(kind, trusted, explicit):
    wanted = {}
    async with bailiwick.Authority.open() as authority:
        name = f"{kind}:x"
        await _fill(authority, name, explicit, trusted)
        # The access that is not held is the same story for every subject but in artifacts.
        wholes = itertools.product(SUBJECTS, list(_holdings())[:1])
        parts = itertools.product(
            SUBJECTS if kind == "artifact" else ("agent_run", "own"), list(_holdings())[1:]
        )
        for who, held in itertools.chain(wholes, parts):
            fs = await authority.request_root(SUBJECTS[who], name, held, "the table")
            assert fs.grant.explicit is explicit
            for verb, call in CALLS.items():
                request = f"{who}-{verb}-{next(_number)}"
                wanted[request] = expected(
                    verb, kind, who, explicit=explicit, held=held, trusted=trusted
                )
                if verb == "watch" and wanted[request][0] == "success" and len(held) < 8:
                    del wanted[request]  # it only ends by being stopped: once for each subject
                    continue
                await _let_in(call(fs.with_request(request)))
        found = {}
        for record in await House(authority, None).operations():
            found.setdefault(record.request_id, []).append(record)
    assert set(found) == set(wanted)
    wrong = [
        (request, outcome, [msgspec.structs.asdict(each) for each in found[request]])
        for request, outcome in wanted.items()
        if len(found[request]) != 1 or not _is(found[request][0], *outcome)
    ]
    assert wrong == [], f"{len(wrong)} of {len(wanted)}: {wrong[:3]}"


# --- what the table says of more than one root ----------------------------------------------------


@pytest.mark.spec("AUTH-2", "TEMP-1", "AUDIT-1")
@pytest.mark.parametrize("who", SUBJECTS)
async def test_a_temporary_root_is_its_creators(who):
    """Others get nothing even if they are handed a grant on it."""
    other = SUBJECTS["automation" if who != "automation" else "extension"]
    async with bailiwick.Authority.open() as authority:
        fs = await authority.for_subject(SUBJECTS[who]).temp("scratch")
        await plant(fs, {path: content for path, content in TREE.items() if path != "dir/link"})
        stranger = await fs.delegate(other)
        for verb, call in CALLS.items():
            if verb in ("symlink", "lstat", "readlink", "watch"):
                continue  # a temporary root holds no links
            assert await refusal(call(fs)) is None, verb
            error = await refusal(call(stranger))
            assert (error.kind, error.decided_by) == ("policy_denied", "kind.temp.others"), verb
        await fs.aclose()


TWO = """
[[root]]
id = "two"
kind = "{kind}"
memory = true
trusted = {trusted}
[[grant]]
subject = "agent_run:c1/r1"
root = "{kind}:two"
access = ["read", "write", "list", "metadata"]
"""


@pytest.mark.spec("AUTH-2", "AUTH-3", "TREE-2", "AUDIT-1")
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("kind", ["workspace", "downloads", "artifact", "knowledge", "secret"])
async def test_a_copy_between_roots_is_one_record_on_each(tmp_path, kind, trusted):
    """The source is only read, so it need not be trusted; the destination must be."""
    more = TWO.format(kind=kind, trusted=str(trusted).lower())
    async with governed(tmp_path, more=more) as house:
        for root in ("workspace:demo", f"{kind}:two"):
            await house.plant({"f": SECRET}, root)
        here = await house.scope({"read", "write"})
        there = await house.scope({"read", "write"}, root=f"{kind}:two")
        out = await refusal(here.with_request("out").copy_from(there, "f", "got"))
        into = await refusal(there.with_request("in").copy_from(here, "f", "got"))
        asks = kind == "secret"
        assert (out and out.kind) == ("approval_denied" if asks else None)
        expected_in = None if trusted else "untrusted_workspace"
        if trusted and asks:
            expected_in = "policy_denied"  # an agent writes no secrets
        assert (into and into.kind) == expected_in
        records = await house.operations()
        outcomes = [
            (each.request_id, each.root, each.operation, each.error_kind) for each in records
        ]
        assert sorted(outcomes) == sorted(
            [
                ("out", "workspace:demo", "copy", out and out.kind),
                ("out", f"{kind}:two", "copy", out and out.kind),
                *([("in", "workspace:demo", "copy", None)] if into is None else []),
                ("in", f"{kind}:two", "copy", expected_in),
            ]
        )


@pytest.mark.spec("AUTH-3", "TREE-2", "AUDIT-1")
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("held", [("read", "write"), ("read",)])
async def test_a_copy_from_the_host(tmp_path, trusted, held):
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "f").write_text(SECRET)
    options = f"copy_in = [{str(tmp_path / 'incoming')!r}]"
    async with governed(tmp_path, on_disk=True, state_dir=tmp_path / "s", options=options) as house:
        await house.authority.set_trust("workspace:demo", trusted, by=bailiwick.User("me"))
        fs = await house.scope(held)
        error = await refusal(fs.copy_in(str(tmp_path / "incoming" / "f"), "got"))
        wanted = "missing_access" if "write" not in held else None
        if wanted is None and not trusted:
            wanted = "untrusted_workspace"
        assert (error and error.kind) == wanted
        (record,) = await house.operations()
        assert (record.operation, record.error_kind) == ("copy-in", wanted)
        assert set(await house.tree()) == (set() if wanted else {"got"})
