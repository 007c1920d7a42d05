"""Output on the wire: each piece stands by itself, and whatever was printed survives."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.sandbox import Piece
from bailiwick.wire import Unreadable, values

pytestmark = pytest.mark.spec("EXEC-6", "EXEC-10")

PRINTED = st.one_of(st.binary(max_size=64), st.text(max_size=16).map(lambda text: text.encode()))


@given(seq=st.integers(0, 2**53), stream=st.sampled_from(["stdout", "stderr"]), data=PRINTED)
def test_what_is_told_is_what_was_printed(seq, stream, data):
    piece = Piece(seq, stream, data)
    sent = msgspec.json.encode(values.piece_line(piece))
    assert values.piece_of(msgspec.json.decode(sent, type=values.ExecLine)) == piece
    document = msgspec.json.decode(sent)
    assert document.keys() - {"encoding"} == {"seq", "stream", "data"}
    assert ("encoding" in document) == (data.decode(errors="replace").encode() != data)


@pytest.mark.parametrize(
    "line",
    [
        {}, {"seq": 0, "stream": "stdout"}, {"seq": 0, "stream": "stdin", "data": ""},
        {"stream": "stdout", "data": ""},
        {"seq": 0, "stream": "stdout", "data": "!", "encoding": "base64"},
    ],
)  # fmt: skip
def test_what_is_no_piece_is_refused(line):
    with pytest.raises(Unreadable):
        values.piece_of(values.ExecLine(**line))
