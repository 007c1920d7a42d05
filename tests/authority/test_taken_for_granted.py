"""What others might take for granted, and what once did not hold."""

import io
import tarfile

import pytest

import bailiwick
from tests.authority.support import Person, everything_said, governed, refusal, rule


@pytest.mark.spec("POL-2", "ARCH-1")
@pytest.mark.parametrize(
    "effect",
    ["deny", "ask"],
)
async def test_what_is_wrong_with_an_archive_is_not_told_to_who_may_not_read_it(tmp_path, effect):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../up"))
    async with governed(tmp_path, rule(effect, "kept.tar", access=["read"])) as house:
        await house.plant({"kept.tar": packed.getvalue()})
        fs = await house.scope(asker=Person("no"))
        error = await refusal(fs.extract_archive("kept.tar", "out"))
        assert error.kind == ("policy_denied" if effect == "deny" else "approval_denied")


@pytest.mark.spec("ASK-1", "GREP-4")
@pytest.mark.parametrize(
    "look",
    [
        lambda fs: fs.grep("token", "vault"),
        lambda fs: fs.files("vault"),
        lambda fs: fs.find("vault", "b"),
    ],
)
async def test_what_a_person_let_be_searched_is_searched(tmp_path, look):
    async with governed(tmp_path, rule("ask", "vault")) as house:
        await house.plant({"vault/a/b": "token"})
        fs = await house.scope(asker=Person("once"))
        found = await look(fs)
        assert "vault/a/b" in [match.path for match in found.matches]


@pytest.mark.spec("POL-1", "PATH-7")
@pytest.mark.parametrize("look", [lambda fs: fs.readlink("link"), lambda fs: fs.lstat("link")])
async def test_a_link_to_a_hidden_path_does_not_tell_its_name(tmp_path, look):
    async with governed(tmp_path, rule("hide", "payroll")) as house:
        await house.plant({"payroll/2026": "x", "link": "-> payroll/2026"})
        fs = await house.scope()
        try:
            said = everything_said(await look(fs))
        except OSError as error:
            said = everything_said(error)
        assert "payroll" not in said


@pytest.mark.spec("ASK-1", "HOOK-1")
async def test_what_a_hook_asked_is_not_asked_again_either(tmp_path):
    class Asking:
        id = "sure"

        async def before(self, context):
            return bailiwick.Ask("hook:sure", "are you sure?")

        async def after(self, context, record):
            return None

    async with governed(tmp_path) as house:
        await house.plant({"f": "x"})
        person = Person("grant")
        fs = await house.scope(asker=person)
        house.authority.hooks.register(Asking())
        await fs.read_text("f")
        await fs.read_text("f")
        assert len(person.asked) == 1


@pytest.mark.spec("ASK-2", "POL-4")
@pytest.mark.parametrize("name", ["d/more", "d/denied"])
@pytest.mark.parametrize(
    "act",
    [
        lambda fs: fs.remove("d", recursive=True),
        lambda fs: fs.move("d", "e"),
        lambda fs: fs.copy("d", "e", recursive=True),
    ],
)
async def test_a_tree_that_grew_while_a_person_looked_is_not_what_they_saw(tmp_path, act, name):
    rules = rule("ask", "d/kept", "d/more") + rule("deny", "d/denied")
    async with governed(tmp_path, rules) as house:
        await house.plant({"d/kept": "x"})

        async def meanwhile(approval):
            await house.plant({name: "somebody else's"})

        fs = await house.scope(asker=Person("once", then=meanwhile))
        assert await refusal(act(fs)) is not None
        assert set(await house.tree()) == {"d", "d/kept", name}


@pytest.mark.spec("ASK-2")
async def test_an_approval_does_not_overwrite_what_nobody_saw(tmp_path):
    async with governed(tmp_path, rule("ask", "f"), more='[ask]\nsurface = "cli"\n') as house:
        await house.plant({"f": "old"})
        fs = await house.scope()
        error = await refusal(fs.with_caller("http", wait_s=0.0).write_text("f", "new"))
        approval = error.details["approval_id"]
        await house.authority.approvals.answer(approval, "once", by="user:me", front="cli")
        await house.plant({"f": "somebody else's"})
        assert await refusal(fs.with_approval(approval).write_text("f", "new")) is not None
        assert (await house.tree())["f"] == b"somebody else's"


@pytest.mark.spec("POL-2", "POL-3", "TREE-2")
@pytest.mark.parametrize("name", [".env", "."])
async def test_what_is_copied_in_from_the_host_is_read_under_the_rules(tmp_path, name):
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (incoming / ".env").write_text("TOKEN=marmalade")
    options = f"copy_in = [{str(incoming)!r}]"
    async with governed(tmp_path, on_disk=True, state_dir=tmp_path / "s", options=options) as house:
        fs = await house.scope()
        host_path = str(incoming / name)
        error = await refusal(fs.copy_in(host_path, "plain.txt", recursive=name == "."))
        assert error is not None
        assert "plain.txt" not in await house.tree()


@pytest.mark.spec("AUTH-3", "ARCH-1")
async def test_an_archive_replaces_no_file_without_access_to_write(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant({"a": "x", "victim.txt": "precious"})
        fs = await house.scope({"archive", "read"})
        await refusal(fs.create_archive("a", "victim.txt", format="tar", mode="overwrite"))
        assert (await house.tree())["victim.txt"] == b"precious"
