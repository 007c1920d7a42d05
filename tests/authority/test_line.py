"""One straight line: what a verb forgets cannot happen.

Each verb planted here does what a verb must not do. It is refused and on record, and nothing is
changed; only what a well-behaved one does comes to pass.
"""

import asyncio
import gc
import hashlib
import types
import weakref
from contextlib import closing

import msgspec
import pytest

from bailiwick import acts, operations, version_acts
from bailiwick.act_table import DONE_BY
from bailiwick.acts import Append, Remove, SetMode, Write, WriteStream
from bailiwick.approvals import Preview
from bailiwick.build.options import read_options
from bailiwick.build.own import join
from bailiwick.build.stores import memory_store
from bailiwick.call import Target
from bailiwick.errors import BailiwickError, PolicyDenied
from bailiwick.model import ANYTHING
from bailiwick.proposal import InWords, Proposal, Shown, as_it_is
from bailiwick.store import Reader, WritePlan, Writer
from bailiwick.verbs.quota_charges import StreamCost
from bailiwick.versions import Branches, Leases, Lines, Past, Remembers
from tests.authority.support import Person, governed, rule
from tests.scope.support import records
from tests.scope.volumes import volume
from tests.waiting import until

RULES = rule("ask", "kept.txt", "kept/**") + rule("deny", "denied.txt")
TREE = {"kept.txt": b"old", "kept/f": b"old", "denied.txt": b"old", "free": b"old"}


def write_to(handle, data=b"planted", sha256=None, plan=None):
    return Write(handle, data, sha256 or hashlib.sha256(data).hexdigest(), plan or WritePlan())


def shown_as(act):
    return Shown(Preview(sha256=act.sha256, size=len(act.data)))


# --- verbs that must not be -----------------------------------------------------------------------


async def skips_the_question(call):
    """It writes while it prepares."""
    write = write_to(call.handle)
    await call.store.write(write.entry, write.data, write.sha256, write.plan)


async def has_it_done_while_it_prepares(call):
    await write_to(call.handle).on(call.store)


async def writes_with_another_handle(call):
    """It found that one while it looked, and nobody has judged it."""
    elsewhere = await call.store.resolve(call.handle.path.parent.child("denied.txt"), "entry")
    call.hold().callback(elsewhere.close)
    return Proposal(write_to(elsewhere), as_it_is, agreement=shown_as(write_to(elsewhere)))


async def resolves_its_own_place_anew(call):
    """The very same place, but nobody knows whether it is."""
    again = await call.store.resolve(call.handle.path, "entry")
    call.hold().callback(again.close)
    return Proposal(Remove(again, False, ANYTHING), as_it_is, agreement=Shown(Preview()))


async def shows_other_bytes(call):
    act = write_to(call.handle)
    return Proposal(act, as_it_is, agreement=shown_as(write_to(call.handle, b"harmless")))


async def lies_about_the_hash(call):
    harmless = write_to(call.handle, b"harmless")
    act = write_to(call.handle, b"planted", harmless.sha256)
    return Proposal(act, as_it_is, agreement=shown_as(harmless))


async def says_something_else(call):
    words = InWords(call, "set the mode to mode 0600")
    return Proposal(SetMode(call.handle, 0o777, ANYTHING), as_it_is, agreement=words)


class Exchanging(Shown):
    """What is done after all is not what was shown."""

    def __init__(self, shown, instead):
        super().__init__(Preview(sha256=shown.sha256))
        self.instead = instead

    async def agreed(self, act):
        return self.instead


async def does_something_else_when_agreed(call):
    act = write_to(call.handle, b"harmless")
    return Proposal(act, as_it_is, agreement=Exchanging(act, write_to(call.handle)))


async def does_another_act_when_agreed(call):
    act = write_to(call.handle, b"harmless")
    instead = Remove(call.handle, False, ANYTHING)
    return Proposal(act, as_it_is, agreement=Exchanging(act, instead))


