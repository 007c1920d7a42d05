"""No alias gets round a rule: a secret is looked for in all that comes out, by every way in."""

import io
import itertools
import logging
import os
import tarfile
import zipfile

import pytest

import bailiwick
from tests.authority.attempts import (
    CHANGES_NOTHING,
    READING,
    REVEALS_NOTHING,
    WRITING_ATTEMPTS,
    At,
    tree_of,
)
from tests.authority.support import ALLOW_ALL, Person, governed, refusal, rule
from tests.scope.support import plant

pytestmark = pytest.mark.slow

OTHER = """
[[root]]
id = "other"
kind = "workspace"
memory = true
trusted = true
[[grant]]
subject = "agent_run:*"
root = "workspace:other"
access = ["read", "write", "list", "metadata"]
"""

SHIPPED = {
    name: ("", name)
    for name in (
        ".env", ".env.local", "server.pem", "tls.key", "id_rsa", "id_ed25519.old", ".netrc",
        ".npmrc", ".pypirc", "my-credentials-2.json", ".ssh/config", ".ssh/deep/er", ".gnupg/ring",
        ".aws/credentials",
    )
}  # fmt: skip
"""Each glob family of the shipped rules: they protect reading."""

KEEPING = {
    f"{effect} {what}": (rule(effect, pattern), inner)
    for effect in ("deny", "ask", "hide")
    for what, pattern, inner in (
        ("file", "**/kept.txt", "kept.txt"), ("directory", "**/vault", "vault/a/b"),
    )
}  # fmt: skip
"""An operator's rules about everything."""

KEPT_FROM_READING = {
    "deny reading": (rule("deny", "**/kept.txt", access=["read"]), "kept.txt"),
    "ask reading": (rule("ask", "**/vault", access=["read"]), "vault/a"),
}
KEPT_FROM_WRITING = {
    ".git": ("", ".git/config"),
    ".git hooks": ("", ".git/hooks/pre-commit"),
    "deny changing": (rule("deny", "**/kept", access=["write", "delete", "move"]), "kept"),
    "ask changing": (rule("ask", "**/vault", access=["write", "delete", "move"]), "vault/a/b"),
}

READ_PROTECTED = SHIPPED | KEEPING | KEPT_FROM_READING
WRITE_PROTECTED = KEEPING | KEPT_FROM_WRITING

FEW = (".env", "deny file", "ask directory", "hide directory", "ask reading", ".git hooks")
"""Every effect, and the shipped rules once, whose globs all go the same way; the others are tried
in `make test`."""

FEW_ON_DISK = (".env", ".git")
"""Of those that are tried on disk too."""

ON_DISK = (".env", ".ssh/config", "deny file", "ask directory", "hide directory", ".git")


def places(families):
    """Every family in memory, some of them on disk too."""
    memory = [
        pytest.param(
            family, False, id=f"{family}-memory",
            marks=[] if family in FEW else [pytest.mark.slow],
        )
        for family in families
    ]  # fmt: skip
    disk = [
        pytest.param(
            name, True, id=f"{name}-disk", marks=[] if name in FEW_ON_DISK else [pytest.mark.slow]
        )
        for name in families
        if name in ON_DISK
    ]
    return memory + disk


_number = itertools.count(1)


class Siege:
    """One authority, and attempts on it, each in a directory of its own."""

    def __init__(self, house, fs, other, inner):
        self.house, self.fs, self.other, self.inner = house, fs, other, inner
        self.events = []

    async def new(self):
        base = f"t{next(_number)}"
        box = f"{base}/box"
        at = At(
            self.fs, self.other, base, box, self.inner, f"{box}/{self.inner}", f"s3cr3t{base}",
        )  # fmt: skip
        await plant(await self.house.bare(), tree_of(at))
        return at

    async def out(self, secrets):
        """Which secrets can be read now by whoever is not to read them, and where. One look after
        all attempts: each acts in a directory of its own and takes nothing from the others."""
        found = []
        for scope, root in ((self.fs, "workspace:demo"), (self.other, "workspace:other")):
            for path, content in (await self.house.tree(root)).items():
                held = held_of(secrets, content)
                if held and await refusal(scope.read_bytes(path)) is None:
                    found.append((root, path, held))
        return found


