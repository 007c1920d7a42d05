"""`extract_archive`: all or nothing, under the policy of every path, into every store."""

import asyncio
import contextlib
import os
import stat
import tarfile

import pytest

import bailiwick
from bailiwick.errors import (
    ApprovalDenied,
    Busy,
    FileAlreadyExists,
    FileTooLarge,
    HashMismatch,
    IsADirectory,
    MissingAccess,
    NotADirectory,
    ParseError,
    PathNotFound,
    PathOutsideWorkspace,
    PolicyDenied,
    QuotaExceeded,
    SymlinkEscape,
)
from bailiwick.limits import Limits
from bailiwick.model import MiB
from bailiwick.operations import ALL_ACCESS
from tests.archives.support import ALL_FORMATS, directory, file, link, member, pack, tar_of
from tests.scope.archives import SMALL, Meter, litter, unchanged
from tests.scope.support import (
    Rules,
    ask,
    deny,
    granted,
    hide,
    place_of,
    plant,
    records,
    snapshot,
    unruled,
)
from tests.waiting import let_pass

pytestmark = pytest.mark.spec("ARCH-1")


# --- unpacking --------------------------------------------------------------------------------


@pytest.mark.parametrize("known", ALL_FORMATS)
async def test_into_a_new_directory(opening, known):
    async with opening() as fs:
        entries = [
            directory("d", 0o750), file("d/a", b"one" * 100_000, 0o640), link("l", "d/a"),
            file("deep/er/x", b""),
        ]  # fmt: skip
        await fs.write_bytes("archive", pack(known, entries))
        result = await fs.extract_archive("archive", "out")
        assert (result.path, result.destination) == ("archive", "out")
        assert (result.files, result.directories, result.links) == (2, 3, 1)
        assert (result.bytes, result.skipped) == (300_000, [])
        assert result.request_id
        tree = await snapshot(fs)
        del tree["archive"]
        assert tree == {
            "out": None, "out/d": None, "out/d/a": b"one" * 100_000, "out/l": "-> d/a",
            "out/deep": None, "out/deep/er": None, "out/deep/er/x": b"",
        }  # fmt: skip
        assert (await fs.stat("out/d/a")).mode == 0o640
        assert (await fs.stat("out/d")).mode == 0o750
        assert (await fs.stat("out/deep")).mode == 0o700
        for path in ("out/d/a", "out/d"):
            assert (await fs.stat(path)).mtime_ns == 10**18
        assert litter(fs) == []


async def test_the_archived_directory_itself_is_skipped(opening):
    async with opening() as fs:
        data = tar_of(member("./", type=tarfile.DIRTYPE), member("./a", b"x"))
        await fs.write_bytes("a.tar", data)
        assert (await fs.extract_archive("a.tar", "out")).skipped in (["./"], ["."])
        assert (await fs.read_bytes("out/a")).data == b"x"


async def test_a_hard_link_becomes_a_file_of_its_own(opening):
    async with opening(hardlinks="reject") if opening.on_disk else opening() as fs:
        data = tar_of(
            member("a", b"shared", mode=0o600), member("h", type=tarfile.LNKTYPE, linkname="a")
        )
        await fs.write_bytes("a.tar", data)
        result = await fs.extract_archive("a.tar", "out")
        assert (result.files, result.bytes) == (2, 12)
        await fs.write_bytes("out/h", b"changed")
        assert (await fs.read_bytes("out/a")).data == b"shared"


async def test_privileged_bits_are_stripped(opening):
    async with opening() as fs:
        data = tar_of(
            member("a", b"x", mode=0o6755), member("d", type=tarfile.DIRTYPE, mode=0o1777)
        )
        await fs.write_bytes("a.tar", data)
        await fs.extract_archive("a.tar", "out")
        assert (await fs.stat("out/a")).mode == 0o755
        assert (await fs.stat("out/d")).mode == 0o777
        if opening.on_disk:
            for name in ("a", "d"):
                mode = os.stat(f"{place_of(fs)}/out/{name}").st_mode
                assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX)


