"""What is read of a message: never less of a file call than any other reader would see in it."""

import json
import os

import hypothesis
import pytest
from hypothesis import strategies as st

from bailiwick.fronts.acp import messages
from bailiwick.fronts.acp.places import Places

pytestmark = pytest.mark.spec("ACP-3")

CALL = '{"jsonrpc":"2.0","id":7,"method":"fs/write_text_file","params":{"path":"/x"}}'
UPDATE = '{"jsonrpc":"2.0","method":"session/update","params":{"text":"fs/x","list":[1,{"a":"b"}]}}'
PIECES = (
    *"{}[],:\"\\ \t\r\x0b\x0c\x1c\x85\u2028\ufeff/*'", "\\u", "\\u0066", "\\ud83d", "\\/", "NaN",
    "null", "-0", "1e5", '"method"', '"m\\u0065thod"', '"id":1,', '"method":"fs/read_text_file",',
    '"method":"_bailiwick/remove",',
    '"method":"session/update",', '"fs\\/read_text_file"', "\r" + CALL + "\r", CALL, UPDATE,
)  # fmt: skip


NAMES = ('"method"', '"m\\u0065thod"', '"\\u006dethod"', '"id"', '"params"', '"x"')
SPACES = ("", " ", "\t", "\r", " " * 80)
VALUES = (
    '"_bailiwick/remove"', '"\\u005fbailiwick/undo"',
    '"fs/read_text_file"', '"fs\\/read_text_file"', '"session/update"', "7", "null", '"\\ud83d"',
    "[\r" + CALL + "\r]", "{}", '{"method":"fs/write_text_file"}', '"\u2028"', '"]}\\"{"',
)  # fmt: skip


@st.composite
def objects(draw):
    """An object with members as they come, some of them twice."""
    members = draw(
        st.lists(
            st.tuples(
                st.sampled_from(NAMES), st.sampled_from(SPACES), st.sampled_from(VALUES)
            ),
            min_size=1, max_size=4,
        )
    )  # fmt: skip
    return "{" + ",".join(name + space + ":" + value for name, space, value in members) + "}"


@st.composite
def lines(draw):
    """A message, and things put into it at random."""
    text = draw(st.sampled_from((CALL, UPDATE)) | objects())
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 3))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[at + cut :]
    return text.replace("\n", " ").encode("utf-8", "replace")


def lenient_methods(line):
    """The methods that lenient readers would find: the last or the first of two, NaN taken, and
    whatever ends a line somewhere."""
    for text in {line.decode(errors="replace"), *line.decode(errors="replace").splitlines()}:
        for hook in (dict, lambda pairs: dict(reversed(pairs))):
            try:
                value = json.loads(text.lstrip("\ufeff"), object_pairs_hook=hook)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value.get("method")


@hypothesis.settings(max_examples=600)
@hypothesis.given(lines())
def test_no_reader_sees_a_file_call_where_we_see_none(line):
    try:
        seen = messages.read(line).method
    except messages.Malformed:
        return  # it goes nowhere
    if isinstance(seen, str) and seen.startswith(messages.FILE_METHODS):
        return  # it is answered here
    found = [method for method in lenient_methods(line) if isinstance(method, str)]
    assert not any(method.startswith(messages.FILE_METHODS) for method in found)


@hypothesis.given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_plain_messages_are_read(params, ascii_only):
    # A text that holds a file call on a line of its own is another matter.
    message = {"jsonrpc": "2.0", "id": "x", "method": "session/update", "params": params}
    line = json.dumps(message, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    hypothesis.assume(not any(each.encode() in line for each in messages.FILE_METHODS))
    hypothesis.assume(b"\xed" not in line)
    envelope = messages.read(line)
    assert envelope.method == "session/update"
    assert messages.id_of(envelope) == "x"


def test_the_id_of_a_message_that_is_too_long_is_known_by_its_beginning():
    for text, wanted in {
        b'{"jsonrpc":"2.0","id":5,"method":"x': (b"5", "method"),
        b' { "jsonrpc" : "2.0" , "id" : "a-1" , "result":': (b'"a-1"', "result"),
        b'{"id":5,"error":{': (b"5", "error"),
    }.items():
        request, what = messages.beginning_of(text)
        assert (bytes(request), what) == wanted
    assert messages.beginning_of(b'{"params":{"id":5,"method":"x"}') is None


def test_a_directory_under_another_spelling_is_the_same_place(tmp_path):
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    os.symlink(project, tmp_path / "spelled")
    places = Places(str(project), str(project))
    assert places.opened_in(str(project))
    assert places.opened_in(str(tmp_path / "spelled" / "inner"))
    assert not places.opened_in(str(tmp_path))
    assert not places.opened_in("relative")
    assert not places.opened_in(None)
    assert places.place_of(f"{tmp_path}/spelled/inner/a") == "inner/a"
    assert places.place_of(f"{tmp_path}/spelled/inner") == "inner"
    assert places.place_of(f"{project}/a") == f"{project}/a"
    assert places.place_of(f"{tmp_path}/spelled-evil/a") == f"{tmp_path}/spelled-evil/a"
    assert places.shown("inner/a") == f"{tmp_path}/spelled/inner/a"
    assert places.shown("b") == f"{project}/b"


def test_working_directories_are_not_remembered_without_end():
    places = Places("/", None)
    assert [places.opened_in(f"/d{number}") for number in range(80)].count(True) == 64
    assert places.place_of("/d3/a") == "a"
    assert places.place_of("/d79/a") == "/d79/a"
