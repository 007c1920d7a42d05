"""What a configuration means, and what it says when it means nothing."""

import re
from pathlib import Path

import msgspec
import pytest

from bailiwick.config import AskConfig, AuditConfig, StateConfig, load
from bailiwick.errors import ParseError
from bailiwick.grant import Quota
from bailiwick.policies.rules import RulePolicy
from tests.policies.support import grant_for, said, word

WHOLE = (Path(__file__).parent / "whole.toml").read_text()


def loaded(text):
    return load(text, source="bailiwick.toml")


def root(text="", kind="workspace", place='path = "./p"'):
    return loaded(f'[[root]]\nid = "demo"\nkind = "{kind}"\n{place}\n{text}\n').roots[0]


def refused(text):
    with pytest.raises(ParseError) as caught:
        loaded(text)
    error = caught.value
    place = re.match(r"bailiwick\.toml:(\d+):(\d+): ", error.message)
    assert place, error.message
    assert (int(place[1]), int(place[2])) == (error.details["line"], error.details["column"])
    return error


# --- what it means ---------------------------------------------------------------------------


def test_nothing_is_a_configuration():
    config = loaded("")
    assert (config.state, config.ask, config.audit) == (StateConfig(), AskConfig(), AuditConfig())
    assert (config.roots, config.grants, config.rules, config.off) == ((), (), (), ())
    assert config.server is None


@pytest.mark.spec("POL-2", "AUTH-2", "AUTH-5", "AUTH-8")
def test_the_configuration_of_the_manual():
    config = loaded(WHOLE)
    demo, grant, rule = config.roots[0], config.grants[0], config.rules[0]
    assert (demo.name, demo.path, demo.mount_point, demo.trusted) == (
        "workspace:demo", "./project", "/workspace", True,
    )  # fmt: skip
    assert (demo.history, demo.copy_in, demo.labels) == ("on", ("~/Downloads",), {"team": "blue"})
    assert demo.limits.max_file_bytes == 100 * 2**20
    assert (demo.limits.grep_seconds_max, demo.limits.walk_entries_max) == (5.0, 1000)
    assert demo.networks == {"none", "loopback"}
    assert (demo.limits.exec_seconds_max, demo.limits.session_seconds_max) == (90.0, 90.0)
    assert (demo.limits.exec_memory_bytes_max, demo.limits.exec_processes_max) == (2**30, 64)
    assert demo.quota == Quota(bytes=2**30, files=100_000, operations_per_minute=60_000)
    assert (grant.subject, grant.root, grant.path, grant.expires_in_s, grant.reason) == (
        "agent_run:*", "workspace:demo", "src", 28_800, "coding agent",
    )  # fmt: skip
    assert grant.access == {"read", "list", "metadata", "write"}
    assert (rule.id, rule.effect, rule.operation) == ("rule.1", "ask", ("write", "delete", "move"))
    assert (rule.path, rule.origin) == (("migrations/**",), "operator")
    assert WHOLE.splitlines()[rule.line - 1].startswith("[[rule]]")
    assert (config.ask.timeout_s, config.ask.surface) == (300, "console")
    assert (config.audit.paths, config.audit.retention_days, config.audit.otel) == (
        "raw",
        365,
        False,
    )
    assert (config.tokens[0].name, config.tokens[0].subject) == ("ci-agent", "agent_run:ci/main")
    assert config.extensions[0].access == {"workspace": {"read", "list", "metadata", "watch"}}
    assert config.off == ("protect.env",)
    assert config.server.port == 4180


@pytest.mark.spec("POL-2")
def test_the_rules_of_a_configuration_decide():
    config = loaded(WHOLE)
    policy = RulePolicy(config.rules, off=config.off)
    assert word(said(policy, grant_for(), "edit", "migrations/1.sql")) == "ask"
    assert word(said(policy, grant_for(), "read", ".env")) == "allow"


