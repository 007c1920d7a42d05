"""Where a release came from: an in-toto statement with SLSA's provenance of a build.

It is not signed. It tells whoever doubts a file which commit to build it from, with which tools,
and `python -m release verify` does that: the proof is the same bytes, not our word.
"""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from release.distributions import digest
from release.source_tree import Commit

BUILD_TYPE = "urn:bailiwick:build:hatchling-from-commit:1"
BUILDER = "urn:bailiwick:builder:make-release"


def statement(subjects: list[Path], made_of: Commit, tree: Path) -> dict[str, Any]:
    """The statement about these files. It holds nothing of the machine but the tools' versions."""
    lock = tree / "requirements" / "dev.lock"
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": each.name, "digest": {"sha256": digest(each)}} for each in subjects],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "commit": made_of.id,
                    "sourceDateEpoch": made_of.seconds,
                    "command": "python -m hatchling build",
                },
                "internalParameters": {
                    "python": platform.python_version(),
                    "implementation": sys.implementation.name,
                    "hatchling": metadata.version("hatchling"),
                },
                "resolvedDependencies": [
                    {
                        "name": "source",
                        "digest": {"gitCommit": made_of.id, "gitTree": made_of.tree},
                    },
                    {"name": "requirements/dev.lock", "digest": {"sha256": digest(lock)}},
                ],
            },
            "runDetails": {
                "builder": {"id": BUILDER},
                "metadata": {
                    "startedOn": datetime.fromtimestamp(made_of.seconds, UTC).isoformat(),
                },
            },
        },
    }
