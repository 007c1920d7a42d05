"""Who may do what, where: the values, without an authority around them."""

import pytest

from bailiwick.errors import MissingAccess, ParseError
from bailiwick.grant import (
    AgentRun,
    Core,
    Extension,
    Grant,
    Narrowing,
    Quota,
    Root,
    StandingGrant,
    User,
    check_access,
    check_reason,
    check_subject,
    covering,
    matches_name,
    narrowed,
    parse_root_name,
    parse_subject,
    subject_stands_above,
)
from bailiwick.paths import ROOT, ScopedPath

DEMO = Root(kind="workspace", id="demo")
AGENT = AgentRun("c1", "r1")


def a_grant(**given):
    return Grant(**{"id": "g1", "subject": AGENT, "root": DEMO, **given})


@pytest.mark.spec("AUTH-1")
@pytest.mark.parametrize(
    "subject", [Core("x"), User("ann"), Extension("e"), AgentRun("c1", "r1"), AgentRun("a/b", "r")]
)
def test_a_subject_is_what_its_text_says(subject):
    assert parse_subject(str(subject)) == subject
    assert check_subject(subject) is subject


@pytest.mark.spec("AUTH-1")
@pytest.mark.parametrize(
    "text",
    [
        None, b"user:ann", "", "user", "user:", "user:*", "user:" + "x" * 257, "nobody:x",
        "agent_run:c1", "agent_run:/r1", "agent_run:c1/", "user:a\n", "user:a\0",
    ],
)  # fmt: skip
def test_what_names_no_subject_is_refused(text):
    with pytest.raises(ParseError):
        parse_subject(text)


@pytest.mark.spec("AUTH-1")
def test_a_name_without_a_kind_is_told_how_a_subject_is_written():
    with pytest.raises(ParseError) as refused:
        parse_subject("nobody")
    assert "KIND:NAME" in refused.value.hint


@pytest.mark.spec("AUTH-1")
def test_an_id_has_up_to_256_characters():
    assert parse_subject("user:" + "x" * 256) == User("x" * 256)


@pytest.mark.spec("AUTH-1")
@pytest.mark.parametrize("run", ["a/b", 7, None])
def test_the_id_of_a_run_is_text_without_a_slash(run):
    with pytest.raises(ParseError):
        AgentRun("c1", run)


def test_a_refusal_quotes_no_more_than_80_characters():
    for parse, text in (
        (parse_subject, "nobody:" + "x" * 200), (parse_subject, "user:" + "x" * 300),
        (parse_root_name, "nobody:" + "x" * 200), (parse_root_name, "workspace:" + "x" * 300),
    ):  # fmt: skip
        with pytest.raises(ParseError) as refused:
            parse(text)
        assert f"{text[:80]!r} names no" in str(refused.value)


def test_of_an_agent_run_it_is_told_how_it_is_written():
    with pytest.raises(ParseError, match="agent_run:CONVERSATION/RUN"):
        parse_subject("agent_run:c1")


@pytest.mark.parametrize("text", [None, "workspace", "workspace:", "house:demo", "workspace:*"])
def test_what_names_no_root_is_refused(text):
    with pytest.raises(ParseError):
        parse_root_name(text)


@pytest.mark.parametrize("reason", [None, 7, "x" * 1_001, "half \ud800"])
def test_what_is_no_reason_is_refused(reason):
    with pytest.raises(ParseError):
        check_reason(reason)


def test_a_reason_is_kept_as_it_is():
    assert check_reason("x" * 1_000) == "x" * 1_000


@pytest.mark.parametrize(
    ("branch", "line"),
    [("", ""), ("draft", "draft"), ("transaction:1", ""), ("draft/transaction:1", "draft")],
)
def test_a_transaction_is_of_the_branch_that_it_was_begun_in(branch, line):
    assert Root(kind="workspace", id="demo", branch=branch).line == line


@pytest.mark.spec("AUTH-5")
def test_only_a_grant_without_path_and_globs_is_whole():
    assert a_grant().whole
    assert not a_grant(path=ScopedPath("src")).whole
    assert not a_grant(allowed=(("src/**",),)).whole
    assert not a_grant(denied=("secret/**",)).whole


@pytest.mark.spec("AUTH-5")
def test_what_a_grant_reaches():
    grant = a_grant(path=ScopedPath("src"), allowed=(("src/a/**",),), denied=("src/a/secret/**",))
    reached = {
        text: grant.reaches(ScopedPath(text), is_directory)
        for text, is_directory in [
            ("src", True), ("src/a", True), ("src/a/f", False), ("src/b", True), ("src/b/f", False),
            ("src/a/secret/f", False), ("other", True), (".", True),
        ]
    }  # fmt: skip
    assert reached == {
        "src": True, "src/a": True, "src/a/f": True, "src/b": False, "src/b/f": False,
        "src/a/secret/f": False, "other": False, ".": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [("user:*", "user:ann", True), ("user:ann", "user:ann", True), ("user:a", "user:ann", False),
     ("*", "user:ann", True), ("agent_run:*", "user:ann", False), ("user:b*", "user:ann", False)],
)  # fmt: skip
def test_a_pattern_ends_where_its_star_stands(pattern, name, fits):
    assert matches_name(pattern, name) is fits


@pytest.mark.parametrize(
    ("subject", "root", "explicit"),
    [("user:ann", "workspace:demo", True), ("user:*", "workspace:demo", False),
     ("user:ann", "workspace:*", False), ("user:*", "workspace:*", False)],
)  # fmt: skip
def test_a_grant_is_explicit_that_names_one_subject_and_one_root(subject, root, explicit):
    grant = StandingGrant(id="s1", subject=subject, root=root, access=frozenset({"read"}))
    assert grant.explicit is explicit


