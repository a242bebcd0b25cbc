"""Another model: its own address, its own key, and no key that was given for another address."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.run.model_choice import MOST_OFFERED, offered, settings_for
from sluice.run.models import Provider
from sluice.run.settings import Settings

OWN = Provider(name="mine", base_url="https://mine.example/v1", key_env=("MINE_KEY",))
LOCAL = Provider(name="near", base_url="http://127.0.0.1:1", key_env=())
KEYS = {"ANTHROPIC_API_KEY": "ant", "MINE_KEY": "min"}


def at(**more: Any) -> Settings:
    return Settings(**{"api_key": "first", "providers": (OWN, LOCAL), **more})


def test_the_same_address_keeps_its_key() -> None:
    new = settings_for(at(base_url="https://p.example/v1", window_tokens=9, price_input=1.0), "other", KEYS)
    assert (new.model, new.api_key, new.base_url) == ("other", "first", "https://p.example/v1")
    assert (new.window_tokens, new.price_input) == (None, None), "those were the other model's"
    again = settings_for(at(window_tokens=9), "gpt-4o", KEYS)
    assert again.window_tokens == 9


def test_another_provider_has_its_own_address_and_key() -> None:
    new = settings_for(at(base_url="https://p.example/v1", dialect="openai_chat"), "anthropic:claude-sonnet-4-5", KEYS)
    assert (new.api_key, new.route().base_url, new.route().dialect) == (
        "ant",
        "https://api.anthropic.com/v1",
        "anthropic_messages",
    )
    back = settings_for(new, "gpt-4o", {"OPENAI_API_KEY": "ope"})
    assert (back.api_key, back.route().base_url) == ("ope", "https://api.openai.com/v1")
    assert settings_for(new, "near:tiny", {}).api_key is None


def test_a_proxy_of_the_provider_stays() -> None:
    old = at(model="anthropic:a", base_url="https://proxy.example/v1")
    new = settings_for(old, "anthropic:b", {})
    assert (new.base_url, new.api_key) == ("https://proxy.example/v1", "first")


def test_a_model_that_cannot_be_asked_is_refused() -> None:
    for model in ("gemini:gemini-pro", "", "a\nb", "x" * 0):
        with pytest.raises(ConfigurationError):
            settings_for(at(), model, KEYS)


MODELS = ["gpt-4o", "anthropic:a", "mine:x", "near:y", "openai:z", "gemini:g", "a:b"]
EVERY_KEY = {"ANTHROPIC_API_KEY": "ant", "MINE_KEY": "min", "OPENAI_API_KEY": "ope", "GEMINI_API_KEY": "gem"}


@given(
    models=st.lists(st.sampled_from(MODELS), min_size=1, max_size=6), base=st.sampled_from([None, "https://p.example"])
)
def test_no_key_ever_goes_to_an_address_it_was_not_given_for(models: list[str], base: str | None) -> None:
    settings = at(base_url=base)
    home = settings.route().base_url
    belongs = {
        "ant": "https://api.anthropic.com/v1",
        "min": OWN.base_url,
        "ope": "https://api.openai.com/v1",
        "gem": "https://generativelanguage.googleapis.com/v1beta",
        "first": home,
    }
    for model in models:
        try:
            settings = settings_for(settings, model, EVERY_KEY)
        except ConfigurationError:
            continue
        if settings.api_key is not None:
            assert settings.route().base_url == belongs[settings.api_key]


def test_what_is_offered_could_be_asked() -> None:
    names = offered(at(model="mine:x"), KEYS)
    assert names[0] == "mine:x"
    assert any(name.startswith("anthropic:claude-") for name in names)
    assert not any(name.startswith(("openai:", "gemini:")) for name in names)
    assert len(names) <= MOST_OFFERED
    assert not any(char in name for name in names for char in "*?[ ")
    for name in names[1:]:
        settings_for(at(), name, KEYS)
