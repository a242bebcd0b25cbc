"""Whether an image file is whole: its structure is walked, no pixel is decoded.

A file that was cut off, or of which only the first bytes are an image's, is refused by every provider, and would be sent
again with each later request. So what can be seen without a decoder is looked at: lengths, checksums, sizes, the end.
What stands behind the end is let be, as every reader does.

Sources: PNG (ISO/IEC 15948) sections 5 and 11; JPEG (ITU-T T.81) annex B; the GIF89a specification; the WebP container
specification (RFC 9649).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

_CUT = "it ends before it is whole"
_NO_PICTURE = "there is no picture in it"
_EMPTY = "its picture has no width or no height"

_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # by kind of colour
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # JPEG markers without a length
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG markers that begin a frame


class _Flaw(Exception):
    """Why a file is no whole image."""


def flaw(raw: bytes, media_type: str) -> str | None:
    """Why these bytes are no whole image of this type, in a few words; `None` if nothing is wrong with their structure."""
    try:
        _WALKS[media_type](raw)
    except _Flaw as found:
        return str(found)
    except (struct.error, IndexError):  # read past the end
        return _CUT
    return None


def _png(raw: bytes) -> None:
    at, picture, view = 8, 0, memoryview(raw)
    while True:
        size, kind = struct.unpack_from(">I4s", raw, at)
        (crc,) = struct.unpack_from(">I", raw, at + 8 + size)
        name = kind.decode("ascii", "replace")
        if (at == 8) is not (kind == b"IHDR"):
            raise _Flaw("its header is not where it belongs")
        if zlib.crc32(view[at + 4 : at + 8 + size]) != crc:
            raise _Flaw(f"the checksum of its part {name!r} is wrong")
        if kind == b"IHDR":
            _png_header(raw[at + 8 : at + 8 + size])
        elif kind == b"IDAT":
            picture += size
        elif kind == b"IEND":
            break
        at += 12 + size
    if not picture:
        raise _Flaw(_NO_PICTURE)


def _png_header(header: bytes) -> None:
    if len(header) != 13:
        raise _Flaw("its header has a wrong length")
    width, height, depth, colour, packing, filters, interlace = struct.unpack(">IIBBBBB", header)
    if not (0 < width < 2**31 and 0 < height < 2**31):
        raise _Flaw(_EMPTY)
    if depth not in _PNG_DEPTHS.get(colour, ()) or packing or filters or interlace > 1:
        raise _Flaw("its header says what no PNG file can be")


def _jpeg(raw: bytes) -> None:
    at, frame, scan = 2, False, False
    while True:
        if raw[at] != 0xFF:
            raise _Flaw("there is no marker where one belongs")
        while raw[at] == 0xFF:  # any number of them may stand before a marker
            at += 1
        marker = raw[at]
        at += 1
        if marker == 0xD9:
            break
        if marker in _STANDALONE:
            continue
        (size,) = struct.unpack_from(">H", raw, at)
        if size < 2 or marker < 0xC0:
            raise _Flaw("one of its parts is none")
        if marker in _FRAMES:
            _precision, height, width, parts = struct.unpack_from(">BHHB", raw, at + 2)
            if not (width and height):
                raise _Flaw(_EMPTY)
            if not parts or size != 8 + 3 * parts:
                raise _Flaw("its header has a wrong length")
            frame = True
        at += size
        if marker == 0xDA:
            if not frame:
                raise _Flaw("its header is not where it belongs")
            scan, at = True, _after_scan(raw, at)
    if not scan:
        raise _Flaw(_NO_PICTURE)


def _after_scan(raw: bytes, at: int) -> int:
    """Where the marker that ends the coded data from `at` on stands."""
    while True:
        at = raw.find(b"\xff", at)
        if at < 0:
            raise _Flaw(_CUT)
        following = raw[at + 1]
        if following == 0x00 or 0xD0 <= following <= 0xD7:
            at += 2
        elif following == 0xFF:
            at += 1
        else:
            return at


def _gif(raw: bytes) -> None:
    at, picture = 13 + _gif_colours(raw[10]), False
    while not (picture and at == len(raw)) and raw[at] != 0x3B:  # files without the end mark are about, and are read
        if raw[at] == 0x21:
            at = _after_blocks(raw, at + 2)
        elif raw[at] == 0x2C:
            width, height, flags = struct.unpack_from("<HHB", raw, at + 5)
            if not (width and height):
                raise _Flaw(_EMPTY)
            at = _after_blocks(raw, at + 10 + _gif_colours(flags) + 1)
            picture = True
        else:
            raise _Flaw("one of its parts is none")
    if not picture:
        raise _Flaw(_NO_PICTURE)


def _gif_colours(flags: int) -> int:
    """The bytes of the table of colours that these flags announce."""
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _after_blocks(raw: bytes, at: int) -> int:
    while size := raw[at]:
        at += 1 + size
    return at + 1


def _webp(raw: bytes) -> None:
    (size,) = struct.unpack_from("<I", raw, 4)
    end, at, picture = 8 + size, 12, False
    if end > len(raw):
        raise _Flaw(_CUT)
    while at < end:
        kind, size = struct.unpack_from("<4sI", raw, at)
        at += 8
        if at + size > end:
            raise _Flaw("one of its parts is larger than the file says it is")
        if kind == b"VP8 ":
            _frame, start, width, height = struct.unpack_from("<3s3sHH", raw, at)
            if start != b"\x9d\x01\x2a" or size < 10:
                raise _Flaw("its picture does not begin as one")
            if not (width & 0x3FFF and height & 0x3FFF):
                raise _Flaw(_EMPTY)
        elif kind == b"VP8L" and (size < 5 or raw[at] != 0x2F):
            raise _Flaw("its picture does not begin as one")
        picture = picture or kind in (b"VP8 ", b"VP8L", b"ANMF")
        at += size + size % 2
    if not picture:
        raise _Flaw(_NO_PICTURE)


_WALKS: dict[str, Callable[[bytes], None]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
