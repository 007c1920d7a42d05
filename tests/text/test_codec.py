"""Bytes to text and back: exactly, or an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import BinaryFile, ParseError
from bailiwick.text.codec import (
    Decoded,
    TextForm,
    canonical_encoding,
    decode,
    encode,
    encode_as,
    form_for_write,
    form_of,
    form_of_prefix,
    line_ending_of,
    with_line_ending,
)

UNICODE = ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]
characters = st.characters(exclude_categories=("Cs",))
texts = st.text(characters)


@pytest.mark.spec("READ-5")
@given(text=texts, encoding=st.sampled_from(UNICODE))
def test_marked_text_round_trips_without_naming_the_encoding(text, encoding):
    if encoding == "utf-16-le" and text.startswith("\0"):
        return
    data = encode(text, encoding, bom=True)
    assert decode(data) == Decoded(text, encoding, True)


@pytest.mark.spec("READ-5")
@given(data=st.binary(), encoding=st.sampled_from([None, "utf-8", "latin-1", "cp1252", "gbk"]))
def test_what_decodes_encodes_to_the_same_bytes(data, encoding):
    try:
        decoded = decode(data, encoding)
    except BinaryFile:
        return
    assert encode(decoded.text, decoded.encoding, decoded.bom) == data


@pytest.mark.spec("READ-5")
@given(data=st.binary(min_size=1))
def test_nothing_decodes_to_a_replacement_character_that_is_not_there(data):
    try:
        text = decode(data).text
    except BinaryFile:
        return
    assert text.count("\ufffd") <= data.count(b"\xef\xbf\xbd") + data.count(b"\xff\xfd") + (
        data.count(b"\xfd\xff")
    )


@pytest.mark.spec("READ-5", "WRITE-5")
@given(text=texts, encoding=st.sampled_from(["latin-1", "cp1252", "shift_jis", "gb18030", "cp037"]))
def test_what_encodes_decodes_to_the_same_text(text, encoding):
    try:
        data = encode(text, encoding)
    except ParseError:
        return
    assert data.decode(encoding) == text


@pytest.mark.spec("READ-5")
def test_undecodable_bytes_are_binary_file_with_a_hint_never_substituted():
    with pytest.raises(BinaryFile) as caught:
        decode(b"caf\xe9")
    assert "encoding" in (caught.value.hint or "")
    assert decode(b"caf\xe9", "latin-1") == Decoded("café", "latin-1", False)


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32-be"])
def test_a_broken_marked_file_is_binary(encoding):
    with pytest.raises(BinaryFile):
        decode(encode("text", encoding, bom=True) + b"\x01")


@pytest.mark.spec("READ-5")
def test_lone_surrogates_in_a_file_are_binary():
    with pytest.raises(BinaryFile):
        decode(b"\xff\xfe\x00\xd8a\x00")
    with pytest.raises(BinaryFile):
        decode(b"\xed\xa0\x80")


@pytest.mark.spec("READ-5")
def test_a_named_encoding_that_does_not_give_the_same_bytes_is_refused():
    # In shift_jis both spellings decode, only one of them is encoded.
    ambiguous = b"\x81\x5f"
    text = ambiguous.decode("cp932")
    assert text.encode("cp932") == ambiguous
    not_canonical = b"\x87\x90"
    assert not_canonical.decode("cp932").encode("cp932") != not_canonical
    with pytest.raises(BinaryFile):
        decode(not_canonical, "cp932")


@pytest.mark.spec("WRITE-5")
@pytest.mark.parametrize(
    "name",
    [
        "", "utf-9", "rot13", "base64", "hex", "zlib", "bz2", "uu", "quopri", "idna", "punycode",
        "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem", "utf-7", "hz",
        "iso2022_jp", "charmap", "aliases", "string_escape", "os.path", "../x", "utf-8\0", "utf-8!",
        "ütf-8", "x" * 10_000, "latin-1\nX: y",
    ],
)  # fmt: skip
def test_unknown_encoding_names_never_become_utf8(name):
    with pytest.raises(ParseError) as caught:
        decode(b"x", name)
    assert len(caught.value.message) < 400
    assert "\n" not in caught.value.message
    with pytest.raises(ParseError):
        encode("x", name)


@pytest.mark.spec("WRITE-5")
@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("UTF-8", "utf-8"), ("utf8", "utf-8"), ("U8", "utf-8"), ("UTF_16LE", "utf-16-le"),
        ("ISO-8859-1", "latin-1"), ("latin1", "latin-1"), ("L1", "latin-1"),
        ("windows-1252", "cp1252"), ("utf-8-sig", "utf-8-sig"), ("sjis", "shift_jis"),
        ("us-ascii", "ascii"),
    ],
)  # fmt: skip
def test_each_encoding_has_one_name(name, canonical):
    assert canonical_encoding(name) == canonical
    assert canonical_encoding(canonical) == canonical


@pytest.mark.spec("READ-4", "READ-5")
def test_naming_an_encoding_does_not_make_a_binary_file_text():
    with pytest.raises(BinaryFile):
        decode(b"\x89PNG\0\0", "latin-1")
    with pytest.raises(BinaryFile):
        decode(b"\x89PNG\0\0")
    assert decode("ab".encode("utf-16-le"), "utf-16-le").text == "ab"


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["a\r\n", "grün, 5 €\n" * 1_000])
def test_what_looks_like_utf16_without_a_mark_is_refused_with_the_name_that_reads_it(
    text, encoding
):
    data = text.encode(encoding)
    with pytest.raises(BinaryFile) as caught:
        decode(data)
    assert caught.value.hint == f'if it is text, name its encoding: encoding="{encoding}"'
    assert decode(data, caught.value.details["likely_encoding"]).text == text


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize(
    "data", [b"\x89PNG\0\0\0\rIHDR", bytes(64), b"\1\0\2\0\3\0", b"a\0b", b"\0"]
)
def test_what_does_not_look_like_utf16_is_binary(data):
    with pytest.raises(BinaryFile) as caught:
        decode(data)
    assert (caught.value.hint, caught.value.details) == ("read it as bytes", {})


@pytest.mark.spec("READ-5")
def test_utf16_without_byte_order_needs_a_mark():
    assert decode("ab".encode("utf-16"), "utf-16") == Decoded("ab", "utf-16-le", True)
    assert decode(b"\xfe\xff\0a", "utf-16") == Decoded("a", "utf-16-be", True)
    with pytest.raises(BinaryFile):
        decode("ab".encode("utf-16-be"), "utf-16")
    assert decode(b"ab", "utf-8-sig") == Decoded("ab", "utf-8", False)
    assert decode(b"\xef\xbb\xbfab", "utf-8") == Decoded("ab", "utf-8", True)


@pytest.mark.spec("READ-5")
def test_a_mark_of_another_encoding_is_read_as_the_caller_says():
    assert decode(b"\xef\xbb\xbfa", "latin-1") == Decoded("ï»¿a", "latin-1", False)


@pytest.mark.spec("WRITE-5")
@pytest.mark.parametrize(
    ("text", "encoding"),
    [("a\nb☃", "latin-1"), ("a\nb\ud800", "utf-8"), ("a\nb\udfff", "utf-16-le"), ("a\nb¥", "sjis")],
)
def test_unencodable_text_is_refused_with_its_place(text, encoding):
    with pytest.raises(ParseError) as caught:
        encode(text, encoding)
    assert caught.value.details["line"] == 2
    assert caught.value.details["column"] == 2
    assert ("utf-8" in caught.value.hint) == (not encoding.startswith("utf-"))


@pytest.mark.spec("WRITE-5")
def test_marks_are_written_only_where_they_exist():
    assert encode("a", "utf-8-sig") == b"\xef\xbb\xbfa"
    assert encode("a", "utf-16") == b"\xff\xfea\0"
    assert encode("a", "utf-16-be", bom=True) == b"\xfe\xff\0a"
    with pytest.raises(ParseError):
        encode("a", "latin-1", bom=True)
    with pytest.raises(ParseError):
        encode("\0a", "utf-16", bom=True)


@pytest.mark.spec("READ-3")
@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("", "none"), ("a", "none"), ("a\rb\r", "none"), ("a\n", "lf"), ("\n\n", "lf"),
        ("a\rb\n", "lf"), ("a\r\n", "crlf"), ("a\r\nb\r\nc\r", "crlf"), ("a\r\nb\n", "mixed"),
        ("\r\r\n", "crlf"),
    ],
)  # fmt: skip
def test_line_endings(text, ending):
    assert line_ending_of(text) == ending


@pytest.mark.spec("WRITE-5")
@given(text=texts.map(lambda text: text.replace("\r\r\n", "\r\n")))
def test_crlf_files_stay_crlf_and_lf_files_stay_lf(text):
    crlf = with_line_ending(text, "crlf")
    assert line_ending_of(crlf) in ("crlf", "none")
    assert with_line_ending(crlf, "crlf") == crlf
    lone = text.replace("\r\n", "\n")
    assert with_line_ending(text, "lf") == lone
    assert with_line_ending(text, "mixed") == with_line_ending(text, "none") == text


@pytest.mark.spec("WRITE-5")
def test_a_write_keeps_the_form_of_the_file_unless_told():
    existing = form_of(decode(encode("a\r\nb\r\n", "utf-16-be", bom=True)))
    assert existing == TextForm("utf-16-be", True, "crlf")
    kept = form_for_write(existing)
    assert encode_as("x\ny\n", kept) == b"\xfe\xff" + "x\r\ny\r\n".encode("utf-16-be")
    assert form_for_write(existing, encoding="utf-16") == existing
    assert form_for_write(existing, encoding="utf-8") == TextForm("utf-8", False, "crlf")
    assert form_for_write(existing, line_ending="lf").line_ending == "lf"
    assert form_for_write(existing, bom=False) == TextForm("utf-16-be", False, "crlf")
    marked = TextForm("utf-8", True, "lf")
    assert form_for_write(marked, encoding="utf8") == marked
    assert form_for_write(TextForm("big5hkscs"), encoding="big5").encoding == "big5"


@pytest.mark.spec("WRITE-5")
def test_a_new_file_is_utf8_with_lines_as_given():
    form = form_for_write(None)
    assert encode_as("a\r\nb\n", form) == b"a\r\nb\n"
    assert form_for_write(None, encoding="utf-8-sig") == TextForm("utf-8", True, "none")
    assert form_for_write(None, encoding="utf-32") == TextForm("utf-32-le", True, "none")
    with pytest.raises(ParseError):
        form_for_write(None, encoding="rot13")


@pytest.mark.spec("WRITE-5")
@pytest.mark.parametrize("ending", ["mixed", "none"])
def test_a_file_without_one_line_ending_takes_text_as_given(ending):
    assert encode_as("a\nb\r\n", TextForm("utf-8", False, ending)) == b"a\nb\r\n"


@pytest.mark.spec("WRITE-5")
@given(
    text=st.text(st.sampled_from("aé😀\u0a0a")).map(lambda text: "é\r\n" + text),
    encoding=st.sampled_from(UNICODE),
    cut=st.integers(min_value=0, max_value=200),
)
def test_the_form_is_known_from_a_beginning_cut_anywhere(text, encoding, cut):
    data = encode(text, encoding, bom=True)
    prefix = data[: max(cut, len(encode("é\r\n", encoding, bom=True)))]
    assert form_of_prefix(prefix) == TextForm(encoding, True, "crlf")


@pytest.mark.spec("WRITE-5")
def test_a_beginning_that_is_not_text_has_no_form():
    with pytest.raises(BinaryFile):
        form_of_prefix(b"a\0")
    with pytest.raises(BinaryFile):
        form_of_prefix(b"caf\xe9 ")
