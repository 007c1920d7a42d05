"""What rules keep from an agent is told by no answer: each of these once told something."""

import itertools

import pytest

import bailiwick
from tests.authority.support import governed, refusal, rule
from tests.authority.two_worlds import HIDE, MAY_RUN, RUNNING, opened

TREE = {
    "d/b": "b\n", "d/e/f": "f\n", "d/n": "n\n", "d/always.pem": "p", "d/e/always.pem": "p",
    "empty/always.pem": "p", "secret/always": "p",
}  # fmt: skip
MUCH = {
    "d/a.pem": "1",
    "d/c.pem": "2",
    "d/e/g.pem": "3",
    "d/o.pem/in": "4",
    "d/z.pem": "-> nowhere",
}


async def all_pages(world, limit):
    pages, cursor = [], None
    while not pages or cursor is not None:
        pages.append(await world.agent.list("d", limit=limit, cursor=cursor))
        cursor = pages[-1].next_cursor
    return pages


@pytest.mark.spec("POL-1", "TREE-1")
@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_no_page_of_a_listing_ends_for_a_hidden_name(tmp_path, kind):
    """Its cursor was the hidden name itself, or led to an empty page."""
    async with opened(tmp_path, TREE, {}, MUCH, kind=kind) as worlds:
        for limit in range(1, 9):
            pages = await worlds.same(lambda world, limit=limit: all_pages(world, limit))
            assert sum(len(each["entries"]) for each in pages) == 3


@pytest.mark.spec("POL-1", "TREE-5")
async def test_a_directory_is_as_empty_as_it_shows(tmp_path):
    async with opened(tmp_path, {"d": None}, {}, {"d/a.pem": "1"}, kind="memory") as worlds:
        found = await worlds.same(lambda world: world.agent.find(empty=True))
        assert [each["name"] for each in found["matches"]] == ["d"]


TWO_PLACES = {
    "diff": lambda fs, one, other: fs.diff(one, other),
    "copy": lambda fs, one, other: fs.copy(one, other),
    "move": lambda fs, one, other: fs.move(one, other),
    "archive": lambda fs, one, other: fs.create_archive([one, other], "new.tar"),
}


@pytest.mark.spec("POL-1")
@pytest.mark.parametrize("verb", TWO_PLACES)
async def test_what_is_said_of_one_place_tells_nothing_of_a_hidden_one(tmp_path, verb):
    """The other one was looked up first, so that its fault told that the hidden one was there."""
    rules = HIDE + rule("deny", "denied", subject="agent_run:*")
    act = TWO_PLACES[verb]
    tree = {"denied": "x", "f": "y", "d/g": "z", "by": "-> secret"}
    kept = {}, {"secret": "s"}, {"secret/a": "a", "secret/out": "-> ../d"}
    for number, two_of in enumerate(itertools.combinations(kept, 2)):
        place = tmp_path / str(number)
        async with opened(place, tree, *two_of, rules=rules, kind="memory") as worlds:
            for other in ("missing", "missing/f", "f/f", "denied", "f", "by", "by/out/g"):
                for one, two in (("secret", other), (other, "secret"), ("denied", other)):
                    await worlds.same(lambda world, one=one, two=two: act(world.agent, one, two))


# --- what programs take along ---------------------------------------------------------------------


async def run(world, script, publish="manual"):
    """A command in a working copy, which is kept open for what comes."""
    result = await world.agent.exec(shell=script, publish=publish).result()
    world.work = result.work_id
    return result


PLACES = ("d", "d/a.pem", "d/e/g.pem", "d/o.pem", "d/o.pem/in", "t", "t/a.pem", "t/o.pem")


async def all_told(world):
    """Everything that can be asked of a working copy, one place at a time."""
    async with await world.agent.open_work(world.work) as work:
        changes = await work.changes()
        named = [each.path for each in (*changes.changes, *changes.withheld)]
        asked = [work.diff(path) for path in (*PLACES, *named)]
        for path in PLACES:
            asked += [work.apply([path]), work.apply(hunks={path: [1]})]
            asked += [work.discard(hunks={path: [1]})]
        return [world.plain(changes), *[world.plain(await _or_refusal(each)) for each in asked]]


