"""Short ways to ask a policy, in every way that it can be asked, and one way to name a decision."""

from bailiwick.grant import Grant, Root, parse_subject
from bailiwick.operations import ALL_ACCESS, OPERATIONS
from bailiwick.paths import ScopedPath
from bailiwick.policy import Allow, Ask, Context, Deny, Hide

WORDS = {Allow: "allow", Deny: "deny", Ask: "ask", Hide: "hide"}


def word(decision):
    return WORDS[type(decision)]


def root_named(name="workspace:demo", **settings):
    kind, _, root_id = name.partition(":")
    return Root(kind=kind, id=root_id, **settings)


def grant_for(subject="agent_run:c/r", root=None, *, access=ALL_ACCESS, explicit=False, id="g1"):
    return Grant(
        id=id,
        subject=parse_subject(subject),
        root=root or root_named(),
        access=access,
        explicit=explicit,
    )


def context_of(grant, operation, access, path, destination=None, command=None):
    return Context(
        subject=grant.subject, root=grant.root, operation=operation.name, access=access,
        path=path, destination=destination, reason="", grant_id=grant.id,
        explicit=grant.explicit, held=grant.access, request_id="r", front="python",
        interactive=False, size=None, sha256=None, paths=1, command=command,
    )  # fmt: skip


def said(policy, grant, operation, path, access=None, destination=None):
    """The decision, which must be the same however the policy is asked, and however often."""
    operation = OPERATIONS[operation]
    access = frozenset(access) if access is not None else operation.ruled
    path = ScopedPath(path)
    destination = None if destination is None else ScopedPath(destination)
    first = policy.glance(grant, operation, access, path, destination)
    assert policy.glance(grant, operation, access, path, destination) == first
    assert policy.decide(context_of(grant, operation, access, path, destination)) == first
    explained = policy.explain(
        grant.subject, grant.root, operation, path, access=access, held=grant.access,
        explicit=grant.explicit, grant_id=grant.id, destination=destination,
    )  # fmt: skip
    assert explained.decision == first
    return first
