"""Zeros are left out by whole blocks, and nothing else is."""

import random

import pytest

from bailiwick.sparse_files import without_zeros

BLOCK = 16 * 1024


@pytest.mark.parametrize("seed", range(50))
def test_all_of_it_is_written_but_zeros(seed):
    dice = random.Random(seed)
    parts = [
        dice.choice((bytes, dice.randbytes))(dice.choice((0, 1, BLOCK - 1, BLOCK, 3 * BLOCK)))
        for _ in range(dice.randrange(12))
    ]
    data = b"".join(parts)
    found = list(without_zeros(data))
    assert b"".join(bytes(each) for each in found) == data
    assert all(each > 0 and each % BLOCK == 0 for each in found if isinstance(each, int))
    assert all(len(each) for each in found if not isinstance(each, int))


def test_what_is_nothing_else_is_left_out_at_once():
    assert list(without_zeros(bytes(1 << 20))) == [1 << 20]
    assert list(without_zeros(b"")) == []
