"""What every test of this room shares: no proxy from outside, and nothing left open."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

_PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in _PROXY_NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    before = len(os.listdir("/dev/fd"))
    threads = threading.active_count()
    yield
    assert len(os.listdir("/dev/fd")) == before, "a descriptor was left open"
    assert threading.active_count() == threads, "a thread was left running"
