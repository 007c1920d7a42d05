"""What goes to the log: under one name, without content, and nowhere unless somebody says so."""

import logging
import subprocess
import sys

import pytest

import bailiwick

pytestmark = pytest.mark.slow

REFUSED_WRITE = """
import asyncio, logging, sys
import bailiwick

async def main():
    async with bailiwick.Authority.open() as authority:
        await authority.add_root("workspace:demo", "memory:")
        fs = await authority.request_root("user:me", "workspace:demo", {"write"}, "try")
        try:
            await fs.write_text("a", "marmalade")
        except bailiwick.UntrustedWorkspace:
            print("refused")

if sys.argv[1:]:
    logging.basicConfig(format="%(name)s %(message)s")
asyncio.run(main())
"""


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", REFUSED_WRITE, *arguments],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip


@pytest.mark.spec("AUDIT-6", "AUTH-7")
def test_the_log_is_quiet_by_default_and_heard_when_asked_for():
    quiet = run()
    assert (quiet.stdout, quiet.stderr) == ("refused\n", "")
    heard = run("loudly")
    assert heard.stdout == "refused\n"
    assert "workspace:demo" in heard.stderr or "trusted" in heard.stderr
    assert heard.stderr.startswith("bailiwick.")
    assert "marmalade" not in heard.stderr


@pytest.mark.spec("AUDIT-6")
async def test_what_is_logged_carries_extras_and_no_content(caplog):
    async with bailiwick.open("memory:") as fs:
        await fs.write_bytes("big", b"marmalade\n" * 200)
        await fs.write_bytes("binary", b"\0marmalade")
        with caplog.at_level(logging.DEBUG, logger="bailiwick"):
            await fs.grep("marmalade", max_file_bytes=100)
    assert caplog.records
    assert all(record.name.startswith("bailiwick.") for record in caplog.records)
    assert "marmalade" not in caplog.text