def held_of(secrets, content):
    """What a file holds of the secrets, also when it is an archive."""
    parts = list(unpacked(content)) if isinstance(content, bytes) else []
    return {secret for secret in secrets if any(secret.encode() in part for part in parts)}


def unpacked(content):
    """Some bytes, and what they hold if they are an archive."""
    yield content
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            yield from (archive.extractfile(each).read() for each in archive if each.isfile())
    except tarfile.TarError:
        pass
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield from (archive.read(name) for name in archive.namelist())


async def besieged(tmp_path, rules, inner, on_disk, use):
    state = tmp_path / "state" if on_disk else None
    person = Person("no")
    async with governed(tmp_path, rules, on_disk=on_disk, state_dir=state, more=OTHER) as house:
        fs = await house.scope(asker=person)
        other = await house.scope({"read", "write", "list", "metadata"}, root="workspace:other")
        siege = Siege(house, fs, other, inner)
        unsubscribe = await fs.on_change(siege.events.append)
        try:
            await use(siege)
        finally:
            unsubscribe()
        return siege, await house.export()


@pytest.mark.spec("PATH-6", "POL-2", "POL-3", "POL-4", "AUDIT-2", "GREP-4")
@pytest.mark.parametrize(("family", "on_disk"), places(READ_PROTECTED))
async def test_what_may_not_be_read_never_comes_out(tmp_path, family, on_disk, caplog):
    caplog.set_level(logging.DEBUG, "bailiwick")
    rules, inner = READ_PROTECTED[family]
    leaks, secrets = [], []

    async def use(siege):
        for name, attempt in READING.items():
            at = await siege.new()
            secrets.append(at.secret)
            said = " ".join(await attempt(at))
            # The agent may have said the secret itself, as a guess: then it is in no answer.
            if at.secret in said:
                leaks.append((name, said))
        leaks.extend(await siege.out(secrets))

    siege, exported = await besieged(tmp_path, rules, inner, on_disk, use)
    assert leaks == []
    told = repr(siege.events) + caplog.text + exported.decode()
    assert [secret for secret in secrets if secret in told] == []
    if family.startswith("hide"):
        hidden = inner.partition("/")[0]
        assert hidden not in repr(siege.events) + caplog.text


@pytest.mark.spec("PATH-6", "POL-2")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("inner", [".env", "vault/a/b"])
async def test_control_every_way_to_read_works_where_it_is_allowed(tmp_path, inner, on_disk):
    async def use(siege):
        for name, attempt in READING.items():
            at = await siege.new()
            said = " ".join(await attempt(at))
            assert name in REVEALS_NOTHING or at.secret in said, name

    await besieged(tmp_path, ALLOW_ALL, inner, on_disk, use)


async def state_of(house, path):
    bare = await house.bare()
    stat = await bare.lstat(path)
    return stat.type, stat.mode, stat.mtime_ns, (await bare.read_bytes(path)).data


async def names_beneath(house, path):
    found = await (await house.bare()).find(path, include_ignored=True, limit=50_000)
    return {entry.path for entry in found.matches}


@pytest.mark.spec("PATH-6", "POL-2", "POL-3", "POL-4", "LINK-3")
@pytest.mark.parametrize(("family", "on_disk"), places(WRITE_PROTECTED))
async def test_what_may_not_be_changed_stays_as_it_was(tmp_path, family, on_disk):
    rules, inner = WRITE_PROTECTED[family]

    async def use(siege):
        for name, attempt in WRITING_ATTEMPTS.items():
            at = await siege.new()
            before = await state_of(siege.house, at.path)
            siblings = await names_beneath(siege.house, at.box)
            (said,) = await attempt(at)
            assert await state_of(siege.house, at.path) == before, name
            assert await names_beneath(siege.house, at.box) == siblings, name
            assert "Result" not in said, name  # it did not pretend to have worked either

    await besieged(tmp_path, rules, inner, on_disk, use)


@pytest.mark.spec("PATH-6", "POL-2")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("inner", [".git/config", "kept"])
async def test_control_every_way_to_change_works_where_it_is_allowed(tmp_path, inner, on_disk):
    async def use(siege):
        for name, attempt in WRITING_ATTEMPTS.items():
            at = await siege.new()
            before = await state_of(siege.house, at.path)
            await attempt(at)
            try:
                after = await state_of(siege.house, at.path)
            except bailiwick.PathNotFound:
                after = None
            assert (after == before) is (name in CHANGES_NOTHING), name

    await besieged(tmp_path, ALLOW_ALL, inner, on_disk, use)


