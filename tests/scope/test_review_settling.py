"""What was changed both in the tree and apart is settled by a person: by a text of theirs, or by
what it is apart, whatever stands in the tree."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest

from bailiwick import Busy, FileTooLarge, HashMismatch, MissingAccess, ParseError, PathNotFound
from tests.authority.support import EVERYTHING, governed
from tests.scope.test_exec import opened
from tests.scope.test_review_pages import check_brief
from tests.scope.volumes import volume

pytestmark = pytest.mark.spec("REVIEW-2")

LINES = "".join(f"{number}\n" for number in range(1, 20))
OURS = LINES.replace("3\n", "three\n").replace("9\n", "nine\n", 1)
THEIRS = LINES.replace("9\n", "neun\n", 1).replace("15\n", "fünfzehn\n")
BOTH = LINES.replace("3\n", "three\n").replace("15\n", "fünfzehn\n")

BEFORE = {
    "text": LINES, "gone here": "old\n", "gone apart": "old\n", "dir/inside": "old\n",
    "bytes": b"\0old", "latin": "gr\xfcn\n".encode("latin-1"),
}  # fmt: skip
APART = {
    "text": THEIRS, "gone here": "theirs\n", "gone apart": None, "dir/inside": "theirs\n",
    "bytes": b"\0theirs", "latin": "gr\xfcner\n".encode("latin-1"), "new": "theirs\n",
}  # fmt: skip
HERE = {
    "text": OURS, "gone here": None, "gone apart": "ours\n", "dir": None,
    "bytes": b"\0ours", "latin": "gr\xfcnes\n".encode("latin-1"), "new": "ours\n",
}  # fmt: skip


async def put(fs, contents):
    for path, content in contents.items():
        if content is None:
            await fs.remove(path, recursive=True)
        else:
            data = content.encode() if isinstance(content, str) else content
            await fs.write_bytes(path, data, parents=True)


@asynccontextmanager
async def of_overlay(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "dir").mkdir()
    for path, content in BEFORE.items():
        (project / path).write_bytes(content.encode() if isinstance(content, str) else content)
    async with governed(
        tmp_path, "", place=f"overlay:{project}", state_dir=tmp_path / "state",
        options='history = "on"',
    ) as home:  # fmt: skip
        agent, person = await home.scope(), await home.scope(EVERYTHING, subject="user:local")
        await put(agent, APART)
        for path, content in HERE.items():
            if content is not None:
                data = content.encode() if isinstance(content, str) else content
                (project / path).write_bytes(data)
            elif (project / path).is_dir():
                (project / path / "inside").unlink()
                (project / path).rmdir()
            else:
                (project / path).unlink()

        async def here(path, becomes=None):
            where = project / path
            if becomes is not None:
                where.write_bytes(becomes)
            return where.read_bytes() if where.exists() else None

        yield person, {"work": (await person.work())[-1].id}, here, agent


@asynccontextmanager
async def of_fork(tmp_path):
    async with volume(tmp_path) as fs:
        await put(fs, BEFORE)
        fork = await fs.fork("try")
        await put(fork, APART)
        await put(fs, HERE)

        async def here(path, becomes=None):
            if becomes is not None:
                await fs.write_bytes(path, becomes)
            return bytes((await fs.read_bytes(path)).data) if await fs.exists(path) else None

        yield fs, {"fork": "try"}, here


@asynccontextmanager
async def of_command(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    async with opened(project) as fs:
        await put(fs, BEFORE)
        words = (
            "sed -i -e '9s/.*/neun/' -e '15s/.*/fünfzehn/' text; rm 'gone apart';"
            " echo theirs | tee 'gone here' dir/inside > new;"
            r" printf '\0theirs' > bytes; printf 'gr\374ner\n' > latin"
        )
        done = await fs.exec(shell=words, publish="manual").result()
        await put(fs, HERE)

        async def here(path, becomes=None):
            where = project / path
            if becomes is not None:
                where.write_bytes(becomes)
            return where.read_bytes() if where.exists() else None

        yield fs, {"work": done.work_id}, here


@pytest.fixture(params=[of_overlay, of_fork, of_command], ids=["overlay", "fork", "command"])
def apart(request, tmp_path):
    return request.param(tmp_path)


async def found(person, where, path):
    """One file, and what its hunk is called."""
    (file,) = (await person.review.queue(paths=[path], **where)).files
    (hunk,) = file.hunks
    return file, f"{hunk.id}@{file.version}"


@pytest.mark.spec("REVIEW-6")
async def test_a_brief_list_counts_what_it_does_not_show(apart):
    async with apart as (person, where, *_):
        listed = await check_brief(partial(person.review.queue, **where))
        assert {str(each.path) for each in listed.files if each.against} >= {"text", "bytes"}
        (file,) = (await person.review.queue(paths=["text"], brief=True, **where)).files
        assert (file.hunks, file.sides) == ([], [])


async def test_all_lines_of_both_sides_are_told_and_a_text_settles_them(apart):
    async with apart as (person, where, here, *_):
        assert all(not file.sides for file in (await person.review.queue(**where)).files)
        file, name = await found(person, where, "text")
        assert file.against
        in_doubt = [each for each in file.sides if each.text is None]
        assert [(each.base, each.tree, each.apart) for each in in_doubt] == [
            ("9\n", "nine\n", "neun\n")
        ]
        chosen = "".join("both\n" if each.text is None else each.text for each in file.sides)
        assert chosen == BOTH.replace("9\n", "both\n", 1)
        before = (await person.review.queue(**where)).left
        done = await person.review.accept(name, text=chosen, **where)
        assert (done.conflicts, done.left, len(done.accepted)) == ([], before - 1, 1)
        assert await here("text") == chosen.encode()
        assert (await person.review.queue(paths=["text"], **where)).files == []


@pytest.mark.parametrize("path", [*APART])
async def test_what_is_apart_goes_over_what_stands_in_the_tree(apart, path):
    async with apart as (person, where, here, *_):
        file, name = await found(person, where, path)
        assert bool(file.sides) == (path not in ("bytes", "latin"))
        done = await person.review.accept(name, over=True, **where)
        assert done.conflicts == []
        wanted = APART[path]
        assert await here(path) == (wanted.encode() if isinstance(wanted, str) else wanted)
        left = await person.review.queue(**where)
        assert path not in [str(each.path) for each in left.files]
        assert len(left.files) == len(APART) - 1


@pytest.mark.spec("VOL-6")
@pytest.mark.parametrize("text", [None, "mine\n"], ids=["over", "text"])
async def test_a_fork_is_merged_when_all_was_settled_that_both_changed(tmp_path, text):
    async with of_fork(tmp_path) as (person, where, here):
        assert (await person.merge("try")).conflicts
        for path in APART:
            _, name = await found(person, where, path)
            settles = text is None or path in ("bytes", "latin")
            how = {"over": True} if settles else {"text": text}
            assert (await person.review.accept(name, **how, **where)).conflicts == []
        stands = {path: await here(path) for path in APART}
        for _ in range(2):
            assert (await person.merge("try")).conflicts == []
            assert {path: await here(path) for path in APART} == stands
        assert (await person.review.queue(**where)).left == 0


@pytest.mark.parametrize("path", [each for each in APART if each not in ("bytes", "latin")])
async def test_a_text_can_settle_what_one_side_removed(apart, path):
    async with apart as (person, where, here, *_):
        _, name = await found(person, where, path)
        assert (await person.review.accept(name, text="mine\n", **where)).conflicts == []
        assert await here(path) == b"mine\n"
        left = await person.review.queue(**where)
        assert path not in [str(each.path) for each in left.files]


async def test_only_what_was_seen_is_settled(apart):
    async with apart as (person, where, here, *_):
        file, name = await found(person, where, "text")
        # An agent cannot make two states that are called the same: 128 bits of each side.
        assert [len(side) for side in file.version.split(".")] == [32, 32]
        _, other = await found(person, where, "new")
        for wrong in (
            {"ids": name.partition("@")[0], "text": "x"}, {"ids": name, "text": "x", "over": True},
            {"ids": [name, other], "over": True}, {"ids": name, "text": "\ud800"},
            {"text": "x"},
        ):  # fmt: skip
            with pytest.raises(ParseError):
                await person.review.accept(**wrong, **where)
        with pytest.raises(ParseError):
            await person.review.accept(name, over=True)
        with pytest.raises(FileTooLarge):
            await person.review.accept(name, text="x" * (5 * 1024 * 1024 + 1), **where)
        assert await here("text") == OURS.encode()
        await here("text", b"later\n")
        for how in ({"over": True}, {"text": "late\n"}):
            with pytest.raises(HashMismatch):
                await person.review.accept(name, **how, **where)
        assert await here("text") == b"later\n"


@pytest.mark.parametrize("path", ["text", "gone here", "gone apart"])
async def test_of_two_who_settle_the_same_at_once_one_is_told_and_nothing_is_lost(apart, path):
    async with apart as (person, where, here, *_):
        _, name = await found(person, where, path)
        texts = ["first\n", "second\n"]
        done = await asyncio.gather(
            *(person.review.accept(name, text=each, **where) for each in texts),
            return_exceptions=True,
        )
        (settled,) = [text for text, each in zip(texts, done, strict=True) if is_done(each)]
        (told,) = [each for each in done if not is_done(each)]
        assert isinstance(told, HashMismatch | PathNotFound | Busy) or told.conflicts
        assert await here(path) == settled.encode()
        assert path not in [str(each.path) for each in (await person.review.queue(**where)).files]


def is_done(answer):
    return not isinstance(answer, Exception) and not answer.conflicts


async def test_an_agent_settles_nothing(tmp_path):
    async with of_overlay(tmp_path) as (person, where, here, agent):
        _, name = await found(person, where, "text")
        with pytest.raises(MissingAccess):
            await agent.review.accept(name, over=True, **where)
        assert await here("text") == OURS.encode()