@pytest.mark.spec("LINK-1", "LINK-4")
@pytest.mark.parametrize("kind", ["workspace", "artifact", "knowledge", "downloads", "secret",
                                  "extension-storage"])  # fmt: skip
@pytest.mark.parametrize("trusted", [True, False])
def test_the_defaults_of_a_kind(kind, trusted):
    made = root(f"trusted = {str(trusted).lower()}", kind=kind)
    assert made.symlinks == ("in-root" if kind == "workspace" else "reject")
    assert made.hardlinks == ("allow" if kind == "workspace" and trusted else "reject")
    assert (made.cross_mounts, made.containment, made.durability) == (True, "auto", "full")
    assert (made.new_file_mode, made.names, made.history) == ("private", "posix", "off")


@pytest.mark.spec("AUTH-7")
def test_a_root_is_untrusted_until_someone_says_so():
    assert root().trusted is False


@pytest.mark.spec("DISK-5")
def test_modes_of_new_files():
    assert root("new_file_mode = 0o640").new_file_mode == 0o640
    assert root('new_file_mode = "umask"').new_file_mode == "umask"
    assert root('new_file_mode = "private"', kind="secret").new_file_mode == "private"


def test_what_only_a_directory_has_is_not_said_of_memory():
    made = root(place="memory = true")
    assert (made.memory, made.path, made.hardlinks, made.durability) == (True, None, None, None)


def test_a_mark_at_the_beginning_and_line_endings_of_windows_are_taken():
    text = "\ufeff" + WHOLE.replace("\n", "\r\n")
    assert loaded(text).roots == loaded(WHOLE).roots


# --- what it refuses -------------------------------------------------------------------------

ROOT = '[[root]]\nid = "a"\nkind = "workspace"\npath = "p"\n'
MEMORY = '[[root]]\nid = "a"\nkind = "workspace"\nmemory = true\n'
GRANT = '[[grant]]\nsubject = "user:a"\nroot = "workspace:a"\naccess = ["read"]\n'
RULE = '[[rule]]\neffect = "ask"\n'