@pytest.mark.spec("POL-3", "POL-4")
async def test_nothing_new_is_made_in_what_may_not_be_changed(tmp_path):
    """Hooks of git are programs: a new one is as good as a changed one."""
    async with governed(tmp_path) as house:
        await house.plant({"r/.git/hooks/old": "x", "tree/.git/hooks/evil": "x", "evil": "x"})
        fs = await house.scope()
        before = await house.tree()
        for work in (
            fs.write_text("r/.git/hooks/new", "x"), fs.make_dir("r/.git/more"),
            fs.write_text("r/.git/a/b", "x", parents=True), fs.write_text(".git", "gitdir: r"),
            fs.make_dir(".git"), fs.make_dir("n/.git/hooks", parents=True),
            fs.symlink(".git", "tree"), fs.copy("evil", "r/.git/hooks/new"),
            fs.move("evil", "r/.git/hooks/new"), fs.copy("tree", "copied", recursive=True),
            fs.move("tree", "r2"), fs.move("tree/.git", "r/.git2"),
            fs.copy_from(fs, "tree", "copied", recursive=True),
        ):  # fmt: skip
            assert (await refusal(work)).kind == "approval_denied"
        assert await house.tree() == before


@pytest.mark.spec("LINK-4", "POL-3")
async def test_a_hard_link_is_refused_where_the_root_says_so(tmp_path):
    """A second name that someone else made is another name, and nobody can know of what: a root
    that minds says ``hardlinks = "reject"``."""
    options = 'hardlinks = "reject"'
    async with governed(
        tmp_path, on_disk=True, state_dir=tmp_path / "state", options=options
    ) as house:
        (house.place / ".env").write_text("s3cr3t")
        os.link(house.place / ".env", house.place / "innocent.txt")
        fs = await house.scope()
        for work in (
            fs.read_text("innocent.txt"), fs.copy("innocent.txt", "c"),
            fs.edit("innocent.txt", old="s", new="t"),
            fs.write_text("innocent.txt", "x"), fs.append("innocent.txt", "x"),
            fs.diff("innocent.txt", text=""), fs.create_archive("innocent.txt", "a.tar"),
        ):  # fmt: skip
            assert (await refusal(work)).kind == "hardlink_refused"
        assert "s3cr3t" not in repr(await fs.grep("s", "."))
        assert (house.place / ".env").read_text() == "s3cr3t"


@pytest.mark.spec("PATH-4", "PATH-6", "POL-3")
async def test_case_is_no_alias_in_a_portable_root(tmp_path):
    async with governed(tmp_path, options='names = "portable"') as house:
        await house.plant({"d/.env": "s3cr3t"})
        fs = await house.scope()
        for name in ("d/.ENV", "D/.env", "d/.Env"):
            assert (await refusal(fs.read_text(name))).kind == "path_not_found"
            assert (await refusal(fs.write_text(name, "x", parents=True))).kind in (
                "file_already_exists", "path_not_found",
            )  # fmt: skip
        assert await house.tree() == {"d": None, "d/.env": b"s3cr3t"}


@pytest.mark.spec("POL-3", "EDIT-2", "ASK-1")
@pytest.mark.parametrize("rules", ["", rule("deny", "**/.env"), rule("hide", "**/.env")])
async def test_a_wrong_guess_is_answered_like_a_right_one(tmp_path, rules):
    """What an edit or an expectation would have met is not for whoever may not read."""
    async with governed(tmp_path, rules) as house:
        await house.plant({".env": "s3cr3t s3cr3t\nonce\n", "d/.env": "s3cr3t"})
        fs = await house.scope(asker=Person("no"))
        said = set()
        for old in ("s3cr3t", "once", "nothing like it"):
            error = await refusal(fs.edit(".env", old=old, new="x"))
            said.add(
                (error.kind, error.message, repr(sorted(error.details.keys() - {"approval_id"})))
            )
        assert len(said) == 1
        counts = [(await fs.grep(guess, "d")).matches for guess in ("s3cr3t", "nothing")]
        assert counts == [[], []]
