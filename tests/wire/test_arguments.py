"""What the arguments of verbs are called on the wire follows from one rule, on both sides."""

import inspect

import msgspec
import pytest

from bailiwick.fronts.http.routes import ROUTES
from bailiwick.scope import Scope
from bailiwick.wire.arguments import argument_name

pytestmark = pytest.mark.spec("LINE-6")

ELSEWHERE = {
    ("read_bytes", "length"),  # maxBytes: how much is asked for at a time
    ("append", "data"),  # content, or contentBase64
    ("write_stream", "source"),  # the body itself
    ("diff", "text"),  # a server compares what it has
    ("extract_archive", "limits"),  # those of the server
    ("stream", "offset"),  # the header Range
    ("stream", "length"),
}
"""Arguments that go another way, or nowhere."""

NOT_THE_VERB = {"deleteSnapshot", "deleteFork", "uploadFile"}
"""Routes that name a thing in their path, and the one that writes and never replaces anything."""

VERBS = [
    pytest.param(route, id=route.name)
    for route in ROUTES
    if hasattr(Scope, route.verb) and route.name not in NOT_THE_VERB
]


def known(route):
    """What a route takes, in its query or body, in snake case."""
    names = {parameter.into for parameter in route.parameters}
    if route.body is not None:
        names |= {field.name for field in msgspec.structs.fields(route.body)}
    return names


@pytest.mark.parametrize("route", VERBS)
def test_a_route_knows_the_arguments_of_its_verb_by_their_names(route):
    taken = inspect.signature(getattr(Scope, route.verb)).parameters.keys() - {"self"}
    given = {name for name in taken if (route.verb, name) not in ELSEWHERE}
    missing = {argument_name(name) for name in given} - known(route)
    assert not missing


def test_an_argument_that_no_route_knows_is_found():
    (route,) = (each for each in ROUTES if each.name == "move")
    assert argument_name("to") in known(route)
    assert argument_name("flavour") not in known(route)
