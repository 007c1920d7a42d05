"""Commands that only look: they say what they look at, leave the grants alone, and show it all."""

import asyncio

import pytest

from bailiwick.approvals import Approval, Preview, Question
from bailiwick.grant import AgentRun
from tests.fronts.cli.command import within
from tests.fronts.cli.governed import Place

LOOKING = (
    ("audit", "head"), ("audit", "tail"), ("audit", "query"), ("audit", "verify"),
    ("audit", "export"), ("approvals", "list"), ("policy", "show"),
    ("policy", "explain", "agent_run:c/r", "read", "x", "--root", "workspace:demo"),
    ("grant", "list"), ("root", "list"), ("root", "show", "workspace:demo"), ("doctor",),
)  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BAILIWICK_CONFIG", raising=False)
    return Place(tmp_path)


def revision(place):
    """The grants as they stand, with everything that was ever done to them."""

    async def look():
        async with place.authority() as authority:
            return [(entry.id, entry.created_ns) for entry in authority.grants()]

    return asyncio.run(look())


@pytest.mark.spec("AUTH-5", "CLI-1")
@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_looking_ends_no_grant(place, arguments):
    """Else whoever looks with another configuration, or an older one, would take scopes away."""
    before = revision(place)
    config = place.directory / "bailiwick.toml"
    text = config.read_text()
    config.write_text(text.replace('subject = "agent_run:*"\nroot', 'subject = "user:x"\nroot'))
    assert place(*arguments).returncode == 0
    config.write_text(text)
    assert revision(place) == before


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize("action", [("grant", "list"), LOOKING[7]])
def test_who_looks_at_grants_is_told_that_the_configuration_says_something_else(place, action):
    assert "note: the configuration grants something else" in place(*action).stderr
    place("root", "trust", "workspace:demo")
    assert "note:" not in place(*action).stderr


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_the_configuration_that_was_found_is_named(place, arguments, monkeypatch):
    """One that lies in this directory may have been put there by anyone."""
    config = place.directory / "bailiwick.toml"
    assert f"using {config}\n" in place(*arguments).stderr
    assert "using" not in place(*arguments, "--config", config).stderr
    assert "using" not in place(*arguments, "--json").stderr
    monkeypatch.chdir(place.directory / "foreign")
    monkeypatch.setenv("BAILIWICK_CONFIG", str(config))
    done = within(*arguments, "--state", place.directory / "state")
    assert f"using {config}\n" in done.stderr


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize(
    "times",
    [
        ("--since", "99999999999999999d"), ("--since", "0001-01-01"), ("--until", "9999-12-31"),
        ("--since", "0001-01-01T00:00:00+14:00"),
    ],
)  # fmt: skip
def test_any_time_can_be_asked_for(place, times):
    place.add_grant()
    assert place.json("audit", "query", *times)["records"] != []
    assert place.json("audit", "query", "--until", "0001-01-01")["records"] == []
    assert place.json("audit", "query", "--since", "9999-12-31")["records"] == []


@pytest.mark.spec("CLI-1")
def test_a_root_that_is_not_there_is_named(place):
    command = ("grant", "add", "--subject", "user:ann", "--access", "read", "--root")
    assert "has no root workspace:typo" in place(*command, "workspace:typo").stderr
    for known in ("workspace:demo", "workspace:*", "*"):
        assert "note" not in place(*command, known).stderr


@pytest.mark.spec("CLI-1", "AUTH-5")
@pytest.mark.parametrize("path", ["/workspace/src", "/src", "../.."])
def test_the_path_of_a_grant_is_relative(place, path):
    command = ("grant", "add", "--subject", "user:ann", "--root", "workspace:demo")
    assert place(*command, "--access", "read", "--path", path).returncode == 1


@pytest.mark.spec("ASK-1", "CLI-1")
def test_a_list_of_questions_that_goes_on_says_so(place):
    async def ask():
        async with place.authority() as authority:
            for number in range(150):
                question = Question(
                    subject=AgentRun("c", "r"), grant_id="g", root="workspace:demo",
                    operation="write", verb="write_text", access=("write",),
                    paths=(f"f{number}",), paths_total=1, paths_sha256=f"{number}",
                    destination=None, reason="",
                    sources=("r",), prompt="", default="deny", preview=Preview(), front="cli",
                    request_id="x",
                )  # fmt: skip
                await authority.approvals.ask(question, asker=_no, wait_s=5)

    async def _no(approval: Approval):
        return "no"

    asyncio.run(ask())
    first = place("approvals", "list", "--only", "all")
    cursor = first.stderr.rpartition("there is more: --cursor ")[2].strip()
    assert len(first.stdout.splitlines()) == 101
    rest = place("approvals", "list", "--only", "denied", "--cursor", cursor)
    assert len(rest.stdout.splitlines()) == 51
    assert "there is more" not in rest.stderr
    assert place("approvals", "list", "--cursor", cursor).returncode == 2