async def loosens_its_conditions_when_agreed(call):
    act = write_to(call.handle, plan=WritePlan(mode="create"))
    return Proposal(act, as_it_is, agreement=Exchanging(act, write_to(call.handle, act.data)))


async def raises_while_it_prepares(call):
    raise ZeroDivisionError


async def raises_when_agreed(call):
    class Raising(Shown):
        async def agreed(self, act):
            raise ZeroDivisionError

    act = write_to(call.handle)
    return Proposal(act, as_it_is, agreement=Raising(Preview(sha256=act.sha256)))


async def raises_before_it_is_done(call):
    async def last_look():
        raise ZeroDivisionError

    act = write_to(call.handle)
    return Proposal(act, as_it_is, agreement=shown_as(act), last_look=last_look)


async def streams_and_raises(call):
    async def chunks():
        yield b"planted"
        raise ZeroDivisionError

    return Proposal(WriteStream(call.handle, chunks(), WritePlan()), as_it_is)


async def takes_away_what_it_may_only_write(call):
    return Proposal(Remove(call.handle, False, ANYTHING), as_it_is, agreement=Shown(Preview()))


async def makes_up_an_act(call):
    class Harmless(SetMode, frozen=True, eq=False):
        async def on(self, store):
            await store.remove(self.entry, recursive=False)

    return Proposal(Harmless(call.handle, 0o600, ANYTHING), as_it_is)


async def exchanges_its_own_place(call):
    call.hold().callback(call.handle.close)
    call.target.handle = await call.store.resolve(
        call.handle.path.parent.child("denied.txt"), "entry"
    )
    act = write_to(call.handle)
    return Proposal(act, as_it_is, agreement=shown_as(act))


async def changes_the_bytes_when_agreed(call):
    data = bytearray(b"harmless")

    class Changing(Shown):
        async def agreed(self, act):
            data[:] = b"planted!"
            return act

    act = write_to(call.handle, data)
    return Proposal(act, as_it_is, agreement=Changing(Preview(sha256=act.sha256)))


async def drops_the_question(call):
    call.questions = None
    return Proposal(write_to(call.handle), as_it_is)


async def empties_the_question(call):
    call.questions.clear()
    act = write_to(call.handle)
    return Proposal(act, as_it_is, agreement=shown_as(act))


async def drops_the_question_when_it_shows(call):
    class Dropping(Shown):
        async def show(self):
            call.questions = None
            return await super().show()

    act = write_to(call.handle)
    return Proposal(act, as_it_is, agreement=Dropping(Preview(sha256=act.sha256)))


VERBS = [
    drops_the_question, empties_the_question, drops_the_question_when_it_shows,
    takes_away_what_it_may_only_write, makes_up_an_act, exchanges_its_own_place,
    changes_the_bytes_when_agreed,
    skips_the_question, has_it_done_while_it_prepares, writes_with_another_handle,
    resolves_its_own_place_anew, shows_other_bytes, lies_about_the_hash, says_something_else,
    does_something_else_when_agreed, does_another_act_when_agreed,
    loosens_its_conditions_when_agreed, raises_while_it_prepares, raises_when_agreed,
    raises_before_it_is_done, streams_and_raises,
]  # fmt: skip


def planted(fs, prepare, path="kept.txt", operation=operations.WRITE):
    return fs._run(operation, "planted", Target(path, "entry", creates=True), prepare)


@pytest.mark.spec("LINE-3")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("prepare", VERBS, ids=lambda each: each.__name__)
async def test_a_verb_that_goes_another_way_changes_nothing(tmp_path, prepare, on_disk):
    state = tmp_path / "state" if on_disk else None
    async with governed(tmp_path, RULES, on_disk=on_disk, state_dir=state) as house:
        await house.plant(TREE)
        before = await house.tree()
        fs = await house.scope(asker=Person("once"))
        with pytest.raises(BailiwickError):
            await planted(fs, prepare)
        await asyncio.sleep(0)  # for what it might have left behind
        assert await house.tree() == before
        (record,) = [each for each in await house.operations() if each.verb == "planted"]
        assert record.outcome in ("failed", "denied")


