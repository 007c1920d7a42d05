"""Rules about commands: what they match, what they must not, and that no decision is another's."""

import shlex
import shutil
import subprocess
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.approvals import RememberedRule
from bailiwick.errors import ParseError
from bailiwick.grant import ROOT_KINDS
from bailiwick.operations import (
    ALL_ACCESS,
    COMMAND_BYTES_MAX,
    EXEC,
    FILE_ACCESS,
    LIST,
    OPERATIONS,
    Command,
)
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.policies.rule import Rule, faults_of
from bailiwick.policies.rules import RulePolicy
from bailiwick.policies.toml_text import format_rule
from tests.policies.support import context_of, grant_for, root_named, word

AGENT = "agent_run:c/r"


def ran(*argv, **how):
    return Command(argv=argv, **how)


def said(policy, command, grant=None, path=ROOT):
    """What is said of a command, by deciding and by explaining."""
    grant = grant or grant_for(AGENT)
    decision = policy.decide(context_of(grant, EXEC, EXEC.ruled, path, command=command))
    explained = policy.explain(
        grant.subject, grant.root, EXEC, path, held=grant.access, explicit=grant.explicit,
        grant_id=grant.id, command=command,
    )  # fmt: skip
    assert explained.decision == decision
    return decision


def ruled(effect, *command, **more):
    return Rule(id=more.pop("id", effect), effect=effect, command=command, **more)


def allows(glob, command):
    """Whether a rule that allows the glob lets an agent run a command unasked."""
    return word(said(RulePolicy([ruled("allow", glob)]), command)) == "allow"


def refuses(glob, command):
    return word(said(RulePolicy([ruled("deny", glob)]), command, grant_for("user:a"))) == "deny"


# --- the access ----------------------------------------------------------------------------------


@pytest.mark.spec("EXEC-1", "AUTH-3")
def test_to_run_programs_needs_an_access_of_its_own_that_nothing_implies():
    assert EXEC.needed == EXEC.ruled == EXEC.ruled_new == EXEC.ruled_over == {"execute"}
    assert EXEC.changes
    assert {"execute"} == ALL_ACCESS - FILE_ACCESS
    others = [each for each in OPERATIONS.values() if each is not EXEC]
    assert not any("execute" in each.needed | each.ruled | each.ruled_over for each in others)


@pytest.mark.spec("EXEC-1", "AUTH-2")
@pytest.mark.parametrize("kind", ROOT_KINDS)
@pytest.mark.parametrize(
    "subject", ["user:a", "core:a", AGENT, "extension:own", "automation:a"], ids=str
)
def test_people_and_the_host_run_commands_in_workspaces_agents_ask_and_nobody_else_does(
    kind, subject
):
    """Whatever the grant holds, and however explicit it is."""
    owned = grant_for(subject, root_named(f"{kind}:own", owner=subject), explicit=True)
    expected = "deny"
    if kind == "workspace":
        expected = {"user:a": "allow", "core:a": "allow", AGENT: "ask"}.get(subject, "deny")
    decision = said(RulePolicy(), ran("make"), owned)
    assert word(decision) == expected
    if expected == "ask":
        assert decision.prompt == "a command of an agent"
        assert decision.default == "deny"


@pytest.mark.spec("EXEC-1")
@pytest.mark.parametrize(
    "everything",
    [
        {},
        {"path": ("**",)},
        {"access": ("read", "write", "delete")},
        {"operation": ("write", "version")},
    ],
)  # fmt: skip
def test_a_rule_that_allows_everything_lets_no_program_run(everything):
    policy = RulePolicy([Rule(id="all", effect="allow", **everything)])
    assert word(said(policy, ran("make"))) == "ask"
    assert word(said(policy, ran("make"), path=ScopedPath("src"))) == "ask"
    storage = grant_for("extension:own", root_named("extension-storage:own"))
    assert word(said(policy, ran("make"), storage)) == "deny"


@pytest.mark.spec("EXEC-1")
@pytest.mark.parametrize("named", [{"operation": ("exec",)}, {"access": ("execute",)}])
def test_a_rule_that_names_it_does(named):
    policy = RulePolicy([Rule(id="x", effect="allow", **named)])
    assert word(said(policy, ran("make"))) == "allow"


