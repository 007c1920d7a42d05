"""One table drives everything: routes, errors, OpenAPI, the reference."""

import inspect
from pathlib import Path

import msgspec
import pytest

from bailiwick.errors import KINDS, BailiwickError, RateLimited
from bailiwick.fronts.http import openapi, reference
from bailiwick.fronts.http.messages import errors
from bailiwick.fronts.http.routes import ROUTES
from bailiwick.operations import OPERATIONS
from bailiwick.scope import Scope
from tests.fronts.http.serving import check_error, serving

KINDS_IN_ORDER = sorted(KINDS)


def error_of(kind):
    return KINDS[kind](
        "a message", path="a/b", hint="a hint", decided_by="rule", details={"limit": 1}
    )


@pytest.mark.spec("ERR-4", "ERR-2", "HTTP-3")
def test_every_kind_has_its_status():
    assert errors.STATUS.keys() == KINDS.keys()
    for kind, cls in KINDS.items():
        assert errors.STATUS[kind] == cls.default_status, kind


@pytest.mark.spec("ERR-4", "HTTP-3")
@pytest.mark.parametrize("kind", KINDS_IN_ORDER)
async def test_every_kind_has_the_one_shape_on_the_wire(tmp_path, kind, monkeypatch):
    async with serving(tmp_path) as house:

        async def fail(*given, **more):
            raise error_of(kind)

        monkeypatch.setattr(Scope, "read_text", fail)
        got = await house.client().get("/file?path=a")
        document = got.json()
        check_error(got.status_code, document, kind)
        assert got.status_code == errors.STATUS[kind]
        cls = KINDS[kind]
        assert (document["category"], document["retryable"]) == (cls.category, cls.retryable)
        assert (document["hint"], document["path"], document["decidedBy"]) == (
            "a hint", "a/b", "rule",
        )  # fmt: skip
        assert document["details"] == {"limit": 1}


@pytest.mark.spec("ERR-3", "HTTP-3")
async def test_a_fault_is_a_fault_and_says_nothing_of_the_inside(tmp_path, monkeypatch):
    async with serving(tmp_path) as house:

        async def fail(*given, **more):
            raise KeyError("/host/path/of/a/secret")

        monkeypatch.setattr(Scope, "read_text", fail)
        got = await house.client().get("/file?path=a")
        check_error(got.status_code, got.json(), "internal_error")
        assert "secret" not in got.text


@pytest.mark.spec("ERR-4")
def test_another_status_only_where_the_table_allows_it():
    for kind, cls in KINDS.items():
        for status in (200, 412, 422, 408, 431, 599):
            allowed = status in errors.OTHER_STATUSES.get(kind, ())
            expected = status if allowed else errors.STATUS[kind]
            assert errors.status_of(cls("m", status=status)) == expected


@pytest.mark.spec("HTTP-3")
def test_details_are_named_as_the_wire_names_things():
    error = RateLimited("m", details={"retry_after_s": 1.5, "current_sha256": "ab", "count": 2})
    document = msgspec.json.decode(errors.encode(error))
    assert document["details"] == {"retryAfterS": 1.5, "currentHash": "sha256:ab", "count": 2}


def test_half_a_character_does_not_break_an_error():
    assert isinstance(KINDS["parse_error"]("m"), BailiwickError)
    document = msgspec.json.decode(errors.encode(KINDS["parse_error"]("m", path="a\ud800")))
    assert document["errorKind"] == "parse_error"


@pytest.mark.spec("HTTP-4", "AUTH-3")
def test_a_route_asks_for_the_access_its_verb_needs():
    needed = {verb: each for each in OPERATIONS.values() for verb in each.verbs}
    for route in ROUTES:
        if route.verb in needed:
            operation = needed[route.verb]
            assert operation.access <= route.needs, route.name
            assert route.changes == operation.changes or route.verb == "lock", route.name
        assert inspect.iscoroutinefunction(route.handler)


@pytest.mark.spec("HTTP-6")
def test_names_are_unique_and_examples_fit():
    assert len({route.name for route in ROUTES}) == len(ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    for route in ROUTES:
        assert route.example.startswith(f"{route.method} /"), route.name
        if route.body is not None:
            text = route.example.partition(" {")[2]
            msgspec.json.decode("{" + text, type=route.body)


@pytest.mark.spec("HTTP-6", "PY-6")
def test_the_reference_is_current():
    page = Path(__file__).parents[3] / "docs" / "http.md"
    assert page.read_text() == reference.page(), (
        "run: python -m bailiwick.fronts.http.reference > docs/http.md"
    )


@pytest.mark.spec("HTTP-6")
async def test_openapi_tells_every_route(tmp_path):
    async with serving(tmp_path) as house:
        document = (await house.client("").get("/openapi.json")).json()
    assert document == msgspec.json.decode(openapi.encoded())
    told = {(method.upper(), path) for path, each in document["paths"].items() for method in each}
    for route in ROUTES:
        assert (route.method, route.path) in told
    for path, operations in document["paths"].items():
        in_path = sorted(part[1:-1] for part in path.split("/") if part.startswith("{"))
        for operation in operations.values():
            taken = [(each["in"], each["name"]) for each in operation["parameters"]]
            assert len(set(taken)) == len(taken), path
            assert sorted(name for where, name in taken if where == "path") == in_path, path
    names = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(set(names)) == len(names)
