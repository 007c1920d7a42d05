"""Every verb over HTTP does what it does here: the same arguments, results and errors."""

import asyncio
import contextlib
import hashlib
import inspect
import tracemalloc

import msgspec
import pytest

import bailiwick
from bailiwick import Scope, errors
from bailiwick.client import RemoteScope, connect, connect_sync
from bailiwick.scope.review import Review
from tests.client.lying import answer, lying
from tests.fronts.http.serving import serving
from tests.scope.every_verb import BESIDES, TREE, TWO_ROOTS, VERBS, plant_tree
from tests.waiting import loop_turns, until

pytestmark = pytest.mark.spec("PY-5", "PY-2")

APART = {"request_id", "version", "mtime_ns", "created_ns", "visited", "next_cursor"}
"""What differs between two trees, or is not on the wire."""


@contextlib.asynccontextmanager
async def remote(tmp_path, *, volume=True, **how):
    place = f"sqlite:{tmp_path}/files.db?volume=demo" if volume else None
    async with (
        serving(tmp_path, place=place, lasting=False, **how) as house,
        connect(house.url, token=house.token) as fs,
    ):
        fs.house = house
        yield fs


def shown(value):
    """A result without what cannot be the same twice."""
    if isinstance(value, list):
        return [shown(each) for each in value]
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in APART}
    return type(value), {name: shown(each) for name, each in fields.items()}


