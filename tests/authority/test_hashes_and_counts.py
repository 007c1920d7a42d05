"""Hashes, quotas, streams and links tell and let through no more than the rules do."""

import asyncio
import hashlib
import string

import pytest

import bailiwick
from bailiwick.paths import ScopedPath
from bailiwick.store import WritePlan
from tests.authority.support import (
    AGENT,
    EVERYTHING,
    ME,
    Person,
    everything_said,
    governed,
    refusal,
    rule,
)
from tests.authority.test_quotas import bounded

pytestmark = pytest.mark.slow

SECRET = b"TOKEN=marmalade"
STORES = pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
HASH = hashlib.sha256(SECRET).hexdigest()


# --- hashes ---------------------------------------------------------------------------------------


def recovered(hashes):
    """What was in a file, from the hashes of its beginnings, shortest first."""
    known = b""
    for expected in hashes:
        for letter in string.printable.encode():
            guess = known + bytes([letter])
            if hashlib.sha256(guess).hexdigest() == expected:
                known = guess
                break
    return known


@pytest.mark.spec("POL-2", "POL-3")
@pytest.mark.parametrize("access", [("read", "write"), ("write",)])
@STORES
async def test_a_file_that_may_not_be_read_cannot_be_read_off_its_hashes(tmp_path, access, on_disk):
    async with governed(tmp_path, on_disk=on_disk) as house:
        await house.plant({".env": SECRET, "plain": SECRET})
        fs = await house.scope(access)
        for path in (".env", "plain"):
            may_read = path == "plain" and "read" in access
            hashes = []
            for size in range(len(SECRET), 0, -1):
                if path == ".env":
                    assert (await refusal(fs.truncate(path, size))).kind == "approval_denied"
                else:
                    hashes.append((await fs.truncate(path, size)).sha256)
            assert (recovered(reversed(hashes)) == SECRET) == may_read
        assert (await house.tree())[".env"] == SECRET


@pytest.mark.spec("POL-2", "POL-3")
@pytest.mark.parametrize("access", [("read", "write"), ("write",)])
@STORES
async def test_a_wrong_expectation_tells_no_hash_of_what_may_not_be_read(tmp_path, access, on_disk):
    wrong = {"expected_sha256": "0" * 64}
    async with governed(tmp_path, on_disk=on_disk) as house:
        await house.plant({".env": SECRET, "plain": SECRET, "d/f": b"x"})
        fs = await house.scope((*access, "archive"))
        for path in (".env", "plain"):
            told = path == "plain" and "read" in access
            for work in (
                fs.write_bytes(path, b"x", mode="replace", **wrong),
                fs.write_text(path, "x", **wrong),
                fs.write_json(path, 1, **wrong),
                fs.write_stream(path, [b"x"], **wrong),
                fs.append(path, b"x", **wrong),
            ):
                error = await refusal(work)
                if error.kind == "hash_mismatch":
                    assert error.details["current_version"]
                    assert ("current_sha256" in error.details) == told
                else:
                    assert (path, error.kind) == (".env", "approval_denied")
                assert (HASH in everything_said(error)) == told


