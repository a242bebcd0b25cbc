"""Writes a few seeds for each target of `fuzz.py` into the folder that is named: `python fuzz/seeds.py FOLDER`.

And `words.dict` with the marks of all forms of calls in text, for libFuzzer's `-dict`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from sluice.wire import INLINE_FORMS
from workloads import (
    calls_stream,
    gemini_call,
    gemini_text,
    messages_calls,
    messages_text,
    ollama_call,
    ollama_text,
    responses_calls,
    responses_text,
    text_stream,
)

SEEDS = {
    "openai_chat": [text_stream(3), calls_stream(2, 60)],
    "anthropic_messages": [messages_text(3), messages_calls(2, 60)],
    "openai_responses": [responses_text(3), responses_calls(2, 60)],
    "gemini": [gemini_text(3), gemini_call(60)],
    "ollama": [ollama_text(3), ollama_call(60)],
    "sse": [[b"\xef\xbb\xbfevent: a\r\nid: 1\r\ndata: x\r\ndata:y\r\r: c\n\n"], [b"retry: 1\ndata\n\ndata: z"]],
    "scanner": [[b'{"path":"a\\u00e9","n":-1.5e3,"list":[1,{"k":null}],"s":"\\ud83c\\udf78"}'], [b'{"a":"half']],
}


# What a model says in each form: a form without words is a KeyError.
SAID = {
    "think": ["<think>a </thin b</think> c"],
    "hermes": [
        'Ok <tool_call>\n{"name": "f", "arguments": {"p": "</tool_call>", "n": [1]}}\n</tool_call>',
        'Say `<tool_call>` and\n```\n<tool_call>{"name":"f"}</tool_call>\n```',
    ],
    "qwen3_coder": [
        "<tool_call><function=f>\n<parameter=p>\na < b\n</parameter>\n</function></tool_call> so",
        "<function=f><parameter=p>half",
    ],
    "glm": ["<tool_call>f\n<arg_key>p</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"],
    "llama": ['<|python_tag|>{"name":"f","parameters":{"p":1}}', '{"name": "f", "parameters": {}}; {"name": "Ada"}'],
    "function_tag": ['<function=f>{"p": "</function>"}</function> so'],
    "mistral": [
        'So [TOOL_CALLS] [{"name": "f", "arguments": {"p": 1}}]',
        '[TOOL_CALLS]f{"p": 1}[TOOL_CALLS]g[CALL_ID]a1B2c3D4e[ARGS]{}',
    ],
    "deepseek": [
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"p":1}<｜tool▁call▁end｜>',
    ],
    "deepseek_v32": [
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="p" string="true">x'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        '<｜｜DSML｜｜invoke name="f"><｜｜DSML｜｜parameter name="n" string="false">1',
    ],
    "kimi_k2": [
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        '{"p": 1}<|tool_call_end|><|tool_calls_section_end|>',
    ],
    "pythonic": [
        "<|python_start|>[f(p='x', q=[1, {'a': None}]), g()]<|python_end|>",
        '[f(p="a\\n", n=-1.5)]',
    ],
}
_DONE = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def in_text(dialect: str, text: str) -> bytes:
    """A reply with this text, in pieces of 20 characters."""
    said = [text[at : at + 20] for at in range(0, len(text), 20)]
    if dialect == "ollama":
        lines = [{"message": {"role": "assistant", "content": one}, "done": False} for one in said]
        return b"".join(_json(line) + b"\n" for line in [*lines, {"message": {}, "done": True, "done_reason": "stop"}])
    events = [{"choices": [{"index": 0, "delta": {"content": one}}]} for one in said]
    return b"".join(b"data: " + _json(event) + b"\n\n" for event in [*events, _DONE]) + b"data: [DONE]\n\n"


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def main() -> None:
    root = Path(sys.argv[1])
    for target, streams in SEEDS.items():
        folder = root / target
        folder.mkdir(parents=True, exist_ok=True)
        for number, stream in enumerate(streams):
            for how in (0, 0x83, 0xC3):  # the last: early intent, no calls in text
                (folder / f"seed_{number}_{how}").write_bytes(bytes([how]) + b"".join(stream))
    # The upper half of the first byte is the form, as `fuzz.py` counts them.
    for place, form in enumerate(INLINE_FORMS, 1):
        for number, text in enumerate(SAID[form]):
            for dialect in ("openai_chat", "ollama"):
                seed = bytes([place << 4 | 4]) + in_text(dialect, text)
                (root / dialect / f"{form}_{number}").write_bytes(seed)
    words = {word for form in INLINE_FORMS.values() for word in form.markers}
    words |= {
        "<think>",
        "</think>",
        "</tool_call>",
        "</function>",
        "<parameter=",
        "</parameter>",
        "<arg_key>",
        "[ARGS]",
    }
    quoted = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in sorted(words))
    (root / "words.dict").write_text("".join(f'"{word}"\n' for word in quoted))


if __name__ == "__main__":
    main()
