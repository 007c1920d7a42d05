"""Make the core wrong in one place at a time, and see whether its tests notice.

    python -m tests.mutation                     some mutants of each part
    python -m tests.mutation paths --sample 500  of one part, up to so many
    python -m tests.mutation --json bench/mutation.json

A mutant that lets its tests pass is a survivor: a gap in the tests, or a change that makes no
difference. Those that were looked at and make none are in `equivalent.txt`, each with its reason.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.laws.repository import PACKAGE, ROOT
from tests.mutation.mutants import mutants
from tests.mutation.plugin import VARIABLE

EQUIVALENT = Path(__file__).with_name("equivalent.txt")
TIMEOUT_S = 1_200
"""Ends what no longer ends: a mutant that hangs was noticed."""


class Part(NamedTuple):
    """Modules, and the tests that are about them; ``further`` are run where those let pass."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    further: tuple[str, ...] = ()


PARTS = {
    "paths": Part(("paths",), ("tests/test_paths.py",)),
    "grant": Part(("grant",), ("tests/test_grant.py", "tests/authority/test_delegation.py")),
    "policy": Part(
        ("policies.rules", "policies.rule", "policies.compiled", "policies.protective"),
        ("tests/policies",),
    ),
    "pipeline": Part(
        ("pipeline", "decisions"),
        ("tests/test_pipeline.py", "tests/authority/test_line.py",
         "tests/authority/test_deciders.py", "tests/authority/test_asking.py",
         "tests/authority/test_ledger_gate.py"),
        ("tests/authority", "tests/scope"),
    ),
    "lookup": Part(
        ("stores.disk.lookup.beneath", "stores.disk.lookup.walk", "nodes.lookup"),
        ("tests/stores/disk/test_lookup.py", "tests/stores/disk/test_store.py",
         "tests/stores/test_contract.py"),
        ("tests/stores/disk", "tests/scope"),
    ),
}  # fmt: skip


class Tried(NamedTuple):
    module: str
    line: int
    was: str
    now: str
    fate: str

    def said(self):
        return f"{self.module}:{self.line}: {one_line(self.was)} -> {one_line(self.now)}"


def one_line(text):
    return " ".join(text.split())[:90]


def source_of(module):
    return (PACKAGE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def run(tests, variables):
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no",
        "-m", "not slow and not hostile and not scale", "--hypothesis-profile", "unit",
        "--hypothesis-seed", "0", *(("-p", "tests.mutation.plugin") if variables else ()), *tests,
    ]  # fmt: skip
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip


def tried(part, module, mutant):
    chosen, fate = PARTS[part], "survived"
    for tests in filter(None, (chosen.tests, chosen.further)):
        try:
            done = run(tests, {VARIABLE: f"bailiwick.{module}:{mutant.number}"})
        except subprocess.TimeoutExpired:
            fate = "killed"
        else:
            fate = "killed" if done.returncode else "survived"
        if fate == "killed":
            break
    return Tried(module, mutant.line, mutant.was, mutant.now, fate)


def equivalent():
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line.partition("  # ")[0] for line in lines if line and not line.startswith("#")}


def chosen(part, sample, seed):
    every = [
        (module, mutant) for module in PARTS[part].modules for mutant in mutants(source_of(module))
    ]
    some = random.Random(seed).sample(every, min(sample, len(every)))
    return len(every), sorted(some, key=lambda each: (each[0], each[1].number))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--sample", type=int, default=40, help="how many mutants of each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.85, help="the share that must be noticed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    known, figures = equivalent(), {}
    for part in given.parts or PARTS:
        if run(PARTS[part].tests, {}).returncode:
            print(f"{part}: its tests fail as they are")
            return 1
        every, some = chosen(part, given.sample, given.seed)
        with ThreadPoolExecutor(given.workers) as pool:
            done = list(pool.map(lambda each, part=part: tried(part, *each), some))
        told = [
            each._replace(fate="equivalent")
            if each.fate == "survived" and each.said().partition(": ")[2] in known
            else each
            for each in done
        ]
        fates = Counter(each.fate for each in told)
        counted = fates["killed"] + fates["survived"]
        share = fates["killed"] / counted if counted else 1.0
        survivors = [each.said() for each in told if each.fate == "survived"]
        figures[part] = {
            "mutants": every, "tried": len(told), **fates, "share": round(share, 3),
            "survivors": survivors,
        }  # fmt: skip
        print(f"{part:9} {every:5} mutants, {len(told)} tried, {fates['killed']} noticed,"
              f" {fates['equivalent']} make no difference, {len(survivors)} survive:"
              f" {share:.0%}", flush=True)  # fmt: skip
        for each in survivors:
            print(f"          {each}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    killed = sum(each.get("killed", 0) for each in figures.values())
    survived = sum(len(each["survivors"]) for each in figures.values())
    print(f"in all: {killed} of {killed + survived} noticed, {killed / (killed + survived):.0%}")
    return int(killed / (killed + survived) < given.least)


if __name__ == "__main__":
    sys.exit(main())
