"""Spans for OpenTelemetry, with the real SDK and its exporter in memory."""

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import bailiwick
from bailiwick.hooks.tracing import Tracing
from tests.hooks.records import record


@pytest.fixture
def traced():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, exporter
    provider.shutdown()


@pytest.mark.spec("AUDIT-4")
async def test_each_operation_is_a_span_beneath_its_callers(traced, tmp_path):
    provider, exporter = traced
    tracer = provider.get_tracer("test")
    (tmp_path / "root").mkdir()
    async with bailiwick.open(tmp_path / "root", state_dir=str(tmp_path / "state")) as fs:
        fs._pipeline.hooks.register(Tracing(provider))
        with tracer.start_as_current_span("outer"):
            await fs.write_text("secret-name", "secret-content")
            with pytest.raises(bailiwick.IsADirectory):
                await fs.read_text(".")
    written, refused, outer = exporter.get_finished_spans()
    assert written.name == "bailiwick.write_text"
    assert written.parent.span_id == outer.context.span_id
    assert outer.start_time <= written.start_time <= written.end_time <= outer.end_time
    assert written.attributes["bailiwick.outcome"] == "success"
    assert written.attributes["bailiwick.bytes"] == 14
    assert written.attributes["bailiwick.subject"] == "user:local"
    assert written.status.status_code is StatusCode.UNSET
    assert refused.attributes["bailiwick.error_kind"] == "is_a_directory"
    assert refused.status.status_code is StatusCode.ERROR
    for span in (written, refused):
        shown = span.to_json()
        assert "secret" not in shown
        assert str(tmp_path) not in shown


@pytest.mark.spec("AUDIT-4")
async def test_a_span_has_the_times_of_its_operation_and_no_path(traced):
    provider, exporter = traced
    await Tracing(provider).after(None, record(outcome="denied", error_kind="policy_denied"))
    (span,) = exporter.get_finished_spans()
    assert (span.start_time, span.end_time) == (1_999_000_000, 2_000_000_000)
    assert span.attributes["bailiwick.policy_source"] == "rule"
    # Someone decided: that is no failure.
    assert span.status.status_code is StatusCode.UNSET
    assert "secret-name" not in span.to_json()
    assert "why" not in span.attributes.values()


@pytest.mark.spec("AUDIT-4", "PY-3")
def test_without_the_package_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import bailiwick; from bailiwick.hooks.tracing import Tracing\n"
        "try: Tracing()\n"
        "except bailiwick.Unsupported as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tracing needs one more package (pip install 'bailiwick[otel]')\n"


@pytest.mark.spec("AUDIT-4")
def test_nothing_is_loaded_before_it_is_asked_for():
    code = (
        "import sys, bailiwick, bailiwick.hooks.tracing, bailiwick.hooks.metrics; bailiwick.open;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