MISTAKES = [
    # text, line, column, what is said
    ("a", 1, 2, "not TOML"),
    ("x = 1\ny = [1,\n", 3, 1, "not TOML"),
    ('s = "a', 1, 7, "not TOML"),
    ("a = 1\na = 2", 2, 6, "not TOML"),
    ("roots = 1", 1, 1, "did you mean 'root'"),
    ("[sever]", 1, 1, "did you mean 'server'"),
    ("[root]\nid = 1", 1, 1, "write [[root]]"),
    ("root = [1]", 1, 9, "write [[root]]"),
    ("[[ask]]", 1, 1, "write [ask]"),
    ("ask = 3", 1, 7, "one table"),
    ("[[root]]", 1, 1, "'kind' is missing"),
    (ROOT + "trustd = true", 5, 1, "did you mean 'trusted'"),
    (ROOT + "trusted = 1", 5, 11, "true or false"),
    (ROOT + 'trusted = "yes"', 5, 11, "true or false"),
    (ROOT + 'symlinks = "in_root"', 5, 12, "did you mean 'in-root'"),
    (ROOT + 'hardlinks = "deny"', 5, 13, "no value of 'hardlinks'"),
    (ROOT + "new_file_mode = 0o1777", 5, 17, "mode of new files"),
    (ROOT + "new_file_mode = true", 5, 17, "mode of new files"),
    (ROOT + 'mount_point = "workspace"', 5, 15, "absolute"),
    (ROOT + 'mount_point = "/a/../b"', 5, 15, "absolute"),
    (ROOT + 'memory = true', 5, 10, "one place"),
    (ROOT + 'volume = "sqlite:x"', 5, 10, "one place"),
    (ROOT + 'display_name = ""', 5, 16, "empty"),
    (ROOT + "labels = {a = 1}", 5, 15, "takes text"),
    (ROOT + "limits = {max_file_size = 1}", 5, 11, "did you mean 'max_file_bytes'"),
    (ROOT + 'limits = {max_file_bytes = "5 MB"}', 5, 28, "MiB"),
    (ROOT + "limits = {max_file_bytes = 0}", 5, 28, "out of range"),
    (ROOT + 'limits = {glob_max = "5 MiB"}', 5, 22, "whole number"),
    (ROOT + "limits = {glob_default = 9, glob_max = 8}", 5, 26, "larger than"),
    (ROOT + "limits = {grep_seconds_max = -1}", 5, 30, "out of range"),
    (ROOT + "quota = {bytes = -1}", 5, 18, "from 1"),
    (ROOT + "quota = {megabytes = 1}", 5, 10, "not known"),
    (ROOT + 'ignore_files = ["a/b"]', 5, 17, "name of a file"),
    (ROOT + 'copy_in = "x"', 5, 11, "list of texts"),
    (ROOT + 'copy_in = ["x", 1]', 5, 17, "takes text"),
    (ROOT + 'copy_in = ["x", "x"]', 5, 17, "twice"),
    (ROOT + ROOT, 5, 1, "line 1"),
    ('[[root]]\nid = "a"\nkind = "workspce"\npath = "p"', 3, 8, "did you mean 'workspace'"),
    ('[[root]]\nid = "a*"\nkind = "workspace"\npath = "p"', 2, 6, "names no root"),
    ('[[root]]\nid = "a"\nkind = "temp"\npath = "p"', 3, 8, "not configured"),
    ('[[root]]\nid = "a"\nkind = "workspace"', 1, 1, "no place"),
    ('[[root]]\nid = "a"\nkind = "workspace"\nmemory = false', 4, 10, "left out"),
    ('[[root]]\nid = "a"\nkind = "secret"\npath = "p"\nnew_file_mode = "umask"', 5, 17, "private"),
    (MEMORY + 'history = "on"', 5, 11, "no history"),
    (MEMORY + 'durability = "full"', 5, 14, "roots with a path"),
    (MEMORY + 'copy_in = ["x"]', 5, 11, "roots with a path"),
    (GRANT + 'path = "../x"', 5, 8, "outside"),
    (GRANT + 'path = "x/../.."', 5, 8, "outside"),
    (GRANT + 'path = "/x"', 5, 8, "relative to its root"),
    (GRANT + 'id = "a:b"', 5, 6, "no id of a grant"),
    (GRANT + 'id = "a"\n' + GRANT + 'id = "a"', 10, 6, "the id of the grant on line 1"),
    (GRANT + f'reason = "{"x" * 1001}"', 5, 10, "at most 1000 characters"),
    (GRANT + 'expires_in = "8"', 5, 14, "no duration"),
    (GRANT + "expires_in = 8", 5, 14, "takes text"),
    (GRANT + 'expires_in = "0 s"', 5, 14, "longer than nothing"),
    (GRANT + 'allowed = ["a", "b["]', 5, 17, "counterpart"),
    (GRANT.replace('["read"]', '["read", "wrote"]'), 4, 19, "did you mean 'write'"),
    (GRANT.replace('["read"]', "[]"), 4, 10, "at least one"),
    (GRANT.replace("user:a", "usr:a"), 2, 11, "did you mean 'user'"),
    (GRANT.replace("workspace:a", "work:a"), 3, 8, "names no root"),
    ('[[token]]\nname = "t"\nsubject = "agent_run:*"', 3, 11, "without *"),
    ('[[token]]\nname = "t"\nsubject = "user:a"\n' * 2, 4, 1, "line 1"),
    ('[[extension]]\nid = "x"\npermissions = ["filesystem:workspace:reed"]', 3, 16, "did you mean"),
    ('[[extension]]\nid = "x"\npermissions = "filesystem:workspace:read"', 3, 15, "list"),
    ("[[rule]]", 1, 1, "'effect' is missing"),
    ('[[rule]]\nefect = "deny"', 2, 1, "did you mean 'effect'"),
    (RULE + 'effects = "x"', 3, 1, "did you mean 'effect'"),
    (RULE + 'subject = "agent:*"', 3, 11, "agent_run"),
    (RULE + 'root = ["workspace:*", "x:*"]', 3, 24, "names no root"),
    (RULE + 'operation = ["read", "rite"]', 3, 22, "did you mean 'write'"),
    (RULE + 'access = "run"', 3, 10, "no value of 'access'"),
    (RULE + "command = []", 3, 11, "leave it out"),
    (RULE + 'command = ["make", " git *"]', 3, 20, "space around"),
    (RULE + 'command = "a\\nb"', 3, 11, "printable"),
    (RULE + 'command = "make"\noperation = ["exec", "write"]', 3, 11, "about running"),
    (RULE + 'command = "make"\naccess = "write"', 3, 11, "about running"),
    (RULE + 'exact_command = "make"\naccess = "read"', 3, 17, "about running"),
    (RULE + 'command = "make"\nexact_command = "make"', 4, 17, "either"),
    ('[[rule]]\neffect = "hide"\ncommand = "make"', 3, 11, "hidden"),
    (RULE + 'operation = "exec"\naccess = "write"', 4, 10, "uses this access"),
    (RULE + "path = []", 3, 8, "leave it out"),
    (RULE + 'path = ["ok", "/abs"]', 3, 15, "absolute"),
    (RULE + 'path = "a{b"', 3, 8, "counterpart"),
    (RULE + 'exempt = "a"', 3, 10, "no path"),
    (RULE + 'id = "protect.env"', 3, 6, "reserved"),
    (RULE + 'holds = "owners"', 3, 9, "did you mean 'owner'"),
    (RULE + 'default = "ask"', 3, 11, "no value of 'default'"),
    ('[[rule]]\neffect = "deny"\ndefault = "deny"', 3, 11, "only a rule that asks"),
    ('[[rule]]\neffect = "hide"\naccess = "read"', 3, 10, "hides"),
    ('[[rule]]\neffect = "hide"\noperation = ["read"]', 3, 13, "hides"),
    ('[[rule]]\nid = "x"\neffect = "deny"\n' * 2, 4, 1, "line 1"),
    ('[policy]\noff = ["protect.envs"]', 2, 8, "did you mean 'protect.env'"),
    ('[policy]\non = ["protect.env"]', 2, 1, "not known"),
    ('[ask]\ntimeout = "5"', 2, 11, "no duration"),
    ('[ask]\nsurface = "consol"', 2, 11, "did you mean 'console'"),
    ('[audit]\npaths = "hashed"', 2, 9, "no value of 'paths'"),
    ("[audit]\nretention_days = 0", 2, 18, "from 1"),
    ("[audit]\nretention_days = 9\n[state]\nmemory = true", 2, 18, "no place"),
    ('[state]\npath = "x"\nmemory = true', 3, 10, "either"),
    ("[server]\nport = 70000", 2, 8, "65535"),
    ('[server]\ntls = {certificate = "x"}', 2, 1, "'key' is missing"),
    ("a = \"\ud800\"", 1, 6, "not valid text"),
    ("a = " + "1" * 5000, 1, 5005, "not TOML"),
    ("a = " + "[" * 5000, 1, 1, "nested too deeply"),
    ("#" * (1024 * 1024 + 1), 1, 1, "too large"),
]  # fmt: skip


