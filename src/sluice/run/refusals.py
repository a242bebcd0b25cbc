"""What is sent again of a request that the provider does not take as it is (HTTP 400, 413, 422).

An unreadable image would have every later request of its session refused. So a refusal of a request with images that no
reply has followed yet is stored behind them, as a line of the host. That line alone decides what is sent, in this process
and in any later one: the images before it, back to the last reply, are left out. Stored rows stay as they were. A network
failure, a bad key or a busy server says nothing about an image, and stores no such line.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sluice.values.messages import AssistantMessage, Conversation, ImagePart, Message, TextPart, UserMessage

REFUSED = UserMessage(
    "[The provider refused the request with the images that were attached here, so they are left out. "
    "The user may attach them again.]",
    origin="host",
)

LEFT_OUT = (
    "the provider refused the request with the images of this prompt, so this session sends them no more; "
    "if something else was wrong, attach them again"
)
_LEFT_OUT_PART = TextPart("[an image left out]")


def images_in_question(messages: Sequence[Message]) -> bool:
    """Whether images would be sent that no reply has followed yet."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) or message == REFUSED:
            return False
        if _has_images(message):
            return True
    return False


def without_refused(messages: Conversation) -> Conversation:
    """What is sent: without the images that stand before the line of a refusal, back to the last reply."""
    if REFUSED not in messages:
        return messages
    found: list[Message] = []
    refused = False
    for message in reversed(messages):
        refused = message == REFUSED or (refused and not isinstance(message, AssistantMessage))
        found.append(_without_images(message) if refused else message)
    return tuple(reversed(found))


def way_out(messages: Sequence[Message], session: str) -> str | None:
    """One line for a person whose words may be what the provider refuses, once it has refused a second prompt with them.
    Words are never left out by themselves."""
    prompts = 0
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            break
        prompts += isinstance(message, UserMessage) and message.origin == "user"
    else:
        return None  # nothing was ever answered, so there is nothing to go back to
    if prompts < 2 or not session:
        return None
    return (
        f"nothing was answered since the last reply, and all of it is sent again; to go on without it: "
        f"--fork {session}@MESSAGE (sluice sessions show {session} numbers the messages)"
    )


def _has_images(message: Message) -> bool:
    parts = message.content if isinstance(message, UserMessage) and not isinstance(message.content, str) else ()
    return any(isinstance(part, ImagePart) for part in parts)


def _without_images(message: Message) -> Message:
    if not isinstance(message, UserMessage) or not _has_images(message):
        return message
    content = tuple(_LEFT_OUT_PART if isinstance(part, ImagePart) else part for part in message.content)
    return msgspec.structs.replace(message, content=content)
