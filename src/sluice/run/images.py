"""Images that a person shows to the model: files, known by what they hold and not by their names."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterable, Sequence

from sluice.errors import ConfigurationError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.run.image_structure import flaw
from sluice.values.messages import ImagePart, Message, TextPart, UserMessage
from sluice.wire.surrogates import storable

IMAGE_WORTH = 6_000  # bytes of context that one image counts for: about 2,000 tokens, whatever its file weighs

_HEAD_BYTES = 16


def with_images(
    prompt: str | UserMessage, paths: Iterable[str | os.PathLike[str]], limits: Limits = DEFAULT_LIMITS
) -> UserMessage:
    """The prompt with the images of these files before its words. Raises `ConfigurationError` for one that is no image.

    At most `limits.max_images` of them, each a PNG, JPEG, GIF or WebP file of at most `limits.max_image_bytes` bytes.
    """
    files = list(paths)
    if len(files) > limits.max_images:
        raise ConfigurationError(f"{len(files)} images are more than the {limits.max_images} of max_images")
    images = tuple(read_image(path, limits.max_image_bytes) for path in files)
    if isinstance(prompt, str):
        return UserMessage((*images, TextPart(storable(prompt))))
    before = (TextPart(prompt.content),) if isinstance(prompt.content, str) else prompt.content
    return UserMessage((*images, *before), origin=prompt.origin)


def read_image(path: str | os.PathLike[str], max_bytes: int = DEFAULT_LIMITS.max_image_bytes) -> ImagePart:
    """The image in a file of at most `max_bytes`. Raises `ConfigurationError`, also for one that is not whole; waits for no
    pipe and no device."""
    named = f"image {os.fspath(path)!r}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigurationError(f"{named} is no file")
            with open(descriptor, "rb", closefd=False) as file:
                raw = file.read(max_bytes + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{named} cannot be read: {reason}") from None
    if len(raw) > max_bytes:
        raise ConfigurationError(f"{named} is larger than the {max_bytes} bytes of max_image_bytes")
    media_type = image_type(raw[:_HEAD_BYTES])
    if media_type is None:
        raise ConfigurationError(f"{named} is no PNG, JPEG, GIF or WebP file")
    if (wrong := flaw(raw, media_type)) is not None:
        kind = media_type.removeprefix("image/").upper()
        raise ConfigurationError(f"{named} is a damaged {kind} file: {wrong}")
    return ImagePart(media_type, base64.b64encode(raw).decode("ascii"))


def image_type(head: bytes) -> str | None:
    """The media type that the first 16 bytes of a file show, of the four that every provider reads."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def overweight(messages: Sequence[Message]) -> int:
    """The bytes by which images are larger in a request than what they take of the model's context."""
    parts = (
        part for m in messages if isinstance(m, UserMessage) and isinstance(m.content, tuple) for part in m.content
    )
    return sum(max(len(part.data) - IMAGE_WORTH, 0) for part in parts if isinstance(part, ImagePart))
