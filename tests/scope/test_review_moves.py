"""A directory that a command moved, and that is not in the tree yet: what is said of it is said of
the whole, in one act, and never of half a move."""

import pytest

from bailiwick import HashMismatch
from tests.scope.test_exec import opened
from tests.scope.test_review_apart import ids, told

pytestmark = [pytest.mark.spec("REVIEW-2"), pytest.mark.usefixtures("needs_bubblewrap")]

OVER = "rm -r b; mv a b"


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "a" / "inner").mkdir(parents=True)
    (root / "a" / "x").write_text("x\n")
    (root / "a" / "inner" / "empty").write_text("")
    return root


def standing(project):
    return {
        str(each.relative_to(project)): each.read_text()
        for each in project.rglob("*")
        if each.is_file()
    }


async def left_by(fs, command):
    return (await fs.exec(shell=command, publish="manual").result()).work_id


@pytest.mark.parametrize("verdict", ["accept", "reject"])
async def test_a_move_is_one_change(project, verdict):
    before = standing(project)
    async with opened(project) as fs:
        work = await left_by(fs, "mv a b; echo new > c")
        queue = await fs.review.queue(work=work)
        assert told(queue) == [("b", "moved", []), ("c", "created", ["+new"])]
        assert (queue.files[0].type, queue.files[0].origin) == ("directory", "a")
        done = await getattr(fs.review, verdict)(
            f"{ids(queue)[0]}@{queue.files[0].version}", work=work
        )
        assert (done.conflicts, done.left) == ([], 1)
        moved = {path.replace("a/", "b/", 1): text for path, text in before.items()}
        assert standing(project) == (moved if verdict == "accept" else before)
        assert told(await fs.review.queue(work=work)) == [("c", "created", ["+new"])]


@pytest.mark.parametrize("command", [OVER, "mv a b; echo more >> b/x", "mv a b; rm b/inner/empty"])
async def test_half_a_move_is_refused_in_words_that_say_what_to_do(project, command):
    (project / "b").mkdir()
    (project / "b" / "x").write_text("old x\n")
    if command != OVER:
        (project / "b" / "x").unlink()
        (project / "b").rmdir()
    before = standing(project)
    async with opened(project) as fs:
        work = await left_by(fs, command)
        queue = await fs.review.queue(work=work)
        assert len(queue.files) > 1
        assert {str(each.carried) for each in queue.files} == {"b"}
        for id in ids(queue):
            for verdict in (fs.review.accept, fs.review.reject):
                done = await verdict(id, work=work)
                (conflict,) = done.conflicts
                assert conflict.reason == (
                    "it came or went with the directory b, which was a: that is accepted or"
                    f" rejected as a whole, as {work}:b"
                )
        assert (standing(project), (await fs.review.queue(work=work)).files) == (
            before,
            queue.files,
        )
        whole = f"{work}:b@{queue.version}"
        with pytest.raises(HashMismatch):
            await fs.review.accept(f"{work}:b@{'0' * 32}", work=work)
        done = await fs.review.accept(whole, work=work)
        assert (done.conflicts, done.left, len(done.accepted)) == ([], 0, len(ids(queue)))
        after = standing(project)
        assert {path.partition("/")[0] for path in after} == {"b"}
        assert after["b/x"] == ("x\nmore\n" if "more" in command else "x\n")
