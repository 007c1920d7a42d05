"""How findings are written: text for people, JSON and SARIF 2.1.0 for programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli.commands.guard.calls import ALLOWANCE, CATEGORIES, UNREADABLE
from bailiwick.fronts.cli.commands.guard.checker import Finding
from bailiwick.fronts.cli.output import line, paint

_RULES = [*CATEGORIES.values(), UNREADABLE, ALLOWANCE]
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def print_text(findings: Sequence[Finding], files: int) -> None:
    for finding in findings:
        where = escape_for_display(f"{finding.path}:{finding.line}:{finding.column}")
        what = escape_for_display(finding.message)
        line(f"{paint(where, 'bold')}: {paint(finding.category, 'yellow')}: {what}")
    looked = f"{files} file{'' if files == 1 else 's'} looked at"
    if findings:
        line(f"{len(findings)} finding{'' if len(findings) == 1 else 's'}, {looked}")
    else:
        line(f"no direct use of the filesystem, {looked}")


def json_document(findings: Sequence[Finding], files: int) -> dict[str, Any]:
    return {"files": files, "findings": [finding._asdict() for finding in findings]}


def sarif_document(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    """Columns count code points, which SARIF must be told."""
    ids = [rule.id for rule in _RULES]
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": f"Direct use of the filesystem: {rule.what}"},
            "help": {"text": f"Through a scope: {rule.instead}" if rule.instead else rule.what},
            "defaultConfiguration": {"level": "error"},
        }
        for rule in _RULES
    ]
    driver = {"name": "bailiwick guard", "semanticVersion": version, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, ids.index(finding.category)) for finding in findings],
    }
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    place = {"artifactLocation": {"uri": _uri(finding.path)}, "region": region}
    location: dict[str, Any] = {"physicalLocation": place}
    if finding.function:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.function}]
    return {
        "ruleId": finding.category,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": escape_for_display(finding.message)},
        "locations": [location],
    }


def _uri(path: str) -> str:
    """A relative reference; bytes that are no text are kept as they are, percent-encoded."""
    return quote(os.fsencode(path.replace(os.sep, "/")), safe="/")
