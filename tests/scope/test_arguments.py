"""Arguments of the wrong type: every verb, every argument, every odd value.

The table is made from the signatures, so a new argument is in it from its first day.
"""

import inspect
import types
import typing

import pytest

import bailiwick
from bailiwick.scope import Scope
from tests.scope.every_verb import TWO_ROOTS, VERBS
from tests.scope.support import Opener, plant, records

TREE = {"f.txt": "hello\nworld\n", "j": "{}", "d": None, "l": "-> f.txt"}

REQUIRED = {
    "path": "f.txt", "to": "new", "pattern": "*.txt", "data": b"d", "text": "t", "value": {"a": 1},
    "source": [b"x"], "host_path": "/nope", "target": "f.txt", "file_mode": 0o600, "mtime_ns": 1,
}  # fmt: skip

PER_VERB = {
    "edit": {"old": "hello", "new": "x"}, "make_dir": {"path": "new"}, "symlink": {"path": "new"},
    "readlink": {"path": "l"}, "read_json": {"path": "j"}, "diff": {"text": "x"},
    "grep": {"path": ".", "pattern": "hello"}, "write_bytes": {"path": "new"},
}  # fmt: skip

FEWER = {("edit", "edits"): ("old", "new"), ("diff", "other"): ("text",)}
"""Arguments that exclude each other: those to leave out."""

UNPRINTABLE = 10**5_000
"""Python refuses to write out a number of so many digits."""

SIMPLE = {int, str, bool, type(None)}


def odd_values():
    """Fresh each time: some are used up by being looked at."""
    edit = bailiwick.Edit
    return [
        None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, UNPRINTABLE, 1.5, float("nan"),
        float("inf"), "", "x", "5", "true", "\ud800", "\0", "a" * 5_000, "é", b"", b"x",
        bytearray(b"x"), [], [1], ["\ud800"], [b"x"], {}, {"a": 1}, (), set(), object(), Odd(),
        lambda: 1, edit("a", "b"), [edit(1, 2)], [edit("hello", None)], [edit("\ud800", "b")],
        [edit("hello", "x", replace_all="no")], [edit("hello", "\ud800")], iter([b"x"]), iter([1]),
        "*", "[", "{", "**", "{a,b}" * 3, "\\", "(", "../..", "/", "a\\b",
    ]  # fmt: skip


class Odd:
    """Can neither be hashed, compared nor asked whether it is true, as an array of numbers."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("ambiguous")

    def __bool__(self):
        raise ValueError("ambiguous")


def _arguments():
    """Every argument of every verb; `make unit` tries the last of each verb."""
    for verb in (*VERBS, *sorted(TWO_ROOTS)):
        parameters = inspect.signature(getattr(Scope, verb), eval_str=True).parameters
        *others, last = (name for name in parameters if name != "self")
        for name in (*others, last):
            plain = _types_of(parameters[name].annotation)
            marks = [] if name == last else [pytest.mark.slow]
            yield pytest.param(verb, name, plain, id=f"{verb}-{name}", marks=marks)


def _types_of(annotation):
    """The plain types that an argument takes, or None where it takes more than plain ones."""
    parts = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    plain = {str if typing.get_origin(part) is typing.Literal else part for part in parts}
    return plain if plain <= SIMPLE else None


def _is_union(annotation):
    return typing.get_origin(annotation) in (types.UnionType, typing.Union)


def _usual(verb, argument, source):
    """Arguments with which the verb would succeed, or nearly."""
    parameters = inspect.signature(getattr(Scope, verb)).parameters.values()
    usual = {p.name: REQUIRED.get(p.name) for p in parameters if p.default is p.empty}
    usual = {**usual, **PER_VERB.get(verb, {})}
    if "other" in usual:
        usual["other"] = source
    for name in ("self", *FEWER.get((verb, argument), ())):
        usual.pop(name, None)
    return usual


async def _called(fs, verb, arguments):
    """The error that a call raised, or None."""
    try:
        begun = getattr(fs, verb)(**arguments)
        if verb == "stream":
            async for _ in begun:
                pass
        else:
            await begun
    except bailiwick.BailiwickError as error:
        return error
    return None


@pytest.mark.spec("ERR-3", "AUDIT-1")
@pytest.mark.parametrize(("verb", "argument", "plain"), list(_arguments()))
async def test_an_odd_argument_is_refused_by_name_and_on_record(tmp_path, verb, argument, plain):
    opening = Opener("memory", tmp_path)
    values = odd_values()
    while values:
        async with opening() as fs, opening() as source:
            await plant(fs, TREE)
            await plant(source, TREE)
            # What is refused changes nothing, so that the next value finds the same tree.
            refused = True
            while values and refused:
                value = values.pop(0)
                refused = await _seen_refused(fs, source, verb, argument, value, plain)


async def _seen_refused(fs, source, verb, argument, value, plain):
    """Whether one call was refused; what it answers and records is checked."""
    before = len(records(fs))
    arguments = {**_usual(verb, argument, source), argument: value}
    error = await _called(fs, verb, arguments)
    shown = "10**5000" if value is UNPRINTABLE else repr(value)[:40]
    what = f"{verb}({argument}={shown})"
    made = records(fs)[before:]
    assert [record.verb for record in made] == [verb], what
    assert made[0].error_kind == (error.kind if error else None), what
    if error is not None:
        assert error.kind != "internal_error", what
        assert error.request_id == made[0].request_id, what
    if plain is not None and type(value) not in plain:
        assert isinstance(error, bailiwick.ParseError), what
        assert argument in error.message, what
    return error is not None


@pytest.mark.spec("ERR-3")
async def test_text_may_be_of_a_class_of_its_own(opening):
    """Results hold such texts, and they are handed back."""

    class Text(str):
        __slots__ = ()

    async with opening() as fs:
        await fs.write_text("f", "a\nb\n", mode=Text("create"), encoding=Text("utf-8"))
        path = (await fs.stat("f")).path
        assert (await fs.glob(path)).paths == ["f"]
        assert (await fs.grep(Text("a"), path, include=[path])).matches
        await fs.symlink("l", path)
        assert await fs.readlink("l") == "f"


@pytest.mark.spec("AUDIT-5")
@pytest.mark.parametrize(
    "request_id", ["", "a" * 129, "a\nb", "\0", "\x1b[1m", "\u202e", "\ud800", None, 5, b"a", ["a"]]
)
async def test_what_is_no_request_id_is_refused(opening, request_id):
    async with opening() as fs:
        with pytest.raises(bailiwick.ParseError) as refused:
            fs.with_request(request_id)
        assert "request_id" in refused.value.message


@pytest.mark.spec("AUDIT-5")
@pytest.mark.parametrize("request_id", ["a", "a" * 128, "turn 5, tool 7", "é", "0192-ab/…"])
async def test_a_request_id_is_carried_as_it_was_given(opening, request_id):
    async with opening() as fs:
        scope = fs.with_request(request_id)
        assert (await scope.write_text("f", "x")).request_id == request_id
        assert records(fs)[-1].request_id == request_id
