"""Figures for Prometheus: right sums, closed labels, and a text that its parser takes."""

import re

import pytest

import bailiwick
from bailiwick.hooks.metrics import BUCKETS_SECONDS, Metrics
from tests.hooks.records import record

SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z]+="[^"\\\n]*",?)*)\})? (?P<value>[0-9.+Inf]+)'
)


def samples(text):
    """The text format, read strictly: every line is a comment or a sample."""
    assert text.endswith("\n")
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert line.split()[1] in {"HELP", "TYPE"}
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        labels = tuple(re.findall(r'([a-z]+)="([^"]*)"', match["labels"] or ""))
        assert (match["name"], labels) not in found
        found[match["name"], labels] = float(match["value"])
    return found


@pytest.mark.spec("AUDIT-4")
async def test_operations_are_counted_through_a_scope(tmp_path):
    metrics = Metrics()
    async with bailiwick.open("memory:") as fs:
        unregister = fs._pipeline.hooks.register(metrics)
        await fs.write_text("a", "hello")
        await fs.read_text("a")
        await fs.read_text("a")
        with pytest.raises(bailiwick.PathNotFound):
            await fs.read_text("missing")
        with pytest.raises(bailiwick.IsADirectory):
            await fs.read_text(".")
        unregister()
        await fs.read_text("a")
    found = samples(metrics.render())
    total = "bailiwick_operations_total"
    read = ("verb", "read_text")
    assert found[total, (read, ("outcome", "success"), ("kind", ""))] == 2
    failed = (read, ("outcome", "failed"), ("kind", "is_a_directory"))
    assert found[total, failed] == 1
    assert found["bailiwick_bytes_total", (("verb", "write_text"),)] == 5
    assert found["bailiwick_operation_duration_seconds_count", (read,)] >= 3


@pytest.mark.spec("AUDIT-4")
def test_the_histogram_is_cumulative_and_agrees_with_its_sum():
    metrics = Metrics()
    for seconds in (0.00001, 0.00005, 0.0007, 3.0, 1000.0):
        metrics.count(record(duration_ns=int(seconds * 1e9)))
    found = samples(metrics.render())
    name, verb = "bailiwick_operation_duration_seconds", ("verb", "read_text")
    buckets = [value for (each, _), value in found.items() if each == f"{name}_bucket"]
    assert len(buckets) == len(BUCKETS_SECONDS) + 1
    assert buckets == sorted(buckets)
    assert found[f"{name}_bucket", (verb, ("le", "5e-05"))] == 2  # a bound counts as within
    assert found[f"{name}_bucket", (verb, ("le", "0.001"))] == 3
    assert found[f"{name}_bucket", (verb, ("le", "10"))] == 4
    assert found[f"{name}_bucket", (verb, ("le", "+Inf"))] == 5
    assert found[f"{name}_count", (verb,)] == 5
    assert found[f"{name}_sum", (verb,)] == pytest.approx(1003.00076)


@pytest.mark.spec("AUDIT-4")
def test_labels_cannot_be_invented():
    metrics = Metrics()
    for number in range(1000):
        metrics.count(record(f'made"up\n{number}', "odd", f"kind{number}"))
    found = samples(metrics.render())
    labels = (("verb", "other"), ("outcome", "other"), ("kind", "other"))
    assert found["bailiwick_operations_total", labels] == 1000
    assert "made" not in metrics.render()


def test_nothing_counted_is_a_text_too():
    assert samples(Metrics().render()) == {}


def test_a_refused_read_moves_no_bytes():
    metrics = Metrics()
    metrics.count(record(outcome="denied", error_kind="policy_denied", bytes=100))
    assert not [key for key in samples(metrics.render()) if key[0] == "bailiwick_bytes_total"]
