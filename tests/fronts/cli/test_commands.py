"""The commands on an authority, through the real command and a real state."""

import asyncio
import json
import os
import shlex
import signal
import subprocess

import pytest

from bailiwick.errors import ApprovalTimeout, BailiwickError
from bailiwick.grant import AgentRun
from bailiwick.state.database import Database
from bailiwick.state.ledger.chain import LEDGER
from bailiwick.state.ledger.durable import DurableLedger, ledger_key
from bailiwick.state.ledger.retention import FOLDER
from tests.fronts.cli import governed
from tests.fronts.cli.command import COMMAND, bailiwick, environment, within
from tests.state.rooms import question
from tests.waiting import until

place = governed.place


# --- roots -------------------------------------------------------------------------------------


@pytest.mark.spec("CLI-1", "CLI-2")
def test_roots_are_listed_and_shown(place):
    done = place.command("root", "list")
    assert done.stdout.splitlines()[0].split() == ["ROOT", "TRUSTED", "NAME", "LABELS"]
    assert "workspace:demo     yes      Demo  team=blue\n" in done.stdout
    assert "workspace:foreign  no\n" in done.stdout
    shown = {root["root"]: root for root in place.json("root", "list")}
    assert set(shown) == {"workspace:demo", "workspace:scratch", "workspace:foreign"}
    assert shown["workspace:demo"]["labels"] == {"team": "blue"}
    assert place.json("root", "show", "workspace:demo") == shown["workspace:demo"]
    assert "mount point  /workspace" in place("root", "show", "workspace:demo").stdout
    assert place.refused("root", "show", "workspace:nowhere") == "root_not_found"


@pytest.mark.spec("AUTH-7", "CLI-1")
def test_trust_is_given_and_taken_and_on_record(place):
    assert place.json("root", "untrust", "workspace:demo") == {
        "root": "workspace:demo", "trusted": False,
    }  # fmt: skip
    assert place.json("root", "show", "workspace:demo")["trusted"] is False
    assert place("root", "trust", "workspace:demo").stdout == "workspace:demo is trusted\n"
    assert place.json("root", "show", "workspace:demo")["trusted"] is True
    records = place.json("audit", "query", "--operation", "trust")["records"]
    assert [record["details"]["trusted"] for record in records] == ["true", "false"]
    assert {record["subject"] for record in records} == {"user:local"}
    assert {record["front"] for record in records} == {"cli"}
    assert place.refused("root", "trust", "workspace:nowhere") == "root_not_found"


# --- grants ------------------------------------------------------------------------------------


@pytest.mark.spec("AUTH-5", "CLI-1")
def test_a_grant_is_given_shown_and_ended(place):
    place("root", "trust", "workspace:demo")  # who changes something lets the configuration hold
    before = len(place.json("grant", "list"))
    added = place.add_grant("read,list", "--path", "src", "--expires-in", "8h", "--reason", "why")
    assert len(place.json("grant", "list")) == before + 1
    shown = place.json("grant", "show", added)
    assert (shown["subject"], shown["root"], shown["path"]) == ("user:ann", "workspace:demo", "src")
    assert shown["access"] == ["list", "read"]
    assert (shown["reason"], shown["kind"], shown["holds"]) == ("why", "standing", True)
    assert "access   list, read\n" in place("grant", "show", added).stdout
    assert place.json("grant", "show", added, "--format", "json") == shown
    assert place("grant", "revoke", added).stdout == "1 grant ended\n"
    assert len(place.json("grant", "list")) == before
    assert place.refused("grant", "show", "nonsense") != "internal_error"
    assert place.refused("grant", "revoke", "nonsense") != "internal_error"