async def test_into_an_existing_directory(opening):
    async with opening() as fs:
        await plant(fs, {"out/d/other": "kept", "out/c": "kept"})
        await fs.set_mode("out/d", 0o711)
        await fs.write_bytes("a.tar", SMALL)
        await fs.extract_archive("a.tar", "out")
        tree = await snapshot(fs)
        assert tree["out/d/a"] == b"one"
        assert tree["out/b"] == b"two"
        assert tree["out/c"] == tree["out/d/other"] == b"kept"
        assert (await fs.stat("out/d")).mode == 0o711
        assert litter(fs) == []


async def test_into_the_root_itself(opening):
    async with opening() as fs:
        await fs.write_bytes("a.tar", SMALL)
        await fs.extract_archive("a.tar", ".")
        assert set(await snapshot(fs)) == {"a.tar", "b", "d", "d/a"}
        assert litter(fs) == []


async def test_taken_names_are_refused_before_anything_is_made(opening):
    async with opening() as fs:
        await plant(fs, {"out/b": "mine"})
        await fs.write_bytes("a.tar", SMALL)
        async with unchanged(fs):
            with pytest.raises(FileAlreadyExists) as caught:
                await fs.extract_archive("a.tar", "out")
        assert caught.value.path == "out/b"


async def test_files_replace_files_where_asked(opening):
    async with opening() as fs:
        await plant(fs, {"out/b": "mine", "out/d/z": "kept"})
        await fs.write_bytes("a.tar", SMALL)
        await fs.extract_archive("a.tar", "out", overwrite=True)
        tree = await snapshot(fs)
        assert (tree["out/b"], tree["out/d/a"], tree["out/d/z"]) == (b"two", b"one", b"kept")
        assert (await fs.stat("out/b")).mode == 0o644
        assert litter(fs) == []


@pytest.mark.parametrize(
    ("standing", "error"),
    [
        ({"out/b": None}, IsADirectory),
        ({"out/b": "-> d"}, SymlinkEscape),
        ({"out/d": "a file"}, FileAlreadyExists),
        ({"elsewhere/a": "x", "out/c": "y", "out/d": "-> ../elsewhere"}, SymlinkEscape),
    ],
)
async def test_only_files_replace_files(opening, standing, error):
    async with opening() as fs:
        await plant(fs, {"out": None, **standing})
        await fs.write_bytes("a.tar", SMALL)
        async with unchanged(fs):
            with pytest.raises(error):
                await fs.extract_archive("a.tar", "out", overwrite=True)


async def test_a_link_replaces_nothing(opening):
    async with opening() as fs:
        await plant(fs, {"out/l": "mine"})
        await fs.write_bytes("a.tar", pack("tar", [file("a"), link("l", "a")]))
        async with unchanged(fs):
            with pytest.raises(FileAlreadyExists):
                await fs.extract_archive("a.tar", "out", overwrite=True)


async def test_places_that_will_not_do(opening):
    async with opening() as fs:
        await plant(fs, {"f": "x", "d": None, "l": "-> d", "text": "no archive at all"})
        await fs.write_bytes("a.tar", SMALL)
        async with unchanged(fs):
            for path, destination, error in (
                ("a.tar", "f", NotADirectory),
                ("a.tar", "l", SymlinkEscape),
                ("a.tar", "missing/out", PathNotFound),
                ("missing", "out", PathNotFound),
                ("d", "out", IsADirectory),
                ("text", "out", ParseError),
                ("a.tar", "../out", PathOutsideWorkspace),
                ("../a.tar", "out", PathOutsideWorkspace),
            ):
                with pytest.raises(error):
                    await fs.extract_archive(path, destination)


async def test_arguments(opening):
    async with opening() as fs:
        await fs.write_bytes("a.tar", SMALL)
        async with unchanged(fs):
            for options in ({"overwrite": "yes"}, {"limits": 5}):
                with pytest.raises(ParseError):
                    await fs.extract_archive("a.tar", "out", **options)


