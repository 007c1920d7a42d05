"""What is read of a message: never less of a file call than any other reader would see in it."""

import json
import os

import hypothesis
import pytest
from hypothesis import strategies as st

from bailiwick.fronts.acp import messages
from bailiwick.fronts.acp.places import Places
from tests.fronts.acp.readers import messages_in, methods_in

pytestmark = pytest.mark.spec("ACP-3")

CALL = '{"jsonrpc":"2.0","id":7,"method":"fs/write_text_file","params":{"path":"/x"}}'
UPDATE = '{"jsonrpc":"2.0","method":"session/update","params":{"text":"fs/x","list":[1,{"a":"b"}]}}'
PIECES = (
    *"{}[],:\"\\ \t\r\x0b\x0c\x1c\x85\u2028\ufeff/*'", "\\u", "\\u0066", "\\ud83d", "\\/", "NaN",
    "null", "-0", "1e5", '"method"', '"m\\u0065thod"', '"id":1,', '"method":"fs/read_text_file",',
    '"method":"_bailiwick/remove",',
    '"method":"session/update",', '"fs\\/read_text_file"', "\r" + CALL + "\r", CALL, UPDATE,
    '"Method":"fs/read_text_file",', '"ID":7,', "\r[" + CALL + "]\r",
    '\r{"_":"\\ud800",' + CALL[1:] + "\r", "\r" + CALL[:-1] + ',"method":"x"}\r',
)  # fmt: skip


NAMES = (
    '"method"', '"m\\u0065thod"', '"\\u006dethod"', '"id"', '"params"', '"x"', '"Method"',
    '"METHOD"', '"\\u004dethod"', '"met\\ud800hod"', '"param\u017f"',
)  # fmt: skip
SPACES = ("", " ", "\t", "\r", " " * 80)
VALUES = (
    '"_bailiwick/remove"', '"\\u005fbailiwick/undo"',
    '"fs/read_text_file"', '"fs\\/read_text_file"', '"session/update"', "7", "null", '"\\ud83d"',
    "[\r" + CALL + "\r]", '"f\\udc00s/read_text_file"', '"FS/read_text_file"',
    "{}", '{"method":"fs/write_text_file"}', '"\u2028"', '"]}\\"{"',
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


def wrapped(inner):
    return f'{{"method":"session/update","params":\r{inner}\r}}'.encode()


@hypothesis.settings(max_examples=600)
@hypothesis.example(wrapped(CALL))
@hypothesis.example(wrapped('{"\\ud800":1,' + CALL[1:]))
@hypothesis.example(wrapped(CALL.replace("/x", "\\ud800")))
@hypothesis.example(wrapped(f"[{CALL}]"))
@hypothesis.example(wrapped(CALL[:-1] + ',"method":"x"}'))
@hypothesis.example(CALL.replace('"method"', '"Method"').encode())
@hypothesis.example((CALL.replace('"m', '"M')[:-1] + ',"method":"session/update"}').encode())
@hypothesis.given(lines())
def test_no_reader_sees_a_file_call_where_we_see_none(line):
    try:
        seen = messages.read(line)
    except messages.Malformed:
        return  # it goes nowhere
    if seen.is_file_call:
        return  # it is answered here
    assert not any(method.startswith(messages.FILE_METHODS) for method in methods_in(line))


@hypothesis.settings(max_examples=600)
@hypothesis.given(lines())
def test_readers_agree_on_what_is_passed_on(line):
    try:
        seen = messages.read(line)
    except messages.Malformed:
        return
    for message in messages_in(line):
        assert message.get("method") == seen.method
        assert message.get("id") == seen.key


@pytest.mark.parametrize("text", ["{}", " { } ", '{"a":1}', '{"a" : [1, 2] ,\t"b":"]}\\"{" } ',
    '{"a":12,"b":1}', '{"a":{"a":1},"b":"a"}', '{"":0}'])  # fmt: skip
def test_members_that_stand_once_are_read(text):
    seen = messages.read(text.encode())
    assert (seen.method, seen.key) == (None, None)


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"a":1,"a":12}', '{"a":12,"a":1}',
    '{"a":1,"b":2,"a":1}', '{"b":2,"a":1,"a":{}}', '{"a":"x","\\u0061":"x"}',
    '{"a":[],"b":1,"a":[],"c":2}', '{"a":1,"b":1,"b":1}'])  # fmt: skip
def test_members_that_stand_twice_are_not(text):
    with pytest.raises(messages.Malformed, match="twice"):
        messages.read(text.encode())


def test_an_object_of_very_many_members_is_no_message():
    text = "{" + ",".join(f'"a{number}":0' for number in range(5000)) + "}"
    with pytest.raises(messages.Malformed, match="members"):
        messages.read(text.encode())


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
    message = {"jsonrpc": "2.0", "id": "x", "method": "session/update", "params": params}
    line = json.dumps(message, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    message = messages.read(line)
    assert (message.method, message.key) == ("session/update", "x")


def test_the_id_of_a_message_that_is_too_long_is_known_by_its_beginning():
    for text, wanted in {
        b'{"jsonrpc":"2.0","id":5,"method":"x': (b"5", "method"),
        b' { "jsonrpc" : "2.0" , "id" : "a-1" , "result":': (b'"a-1"', "result"),
        b'{"id":5,"error":{': (b"5", "error"),
    }.items():
        request, what = messages.beginning_of(text)
        assert (bytes(request), what) == wanted
    for text in (
        b'{"params":{"id":5,"method":"x"}',
        b'{"id":007,"result":',
        b'{"id":"\r","result":',
        b'{"id":"\xff","result":',
    ):
        assert messages.beginning_of(text) is None


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