@pytest.mark.parametrize(
    "wrong",
    [
        {"subject": "nobody"},
        {"subject": "agent_run:"},
        {"root": "nowhere"},
        {"path": "../outside"},
        {"path": ""},
        {"expires-in": "soon"},
        {"expires-in": "-8h"},
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(place, wrong):
    given = {"subject": "user:ann", "root": "workspace:demo", "access": "read", **wrong}
    arguments = [f"--{name}={value}" for name, value in given.items()]
    assert place.refused("grant", "add", *arguments) in {
        "parse_error", "path_outside_workspace", "root_not_found",
    }  # fmt: skip


@pytest.mark.spec("EXEC-2")
def test_grants_are_exported(place):
    source = os.path.realpath(place.directory / "project" / "src")
    grant = place.add_grant("read,list,metadata", "--path", "src")
    done = place.command("grant", "show", grant, "--format", "bwrap")
    assert shlex.split(done.stdout) == ["--ro-bind", source, "/workspace/src"]
    assert "rules of the policy are not part" in done.stderr
    show = ("grant", "show", grant, "--format")
    assert place.json(*show, "bwrap") == ["--ro-bind", source, "/workspace/src"]
    assert (
        place.command(*show, "bwrap", "--null").stdout == f"--ro-bind\0{source}\0/workspace/src\0"
    )
    assert place.json(*show, "docker") == [
        "--mount", f"type=bind,src={source},dst=/workspace/src,readonly",
    ]  # fmt: skip
    ruleset = json.loads(place(*show, "landlock").stdout)
    assert ruleset["pathBeneath"] == [
        {"allowedAccess": ["read_file", "read_dir"], "parent": [source]}
    ]


@pytest.mark.spec("EXEC-2")
def test_an_export_that_cannot_be_exact_is_refused(place):
    partial = place.add_grant("read,list,metadata,write")
    assert place.refused("grant", "show", partial, "--format", "bwrap") == "unsupported"
    done = place("grant", "show", partial, "--format", "bwrap", "--read-only")
    assert done.stdout.startswith("--ro-bind ")
    everything = ("grant", "add", "--subject", "user:ann", "--access", "read,list,metadata")
    for root in ("workspace:*", "workspace:scratch"):
        grant = place(*everything, "--root", root).stdout.strip()
        assert place.refused("grant", "show", grant, "--format", "docker") == "unsupported"
    missing = place.add_grant("read,list,metadata", "--path", "later")
    assert place.refused("grant", "show", missing, "--format", "bwrap") == "path_not_found"
    (place.directory / "project" / "out").symlink_to("../..")
    out = place.add_grant("read,list,metadata", "--path", "out")
    assert place.refused("grant", "show", out, "--format", "bwrap") == "symlink_escape"


@pytest.mark.spec("EXEC-2")
@pytest.mark.parametrize("known", ["bwrap", "docker", "landlock"])
def test_the_file_of_a_volume_is_not_handed_to_a_sandbox(place, known):
    within("volume", "create", "sqlite:agent.db")
    with open(place.directory / "bailiwick.toml", "a") as config:
        config.write(
            '\n[[root]]\nid = "kept"\nkind = "workspace"\nvolume = "sqlite:agent.db"\n'
            'mount_point = "/kept"\ntrusted = true\n'
        )
    command = ("grant", "add", "--subject", "user:ann", "--root", "workspace:kept")
    grant = place(*command, "--access", "read,list,metadata").stdout.strip()
    assert grant
    assert place.refused("grant", "show", grant, "--format", known) == "unsupported"


@pytest.mark.spec("EXEC-2", "AUTH-7")
def test_an_untrusted_root_is_exported_for_looking_only(place):
    command = ("grant", "add", "--subject", "user:ann", "--root", "workspace:foreign")
    grant = place(*command, "--access", "read,list,metadata,write,delete,move").stdout.strip()
    done = place("grant", "show", grant, "--format", "bwrap")
    assert done.stdout.startswith("--ro-bind ")
    assert "not trusted" in done.stderr


@pytest.mark.spec("EXEC-2", "AUTH-5")
def test_a_grant_that_has_ended_is_not_exported(place):
    grant = place.add_grant()
    place("grant", "revoke", grant)
    assert place.refused("grant", "show", grant, "--format", "bwrap") in {
        "grant_revoked", "path_not_found",
    }  # fmt: skip


# --- policy ------------------------------------------------------------------------------------


@pytest.mark.spec("POL-2", "CLI-1")
def test_the_rules_are_shown_and_explained(place):
    shown = place("policy", "show").stdout
    assert shown.index("migrations/**") < shown.index("**/.env")
    assert {rule["origin"] for rule in place.json("policy", "show")} >= {"operator", "protective"}
    command = ("policy", "explain", "agent_run:c/r", "write_text", "migrations/1.sql")
    assert place.refused(*command) == "parse_error"  # which root?
    done = place(*command, "--root", "workspace:demo")
    assert "write: ask" in done.stdout
    explained = place.json("policy", "explain", "user:ann", "read", ".env", "--root",
                           "workspace:demo")  # fmt: skip
    assert explained["decision"] == "allow"
    absolute = place.json("policy", "explain", "agent_run:c/r", "read", "/workspace/.env", "--root",
                          "workspace:demo")  # fmt: skip
    assert (absolute["path"], absolute["decision"]) == (".env", "ask")


@pytest.mark.spec("EXEC-1", "CLI-1")
def test_commands_are_explained_and_execute_is_granted_by_name(place):
    command = ("policy", "explain", "agent_run:c/r", "exec", ".", "--root", "workspace:demo")
    explained = place.json(*command, "--command", "git commit -m 'a b'")
    assert (explained["decision"], explained["command"]) == ("ask", "git commit -m 'a b'")
    assert explained["accesses"][0]["rule"]["id"] == "kind.workspace.agent-commands"
    assert "git commit -m 'a b': ask" in place(*command, "--command", "git commit -m 'a b'").stdout
    assert "command" not in place.json(*command)
    for wrong in ("", "git 'x"):
        assert place.refused(*command, "--command", wrong) == "parse_error"
    elsewhere = ("policy", "explain", "user:a", "read", ".", "--root", "workspace:demo")
    assert place.refused(*elsewhere, "--command", "git") == "parse_error"
    given = ("--subject", "agent_run:x/*", "--root", "workspace:demo", "--access")
    place("grant", "add", *given, "read,execute")
    place("grant", "add", *given, "read,list")
    held = [each["access"] for each in place.json("grant", "list")]
    assert ["execute", "read"] in [sorted(each) for each in held]
    assert ["list", "read"] in [sorted(each) for each in held]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("nobody", "read", "a"), "parse_error"),
        (("user:a", "dance", "a"), "parse_error"),
        (("user:a", "read", "../a"), "path_outside_workspace"),
        (("user:a", "read", ""), "parse_error"),
    ],
)
def test_a_question_that_makes_no_sense(place, arguments, kind):
    assert place.refused("policy", "explain", *arguments, "--root", "workspace:demo") == kind


