"""Streams to measure with: made here, the same bytes every time."""

from __future__ import annotations

import json
import random

WORDS = (
    *("the", "of", "and", "to", "in", "is", "that", "for", "as", "with", "on", "this", "from", "which", "have", "not"),
    *("stream", "token", "delta", "parser", "buffer", "event", "model", "value", "error", "server", "schema"),
    *("naïve", "über", "数据", "流式", "🙂"),
)


def _chunk(delta: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    body = {
        "id": "chatcmpl-B7x0sluiceBenchmark0000000",
        "object": "chat.completion.chunk",
        "created": 1764000000,
        "model": "bench-model-2026-11-30",
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
        **more,
    }
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def _ending(finish: str) -> list[bytes]:
    usage = {"prompt_tokens": 800, "completion_tokens": 2000, "total_tokens": 2800}
    return [_chunk({}, finish), _chunk({}, choices=[], usage=usage), b"data: [DONE]\n\n"]


def text_stream(events: int = 2000) -> list[bytes]:
    """One answer in `events` pieces of a word each."""
    dice = random.Random(1)
    stream = [_chunk({"role": "assistant", "content": "", "refusal": None})]
    stream += [_chunk({"content": " " + dice.choice(WORDS)}) for _ in range(events)]
    return stream + _ending("stop")


def arguments(size: int, seed: int) -> str:
    """A JSON object of about `size` bytes: edits with code in them."""
    dice = random.Random(seed)
    edits = []
    length = 0
    while length < size:
        line = " ".join(dice.choice(WORDS) for _ in range(8)) + ' = "x"\n'
        edits.append({"start": dice.randint(1, 9999), "text": line * 3, "keep": True})
        length += len(json.dumps(edits[-1], ensure_ascii=False).encode()) + 1
    return json.dumps({"path": f"src/module_{seed}.py", "edits": edits}, ensure_ascii=False)


def _fragments(text: str, low: int, high: int, seed: int) -> list[str]:
    dice = random.Random(seed)
    out = []
    at = 0
    while at < len(text):
        step = dice.randint(low, high)
        out.append(text[at : at + step])
        at += step
    return out


def _call(index: int, arguments: str, **more: object) -> dict[str, object]:
    function = {"arguments": arguments} if not more else {"name": "apply_patch", "arguments": arguments}
    return {"tool_calls": [{"index": index, **more, "function": function}]}


def calls_stream(calls: int = 3, size: int = 64 * 1024, low: int = 4, high: int = 16) -> list[bytes]:
    """`calls` interleaved calls with `size` bytes of arguments each, in fragments of `low` to `high` characters."""
    stream = [_chunk(_call(i, "", id=f"call_bench_{i}", type="function")) for i in range(calls)]
    queues = [_fragments(arguments(size, i), low, high, i) for i in range(calls)]
    for place in range(max(len(q) for q in queues)):
        stream += [_chunk(_call(i, queue[place])) for i, queue in enumerate(queues) if place < len(queue)]
    return stream + _ending("tool_calls")


def file_stream(size: int, low: int = 4, high: int = 16) -> list[bytes]:
    """One call that writes a file of about `size` bytes: one long string, in fragments of `low` to `high` characters."""
    dice = random.Random(2)
    line = " ".join(dice.choice(WORDS) for _ in range(12)) + "\n"
    text = json.dumps({"path": "src/module.py", "content": line * (size // len(line.encode()) + 1)}, ensure_ascii=False)
    stream = [_chunk(_call(0, "", id="call_0", type="function"))]
    stream += [_chunk(_call(0, piece)) for piece in _fragments(text, low, high, 2)]
    return stream + _ending("tool_calls")


def _message(kind: str, **members: object) -> bytes:
    body = json.dumps({"type": kind, **members}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {body}\n\n".encode()


def _messages(middle: list[bytes], reason: str) -> list[bytes]:
    message = {
        "model": "bench-model-2026-11-30",
        "id": "msg_0sluiceBenchmark000000",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 800, "output_tokens": 1},
    }
    mark = _message(
        "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 2000}
    )
    return [_message("message_start", message=message), *middle, mark, _message("message_stop")]


def _block(index: int, start: dict[str, object], deltas: list[dict[str, object]]) -> list[bytes]:
    return [
        _message("content_block_start", index=index, content_block=start),
        *(_message("content_block_delta", index=index, delta=delta) for delta in deltas),
        _message("content_block_stop", index=index),
    ]


def messages_text(events: int = 2000) -> list[bytes]:
    """The answer of `text_stream` as one block of Anthropic Messages."""
    dice = random.Random(1)
    deltas: list[dict[str, object]] = [{"type": "text_delta", "text": " " + dice.choice(WORDS)} for _ in range(events)]
    return _messages(_block(0, {"type": "text", "text": ""}, deltas), "end_turn")


def messages_calls(calls: int = 3, size: int = 64 * 1024, low: int = 4, high: int = 16) -> list[bytes]:
    """The calls of `calls_stream` as blocks of Anthropic Messages, one after the other as the API sends them."""
    middle: list[bytes] = []
    for i in range(calls):
        start: dict[str, object] = {"type": "tool_use", "id": f"toolu_bench_{i}", "name": "apply_patch", "input": {}}
        fragments = _fragments(arguments(size, i), low, high, i)
        middle += _block(i, start, [{"type": "input_json_delta", "partial_json": f} for f in fragments])
    return _messages(middle, "tool_use")


def _response(kind: str, **members: object) -> bytes:
    return _message(f"response.{kind}", sequence_number=4711, **members)


def _responses(items: list[tuple[dict[str, object], list[bytes], dict[str, object]]]) -> list[bytes]:
    """A reply of items: the item as it opens, its events, and the item as it ends."""
    response = {"id": "resp_0sluiceBenchmark00000", "object": "response", "model": "bench-model-2026-11-30"}
    stream = [_response("created", response={**response, "status": "in_progress"})]
    for index, (opening, middle, ending) in enumerate(items):
        stream.append(_response("output_item.added", output_index=index, item=opening))
        stream += middle
        stream.append(_response("output_item.done", output_index=index, item=ending))
    output = [ending for _, _, ending in items]
    usage = {"input_tokens": 800, "output_tokens": 2000, "total_tokens": 2800}
    stream.append(
        _response("completed", response={**response, "status": "completed", "output": output, "usage": usage})
    )
    return stream


def responses_text(events: int = 2000) -> list[bytes]:
    """The answer of `text_stream` as one message of the Responses API."""
    dice = random.Random(1)
    words = [" " + dice.choice(WORDS) for _ in range(events)]
    item = {"id": "msg_0sluiceBenchmark0000000000000000000000", "type": "message", "role": "assistant"}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    middle = [
        _response("output_text.delta", **place, delta=word, logprobs=[], obfuscation="a1B2c3D4e5")  # type: ignore[arg-type]
        for word in words
    ]
    middle.append(_response("output_text.done", **place, text="".join(words), logprobs=[]))  # type: ignore[arg-type]
    content = [{"type": "output_text", "text": "".join(words), "annotations": [], "logprobs": []}]
    return _responses([({**item, "content": []}, middle, {**item, "status": "completed", "content": content})])


def responses_calls(calls: int = 3, size: int = 64 * 1024, low: int = 4, high: int = 16) -> list[bytes]:
    """The calls of `calls_stream` as items of the Responses API, one after the other as the API sends them."""
    items: list[tuple[dict[str, object], list[bytes], dict[str, object]]] = []
    for i in range(calls):
        whole = arguments(size, i)
        id = f"fc_{i}sluiceBenchmark0000000000000000000000"
        item: dict[str, object] = {"id": id, "type": "function_call", "call_id": f"call_{i}", "name": "apply_patch"}
        middle = [
            _response("function_call_arguments.delta", item_id=id, output_index=i, delta=f, obfuscation="a1B2c3")
            for f in _fragments(whole, low, high, i)
        ]
        middle.append(_response("function_call_arguments.done", item_id=id, output_index=i, arguments=whole))
        ending = {**item, "status": "completed", "arguments": whole}
        items.append(({**item, "status": "in_progress", "arguments": ""}, middle, ending))
    return _responses(items)


def pieces(stream: list[bytes], size: int | None) -> list[bytes]:
    """The same bytes in reads of `size` bytes; 0: all in one read; `None`: one event a read."""
    if size is None:
        return stream
    body = b"".join(stream)
    return [body[i : i + size] for i in range(0, len(body), size)] if size else [body]


def _generated(parts: list[dict[str, object]], finish: str | None = None) -> bytes:
    candidate: dict[str, object] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    counts = {"promptTokenCount": 800, "candidatesTokenCount": 2000, "totalTokenCount": 2800}
    details = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 800}], "thoughtsTokenCount": 7}
    body = {
        "candidates": [candidate],
        "usageMetadata": {**counts, **details},
        "modelVersion": "bench-model-2026-11-30",
        "responseId": "sluiceBenchmark00000000",
    }
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\r\n\r\n"


def gemini_text(events: int = 2000) -> list[bytes]:
    """The answer of `text_stream` in the words of Gemini, which in truth puts many words into an event."""
    dice = random.Random(1)
    stream = [_generated([{"text": " " + dice.choice(WORDS)}]) for _ in range(events)]
    return [*stream, _generated([{"text": ""}], "STOP")]


def _line(message: dict[str, object], **more: object) -> bytes:
    head = {"model": "bench-model:4b", "created_at": "2026-11-30T12:00:00.123456789Z"}
    body = {**head, "message": {"role": "assistant", "content": "", **message}, "done": False, **more}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _last_line() -> bytes:
    return _line({}, done=True, done_reason="stop", prompt_eval_count=800, eval_count=2000)


def ollama_text(events: int = 2000) -> list[bytes]:
    """The answer of `text_stream` in the words of Ollama."""
    dice = random.Random(1)
    return [*(_line({"content": " " + dice.choice(WORDS)}) for _ in range(events)), _last_line()]


def gemini_call(size: int) -> list[bytes]:
    """One call of about `size` bytes, whole in one event, as Gemini sends all of them."""
    return [_generated([{"functionCall": {"name": "edit", "args": json.loads(arguments(size, 1))}}], "STOP")]


def ollama_call(size: int) -> list[bytes]:
    """One call of about `size` bytes, whole in one line, as Ollama sends all of them."""
    return [
        _line({"tool_calls": [{"function": {"name": "edit", "arguments": json.loads(arguments(size, 1))}}]}),
        _last_line(),
    ]