async def _or_refusal(work):
    try:
        return await work
    except bailiwick.BailiwickError as error:
        return error


@pytest.mark.usefixtures("needs_bubblewrap")
@pytest.mark.spec("EXEC-4", "EXEC-8", "POL-1")
@pytest.mark.parametrize(
    "script",
    [
        "rm -r d",
        "mv d t",
        "mv d t; echo x >> t/b",
        "mv d t; mkdir d; echo guess > d/a.pem",
        "echo guess > d/a.pem; mkdir -p d/o.pem; echo guess > d/o.pem/in",
        "ln -s e d/o.pem; rm -r d/e; mkdir d/e",
    ],
)
async def test_what_a_program_took_along_unseen_is_not_told_of(tmp_path, script):
    """How much that is hidden a directory held, and what it was called, was told by what was
    withheld, given up, or came along when it was moved."""
    async with opened(tmp_path, TREE, {}, MUCH) as worlds:
        await worlds.same(lambda world: run(world, script))
        await worlds.same(all_told)
        for world in worlds.both:  # what others change there meanwhile is not told either
            await world.person.write_text("d/always.pem", f"changed {world.number}")
            await world.person.write_text(f"d/new-{world.number}.pem", "new")
        await worlds.same(all_told)

        async def given_up(world):
            async with await world.agent.open_work(world.work) as work:
                return await work.discard()

        told = await worlds.same(given_up)
        assert "d/always.pem" not in told


KEPT_AT_ONE_NAME = {
    # A rule that knows the file by its place, which the move takes it from.
    "hide": rule("hide", "d/key", subject="agent_run:*"),
    "deny": rule("deny", "d/key", subject="agent_run:*", access=["read"]),
    "ask": rule("ask", "d/key", subject="agent_run:*", access=["read"]),
}


@pytest.mark.usefixtures("needs_bubblewrap")
@pytest.mark.spec("EXEC-4", "EXEC-7", "POL-2")
@pytest.mark.parametrize("script", ["mv d t", "mv d t; echo x >> t/b", "mv d t; mv t/e ."])
@pytest.mark.parametrize("effect", KEPT_AT_ONE_NAME)
async def test_a_directory_that_is_moved_brings_nothing_within_reach(tmp_path, effect, script):
    """`diff` showed what came along, and where the directory was changed too it was brought
    back to a name that no rule knows."""
    rules = KEPT_AT_ONE_NAME[effect] + MAY_RUN
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        await house.plant({"d/key": "SECRET\n", "d/b": "b\n", "d/e/f": "f\n"})
        agent = await house.scope(RUNNING)
        result = await agent.exec(shell=script, publish="partial").result()
        async with await agent.open_work(result.work_id) as work:
            kinds = {"hide": "path_not_found"}
            refused = await refusal(work.diff("t/key"))
            assert refused.kind == kinds.get(effect, "policy_denied")
            await _or_refusal(work.apply(hunks={"t/key": [1]}, publish="partial"))
            await _or_refusal(work.apply(publish="partial"))
        assert (await house.tree())["d/key"] == b"SECRET\n"
        assert not await agent.exists("t/key")


@pytest.mark.usefixtures("needs_bubblewrap")
@pytest.mark.spec("EXEC-4", "POL-2")
@pytest.mark.parametrize("effect", KEPT_AT_ONE_NAME)
async def test_nobody_moves_what_is_kept_from_them_before_their_own_program(tmp_path, effect):
    """What is hidden from a program is hidden by its place: whoever runs it may not change that
    meanwhile."""

    async def moves(agent, person):
        for work in (
            agent.move("d", "t"), agent.move("d/key", "key"), agent.copy("d/key", "key"),
        ):  # fmt: skip
            assert await refusal(work) is not None
        await _or_refusal(agent.copy("d", "t", recursive=True))  # what may be read of it

    assert b"SECRET" not in await found_while_running(tmp_path, effect, moves)