@pytest.mark.spec("POL-2")
def test_a_configuration_is_checked_without_being_used(tmp_path):
    good = tmp_path / "good.toml"
    good.write_text(governed.CONFIG)
    done = bailiwick("policy", "check", good)
    assert (done.returncode, done.stdout) == (0, "in order: 3 roots, 1 grants, 1 rules\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.toml"]
    bad = tmp_path / "bad.toml"
    bad.write_text(governed.CONFIG.replace('effect = "ask"', 'effect = "aks"'))
    done = within("policy", "check", bad)
    assert done.returncode == 1
    assert done.stderr.startswith(f"parse_error: {bad}:")
    document = json.loads(within("policy", "check", bad, "--json").stderr)
    assert document["errorKind"] == "parse_error"
    bad.write_bytes(b"\xff")
    assert within("policy", "check", bad).stderr.startswith("parse_error: ")
    assert within("policy", "check", tmp_path / "no").stderr.startswith("path_not_found: ")
    assert within("policy", "check", tmp_path).stderr.startswith("io_error: ")
    assert within("policy", "check", "/dev/zero").stderr.startswith("parse_error: ")


@pytest.mark.spec("POL-2", "NOTE-1")
def test_a_webhook_that_a_server_would_refuse_is_found_by_the_check(tmp_path):
    config, secret = tmp_path / "bailiwick.toml", tmp_path / "secret"
    config.write_text('[notify]\nurl = "https://example.org/hook"\nsecret_file = "secret"\n')

    def check():
        return within("policy", "check", config)

    assert check().stderr.startswith("io_error: the secret of the webhook cannot be read")
    secret.write_text("x" * 32)
    secret.chmod(0o644)
    assert check().stderr.startswith("permission_denied: others may read the secret")
    secret.chmod(0o600)
    assert check().stdout == "in order: 0 roots, 0 grants, 0 rules\n"
    secret.write_text("short")
    assert check().stderr.startswith("parse_error: the secret of a webhook has 16 to 4096 bytes")
    config.write_text(config.read_text().replace("https://", "https://me:word@"))
    assert check().stderr.startswith("parse_error: the address of a webhook has neither user")