@pytest.mark.spec("POL-2", "ERR-5")
@pytest.mark.parametrize(
    ("text", "line", "column", "what"), MISTAKES, ids=[repr(row[0][-30:]) for row in MISTAKES]
)
def test_a_mistake_is_named_with_its_place(text, line, column, what):
    error = refused(text)
    assert what in str(error)
    assert (error.details["line"], error.details["column"]) == (line, column), str(error)


@pytest.mark.spec("PATH-5")
def test_a_message_does_not_repeat_what_could_repaint_a_terminal():
    error = refused('[[rule]]\neffect = "\\u001b[2J"')
    assert "\x1b" not in str(error)
    assert len(str(refused(f'[[rule]]\neffect = "{"x" * 5000}"'))) < 400


# --- what is not built -----------------------------------------------------------------------


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize("before", ["", WHOLE], ids=["alone", "in a whole file"])
def test_a_volume_that_is_none_is_refused_by_name_and_place(before):
    text = before + '\n[[root]]\nid = "fleet"\nkind = "workspace"\nvolume = "postgres://x"\n'
    with pytest.raises(ParseError, match="address of a database") as caught:
        loaded(text)
    line, column = caught.value.details["line"], caught.value.details["column"]
    assert caught.value.message.startswith(f"bailiwick.toml:{line}:{column}: ")
    assert text.splitlines()[line - 1][column - 1 :] == '"postgres://x"'
    assert "postgres://user@host/database" in caught.value.hint


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    ("text", "taken", "value"),
    [
        (ROOT + 'history = "off"', "roots.0.history", "off"),
        (ROOT + 'history = "on"\nkeep_versions_days = 7', "roots.0.keep_versions_days", 7),
        ("[audit]\notel = false", "audit.otel", False),
        ('[ask]\nsurface = "console"', "ask.surface", "console"),
        ("[server]", "server.workers", 1),
        ('[[token]]\nname = "t"\nsubject = "user:a"', "tokens.0.subject", "user:a"),
        (RULE, "rules.0.effect", "ask"),
    ],
)
def test_what_is_built_is_taken(text, taken, value):
    found = msgspec.to_builtins(loaded(text))
    for name in taken.split("."):
        found = found[int(name) if name.isdigit() else name]
    assert found == value


