"""Bytes in a block: the same answer as Python's own, with the C library's help and without."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bailiwick.stores.volume.search import substrings


@pytest.mark.spec("GREP-1")
@pytest.mark.parametrize("with_help", [True, False])
@example(block=b"", needle=b"ab")
@example(block=b"a\0b", needle=b"\0b")
@example(block=b"ab", needle=b"")
@given(
    block=st.lists(st.sampled_from([b"a", b"b", b"\0", b"ab" * 40]), max_size=9).map(b"".join),
    needle=st.lists(st.sampled_from([b"a", b"b", b"\0"]), max_size=5).map(b"".join),
)
def test_what_is_found_is_there(with_help, block, needle):
    with pytest.MonkeyPatch.context() as patch:
        if not with_help:
            patch.setattr(substrings, "_FIND", None)
        assert substrings.contains(block, needle) == (needle in block)
