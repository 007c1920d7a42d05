"""Any course of granting, delegating, revoking and waiting, against a forest kept in a dict."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError
from bailiwick.operations import READ
from tests.state.rooms import START_NS, held, opened, standing_grant

WHO = {"by": "user:ann", "front": "cli"}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("stand"), st.none() | st.integers(1, 60)),
        st.tuples(st.just("hand"), st.integers(0, 30), st.none() | st.integers(1, 60)),
        st.tuples(st.just("revoke"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(1, 20)),
        st.tuples(st.just("prune")),
    ),
    max_size=30,
)


class Forest:
    """What should be so: each grant's parent, end and whether it was revoked."""

    def __init__(self):
        self.parent, self.until, self.revoked = {}, {}, set()
        self.standing = set()
        self.now = START_NS / 1e9

    def branch(self, id_):
        below = {id_}
        for each, parent in self.parent.items():
            if parent in below:
                below.add(each)
        return below

    def state(self, id_):
        if id_ in self.revoked:
            return "grant_revoked"
        until = self.until[id_]
        return "holds" if until is None or self.now < until else "grant_expired"


def earlier(first, second):
    return min((each for each in (first, second) if each is not None), default=None)


async def step(rooms, forest, kind, *given):
    ids = list(forest.parent)
    if kind == "wait":
        rooms.clock.advance(given[0])
        forest.now += given[0]
    elif kind == "prune":
        await rooms.grants.prune()
    elif kind == "stand":
        id_ = f"g{len(ids)}"
        until = None if given[0] is None else forest.now + given[0]
        await rooms.grants.add(standing_grant(id_, expires_at=until), **WHO)
        forest.parent[id_], forest.until[id_] = None, until
        forest.standing.add(id_)
    elif kind == "hand":
        id_ = f"g{len(ids)}"
        parent = ids[given[0] % len(ids)] if ids else None
        until = None if given[1] is None else forest.now + given[1]
        expected = "holds" if parent is None else forest.state(parent)
        try:
            kept = await rooms.grants.hand_out(held(id_, parent, expires_at=until), front="python")
        except BailiwickError as error:
            became = error.kind
        else:
            became = "holds"
        assert became == expected
        if became != "holds":
            return
        until = until if parent is None else earlier(until, forest.until[parent])
        assert kept.expires_at == until
        forest.parent[id_], forest.until[id_] = parent, until
    elif ids:
        id_ = ids[given[0] % len(ids)]
        branch = forest.branch(id_) - forest.revoked
        assert await rooms.grants.revoke(id_, **WHO) == len(branch)
        forest.revoked |= branch


def outcome(rooms, id_):
    try:
        rooms.standing.check(held(id_), READ)
    except BailiwickError as error:
        return error.kind
    return "holds"


@settings(max_examples=150)
@given(STEPS)
async def test_the_book_and_every_check_agree_with_the_forest(steps):
    forest = Forest()
    async with opened() as rooms:
        for each in steps:
            await step(rooms, forest, *each)
            for id_ in forest.parent:
                state = forest.state(id_)
                if id_ in forest.standing:
                    assert outcome(rooms, id_) == "grant_revoked", "nobody acts under these"
                else:
                    assert outcome(rooms, id_) == state
                    assert (rooms.grants.load(id_) is not None) == (state == "holds")
        standing = {grant.id for grant in rooms.grants.standing()}
        assert standing == {id_ for id_ in forest.standing if forest.state(id_) == "holds"}
        revoked = [r["grant_id"] for r in rooms.records() if r["act"] == "revoke"]
        assert sorted(revoked) == sorted(forest.revoked), "each on record, and once"
