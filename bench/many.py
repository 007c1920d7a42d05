"""Many different files, each touched once: what agents do, and what one hot file flatters.

2,000 files of 1 KiB in 20 directories are created, read, looked at and written over, each time in
another order; of 500 files of 5 KB one word each is edited. Every hand has a tree of its own. What
else there is to do is done awaited and blocking.
"""

import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from time import process_time_ns
from typing import Any

from bench.hands import (
    AWAITED,
    BLOCKING,
    FSSPEC,
    GOVERNED,
    GOVERNED_HISTORY,
    PLAIN,
    REFERENCE,
    VOLUME,
    DurableGovernedHand,
    DurableHand,
    DurableHistoryHand,
    Hand,
    VolumeHand,
)
from bench.peers.plain import DURABLE, replace_durably
from bench.scratch import SMALL, Sizes
from bench.timing import Bar, Case, Contender

DIRECTORIES = 20
ROUNDS, AT_ONCE = 95, 20
"""Of each turn one call is not timed: 95 turns of 21 calls go once through 2,000 files."""

DURABLE_AT_ONCE = 3

TEXT = "".join(f"line {n:04}: nothing to see here\n" for n in range(80))
EDITED = (TEXT + "alpha\n" + TEXT).encode()
"""Five kilobytes with one word to edit in the middle."""

NEW = [f"new/{n:02}" for n in range(DIRECTORIES)]

BLOCKING_MAX = 1.3
"""Of the same verb awaited."""


def small_files(sizes: Sizes) -> list[str]:
    return [f"small/{n % DIRECTORIES:02}/{n:04}.txt" for n in range(sizes.touched)]


def edited_files(sizes: Sizes) -> list[str]:
    return [f"edit/{n % DIRECTORIES:02}/{n:04}.txt" for n in range(sizes.edited)]


DURABLE_HANDS: tuple[tuple[type[Hand], float], ...] = (
    (DurableHand, 1.3), (DurableGovernedHand, 1.6), (DurableHistoryHand, 2.5), (VolumeHand, 0.7),
)  # fmt: skip
"""Those whose writes are on a disk when they are acknowledged, with the bar of each."""


async def opened(
    kinds: Iterable[type[Hand]], place: Path, state: Path, stack: AsyncExitStack, sizes: Sizes
) -> list[Hand]:
    """Those of the hands that could be opened, with their files."""
    return [hand for kind in kinds if (hand := await _ready(kind, place, state, stack, sizes))]


async def _ready(
    kind: type[Hand], place: Path, state: Path, stack: AsyncExitStack, sizes: Sizes
) -> Hand | None:
    own = f"hand-{kind.__name__}"
    hand = kind(place / own, state / own)
    hand.place.mkdir()
    try:
        await hand.open()
    except ImportError as error:
        if kind.ours:
            raise
        print(f"{kind.name}: not measured ({error})")
        return None
    stack.push_async_callback(hand.close)
    files = dict.fromkeys(small_files(sizes), SMALL) | dict.fromkeys(edited_files(sizes), EDITED)
    await hand.fill(files | {f"{directory}/first.txt": SMALL for directory in NEW})
    return hand


def many_cases(hands: list[Hand], durable: list[Hand], disk: Path, sizes: Sizes) -> Iterator[Case]:
    small, edited, several = small_files(sizes), edited_files(sizes), f"{sizes.touched:,}"
    yield _case(
        "many-read", f"Read {several} different files, each once", hands,
        _reading, _shuffled(small, 1),
        [Bar(AWAITED, PLAIN, 2.5), Bar(AWAITED, FSSPEC, 1), Bar(BLOCKING, AWAITED, BLOCKING_MAX),
         Bar(VOLUME, REFERENCE, 1.5)],
    )  # fmt: skip
    yield _case(
        "many-create", f"Create {several} files, each once, without fsync", hands,
        _creating, NEW, [Bar(AWAITED, PLAIN, 5), *_WRITING, Bar(VOLUME, REFERENCE, 2)],
    )  # fmt: skip
    yield _case(
        "many-overwrite", f"Write over {several} different files, each once, without fsync", hands,
        _overwriting, _shuffled(small, 3), [Bar(AWAITED, PLAIN, 4.5), *_WRITING],
    )  # fmt: skip
    yield _case(
        "many-edit", "Edit a word in different files of 5 KB",
        [hand for hand in hands if hand.edits], _editing, _shuffled(edited, 4),
        [Bar(AWAITED, PLAIN, 6), Bar(BLOCKING, AWAITED, BLOCKING_MAX), Bar(VOLUME, PLAIN, 8)],
        at_once=4,
    )  # fmt: skip
    yield _case(
        "many-stat", f"Stat {several} different files, each once", hands,
        _looking, _shuffled(small, 5),
        [Bar(AWAITED, PLAIN, 6), Bar(BLOCKING, AWAITED, BLOCKING_MAX)],
    )  # fmt: skip
    yield from _blocking_cases([hand for hand in hands if hand.name in (AWAITED, BLOCKING)], small)
    by_hand = Contender(DURABLE, _each(disk, replace_durably(SMALL), small))
    contenders = [_contender(hand, _overwriting, _shuffled(small, 6)) for hand in durable]
    yield Case(
        "many-durable",
        "Write over different files, durably, on a disk",
        [by_hand, *contenders],
        [Bar(kind.name, DURABLE, at_most) for kind, at_most in DURABLE_HANDS],
        rounds=ROUNDS,
        block_calls=DURABLE_AT_ONCE,
        note="Whoever is governed or keeps a history has its database on the disk too.",
    )


