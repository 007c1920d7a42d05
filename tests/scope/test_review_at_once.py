"""Several who judge the same at once, one who is gone in the middle, and files of every kind."""

import asyncio
import os

import pytest

from bailiwick import PathNotFound
from bailiwick.version_acts import BringBack
from tests.scope.test_runs import rooted

KINDS = pytest.mark.parametrize("kind", ["volume", "directory"])


@KINDS
@pytest.mark.spec("REVIEW-1", "REVIEW-3")
@pytest.mark.parametrize("verdicts", ["reject reject", "reject accept", "accept accept"])
async def test_two_people_who_judge_the_same_hunk_at_once(tmp_path, kind, verdicts):
    async with rooted(tmp_path, kind) as (person, agent):
        one = await agent("one")
        await person.write_text("a.txt", "1\n2\n3\n")
        await one.write_text("a.txt", "1\ntwo\n3\n")
        (file,) = (await person.review.queue()).files
        name = f"{file.hunks[0].id}@{file.version}"
        said = [
            person.review.accept(name)
            if each == "accept"
            else person.review.reject(name, note="no")
            for each in verdicts.split()
        ]
        done = await asyncio.gather(*said, return_exceptions=True)
        # Who comes a moment later is told that nothing is left of it, and changes nothing.
        done = [each for each in done if not isinstance(each, PathNotFound)]
        assert done
        assert [each.conflicts for each in done] == [[] for _ in done]
        assert (await person.review.queue()).left == 0
        taken_back = any(each.rejected for each in done)
        expected = "1\n2\n3\n" if taken_back else "1\ntwo\n3\n"
        assert (await person.read_text("a.txt")).text == expected
        assert len(await one.review.notes()) == taken_back


@KINDS
@pytest.mark.spec("REVIEW-3")
async def test_the_agent_is_told_also_if_the_person_is_gone_in_the_middle(
    tmp_path, kind, monkeypatch
):
    async with rooted(tmp_path, kind) as (person, agent):
        one = await agent("one")
        await person.write_text("a.txt", "1\n")
        await one.write_text("a.txt", "one\n")
        act = BringBack.on

        async def then_gone(self, store):
            done = await act(self, store)
            asyncio.current_task().cancel()
            return done

        monkeypatch.setattr(BringBack, "on", then_gone)
        rejection = asyncio.ensure_future(person.review.reject(paths=["a.txt"], note="no"))
        await asyncio.wait((rejection,))
        assert rejection.cancelled()
        assert (await person.read_text("a.txt")).text == "1\n"
        assert [each.note for each in await one.review.notes()] == ["no"]
        assert (await person.review.queue()).left == 0


@pytest.mark.spec("REVIEW-1", "RUN-3")
async def test_files_of_every_kind_are_taken_back(tmp_path):
    async with rooted(tmp_path, "directory") as (person, agent):
        tree = tmp_path / "tree"
        odd = "odd \n שלום.txt"
        (tree / odd).write_bytes(b"old\n")
        (tree / "bytes").write_bytes(b"\0old")
        (tree / "mode.sh").write_text("#!/bin/sh\n")
        (tree / "gone").write_text("")
        (tree / "target").write_text("t\n")
        (tree / "link").symlink_to("target")
        before = _state(tree)
        one = await agent("one")
        await one.write_text("with space", "x\n")
        await one.write_bytes("bytes", b"\0new")
        await one.write_text("empty", "")
        await one.set_mode("mode.sh", 0o755)
        await one.write_text(odd, "new\n")
        await one.remove("gone")
        await one.remove("link")
        queue = await person.review.queue()
        assert {str(each.path) for each in queue.files} == {
            "with space", "bytes", "empty", "mode.sh", odd, "gone", "link",
        }  # fmt: skip
        for file in queue.files:
            name = [f"{each.id}@{file.version}" for each in file.hunks]
            done = await person.review.reject(name)
            assert (done.conflicts, len(done.rejected)) == ([], len(name)), str(file.path)
        assert _state(tree) == before
        assert (await person.review.queue()).left == 0


def _state(tree):
    return {
        each.name: os.readlink(each)
        if each.is_symlink()
        else (each.read_bytes(), each.stat().st_mode)
        for each in tree.iterdir()
        if not each.name.startswith(".")
    }


@KINDS
@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize("since", ["removed", "moved", "directory"])
async def test_undo_of_a_run_whose_file_is_another_thing_by_now(tmp_path, kind, since):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n")
        await (await agent("one")).write_text("a.txt", "1\ntwo\n3\n")
        if since == "moved":
            await person.move("a.txt", "b.txt")
        else:
            await person.remove("a.txt")
        if since == "directory":
            await person.write_text("a.txt/inside", "mine\n", parents=True)
        (run,) = [each for each in await person.runs() if each.info.subject.startswith("agent")]
        done = await run.undo()
        if since == "moved":
            taken_back = "1\n2\n3\n" if not done.conflicts else "1\ntwo\n3\n"
            assert (await person.read_text("b.txt")).text == taken_back
        else:
            assert done.undone == []
            assert await person.exists("a.txt") == (since == "directory")
        if since == "directory":
            assert (await person.read_text("a.txt/inside")).text == "mine\n"
