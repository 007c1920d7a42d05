"""Who decided, on record: the rule of the strictest part of a call, and none where a limit did."""

import pytest

from tests.authority.support import ALLOW_ALL, Person, governed, refusal, rule

RULES = (
    rule("ask", "asked/**", id="asking", access=["write", "delete", "move"])
    + rule("ask", "**/*.leaf", id="leaf", access=["write"])
    + rule("deny", "kept/**", id="keeping", access=["write"])
    + rule("allow", "free/**", id="free")
    + ALLOW_ALL
)

# What is called, and which rule decided: by name, whichever part of the call came last.
STRICTEST = {
    "a write where nothing is said": (lambda fs: fs.write_text("plain", "x"), "allow-all"),
    "a write that a rule allows": (lambda fs: fs.write_text("free/a", "x"), "free"),
    "directories made on the way, all alike": (
        lambda fs: fs.write_text("free/new/deep/a", "x", parents=True),
        "free",
    ),
    "what is asked about, in directories that are new": (
        lambda fs: fs.write_text("asked/new/deep/a", "x", parents=True),
        "asking",
    ),
    "what is asked about, in new directories that are allowed": (
        lambda fs: fs.write_text("free/new/deep/a.leaf", "x", parents=True),
        "leaf",
    ),
    "a move out of where is asked": (lambda fs: fs.move("asked/there", "free/there"), "asking"),
    "a move to where is asked": (lambda fs: fs.move("free/b", "asked/b"), "asking"),
    "a copy of which both ends are allowed": (lambda fs: fs.copy("mixed/z", "free/z"), "allow-all"),
    "a copy the other way": (lambda fs: fs.copy("free/b", "plain"), "free"),
    "a copy to where is asked": (lambda fs: fs.copy("free/b", "asked/c"), "asking"),
    "a removal of a tree with a part that is asked about": (
        lambda fs: fs.remove("mixed", recursive=True),
        "asking",
    ),
    "a directory on the way to what is allowed": (
        lambda fs: fs.make_dir("plain-new/inner", parents=True),
        "allow-all",
    ),
}

TREE = {
    "asked/there": "1", "free/b": "2", "kept/k": "3", "mixed/asked/in": "4", "mixed/z": "5",
}  # fmt: skip


@pytest.mark.spec("AUDIT-7")
@pytest.mark.parametrize("name", STRICTEST)
async def test_a_record_names_the_rule_that_let_through_least(tmp_path, name):
    call, source = STRICTEST[name]
    async with governed(tmp_path, RULES.replace("asked/**", "**/asked/**")) as house:
        await house.plant(TREE)
        person = Person("once")
        fs = await house.scope(asker=person)
        await call(fs)
        (record,) = await house.operations()
        assert (record.outcome, record.policy_source) == ("success", source)
        assert bool(person.asked) == (source in ("asking", "leaf"))


@pytest.mark.spec("AUDIT-7")
async def test_a_rule_about_a_directory_on_the_way_is_named_where_it_refuses(tmp_path):
    rules = rule("ask", "way", id="the way", access=["write"]) + RULES
    async with governed(tmp_path, rules) as house:
        fs = await house.scope(asker=Person("no"))
        error = await refusal(fs.write_text("way/free", "x", parents=True))
        assert error.decided_by.startswith("the way")
        fs = await house.scope(asker=Person("once"))
        await fs.write_text("way/free", "x", parents=True)
        sources = [each.policy_source for each in await house.operations()]
        assert sources == [error.decided_by, "the way"]


@pytest.mark.spec("AUDIT-7", "AUTH-8")
@pytest.mark.parametrize("limit", ["bytes", "rate", "size", "question"])
async def test_no_rule_is_named_where_a_limit_decided(tmp_path, monkeypatch, limit):
    options = {
        "bytes": "quota = {bytes = 3}",
        "rate": "quota = {operations_per_minute = 1}",
        "size": "limits = {max_file_bytes = 3}",
        "question": "",
    }[limit]
    more = ""
    if limit == "question":
        monkeypatch.setattr("bailiwick.state.approvals.desk.PENDING_MAX", 0)
        more = '[ask]\nsurface = "console"\n'
    async with governed(tmp_path, RULES, options=options, more=more) as house:
        fs = await house.scope()
        if limit == "rate":
            await fs.make_dir("free")
        where = "asked/a" if limit == "question" else "free/a"
        error = await refusal(fs.write_text(where, "four", parents=True))
        kinds = {"bytes": "quota_exceeded", "rate": "rate_limited", "size": "file_too_large"}
        assert error.kind == kinds.get(limit, "approval_denied")
        assert error.decided_by is None
        record = (await house.operations())[-1]
        assert (record.outcome, record.error_kind) == ("denied", error.kind)
        assert record.policy_source is None


@pytest.mark.spec("AUDIT-7")
async def test_no_rule_is_named_where_the_grant_decided(tmp_path):
    async with governed(tmp_path, RULES) as house:
        await house.plant(TREE)
        fs = await house.scope(access=("read", "list", "write", "metadata"))
        error = await refusal(fs.remove("free/b"))
        assert error.kind == "missing_access"
        await refusal(fs.write_text("kept/k", "x"))
        first, second = await house.operations()
        assert first.policy_source is None
        assert second.policy_source == "keeping"