@pytest.mark.spec("CLI-2")
def test_where_the_configuration_comes_from(place):
    config = place.directory / "bailiwick.toml"
    elsewhere = place.directory / "foreign"
    state = ("--state", place.directory / "state")
    by_variable = {"BAILIWICK_CONFIG": str(config)}
    done = bailiwick("root", "list", *state, cwd=elsewhere, env=by_variable)
    assert "workspace:demo" in done.stdout
    done = bailiwick("root", "list", *state, "--config", config, cwd=elsewhere)
    assert "workspace:demo" in done.stdout
    done = bailiwick("root", "list", *state, "--config", "nowhere.toml", cwd=elsewhere)
    assert done.returncode == 1
    config.write_text('[[root]]\nid = 1\nkind = "workspace"\n')
    done = place("root", "list")
    assert done.returncode == 1
    assert done.stderr.startswith(f"using {config}\nparse_error: ")
    assert "bailiwick.toml:2:" in done.stderr


# --- approvals ---------------------------------------------------------------------------------


async def waiting(authority):
    """Until a question is on the desk."""
    await until(authority.approvals.pending)


def asking(place, answer):
    """An agent writes what must be asked about; meanwhile a person runs the command."""

    async def both():
        async with place.authority() as authority:
            fs = await authority.request_root(
                subject=AgentRun(conversation_id="c", run_id="r"), root="workspace:demo",
                access={"read", "write"}, reason="a new table", front="python",
            )  # fmt: skip
            writing = asyncio.create_task(fs.write_text("migrations/1.sql", "create\n"))
            await asyncio.wait_for(waiting(authority), 120)
            (approval,) = json.loads(
                (await asyncio.to_thread(place.command, "approvals", "list", "--json")).stdout
            )["approvals"]
            person = ("approvals", "answer", approval["id"], answer)
            shown = await asyncio.to_thread(place.command, "approvals", "show", approval["id"])
            done = await asyncio.to_thread(place.command, *person)
            try:
                result = await asyncio.wait_for(writing, 120)
            except BailiwickError as error:
                result = error
            return approval, shown, done, result

    return asyncio.run(both())


@pytest.mark.spec("ASK-1", "ASK-2")
def test_a_question_is_shown_and_answered_from_another_process(place):
    approval, shown, done, result = asking(place, "once")
    assert approval["question"]["subject"] == "agent_run:c/r"
    assert approval["question"]["paths"] == ["migrations/1.sql"]
    assert "+create" in shown.stdout
    assert "a new table" in shown.stdout
    assert done.stdout.startswith(f"{approval['id']}: ")
    assert result.created
    assert (place.directory / "project/migrations/1.sql").read_text() == "create\n"
    assert place.json("approvals", "list")["approvals"] == []
    (settled,) = place.json("approvals", "list", "--only", "all")["approvals"]
    assert (settled["answer"], settled["answered_by"]) == ("once", "user:local")
    assert place.refused("approvals", "answer", approval["id"], "no") == "approval_denied"


@pytest.mark.spec("ASK-1")
def test_no_is_no_and_always_makes_a_rule(place):
    _, _, _, result = asking(place, "no")
    assert result.kind == "approval_denied"
    assert not (place.directory / "project/migrations/1.sql").exists()
    _, _, _, result = asking(place, "always")
    assert result.created
    assert place.json("policy", "show")[0]["origin"] == "remembered"


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("approvals", "show", "nonsense"), "`bailiwick approvals list --only all`"),
        (("approvals", "answer", "nonsense", "once"), "`bailiwick approvals list --only all`"),
        (("grant", "show", "nonsense"), "`bailiwick grant list`"),
        (("grant", "revoke", "nonsense"), "`bailiwick grant list`"),
    ],
)
def test_who_names_what_is_not_there_is_told_where_to_look(place, arguments, where):
    assert f"hint: {where}" in place(*arguments).stderr


