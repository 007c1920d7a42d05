"""From a caller's text to a handle, without telling them what is none of their business.

A lookup says something of what stands on its way: by failing, and where links lead by succeeding
too. Where a policy may hide places, or a grant does not reach them, the way is gone again before
anything is told.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing

from bailiwick.call import Call, Target
from bailiwick.errors import (
    BailiwickError,
    FileAlreadyExists,
    MissingAccess,
    PolicyDenied,
    TooManyLinks,
)
from bailiwick.operations import MOVE, Access
from bailiwick.paths import (
    DEPTH_MAX,
    ROOT,
    ScopedPath,
    check_new_name,
    folded,
    parse,
    too_deep,
)
from bailiwick.policy import Deny, Hide
from bailiwick.store import Handle, LinksWithin, Look, Reader

_PLACES_MAX = 1_000
"""Places that links may lead through where some are secret: about 20 milliseconds, during which
nobody can put other links in their place. Each link holds at most some 2,000 names."""


def named(call: Call, target: Target) -> ScopedPath:
    """The place a target names, as the caller spells it, seen from the root."""
    grant = call.grant
    path = parse(target.text, grant.root.mount_point, grant.root.names).path
    return path.beneath(grant.base)


def resolve(call: Call, target: Target) -> Awaitable[Handle]:
    """What a target leads to. Where nothing can be hidden, the store's own answer will do."""
    grant = call.grant
    path, target.directory = parse(target.text, grant.root.mount_point, grant.root.names)
    if (
        call.pipeline.discreet
        or grant.path != "."  # the rest of `Grant.whole`, looked at by every call
        or grant.denied
        or grant.allowed
        or grant.base != "."
    ):
        return find(call, target, path if grant.base == "." else path.beneath(grant.base))
    store = call.store if call.store_there is None else _store(call, target)
    return store.resolve(path, target.look, directory=target.directory, parents=target.parents)


async def find(call: Call, target: Target, path: ScopedPath) -> Handle:
    """What stands at a path of the root, as far as the caller may know: some places must not show,
    not even by an error.

    Where the second of two places is not to be had, the first is refused all the same, if it is to
    be: which of the two is complained of would tell what is hidden at the other.
    """
    try:
        return await _find(call, target, path)
    except BailiwickError:
        if target is call.destination and call.pipeline.discreet:
            _refuse_first(call)
        raise


async def _find(call: Call, target: Target, path: ScopedPath) -> Handle:
    grant = call.grant
    whole = grant.whole
    if not whole and not path.lies_in(grant.path):
        raise _beyond_the_grant(path)
    try:
        store = call.store if call.store_there is None else _store(call, target)
        handle = await store.resolve(
            path, target.look, directory=target.directory, parents=target.parents
        )
    except BailiwickError:
        if call.pipeline.discreet or not whole:
            await _keep_secret(call, target, path)
        raise
    if whole and handle.path == path:
        return handle
    try:
        reached = whole or grant.reaches(handle.path, handle.type == "directory")
        # A path without links is its own canonical name, which is judged next.
        if handle.path != path and (call.pipeline.discreet or not whole):
            await _keep_secret(call, target, path, handle.path if reached else None)
        if not reached:
            raise _beyond_the_grant(path)
    except BaseException:
        handle.close()
        raise
    return handle


async def _keep_secret(
    call: Call, target: Target, path: ScopedPath, found: ScopedPath | None = None
) -> None:
    """Whether a lookup fails, and why, tells what stands on its way, which may be no business of
    the caller.

    So the way is gone again: where it comes by a hidden name, nothing was found, and where it
    leaves what the grant reaches, that is said, whatever stands there. ``found`` is what it led to:
    the grant reaches that.
    """
    grant, stages = call.grant, call.pipeline
    hops_max = call.limits.link_hops_max
    async with aclosing(_way(_store(call, target), path, target.look, hops_max)) as way:
        async for place in way:
            on_the_way = grant.path.lies_in(place) or place == found
            if not on_the_way and not grant.reaches(place, is_directory=place != path):
                raise _beyond_the_grant(path)
            if stages.discreet:
                _refuse_hidden(call, target, place)


def _refuse_hidden(call: Call, target: Target, place: ScopedPath) -> None:
    """A hidden place that a target leads to or by is not there."""
    decision = call.pipeline.judge(call, place, _access_at(call, target))
    if isinstance(decision, Hide):
        call.pipeline.obey(call, decision, target)


def _refuse_first(call: Call) -> None:
    place = call.handle.path
    decision = call.pipeline.judge(call, place, call.ruled_at(call.target))
    if isinstance(decision, (Deny, Hide)):
        call.pipeline.obey(call, decision, call.target)


