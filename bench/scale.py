"""`python -m bench.scale`: what one call takes as there is more of everything.

Each curve is one verb with ever more entries beside it, rules over it, grants in the book, records
in the ledger, or followers of the feed; the same files, the same number of calls, by the time of
the processor in all threads. What counts is the shape: flat, or nearly.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import pathlib
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import bailiwick
from bailiwick import Authority, Scope
from bailiwick.audit import Record
from bailiwick.operations import Access
from bench.scratch import SMALL, on_memory

CALLS, TURNS = 100, 5


@dataclasses.dataclass(frozen=True)
class Curves:
    """Where each curve is measured."""

    entries: tuple[int, ...] = (10, 1_000, 100_000)
    rules: tuple[int, ...] = (1, 100, 10_000)
    grants: tuple[int, ...] = (10, 1_000)
    records: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    followers: tuple[int, ...] = (1, 50, 500)


ACCESS: set[Access] = {"read", "metadata", "list", "write", "delete", "move", "watch"}
AGAIN = bailiwick.AgentRun("bench", "2")
"""Who asks for a root that another has already."""


async def cost_us(call: Callable[[int], Awaitable[Any]], calls: int | None = None) -> float:
    """µs of the processor for one call: the quietest of a few turns."""
    calls = CALLS if calls is None else calls
    for number in range(min(calls, 20)):
        await call(number)
    best = float("inf")
    for turn in range(TURNS):
        began = time.process_time()
        for number in range(calls):
            await call(turn * calls + number)
        best = min(best, (time.process_time() - began) / calls)
    return round(best * 1e6, 1)


async def in_directories(place: pathlib.Path, curve: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    for entries in curve:
        names = [f"d/{number:06}.txt" for number in range(entries)]
        root = place / f"entries{entries}"
        (root / "d").mkdir(parents=True)
        for name in names:
            (root / name).write_bytes(SMALL)
        async with bailiwick.open(
            root, durability="rename", state_dir=str(place / "state")
        ) as scope:
            rows.append({"entries in the directory": f"{entries:,}", **await _each(scope, names)})
        shutil.rmtree(root)
    return rows


async def _each(scope: Scope, names: list[str]) -> dict[str, float]:
    return {
        "read": await cost_us(lambda n: scope.read_bytes(names[n % len(names)])),
        "stat": await cost_us(lambda n: scope.stat(names[n % len(names)])),
        "create": await cost_us(lambda n: scope.write_bytes(f"d/new{n:06}.txt", SMALL)),
        "list, 10 of them": await cost_us(lambda _: scope.list("d", limit=10), 3),
    }


@contextlib.asynccontextmanager
async def governed(
    place: pathlib.Path, name: str, rules: int = 0, grants: int = 0
) -> AsyncIterator[tuple[Authority, Scope]]:
    """An authority of a configuration, and an agent's scope under it."""
    root, config = place / name / "root", place / name / "bailiwick.toml"
    root.mkdir(parents=True)
    for number in range(CALLS):
        (root / f"{number:03}.txt").write_bytes(SMALL)
    (root / "written.txt").write_bytes(SMALL)
    text = f'[[root]]\nid = "r"\nkind = "workspace"\npath = "{root}"\ntrusted = true\n'
    text += 'durability = "rename"\n'
    text += "".join(
        f'[[rule]]\nid = "r{n}"\npath = ["secret{n}/**"]\neffect = "deny"\n' for n in range(rules)
    )
    config.write_text(text)
    config.chmod(0o600)
    opening = bailiwick.Authority.from_config(str(config), str(place / name / "state"))
    async with opening as authority:
        by = bailiwick.User("bench")
        for number in range(grants):
            await authority.add_grant(
                subject=f"agent_run:other{number}/*", root="workspace:r", access={"read"}, by=by
            )
        await authority.add_grant(subject="agent_run:*", root="workspace:r", access=ACCESS, by=by)
        agent = bailiwick.AgentRun("bench", "1")
        yield authority, await authority.request_root(agent, "workspace:r", ACCESS, "measuring")


async def _both(scope: Scope) -> dict[str, float]:
    return {
        "read": await cost_us(lambda n: scope.read_bytes(f"{n % CALLS:03}.txt")),
        "write": await cost_us(lambda n: scope.write_bytes(f"{n % CALLS:03}.txt", SMALL)),
    }


async def under_rules(place: pathlib.Path, curve: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    for rules in curve:
        async with governed(place, f"rules{rules}", rules=rules) as (_, scope):
            rows.append({"rules": f"{rules:,}", **await _both(scope)})
    return rows


async def among_grants(place: pathlib.Path, curve: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    for grants in curve:
        async with governed(place, f"grants{grants}", grants=grants) as (authority, scope):

            async def ask(_: int, authority: Authority = authority) -> None:
                lent = await authority.request_root(AGAIN, "workspace:r", {"read"}, "measuring")
                await lent.aclose()

            rows.append(
                {
                    "grants": f"{grants:,}",
                    **await _both(scope),
                    "ask for a root": await cost_us(ask),
                }
            )
    return rows


async def over_records(place: pathlib.Path, curve: tuple[int, ...]) -> list[dict[str, Any]]:
    rows, there = [], 0
    async with governed(place, "records") as (authority, scope):
        ledger = authority._books.ledger
        await scope.read_bytes("000.txt")
        record: Record = ledger.records()[-1]
        for records in curve:
            while there < records:
                step = min(20_000, records - there)
                for _ in range(step):
                    ledger.note(record)
                await ledger.flush()
                there += step
            rows.append(
                {
                    "records": f"{records:,}",
                    **await _both(scope),
                    "the last 20": await cost_us(lambda _: ledger.tail(20)),
                }
            )
    return rows


async def with_followers(place: pathlib.Path, curve: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    for followers in curve:
        async with governed(place, f"followers{followers}") as (_, scope):

            async def follow(scope: Scope = scope) -> None:
                async for _ in scope.watch("."):
                    pass

            tasks = [asyncio.create_task(follow()) for _ in range(followers)]
            await asyncio.sleep(0.5)

            async def write(number: int, scope: Scope = scope) -> None:
                await scope.write_bytes(f"{number % CALLS:03}.txt", SMALL)
                for _ in range(4):  # the feed hears of it, then they do
                    await asyncio.sleep(0)

            rows.append({"followers": followers, "write and tell": await cost_us(write)})
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return rows


async def measure(place: pathlib.Path, curves: Curves) -> dict[str, Any]:
    found: dict[str, Any] = {"unit": "µs of the processor for one call"}
    for name, curve in (
        ("in_a_directory", in_directories(place, curves.entries)),
        ("under_rules", under_rules(place, curves.rules)),
        ("among_grants", among_grants(place, curves.grants)),
        ("with_followers_of_the_feed", with_followers(place, curves.followers)),
        ("with_a_ledger", over_records(place, curves.records)),
    ):
        found[name] = await curve
        print(name, *found[name], sep="\n", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="in the ledger, at most")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    records = tuple(count for count in Curves.records if count <= options.records)
    place = on_memory()
    try:
        found = asyncio.run(measure(place, Curves(records=records)))
    finally:
        shutil.rmtree(place)
    if options.json is not None:
        pathlib.Path(options.json).write_text(
            json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
