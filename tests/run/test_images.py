"""Images by path: known by what they hold, bounded, and weighed for what they are to a model."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_image_structure import WHOLE

from sluice.errors import ConfigurationError
from sluice.limits import Limits
from sluice.run.images import IMAGE_WORTH, image_type, overweight, read_image, with_images
from sluice.values.messages import ImagePart, TextPart, UserMessage
from sluice.values.requests import ModelOptions
from sluice.wire.dialects import DIALECTS

PNG = WHOLE["image/png"]


@pytest.mark.parametrize("kind", WHOLE)
def test_an_image_is_known_by_what_it_holds(tmp_path: Path, kind: str) -> None:
    (tmp_path / "picture.txt").write_bytes(WHOLE[kind])
    assert read_image(tmp_path / "picture.txt") == ImagePart(kind, base64.b64encode(WHOLE[kind]).decode())


@pytest.mark.parametrize("head", [b"", b"\x89PNG", b"<svg", b"RIFF\x10\0\0\0WAVE", b"GIF88a", b"BM"])
def test_what_is_no_image_is_none(head: bytes) -> None:
    assert image_type(head) is None


def test_what_cannot_be_shown_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "large.png").write_bytes(PNG * 10)
    (tmp_path / "cut.png").write_bytes(PNG[:-5])
    (tmp_path / "page.png").write_bytes(PNG[:8] + b"<html>")
    os.mkfifo(tmp_path / "pipe.png")
    limits = Limits(max_image_bytes=200, max_images=2)
    for name, words in {
        "absent.png": "cannot be read: No such file",
        "text.png": "is no PNG, JPEG, GIF or WebP file",
        "large.png": "is larger than the 200 bytes of max_image_bytes",
        "cut.png": "is a damaged PNG file: it ends before it is whole",
        "page.png": "is a damaged PNG file: it ends before it is whole",
        "pipe.png": "is no file",
        ".": "is no file|Is a directory",
        "a\0b": "cannot be read",
    }.items():
        with pytest.raises(ConfigurationError, match=words):
            with_images("look", [f"{tmp_path}/{name}"], limits)
    with pytest.raises(ConfigurationError, match="3 images are more than the 2 of max_images"):
        with_images("look", ["a", "b", "c"], limits)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_image_goes_into_the_request_of_every_dialect(tmp_path: Path, dialect: str) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    message = with_images("look", [tmp_path / "a.png"])
    assert isinstance(message.content[-1], TextPart)
    body: Any = DIALECTS[dialect].request((message,), (), ModelOptions(model="m")).body
    assert base64.b64encode(PNG) in body
    assert "look" in json.dumps(json.loads(body))
    if dialect != "ollama":
        assert b"image/png" in body


def test_an_image_weighs_what_it_takes_of_the_context() -> None:
    large = UserMessage(
        (ImagePart("image/png", "x" * 1_000_000), ImagePart("image/png", "x" * 10), TextPart("t" * 9999))
    )
    assert overweight((large, UserMessage("words"))) == 1_000_000 - IMAGE_WORTH