@pytest.mark.spec("ASK-1", "CLI-2")
def test_a_list_of_questions_says_in_json_that_it_was_cut_and_goes_on(place):
    async def put(count):
        async with place.authority() as authority:
            for number in range(count):
                # So many questions of one subject would be one too many.
                asked = question(subject=AgentRun("c", f"{number % 2}"), paths_sha256=f"{number}")
                with pytest.raises(ApprovalTimeout):
                    await authority.approvals.ask(asked, asker=None, wait_s=0)

    asyncio.run(put(101))
    waiting = place.json("approvals", "list")
    assert (waiting["kind"], len(waiting["approvals"])) == ("approvals", 101)
    assert (waiting["truncated"], waiting["nextCursor"]) == (False, None)
    done = place("approvals", "list", "--only", "all", "--json")
    page = json.loads(done.stdout)
    assert (len(page["approvals"]), page["truncated"], done.stderr) == (100, True, "")
    rest = place.json("approvals", "list", "--only", "all", "--cursor", page["nextCursor"])
    assert (len(rest["approvals"]), rest["truncated"], rest["nextCursor"]) == (1, False, None)
    assert len({each["id"] for each in page["approvals"] + rest["approvals"]}) == 101
    shown = place("approvals", "list", "--only", "all")
    assert f"there is more: --cursor {page['nextCursor']}\n" in shown.stderr


def test_an_approval_that_is_not_there(place):
    assert place.refused("approvals", "show", "nonsense") == "path_not_found"
    assert place.refused("approvals", "answer", "nonsense", "once") == "path_not_found"
    assert place("approvals", "list").stdout == "nothing waits for an answer\n"


# --- audit -------------------------------------------------------------------------------------


@pytest.mark.spec("AUDIT-3", "CLI-1")
def test_the_ledger_is_read_queried_and_exported(place):
    for number in range(3):
        place.add_grant("read", "--reason", f"number {number}")
    tail = place("audit", "tail", "-n", "2").stdout.splitlines()
    assert len(tail) == 2
    assert all("user:local grant workspace:demo" in line for line in tail)
    lines = place("audit", "tail", "--json", "-n", "2").stdout.splitlines()
    assert [json.loads(line)["operation"] for line in lines] == ["grant", "grant"]
    page = place.json("audit", "query", "--subject", "user:local", "--limit", "2")
    assert len(page["records"]) == 2
    rest = place.json("audit", "query", "--subject", "user:local", "--cursor", page["next_cursor"])
    assert [record["seq"] for record in page["records"]] > [r["seq"] for r in rest["records"]]
    assert place.json("audit", "query", "--since", "1h", "--outcome", "denied")["records"] == []
    assert place.json("audit", "query", "--until", "2020-01-01")["records"] == []
    exported = place.command("audit", "export", "--jsonl").stdout.splitlines()
    numbers = [json.loads(line)["seq"] for line in exported]
    assert numbers == sorted(numbers)
    assert len(numbers) >= 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "--cursor", "x"),
        ("query", "--glob", "["),
        ("verify", "--head", "x"),
    ],
)
def test_a_query_that_makes_no_sense(place, arguments):
    assert place.refused("audit", *arguments) == "parse_error"


@pytest.mark.spec("AUDIT-3")
def test_the_ledger_is_verified_against_a_kept_head(place):
    place.add_grant()
    head = place("audit", "head").stdout.strip()
    place.add_grant()
    done = place.command("audit", "verify", "--head", head)
    assert done.returncode == 0
    assert place.json("audit", "verify", "--head", head)["tail_proved"] is True
    unproved = place.json("audit", "verify")
    assert (unproved["ok"], unproved["tail_proved"]) == (True, False)
    newer = place.json("audit", "head")["head"]
    _edit(place, "DELETE FROM ledger WHERE seq = (SELECT max(seq) FROM ledger)")
    assert place("audit", "verify").returncode == 0  # a cut tail shows against a head only
    done = place("audit", "verify", "--head", newer)
    assert done.returncode == 1
    assert json.loads(place("audit", "verify", "--head", newer, "--json").stdout)["ok"] is False


