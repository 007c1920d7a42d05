"""Chunks are joined where they are small, handed over in their order, and none is lost or copied
that need not be."""

import random

import pytest

from bailiwick.text.pieces import Pieces


def test_small_chunks_are_joined_and_large_ones_are_pieces_as_they_are():
    pieces, large = Pieces(4), b"as it is"
    assert not any(pieces.add(chunk) for chunk in (b"a", b"b", b"", b"cd", large, b"e"))
    assert pieces.take() == [b"abcd", large, b"e"]
    pieces.add(large)
    assert pieces.take()[0] is large
    assert pieces.take() == []
    pieces.add(b"")
    assert pieces.take() == []
    assert pieces.add(2 * large)  # nobody waits for more of what is large


@pytest.mark.parametrize("seed", range(20))
def test_all_bytes_come_in_their_order_and_few_at_a_time(seed):
    dice = random.Random(seed)
    pieces, given, got = Pieces(16), [], []
    for _ in range(300):
        given.append(dice.randbytes(dice.choice((0, 1, 3, 15, 16, 17, 40))))
        if pieces.add(given[-1]):
            taken = pieces.take()
            assert all(len(piece) >= 16 for piece in taken[:-1])
            assert 64 <= sum(map(len, taken)) < 64 + 40
            got += taken
    got += pieces.take()
    assert b"".join(got) == b"".join(given)