@pytest.mark.spec("EXEC-1")
def test_what_refuses_everything_refuses_commands_and_a_directory_can_be_closed_to_them():
    assert word(said(RulePolicy([Rule(id="no", effect="deny")]), ran("make"))) == "deny"
    policy = RulePolicy([
        Rule(id="hidden", effect="hide", path=("payroll",)),
        Rule(id="vendor", effect="deny", path=("vendor",), operation=("exec",)),
    ])  # fmt: skip
    user = grant_for("user:a")
    assert word(said(policy, ran("make"), user, ScopedPath("payroll"))) == "hide"
    assert word(said(policy, ran("make"), user, ScopedPath("vendor/x"))) == "deny"
    assert word(said(policy, ran("make"), user, ScopedPath("src"))) == "allow"


@pytest.mark.spec("EXEC-1")
def test_a_rule_about_commands_says_nothing_of_anything_else():
    for effect in ("allow", "deny", "ask"):
        policy = RulePolicy([ruled(effect, "*")])
        grant = grant_for(AGENT)
        for operation in OPERATIONS.values():
            if operation is not EXEC:
                used = operation.ruled or operation.destination_access
                decision = policy.glance(grant, operation, used, ScopedPath("a"))
                assert decision == RulePolicy().glance(grant, operation, used, ScopedPath("a"))
        assert not policy.may_refuse_below(grant, LIST.ruled, ScopedPath("src"))


@pytest.mark.spec("EXEC-1")
def test_a_command_that_is_not_told_is_refused_by_what_may_be_about_it():
    grant = grant_for("user:a")
    for policy, expected in (
        (RulePolicy([ruled("deny", "rm")]), "deny"),
        (RulePolicy([ruled("allow", "make"), Rule(id="no", effect="deny")]), "deny"),
    ):
        assert word(policy.glance(grant, EXEC, EXEC.ruled, ROOT)) == expected
        assert word(policy.decide(context_of(grant, EXEC, EXEC.ruled, ROOT))) == expected
        assert policy.may_refuse_below(grant, EXEC.ruled, ROOT)


# --- what a glob is about ------------------------------------------------------------------------

LET = [
    ("make", ["make"]),
    ("make", ["make", "deploy"]),
    ("make", ["/usr/bin/make", "x"]),
    ("make", ["/usr/local/bin/make"]),
    ("git *", ["git", "push", "origin"]),
    ("git *", ["/bin/git", "push"]),
    ("git push *", ["git", "push", "a b; rm"]),
    ("pytest*", ["pytest"]),
    ("pytest*", ["pytest-3", "-q"]),
    ("git commit -m *", ["git", "commit", "-m", "two\nlines"]),
    ("sh -c 'make && make test'", ["sh", "-c", "make && make test"]),
    ("./configure", ["./configure", "--prefix=/x"]),
    ("./scripts/*", ["./scripts/run", "x"]),
    ("*", ["make"]),
    ("[gh]it", ["git"]),
]


@pytest.mark.spec("EXEC-1")
@pytest.mark.parametrize(("glob", "argv"), LET, ids=repr)
def test_a_rule_that_allows_lets_through_what_it_says(glob, argv):
    assert allows(glob, ran(*argv))
    assert refuses(glob, ran(*argv))


KEPT = [
    ("git *", ["git"]),
    ("git *", ["git;rm", "-rf", "x"]),
    ("git *", ["git;rm -rf x"]),
    ("git", ["git;rm"]),
    ("git*", ["git;rm"]),
    ("git*", ["git rm"]),
    ("git", ["git\n"]),
    ("git", ["git "]),
    ("git *", ["\ngit", "x"]),
    ("git *", ["sh", "-c", "git x"]),
    ("git *", ["env", "git", "x"]),
    ("git *", ["git x"]),
    ("git status", ["git", "status", "&&", "rm"]),
    ("git status", ["git", "status", "\n"]),
    ("git push origin", ["git", "push origin"]),
    ("git *", ["./git", "x"]),
    ("git", ["./git"]),
    ("git", ["/tmp/evil/git"]),
    ("git", ["/usr/bin/../../tmp/evil/git"]),
    ("git", ["/usr/bin//git"]),
    ("git", ["/usr/bin/x/git"]),
    ("git", ["usr/bin/git"]),
    ("git", ["/opt/usr/bin/git"]),
    ("*git*", ["/tmp/evil/git"]),
    ("*", ["./make"]),
    ("* src/x", ["./make", "src/x"]),
    ("git", ["GIT"]),
    ("git", ["g\u0131t"]),
    ("git", ["\uff47\uff49\uff54"]),
    ("git", ["gi\u0074\u0301"]),
    ("make", ["makex"]),
    ("./configure", ["configure"]),
    ("./configure", ["./configure.evil"]),
]