@pytest.mark.usefixtures("needs_bubblewrap")
@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize("effect", KEPT_AT_ONE_NAME)
async def test_control_it_shows_where_somebody_else_moves_it(tmp_path, effect):
    async def moves(agent, person):
        await person.move("d/key", "key")

    assert b"SECRET" in await found_while_running(tmp_path, effect, moves)


async def found_while_running(tmp_path, effect, moves):
    """What a program finds of the secret that it looks for after the moves."""
    rules = KEPT_AT_ONE_NAME[effect] + MAY_RUN
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        await house.plant({"d/key": "SECRET\n", "d/b": "b\n"})
        agent = await house.scope(RUNNING)
        async with agent.exec(shell="echo; read _; grep -r SECRET .", stdin="pipe") as running:
            async for _ in running:
                break
            await moves(agent, await house.bare())
            await running.write(b"\n")
            return b"".join([piece.data async for piece in running])


@pytest.mark.usefixtures("needs_bubblewrap")
@pytest.mark.spec("EXEC-4", "EXEC-8")
async def test_what_came_along_unread_is_not_told_by_what_stands_where_it_went(tmp_path):
    """Whether it is the same as a guess of one's own told what it is."""
    tree, rules = {"d/b": "b\n", "t/key": "guess\n"}, KEPT_AT_ONE_NAME["deny"]
    kept = {"d/key": "guess\n"}, {"d/key": "right\n"}
    async with opened(tmp_path, tree, *kept, rules=rules) as worlds:
        await worlds.same(lambda world: run(world, "mkdir x; mv t x; mv d t"))

        async def told(world):
            async with await world.agent.open_work(world.work) as work:
                return (await work.changes()).changes

        await worlds.same(told)


@pytest.mark.usefixtures("needs_bubblewrap")
@pytest.mark.spec("EXEC-4", "EXEC-8")
@pytest.mark.parametrize("guess", ["b\n", "guess\n"])
async def test_what_goes_unread_is_not_told_by_a_guess_that_is_left_out(tmp_path, guess):
    """What was moved to a name that no root can hold stays where it was: whether it does must not
    say that it holds the same."""
    tree, rules = {"d/b": "b\n"}, KEPT_AT_ONE_NAME["deny"]
    kept = {"d/key": "guess\n"}, {"d/key": "right\n"}
    script = f"rm -r d; printf {guess!r} > $(printf 'g\\377')"
    async with opened(tmp_path, tree, *kept, rules=rules) as worlds:
        await worlds.same(lambda world: run(world, script))
        await worlds.same(all_told)


@pytest.mark.usefixtures("needs_bubblewrap")
@pytest.mark.spec("EXEC-4", "EXEC-8")
@pytest.mark.parametrize("kept", [{"secret/to": "-> to"}, {"secret/to": "f"}, {"secret/to": None}])
async def test_a_link_that_a_program_replaced_tells_nothing_of_where_it_led(tmp_path, kept):
    """Where that led round in a circle nothing could be told of the copy at all."""
    tree = {"l": "-> secret/to", "secret/always": "p"}
    async with opened(tmp_path, tree, {}, kept) as worlds:
        await worlds.same(lambda world: run(world, "rm l; mkdir l; echo guess > l/key"))
        await worlds.same(all_told)


@pytest.mark.usefixtures("needs_bubblewrap")
@pytest.mark.spec("EXEC-7", "POL-1")
@pytest.mark.parametrize(
    "script",
    ["echo x > d/KEY.PEM", "mv d/b d/KEY.PEM", "rm l; mkdir l; mv d/b l/KEY", "mv d/b D/B"],
)
async def test_a_portable_name_that_a_program_makes_tells_of_no_hidden_twin(tmp_path, script):
    """It was refused where the hidden one was there, also where only a link led to that."""
    tree = {"d/b": "b\n", "d/always.pem": "p", "l": "-> secret", "secret/always": "p"}
    kept = {"d/key.pem": "s", "secret/key": "s"}
    async with opened(tmp_path, tree, {}, kept, options='names = "portable"\n') as worlds:
        await worlds.same(lambda world: run(world, script, "partial"))