@pytest.mark.spec("LINE-3")
@pytest.mark.parametrize(
    "operation", [operations.READ, operations.COPY_SOURCE, operations.LEASE, operations.DELETE],
    ids=["read", "copy source", "lease", "delete"],
)  # fmt: skip
async def test_what_is_done_is_part_of_the_operation_that_was_judged(tmp_path, operation):
    """A grant for something else is none for this."""

    async def prepare(call):
        return Proposal(write_to(call.handle), as_it_is)

    async with governed(tmp_path, RULES) as house:
        await house.plant(TREE)
        fs = await house.scope()
        with pytest.raises(PolicyDenied):
            await planted(fs, prepare, "free", operation)
        assert (await house.tree())["free"] == b"old"
        (record,) = [each for each in await house.operations() if each.verb == "planted"]
        assert record.outcome == "denied"


@pytest.mark.spec("LINE-3")
async def test_a_call_keeps_the_places_that_it_was_admitted_with(tmp_path):
    """Nobody was asked about the other one, for it was not what the call named."""
    async with governed(tmp_path, RULES) as house:
        await house.plant(TREE)
        with pytest.raises(PolicyDenied):
            await planted(await house.scope(), exchanges_its_own_place, "free")
        assert (await house.tree())["denied.txt"] == b"old"


@pytest.mark.spec("LINE-3")
@pytest.mark.parametrize("place", ["free", "denied.txt", "kept"])
@pytest.mark.parametrize("way", ["remove", "write_stream", "kept until later"])
async def test_a_copy_is_made_at_its_place_and_while_it_lasts(tmp_path, place, way):
    kept = []

    async def chunks():
        yield b"planted"

    async def change(store, path):
        with closing(await store.resolve(path, "entry")) as entry:
            if way == "remove":
                await store.remove(entry)
            else:
                await store.write_stream(entry, chunks(), WritePlan())

    async def prepare(call):
        elsewhere = call.handle.path.parent.child(place)

        async def make(store):
            kept.append(store)
            if way != "kept until later":
                await change(store, elsewhere)
            return 1

        return Proposal(acts.CopyIn(call.handle, make), lambda _: call.handle.path)

    async with governed(tmp_path, RULES) as house:
        await house.plant(TREE)
        before = await house.tree()
        fs = await house.scope()
        copying = planted(fs, prepare, "new", operations.COPY_DESTINATION)
        if way == "kept until later":
            path = await copying
            with pytest.raises(PolicyDenied):
                await change(kept[0], path)
        else:
            with pytest.raises(PolicyDenied):
                await copying
        assert await house.tree() == before


@pytest.mark.spec("LINE-3")
@pytest.mark.parametrize(
    "operation", [operations.DELETE, operations.MOVE, operations.COPY], ids=lambda each: each.name
)
async def test_a_tree_that_was_not_looked_through_is_left_alone(tmp_path, operation):
    """Something in it may be denied."""

    async def prepare(call):
        if operation is operations.DELETE:
            return Proposal(Remove(call.handle, True, ANYTHING), as_it_is)
        there = call.destination_handle
        if operation is operations.MOVE:
            return Proposal(acts.Move(call.handle, there, False, ANYTHING, ANYTHING), as_it_is)
        return Proposal(acts.Copy(call.handle, there, True), as_it_is)

    async with governed(tmp_path, rule("deny", "d/denied.txt")) as house:
        await house.plant({"d/denied.txt": b"old"})
        before = await house.tree()
        fs = await house.scope()
        to = None if operation is operations.DELETE else Target("e", "entry", creates=True)
        with pytest.raises(PolicyDenied):
            await fs._run(operation, "planted", Target("d", "entry"), prepare, to)
        assert await house.tree() == before


@pytest.mark.spec("LINE-3")
def test_the_list_of_acts_is_closed():
    made = {
        each for each in (*vars(acts).values(), *vars(version_acts).values())
        if isinstance(each, type) and issubclass(each, acts.Act)
    }  # fmt: skip
    bases = {acts.Act, acts.ActOfPlaces, acts._Between, version_acts._Planned}
    assert set(DONE_BY) == made - bases


