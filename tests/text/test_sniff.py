"""Text or binary: the borders of the probes."""

import pytest

from bailiwick.text.sniff import byte_order_mark, is_binary_search, is_binary_text


@pytest.mark.spec("READ-4")
@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"", False),
        (b"plain text\n", False),
        (b"\x1b[31mred\x1b[0m\x08\x0c\r\n\t", False),
        ("häßlich ☃\n".encode(), False),
        (b"\xe9t\xe9 in latin-1", False),
        (b"a\0b", True),
        (b"a" * 4095 + b"\0", True),
        (b"a" * 4096 + b"\0", False),
        (b"\x01" * 3 + b"a" * 7, False),
        (b"\x01" * 31 + b"a" * 69, True),
        (b"\x7f" * 31 + b"a" * 69, True),
        (b"a" * 69 + b"\x01" * 31, True),
        (b"a" * 70 + b"\x01" * 30, False),
        (b"a" * 4096 + b"\x01" * 100_000, False),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", True),
    ],
)
def test_nul_or_many_control_bytes_mean_binary(data, binary):
    assert is_binary_text(data) is binary


@pytest.mark.spec("READ-4")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_means_text(encoding):
    assert not is_binary_text("a\0b\x01".encode(encoding))


@pytest.mark.spec("READ-4")
def test_search_looks_for_nul_in_the_first_8192_bytes():
    assert is_binary_search(b"a" * 8191 + b"\0")
    assert not is_binary_search(b"a" * 8192 + b"\0")
    assert not is_binary_search(b"\x01" * 100)


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize(
    ("prefix", "mark"),
    [
        (b"\xef\xbb\xbfx", ("utf-8", 3)),
        (b"\xff\xfex\0", ("utf-16-le", 2)),
        (b"\xfe\xff\0x", ("utf-16-be", 2)),
        (b"\xff\xfe\0\0x\0\0\0", ("utf-32-le", 4)),
        (b"\0\0\xfe\xff\0\0\0x", ("utf-32-be", 4)),
        (b"\xef\xbb", None),
        (b"", None),
    ],
)
def test_the_longer_mark_is_recognised_first(prefix, mark):
    assert byte_order_mark(prefix) == mark
