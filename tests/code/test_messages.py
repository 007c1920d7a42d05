"""What comes from a sandbox is hostile: whatever it is, it is a message, a refusal or the end."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bailiwick
from bailiwick.code.messages import ChannelBroken, MessageReader, message
from bailiwick.code.service import CodeService
from bailiwick.text.both_ends import BothEnds

MOST = 1_000


def framed(document):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return len(text).to_bytes(4, "big") + text


@pytest.mark.spec("CODE-1")
@given(st.binary(max_size=3_000), st.integers(1, 100))
def test_any_bytes_are_messages_or_break_the_channel(data, step):
    reader = MessageReader(MOST)
    try:
        for start in range(0, len(data), step):
            for each in reader.feed(data[start : start + step]):
                assert isinstance(each.verb, str)
    except ChannelBroken:
        pass
    assert len(reader._pending) <= MOST + 4 + step


@given(st.lists(st.integers(1, 9), max_size=5), st.integers(1, 50))
def test_messages_come_out_however_they_are_cut(numbers, step):
    data = b"".join(framed({"id": each, "verb": "exists"}) for each in numbers)
    reader = MessageReader(MOST)
    got = [
        each.id
        for start in range(0, len(data), step)
        for each in reader.feed(data[start : start + step])
    ]
    assert got == numbers


@pytest.mark.spec("CODE-1")
@pytest.mark.parametrize(
    "data",
    [
        (MOST + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        framed(b""),
        framed(b"no json"),
        framed([]),
        framed({"id": "1"}),
        framed({"unknown": 1}),
        framed({"raised": {"type": "x"}}),
        framed(b'{"done": NaN}'),
        framed(b'{"verb": "\\ud800"}'),
        framed(b'{"arguments": ' + b"[" * 400),
    ],
)
def test_what_is_no_message_breaks_the_channel(data):
    with pytest.raises(ChannelBroken):
        [each.value for each in MessageReader(MOST).feed(data)]


async def answered(fs, verb, arguments=None, on=0):
    service = CodeService(fs, fs.limits, 100)
    (asked,) = MessageReader(100_000).feed(
        framed({"id": 1, "on": on, "verb": verb, "arguments": arguments or {}})
    )
    data = await service.answer(asked)
    await service.close()
    return json.loads(data[4:])


@pytest.mark.spec("CODE-1")
@pytest.mark.parametrize(
    "verb",
    [
        "_grant", "__class__", "grant", "exec", "session", "delegate", "with_request", "aclose",
        "_pipeline", "_run", "code", "limits", "powers", "next", "close", "", "read_text ",
        "with_caller", "_start_code", "open_session", "on_change", "copy.x",
    ],
)  # fmt: skip
async def test_a_name_that_is_no_verb_is_no_call(verb):
    async with bailiwick.open("memory:") as fs:
        told = (await answered(fs, verb))["error"]
        assert (told["kind"], told["message"]) == ("parse_error", "there is no such call")


@pytest.mark.spec("CODE-1")
@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("read_text", {}),
        ("read_text", {"path": 1}),
        ("read_text", {"path": None}),
        ("read_text", {"path": ["a"]}),
        ("read_text", {"path": "a", "line": "1"}),
        ("read_text", {"path": "a", "more": 1}),
        ("read_text", {"path": "a", "self": 1}),
        ("write_bytes", {"path": "a", "data": "text"}),
        ("write_bytes", {"path": "a", "data": {"$bytes": "no base64!"}}),
        ("write_text", {"path": "a", "text": "x", "mode": "any"}),
        ("copy_from", {"other": {"$state": 7}, "path": "a", "to": "b"}),
        ("edit", {"path": "a", "edits": [{"old": "x"}]}),
        ("extract_archive", {"path": "a", "destination": "b", "limits": {}}),
        ("find", {"limit": 2**80}),
        ("find", {"limit": True}),
        ("lock", {"path": "a", "ttl": "long"}),
    ],
)
async def test_what_a_call_does_not_take_is_refused_before_the_verb(verb, arguments):
    async with bailiwick.open("memory:") as fs:
        assert (await answered(fs, verb, arguments))["error"]["kind"] == "parse_error"


async def test_numbers_of_what_is_not_open_are_refused():
    async with bailiwick.open("memory:") as fs:
        for on in (1, -1, 2**40):
            assert (await answered(fs, "next", on=on))["error"]["kind"] == "parse_error"


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 60))
def test_output_is_its_beginning_and_its_end(pieces, most):
    ends = BothEnds(most)
    for each in pieces:
        ends.add(each)
    whole = b"".join(pieces)
    printed = ends.printed()
    assert printed.omitted_bytes == max(len(whole) - most, 0)
    if len(whole) <= most:
        assert printed == (whole.decode("utf-8", "backslashreplace"), "", 0)


def test_what_goes_to_code_is_plain_json_whatever_names_there_are():
    data = message({"path": "\udc80", "n": 2**70})
    assert json.loads(data[4:]) == {"path": "\udc80", "n": 2**70}