@pytest.mark.spec("LINE-2", "LINE-3")
@pytest.mark.parametrize("answer", ["no", "once"])
async def test_a_verb_that_knows_nothing_of_questions_is_asked_about(tmp_path, answer):
    async def prepare(call):
        return Proposal(SetMode(call.handle, 0o640, ANYTHING), as_it_is)

    async with governed(tmp_path, RULES) as house:
        await house.plant(TREE)
        person = Person(answer)
        fs = await house.scope(asker=person)
        if answer == "no":
            with pytest.raises(BailiwickError):
                await planted(fs, prepare)
        else:
            await planted(fs, prepare)
        (question,) = person.questions
        assert question.preview.diff == "set the mode to mode 0640"
        mode = (await (await house.bare()).stat("kept.txt")).mode & 0o777
        assert (mode == 0o640) == (answer == "once")


@pytest.mark.spec("LINE-2", "LINE-3", "ASK-1")
async def test_a_stream_is_shown_as_it_came(tmp_path):
    """Its hash is taken on the way, whatever the verb says of it."""

    async def prepare(call):
        async def chunks():
            yield b"pla"
            yield b"nted"

        lie = Shown(Preview(sha256="0" * 64, size=1))
        return Proposal(WriteStream(call.handle, chunks(), WritePlan()), as_it_is, agreement=lie)

    async with governed(tmp_path, RULES) as house:
        await house.plant(TREE)
        person = Person("no")
        with pytest.raises(BailiwickError):
            await planted(await house.scope(asker=person), prepare)
        (question,) = person.questions
        assert question.preview.sha256 == hashlib.sha256(b"planted").hexdigest()
        assert question.preview.size == 7
        assert (await house.tree())["kept.txt"] == b"old"


@pytest.mark.spec("LINE-3")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
async def test_a_stream_is_published_as_it_was_shown(tmp_path, on_disk):
    """Also where the verb holds on to its chunks and changes them, and where it is counted."""
    data = bytearray(b"harmless")

    class Changing(Shown):
        async def agreed(self, act):
            data[:] = b"planted!"
            return act

    async def prepare(call):
        async def chunks():
            yield data

        return Proposal(
            WriteStream(call.handle, chunks(), WritePlan()), as_it_is,
            agreement=Changing(Preview()), counting=StreamCost(call, call.handle),
        )  # fmt: skip

    quota = "quota = {bytes = 1000}"
    async with governed(tmp_path, RULES, on_disk=on_disk, options=quota) as house:
        await house.plant(TREE)
        person = Person("once")
        await planted(await house.scope(asker=person), prepare)
        (question,) = person.questions
        shown = (await house.tree())["kept.txt"]
        assert shown == b"harmless"
        assert question.preview.sha256 == hashlib.sha256(shown).hexdigest()


@pytest.mark.spec("LINE-2", "LINE-3")
async def test_nothing_is_left_to_act_with_when_it_is_over(tmp_path):
    """Who keeps all that a verb ever had has nothing that changes anything."""
    kept = []

    async def prepare(call):
        kept.append(call)
        act = Append(call.handle, b"once", WritePlan())
        kept.append(act)
        return Proposal(act, as_it_is)

    async with governed(tmp_path, RULES) as house:
        await house.plant(TREE)
        fs = await house.scope()
        await planted(fs, prepare, "free", operations.WRITE_ONTO)
        assert (await house.tree())["free"] == b"oldonce"
        call, act = kept
        with pytest.raises(AttributeError):
            await act.on(call.store)
        assert (await house.tree())["free"] == b"oldonce"


