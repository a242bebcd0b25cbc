from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.transport.endpoint import Endpoint, ca_bundle, checked_proxy, is_loopback
from sluice.values.requests import Request

KEY = "sk-very-secret-0123456789"


def request(auth: str = "bearer", headers: tuple[tuple[str, str], ...] = ()) -> Request:
    return Request(dialect="openai_chat", path="/chat/completions", body=b"{}", auth=auth, headers=headers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://x/v1", "/chat/completions", "https://x/v1/chat/completions"),
        ("https://x/v1/", "/chat/completions", "https://x/v1/chat/completions"),
        ("https://x/v1/chat/completions", "/chat/completions", "https://x/v1/chat/completions"),
        ("https://x/v1/chat/completions/", "/chat/completions", "https://x/v1/chat/completions"),
        ("https://x", "chat/completions", "https://x/chat/completions"),
        ("https://x/v1", "/v1/messages", "https://x/v1/messages"),
        ("https://x", "/v1/messages", "https://x/v1/messages"),
        ("https://x/o?api-version=2", "/chat/completions", "https://x/o/chat/completions?api-version=2"),
        ("https://x/v1beta?a=1", "/models/g:stream?alt=sse", "https://x/v1beta/models/g:stream?a=1&alt=sse"),
        ("http://127.0.0.1:11434", "/api/chat", "http://127.0.0.1:11434/api/chat"),
        ("http://127.0.0.1:11434/api", "/api/chat", "http://127.0.0.1:11434/api/chat"),
        (
            "https://generativelanguage.googleapis.com/v1beta",
            "/models/x:streamGenerateContent?alt=sse",
            "https://generativelanguage.googleapis.com/v1beta/models/x:streamGenerateContent?alt=sse",
        ),
        ("http://[::1]:8080/v1", "/chat/completions", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_a_base_url_may_or_may_not_end_in_the_endpoint(base: str, path: str, url: str) -> None:
    assert Endpoint(base, None).url_for(path) == url


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ("", "empty"),
        ("localhost:8080/v1", "did you mean http://localhost:8080/v1?"),
        ("ftp://x/v1", "must begin with http"),
        ("https://", "no host"),
        ("https://x:99999/", "not a URL"),
        ("https://x:0/", "port"),
        ("https://x /v1", "space"),
        ("https://x/\nv1", "control"),
        ("https://[::1/v1", "not a URL"),
        ("https://x/v1#part", "#"),
        (f"https://user:{KEY}@x/v1", "user name"),
        (f"ftp://x/v1?key={KEY}", "must begin"),
    ],
)
def test_a_bad_base_url_is_one_clear_line(base: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Endpoint(base, KEY)
    assert words in str(caught.value)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_no_base_url_gives_anything_but_an_endpoint_or_a_configuration_error(base: str) -> None:
    for text in (base, "http://" + base):
        with contextlib.suppress(ConfigurationError):
            assert "\n" not in Endpoint(text, None).url_for("/chat/completions")


@pytest.mark.parametrize("key", ["a\n", "a\r\nx: y", "a b", "schlüssel", "\x00"])
def test_a_key_that_could_not_be_sent_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Endpoint("https://x", key)
    assert repr(key)[1:-1] not in str(caught.value)


@pytest.mark.parametrize(
    ("auth", "line"),
    [
        ("bearer", f"Authorization: Bearer {KEY}"),
        ("x-api-key", f"x-api-key: {KEY}"),
        ("x-goog-api-key", f"x-goog-api-key: {KEY}"),
    ],
)
def test_the_key_goes_in_the_style_of_the_request(auth: str, line: str) -> None:
    lines = Endpoint("https://x", KEY).headers_for(request(auth))
    assert line in lines
    assert sum(KEY in text for text in lines) == 1


def test_no_key_or_no_style_sends_no_key() -> None:
    assert not any("uthorization" in line for line in Endpoint("https://x", None).headers_for(request()))
    assert not any(KEY in line for line in Endpoint("https://x", KEY).headers_for(request("none")))


def test_extra_headers_win_and_cannot_break_out_of_their_line() -> None:
    endpoint = Endpoint("https://x", KEY, {"api-key": "other-secret", "X-Empty": ""})
    lines = endpoint.headers_for(request(headers=(("Content-Type", "text/plain"),)))
    assert "api-key: other-secret" in lines
    assert "X-Empty;" in lines
    assert [line for line in lines if line.lower().startswith("content-type")] == ["Content-Type: text/plain"]
    assert endpoint.redact("say other-secret") == "say [key]"
    for name, value in (("a b", "x"), ("a", "x\r\ny: z"), ("a:", "x"), ("a", "ü")):
        with pytest.raises(ConfigurationError):
            Endpoint("https://x", KEY, {name: value})
        with pytest.raises(ConfigurationError):
            endpoint.headers_for(request(headers=((name, value),)))


def test_neither_repr_nor_redacted_text_holds_the_key() -> None:
    endpoint = Endpoint("https://x:8443/v1", KEY, {"Authorization": "Bearer token-of-another-kind"})
    assert repr(endpoint) == "Endpoint('x:8443')"
    assert endpoint.redact(f"<{KEY}> token-of-another-kind") == "<[key]> [key]"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("x.y", False),
    ],
)
def test_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_the_ca_bundle_is_the_first_that_is_named(tmp_path: Path) -> None:
    one, two = tmp_path / "one.pem", tmp_path / "two.pem"
    one.touch()
    two.touch()
    assert ca_bundle({"SSL_CERT_FILE": str(one), "CURL_CA_BUNDLE": str(two)}) == str(one)
    assert ca_bundle({"REQUESTS_CA_BUNDLE": str(two)}) == str(two)
    assert ca_bundle({"SSL_CERT_FILE": str(one)}, str(two)) == str(two)
    assert Path(ca_bundle({})).exists()
    with pytest.raises(ConfigurationError, match="CURL_CA_BUNDLE"):
        ca_bundle({"CURL_CA_BUNDLE": str(tmp_path / "none.pem")})


def test_without_a_system_bundle_certifi_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import certifi

    monkeypatch.setattr("sluice.transport.endpoint.os.access", lambda *_: False)
    assert ca_bundle({}) == certifi.where()


@pytest.mark.parametrize("proxy", ["http://a b", "http://ä", "ftp://x", "a\nb"])
def test_a_bad_proxy_is_one_clear_line(proxy: str) -> None:
    with pytest.raises(ConfigurationError, match="proxy") as caught:
        checked_proxy(proxy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("proxy", [None, "", "host:3128", "http://user:word@host:3128", "socks5h://host"])
def test_a_usable_proxy_is_kept(proxy: str | None) -> None:
    assert checked_proxy(proxy) == proxy
