"""Writes down what the tests ran of the package, part by part, as `make coverage` found it."""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import coverage

from tests.laws.repository import PACKAGE, ROOT


def by_part(data):
    """Statements and those that were run, by the module or folder that stands in the package."""
    found = defaultdict(lambda: [0, 0])
    for name, figures in data["files"].items():
        part = (ROOT / name).relative_to(PACKAGE).parts[0].removesuffix(".py")
        found[part][0] += figures["summary"]["num_statements"]
        found[part][1] += figures["summary"]["covered_lines"]
    return {
        part: {"statements": every, "run": ran, "share": f"{ran / every:.1%}"}
        for part, (every, ran) in sorted(found.items())
        if every
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("json", type=Path)
    given = parser.parse_args()
    known = coverage.Coverage()
    known.load()
    known.json_report(outfile=str(given.json))
    data = json.loads(given.json.read_text(encoding="utf-8"))
    figures = {
        "statements": data["totals"]["num_statements"],
        "run": data["totals"]["covered_lines"],
        "share": f"{data['totals']['percent_covered']:.1f}%",
        "parts": by_part(data),
    }
    given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