async def test_links_in_a_root_that_follows_none(opening):
    async with opening(symlinks="reject") as fs:
        await fs.write_bytes("a.tar", pack("tar", [file("a"), link("l", "a")]))
        async with unchanged(fs):
            with pytest.raises(SymlinkEscape):
                await fs.extract_archive("a.tar", "out")


async def test_limits_only_narrow(opening):
    async with opening(limits=Limits(archive_entries_max=3)) as fs:
        await fs.write_bytes("a.tar", SMALL)
        await fs.extract_archive("a.tar", "one", limits=Limits())
        async with unchanged(fs):
            for limits in (
                Limits(archive_entries_max=2), Limits(archive_bytes_max=5),
                Limits(max_file_bytes=2),
            ):  # fmt: skip
                with pytest.raises(FileTooLarge):
                    await fs.extract_archive("a.tar", "out", limits=limits)
        await fs.write_bytes("b.tar", pack("tar", [file(f"f{number}") for number in range(4)]))
        async with unchanged(fs):
            with pytest.raises(FileTooLarge):
                await fs.extract_archive("b.tar", "out", limits=Limits(archive_entries_max=9))


async def test_portable_names_meet_those_that_stand_there(opening):
    async with opening(names="portable") as fs:
        await plant(fs, {"out/B": "mine"})
        await fs.write_bytes("a.tar", SMALL)
        async with unchanged(fs):
            with pytest.raises(FileAlreadyExists, match="case"):
                await fs.extract_archive("a.tar", "out")


async def test_a_path_that_becomes_too_long(opening):
    async with opening() as fs:
        deep = "/".join(["d" * 200] * 18)
        await fs.make_dir(deep, parents=True)
        await fs.write_bytes("a.tar", pack("tar", [file("/".join(["e" * 200] * 4))]))
        async with unchanged(fs):
            with pytest.raises(ParseError, match="too long"):
                await fs.extract_archive("a.tar", f"{deep}/out")


async def test_an_archive_that_changes_between_the_two_looks(opening, monkeypatch):
    from bailiwick.verbs.archives import extract

    async with opening() as fs:
        await fs.write_bytes("a.tar", SMALL)
        real = extract._Plan.check

        async def check_and_change(plan):
            await real(plan)
            if opening.on_disk:
                with open(f"{place_of(fs)}/a.tar", "r+b") as archive:
                    archive.seek(0, os.SEEK_END)
                    archive.write(b"more")

        monkeypatch.setattr(extract._Plan, "check", check_and_change)
        if not opening.on_disk:
            await fs.extract_archive("a.tar", "out")  # a file in memory never changes
            return
        with pytest.raises((HashMismatch, Busy)):
            await fs.extract_archive("a.tar", "out")
        assert set(await snapshot(fs)) == {"a.tar"}
        assert litter(fs) == []


async def test_what_takes_the_name_of_the_archive_is_not_unpacked(opening, monkeypatch):
    from bailiwick.verbs.archives import extract

    async with opening() as fs:
        await fs.write_bytes("a.tar", SMALL)
        real = extract._Plan.check

        async def check_and_replace(plan):
            await real(plan)
            await fs.write_bytes("a.tar", pack("tar", [file("evil")]))

        monkeypatch.setattr(extract._Plan, "check", check_and_replace)
        with contextlib.suppress(HashMismatch):
            await fs.extract_archive("a.tar", "out")
        assert not await fs.exists("out/evil")
        assert litter(fs) == []


async def test_an_archive_may_replace_itself(opening):
    async with opening() as fs:
        await fs.write_bytes("a.tar", pack("tar", [file("a.tar", b"new"), file("b")]))
        await fs.extract_archive("a.tar", ".", overwrite=True)
        assert (await fs.read_bytes("a.tar")).data == b"new"