async def shows_the_way(call: Call, link: ScopedPath) -> bool:
    """Whether everything that a link leads by and to may be known to the caller."""
    if not call.pipeline.discreet and call.grant.whole:
        return True
    async with aclosing(_way(call.store, link, "object", call.limits.link_hops_max)) as way:
        async for place in way:
            if place != link and isinstance(call.decide(place, is_directory=True), Hide):
                return False
    return True


async def _way(
    store: Reader, path: ScopedPath, look: Look, hops_max: int
) -> AsyncGenerator[ScopedPath, None]:
    """Every place a lookup comes by: links followed, and from what is missing on as spelled.

    Without a pause: whoever could change a link between the lookup and this would be told of a way
    that was never gone.
    """
    place, ahead, hops, places, top = ROOT, list(reversed(path.parts)), 0, 0, ROOT
    while ahead:
        name = ahead.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if place == top:
                return
            place = place.parent
            continue
        place = place.child(name)
        places += 1
        if hops and places > _PLACES_MAX:
            raise TooManyLinks("links lead through too many places", path=path)
        yield place
        if look == "entry" and not ahead:
            return
        text = await _link_at(store, place)
        if text is None:
            continue
        hops += 1
        if hops > hops_max:
            return
        ahead.extend(reversed(text.split("/")))
        if isinstance(store, LinksWithin):
            top = store.link_top(place)
        place = top if text.startswith("/") else place.parent


async def _link_at(store: Reader, place: ScopedPath) -> str | None:
    """The text of the link at a place, if there is one that can be followed."""
    try:
        entry = await store.resolve(place, "entry")
    except BailiwickError:
        return None
    try:
        return await store.readlink(entry) if entry.type == "symlink" else None
    except BailiwickError:
        return None
    finally:
        entry.close()


async def check_new_names(call: Call, target: Target, handle: Handle) -> None:
    """A name about to be made is held to more than one that exists already. Directories that would
    be made on the way are new names too, and policy sees them."""
    check_new_name(handle.path.name)
    if handle.path.levels > DEPTH_MAX:  # a link led there
        raise too_deep("a new name would be too deep there", handle.path)
    if call.grant.root.names == "portable":
        await _check_siblings(call, target, handle)
    if not target.parents:
        return
    call.new_parents = []
    if getattr(handle, "missing", None) == ():
        return  # a store may say what it found missing on the way: nothing
    above = handle.path.parent
    while not above.is_root:
        entry = await call.store.resolve(above, "entry", parents=True)
        try:
            if entry.type is not None:
                return
            check_new_name(above.name)
            call.new_parents = [above, *(call.new_parents or ())]
            if call.grant.root.names == "portable":
                await _check_siblings(call, target, entry)
        finally:
            entry.close()
        if call.pipeline.discreet:
            decision = call.pipeline.judge(call, above, _access_at(call, target))
            call.pipeline.obey(call, decision, target, above)
        above = above.parent


async def _check_siblings(call: Call, target: Target, entry: Handle) -> None:
    name = entry.path.name
    twin = folded(name)
    refuse_hidden_twin(call, entry.path)
    for other in await call.store.names_beside(entry):
        if other == name or folded(other) != twin:
            continue
        if call.operation is MOVE and call.handle.path == entry.path.parent.child(other):
            continue  # what is moved: only the case of its own name changes
        raise twin_exists(call, target, entry.path, other)


def refuse_hidden_twin(call: Call, path: ScopedPath) -> None:
    """A name that is the same as a hidden one, but for case or accents, cannot be made whether or
    not the hidden one is there."""
    if call.pipeline.discreet:
        source = call.pipeline.hides_twin(call.grant, path)
        if source is not None:
            raise _kept_name(path, source)


def twin_exists(call: Call, target: Target, path: ScopedPath, other: str) -> BailiwickError:
    """The refusal of a name that differs only in case or accents from ``other``, which exists."""
    decision = call.decide(path.parent.child(other), _access_at(call, target))
    if isinstance(decision, Hide):
        return _kept_name(path, decision.source)
    return FileAlreadyExists(
        "a name that differs only in case or accents exists",
        path=path, hint="this root keeps names portable",
    )  # fmt: skip


def _kept_name(path: ScopedPath, source: str) -> PolicyDenied:
    return PolicyDenied("a rule keeps this name", path=path, decided_by=source)


def _store(call: Call, target: Target) -> Reader:
    """Where a target is looked up: one side of a comparison may be of another version."""
    there = call.store_there
    return there if there is not None and target is call.destination else call.store


def _access_at(call: Call, target: Target) -> frozenset[Access]:
    return call.access_there if target is call.destination else call.operation.ruled_new


def _beyond_the_grant(path: ScopedPath) -> MissingAccess:
    return MissingAccess("the grant does not reach this path", path=path)