def _blocking_cases(hands: list[Hand], small: list[str]) -> Iterator[Case]:
    """The verbs that are not measured beside others, blocking and awaited."""
    directories = [f"small/{n:02}" for n in range(DIRECTORIES)]
    for verb, what, calls, paths, at_once in (
        ("window", "Read some lines", _windows, _shuffled(small, 7), AT_ONCE),
        ("list", "List a directory", _listing, directories, 4),
        ("glob", "Find files by a pattern", _globbing, directories, 2),
        ("grep", "Search all files for a word that is nowhere", _searching, directories, 1),
        ("move", "Move a file", _moving, _shuffled(small, 8), AT_ONCE),
        ("remove", "Create and remove a file", _removing, NEW, AT_ONCE),
    ):
        bars = [Bar(BLOCKING, AWAITED, BLOCKING_MAX)]
        yield _case(
            f"many-{verb}-blocking", f"{what}, blocking", hands, calls, paths, bars, at_once=at_once
        )


_WRITING = [
    Bar(BLOCKING, AWAITED, BLOCKING_MAX),
    Bar(GOVERNED, AWAITED, 3),
    Bar(GOVERNED_HISTORY, AWAITED, 8),
]

Calls = Callable[[Hand, list[str]], Callable[[], Any]]


def _case(
    key: str, title: str, hands: list[Hand], calls: Calls, paths: list[str], bars: list[Bar],
    at_once: int = AT_ONCE,
) -> Case:  # fmt: skip
    contenders = [_contender(hand, calls, paths) for hand in hands]
    return Case(
        key, title, contenders, bars, rounds=ROUNDS, block_calls=at_once, clock=process_time_ns,
        note="By the time of the processor, in all threads.",
    )  # fmt: skip


def _contender(hand: Hand, calls: Calls, paths: list[str]) -> Contender:
    return Contender(hand.name, calls(hand, paths), awaits=hand.awaits, ours=hand.ours)


def _shuffled(paths: list[str], seed: int) -> list[str]:
    return random.Random(seed).sample(paths, len(paths))


def _reading(hand: Hand, paths: list[str]) -> Callable[[], Any]:
    path = itertools.cycle(paths)
    return lambda: hand.read(next(path))


def _windows(hand: Hand, paths: list[str]) -> Callable[[], Any]:
    path = itertools.cycle(paths)
    return lambda: hand.window(next(path), 5, 10)


def _created(directories: list[str], name: str) -> Iterator[str]:
    return (f"{directories[n % len(directories)]}/{name}{n:05}.txt" for n in itertools.count())


def _creating(hand: Hand, directories: list[str]) -> Callable[[], Any]:
    path = _created(directories, "")
    return lambda: hand.write(next(path), SMALL)


def _removing(hand: Hand, directories: list[str]) -> Callable[[], Any]:
    path = _created(directories, "brief-")

    def remove() -> None:
        brief = next(path)
        hand.write(brief, SMALL)
        hand.remove(brief)

    async def remove_awaited() -> None:
        brief = next(path)
        await hand.write(brief, SMALL)
        await hand.remove(brief)

    return remove_awaited if hand.awaits else remove


def _overwriting(hand: Hand, paths: list[str]) -> Callable[[], Any]:
    path = itertools.cycle(paths)
    return lambda: hand.write(next(path), SMALL)


def _looking(hand: Hand, paths: list[str]) -> Callable[[], Any]:
    path = itertools.cycle(paths)
    return lambda: hand.stat(next(path))


def _listing(hand: Hand, directories: list[str]) -> Callable[[], Any]:
    path = itertools.cycle(directories)
    return lambda: hand.list(next(path))


def _globbing(hand: Hand, directories: list[str]) -> Callable[[], Any]:
    path = itertools.cycle(directories)
    return lambda: hand.glob(f"{next(path)}/*.txt")


def _searching(hand: Hand, _: list[str]) -> Callable[[], Any]:
    return lambda: hand.grep("a word that is nowhere")


def _moving(hand: Hand, paths: list[str]) -> Callable[[], Any]:
    """Each file there, and at once back: whoever comes next finds it where it was."""
    ways = itertools.cycle(
        [way for path in paths for way in ((path, f"{path}.moved"), (f"{path}.moved", path))]
    )
    return lambda: hand.move(*next(ways))


def _editing(hand: Hand, paths: list[str]) -> Callable[[], Any]:
    """Each file there, and the next time round back."""
    path = itertools.cycle(paths)
    words = itertools.cycle([("alpha", "omega")] * len(paths) + [("omega", "alpha")] * len(paths))
    return lambda: hand.edit(next(path), *next(words))


def _each(disk: Path, write: Callable[[str], None], small: list[str]) -> Callable[[], None]:
    place = disk / "by-hand"
    for path in small:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(SMALL)
    # Like everybody else's: to replace what never reached the disk has no blocks to give back.
    os.sync()
    paths = itertools.cycle(_shuffled(small, 6))
    return lambda: write(f"{place}/{next(paths)}")