@pytest.mark.parametrize("name", sorted(VERBS))
async def test_a_verb_results_in_the_same(tmp_path, name):
    async with bailiwick.open(f"sqlite:{tmp_path}/local.db") as here, remote(tmp_path) as there:
        for fs in (here, there):
            await plant_tree(fs)
        local, over_http = [await VERBS[name].call(fs) for fs in (here, there)]
        assert shown(over_http) == shown(local)
        found = [
            (entry.path, entry.type, entry.size)
            for fs in (here, there)
            for entry in (await fs.find()).matches
        ]
        assert found[: len(found) // 2] == found[len(found) // 2 :]


def verbs_of(cls):
    plumbing = {
        "aclose", "root", "subject", "access", "limits", "powers", "description", "grant",
    }  # fmt: skip
    return {name for name in dir(cls) if not name.startswith("_")} - plumbing


PROGRAMS = {
    "exec", "work", "open_work", "session", "open_session", "changes", "apply", "discard",
}  # fmt: skip
"""Programs, and what was changed apart."""

SAID = {"queue", "accept", "reject", "notes"}


def test_there_are_the_same_verbs():
    every = VERBS.keys() | TWO_ROOTS | BESIDES | PROGRAMS
    assert verbs_of(RemoteScope) == verbs_of(Scope) == every
    assert verbs_of(Review) == SAID


@pytest.mark.parametrize(
    ("here", "there", "name"),
    [
        *((Scope, RemoteScope, name)
          for name in sorted(VERBS.keys() | TWO_ROOTS | BESIDES | PROGRAMS) if name != "review"),
    ],
)  # fmt: skip
def test_a_verb_takes_the_same(here, there, name):
    assert inspect.getdoc(getattr(there, name))
    here, there = (inspect.signature(getattr(each, name)) for each in (here, there))
    named = [(p.name, p.kind, p.default) for p in there.parameters.values()]
    assert named == [(p.name, p.kind, p.default) for p in here.parameters.values()]


REFUSED = {
    "no such file": (lambda fs: fs.read_text("none"), errors.PathNotFound),
    "a path outside": (lambda fs: fs.read_text("../x"), errors.PathOutsideWorkspace),
    "an empty path": (lambda fs: fs.read_text(""), errors.ParseError),
    "half a character": (lambda fs: fs.read_text("\udcff"), errors.ParseError),
    "half a character in a body": (lambda fs: fs.make_dir("\udcff"), errors.ParseError),
    "bytes for a path": (lambda fs: fs.stat(b"a"), errors.ParseError),
    "a negative offset": (lambda fs: fs.read_bytes("file.txt", -1), errors.ParseError),
    "a negative length": (lambda fs: fs.read_bytes("file.txt", 0, -1), errors.ParseError),
    "a number for a flag": (lambda fs: fs.make_dir("d", parents=1), errors.ParseError),
    "text for a number": (lambda fs: fs.list(limit="1"), errors.ParseError),
    "an offset that is text": (lambda fs: fs.read_bytes("file.txt", "0"), errors.ParseError),
    "too large a page": (lambda fs: fs.list(limit=2_001), errors.ParseError),
    "a wrong hash": (
        lambda fs: fs.write_text("file.txt", "x", expected_sha256="0" * 64), errors.HashMismatch,
    ),
    "a hash that is none": (
        lambda fs: fs.write_bytes("file.txt", b"x", expected_sha256="0"), errors.ParseError,
    ),
    "text for bytes": (lambda fs: fs.write_bytes("a", "x"), errors.ParseError),
    "bytes for text": (lambda fs: fs.write_text("a", b"x"), errors.ParseError),
    "too much text": (lambda fs: fs.write_text("a", "x" * (5 * 2**20 + 1)), errors.FileTooLarge),
    "no JSON": (lambda fs: fs.write_json("a", {1: object()}), errors.ParseError),
    "no JSON to read": (lambda fs: fs.read_json("file.txt"), errors.ParseError),
    "a taken name": (lambda fs: fs.write_text("file.txt", "", mode="create"),
                     errors.FileAlreadyExists),
    "text that is not there": (lambda fs: fs.edit("file.txt", old="q", new="r"),
                               errors.TextNotFound),
    "an edit of nothing": (lambda fs: fs.edit("file.txt"), errors.ParseError),
    "a diff with nothing": (lambda fs: fs.diff("file.txt"), errors.ParseError),
    "a pattern that is none": (lambda fs: fs.grep("("), errors.ParseError),
    "a link that is none": (lambda fs: fs.readlink("file.txt"), errors.ParseError),
    "a full directory": (lambda fs: fs.remove("dir"), errors.DirectoryNotEmpty),
    "no version": (lambda fs: fs.read_text("file.txt", as_of="nosuch"), errors.PathNotFound),
    "no fork": (lambda fs: fs.open_fork("nosuch"), errors.PathNotFound),
    "no snapshot": (lambda fs: fs.delete_snapshot("nosuch/../x"), errors.BailiwickError),
}  # fmt: skip


async def test_what_is_refused_here_is_refused_there(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/local.db") as here, remote(tmp_path) as there:
        for fs in (here, there):
            await plant_tree(fs)
        for what, (call, known) in REFUSED.items():
            kinds = []
            for fs in (here, there):
                with pytest.raises(known) as caught:
                    await call(fs)
                kinds.append((type(caught.value), caught.value.category, caught.value.path))
            assert kinds[0][:2] == kinds[1][:2], what
            assert kinds[1][2] in (kinds[0][2], None), what
        assert await there.exists("dir/inner.txt")
        assert not await there.exists("file.txt/x")
        with pytest.raises(errors.HashMismatch) as caught:
            await there.write_text("file.txt", "x", expected_sha256="0" * 64)
        now = hashlib.sha256(TREE["file.txt"].encode()).hexdigest()
        assert caught.value.details["current_sha256"] == now


async def test_what_http_does_not_serve_is_said(tmp_path):
    async with remote(tmp_path) as fs, bailiwick.open("memory:") as other:
        await fs.write_text("a", "x")
        for call in (
            lambda: fs.copy_in("/tmp", "x"),
            lambda: fs.copy_from(other, "a", "b"),
            lambda: fs.diff("a", text="y"),
            lambda: fs.extract_archive("a", "b", limits=bailiwick.Limits()),
        ):
            with pytest.raises(errors.Unsupported):
                await call()
        with pytest.raises(errors.Unsupported):
            fs.with_caller("cli", asker=lambda approval: None)


# --- content ------------------------------------------------------------------------------------


async def test_large_files_go_by_in_chunks(tmp_path):
    size, piece = 64 * 2**20, bytes(2**20)

    async def source():
        for _ in range(64):
            yield piece
            await asyncio.sleep(0)

    async with remote(tmp_path, volume=False) as fs:
        tracemalloc.start()
        try:
            done = await fs.write_stream("large", source())
            assert (done.size, done.created) == (size, True)
            count = 0
            async for chunk in fs.stream("large"):
                count += len(chunk)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert count == size
        assert peak < 24 * 2**20  # the server and the client together


@pytest.mark.parametrize("volume", [True, False])
async def test_ranges_are_those_of_a_local_read(tmp_path, volume):
    data = bytes(range(256)) * 4_000
    async with remote(tmp_path, volume=volume) as fs:
        await fs.write_bytes("f", data)
        await fs.write_bytes("empty", b"")
        for offset, length in (
            (0, None), (0, 0), (5, 0), (3, 300_000), (1_000_000, None), (len(data), None),
            (2**40, None), (2**40, 5), (len(data) - 1, 10), (0, len(data)),
        ):  # fmt: skip
            expected = data[offset : None if length is None else offset + length]
            read = await fs.read_bytes("f", offset, length)
            assert (read.data, read.size) == (expected, len(data)), (offset, length)
            assert read.truncated == (offset + len(expected) < len(data))
            streamed = b"".join([chunk async for chunk in fs.stream("f", offset, length)])
            assert streamed == expected, (offset, length)
        assert b"".join([chunk async for chunk in fs.stream("empty")]) == b""
        assert (await fs.read_bytes("f")).sha256 == hashlib.sha256(data).hexdigest()
        for none in ("none", "."):
            with pytest.raises((errors.PathNotFound, errors.IsADirectory)):
                await anext(fs.stream(none, 0, 0))


async def test_a_source_that_fails_leaves_nothing(tmp_path):
    def source():
        yield b"x" * 2**20
        raise ZeroDivisionError

    async with remote(tmp_path) as fs:
        await fs.write_text("f", "old")
        with pytest.raises(ZeroDivisionError):
            await fs.write_stream("f", source())
        assert (await fs.read_text("f")).text == "old"
        with pytest.raises(errors.FileAlreadyExists):
            await fs.write_stream("f", [b"a", b"", b"b"], mode="create")
        assert (await fs.write_stream("g", [b"a", b"", b"b"])).size == 2


@pytest.mark.spec("VOL-11")
async def test_a_birth_is_told_to_the_nanosecond(tmp_path):
    place = f"sqlite:{tmp_path}/files.db?volume=demo"
    async with remote(tmp_path) as fs:
        await fs.write_text("f", "x")
        told = (await fs.stat("f")).created_ns
    async with bailiwick.open(place) as here:
        assert (await here.stat("f")).created_ns == told


async def test_a_window_goes_on_by_its_cursor(tmp_path):
    async with remote(tmp_path) as fs:
        await fs.write_text("f", "".join(f"{n}\n" for n in range(5_000)))
        page = await fs.read_text("f", line=1, limit=4_000)
        assert (page.truncated, page.text.count("\n")) == (True, 1_999)
        text = page.text + "\n"
        while page.next_cursor is not None:
            page = await fs.read_text("f", cursor=page.next_cursor)
            text += page.text if page.text.endswith("\n") else page.text + "\n"
        assert text.split() == [str(n) for n in range(5_000)]
        assert (await fs.read_text("f", tail=2)).text.split() == ["4998", "4999"]
        small = fs.with_text_max(100)
        with pytest.raises(errors.FileTooLarge):
            await small.read_text("f")
        assert (await small.read_text("f", line=1)).returned_bytes <= 100


async def test_several_globs_are_one(tmp_path):
    async with remote(tmp_path) as fs:
        for name in ("a.py", "b.md", "c,d.txt", "src/e.js", "x{y}.q"):
            await fs.write_text(name, "word\n", parents=True)
        for globs, expected in (
            (["*.py", "*.md"], {"a.py", "b.md"}),
            (["c,d.txt", "src/**"], {"c,d.txt", "src/e.js"}),
            (["{a,b}.*", "[,]x"], {"a.py", "b.md"}),
            (["x\\{y\\}.q", "*.js"], {"x{y}.q", "src/e.js"}),
        ):
            found = await fs.grep("word", include=globs)
            assert {str(match.path) for match in found.matches} == expected, globs


# --- versions, transactions, locks --------------------------------------------------------------


async def test_a_transaction_is_one_request(tmp_path):
    async with remote(tmp_path) as fs:
        await fs.write_text("a", "old")
        async with fs.transaction() as inside:
            text = await inside.write_text("a", "new")
            data = await inside.write_bytes("b", b"\xff\x00", mode="create")
            await inside.make_dir("d")
            moved = await inside.move("a", "d/a")
            await inside.write_json("j", {"x": 1})
            assert "Later" in repr(text)
            with pytest.raises(errors.Unsupported, match="when the transaction has ended"):
                _ = text.sha256
            for call in (
                inside.read_text("a"), inside.list(), inside.stat("a"), inside.history("a"),
                anext(inside.stream("a")), anext(inside.watch()), inside.fork("x"),
                inside.write_stream("s", [b"x"]), inside.create_temp(), inside.snapshot("s"),
            ):  # fmt: skip
                with pytest.raises(errors.Unsupported):
                    await call
            with pytest.raises(errors.Unsupported):
                inside.with_request("x")
            assert await fs.exists("a")
            assert not await fs.exists("b")
        assert text.sha256 == hashlib.sha256(b"new").hexdigest()
        assert (data.created, data.mode, data.size) == (True, "create", 2)
        assert (moved.destination, moved.request_id) == ("d/a", text.request_id)
        assert (await fs.read_bytes("b")).data == b"\xff\x00"
        assert (await fs.read_json("j")).value == {"x": 1}
        with pytest.raises(errors.Closed):
            await inside.write_text("late", "x")


async def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    async with remote(tmp_path) as fs:

        async def changed(*more):
            async with fs.transaction() as inside:
                for each in more:
                    await inside.write_text("a", each)
                await inside.remove("none")
                if not more:
                    raise ZeroDivisionError

        with pytest.raises(errors.PathNotFound) as caught:
            await changed("x", "y")
        assert caught.value.details["operation"] == 2
        with pytest.raises(ZeroDivisionError):
            await changed()
        async with fs.transaction():
            pass
        assert not await fs.exists("a")
        with pytest.raises(errors.FileTooLarge):
            await changed(*["x" * 4 * 2**20] * 3)
    (tmp_path / "plain").mkdir()
    async with remote(tmp_path / "plain", volume=False) as fs:
        with pytest.raises(errors.Unsupported):
            await fs.transaction().__aenter__()


async def test_locks_hold_for_those_without_the_token(tmp_path):
    async with remote(tmp_path) as fs:
        await fs.write_text("d/a", "1", parents=True)
        lease = await fs.lock("d", ttl=30)
        with pytest.raises(errors.LockHeld) as caught:
            await fs.write_text("d/a", "2")
        assert caught.value.retryable
        done = await fs.write_text("d/a", "2", lock_token=lease.token)
        await lease.renew(60)
        async with fs.transaction(lock_token=lease.token) as inside:
            await inside.write_text("d/a", "3")
        await fs.undo(done.request_id, preview=True)
        await fs.restore("d/a", done.version, lock_token=lease.token)
        assert (await lease.release(), await lease.release()) == (True, False)
        async with fs.lock("d") as held:
            assert held.token > lease.token
        assert (await fs.read_text("d/a")).text == "2"


async def test_forks_are_scopes_of_their_own(tmp_path):
    async with remote(tmp_path) as fs:
        first = await fs.write_text("a", "1")
        fork = await fs.fork("try_it")
        await fork.write_text("a", "2")
        assert (fork.root.branch, str(fork.root)) == ("try_it", "workspace:demo")
        assert (await fs.read_text("a")).text == "1"
        again = await fs.open_fork("try_it")
        assert (await again.read_text("a")).text == "2"
        main = await fork.open_fork("main")
        assert ((await main.read_text("a")).text, main.root.branch) == ("1", "")
        (difference,) = (await fs.compare("try_it")).differences
        assert (difference.kind, difference.sha256_before) == ("updated", first.sha256)
        assert (await fs.merge("try_it", preview=True)).changed == ["a"]
        merged = await fs.merge("try_it")
        assert merged.changed == ["a"]
        assert [(await fs.read_text("a", as_of=v)).text for v in (first.version,)] == ["1"]
        kept = await fs.snapshot("kept")
        assert [each.name for each in await fs.snapshots()] == ["kept"]
        assert kept.version == (await fs.snapshots())[0].version
        assert (await fs.diff("a", as_of=first.version)).added_lines == 1
        assert [each.name for each in await fs.forks()] == ["main", "try_it"]
        history = await fs.history("a", limit=1)
        assert (history.truncated, len(history.versions)) == (True, 1)
        more = await fs.history("a", cursor=history.next_cursor)
        assert more.versions[-1].sha256 == first.sha256
        for scope in (fork, again, main):
            await scope.aclose()
        with pytest.raises(errors.Closed):
            await fork.read_text("a")
        await fs.delete_fork("try_it")
        await fs.delete_snapshot("kept")
        assert (await fs.undo(merged.request_id)).undone == ["a"]
        async with connect(fs.house.url, token=fs.house.token, fork="main") as named:
            assert (await named.read_text("a")).text == "1"


async def test_archives_and_temporary_roots(tmp_path):
    async with remote(tmp_path) as fs:
        await fs.write_text("src/a", "x", parents=True)
        made = await fs.create_archive("src", "src.tar.gz")
        assert (made.format, made.files) == ("tar.gz", 1)
        assert (await fs.extract_archive("src.tar.gz", "out")).files == 1
        temp = await fs.create_temp(seconds=60)
        assert temp.root.kind == "temp"
        await temp.copy_from(fs, "src", "src", recursive=True)
        await fs.copy_from(temp, "src/a", "back/a", parents=True)
        assert (await fs.read_text("back/a")).text == "x"
        await temp.aclose()
        with pytest.raises(errors.Closed):
            await temp.list()


# --- watching ------------------------------------------------------------------------------------


async def test_changes_are_told_as_they_are_made(tmp_path):
    async with remote(tmp_path) as fs:
        since = await fs.change_cursor()
        heard, told = [], asyncio.Event()

        def hear(change):
            heard.append(change)
            if change.path == "d/b":
                told.set()
            raise ZeroDivisionError

        end = await fs.on_change(hear)
        await fs.make_dir("d")
        done = await fs.with_request("mine").write_text("d/a", "x")
        await fs.write_text("d/b", "y")
        async with contextlib.aclosing(fs.watch("d", since=since)) as changes:
            seen = [await anext(changes) for _ in range(3)]
        assert [(each.kind, each.path) for each in seen] == [
            ("created", "d"), ("created", "d/a"), ("created", "d/b"),
        ]  # fmt: skip
        assert (seen[1].request_id, seen[1].subject) == ("mine", "user:local")
        assert done.request_id == "mine"
        await asyncio.wait_for(told.wait(), 120)
        end()
        end()
        assert [each.path for each in heard] == ["d", "d/a", "d/b"]
        with pytest.raises(errors.ParseError):
            await anext(fs.watch(since="nonsense"))


async def test_a_watch_lives_through_a_server_that_comes_back(tmp_path):
    (tmp_path / "tree").mkdir()
    async with connect_later(tmp_path) as (fs, restart):
        async with contextlib.aclosing(fs.watch(since=await fs.change_cursor())) as changes:
            seen = []
            for number in range(4):
                await fs.write_text(f"f{number}", "x")
                seen.append((await anext(changes)).path)
                await restart()
            await fs.write_text("last", "x")
            seen.append((await anext(changes)).path)
        assert seen == ["f0", "f1", "f2", "f3", "last"]


@contextlib.asynccontextmanager
async def connect_later(tmp_path):
    """A scope behind a door that cuts every connection when it is told to."""
    async with remote(tmp_path) as fs:
        pipes = set()

        async def pipe(reader, writer):
            with contextlib.suppress(OSError):
                while chunk := await reader.read(65536):
                    writer.write(chunk)
                    await writer.drain()
            writer.close()

        async def door(reader, writer):
            there = await asyncio.open_connection("127.0.0.1", fs.house.port)
            ways = [
                asyncio.ensure_future(pipe(reader, there[1])),
                asyncio.ensure_future(pipe(there[0], writer)),
            ]
            pipes.update(ways)
            await asyncio.wait(ways)
            for each in (writer, there[1]):
                each.close()

        async def restart():
            for way in list(pipes):
                way.cancel()
            await asyncio.gather(*pipes, return_exceptions=True)
            pipes.clear()

        server = await asyncio.start_server(door, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        fs.house.app._gate = type(fs.house.app._gate)(frozenset("*"))
        try:
            async with connect(url, token=fs.house.token) as behind:
                yield behind, restart
        finally:
            await restart()
            server.close()
            await server.wait_closed()
            await loop_turns()


# --- who acts -------------------------------------------------------------------------------------


async def test_a_part_of_the_power_is_passed_on(tmp_path):
    async with remote(tmp_path) as fs:
        await fs.write_text("src/a", "x", parents=True)
        agent = bailiwick.AgentRun("c", "1")
        heir = await fs.delegate(agent, access={"read", "list"}, path="src", rebase=True)
        assert (heir.subject, heir.access) == (agent, {"read", "list"})
        assert (await heir.read_text("a")).path == "a"
        with pytest.raises(errors.MissingAccess):
            await heir.write_text("a", "y")
        with pytest.raises(errors.MissingAccess):
            await heir.delegate(agent, access={"write"})
        with pytest.raises(errors.ParseError):
            await fs.delegate(agent, access={"fly"})
        await heir.aclose()
        assert (await fs.read_text("src/a")).text == "x"


async def test_without_a_token_one_reads(tmp_path):
    async with serving(tmp_path, tokens=False) as house:
        (house.place / "a").write_text("x")
        async with connect(f"{house.url}/roots/workspace/demo") as fs:
            assert (await fs.read_text("a")).text == "x"
            with pytest.raises(errors.Unauthenticated):
                await fs.write_text("a", "y")
    (tmp_path / "more").mkdir()
    async with serving(tmp_path / "more") as house:
        for token in (None, "bwk_wrong"):
            with pytest.raises(errors.Unauthenticated):
                await connect(house.url, token=token).__aenter__()
        with pytest.raises((errors.RootNotFound, errors.MissingAccess)):
            await connect(house.url, token=house.token, root="workspace:other").__aenter__()


# --- closing, blocking code -----------------------------------------------------------------------


async def test_closing_ends_what_is_under_way(tmp_path):
    async with remote(tmp_path) as fs:
        await fs.write_bytes("f", bytes(4 * 2**20))
        chunks, changes = fs.stream("f"), fs.watch()
        await anext(chunks)
        waiting = asyncio.ensure_future(anext(changes))
        await until(lambda: fs.house.app.streams)
        await fs.aclose()
        await fs.aclose()
        for call in (waiting, drain(chunks), fs.list(), anext(fs.stream("f")), anext(fs.watch())):
            with pytest.raises(errors.Closed):
                await call
        with pytest.raises(errors.Closed):
            await fs.transaction().__aenter__()


async def drain(chunks):
    async for _ in chunks:
        pass


async def test_blocking_code_has_the_same_verbs(tmp_path):
    async with remote(tmp_path) as fs:
        address, token = fs.house.url, fs.house.token
        await asyncio.to_thread(blocking, address, token)
        assert (await fs.read_text("d/t")).text == "t"


def blocking(address, token):
    with connect_sync(address, token=token) as fs:
        assert isinstance(fs, bailiwick.SyncScope)
        fs.write_text("d/a", "x", parents=True)
        assert fs.with_request("mine").read_text("d/a").request_id == "mine"
        assert b"".join(fs.stream("d/a")) == b"x"
        assert fs.write_stream("d/b", (b"y" for _ in range(3))).size == 3
        with fs.transaction() as inside:
            later = inside.write_text("d/t", "t")
        assert later.size == 1
        with fs.lock("d") as lease, pytest.raises(errors.LockHeld):
            fs.write_text("d/a", f"{lease.token}")
        fork = fs.fork("f")
        fork.write_text("d/a", "z")
        assert (fs.read_text("d/a").text, fork.read_text("d/a").text) == ("x", "z")
        cursor = fs.change_cursor()
        fs.remove("d/a")
        changes = fs.watch(since=cursor)
        assert next(changes).kind == "deleted"
        changes.close()
        with contextlib.closing(fs.create_temp()) as temp:
            temp.write_text("x", "1")
        with pytest.raises(errors.PathNotFound):
            fs.read_text("d/a")


async def test_what_is_not_ascii_goes_in_no_header(tmp_path):
    async with lying(answer({})) as liar, connect(liar.url) as fs:
        for name in ("ü", "", "a\nb"):
            with pytest.raises(errors.ParseError):
                fs.with_request(name)
