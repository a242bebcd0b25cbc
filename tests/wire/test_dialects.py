"""The table of dialects: every name there is, and nothing loaded before it is wanted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sluice.wire import DIALECTS


def test_each_dialect_has_the_name_it_is_found_by() -> None:
    assert len(DIALECTS) == 5
    assert [DIALECTS[name].name for name in DIALECTS] == list(DIALECTS)
    assert DIALECTS["gemini"] is DIALECTS["gemini"]


def test_an_unknown_name_is_a_key_error() -> None:
    assert "nope" not in DIALECTS
    assert 7 not in DIALECTS
    with pytest.raises(KeyError):
        DIALECTS["nope"]
    with pytest.raises(KeyError):
        DIALECTS["base"]  # a module of the folder, no dialect


def test_only_the_dialect_that_is_looked_up_is_loaded() -> None:
    code = (
        "import sys, sluice.wire as w; list(w.DIALECTS); w.DIALECTS['ollama'];"
        "print(*[m.rpartition('.')[2] for m in sys.modules if m.startswith('sluice.wire.dialects.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ollama" in loaded
    assert not loaded & {"openai_chat", "openai_responses", "anthropic_messages", "gemini"}
