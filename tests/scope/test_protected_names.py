"""What asks for reading asks for being replaced, moved or removed too; a new one is free."""

import hashlib
import io
import tarfile

import pytest

import bailiwick
from bailiwick.errors import ApprovalDenied, FileAlreadyExists, HashMismatch, PolicyDenied
from bailiwick.verbs.archives import create
from tests.authority.support import Person, governed, rule
from tests.scope.volumes import tree

pytestmark = pytest.mark.spec("POL-3")

PLACES = ["memory:", "sqlite:", "directory", "history"]
AGENT = bailiwick.AgentRun("c1", "r1")


def packed(**files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo({"env": ".env", "key": "new.key"}.get(name, name))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def place(kind, tmp_path):
    if kind == "memory:":
        return bailiwick.open("memory:")
    if kind == "sqlite:":
        return bailiwick.open(f"sqlite:{tmp_path}/v.db")
    (tmp_path / "tree").mkdir()
    options = {"history": "on"} if kind == "history" else {}
    return bailiwick.open(
        str(tmp_path / "tree"), state_dir=str(tmp_path / "state"), durability="rename", **options
    )


async def plant(fs):
    for path in (".env", "d/.env", "d/server.pem", "d/x", "other", "e/f"):
        await fs.write_text(path, f"{path}\n", parents=True)
    await fs.write_bytes("a.tar", packed(env=b"new", z=b"z"))
    await fs.write_bytes("b.tar", packed(key=b"new"))
    await fs.make_dir(".ssh")


CHANGES = {
    "write": lambda fs: fs.write_text(".env", "new"),
    "write bytes": lambda fs: fs.write_bytes("d/server.pem", b"new", mode="overwrite"),
    "append": lambda fs: fs.append(".env", b"new"),
    "truncate": lambda fs: fs.truncate(".env", 0),
    "edit": lambda fs: fs.edit(".env", [bailiwick.Edit(".env", "new")]),
    "set_mode": lambda fs: fs.set_mode(".env", 0o600),
    "set_times": lambda fs: fs.set_times(".env", 1_000_000_007),
    "remove": lambda fs: fs.remove(".env"),
    "remove recursive": lambda fs: fs.remove("d", recursive=True),
    "move": lambda fs: fs.move(".env", "plain"),
    "move of a directory": lambda fs: fs.move("d", "plain"),
    "move over": lambda fs: fs.move("other", ".env", replace=True),
    "extract over": lambda fs: fs.extract_archive("a.tar", ".", overwrite=True),
    "archive over": lambda fs: fs.create_archive("e", ".env", format="tar", mode="overwrite"),
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("change", CHANGES)
async def test_every_way_to_lose_a_secret_asks(tmp_path, kind, change):
    async with place(kind, tmp_path) as fs:
        await plant(fs)
        before = await tree(fs)
        agent = await fs.delegate(AGENT)
        with pytest.raises(ApprovalDenied) as caught:
            await CHANGES[change](agent)
        assert caught.value.decided_by.startswith("protect.")
        assert await tree(fs) == before
        await CHANGES[change](fs)  # a person is not asked


async def test_a_stream_over_a_secret_asks(tmp_path):
    async def chunks():
        yield b"new"

    async with bailiwick.open("memory:") as fs:
        await plant(fs)
        agent = await fs.delegate(AGENT)
        with pytest.raises(ApprovalDenied):
            await agent.write_stream(".env", chunks())
        assert (await fs.read_text(".env")).text == ".env\n"


@pytest.mark.parametrize("kind", PLACES)
async def test_to_make_a_new_one_is_free(tmp_path, kind):
    async with place(kind, tmp_path) as fs:
        await plant(fs)
        agent = await fs.delegate(AGENT)
        await agent.write_text("e/.env", "mine\n")
        await agent.append("e/.env.local", b"mine\n")
        await agent.write_bytes(".ssh/id_rsa", b"mine")
        await agent.move("other", "e/.netrc")
        await agent.extract_archive("b.tar", "e", overwrite=True)
        await agent.make_dir(".aws")
        await agent.symlink("e/link.key", "f")
        made = {"e/.env", "e/.env.local", ".ssh/id_rsa", "e/.netrc", "e/new.key"}
        assert made <= set(await tree(fs))
        with pytest.raises(ApprovalDenied):  # from now on it is one
            await agent.write_text("e/.env", "again")


class Meanwhile:
    """A hook that lets something happen once a call has been judged."""

    id = "meanwhile"

    def __init__(self, happens):
        self._happens = happens

    async def before(self, context):
        if context.subject == AGENT:
            await self._happens()

    async def after(self, context, record):
        pass


MEANWHILE = {
    "write": lambda fs: fs.write_text("e/.env", "new"),
    "write with parents": lambda fs: fs.write_bytes("e/.env", b"new", parents=True),
    "append": lambda fs: fs.append("e/.env", b"new"),
    "move": lambda fs: fs.move("other", "e/.env", replace=True),
    "copy": lambda fs: fs.copy("other", "e/.env"),
    "extract": lambda fs: fs.extract_archive("a.tar", "e", overwrite=True),
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("change", MEANWHILE)
async def test_one_that_comes_after_a_call_was_judged_is_not_lost(tmp_path, kind, change):
    """To make a new one is free, as long as it is one."""
    async with place(kind, tmp_path) as fs:
        await plant(fs)
        agent = await fs.delegate(AGENT)
        unregister = agent._pipeline.hooks.register(
            Meanwhile(lambda: fs.write_text("e/.env", "secret"))
        )
        with pytest.raises((FileAlreadyExists, ApprovalDenied)):
            await MEANWHILE[change](agent)
        unregister()
        assert (await fs.read_text("e/.env")).text == "secret"


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("how", [{}, {"expected_sha256": hashlib.sha256(b"secret").hexdigest()}])
async def test_one_that_comes_while_a_stream_lasts_is_not_lost(tmp_path, kind, how):
    async with place(kind, tmp_path) as fs:
        await plant(fs)
        agent = await fs.delegate(AGENT)

        async def chunks():
            yield b"new"
            await fs.write_text("e/.env", "secret")

        with pytest.raises((FileAlreadyExists, HashMismatch)):
            await agent.write_stream("e/.env", chunks(), **how)
        assert how or (await fs.read_text("e/.env")).text == "secret"


@pytest.mark.parametrize("kind", PLACES)
async def test_one_that_comes_while_an_archive_is_packed_is_not_lost(tmp_path, kind, monkeypatch):
    async with place(kind, tmp_path) as fs:
        await plant(fs)
        agent = await fs.delegate(AGENT)
        sources = create._Packing.sources

        async def slowly(packing, more):
            await fs.write_text("e/.env", "secret")
            return await sources(packing, more)

        monkeypatch.setattr(create._Packing, "sources", slowly)
        with pytest.raises(FileAlreadyExists):
            await agent.create_archive("other", "e/.env", format="tar", mode="overwrite")
        assert (await fs.read_text("e/.env")).text == "secret"


@pytest.mark.parametrize("kind", ["sqlite:", "history"])
async def test_an_undo_or_restore_that_replaces_or_removes_one_asks(tmp_path, kind):
    async with place(kind, tmp_path) as fs:
        agent = await fs.delegate(AGENT)
        await agent.with_request("r1").write_text(".env", "by the agent")
        await fs.write_text("x.key", "one")
        then = (await fs.history("x.key")).versions[0].version
        await fs.write_text("x.key", "two")
        before = await tree(fs)
        for attempt in (agent.undo("r1"), agent.restore("x.key", then)):
            with pytest.raises(ApprovalDenied):
                await attempt
        assert await tree(fs) == before


async def test_a_merge_that_replaces_one_asks(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text("x.key", "one")
        fork = await fs.fork("f")
        await fork.write_text("x.key", "two")
        agent = await fs.delegate(AGENT)
        with pytest.raises(ApprovalDenied):
            await agent.merge("f")
        assert (await fs.read_text("x.key")).text == "one"


async def test_a_rule_that_allows_writing_allows_replacing(tmp_path):
    from bailiwick.policies.rule import Rule
    from bailiwick.policies.rules import RulePolicy
    from tests.policies.support import grant_for, said, word

    allow = Rule(id="mine", effect="allow", access=("write",), path=(".env",))
    over = frozenset(("write", "replace"))
    assert word(said(RulePolicy(), grant_for(), "write", ".env", over)) == "ask"
    assert word(said(RulePolicy([allow]), grant_for(), "write", ".env", over)) == "allow"
    deny = Rule(id="mine", effect="deny", access=("replace",), path=("docs/**",))
    assert word(said(RulePolicy([deny]), grant_for(), "write", "docs/x", over)) == "deny"
    assert word(said(RulePolicy([deny]), grant_for(), "write", "docs/x")) == "allow"


async def test_a_lease_on_one_is_free(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text(".env", "x")
        agent = await fs.delegate(AGENT)
        async with agent.lock(".env", ttl=10) as lease:
            assert lease.path == ".env"


async def test_what_is_denied_to_replace_is_so_where_writing_asks(tmp_path):
    rules = rule("deny", "z", access=["replace"]) + rule("ask", "z", access=["write"])
    async with governed(tmp_path, rules) as house:
        await house.plant({"z": b"old"})
        bare = await house.bare()
        await bare.write_bytes("a.tar", packed(z=b"new"))
        agent = await house.scope(asker=Person("once"))
        for change in (
            agent.write_text("z", "new"), agent.extract_archive("a.tar", ".", overwrite=True),
        ):  # fmt: skip
            with pytest.raises(PolicyDenied):
                await change
        assert (await bare.read_text("z")).text == "old"