# --- cancelling and failing -------------------------------------------------------------------


@pytest.mark.slow
async def test_cancelled_at_any_time(opening):
    """Cancelled means that nothing came of it; what came of it was not cancelled."""
    async with opening() as fs:
        content = os.urandom(700_000)
        await fs.write_bytes("a.tar.gz", pack("tar.gz", [file(f"f{n}", content) for n in range(3)]))
        await plant(fs, {"into/f1": "old"})
        before = await snapshot(fs)
        ended = set()

        async def attempt(destination, done):
            await fs.extract_archive("a.tar.gz", destination, overwrite=True)
            done.append(True)

        for turns in (*range(0, 120, 3), 2_000):
            for destination in ("out", "into"):
                done = []
                task = asyncio.ensure_future(attempt(destination, done))
                for _ in range(turns):
                    await asyncio.sleep(0)
                    if turns % 2:
                        await let_pass(0.0005)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                if not done:
                    ended.add("cancelled")
                    assert await snapshot(fs) == before
                else:
                    ended.add("done")
                    await fs.remove(destination, recursive=True)
                    await plant(fs, {"into/f1": "old"})
                assert litter(fs) == []
        assert ended == {"cancelled", "done"}


async def test_quotas_are_charged_once_for_all(opening):
    async with opening() as fs:
        await plant(fs, {"out/b": "12345"})
        await fs.write_bytes("a.tar", SMALL)
        fs._pipeline.meter = meter = Meter()
        fs._pipeline.meters = True
        await fs.extract_archive("a.tar", "new")
        assert (meter.bytes, meter.files) == (6, 2)
        await fs.extract_archive("a.tar", "out", overwrite=True)
        assert (meter.bytes, meter.files) == (6 + 6 - 5, 3)
        made = await fs.create_archive("new", "b.tar")
        assert (meter.bytes, meter.files) == (7 + made.size, 4)


async def test_a_quota_that_is_passed_leaves_nothing(opening):
    async with opening() as fs:
        await fs.write_bytes("a.tar", SMALL)
        for meter in (Meter(bytes_max=5), Meter(files_max=1)):
            fs._pipeline.meter = meter
            fs._pipeline.meters = True
            async with unchanged(fs):
                with pytest.raises(QuotaExceeded):
                    await fs.extract_archive("a.tar", "out")
            assert (meter.bytes, meter.files) == (0, 0)
        fs._pipeline.meter = meter = Meter(bytes_max=100)
        fs._pipeline.meters = True
        async with unchanged(fs):
            with pytest.raises(QuotaExceeded):
                await fs.create_archive("a.tar", "b.tar")
        assert (meter.bytes, meter.files) == (0, 0)


# --- policy -----------------------------------------------------------------------------------


async def test_every_path_is_shown_to_the_policy(opening):
    rules = Rules()
    async with opening(policy=rules) as fs:
        await fs.write_bytes("a.tar", SMALL)
        rules.seen.clear()
        await fs.extract_archive("a.tar", "out")
        written = {context.path for context in rules.seen if "write" in context.access}
        assert written >= {"out", "out/d", "out/d/a", "out/b"}
        read = {context.path for context in rules.seen if "read" in context.access}
        assert "a.tar" in read


@pytest.mark.parametrize("protected", ["out", "out/d", "out/d/a", "out/b"])
@pytest.mark.parametrize("rule", [deny, hide])
async def test_one_protected_path_refuses_the_whole(opening, rule, protected):
    async with opening(policy=Rules(rule(protected))) as fs:
        await unruled(fs).write_bytes("a.tar", SMALL)
        async with unchanged(fs):
            with pytest.raises(PolicyDenied) as caught:
                await fs.extract_archive("a.tar", "out")
        assert caught.value.path == protected


