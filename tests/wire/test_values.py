"""One table says what values look like on the wire: nothing is missing in it, and what is written
is read back."""

from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick import wire
from bailiwick.audit import LedgerRecord
from bailiwick.fronts.http.routes import ROUTES
from bailiwick.model import Entry, JsonRead, Stat, TextRead, Value
from bailiwick.notices import ReviewNotice, RunNotice
from bailiwick.paths import ScopedPath
from bailiwick.reviews import (
    ReviewFile,
    ReviewHunk,
    ReviewNote,
    ReviewQueue,
    ReviewResult,
    ReviewSides,
)
from bailiwick.runs import RunInfo
from bailiwick.sandbox import Piece
from bailiwick.scope import Scope
from bailiwick.scope.execution import Execution
from bailiwick.scope.sessions import Session
from bailiwick.scope.working_copies import OpenWork
from bailiwick.versions import Leased
from bailiwick.wire import names as names_module
from bailiwick.wire.forms import Form, form_of

pytestmark = pytest.mark.spec("LINE-6")

FORMS = {name: form for name, form in vars(wire.values).items() if isinstance(form, Form)}

BESIDES = {
    Leased, LedgerRecord, ReviewFile, ReviewHunk, ReviewNote, ReviewNotice, ReviewQueue,
    ReviewResult, ReviewSides, RunInfo, RunNotice,
}  # fmt: skip
"""What is told of a lock, of what is on record, of a run, of a review, and by events besides
changes."""

NOT_SERVED = {JsonRead, Piece}
"""What is made where it is asked for, from bytes that are served; and output, told by the line."""


def values_in(hint):
    """The values that something of a type holds, and all that lies in them."""
    if isinstance(hint, type) and issubclass(hint, Value):
        yield hint
        for field in msgspec.structs.fields(hint):
            yield from values_in(field.type)
    for each in get_args(hint):
        yield from values_in(each)


def answered():
    """Every value that a verb of a scope answers with, or of what a scope gives."""
    verbs = (
        getattr(owner, name)
        for owner in (Scope, Execution, Session, OpenWork)
        for name in dir(owner)
        if not name.startswith("_")
    )
    hints = (get_type_hints(verb).get("return") for verb in verbs if callable(verb))
    return {value for hint in hints for value in values_in(hint)} - NOT_SERVED


def test_every_value_that_a_verb_answers_with_has_a_row():
    assert {TextRead, Stat, Entry} <= answered()
    assert answered() | BESIDES == {form.of for form in FORMS.values()}


def forgotten(form):
    """Fields of a value of which its form says nothing."""
    known = {key.of for key in form.keys if not key.again}
    return {field.name for field in msgspec.structs.fields(form.of)} - (
        known | form.unsaid.keys() | form.derived.keys()
    )


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_row_speaks_of_every_field(form):
    assert not forgotten(form)


def test_a_field_that_the_table_does_not_know_is_found():
    class Planted(TextRead, frozen=True, kw_only=True):
        flavour: str

    assert forgotten(Form(Planted, "Planted", "", keys=wire.values.FILE.keys)) == {"flavour"}


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = WORDS.filter(lambda name: name not in ("", ".", "..") and not set(name) & set("/\0"))
PATHS = st.lists(NAMES, max_size=3).map(lambda names: ScopedPath("/".join(names) or "."))
SIMPLE = {
    str: WORDS, bool: st.booleans(), int: st.integers(0, 2**53), bytes: st.binary(max_size=8),
    ScopedPath: PATHS, NoneType: st.none(), float: st.floats(0, 2**53),
}  # fmt: skip


def of_type(hint):
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*map(of_type, arguments))
    if origin is list:
        return st.lists(of_type(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(*map(of_type, arguments), max_size=3)
    if origin is tuple:
        return st.lists(of_type(arguments[0]), max_size=3).map(tuple)
    return of_class(hint)


def of_class(cls):
    """Values as there are: a hash is one, and a time is as exact as it is told."""
    form = form_of(cls)
    exact = {key.of for key in form.keys if key.write is None}
    fields = {}
    for field in msgspec.structs.fields(cls):
        strategy = of_type(field.type)
        if field.name in form.unsaid:
            strategy = st.just(form.unsaid[field.name])
        elif field.name.startswith("sha256"):
            known = st.text("0123456789abcdef", min_size=64, max_size=64)
            strategy = known | st.none() if NoneType in get_args(field.type) else known
        elif field.name == "file_mode":
            strategy = st.integers(0, 0o7777)
        elif field.name.endswith("_ns") and field.name not in exact:
            strategy = strategy.map(lambda ns: ns and ns * 1_000_000)
        elif cls is Entry and field.name == "name":
            strategy = NAMES
        fields[field.name] = strategy
    return st.builds(cls, **fields)


BESIDE = {"pattern": "p", "path": "q", "duration_ms": 1.5, "fork": "f", "id": "i"}


# What a glob found is told twice, and read as what a find is answered with.
READ = {name: form for name, form in FORMS.items() if name != "GLOB"}


@pytest.mark.parametrize("form", READ.values(), ids=READ.keys())
@settings(max_examples=25)  # of each of the forms: their fields have nothing to do with each other
@given(data=st.data())
def test_what_is_written_is_read_back(form, data):
    value = data.draw(of_class(form.of))
    beside = {key.name: BESIDE[key.name] for key in form.keys if not key.of}
    sent = msgspec.json.encode(form.write(value, **beside))
    assert wire.read(form.of, msgspec.json.decode(sent)) == value
    # The schema that is shown is that of what is sent.
    assert msgspec.json.encode(msgspec.json.decode(sent, type=form.struct)) == sent


@pytest.mark.parametrize(
    ("name", "lie"),
    {
        "path": "a/../b", "hash": "sha256:0", "fileMode": "644", "sizeBytes": "1", "mode": "some",
    }.items(),
)  # fmt: skip
def test_what_cannot_be_is_refused(name, lie):
    form = wire.values.FILE_WRITE
    told = {
        "path": "a", "mode": "create", "created": True, "sizeBytes": 1, "hash": None,
        "version": "1", "fileMode": "0644", "requestId": "r",
    }  # fmt: skip
    assert wire.read(form.of, told).file_mode == 0o644
    with pytest.raises(names_module.Unreadable):
        wire.read(form.of, {**told, name: lie})


def test_results_over_http_are_those_of_the_table():
    """A result that stands for a value is not spelled out a second time."""
    by_kind = {form.kind: form for form in FORMS.values() if form.kind}
    served = {route.result for route in ROUTES if route.result is not None}
    for result in served:
        form = by_kind.get(msgspec.inspect.type_info(result).tag)
        assert form is None or form.struct is result
    assert {form.struct for form in by_kind.values()} <= served