@pytest.mark.spec("LINE-5")
def test_a_call_on_two_roots_is_closed_where_no_loop_is_left():
    """What it holds is let go of before `close` returns, and both of its halves are on record."""
    here, there = (_without_a_loop() for _ in range(2))
    let_go = []

    @types.coroutine
    def waiting():
        yield

    async def prepare(call):
        reading = here._call(operations.COPY_SOURCE, "read", Target(".", "object"))
        await call.hold().enter_async_context(here._pipeline.reading(reading))
        call.hold().callback(let_go.append, True)
        await waiting()

    coroutine = planted(there, prepare, "f")
    coroutine.send(None)
    coroutine.close()
    assert let_go == [True]
    for fs in (here, there):
        (record,) = records(fs)
        assert (record.outcome, record.error_kind) == ("failed", "cancelled")


def _without_a_loop():
    options = read_options({})
    return join(memory_store(options), options, "test", "/")


@pytest.mark.spec("LINE-1")
@pytest.mark.parametrize("where", ["memory", "disk", "volume"])
async def test_a_reader_has_nothing_that_changes(tmp_path, where):
    async def look(call):
        return call.store

    async def held(fs):
        reader = await fs._run(operations.READ, "planted", Target(".", "object"), look)
        _check(reader, fs._pipeline.store)

    if where == "volume":
        async with volume(tmp_path) as fs:
            await held(fs)
    else:
        async with governed(tmp_path, on_disk=where == "disk") as house:
            await held(await house.bare())


def _check(reader, store):
    assert isinstance(reader, Reader)
    for name in _methods(Writer) | {"stage", "marked", "aclose"}:
        assert not hasattr(reader, name), name
    if hasattr(store, "versions"):
        looking = _methods(Past) | _methods(Lines)
        for name in (_methods(Remembers) | _methods(Branches) | _methods(Leases)) - looking:
            assert not hasattr(reader.versions, name), name
        assert all(hasattr(reader.versions, name) for name in looking)


def _methods(protocol):
    return {
        name for each in protocol.__mro__ if each.__module__.startswith("bailiwick")
        for name in vars(each) if not name.startswith("_")
    }  # fmt: skip


@pytest.mark.spec("LINE-3")
async def test_an_act_is_narrowed_and_never_widened():
    handle = object()
    plan = WritePlan(expected_version="1")
    act = write_to(handle, plan=plan)
    for stricter in ({"mode": "create"}, {"expected_sha256": "0" * 64}):
        narrowed = msgspec.structs.replace(act, plan=msgspec.structs.replace(plan, **stricter))
        assert narrowed.is_at_most(act)
        assert not act.is_at_most(narrowed)
    for other in ({"expected_version": None}, {"expected_version": "2"}, {"file_mode": 0o777}):
        widened = msgspec.structs.replace(act, plan=msgspec.structs.replace(plan, **other))
        assert not widened.is_at_most(act)


WRONG = {
    "edit": lambda fs: fs.edit("kept.txt", old="nothing like it", new="x"),
    "write": lambda fs: fs.write_text("kept.txt", "x", expected_version="another"),
    "create": lambda fs: fs.write_text("free", "x", mode="create"),
    "stream": lambda fs: fs.write_stream("kept.txt", [b"x", "no bytes"]),
    "remove": lambda fs: fs.remove("kept"),
    "move": lambda fs: fs.move("kept.txt", "free"),
    "copy between roots": lambda fs: fs.copy_from(fs, "kept", "kept/in/itself", recursive=True),
    "archive": lambda fs: fs.create_archive(["free", "none"], "a.tar"),
    "unpack": lambda fs: fs.extract_archive("kept.txt", "out"),
}


@pytest.mark.spec("LINE-2", "LIFE-2")
@pytest.mark.parametrize("name", WRONG)
async def test_what_was_refused_is_kept_by_nobody(tmp_path, name):
    """An error keeps what was proposed where it was raised, which may keep the error in turn."""
    async with governed(tmp_path, RULES) as house:
        await house.plant(TREE)
        fs = await house.scope(asker=Person("once"))
        try:
            await WRONG[name](fs)
        except BailiwickError as error:
            kept = weakref.ref(error)

        def is_gone():
            gc.collect()
            return kept() is None

        await until(is_gone)  # a thread that raised it holds it until it takes its next step
