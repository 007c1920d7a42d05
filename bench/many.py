"""Many different files, each touched once: what agents do, and what one hot file flatters.

2,000 files of 1 KiB in 20 directories are created, read, looked at and written over, each time in
another order; of 500 files of 5 KB one word each is edited. Every hand has a tree of its own.
"""

import itertools
import pathlib
import random
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from time import process_time_ns
from typing import Any

from bench.hands import (
    AWAITED,
    BLOCKING,
    FSSPEC,
    GOVERNED,
    GOVERNED_HISTORY,
    HANDS,
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
from bench.scratch import SMALL
from bench.timing import Bar, Case, Contender

FILES, DIRECTORIES = 2_000, 20
EDITED_FILES = 500
ROUNDS, AT_ONCE = 95, 20
"""Of each turn one call is not timed: 95 turns of 21 calls go once through 2,000 files."""

DURABLE_AT_ONCE = 3

TEXT = "".join(f"line {n:04}: nothing to see here\n" for n in range(80))
EDITED = (TEXT + "alpha\n" + TEXT).encode()
"""Five kilobytes with one word to edit in the middle."""

READ = [f"small/{n % DIRECTORIES:02}/{n:04}.txt" for n in range(FILES)]
TO_EDIT = [f"edit/{n % DIRECTORIES:02}/{n:04}.txt" for n in range(EDITED_FILES)]
NEW = [f"new/{n:02}" for n in range(DIRECTORIES)]

BLOCKING_MAX = 1.3
"""Of the same verb awaited."""


async def opened(memory: pathlib.Path, state: pathlib.Path, stack: AsyncExitStack) -> list[Hand]:
    """Every hand that could be opened, with its files."""
    return [hand for kind in HANDS if (hand := await _ready(kind, memory, state, stack))]


async def opened_durably(
    disk: pathlib.Path, state: pathlib.Path, stack: AsyncExitStack
) -> list[Hand]:
    """Those whose writes are on a disk when they are acknowledged; their state is there too."""
    kinds = (DurableHand, DurableGovernedHand, DurableHistoryHand, VolumeHand)
    return [hand for kind in kinds if (hand := await _ready(kind, disk, state, stack))]


async def _ready(
    kind: type[Hand], place: pathlib.Path, state: pathlib.Path, stack: AsyncExitStack
) -> Hand | None:
    own = f"hand-{kind.__name__}"
    hand = kind(place / own, state / own)
    hand.place.mkdir()
    try:
        await hand.open()
    except ImportError as error:
        print(f"{kind.name}: not measured ({error})")
        return None
    stack.push_async_callback(hand.close)
    files = dict.fromkeys(READ, SMALL) | dict.fromkeys(TO_EDIT, EDITED)
    await hand.fill(files | {f"{directory}/first.txt": SMALL for directory in NEW})
    return hand


def many_cases(hands: list[Hand], durable: list[Hand], disk: pathlib.Path) -> Iterator[Case]:
    yield _case(
        "many-read", "Read 2,000 different files, each once", hands, 1, _reading,
        [Bar(AWAITED, PLAIN, 2.5), Bar(AWAITED, FSSPEC, 1), Bar(BLOCKING, AWAITED, BLOCKING_MAX),
         Bar(VOLUME, REFERENCE, 1.5)],
    )  # fmt: skip
    yield _case(
        "many-create", "Create 2,000 files, each once, without fsync", hands, 2, _creating,
        [Bar(AWAITED, PLAIN, 5), *_WRITING, Bar(VOLUME, REFERENCE, 2)],
    )  # fmt: skip
    yield _case(
        "many-overwrite", "Write over 2,000 different files, each once, without fsync", hands, 3,
        _overwriting, [Bar(AWAITED, PLAIN, 4.5), *_WRITING],
    )  # fmt: skip
    yield _case(
        "many-edit", "Edit a word in different files of 5 KB",
        [hand for hand in hands if hand.edits], 4, _editing,
        [Bar(AWAITED, PLAIN, 6), Bar(BLOCKING, AWAITED, BLOCKING_MAX), Bar(VOLUME, PLAIN, 8)],
        at_once=4,
    )  # fmt: skip
    yield _case(
        "many-stat", "Stat 2,000 different files, each once", hands, 5, _looking,
        [Bar(AWAITED, PLAIN, 6), Bar(BLOCKING, AWAITED, BLOCKING_MAX)],
    )  # fmt: skip
    by_hand = Contender(DURABLE, _each(disk, replace_durably(SMALL)))
    names = [hand.name for hand in durable]
    yield Case(
        "many-durable",
        "Write over different files, durably, on a disk",
        [by_hand, *(_contender(hand, 6, _overwriting) for hand in durable)],
        [Bar(*bar) for bar in zip(names, [DURABLE] * 4, (1.3, 1.6, 2.5, 0.7), strict=False)],
        rounds=ROUNDS,
        block_calls=DURABLE_AT_ONCE,
        note="Whoever is governed or keeps a history has its database on the disk too.",
    )


_WRITING = [
    Bar(BLOCKING, AWAITED, BLOCKING_MAX),
    Bar(GOVERNED, AWAITED, 3),
    Bar(GOVERNED_HISTORY, AWAITED, 8),
]

Calls = Callable[[Hand, Iterator[str]], Callable[[], Any]]


def _case(
    key: str, title: str, hands: list[Hand], seed: int, calls: Calls, bars: list[Bar],
    at_once: int = AT_ONCE,
) -> Case:  # fmt: skip
    contenders = [_contender(hand, seed, calls) for hand in hands]
    return Case(
        key, title, contenders, bars, rounds=ROUNDS, block_calls=at_once, clock=process_time_ns,
        note="By the time of the processor, in all threads.",
    )  # fmt: skip


def _contender(hand: Hand, seed: int, calls: Calls) -> Contender:
    paths = READ if calls is not _editing else TO_EDIT
    shuffled = random.Random(seed).sample(paths, len(paths))
    call = calls(hand, itertools.cycle(shuffled))
    return Contender(hand.name, call, awaits=hand.awaits, ours=hand.ours)


def _reading(hand: Hand, paths: Iterator[str]) -> Callable[[], Any]:
    return lambda: hand.read(next(paths))


def _creating(hand: Hand, _: Iterator[str]) -> Callable[[], Any]:
    paths = (f"{NEW[n % DIRECTORIES]}/{n:05}.txt" for n in itertools.count())
    return lambda: hand.write(next(paths), SMALL)


def _overwriting(hand: Hand, paths: Iterator[str]) -> Callable[[], Any]:
    return lambda: hand.write(next(paths), SMALL)


def _looking(hand: Hand, paths: Iterator[str]) -> Callable[[], Any]:
    return lambda: hand.stat(next(paths))


def _editing(hand: Hand, paths: Iterator[str]) -> Callable[[], Any]:
    """Each file there, and the next time round back."""
    words = itertools.cycle(
        [("alpha", "omega")] * EDITED_FILES + [("omega", "alpha")] * EDITED_FILES
    )
    return lambda: hand.edit(next(paths), *next(words))


def _each(disk: pathlib.Path, write: Callable[[str], None]) -> Callable[[], None]:
    place = disk / "by-hand"
    for path in READ:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(SMALL)
    paths = itertools.cycle(random.Random(6).sample(READ, FILES))
    return lambda: write(f"{place}/{next(paths)}")
