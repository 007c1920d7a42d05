"""When the ground moves: the root is replaced, the kernel says no, others do the same at once.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import errno
import os
import stat
import threading
from typing import Any

import bailiwick
from bailiwick.errors import BailiwickError
from tests.hostile import inside, kernel
from tests.hostile.corpus import CONTAINMENTS, attempt, count_descriptors
from tests.hostile.layouts import (
    CANARY,
    INSIDE_TEXT,
    Layout,
    empty,
    litter,
    snapshot,
    without_times,
)
from tests.hostile.verbs import VERBS
from tests.waiting import let_pass

O_CLOEXEC = 0o2000000


def new_layout(build=lambda layout: None) -> Layout:
    layout = Layout(f"{inside.arena()}/case", build, ())
    layout.reset()
    return layout


async def kind_of(awaitable: Any) -> str:
    """What came of it: `ok`, or the kind of the error."""
    try:
        await awaitable
    except BailiwickError as error:
        return error.kind
    return "ok"


async def refusal_of(awaitable: Any) -> BailiwickError | None:
    try:
        await awaitable
    except BailiwickError as error:
        return error
    return None


# --- the root --------------------------------------------------------------------------------


async def _root_replaced(containment: str) -> None:
    layout = new_layout()
    moved = f"{layout.place}/moved"
    os.makedirs(moved, exist_ok=True)
    empty(moved)
    os.rmdir(moved)
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        os.rename(layout.root, moved)
        os.mkdir(layout.root)
        for name in ("f", "d"):
            os.symlink("../outside/secret", f"{layout.root}/{name}")
        decoy = snapshot(layout.root)
        for verb in VERBS.values():
            outcome, _ = await attempt(fs, verb, "f")
            assert CANARY not in repr(outcome.value), f"{verb.name} read the decoy"
            assert not outcome.kind.startswith("UNTYPED"), f"{verb.name}: {outcome.kind}"
            assert outcome.kind != "internal_error", f"{verb.name}: internal error"
            assert snapshot(layout.root) == decoy, f"{verb.name} touched what took the root's name"
        assert await kind_of(fs.write_bytes("g", b"new")) in ("ok", "busy", "path_not_found")
        assert snapshot(layout.root) == decoy
        empty(moved)
        os.rmdir(moved)
        for verb in VERBS.values():
            outcome, _ = await attempt(fs, verb, "f")
            assert outcome.kind != "internal_error", f"{verb.name} in a root that is gone"
            assert not outcome.kind.startswith("UNTYPED"), f"{verb.name}: {outcome.kind}"
    empty(layout.root)


def root_replaced(containment: str) -> None:
    asyncio.run(_root_replaced(CONTAINMENTS[containment]))


# --- openat2 denied --------------------------------------------------------------------------


async def _without_openat2(number: int) -> None:
    layout = new_layout(lambda made: made.link("rel", "../outside"))
    kernel.deny_system_call(kernel.SYS_OPENAT2, number)
    async with bailiwick.open(layout.root, durability="rename") as fs:
        assert fs.description["containment"] == "walk", fs.description
        assert (await fs.read_text("d/e/h")).text == INSIDE_TEXT
        await fs.write_text("d/new", "x")
        assert await kind_of(fs.read_bytes("rel/secret")) == "symlink_escape"
        assert await kind_of(fs.write_bytes("rel/new", b"x")) == "symlink_escape"
    required = bailiwick.open(layout.root, containment="require-kernel")
    assert await kind_of(required.__aenter__()) == "unsupported"


def _without_openat2_apart(number: int) -> None:
    asyncio.run(_without_openat2(number))


def openat2_missing(number: int) -> None:
    inside.apart(_without_openat2_apart, number)


async def _denied_later(containment: str) -> None:
    layout = new_layout()
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        assert fs.description["containment"] == "kernel"
        kernel.deny_system_call(kernel.SYS_OPENAT2, errno.EPERM)
        for name in ("read_bytes", "stat", "list"):
            outcome, _ = await attempt(fs, VERBS[name], "d/g")
            assert outcome.kind == "permission_denied", f"{name}: {outcome.kind}"
        assert fs.description["containment"] == "kernel"


def _denied_later_apart(containment: str) -> None:
    asyncio.run(_denied_later(containment))


def openat2_denied_later(containment: str) -> None:
    """An error on a real path never weakens the method."""
    inside.apart(_denied_later_apart, containment)


# --- together --------------------------------------------------------------------------------


async def _parallel_make_dirs(rounds: int) -> None:
    layout = new_layout()
    kernel_option, walk_option = CONTAINMENTS.values()
    async with (
        bailiwick.open(layout.root, containment=kernel_option, durability="rename") as one,
        bailiwick.open(layout.root, containment=walk_option, durability="rename") as two,
    ):
        for number in range(rounds):
            path = f"p{number}/q/r/s"
            calls = [fs.make_dir(path, parents=True) for fs in (one, two) * 4]
            kinds = await asyncio.gather(*(kind_of(call) for call in calls))
            assert set(kinds) == {"ok"}, kinds
            assert os.path.isdir(f"{layout.root}/{path}")


def parallel_make_dirs(rounds: int) -> None:
    asyncio.run(_parallel_make_dirs(rounds))


def _make_dirs_apart(root: str, rounds: int) -> None:
    async def make() -> None:
        async with bailiwick.open(root, durability="rename") as fs:
            for number in range(rounds):
                await fs.make_dir(f"x{number}/y/z", parents=True)

    asyncio.run(make())


def parallel_make_dirs_by_processes(rounds: int) -> None:
    root = new_layout().root
    _together(lambda: inside.apart(_make_dirs_apart, root, rounds), 2)
    assert all(os.path.isdir(f"{root}/x{number}/y/z") for number in range(rounds))


def _together(function: Any, count: int) -> None:
    """Run ``function`` in ``count`` threads; an exception in one is raised here."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