@pytest.mark.spec("AUDIT-3")
def test_a_record_that_was_changed_is_found(place):
    place.add_grant()
    place.add_grant()
    _edit(place, "UPDATE ledger SET time_ns = time_ns + 1 WHERE seq = 2")
    done = place("audit", "verify")
    assert done.returncode == 1
    assert "2" in done.stdout
    assert place("doctor").returncode == 1


@pytest.mark.spec("AUDIT-3")
def test_records_that_were_moved_out_are_verified_too(place):
    place.add_grant()
    asyncio.run(_move_out(place.directory / "state"))
    place.add_grant()
    assert place("audit", "verify", "--archives").returncode == 0
    (archive,) = place.json("audit", "verify", "--archives")["archives"]
    assert (archive["ok"], archive["records"] > 0) == (True, True)
    file = place.directory / "state" / FOLDER / archive["archive"]
    file.write_bytes(file.read_bytes().replace(b"user:", b"core:", 1))
    assert place("audit", "verify").returncode == 0  # what is in the ledger itself is as it was
    done = place("audit", "verify", "--archives")
    assert done.returncode == 1
    assert f"{archive['archive']}: record 2 is not as it was written" in done.stdout


async def _move_out(state):
    """What housekeeping does with ``retention_days``, for all that there is."""
    database = Database.open(str(state), (LEDGER,))
    try:
        ledger = DurableLedger.open(database, ledger_key(database))
        await ledger.retain(0)
        await ledger.aclose()
    finally:
        database.close()


def _edit(place, statement):
    """What someone with the database in their hands could do."""
    import apsw

    connection = apsw.Connection(str(place.directory / "state" / "authority.db"))
    connection.execute(statement)
    connection.close()


@pytest.mark.spec("AUDIT-3")
def test_the_ledger_is_followed_across_processes(place):
    place.add_grant("read", "--reason", "before")
    child = subprocess.Popen(
        [COMMAND, "audit", "tail", "-f", "--json", "-n", "1", "--state", "state"],
        cwd=place.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    try:
        assert json.loads(child.stdout.readline())["operation"] == "grant"
        place("root", "untrust", "workspace:demo")
        assert json.loads(child.stdout.readline())["operation"] == "trust"
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=120) == 130
        assert child.stderr.read() == ""
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.spec("ERR-4")
def test_every_kind_of_error_is_said_in_the_same_words(capsys):
    """One table of kinds, one way to say them: text and JSON, nothing unescaped, exit code 1."""
    from bailiwick.errors import KINDS
    from bailiwick.fronts.cli.authority_session import guarded

    for kind, error_class in KINDS.items():
        for as_json in (False, True):

            def fail(error_class=error_class):
                raise error_class("a \x1b[2J word", path="a\nb", hint="do", decided_by="rule-1")

            assert guarded(fail, as_json=as_json) == 1
            shown = capsys.readouterr()
            assert shown.out == ""
            assert "\x1b" not in shown.err
            if as_json:
                document = json.loads(shown.err)
                assert document["errorKind"] == kind
                assert (document["path"], document["decidedBy"]) == ("a\nb", "rule-1")
                assert document["status"] == error_class.default_status
            else:
                first, decided, hint = shown.err.splitlines()
                assert first == rf"{kind}: a\x0ab: a \x1b[2J word"
                assert (decided, hint) == ("decided by: rule-1", "hint: do")


def test_what_is_no_error_of_ours_is_an_internal_one(capsys):
    from bailiwick.fronts.cli.authority_session import guarded

    def fail():
        raise LookupError("odd")

    assert guarded(fail, as_json=False) == 1
    assert capsys.readouterr().err.startswith("internal_error: LookupError: odd\n")
