"""Records to show to hooks."""

from bailiwick.audit import Record
from bailiwick.grant import AgentRun, Grant, Root

GRANT = Grant(
    id="g1", subject=AgentRun("c", "r"), root=Root(kind="workspace", id="demo"), reason="why"
)


def record(verb="read_text", outcome="success", error_kind=None, **more):
    given = {
        "time_ns": 2_000_000_000, "request_id": "q1", "grant": GRANT, "operation": "read",
        "verb": verb, "path": "a/secret-name", "destination": None, "outcome": outcome,
        "error_kind": error_kind, "policy_source": "rule", "hooks": (), "bytes": None,
        "sha256_before": None, "sha256_after": None, "duration_ns": 1_000_000, "front": "python",
    }  # fmt: skip
    return Record(**given | more)
