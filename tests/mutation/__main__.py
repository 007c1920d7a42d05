"""Make the core wrong in one place at a time, and see whether its tests notice.

    python -m tests.mutation                     some mutants of each part
    python -m tests.mutation paths --sample 500  of one part, up to so many
    python -m tests.mutation lookup --json bench/mutation.json   keeps the figures of that part

A mutant that lets its tests pass is a survivor: a gap in the tests, or a change that makes no
difference. Those that were looked at and make none are in `equivalent.txt`, each with its reason.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.laws.repository import PACKAGE, ROOT
from tests.mutation.mutants import mutants
from tests.mutation.plugin import KILLED, NEVER_RUN, SURVIVED, UNTIL, VARIABLE

EQUIVALENT = Path(__file__).with_name("equivalent.txt")


class Part(NamedTuple):
    """Modules, and the tests that are about them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PARTS = {
    "paths": Part(("paths",), ("tests/test_paths.py",)),
    "grant": Part(("grant",), ("tests/test_grant.py", "tests/authority/test_delegation.py")),
    "policy": Part(
        ("policies.rules", "policies.rule", "policies.compiled", "policies.protective"),
        ("tests/policies",),
    ),
    "pipeline": Part(
        ("pipeline", "decisions"),
        (
            *(f"tests/test_{name}.py" for name in ("pipeline", "stages", "decisions", "life")),
            "tests/authority",
            *(f"tests/scope/test_{name}.py" for name in (
                "rehearsal", "ruling", "hooking", "transactions", "history", "history_rules",
                "branches", "protected_names", "writes",
            )),
        ),
    ),
    "lookup": Part(
        ("stores.disk.lookup.beneath", "stores.disk.lookup.walk", "nodes.lookup", "nodes.walk"),
        ("tests/stores/disk", "tests/stores/test_contract.py", "tests/stores/test_node_lookup.py"),
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


def tried(part, some, minutes):
    """What became of these mutants, in one session of pytest that tries as many as it has time for,
    in an order of chance."""
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as place:
        wanted = [[f"bailiwick.{module}", each.number, each.line] for module, each in some]
        random.Random(len(some)).shuffle(wanted)
        json.dump(wanted, place)
        place.flush()
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no",
            "-m", "not slow and not hostile and not scale", "-k", "not postgres",
            "--hypothesis-profile", "unit", "--hypothesis-seed", "0",
            "-p", "tests.mutation.plugin", *PARTS[part].tests,
        ]  # fmt: skip
        subprocess.run(
            command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
            env={**os.environ, VARIABLE: place.name, UNTIL: str(time.time() + 60 * minutes)},
        )  # fmt: skip
        fates = json.loads(Path(place.name).read_text())
    return [
        Tried(module, each.line, each.was, each.now, fates[name])
        for module, each in some
        if (name := f"bailiwick.{module}:{each.number}") in fates
    ]


def equivalent():
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line.partition("  # ")[0] for line in lines if line and not line.startswith("#")}


def chosen(part, sample, seed):
    every = [
        (module, mutant) for module in PARTS[part].modules for mutant in mutants(source_of(module))
    ]
    some = random.Random(seed).sample(every, min(sample, len(every)))
    return len(every), sorted(some, key=lambda each: (each[0], each[1].number))


def measured(part, given, known):
    """What became of the mutants of a part: its figures, and those that survive."""
    every, some = chosen(part, given.sample, given.seed)
    done = tried(part, some, given.minutes)
    survived = [each for each in done if each.fate in (SURVIVED, NEVER_RUN)]
    survivors = [each for each in survived if each.said().partition(": ")[2] not in known]
    killed = sum(each.fate == KILLED for each in done)
    counted = killed + len(survivors)
    figures = {
        "mutants": every, "tried": len(done), "noticed": killed,
        "make no difference": len(survived) - len(survivors), "survive": len(survivors),
        "share": f"{killed / counted if counted else 1:.0%}", "by": " ".join(PARTS[part].tests),
    }  # fmt: skip
    print(f"{part}: {', '.join(f'{name} {figure}' for name, figure in figures.items())}")
    named = [f"{each.said()} ({each.fate})" for each in survivors]
    print(*(f"    {each}" for each in named), sep="\n", flush=True)
    return figures, named


def kept(file, part, figures, survivors):
    """Put the figures of a part in the place of those that it had."""
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    parts = {**found.get("parts", {}), part: figures}
    others = [each for each in found.get("survivors", ()) if each["part"] != part]
    named = [*others, *({"part": part, "survivor": each} for each in survivors)]
    file.write_text(
        json.dumps({"parts": parts, "survivors": named}, indent=1) + "\n", encoding="utf-8"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--sample", type=int, default=40, help="how many mutants of each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60, help="how long for each part")
    parser.add_argument("--least", type=float, default=0.85, help="the share that must be noticed")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    killed, survived = 0, 0
    for part in given.parts or PARTS:
        figures, survivors = measured(part, given, equivalent())
        if given.json:
            kept(given.json, part, figures, survivors)
        killed, survived = killed + figures["noticed"], survived + len(survivors)
    print(f"in all: {killed} of {killed + survived} noticed, {killed / (killed + survived):.0%}")
    return int(killed / (killed + survived) < given.least)


if __name__ == "__main__":
    sys.exit(main())
