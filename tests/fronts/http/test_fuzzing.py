"""A schema-driven fuzzer on the whole description: no fault, and no answer it does not tell of.

The longer run is by hand: ``BAILIWICK_FUZZ_SECONDS=600 pytest tests/fronts/http/test_fuzzing.py``.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fronts.http.test_serve_command import process

SECONDS = os.environ.get("BAILIWICK_FUZZ_SECONDS", "30")

# What every check of the fuzzer is told of this interface, and which of them cannot be held to it.
CONFIG = """\
[checks]
# A schema cannot say that a file is no archive, a place is locked, or a cursor is of another list:
# a request may fit it and be refused.
positive_data_acceptance.enabled = false
# It takes a grant that stands for one that is held, and passes it on.
ensure_resource_availability.enabled = false
# The last one of what a subject may have is had, or a root has nothing of the kind: no fault of the
# server, though it is a 5xx.
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 501, 507]
# An address that is too long is refused before anybody looks who asks, and for what.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 412, 413, 415, 423, 431]
missing_required_header.expected-statuses = [400, 401, 403, 404, 405, 415, 431]
"""


@pytest.mark.slow
@pytest.mark.timeout(int(SECONDS) * 3 + 900)
@pytest.mark.spec("HTTP-6")
def test_no_fault_and_no_undocumented_answer(tmp_path):
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with process(tmp_path, "sqlite:v.db?volume=main") as (_, told):
        command = [
            str(Path(sys.executable).parent / "schemathesis"), "run", f"{told['url']}/openapi.json",
            "--header", f"Authorization: Bearer {told['token']}",
            "--max-time", SECONDS, "--phases", "coverage,fuzzing,stateful",
            "--continue-on-failure", "--request-timeout", "20", "--suppress-health-check", "all",
            "--warnings", "off",
            # A stream of events does not end by itself, nor may a command; the long form of a route
            # is the route.
            "--exclude-path-regex", "/events$|/exec$|^/roots/.", "--no-color",
            "--max-failures", "20",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