@pytest.mark.spec("EXEC-1")
@pytest.mark.parametrize(("glob", "argv"), KEPT, ids=repr)
def test_and_nothing_else(glob, argv):
    assert not allows(glob, ran(*argv))


CAUGHT = [
    ("git *", ["./git", "x"]),
    ("git", ["/tmp/evil/git"]),
    ("git", ["/usr/bin//git"]),
    ("git", ["GIT", "push"]),
    ("GIT", ["git", "push"]),
    ("/usr/bin/git", ["/usr/bin/git", "x"]),
    ("*deploy*", ["make", "deploy"]),
    ("rm -rf *", ["rm", "-rf", "a b"]),
    ("rm a b", ["rm", "a b"]),
    ("*LD_PRELOAD*", ["true", "LD_PRELOAD"]),
]


@pytest.mark.spec("EXEC-1")
@pytest.mark.parametrize(("glob", "argv"), CAUGHT, ids=repr)
def test_what_is_in_doubt_is_covered_by_a_rule_that_refuses(glob, argv):
    assert refuses(glob, ran(*argv))
    assert refuses(glob, ran(*argv, environment=("CI=1",)))
    asked = RulePolicy([ruled("ask", glob)])
    assert word(said(asked, ran(*argv), grant_for("user:a"))) == "ask"


@pytest.mark.spec("EXEC-1")
def test_a_rule_that_allows_is_not_about_words_that_variables_make_something_else():
    assert allows("make", ran("make"))
    assert not allows("make", ran("make", environment=("PATH=./evil",)))
    assert not allows("*make*", ran("make", environment=("CI=1",)))
    assert refuses("*PATH=*", ran("make", environment=("PATH=./evil",)))
    assert not refuses("*PATH=*", ran("make"))


@pytest.mark.spec("EXEC-1")
@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"argv": "make"},
        {"argv": ["make"]},
        {"argv": ("make", 1)},
        {"argv": ("make", "a\0b")},
        {"argv": ("make", "\ud800")},
        {"argv": ("make", "x" * COMMAND_BYTES_MAX)},
        {"argv": ("make",), "network": "all"},
        {"argv": ("make",), "environment": ("CI",)},
        {"argv": ("make",), "environment": ("A B=1",)},
        {"argv": ("make",), "environment": ("=1",)},
    ],
    ids=lambda wrong: repr(wrong)[:60],
)
def test_what_no_program_can_be_given_is_no_command(wrong):
    with pytest.raises(ParseError):
        Command(**wrong)


WORDS = st.text(st.sampled_from("agit ;|&()'\"\n\\*é/="), max_size=5)


@pytest.mark.spec("EXEC-1")
@given(
    st.lists(
        st.builds(
            Command,
            argv=st.tuples(WORDS.filter(bool), WORDS) | st.tuples(WORDS.filter(bool)),
            cwd=st.sampled_from((".", "a", "a, network host", "a)")),
            network=st.sampled_from(("none", "loopback", "host")),
            environment=st.sampled_from(((), ("A=",), ("A=b a",), ("A=b", "B="))),
        ),
        min_size=2,
        max_size=2,
    )
)
def test_two_commands_that_differ_are_never_told_by_the_same_text(commands):
    one, other = commands
    assert (one.text == other.text) == (one == other)
    assert one.text.isprintable()
    if "\n" not in "".join(one.argv):
        assert tuple(shlex.split(one.words)) == one.argv


