"""What is said: messages of a conversation, and a whole reply as the wire materialises it.

Every struct here is plain JSON: `msgspec.json.decode(msgspec.json.encode(m), type=Message) == m`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from sluice.values.results import FailureClass, ResultStatus

CallStatus = Literal["whole", "cut", "malformed"]
"""`whole`: the call arrived complete and its arguments are one strict JSON object. `cut`: the reply ended inside it or it
cannot be proved complete. `malformed`: it ended, but its name or arguments cannot be used."""

KNOWN_STOP_REASONS = frozenset({"end_turn", "tool_use", "max_tokens", "content_filter", "refusal", "pause", "aborted"})
"""The closed set of stop reasons. Any other word is the provider's own and makes no call whole."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool call as the model asked for it. `arguments` is the raw JSON text, never repaired.

    `index` is the provider's index, or the position of arrival where it gave none. `problem` says in one line why a
    call is not whole. A call of the kind `custom` carries free text in `arguments`, no JSON, and is never whole.
    """

    id: str
    name: str
    arguments: str
    index: int = 0
    status: CallStatus = "whole"
    problem: str | None = None
    kind: Literal["function", "custom"] = "function"


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of one reply as the provider counted them, or as we estimated them (`estimated`).

    `input_tokens` includes the cached ones. `cost` is in US dollars and only there if the provider reported it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        """The sum of two usages; estimated if either is; the cost is known if it is of both, or of all that has tokens."""
        told = [one.cost for one in (self, other) if one.cost is not None or one.input_tokens or one.output_tokens]
        costs = [cost for cost in told if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=sum(costs) if costs and len(costs) == len(told) else None,
            estimated=self.estimated or other.estimated,
        )


class TextPart(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """Words of a user's message."""

    text: str


class ImagePart(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """An image of a user's message: `data` is base64, `media_type` for example `image/png`."""

    media_type: str
    data: str


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One block of a model's reasoning. `signature` goes back, unchanged, only to the provider it came from."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None


class SystemMessage(msgspec.Struct, frozen=True, tag="system", tag_field="role"):
    """Instructions of the host. Sent first, and only if there is any text."""

    content: str


class UserMessage(msgspec.Struct, frozen=True, tag="user", tag_field="role", omit_defaults=True):
    """A user's words and attachments. `origin` is `host` for words that Sluice added by itself."""

    content: str | tuple[TextPart | ImagePart, ...]
    origin: Literal["user", "host"] = "user"


def plain_text(message: UserMessage) -> str:
    """The words of a user's message, without its attachments."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content if isinstance(part, TextPart))


class AssistantMessage(
    msgspec.Struct, frozen=True, tag="assistant", tag_field="role", kw_only=True, omit_defaults=True
):
    """One materialised reply in a conversation (W12): nothing in it is half-formed.

    `content` is `None` when the model wrote no text. `native` is the JSON text of a list: the reply's content items in
    the provider's own form and order. It is there only if the neutral fields cannot carry them (signed or encrypted
    reasoning, server-side tools, unknown blocks), and goes back only in the dialect that it came from.
    """

    content: str | None = None
    reasoning: tuple[Reasoning, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: str | None = None
    usage: Usage | None = None
    provider: str | None = None
    dialect: str | None = None
    model: str | None = None
    native: str | None = None


class ToolMessage(msgspec.Struct, frozen=True, tag="tool", tag_field="role", omit_defaults=True):
    """The result of one call, directly after the assistant message that asked for it.

    `status` and `failure` are those of the `ToolResult`, and `digest` is the SHA-256 of what it came to, in hex: by them
    the rules of the loop go on in a session that is resumed. Empty where they are not known; no model is sent them.
    `spilled` is the handle under which all of a long output can be read again in this process, and is never stored.
    """

    call_id: str
    name: str
    content: str
    ok: bool = True
    status: ResultStatus | None = None
    failure: FailureClass | None = None
    digest: str = ""
    spilled: str = ""


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage
Conversation = tuple[Message, ...]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, whole or (inside a `StreamError`) as far as it came.

    `tolerances` counts, by rule name, each departure from the dialect's documents that was put up with.
    `stop_reason` is of `KNOWN_STOP_REASONS` or the provider's own word; `None` before a terminal mark.
    `kept` is false if the reader was told to keep no text (`keep=False`): then `text` and `reasoning` are empty.
    `refusal` is the model's own refusal where the dialect keeps it apart from text. `other_choices` is the highest
    number of a choice beside the first that was seen and not read. `blocks` holds reasoning blocks with their signatures
    where the dialect has blocks, `native` is as in `AssistantMessage`. `arrivals` says for each of `tool_calls` which one
    it was by arrival, from 0: the `position` of its deltas. `stop_words` is what the provider said about why it
    stopped, if it said more than a reason.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: str | None = None
    usage: Usage | None = None
    tolerances: dict[str, int] = {}
    dialect: str = ""
    model: str | None = None
    id: str | None = None
    kept: bool = True
    other_choices: int = 0
    refusal: str = ""
    blocks: tuple[Reasoning, ...] = ()
    native: str | None = None
    arrivals: tuple[int, ...] = ()
    stop_words: str = ""

    def message(self) -> AssistantMessage:
        """The reply as a message of a conversation; absent parts are absent, never empty strings."""
        blocks = self.blocks or ((Reasoning(text=self.reasoning),) if self.reasoning else ())
        return AssistantMessage(
            content=self.text or None,
            reasoning=blocks,
            tool_calls=self.tool_calls,
            stop_reason=self.stop_reason,
            usage=self.usage,
            dialect=self.dialect or None,
            model=self.model,
            native=self.native,
        )