async def test_an_archive_that_may_not_be_read_is_not_unpacked(opening):
    for rule, error in (
        (deny("a.tar", access={"read"}), PolicyDenied),
        (hide("a.tar"), PathNotFound),
    ):
        async with opening(policy=Rules(rule)) as fs:
            await unruled(fs).write_bytes("a.tar", SMALL)
            async with unchanged(fs):
                with pytest.raises(error):
                    await fs.extract_archive("a.tar", "out")


async def test_what_is_to_be_asked_is_asked_before_anything_is_made(opening):
    async with opening(policy=Rules(ask("out/d/a"))) as fs:
        await fs.write_bytes("a.tar", SMALL)
        async with unchanged(fs):
            with pytest.raises(ApprovalDenied) as caught:
                await fs.extract_archive("a.tar", "out")
        assert caught.value.path == "out/d/a"
    async with opening(policy=Rules(ask("out/d/a", default="allow"))) as fs:
        await fs.write_bytes("a.tar", SMALL)
        await fs.extract_archive("a.tar", "out")
        assert (await fs.read_bytes("out/d/a")).data == b"one"


async def test_beyond_the_grant(opening):
    async with opening() as whole:
        await plant(whole, {"mine/x": "x", "theirs/y": "y"})
        await whole.write_bytes("mine/a.tar", SMALL)
        fs = granted(whole, path=bailiwick.paths.ScopedPath("mine"))
        await fs.extract_archive("mine/a.tar", "mine/out")
        async with unchanged(whole):
            with pytest.raises(MissingAccess):
                await fs.extract_archive("mine/a.tar", "theirs/out")
            with pytest.raises(MissingAccess):
                await fs.create_archive(["mine/x", "theirs/y"], "mine/b.tar")
            with pytest.raises(MissingAccess):
                await fs.create_archive("mine", "theirs/b.tar")


@pytest.mark.parametrize("access", ["archive", "write"])
async def test_access_to_unpack(opening, access):
    async with opening() as whole:
        await whole.write_bytes("a.tar", SMALL)
        fs = granted(whole, access=ALL_ACCESS - {access})
        async with unchanged(whole):
            with pytest.raises(MissingAccess):
                await fs.extract_archive("a.tar", "out")


@pytest.mark.parametrize("access", ["archive", "read"])
async def test_access_to_pack(opening, access):
    async with opening() as whole:
        await plant(whole, {"a": "x"})
        fs = granted(whole, access=ALL_ACCESS - {access})
        async with unchanged(whole):
            with pytest.raises(MissingAccess):
                await fs.create_archive("a", "a.tar")


async def test_it_is_on_record(opening):
    async with opening() as fs:
        await fs.write_bytes("a.tar", SMALL)
        await fs.extract_archive("a.tar", "out")
        with pytest.raises(FileAlreadyExists):
            await fs.extract_archive("a.tar", "out")
        await fs.create_archive("out", "b.zip")
        done, refused, packed = records(fs)[-3:]
        assert (done.verb, done.path, done.destination) == ("extract_archive", "a.tar", "out")
        assert (done.outcome, done.bytes) == ("success", 6)
        assert (refused.outcome, refused.error_kind) == ("failed", "file_already_exists")
        assert (packed.verb, packed.path, packed.destination) == ("create_archive", "out", "b.zip")
        assert packed.sha256_after == (await fs.read_bytes("b.zip")).sha256


@pytest.mark.slow
async def test_memory_is_bounded(disk):
    """What is held at any time does not grow with the archive."""
    import tracemalloc

    async with disk(limits=Limits(archive_ratio_max=10**6)) as fs:
        os.makedirs(f"{place_of(fs)}/tree")
        for number in range(4):
            with open(f"{place_of(fs)}/tree/{number}", "wb") as made:
                made.truncate(24 * MiB)
        tracemalloc.start()
        try:
            for known in ("tar", "tar.gz", "zip"):
                await fs.create_archive("tree", f"x.{known}")
                await fs.extract_archive(f"x.{known}", f"out-{known}")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 12 * MiB
        assert (await fs.stat("out-zip/tree/3")).size == 24 * MiB