@pytest.mark.spec("EXEC-4", "EXEC-5")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('exec = {netwrok = "none"}', "netwrok"), ('exec = {network = "all"}', "all"),
        ('exec = {timeout = "0 s"}', "more than no time"), ("exec = {timeout = 3}", "takes text"),
        ('exec = {memory = "2 GB"}', "no size"), ("exec = {processes = 1}", "processes"),
        ("exec = 3", "exec"), ('exec = {sandbox = "jail"}', "jail"),
        ('exec = {sandbox = "none", network = "loopback"}', "loopback"),
        ('exec = {memory = "2 GiB"}\nlimits = {exec_memory_bytes_max = 5}', "say the same"),
    ],
)  # fmt: skip
def test_what_programs_may_use_is_said_exactly(text, said):
    error = refused(f'[[root]]\nid = "demo"\nkind = "workspace"\npath = "."\n{text}\n')
    assert said in error.message


@pytest.mark.spec("EXEC-5")
@pytest.mark.parametrize("word", ["bubblewrap", "landlock", "none"])
def test_a_weaker_sandbox_is_one_that_was_written(word):
    assert root().sandbox == root('exec = {memory = "1 GiB"}').sandbox == "bubblewrap"
    assert root(f'exec = {{sandbox = "{word}"}}').sandbox == word
    networks = root(f'exec = {{sandbox = "{word}", network = "host"}}').networks
    assert ("loopback" in networks) == (word == "bubblewrap")


@pytest.mark.spec("EXEC-4")
def test_programs_have_no_network_unless_it_is_said():
    assert root().networks == root('exec = {memory = "1 GiB"}').networks == {"none"}
    assert root('exec = {network = "host"}').networks == {"none", "loopback", "host"}
    longer = root('exec = {timeout = "1 min"}\nlimits = {session_seconds_max = "8 h"}').limits
    assert (longer.exec_seconds_max, longer.session_seconds_max) == (60, 8 * 3600)
