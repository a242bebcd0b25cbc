"""One model string picks provider, address, dialect and key; a key goes to its own provider's address and nowhere else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.errors import ConfigurationError
from sluice.run.config import Loaded, Settings, load, require_key
from sluice.run.models import BUILT_IN, Provider, misspelt, providers_from, route, same_address
from sluice.run.wiring import dry_run, find_dialect, find_inline, open_agent
from sluice.session.memory import MemoryStore
from sluice.values.messages import AssistantMessage

OPENAI = "https://api.openai.com/v1"
KEYS = {
    "OPENAI_API_KEY": "key-openai",
    "ANTHROPIC_API_KEY": "key-anthropic",
    "GEMINI_API_KEY": "key-gemini",
    "GOOGLE_API_KEY": "key-google",
}
OWN = """
[providers.router]
base_url = "https://router.example/api/v1"
key_env = "ROUTER_KEY"

[providers.here]
base_url = "http://127.0.0.1:8080/v1"
inline = "hermes"

[providers.claude-proxy]
base_url = "https://proxy.example/v1"
key_env = ["PROXY_KEY", "ANTHROPIC_API_KEY"]
dialect = "anthropic_messages"
"""


def loaded(folder: Path, environ: dict[str, str] | None = None, *, file: str = "", **flags: Any) -> Loaded:
    path = folder / "own.toml"
    if file:
        path.write_text(file, encoding="utf-8")
        path.chmod(0o600)
    return load(flags, environ or {}, cwd=folder, user_config=path)


@pytest.mark.parametrize(
    ("model", "name", "address", "dialect", "key"),
    [
        ("gpt-4o", "gpt-4o", OPENAI, "openai_chat", "key-openai"),
        ("openai:gpt-5", "gpt-5", OPENAI, "openai_responses", "key-openai"),
        ("openai-chat:gpt-5", "gpt-5", OPENAI, "openai_chat", "key-openai"),
        ("anthropic:c", "c", "https://api.anthropic.com/v1", "anthropic_messages", "key-anthropic"),
        ("gemini:g", "g", "https://generativelanguage.googleapis.com/v1beta", "gemini", "key-gemini"),
        ("ollama:llama3.2:3b", "llama3.2:3b", "http://127.0.0.1:11434", "ollama", None),
        ("ANTHROPIC: c", "c", "https://api.anthropic.com/v1", "anthropic_messages", "key-anthropic"),
        ("llama3.2:3b", "llama3.2:3b", OPENAI, "openai_chat", "key-openai"),
        ("ft:gpt-4o:org::id", "ft:gpt-4o:org::id", OPENAI, "openai_chat", "key-openai"),
        ("openai:", "openai:", OPENAI, "openai_chat", "key-openai"),
    ],
)
def test_one_string_picks_everything(
    tmp_path: Path, model: str, name: str, address: str, dialect: str, key: str | None
) -> None:
    found = loaded(tmp_path, KEYS, model=model)
    way = found.settings.route()
    assert (way.model, way.base_url, way.dialect) == (name, address, dialect)
    assert found.settings.model_options().model == name
    assert (find_dialect(found.settings).name, found.settings.api_key) == (dialect, key)
    require_key(found.settings)


def test_google_has_two_variables_and_ours_goes_before_all(tmp_path: Path) -> None:
    environ = {"GOOGLE_API_KEY": "key-google"}
    assert loaded(tmp_path, environ, model="gemini:g").settings.api_key == "key-google"
    environ = {**KEYS, "SLUICE_API_KEY": "ours"}
    for name in BUILT_IN:
        assert loaded(tmp_path, environ, model=f"{name}:m").settings.api_key == "ours"


@pytest.mark.parametrize("model", ["openai:m", "openai-chat:m", "anthropic:m", "gemini:m", "m"])
@pytest.mark.parametrize(
    "address",
    [
        "https://other.example/v1",
        "http://api.openai.com/v1",
        "https://api.openai.com:8443/v1",
        "https://api.anthropic.com.evil.example/v1",
        "http://api.anthropic.com",
        "https://generativelanguage.googleapis.com@evil.example/v1",
    ],
)
def test_a_providers_variable_goes_to_its_own_address_only(tmp_path: Path, model: str, address: str) -> None:
    settings = loaded(tmp_path, KEYS, model=model, base_url=address).settings
    assert (settings.route().base_url, settings.api_key) == (address, None)
    with pytest.raises(ConfigurationError, match="SLUICE_API_KEY"):
        require_key(settings)


def test_an_address_is_told_by_scheme_host_and_port() -> None:
    assert same_address("https://API.openai.com:443/v1", "https://api.openai.com./other")
    assert not same_address("https://api.openai.com/v1", "http://api.openai.com/v1")
    assert not same_address("https://[::1", "https://[::2")
    assert not same_address("https://a:99999", "https://a")


def test_another_providers_key_is_never_sent_by_the_name_of_the_model(tmp_path: Path) -> None:
    settings = loaded(tmp_path, KEYS, model="openai:m", base_url="https://api.anthropic.com/v1").settings
    assert settings.api_key == "key-anthropic"  # that address is Anthropic's own, whatever the dialect


def test_a_missing_key_names_the_variables(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_API_KEY or GEMINI_API_KEY or GOOGLE_API_KEY"):
        require_key(loaded(tmp_path, model="gemini:m").settings)
    require_key(loaded(tmp_path, model="ollama:m", base_url="https://gpu.example").settings)


def test_a_dialect_alone_means_its_own_provider() -> None:
    assert route("claude", dialect="anthropic_messages").base_url == "https://api.anthropic.com/v1"
    assert route("claude", dialect="klingon").base_url == OPENAI
    assert route("m", dialect="openai_responses").base_url == OPENAI


def test_what_stands_beside_the_model_string_wins(tmp_path: Path) -> None:
    file = 'model = "anthropic:c"\nbase_url = "http://127.0.0.1:9/v1"\ndialect = "openai_chat"\n'
    way = loaded(tmp_path, file=file).settings.route()
    assert (way.base_url, way.dialect, way.provider) == ("http://127.0.0.1:9/v1", "openai_chat", "anthropic")
    way = loaded(tmp_path, file=file, base_url="http://127.0.0.1:7/v1").settings.route()
    assert way.base_url == "http://127.0.0.1:7/v1"


def test_an_address_said_for_a_weaker_model_does_not_hold_and_neither_does_its_key(tmp_path: Path) -> None:
    file = 'model = "x"\nbase_url = "https://router.example/v1"\napi_key = "key-router"\ndialect = "openai_chat"\n'
    found = loaded(tmp_path, KEYS, file=file, model="anthropic:c")
    way = found.settings.route()
    assert (way.base_url, way.dialect) == ("https://api.anthropic.com/v1", "anthropic_messages")
    assert found.settings.api_key == "key-anthropic"
    assert found.origins["base_url"] == "model anthropic:c"
    # A bare name says nothing of where it is asked.
    bare = loaded(tmp_path, KEYS, file=file, model="y").settings
    assert (bare.route().base_url, bare.api_key) == ("https://router.example/v1", "key-router")
    # A key that stands with no address is for whatever is asked.
    environ = {**KEYS, "SLUICE_API_KEY": "ours"}
    assert loaded(tmp_path, environ, file=file, model="anthropic:c").settings.api_key == "ours"


def test_a_provider_of_ones_own_is_configuration_only(tmp_path: Path) -> None:
    environ = {**KEYS, "ROUTER_KEY": "key-router"}
    found = loaded(tmp_path, environ, file=OWN, model="router:some/model:free")
    way = found.settings.route()
    assert (way.provider, way.model, way.dialect) == ("router", "some/model:free", "openai_chat")
    assert (way.base_url, found.settings.api_key) == ("https://router.example/api/v1", "key-router")
    assert found.origins["api_key"] == "environment ROUTER_KEY"
    proxied = loaded(tmp_path, environ, file=OWN, model="claude-proxy:c").settings
    assert (proxied.route().dialect, proxied.api_key) == ("anthropic_messages", "key-anthropic")
    here = loaded(tmp_path, environ, file=OWN, model="here:m").settings
    assert (find_inline(here), here.api_key) == ("hermes", None)
    require_key(here)
    assert find_inline(loaded(tmp_path, file=OWN, model="here:m", inline="glm").settings) == "glm"
    by_address = loaded(tmp_path, environ, file=OWN, model="m", base_url="https://router.example/api/v1").settings
    assert (by_address.route().provider, by_address.api_key) == ("router", "key-router")


def test_a_built_in_provider_can_be_changed_in_part(tmp_path: Path) -> None:
    file = '[providers.anthropic]\nbase-url = "https://gateway.example/v1"\n'
    settings = loaded(tmp_path, KEYS, file=file, model="anthropic:c").settings
    assert settings.route().dialect == "anthropic_messages"
    assert settings.api_key == "key-anthropic"  # the user's own file says where this provider is


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("providers = 3", "tables"),
        ("[providers]\nx = 3", r"\[providers.x\] is no table"),
        ("[providers.x]", "needs base_url"),
        ('[providers.x]\nbase_url = "ftp://x"', "base_url cannot be"),
        ('[providers.x]\nbase_url = "https://x"\nkey = "secret-key"', "unknown key 'key'"),
        ('[providers.x]\nbase_url = "https://x"\nkey_env = "sk-secret"', "not the key itself"),
        ('[providers.x]\nbase_url = "https://x"\nkey_env = []', "key_env must be some text"),
        ("[providers.x]\nbase_url = 3", "base_url must be some text"),
        ('[providers."A b"]\nbase_url = "https://x"', "small letters"),
    ],
)
def test_a_broken_table_is_said_without_a_secret(tmp_path: Path, file: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        loaded(tmp_path, file=file)
    assert "sk-secret" not in str(caught.value)
    assert "own.toml" in str(caught.value)


def test_unknown_names_in_a_table_are_the_users_to_correct() -> None:
    def settings(**more: str) -> Settings:
        return Settings(model="x:m", providers=(Provider(name="x", base_url="http://127.0.0.1:1", **more),))

    with pytest.raises(ConfigurationError, match=r"klingon.*openai_chat"):
        find_dialect(settings(dialect="klingon"))
    with pytest.raises(ConfigurationError, match=r"klingon.*hermes"):
        find_inline(settings(inline="klingon"))


def test_a_projects_file_adds_no_provider(tmp_path: Path) -> None:
    (tmp_path / ".sluice").mkdir()
    (tmp_path / ".sluice" / "config.toml").write_text(
        'model = "evil:m"\ninline = "hermes"\ndialect = "gemini"\n'
        '[providers.openai]\nbase_url = "https://evil.example/v1"\nkey_env = "OPENAI_API_KEY"\n',
        encoding="utf-8",
    )
    found = loaded(tmp_path, KEYS)
    assert found.settings.providers == ()
    assert found.settings.route().base_url == OPENAI
    (warning,) = found.warnings
    assert all(name in warning for name in ("model", "inline", "dialect", "providers"))


def test_providers_come_from_no_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tables in a config file"):
        loaded(tmp_path, {"SLUICE_PROVIDERS": "x"})
    assert providers_from((BUILT_IN["openai"],), "") == (BUILT_IN["openai"],)


def test_what_is_shown_is_what_holds(tmp_path: Path) -> None:
    shown = loaded(tmp_path, file=OWN.replace("//proxy", "//me:hidden@proxy"), model="ollama:m").settings.shown()
    assert (shown["model"], shown["base_url"], shown["dialect"]) == ("ollama:m", "http://127.0.0.1:11434", "ollama")
    assert shown["providers"]["router"] == {
        "base_url": "https://router.example/api/v1",
        "key_env": "ROUTER_KEY",
        "dialect": "openai_chat",
    }
    assert "hidden" not in str(shown)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("openai:m", "/responses"),
        ("openai-chat:m", "/chat/completions"),
        ("anthropic:m", "/messages"),
        ("gemini:m", "/models/m:streamGenerateContent?alt=sse"),
        ("ollama:m", "/api/chat"),
    ],
)
def test_a_dry_run_shows_the_request_of_each_provider(tmp_path: Path, model: str, path: str) -> None:
    shown = dry_run(Settings(workspace=str(tmp_path), model=model), "hello")
    assert (shown["request"]["path"], shown["request"]["dialect"]) == (path, shown["settings"]["dialect"])
    assert shown["request"]["address"] == BUILT_IN[model.partition(":")[0]].base_url
    assert shown["request"]["body"].get("model", "m") == "m"


def test_a_fixture_is_played_in_chat_whatever_the_model(tmp_path: Path) -> None:
    fixture = tmp_path / "f.json"
    fixture.write_text(json.dumps([{"role": "assistant", "content": "hi"}]), encoding="utf-8")
    (tmp_path / "w").mkdir()
    settings = Settings(
        workspace=str(tmp_path / "w"),
        model="anthropic:c",
        mode="mock",
        mock_fixture=str(fixture),
    )

    async def stored() -> AssistantMessage:
        store = MemoryStore()
        async with open_agent(settings, store=store) as agent:
            async for _ in agent.run("x"):
                pass
        (last,) = [m for m in await store.history() if isinstance(m, AssistantMessage)]
        return last

    message = asyncio.run(stored())
    assert (message.content, message.dialect, message.provider) == ("hi", "openai_chat", "mock")
    assert message.model


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("antropic:claude-sonnet-4-5", "anthropic"),
        ("Anthropc:c", "anthropic"),
        ("antrhopic:c", "anthropic"),
        ("open-ai:gpt-5", "openai"),
        ("opnai:gpt-5", "openai"),
        ("openia:gpt-5", "openai"),
        ("openai_chat:gpt-5", "openai-chat"),
        ("gemnii:g", "gemini"),
        ("olama:qwen3:4b", "ollama"),
        ("roter:m", "router"),
        ("claude-prxy:m", "claude-proxy"),
    ],
)
def test_a_providers_name_with_a_slip_of_the_pen_is_told_before_anything_is_sent(
    model: str, meant: str, tmp_path: Path
) -> None:
    settings = loaded(tmp_path, KEYS, file=OWN, model=model).settings
    with pytest.raises(
        ConfigurationError, match=rf"^unknown provider '{model.split(':')[0]}' \(did you mean {meant}\?\)$"
    ):
        require_key(settings)


BARE = [
    *("ft:gpt-4o:org::id", "qwen3:4b", "llama3.1:8b-instruct", "llama3:8b", "llama:7b", "codellama:7b", "gemma:2b"),
    *("gemma3n:e4b", "openchat/openchat:7b", "olmo2:7b", "aya:8b", "orca:7b", "goliath:120b", "granite4:3b"),
    *("openhermes:7b", "openai", "antropic", "antropic:", "anthropic/claude:beta", "hf.co/a/b:Q4", "gpt-4o"),
]


@pytest.mark.parametrize("model", [*BARE, "ollama:m", "ANTHROPIC: c"])
def test_names_of_models_with_a_colon_are_no_slips(model: str) -> None:
    assert misspelt(model) is None


@pytest.mark.parametrize("model", [*BARE, "openchat:7b", "mixtral:8x7b"])
def test_where_an_address_is_given_only_what_is_almost_the_same_is_a_slip(model: str) -> None:
    own = (Provider(name="mistral", base_url="https://m.example/v1"),)
    assert misspelt(model, own, addressed=True) is None
    assert misspelt("antropic:c", own, addressed=True) == ("antropic", "anthropic")


def test_a_slip_stops_nothing_where_nothing_is_sent(tmp_path: Path) -> None:
    replayed = loaded(tmp_path, {}, model="antropic:c").settings
    require_key(msgspec.structs.replace(replayed, replay="recording"))
    require_key(msgspec.structs.replace(replayed, mode="mock", mock_fixture="f"))