async def _parallel_removes(rounds: int) -> None:
    layout = new_layout()
    options = list(CONTAINMENTS.values())
    async with (
        bailiwick.open(layout.root, containment=options[0], durability="rename") as one,
        bailiwick.open(layout.root, containment=options[1], durability="rename") as two,
    ):
        for _ in range(rounds):
            for directory in range(6):
                for name in range(10):
                    layout.file(f"t/{directory}/{directory}/{name}")
            calls = [fs.remove("t", recursive=True) for fs in (one, two) * 2]
            kinds = await asyncio.gather(*(kind_of(call) for call in calls))
            assert "ok" in kinds, kinds
            assert set(kinds) <= {"ok", "path_not_found"}, kinds
            assert not os.path.exists(f"{layout.root}/t")
            assert not litter(snapshot(layout.root))


def parallel_removes(rounds: int) -> None:
    asyncio.run(_parallel_removes(rounds))


# --- closing ---------------------------------------------------------------------------------


async def _close_while_in_use(containment: str, rounds: int) -> None:
    layout = new_layout()
    big = b"b" * 600_000
    before = count_descriptors()
    for number in range(rounds):
        async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
            calls = [fs.read_bytes("f") for _ in range(10)]
            calls += [fs.write_bytes(f"w{n}", big) for n in range(10)]
            calls += [fs.append("d/g", b"more\n") for _ in range(5)]
            calls += [fs.grep("needle"), fs.find("."), fs.copy("d", f"c{number}", recursive=True)]
            tasks = [asyncio.create_task(kind_of(call)) for call in calls]
            for _ in range(number % 7):
                await asyncio.sleep(0)
            await fs.aclose()
            kinds = set(await asyncio.gather(*tasks))
            assert kinds <= {"ok", "closed"}, kinds
            assert await kind_of(fs.read_bytes("f")) == "closed"
        assert count_descriptors() == before, "descriptors were left open"
        left = litter(snapshot(layout.root))
        assert not left, left


