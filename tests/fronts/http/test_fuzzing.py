"""A schema-driven fuzzer on the whole description: no fault, and no answer it does not tell of.

The longer run is by hand: ``BAILIWICK_FUZZ_SECONDS=600 pytest tests/fronts/http/test_fuzzing.py``.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fronts.http.test_serving import process

SECONDS = os.environ.get("BAILIWICK_FUZZ_SECONDS", "20")

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,response_headers_conformance"
)


@pytest.mark.slow
@pytest.mark.timeout(int(SECONDS) * 3 + 120)
@pytest.mark.spec("HTTP-6")
def test_no_fault_and_no_undocumented_answer(tmp_path):
    with process(tmp_path, "sqlite:v.db?volume=main") as (_, told):
        command = [
            str(Path(sys.executable).parent / "schemathesis"), "run", f"{told['url']}/openapi.json",
            "--header", f"Authorization: Bearer {told['token']}", "--checks", CHECKS,
            "--max-time", SECONDS, "--phases", "coverage,fuzzing", "--continue-on-failure",
            "--request-timeout", "20", "--suppress-health-check", "all", "--warnings", "off",
            # A stream of events does not end by itself; the long form of a route is the route.
            "--exclude-path-regex", "/events$|^/roots/.", "--no-color", "--max-failures", "20",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
