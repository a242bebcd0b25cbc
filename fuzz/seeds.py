"""Writes a few seeds for each target of `fuzz.py` into the folder that is named: `python fuzz/seeds.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from workloads import (
    calls_stream,
    gemini_text,
    messages_calls,
    messages_text,
    ollama_text,
    responses_calls,
    responses_text,
    text_stream,
)

SEEDS = {
    "openai_chat": [text_stream(3), calls_stream(2, 60)],
    "anthropic_messages": [messages_text(3), messages_calls(2, 60)],
    "openai_responses": [responses_text(3), responses_calls(2, 60)],
    "gemini": [gemini_text(3)],
    "ollama": [ollama_text(3)],
    "sse": [[b"\xef\xbb\xbfevent: a\r\nid: 1\r\ndata: x\r\ndata:y\r\r: c\n\n"], [b"retry: 1\ndata\n\ndata: z"]],
    "scanner": [[b'{"path":"a\\u00e9","n":-1.5e3,"list":[1,{"k":null}],"s":"\\ud83c\\udf78"}'], [b'{"a":"half']],
}


def main() -> None:
    for target, streams in SEEDS.items():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for number, stream in enumerate(streams):
            for how in (0, 0x83):
                (folder / f"seed_{number}_{how}").write_bytes(bytes([how]) + b"".join(stream))


if __name__ == "__main__":
    main()