@pytest.mark.spec("EXEC-1", "PATH-5")
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
@settings(max_examples=30, deadline=None)
def test_a_shell_reads_the_words_as_they_are(words):
    command = ran("printf", "%s\\0", *words)
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("there is no bash to read them")
    done = subprocess.run(
        [shell, "-c", command.words], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    expected = [*words] or [""]  # printf uses its format once all the same
    assert done.stdout == b"".join(word.encode() + b"\0" for word in expected)


# --- caches: against a plain reference -----------------------------------------------------------

PROGRAMS = ("git", "make", "./git", "/usr/bin/git", "/tmp/git", "GIT", "sh")
ARGUMENTS = ((), ("push",), ("push", "-f"), ("-c", "git push"))
COMMANDS = [ran(program, *rest) for program in PROGRAMS for rest in ARGUMENTS]
COMMANDS += [ran("git", "push", environment=("A=1",)), ran("git", network="host")]
GLOBS = ("git", "git *", "make", "*", "./git", "*/git *", "git push", "sh -c *")
RULES = st.lists(
    st.builds(
        Rule,
        id=st.uuids().map(str),
        effect=st.sampled_from(("allow", "deny", "ask")),
        command=st.lists(st.sampled_from(GLOBS), max_size=2, unique=True).map(tuple),
        path=st.sampled_from(((), ("src",))),
    ),
    max_size=5,
)


def reference(rules, command, path):
    """The first rule that matches, by the words of the documentation."""
    for rule in rules:
        if rule.path and path == ".":
            continue
        if not rule.command:
            if rule.effect == "allow":
                continue
            return rule.effect
        first = command.argv[0]
        name = first.rsplit("/", 1)[-1]
        system = "/" not in first or first == f"/usr/bin/{name}"
        if rule.effect == "allow":
            spelled = [name if system else first, *command.argv[1:]]
            globs = [glob for glob in rule.command if system or "/" in glob.split()[0]]
            texts = [] if command.environment else [shlex.join(spelled[:1]), shlex.join(spelled)]
        else:
            globs = [glob.lower() for glob in rule.command]
            texts = [name, first, shlex.join([name, *command.argv[1:]]), command.words]
            texts = [each.lower() for each in (*texts, command.text)]
        if any(fnmatchcase(text, glob) for glob in globs for text in texts):
            return rule.effect
    return "ask"


@pytest.mark.spec("EXEC-1")
@settings(deadline=None)
@given(
    RULES,
    st.lists(
        st.tuples(st.sampled_from(COMMANDS), st.sampled_from((".", "src"))), min_size=1, max_size=8
    ),
)
def test_what_was_said_of_one_command_is_never_said_of_another(rules, asked):
    policy, grant = RulePolicy(rules), grant_for(AGENT)
    for command, path in (*asked, *asked[::-1]):
        policy.glance(grant, EXEC, EXEC.ruled, ScopedPath(path))  # whatever that keeps
        policy.decide(context_of(grant, EXEC, EXEC.ruled, ScopedPath(path)))
        decision = said(policy, command, grant, ScopedPath(path))
        assert word(decision) == reference(rules, command, path)


# --- answers that are remembered -----------------------------------------------------------------


def answer(command, effect="allow", **fields):
    given = {
        "id": "remembered-1", "subject": "agent_run:*", "root": "workspace:demo", "grant_id": None,
        "operation": "exec", "access": ("execute",), "paths": (".",), "destination": None,
        "reason": "answered", "approval_id": "a", "by": "user:ann", "created_ns": 0,
    }  # fmt: skip
    return RememberedRule(effect=effect, command=command, **(given | fields))


@pytest.mark.spec("EXEC-1", "ASK-1")
def test_an_answer_that_is_remembered_is_about_that_command_and_no_other():
    kept = (answer(ran("git", "push").text),)
    policy = RulePolicy(remembered=lambda: kept)
    assert said(policy, ran("git", "push")).source == "remembered-1"
    for other in (
        ran("git", "push", "-f"), ran("git", "push "), ran("git"), ran("/usr/bin/git", "push"),
        ran("git push"), ran("git", "push", network="host"), ran("git", "push", cwd="src"),
        ran("git", "push", environment=("GIT_DIR=x",)),
    ):  # fmt: skip
        assert word(said(policy, other)) == "ask"
    assert word(said(policy, ran("git", "push"), path=ScopedPath("src"))) == "ask"
    assert word(policy.glance(grant_for(AGENT), EXEC, EXEC.ruled, ROOT)) == "ask"
    assert kept[0].covers("exec", ".", None, "git push")
    assert not kept[0].covers("exec", ".", None, "git push -f")
    assert not kept[0].covers("exec", ".", None)


@pytest.mark.spec("EXEC-1", "ASK-1")
@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_an_answer_to_run_something_that_does_not_say_what_means_nothing(effect):
    kept = (answer(None, effect),)
    assert word(said(RulePolicy(remembered=lambda: kept), ran("make"))) == "ask"


def test_rules_about_commands_are_shown_as_they_are_written():
    shown = format_rule(ruled("allow", "git *", "make", operation=("exec",)))
    assert 'command = ["git *", "make"]' in shown
    (kept,) = [
        rule
        for rule in RulePolicy(remembered=lambda: kept_answers).show()
        if rule.origin == "remembered"
    ]
    assert "exact_command = \"make 'a b'\"" in format_rule(kept)
    assert list(faults_of(kept)) == []


kept_answers = (answer(ran("make", "a b").text),)
