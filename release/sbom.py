"""What is installed together with the package, as CycloneDX 1.6: from the lock, and from it alone.

Components that the core needs are ``required``, those of extras ``optional``. What only developers
install is no part of the product and is left out.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from release import lock_file
from release.lock_file import Locked

_NAMESPACE = uuid.UUID("6f0cf3f4-5f8e-4a59-9c56-0d6d5f4b8a11")
"""Ours alone: serial numbers are made from it and from what a document is about."""


def document(tree: Path, *, seconds: int) -> dict[str, Any]:
    """The bill of materials of the project in a tree. The same tree gives the same document."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = lock_file.read(tree / "requirements" / "dev.lock")
    core = lock_file.closure(locked, names(project["dependencies"]))
    shipped = lock_file.closure(locked, {each.name for each in locked if each.wanted_here})
    parts = [each for each in locked if each.name in shipped]
    product = f"pkg:pypi/{project['name']}@{project['version']}"
    components = [_component(each, each.name in core) for each in parts]
    about = json.dumps([product, seconds, components])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, about)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).isoformat(),
            "component": {
                "type": "library",
                "bom-ref": product,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "purl": product,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": components,
        "dependencies": [
            _needs(product, [each for each in parts if each.wanted_here]),
            *(
                _needs(_reference(each), [other for other in parts if each.name in other.wanted_by])
                for each in parts
            ),
        ],
    }


def names(requirements: list[str]) -> set[str]:
    """The packages that requirements are about."""
    named = (re.match(r"[\w.-]+", each) for each in requirements)
    return {lock_file.canonical(found[0]) for found in named if found}


def _reference(part: Locked) -> str:
    return f"pkg:pypi/{part.name}@{part.version}"


def _component(part: Locked, needed: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(part),
        "name": part.name,
        "version": part.version,
        "scope": "required" if needed else "optional",
        # Of each distribution that the lock admits: one for every kind of machine.
        "hashes": [{"alg": "SHA-256", "content": each} for each in part.hashes],
        "purl": _reference(part),
    }
    if part.marker:
        told["properties"] = [{"name": "bailiwick:installed-where", "value": part.marker}]
    return told


def _needs(reference: str, parts: list[Locked]) -> dict[str, Any]:
    return {"ref": reference, "dependsOn": sorted(_reference(each) for each in parts)}