@pytest.mark.spec("POL-2", "WRITE-3")
async def test_a_hash_is_told_to_who_may_read_or_gave_it_all(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant({"f": b"one"})
        whole, writes = await house.scope(), await house.scope(["write"])
        assert (await whole.append("f", b"two")).sha256 == hashlib.sha256(b"onetwo").hexdigest()
        assert (await writes.append("f", b"x")).sha256 is None
        assert (await writes.truncate("f", 1)).sha256 is None
        written = await writes.write_bytes("f", b"mine")
        assert written.sha256 == hashlib.sha256(b"mine").hexdigest()
        last = [each for each in await house.operations() if each.verb == "truncate"][-1]
        assert last.sha256_after == hashlib.sha256(b"o").hexdigest()  # the ledger knows it
        assert {each.operation for each in await house.operations()} == {"write"}


@pytest.mark.spec("POL-2")
async def test_a_person_who_lets_something_be_added_does_not_let_it_be_read(tmp_path):
    person = Person("once")
    async with governed(tmp_path) as house:
        await house.plant({".env": SECRET})
        fs = await house.scope(asker=person)
        assert (await fs.append(".env", b"x")).sha256 is None
        assert (await house.tree())[".env"] == SECRET + b"x"
        [question] = person.questions
        assert set(question.access) == {"read", "write"}


@pytest.mark.spec("POL-2")
async def test_a_rule_that_lets_write_does_not_let_hashes_out(tmp_path):
    rules = """
[[rule]]
id = "may-add"
effect = "allow"
operation = ["write"]
access = ["read", "write"]
path = [".env"]
"""
    async with governed(tmp_path, rules) as house:
        await house.plant({".env": SECRET})
        fs = await house.scope()
        assert (await fs.append(".env", b"")).sha256 is None
        assert (await refusal(fs.read_bytes(".env"))).kind == "approval_denied"


# --- quotas ---------------------------------------------------------------------------------------


async def _chunks(*chunks):
    for chunk in chunks:
        yield chunk


def _changes(fs, number):
    """Everything that can happen to the files of one place at once."""
    return (
        fs.truncate("d/f", number % 7),
        fs.write_bytes("d/f", b"w" * (number % 30), parents=True),
        fs.append("d/f", b"a" * 3, parents=True),
        fs.write_stream("d/f", _chunks(b"s" * 5, b"s" * (number % 20)), parents=True),
        fs.remove("d/f"),
        fs.remove("d", recursive=True),
        fs.write_bytes(f"n{number % 3}", b"n" * 9),
        fs.move(f"n{number % 3}", "d/f", replace=True),
        fs.copy("d/f", f"c{number}"),
        fs.copy("d", f"t{number}", recursive=True),
        fs.copy_from(fs, "d/f", f"x{number}"),
        fs.edit("d/f", old="w", new="www", replace_all=True),
        fs.remove(f"c{number - 11}"),
        fs.create_archive("d", "a.tar", mode="overwrite"),
        fs.extract_archive("a.tar", ".", overwrite=True),
    )


@pytest.mark.spec("AUTH-8", "WRITE-6")
@pytest.mark.parametrize("seed", range(4))
@STORES
async def test_whatever_happens_at_once_is_counted_exactly(tmp_path, on_disk, seed):
    """On the root and on the grant: what is counted at the end is what there is."""

    async def use(house):
        fs = house.fs
        for round in range(4):
            works = []
            for number in range(20):
                ways = _changes(fs, number + 20 * round)
                chosen = (number * 7 + seed * 5 + round) % len(ways)
                for place, work in enumerate(ways):
                    if place == chosen:
                        works.append(work)
                    else:
                        work.close()
            errors = await asyncio.gather(*(refusal(work) for work in works))
            unexpected = {getattr(error, "kind", None) for error in errors} - {
                None, "path_not_found", "file_already_exists", "quota_exceeded", "hash_mismatch",
                "directory_not_empty", "edit_not_found", "not_a_directory", "busy", "parse_error",
                "text_not_found", "edit_no_match", "edit_conflict", "io_error",
            }  # fmt: skip
            assert not unexpected, errors
            assert house.counted() == await house.real()
            assert (await house.real())[0] <= 40_000

    await bounded(tmp_path, "root", use, on_disk=on_disk, bytes=40_000, files=40)


@pytest.mark.spec("AUTH-8")
@STORES
@pytest.mark.parametrize("way", ["truncate", "write_bytes", "create", "append", "remove", "move"])
async def test_twenty_at_once_on_one_path_end_exact(tmp_path, on_disk, way):
    async def use(house):
        fs = house.fs
        await fs.write_bytes("keep", b"k" * 900)
        await fs.write_bytes("f", b"x" * 90)
        acts = {
            "truncate": lambda number: fs.truncate("f", 0),
            "write_bytes": lambda number: fs.write_bytes("f", b"y" * 5),
            "create": lambda number: fs.write_bytes("new", b"z" * 5),
            "append": lambda number: fs.append("new", b"z"),
            "remove": lambda number: fs.remove("f"),
            "move": lambda number: fs.move("f", "keep", replace=True),
        }
        errors = await asyncio.gather(*(refusal(acts[way](number)) for number in range(20)))
        done = [error for error in errors if error is None]
        assert len(done) == (1 if way in ("remove", "move") else 20 if way != "append" else 10)
        assert house.counted() == await house.real()
        error = await refusal(fs.write_bytes("g", b"y" * 990))
        assert error is not None or way == "move"
        assert (await house.real())[0] <= 1_000
        assert house.counted() == await house.real()

    await bounded(tmp_path, "root", use, on_disk=on_disk, bytes=1_000)


@pytest.mark.spec("WRITE-6")
@STORES
async def test_a_store_says_how_much_was_replaced(tmp_path, on_disk):
    async with governed(tmp_path, on_disk=on_disk) as house:
        await house.plant({"f": b"12345"})
        store = (await house.scope())._pipeline.store
        digest = hashlib.sha256(b"x").hexdigest()
        old = hashlib.sha256(b"12345").hexdigest()

        async def on(path, act):
            entry = await store.resolve(ScopedPath(path), "entry")
            try:
                return (await act(entry)).size_before
            finally:
                entry.close()

        plain, swap = WritePlan(), WritePlan(mode="replace", expected_sha256=old)
        assert await on("f", lambda entry: store.append(entry, b"", plain)) == 5
        assert await on("f", lambda entry: store.write(entry, b"x", digest, swap)) == 5
        assert await on("f", lambda entry: store.write(entry, b"x", digest, plain)) == 1
        assert await on("f", lambda entry: store.truncate(entry, 9, plain)) == 1
        assert await on("f", lambda entry: store.write_stream(entry, _chunks(b"y"), plain)) == 9
        assert await on("n", lambda entry: store.write(entry, b"x", digest, plain)) is None
        assert await on("m", lambda entry: store.append(entry, b"x", plain)) is None
        assert await on("s", lambda entry: store.write_stream(entry, _chunks(b"y"), plain)) is None


@pytest.mark.spec("AUTH-8")
@STORES
async def test_a_suspended_upload_does_not_use_the_room_of_what_is_gone(tmp_path, on_disk):
    """It counts on the file that it replaces; if that goes, its room is someone else's."""

    async def use(house):
        fs = house.fs
        await fs.write_bytes("f", b"x" * 900)
        taken, held = asyncio.Event(), asyncio.Event()

        async def slow():
            yield b"y" * 900
            taken.set()
            await held.wait()

        upload = asyncio.ensure_future(fs.write_stream("f", slow()))
        await taken.wait()
        await fs.remove("f")
        await fs.write_bytes("g", b"z" * 900)
        held.set()
        assert (await refusal(upload)).kind == "quota_exceeded"
        assert house.counted() == await house.real() == (900, 1)

    await bounded(tmp_path, "root", use, on_disk=on_disk, bytes=1_000)


@pytest.mark.spec("AUTH-8")
async def test_a_copy_of_what_grew_meanwhile_is_counted_as_it_is(tmp_path):
    async def use(house):
        fs = house.fs
        await fs.write_bytes("f", b"")
        await asyncio.gather(
            *(refusal(fs.copy("f", f"c{number}")) for number in range(10)),
            fs.write_bytes("f", b"x" * 50),
            *(refusal(fs.copy_from(fs, "f", f"d{number}")) for number in range(10)),
        )
        assert house.counted() == await house.real()
        assert (await house.real())[0] <= 200

    await bounded(tmp_path, "root", use, on_disk=True, bytes=200)


@pytest.mark.spec("AUTH-8")
async def test_a_root_is_measured_anew_by_each_process_and_by_housekeeping(tmp_path):
    place = tmp_path / "tree"
    place.mkdir()
    options = {
        "on_disk": True, "place": place, "state_dir": tmp_path / "state",
        "options": "quota = {bytes = 1000, files = 50}",
    }  # fmt: skip
    async with governed(tmp_path, **options) as house:
        fs = await house.scope()
        await fs.write_bytes("a", b"1")
        (place / "foreign").write_bytes(b"x" * 5_000)
        await house.authority._services.keep_house()
        assert (await refusal(fs.write_bytes("b", b"1" * 10))).kind == "quota_exceeded"
        (place / "foreign").unlink()
        await house.authority._services.keep_house()
        await fs.write_bytes("b", b"1" * 10)
    (place / "more").write_bytes(b"x" * 985)
    async with governed(tmp_path, **options) as house:
        fs = await house.scope()
        assert (await refusal(fs.write_bytes("c", b"1" * 10))).kind == "quota_exceeded"
        await fs.remove("more")  # the first change may be one that takes away
        await fs.write_bytes("c", b"1" * 989)
        assert (await refusal(fs.append("c", b"1"))).kind == "quota_exceeded"


@pytest.mark.spec("AUTH-8")
@STORES
async def test_what_is_being_written_is_counted_once_when_a_root_is_measured(tmp_path, on_disk):
    async def use(house):
        fs, authority = house.fs, house.house.authority
        started, held = asyncio.Event(), asyncio.Event()

        async def slow():
            yield b"y" * 100
            started.set()
            await held.wait()

        await fs.write_bytes("f", b"x" * 10)
        upload = asyncio.ensure_future(fs.write_stream("g", slow()))
        await started.wait()
        await asyncio.gather(
            authority._services.keep_house(),
            *(fs.write_bytes(f"n{each}", b"n") for each in range(5)),
        )
        assert house.counted() == (115, 7)
        held.set()
        await upload
        assert house.counted() == await house.real() == (115, 7)
        await authority._services.keep_house()
        assert house.counted() == (115, 7)

    await bounded(tmp_path, "root", use, on_disk=on_disk, bytes=1_000)


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.spec("AUDIT-1")
@pytest.mark.parametrize("after", ["nothing", "next", "aclose"])
@STORES
async def test_a_stream_whose_reader_never_comes_back_is_on_record(tmp_path, on_disk, after):
    state = tmp_path / "state"
    content = b"x" * 3_000_000
    async with governed(tmp_path, on_disk=on_disk, state_dir=state) as house:
        await house.plant({"big": content})
        fs = await house.scope()
        never = fs.stream("big")  # not begun: nothing was read
        stream = fs.stream("big")
        read = len(await anext(stream))
    if after == "next":
        with pytest.raises(bailiwick.Closed) as closed:
            await anext(stream)
        assert closed.value.request_id
    elif after == "aclose":
        await stream.aclose()
    await never.aclose()
    async with governed(tmp_path, on_disk=on_disk, state_dir=state) as house:
        [record] = [each for each in await house.operations() if each.verb == "stream"]
        assert (record.outcome, record.error_kind, record.bytes) == ("failed", "closed", read)
        assert record.path == "big"
    await stream.aclose()


@pytest.mark.spec("AUDIT-1")
async def test_every_stream_is_on_record_once(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant({"big": b"x" * 1_000_000})
        fs = await house.scope()
        assert sum([len(chunk) async for chunk in fs.stream("big")]) == 1_000_000
        stopped = fs.stream("big")
        await anext(stopped)
        await stopped.aclose()
        for bad in (fs.stream("nowhere"), fs.stream("big", offset=-1), fs.stream(".")):
            with pytest.raises(bailiwick.BailiwickError):
                await anext(bad)
        records = [each for each in await house.operations() if each.verb == "stream"]
        assert [each.error_kind for each in records] == [
            None, None, "path_not_found", "parse_error", "is_a_directory",
        ]  # fmt: skip
        assert fs._pipeline._streams == {}


@pytest.mark.spec("AUTH-6", "AUDIT-1")
@STORES
async def test_a_revoked_grant_ends_its_streams(tmp_path, on_disk):
    async with governed(tmp_path, on_disk=on_disk) as house:
        await house.plant({"big": b"x" * 3_000_000})
        fs = await house.scope()
        stream = fs.stream("big")
        read = len(await anext(stream))
        await house.authority.revoke(fs.grant.id, by=ME)
        with pytest.raises(bailiwick.GrantRevoked):
            await anext(stream)
        [record] = [each for each in await house.operations() if each.verb == "stream"]
        assert (record.outcome, record.error_kind) == ("denied", "grant_revoked")
        assert record.bytes == read


@pytest.mark.spec("AUTH-8")
async def test_the_chunks_of_a_stream_are_not_operations(tmp_path):
    rates = "quota = {operations_per_minute = 3}"
    async with governed(tmp_path, options=rates) as house:
        await house.plant({"big": b"x" * 3_000_000})
        fs = await house.scope()
        assert sum([len(chunk) async for chunk in fs.stream("big")]) == 3_000_000
        assert await fs.exists("big")


# --- links ----------------------------------------------------------------------------------------

HIDDEN = rule("hide", "payroll")


async def answers(house, fs, there):
    """All that can be got out of a scope by links that lead by ``there``, and by its own name."""
    told = {}
    up = "/".join([".."] * len(there.split("/")))
    for name, text in {
        "probe": f"{there}/{up}/pub", "dirs": f"{there}/{up}", "in": there, "twice": "probe",
        "back": f"real/../{there}/{up}/real",
    }.items():  # fmt: skip
        await (await house.bare()).symlink(name, text)
    for path in ("probe", "dirs", "dirs/pub", "dirs/new", "in", "in/x", "twice", "back/f", there):
        for verb, call in {
            "exists": lambda path=path: fs.exists(path),
            "stat": lambda path=path: fs.stat(path),
            "read": lambda path=path: fs.read_bytes(path),
            "list": lambda path=path: fs.list(path),
            "write": lambda path=path: fs.write_text(path, "x"),
            "create": lambda path=path: fs.write_text(path, "x", mode="create"),
            "parents": lambda path=path: fs.write_text(f"{path}/y/z", "x", parents=True),
            "append": lambda path=path: fs.append(path, "x"),
            "edit": lambda path=path: fs.edit(path, old="x", new="y"),
            "copy": lambda path=path: fs.copy(path, "copied"),
            "extract": lambda path=path: fs.extract_archive(path, "unpacked"),
            "search": lambda path=path: fs.grep("x", path),
        }.items():
            try:
                result = await call()
                told[path, verb] = type(result).__name__ if result is not True else "True"
            except bailiwick.BailiwickError as error:
                details = {k: v for k, v in error.details.items() if k != "current_version"}
                told[path, verb] = (error.kind, error.message, error.path, error.hint, details)
        bare = await house.bare()
        for made in ("copied", "new", "unpacked"):
            await bare.remove(made, recursive=True, missing_ok=True)
    return told


@pytest.mark.spec("POL-1")
@STORES
async def test_links_do_not_tell_whether_a_hidden_path_exists(tmp_path, on_disk):
    worlds = {
        "nothing": {"pub": "x", "real/f": "x"},
        "a file": {"pub": "x", "real/f": "x", "payroll": "x"},
        "a directory": {"pub": "x", "real/f": "x", "payroll/2024/f": "x"},
        "a link": {"pub": "x", "real/f": "x", "payroll": "-> real"},
    }
    for there in ("payroll", "payroll/2024"):
        told = {}
        for name, tree in worlds.items():
            async with governed(tmp_path, HIDDEN, on_disk=on_disk) as house:
                await house.plant(tree)
                told[name] = await answers(house, await house.scope(), there)
        for name in worlds:
            assert told[name] == told["nothing"], (name, there)
        assert told["nothing"]["probe", "exists"] == "bool"


@pytest.mark.spec("AUTH-4")
@STORES
async def test_links_do_not_tell_what_lies_beyond_the_grant(tmp_path, on_disk):
    told = []
    for tree in ({}, {"other/private/f": "x"}, {"other": "-> src"}):
        async with governed(tmp_path, on_disk=on_disk) as house:
            await house.plant({"src/f": "x", **tree})
            fs = await house.scope(path="src")
            await fs.symlink("src/probe", "../other/private/../../src/f")
            await fs.symlink("src/inside", "f")
            found = []
            for path in ("src/probe", "src/inside", "src/probe/x"):
                for work in (fs.exists(path), fs.read_text(path), fs.write_text(path, "x")):
                    error = await refusal(work)
                    found.append(error and (error.kind, error.message, error.path, error.hint))
            told.append(found)
    assert told[0] == told[1] == told[2]
    assert told[0][0][0] == "missing_access"
    assert told[0][3] is None  # a link within the grant is followed as ever


@pytest.mark.spec("POL-1", "AUTH-4")
async def test_what_is_hidden_and_what_is_beyond_the_grant_look_alike_on_one_way(tmp_path):
    told = []
    for tree in ({}, {"src/payroll/f": "x", "other/f": "x"}, {"other/f": "x"}):
        async with governed(tmp_path, rule("hide", "src/payroll")) as house:
            await house.plant({"src/f": "x", **tree})
            fs = await house.scope(path="src")
            await fs.symlink("src/probe", "payroll/../../other/f")
            told.append([(await refusal(work)).kind for work in (
                fs.read_text("src/probe"), fs.stat("src/probe"), fs.grep("x", "src/probe"),
            )])  # fmt: skip
    assert told[0] == told[1] == told[2]


@pytest.mark.spec("POL-1", "PATH-6")
async def test_links_that_lead_through_very_many_places_are_refused_alike(tmp_path):
    told = []
    for tree in ({}, {"payroll/f": "x"}):
        async with governed(tmp_path, HIDDEN) as house:
            await house.plant({"pub": "x", **tree})
            fs = await house.scope()
            await fs.symlink("last", "payroll/../pub")
            await fs.symlink("long", "real/../" * 500 + "last")
            await fs.make_dir("real")
            told.append([(await refusal(fs.read_text(path))).kind for path in ("last", "long")])
    assert told[0] == told[1] == ["path_not_found", "path_not_found"]


@pytest.mark.spec("POL-1", "PATH-4")
@pytest.mark.parametrize("hidden", ["Payroll", "PAYroll", "kept/Straße"])
async def test_a_portable_name_does_not_tell_of_its_hidden_twin(tmp_path, hidden):
    told = []
    for tree in ({}, {f"{hidden}/f": "x"}):
        options = {"options": 'names = "portable"'}
        async with governed(tmp_path, rule("hide", hidden), **options) as house:
            await house.plant({"open": "x", "kept": None, **tree})
            fs = await house.scope()
            found = []
            twin = hidden.lower().replace("ß", "ss")
            for work in (
                fs.write_text(twin, "x"),
                fs.make_dir(twin),
                fs.write_text(f"{twin}/new", "x", parents=True),
                fs.copy("open", twin),
                fs.move("open", twin),
                fs.symlink(twin, "open"),
                fs.write_text(hidden, "x"),
            ):
                error = await refusal(work)
                found.append((error.kind, error.decided_by))
            told.append(found)
            await fs.write_text("Open2", "x")
            assert (await refusal(fs.write_text("open2", "x"))).kind == "file_already_exists"
    assert told[0] == told[1]
    assert set(told[0]) == {("policy_denied", "hide")}


@pytest.mark.spec("AUTH-4", "PATH-4")
async def test_a_portable_name_does_not_tell_of_a_twin_beyond_the_grant(tmp_path):
    async with bailiwick.Authority.open() as authority:
        await authority.add_root("workspace:p", "memory:", trusted=True, names="portable")
        await authority.add_grant(
            subject=str(AGENT), root="workspace:p", access=EVERYTHING, denied=["Secret"], by=ME
        )
        mine = await authority.request_root(ME, "workspace:p", EVERYTHING, "to plant")
        await mine.write_text("Secret", "x")
        fs = await authority.request_root(AGENT, "workspace:p", EVERYTHING, "to look")
        error = await refusal(fs.write_text("secret", "x"))
        assert (error.kind, error.decided_by) == ("policy_denied", "grant")
