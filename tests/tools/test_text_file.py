from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.text_file import _exactly, decode, shown

CHINESE = "这是一个测试文件,用来检查编码的判断是否正确。\n第二行也是中文\n"


@pytest.mark.parametrize(
    ("data", "codec", "mark"),
    [
        (b"", "utf-8", b""),
        (b"plain\n", "utf-8", b""),
        ("naïve – 文\n".encode(), "utf-8", b""),
        (b"\xef\xbb\xbfwith mark\n", "utf-8", b"\xef\xbb\xbf"),
        (b"\xff\xfe" + "a文\n".encode("utf-16-le"), "utf-16-le", b"\xff\xfe"),
        (b"\xfe\xff" + "a文\n".encode("utf-16-be"), "utf-16-be", b"\xfe\xff"),
        (b"\xff\xfe\0\0" + "a\n".encode("utf-32-le"), "utf-32-le", b"\xff\xfe\0\0"),
        (CHINESE.encode("gbk"), "gb18030", b""),
        (("int x; // " + CHINESE).encode("gbk"), "gb18030", b""),
        ("Größe über alles, café, élève, señor\n".encode("latin-1"), "latin-1", b""),
        (b"caf\xe9\n", "latin-1", b""),
        ("plain text\r\nsecond line\r\n".encode("utf-16-le"), "utf-16-le", b""),
        ("plain text\n\u6587\u5b57 second\n".encode("utf-16-be"), "utf-16-be", b""),
        ("多字节文本\n".encode() + b"stray \xff byte\n", "utf-8", b""),
    ],
)
def test_encodings_are_told(data: bytes, codec: str, mark: bytes) -> None:
    text = decode(data)
    assert text is not None
    assert (text.codec, text.mark) == (codec, mark)
    assert text.mark + text.encode_old(text.text) == data


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"ELF\0\1\2",
        "\u6587\u5b57\u6587\u5b57 a\n".encode("utf-16-le"),  # nothing tells it from a program's bytes
        "odd".encode("utf-16-le") + b"x",
        b"\x01\0\x02\0\x03\0\x04\0",
        "a\0b\n".encode("utf-16-le"),
        "ab\ue000".encode("utf-16-le"),
        b"\xff\xfe" + "a\0b".encode("utf-16-le"),
        bytes(range(1, 9)) * 4,
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    ],
)
def test_binary_is_told(data: bytes) -> None:
    assert decode(data) is None


def test_colours_of_a_terminal_are_text() -> None:
    assert decode(b"\x1b[31mred\x1b[0m\n" * 3) is not None


@given(st.binary(max_size=400) | st.text(max_size=100).map(str.encode))
def test_whatever_is_text_gives_its_bytes_back_at_every_cut(data: bytes) -> None:
    text = decode(data)
    if text is None:
        return
    assert text.mark + text.encode_old(text.text) == data
    for cut in range(len(text.text) + 1):
        assert text.mark + text.encode_old(text.text[:cut]) + text.encode_old(text.text[cut:]) == data


@pytest.mark.parametrize(
    ("data", "ends"),
    [
        (b"a", "none"),
        (b"a\nb", "lf"),
        (b"a\r\nb\r\n", "crlf"),
        (b"a\rb", "cr"),
        (b"a\r\nb\n", "mixed"),
        (b"a\r\r\n", "mixed"),
    ],
)
def test_line_ends_are_told(data: bytes, ends: str) -> None:
    text = decode(data)
    assert text is not None
    assert text.line_ends == ends


def test_what_a_reader_would_not_see_is_said() -> None:
    def notes(data: bytes) -> str:
        text = decode(data)
        assert text is not None
        return "; ".join(text.unusual())

    assert notes(b"a\n") == ""
    assert notes("é\n".encode()) == ""
    assert notes(b"\xef\xbb\xbfa\r\n") == "encoding UTF-8 with BOM; line ends CRLF"
    assert "1 bytes are no UTF-8" in notes("文字\n".encode() + b"\xff\n")
    assert "direction-changing" in notes("if (admin\u202e) {\n".encode())
    assert "GBK" in notes(CHINESE.encode("gbk"))


def test_stray_bytes_are_shown_as_replacement_characters_and_cannot_be_written() -> None:
    text = decode("文字\n".encode() + b"\xff\n")
    assert text is not None
    assert shown(text.text) == "文字\n\ufffd\n"
    with pytest.raises(UnicodeEncodeError):
        text.encode("\udcff")


def test_an_encoding_that_would_not_give_the_bytes_back_is_not_taken() -> None:
    """None of the codecs in use is known to do so; a library's next version may."""
    assert _exactly("a\n".encode("utf-7"), "utf-7") is not None
    assert _exactly(b"+AGE-\n", "utf-7") is None
