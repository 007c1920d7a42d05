"""Spans for OpenTelemetry: one for each operation, beneath the span its caller is in.

A span holds names that the authority gave out (subject, root, grant, request), what was decided and
how much was moved. It holds no content, no path and no reason: a path is the caller's own text
where an operation was refused, and a ledger may be told to keep none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bailiwick.audit import Record
from bailiwick.errors import Unsupported
from bailiwick.policy import Context, Decision

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_INSTRUMENTATION = "bailiwick"


class Tracing:
    """A hook that makes spans. Raises `Unsupported` where OpenTelemetry is not installed.

    ``provider`` is where spans go; without one, to the provider that the program has set for all.
    """

    id = "tracing"

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise Unsupported(
                "tracing needs one more package", hint="pip install 'bailiwick[otel]'"
            ) from None
        self._tracer = trace.get_tracer(_INSTRUMENTATION, tracer_provider=provider)
        self._failed = trace.Status(trace.StatusCode.ERROR)

    async def before(self, context: Context) -> Decision | None:
        return None

    async def after(self, context: Context, record: Record) -> None:
        """Make the span of an operation that has ended.

        Made afterwards, with its real times: so there is nothing to keep while it runs, and none
        is left open by an operation that is never heard of again.
        """
        started_ns = record.time_ns - record.duration_ns
        span = self._tracer.start_span(
            f"bailiwick.{record.verb}", start_time=started_ns, attributes=_attributes(record)
        )
        if record.outcome == "failed":
            span.set_status(self._failed)
        span.end(end_time=record.time_ns)


def _attributes(record: Record) -> dict[str, str | int]:
    known: dict[str, str | int | None] = {
        "operation": record.operation,
        "verb": record.verb,
        "root": str(record.root),
        "subject": str(record.subject),
        "grant_id": record.grant_id,
        "request_id": record.request_id,
        "front": record.front,
        "outcome": record.outcome,
        "error_kind": record.error_kind,
        "policy_source": record.policy_source,
        "approval_id": record.approval_id,
        "bytes": record.bytes,
    }
    return {f"bailiwick.{name}": value for name, value in known.items() if value is not None}
