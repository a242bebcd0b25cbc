"""Whether an image is whole: every beginning of one is refused, and what decoders read is not."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.run.image_structure import flaw


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"WEBP" + b"".join(k + struct.pack("<I", len(d)) + d + b"\0" * (len(d) % 2) for k, d in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def header(width: int = 1, height: int = 1, depth: int = 8, colour: int = 0, *more: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, *(more or (0, 0, 0))))


PICTURE = chunk(b"IDAT", zlib.compress(b"\0\x80"))
END = chunk(b"IEND", b"")
FRAME = b"\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00"
SCAN = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
GIF_HEAD = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff"
GIF_PICTURE = b"\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00"
VP8 = b"\x30\x01\x00\x9d\x01\x2a\x01\x00\x01\x00\xfe"
WHOLE = {
    "image/png": png(header(), chunk(b"tEXt", b"Title\0a"), PICTURE, END),
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x04\x01\x01" + FRAME + SCAN + b"\x01\xff\x00\xff\xd0\x02\xff\xff\xd9",
    "image/gif": GIF_HEAD + b"\x21\xfe\x02hi\x00" + GIF_PICTURE + b"\x3b",
    "image/webp": riff((b"VP8 ", VP8)),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_every_beginning_of_an_image_is_refused_and_what_is_behind_its_end_is_not(kind: str) -> None:
    whole = WHOLE[kind]
    assert flaw(whole, kind) is None
    assert flaw(whole + b"more", kind) is None
    read_by_all = {len(whole) - 1} if kind == "image/gif" else set()  # only its end mark is missing
    assert [at for at in range(len(whole)) if flaw(whole[:at], kind) is None] == sorted(read_by_all)


def test_no_byte_of_a_png_may_change() -> None:
    whole = WHOLE["image/png"]
    for at in range(8, len(whole)):
        assert flaw(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], "image/png") is not None


@pytest.mark.parametrize(
    ("kind", "raw", "words"),
    [
        ("image/png", png(header(), END), "no picture"),
        ("image/png", png(header(), PICTURE[:-1] + b"\0", END), "checksum of its part 'IDAT'"),
        ("image/png", png(PICTURE, header(), END), "not where it belongs"),
        ("image/png", png(header(), header(), PICTURE, END), "not where it belongs"),
        ("image/png", png(header(0), PICTURE, END), "no width or no height"),
        ("image/png", png(header(1, 2**31), PICTURE, END), "no width or no height"),
        ("image/png", png(header(1, 1, 3), PICTURE, END), "no PNG file can be"),
        ("image/png", png(header(1, 1, 8, 2, 0, 0, 2), PICTURE, END), "no PNG file can be"),
        ("image/png", png(chunk(b"IHDR", b"\0" * 12), PICTURE, END), "wrong length"),
        ("image/jpeg", b"\xff\xd8" + FRAME + b"\xff\xd9", "no picture"),
        ("image/jpeg", b"\xff\xd8" + SCAN + b"\xff\xd9", "not where it belongs"),
        ("image/jpeg", b"\xff\xd8\xff\xe0\x00\x04\x01\x01<html>", "no marker"),
        ("image/jpeg", b"\xff\xd8\xff\xe0\x00\x01\x01\x01\xff\xd9", "is none"),
        ("image/jpeg", b"\xff\xd8" + FRAME.replace(b"\x01\x00\x01\x01", b"\x01\x00\x00\x01") + SCAN, "no width"),
        ("image/gif", GIF_HEAD + b"\x3b", "no picture"),
        ("image/gif", GIF_HEAD + GIF_PICTURE.replace(b"\x01\x00\x01\x00\x00", b"\x00\x00\x01\x00\x00"), "no width"),
        ("image/gif", GIF_HEAD + b"<html>", "is none"),
        ("image/webp", riff((b"EXIF", b"x")), "no picture"),
        ("image/webp", riff((b"VP8 ", b"\0" * 12)), "does not begin as one"),
        ("image/webp", riff((b"VP8L", b"\0" * 12)), "does not begin as one"),
        ("image/webp", riff((b"VP8 ", VP8.replace(b"\x2a\x01", b"\x2a\x00"))), "no width"),
        ("image/webp", b"RIFF\x10\0\0\0WEBPVP8 \xff\0\0\0" + b"\0" * 9, "larger than the file says"),
    ],
)
def test_what_is_wrong_is_said(kind: str, raw: bytes, words: str) -> None:
    assert words in (flaw(raw, kind) or "nothing")


def test_pictures_of_other_forms_are_whole() -> None:
    assert flaw(png(header(4, 4, 16, 6, 0, 0, 1), PICTURE, PICTURE, END), "image/png") is None
    assert flaw(riff((b"VP8X", b"\0" * 10), (b"ANIM", b"\0" * 6), (b"ANMF", b"\0" * 16)), "image/webp") is None
    assert flaw(riff((b"VP8L", b"\x2f\0\0\0\0")), "image/webp") is None
    progressive = FRAME.replace(b"\xff\xc0", b"\xff\xc2") + SCAN + b"\x01" + SCAN + b"\x01"
    assert flaw(b"\xff\xd8" + progressive + b"\xff\xd9", "image/jpeg") is None


@given(st.sampled_from(sorted(WHOLE)), st.binary(max_size=60), st.integers(0, 60))
def test_nothing_makes_it_raise(kind: str, junk: bytes, at: int) -> None:
    assert isinstance(flaw(WHOLE[kind][:at] + junk, kind), str | None)