def close_while_in_use(containment: str, rounds: int) -> None:
    asyncio.run(_close_while_in_use(CONTAINMENTS[containment], rounds))


CANCEL_AFTER_S = (None, 0.0, 0.00005, 0.0001, 0.0002, 0.0005, 0.001)
"""None: before the call has run at all."""
CANCELLED = ("write_create", "write_overwrite", "write_stream", "write_below", "append", "edit",
             "truncate", "make_dir_below", "remove_recursive", "move_from", "copy_from",
             "copy_between", "symlink", "set_mode")  # fmt: skip


async def _cancel(fs: bailiwick.Scope, verb: str, path: str, after_s: float | None) -> None:
    task = asyncio.ensure_future(VERBS[verb].through(fs, path))
    if after_s is not None:
        await let_pass(after_s)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, BailiwickError):
        await task


async def _cancelled_anywhere(containment: str) -> list[str]:
    """Afterwards everything is as before, or as if nobody had cancelled; never in between."""
    layout = new_layout()
    faults = []
    subjects = {"write_create": "d/new", "symlink": "d/new", "write_below": "d",
                "make_dir_below": "d", "remove_recursive": "d", "copy_from": "d"}  # fmt: skip
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        for verb in CANCELLED:
            path = subjects.get(verb, "f")
            layout.reset()
            before = without_times(snapshot(layout.root))
            await attempt(fs, VERBS[verb], path)
            after = without_times(snapshot(layout.root))
            for after_s in CANCEL_AFTER_S:
                layout.reset()
                descriptors = count_descriptors()
                await _cancel(fs, verb, path, after_s)
                found = without_times(snapshot(layout.root))
                where = f"{verb} cancelled after {after_s}"
                if found not in (before, after) or (after_s is None and found != before):
                    faults.append(f"{where}: {sorted(set(found.items()) ^ set(before.items()))}")
                if count_descriptors() != descriptors:
                    faults.append(f"{where}: descriptors were left open")
    return faults


def cancelled_anywhere(containment: str) -> None:
    faults = asyncio.run(_cancelled_anywhere(CONTAINMENTS[containment]))
    assert not faults, "\n".join(fault[:300] for fault in faults)


async def _nothing_is_inherited(containment: str) -> None:
    layout = new_layout()
    before = set(inside.open_descriptors())
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        chunks = fs.stream("f")
        await anext(chunks)
        await fs.write_bytes("w", b"x")
        await fs.append("w", b"x")
        found = []
        opened = inside.open_descriptors()
        for number in set(opened) - before:
            lines = inside.read_proc(f"self/fdinfo/{number}").splitlines()
            flags = next(line for line in lines if line.startswith("flags:"))
            if not int(flags.split()[1], 8) & O_CLOEXEC:
                found.append(opened[number])
        await chunks.aclose()
    assert not found, f"a program started now would inherit {found}"


def nothing_is_inherited(containment: str) -> None:
    asyncio.run(_nothing_is_inherited(CONTAINMENTS[containment]))


# --- privileged bits -------------------------------------------------------------------------


def _privileged(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode) & 0o7000


