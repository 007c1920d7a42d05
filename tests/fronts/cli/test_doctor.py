"""What `bailiwick doctor` says of the machine and of a state."""

import asyncio
import json

import pytest

from bailiwick.audit import AuthorityRecord
from tests.fronts.cli import governed
from tests.fronts.cli.command import bailiwick, within

place = governed.place

POWERS = {
    "openat2", "landlock", "ripgrep", "bubblewrap", "user namespaces", "inotify", "sqlite", "zstd",
    "fuse", "data directory", "descriptors", "commands", "bounded commands",
}  # fmt: skip


@pytest.mark.spec("CLI-3")
def test_the_doctor_examines_the_machine(tmp_path, monkeypatch):
    done = bailiwick("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    facts = {fact["name"]: fact for fact in document["machine"]}
    assert set(facts) == POWERS
    assert all(fact["works"] or fact["cost"] for fact in facts.values())
    assert all(fact["found"] for fact in facts.values())
    assert document["state"] is None
    monkeypatch.chdir(tmp_path)
    text = within("doctor").stdout
    assert all(name in text for name in POWERS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("CLI-3")
def test_the_doctor_says_what_a_lack_costs(tmp_path):
    """With nothing on the path, what is only found there is missing, and says so."""
    done = bailiwick("doctor", "--json", cwd=tmp_path, env={"PATH": str(tmp_path)})
    facts = {fact["name"]: fact for fact in json.loads(done.stdout)["machine"]}
    assert facts["bubblewrap"]["works"] is False
    assert "grant show" in facts["bubblewrap"]["cost"]
    assert facts["commands"]["works"] is False
    assert "install" in facts["commands"]["found"]


@pytest.mark.spec("CLI-3")
def test_the_doctor_examines_the_state(place):
    place.add_grant()
    state = place.json("doctor")["state"]
    assert state["ok"] is True
    assert state["roots"] == 3
    assert state["ledger"]["dropped"] == 0
    assert state["chain"]["ok"] is True
    assert "roots 3" in place("doctor").stdout


@pytest.mark.spec("CLI-3", "AUDIT-4")
def test_the_doctor_tells_of_records_that_were_lost(place):
    """What a process could not keep it says in the ledger: that is where the doctor looks."""

    async def lose():
        async with place.authority() as authority:
            await authority.ledger.append_authority(
                AuthorityRecord(
                    time_ns=1, request_id="q", subject="core:bailiwick", act="ledger",
                    outcome="failed", error_kind="io_error", details={"lost_records": "7"},
                )
            )  # fmt: skip

    asyncio.run(lose())
    assert place.json("doctor")["state"]["lost_records"] == 7
    assert "records that earlier processes lost: 7" in place("doctor").stdout


@pytest.mark.spec("CLI-3")
def test_the_doctor_survives_a_broken_state(place):
    place.add_grant()
    (place.directory / "state" / "authority.db").write_bytes(b"this is no database" * 500)
    for name in ("authority.db-wal", "authority.db-shm"):
        (place.directory / "state" / name).unlink(missing_ok=True)
    done = place.command("doctor")
    assert done.returncode == 1
    assert "the state cannot be used: " in done.stdout
    assert "Traceback" not in done.stderr
    (place.directory / "bailiwick.toml").write_text("[[root]\n")
    done = place("doctor", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["state"]["error"]["errorKind"] == "parse_error"