@pytest.mark.spec("AUTH-4")
def test_the_first_grant_that_holds_all_that_is_asked_covers_it():
    def standing(name, access, path="."):
        return StandingGrant(
            id=name, subject="agent_run:*", root="workspace:demo",
            access=frozenset(access), path=ScopedPath(path),
        )  # fmt: skip

    reads, writes = standing("r", {"read"}), standing("w", {"read", "write"}, "src")
    both = [reads, writes]
    assert covering(both, frozenset({"read"}), ScopedPath("src/a")) is reads
    assert covering(both, frozenset({"write"}), ScopedPath("src/a")) is writes
    assert covering(both, frozenset({"write"}), ROOT) is writes
    with pytest.raises(MissingAccess, match="no single grant"):
        covering(both, frozenset({"write"}), ScopedPath("docs"))
    with pytest.raises(MissingAccess, match="delete"):
        covering(both, frozenset({"delete"}), ROOT)


@pytest.mark.parametrize(
    ("holder", "heir", "via"),
    [
        (AGENT, AgentRun("c1", "r2"), ("agent_run:c1/r1",)),
        (AGENT, AGENT, ()),
        (User("ann"), AGENT, ()),
        (Core("host"), AGENT, ()),
    ],
)
def test_a_grant_remembers_the_hands_of_agents(holder, heir, via):
    assert narrowed(a_grant(subject=holder), id="g2", subject=heir).via == via


@pytest.mark.spec("AUTH-3")
@pytest.mark.parametrize("given", [None, "read", ["nonsense"], ["read", 7], [["read"]]])
def test_what_is_no_list_of_accesses_is_refused(given):
    with pytest.raises(ParseError):
        check_access(given)


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize("place", [".", "other", "src/secret", "src/secret/deep"])
def test_nobody_passes_on_a_place_that_the_grant_does_not_reach(place):
    parent = a_grant(path=ScopedPath("src"), denied=("src/secret/**", "src/secret"))
    assert narrowed(parent, id="g2", subject=AGENT, path=ScopedPath("src/a")).path == "src/a"
    with pytest.raises(MissingAccess):
        narrowed(parent, id="g2", subject=AGENT, path=ScopedPath(place))


@pytest.mark.spec("AUTH-1")
@pytest.mark.parametrize(
    ("subject", "above"),
    [(User("ann"), True), (Core("host"), True), (AGENT, False), (Extension("core:x"), False)],
)
def test_people_and_the_host_stand_above_others(subject, above):
    assert subject_stands_above(str(subject)) is above


@pytest.mark.parametrize("heir", [None, "agent_run:c1/r2", ("c1", "r2"), User(7)])
def test_only_a_subject_inherits(heir):
    with pytest.raises(ParseError, match=r"a subject (is|has)"):
        narrowed(a_grant(), id="g2", subject=heir)


def test_a_text_is_no_subject():
    with pytest.raises(ParseError, match="a subject is Core"):
        check_subject("user:ann")


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize("given", [{"reason": 7}, {"narrowing": {"max_file_bytes": 1}}])
def test_what_is_passed_on_is_checked(given):
    with pytest.raises(ParseError):
        narrowed(a_grant(), id="g2", subject=AGENT, **given)


@pytest.mark.spec("AUTH-5")
def test_the_way_to_what_is_allowed_can_be_passed_on():
    """A directory that leads there is no place of its own, but one to begin at."""
    parent = a_grant(allowed=(("src/deep/**",),))
    assert narrowed(parent, id="g2", subject=AGENT, path=ScopedPath("src")).path == "src"
    with pytest.raises(MissingAccess):
        narrowed(parent, id="g2", subject=AGENT, path=ScopedPath("other"))


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize("kind", ["symlinks", "hardlinks"])
def test_links_that_were_given_up_stay_so(kind):
    once = narrowed(a_grant(), id="g2", subject=AGENT, narrowing=Narrowing(**{kind: "reject"}))
    assert getattr(once, kind) == "reject"
    assert getattr(narrowed(once, id="g3", subject=AGENT), kind) == "reject"
    assert getattr(narrowed(a_grant(), id="g2", subject=AGENT), kind) is None


@pytest.mark.parametrize(
    ("quota", "measures"),
    [(Quota(bytes=1), True), (Quota(files=1), True), (Quota(operations_per_minute=1), False)],
)
def test_a_quota_of_content_is_told_from_one_of_calls(quota, measures):
    assert quota.measures_content is measures


@pytest.mark.parametrize(
    "given",
    [
        {"symlinks": "follow"}, {"hardlinks": "allow"}, {"max_file_bytes": 0},
        {"max_file_bytes": 2**62}, {"max_file_bytes": True}, {"max_file_bytes": "1"},
        {"allowed": "src/**"}, {"denied": [7]},
    ],
)  # fmt: skip
def test_what_would_not_narrow_is_refused(given):
    with pytest.raises(ParseError):
        Narrowing(**given)


def test_what_narrows_is_kept():
    given = Narrowing(symlinks="reject", max_file_bytes=1, allowed=["src/**"])
    assert (given.symlinks, given.max_file_bytes, given.allowed) == ("reject", 1, ("src/**",))
    assert Narrowing(max_file_bytes=2**62 - 1).max_file_bytes == 2**62 - 1
