"""Provider bytes to our words and back, without I/O: the streaming core alone.

It needs no event loop: feed it bytes from any source.
"""

from sluice.values.deltas import CallArgument, CallClosed, CallOpened, CallProgress, Delta, ReasoningDelta, TextDelta
from sluice.values.messages import Reply, ToolCall
from sluice.wire.dialects import DIALECTS
from sluice.wire.inline_calls import INLINE_FORMS
from sluice.wire.reply import ReplyReader, read_reply
from sluice.wire.strict_json import parse_arguments

__all__ = [
    "DIALECTS",
    "INLINE_FORMS",
    "CallArgument",
    "CallClosed",
    "CallOpened",
    "CallProgress",
    "Delta",
    "ReasoningDelta",
    "Reply",
    "ReplyReader",
    "TextDelta",
    "ToolCall",
    "parse_arguments",
    "read_reply",
]
