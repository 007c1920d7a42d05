"""`python -m release build` and `python -m release verify`.

build: from the newest commit, a wheel and a source archive, made twice under different
circumstances and compared; a bill of materials; a statement where they came from; checksums. Then
both are installed, each in an empty environment, and used.

verify: whether the files of a directory are those that its statement says, by making them anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from release import distributions, provenance, sbom, source_tree, trial
from release.distributions import ELSEWHERE, Surroundings, digest

SBOM = "bailiwick-{version}.cdx.json"
PROVENANCE = "bailiwick-{version}.provenance.json"
CHECKSUMS = "SHA256SUMS"


class NoStatement(Exception):
    """A directory does not say what its files were made of."""


def make(commit: source_tree.Commit, destination: Path) -> list[Path]:
    """All files of a release of a commit, in a directory that may hold older ones."""
    destination.mkdir(parents=True, exist_ok=True)
    for old in destination.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as place:
        here, there = Path(place) / "here", Path(place) / "another place"
        tree = source_tree.export(commit, here)
        files = distributions.build(tree, destination, commit.seconds, Surroundings())
        again = distributions.build(
            source_tree.export(commit, there), Path(place) / "again", commit.seconds, ELSEWHERE
        )
        distributions.compare(files, again)
        version = source_tree.version(tree)
        files.append(
            written(
                destination / SBOM.format(version=version),
                sbom.document(tree, seconds=commit.seconds),
            )
        )
        files.append(
            written(
                destination / PROVENANCE.format(version=version),
                provenance.statement(files, commit, tree),
            )
        )
    sums = destination / CHECKSUMS
    sums.write_text("".join(f"{digest(each)}  {each.name}\n" for each in sorted(files)))
    return [*files, sums]


def written(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def build(destination: Path) -> int:
    source_tree.refuse_changes()
    commit = source_tree.commit()
    files = make(commit, destination)
    print(f"made twice from {commit.id}, byte for byte the same")
    with tempfile.TemporaryDirectory() as place:
        tree = source_tree.export(commit, Path(place) / "tree")
        for distribution in files[:2]:
            empty = trial.Empty(Path(place) / distribution.name)
            empty.install(distribution)
            for line in trial.used(empty, tree):
                print(f"{distribution.name}: {line}")
    for each in files:
        print(f"{digest(each)}  {each}")
    return 0


def verify(directory: Path) -> int:
    """Whether the distributions of a directory are what the commit they name gives."""
    statements = list(directory.glob(PROVENANCE.format(version="*")))
    if len(statements) != 1:
        raise NoStatement(f"{directory} names no commit: it holds {len(statements)} statements")
    told = json.loads(statements[0].read_text(encoding="utf-8"))
    commit = source_tree.commit(
        told["predicate"]["buildDefinition"]["externalParameters"]["commit"]
    )
    with tempfile.TemporaryDirectory() as place:
        anew = {each.name: digest(each) for each in make(commit, Path(place) / "anew")}
        wrong = [
            name
            for name in sorted(anew.keys() | {each.name for each in directory.iterdir()})
            if not (directory / name).is_file() or digest(directory / name) != anew.get(name)
        ]
    for name in wrong:
        print(f"{name}: not what {commit.id} gives", file=sys.stderr)
    if not wrong:
        print(f"all {len(anew)} files are what {commit.id} gives")
    return int(bool(wrong))


def main() -> int:
    parser = argparse.ArgumentParser(prog="release", description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("build", "verify"))
    parser.add_argument("directory", nargs="?", type=Path, default=source_tree.ROOT / "dist")
    given = parser.parse_args()
    try:
        return build(given.directory) if given.action == "build" else verify(given.directory)
    except (NoStatement, source_tree.NotCommitted, distributions.Differs) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