async def _privileged_bits(containment: str) -> list[str]:
    layout = new_layout()
    root = layout.root
    faults = []
    async with bailiwick.open(root, containment=containment, durability="rename") as fs:
        for mode in (0o4755, 0o2755, 0o1777, 0o7777, 0o10000, -1):
            for name, call in (
                ("write", fs.write_bytes("new", b"x", file_mode=mode)),
                ("make_dir", fs.make_dir("newdir", file_mode=mode)),
                ("set_mode", fs.set_mode("f", mode)),
                ("append", fs.append("new", b"x", file_mode=mode)),
            ):
                if (kind := await kind_of(call)) != "parse_error":
                    faults.append(f"{name} with {mode:o}: {kind}")
        changes = {
            "write": lambda: fs.write_bytes("f", b"x"),
            "append": lambda: fs.append("f", b"x"),
            "edit": lambda: fs.edit("f", old="needle", new="noodle"),
            "truncate": lambda: fs.truncate("f", 2),
            "write if": lambda: fs.write_bytes("f", b"y", expected_sha256=sha),
        }
        for name, change in changes.items():
            layout.reset()
            os.chmod(f"{root}/f", 0o6755)
            sha = (await fs.read_bytes("f")).sha256
            await change()
            if _privileged(f"{root}/f"):
                faults.append(f"{name} kept setuid on content that was replaced")
        layout.reset()
        os.chmod(f"{root}/f", 0o6755)
        os.chmod(f"{root}/d", 0o3770)
        await fs.copy("f", "copied")
        await fs.copy_from(fs, "f", "brought")
        await fs.copy("d", "tree", recursive=True)
        await fs.make_dir("d/made/deeper", parents=True)
        made = ("copied", "brought", "tree", "d/made", "d/made/deeper")
        bits = {name: _privileged(f"{root}/{name}") for name in made}
        faults += [f"{name} has {bits[name]:o}" for name in made if bits[name]]
    return faults


def privileged_bits(containment: str) -> None:
    faults = asyncio.run(_privileged_bits(CONTAINMENTS[containment]))
    assert not faults, "\n".join(faults)


# --- planted staging names -------------------------------------------------------------------


async def _planted_staging_names(containment: str) -> list[str]:
    """Names like our own that we did not make are hidden, never followed and never removed."""

    def build(layout: Layout) -> None:
        layout.link(".bailiwick~planted", "../outside/secret")
        layout.link("d/.bailiwick~planted-dir", "../../outside")
        layout.file(".bailiwick~0123456789ab-0123456789abcdef", "a person's file")
        layout.file(".bailiwick~tree/inner")

    layout = new_layout(build)
    before = snapshot(layout.root)
    faults = []
    options = {"containment": containment, "durability": "rename"}
    for _ in range(2):
        async with bailiwick.open(layout.root, **options) as fs:
            seen = [await fs.list("."), await fs.find("."), await fs.glob("**/*"),
                    await fs.files("."), await fs.grep("person")]  # fmt: skip
            if ".bailiwick~" in repr(seen):
                faults.append(f"a staging name is shown: {seen!r:.300}")
        if snapshot(layout.root) != before:
            faults.append("opening the root removed names that no journal accounts for")
    return faults


def planted_staging_names(containment: str) -> None:
    faults = asyncio.run(_planted_staging_names(CONTAINMENTS[containment]))
    assert not faults, "\n".join(faults)


# --- filesystems mounted inside ---------------------------------------------------------------


async def _mounts_inside(containment: str) -> None:
    layout = Layout(f"{inside.arena()}/bind", lambda layout: None, ("sub",))
    layout.reset()
    layout.file("sub/beside")
    os.unlink(f"{layout.root}/sub/m/secret")  # the control: a plain call goes into the mount
    assert not os.path.exists(f"{layout.outside}/secret")
    layout.reset()
    layout.file("sub/beside")
    before = without_times(snapshot(layout.place))
    options = {"containment": containment, "durability": "rename"}
    async with bailiwick.open(layout.root, **options) as fs:
        for attempted in (
            fs.remove("sub", recursive=True),
            fs.remove("sub/m", recursive=True),
            fs.remove("sub/m"),
            fs.move("sub", "away"),
            fs.move("sub/m", "away"),
        ):
            refused = await refusal_of(attempted)
            assert refused is not None, "a mount was taken away, or went along"
            assert (refused.kind, refused.errno) == ("permission_denied", errno.EBUSY), refused
            assert not refused.retryable
            assert without_times(snapshot(layout.place)) == before
        assert (await fs.remove("sub/beside")).changed
    assert litter(snapshot(layout.root)) == []
    layout.reset()


def mounts_inside(containment: str) -> None:
    asyncio.run(_mounts_inside(CONTAINMENTS[containment]))
