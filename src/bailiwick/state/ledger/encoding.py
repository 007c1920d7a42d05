"""Records as bytes: one flat list for each, in the order of `LedgerRecord`, as MessagePack.

The bytes are what the chain covers, so they are made once and never again. A list and not a map:
names would be most of it. There is no content here to leave out: records never hold any.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from bailiwick.audit import AuthorityRecord, Intent, LedgerRecord, Outcome, Record, shown
from bailiwick.grant import Grant

Hide = Callable[[str], str]
"""What a path becomes before it is kept: itself, or a keyed hash."""

AUTHORITY_VERB = "authority"

INTERRUPTED = "interrupted"
"""The error kind of a change that was announced and of which nothing more was heard."""

RUN = "run"
STEP = "step"
"""Details that name a run and a step of it."""

VIA = "via"
"""The detail that says through whose hands the name of the subject came, where it was given by
another agent: JSON."""

_PATHS_IN_DETAILS = frozenset({"path", "paths", "destination", "origin"})
"""Details of an act on the authority under these names are paths, and are hidden like paths."""

_encoder = msgspec.msgpack.Encoder(enc_hook=str)
_decoder = msgspec.msgpack.Decoder(list[Any])


def keep_path(path: str) -> str:
    return path


class GrantNames(NamedTuple):
    """A grant, and how its subject and its root are written."""

    grant: Grant | None
    subject: str
    root: str


_last_named = GrantNames(None, "", "")


def names_of(grant: Grant) -> GrantNames:
    """The names in a grant. Those of the last one are kept at hand: mostly it is asked for again,
    by the record of the change that was announced."""
    global _last_named
    named = _last_named
    if named.grant is not grant:
        named = _last_named = GrantNames(grant, str(grant.subject), str(grant.root))
    return named


def encode_record(record: Record, hide: Hide) -> bytes:
    grant, path, destination = record.grant, record.path, record.destination
    if hide is not keep_path:
        path, destination = hide(path), None if destination is None else hide(destination)
    _, subject, root = names_of(grant)
    return _with_details(record, hide, [
        record.time_ns, record.request_id, subject, grant.id, root, record.operation, record.verb,
        path, destination, record.outcome, record.error_kind, record.policy_source, record.hooks,
        grant.reason, record.bytes, record.sha256_before, record.sha256_after, record.duration_ns,
        record.front, record.approval_id,
    ])  # fmt: skip


def _with_details(told: Record | Intent, hide: Hide, values: list[object]) -> bytes:
    """Of an operation also its details: where it was done, if not in the first branch; the words
    that were run, which name paths as well; and what the run and the step are called."""
    branch = told.grant.root.branch
    details = {"branch": branch} if branch else {}
    if told.command is not None:
        details["command"] = shown(hide(told.command))
    if told.grant.via:
        details[VIA] = json.dumps(told.grant.via)
    if told.title is not None:
        details[RUN] = told.title
    if told.step is not None:
        details[STEP] = told.step
    if details:
        values.append(details)
    return _encoded(values)


def encode_interrupted(intent: Intent, hide: Hide) -> bytes:
    """The record that an intent becomes if nothing more is heard of it."""
    return encode_intent(intent, hide, "failed", INTERRUPTED)


def encode_intent(intent: Intent, hide: Hide, outcome: Outcome, error_kind: str | None) -> bytes:
    """A record of what was known before a change, with the outcome it had."""
    grant, path, destination = intent.grant, intent.path, intent.destination
    if hide is not keep_path:
        path, destination = hide(path), None if destination is None else hide(destination)
    _, subject, root = names_of(grant)
    return _with_details(intent, hide, [
        intent.time_ns, intent.request_id, subject, grant.id, root, intent.operation, intent.verb,
        path, destination, outcome, error_kind, intent.policy_source, intent.hooks, grant.reason,
        None, None, None, 0, intent.front, intent.approval_id,
    ])  # fmt: skip


def encode_authority(record: AuthorityRecord, hide: Hide) -> bytes:
    details = {
        name: hide(text) if name in _PATHS_IN_DETAILS else text
        for name, text in record.details.items()
    }
    values = [
        record.time_ns, record.request_id, record.subject, record.grant_id, record.root,
        record.act, AUTHORITY_VERB, None, None, record.outcome, record.error_kind, None, (),
        record.reason, None, None, None, 0, record.front, None, details,
    ]  # fmt: skip
    return _encoded(values)


def decode(seq: int, body: bytes) -> LedgerRecord:
    """The record in the bytes of one row. Raises `ValueError` for bytes that hold none."""
    values = _decoder.decode(body)
    values[12] = tuple(values[12])
    return LedgerRecord(seq, *values)


def _encoded(values: list[object]) -> bytes:
    try:
        return _encoder.encode(values)
    except UnicodeEncodeError:
        # Text that no encoding has, such as half a surrogate pair from a caller: a record that
        # shows it escaped is better than none.
        return _encoder.encode(_escaped(values))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [_escaped(each) for each in value]
    if isinstance(value, dict):
        return {_escaped(name): _escaped(each) for name, each in value.items()}
    return value
