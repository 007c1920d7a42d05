"""Many small contents in one file."""

import os

import pytest

from bailiwick.paths import ScopedPath
from bailiwick.working_copies.pack import Pack

A, B, C = map(ScopedPath, ("a", "b", "d/c"))


@pytest.fixture
def directory(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def pack(directory):
    return Pack(directory, "pack")


@pytest.fixture
def again(directory):
    """As whoever finds the file has it."""
    return lambda: Pack(directory, "pack")


@pytest.mark.spec("EXEC-8")
def test_the_last_that_was_put_counts(pack, again):
    pack.add({A: b"old", B: b""})
    pack.add({A: b"new", C: b"c" * 100_000}, durable=True)
    for each in (pack, again()):
        assert [each.get(path) for path in (A, B, C)] == [b"new", b"", b"c" * 100_000]
        assert A in each
        assert ScopedPath("other") not in each
        assert each.get(ScopedPath("other")) is None


@pytest.mark.spec("EXEC-8")
def test_what_was_forgotten_is_not_found_again(pack, again, tmp_path):
    pack.add({A: b"a", B: b"b"})
    pack.forget((A, C))
    for each in (pack, again()):
        assert [each.get(path) for path in (A, B)] == [None, b"b"]
    pack.add({A: b"anew"})
    assert again().get(A) == b"anew"
    pack.forget((A, B))
    assert os.listdir(tmp_path) == []  # nothing in it counted
    pack.add({C: b"c"})
    pack.clear()
    pack.clear()
    assert os.listdir(tmp_path) == []


@pytest.mark.spec("EXEC-8")
def test_a_record_that_was_cut_off_anywhere_is_none(pack, again, tmp_path):
    """Whoever is killed while it writes; and what comes next is not read as something else."""
    pack.add({A: b"a"})
    whole = os.path.getsize(tmp_path / "pack")
    inner = Pack(os.open(tmp_path, os.O_RDONLY), "inner")
    inner.add({C: b"planted"})
    planted = (tmp_path / "inner").read_bytes()
    os.close(inner._directory)
    pack.add({B: planted * 3})
    written = (tmp_path / "pack").read_bytes()
    for length in range(whole, len(written)):
        (tmp_path / "pack").write_bytes(written[:length])
        found = again()
        assert [found.get(path) for path in (A, B, C)] == [b"a", None, None]
        found.add({B: b""})
        found = again()
        assert [found.get(path) for path in (A, B, C)] == [b"a", b"", None]


@pytest.mark.spec("EXEC-8")
def test_what_was_lost_with_the_machine_is_known_to_be(pack, again, tmp_path):
    pack.add({A: b"content"})
    data = (tmp_path / "pack").read_bytes()
    (tmp_path / "pack").write_bytes(data.replace(b"content", bytes(7)))
    assert again().get(A) is None


@pytest.mark.spec("EXEC-8")
def test_a_flipped_byte_anywhere_never_gives_the_content_of_another(pack, again, tmp_path):
    contents = {A: b"of a\n" * 3, B: b"of b\n" * 4, C: b""}
    pack.add(contents)
    whole = (tmp_path / "pack").read_bytes()
    lost = 0
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        (tmp_path / "pack").write_bytes(flipped)
        found = again()
        for path, data in contents.items():
            told = found.get(path)
            assert told in (data, None), at
            lost += told is None
    assert lost >= len(whole), "each byte means something"
    (tmp_path / "pack").write_bytes(whole)  # the control
    assert {path: again().get(path) for path in contents} == contents
