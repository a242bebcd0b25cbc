"""Precedence, origins, narrowing by the project's file, keys that stay secret, the steps before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.run.config import (
    Loaded,
    Settings,
    absolute_workspace,
    is_loopback,
    load,
    open_workspace,
    require_key,
    without_password,
)
from sluice.run.config_keys import keys

KEY = "sk-" + "x" * 48


def loaded(tmp_path: Path, flags: Any = None, environ: Any = None, **more: Any) -> Loaded:
    return load(flags or {}, environ or {}, cwd=tmp_path, **more)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_nothing_given_is_the_documented_defaults(tmp_path: Path) -> None:
    found = loaded(tmp_path)
    assert found.settings == Settings()
    assert found.settings.model == "gpt-4o"
    shown = found.settings.shown()
    assert (shown["base_url"], shown["dialect"]) == ("https://api.openai.com/v1", "openai_chat")
    assert (found.settings.mode, found.settings.workspace) == ("real", ".")
    assert set(found.origins.values()) == {"default"}
    assert found.warnings == []


def test_each_source_beats_the_one_before(tmp_path: Path) -> None:
    file = write(tmp_path / "c.toml", 'model = "file"')
    environ: dict[str, str] = {}
    flags: dict[str, object] = {}
    steps = [
        (lambda: None, "file", f"config file {str(file)!r}"),
        (lambda: environ.update(NCA_MODEL="nca"), "nca", "environment NCA_MODEL"),
        (lambda: environ.update(SLUICE_MODEL="ours"), "ours", "environment SLUICE_MODEL"),
        (lambda: flags.update(model="flag"), "flag", "flag --model"),
    ]
    for act, value, origin in steps:
        act()
        found = loaded(tmp_path, flags, environ, user_config=file)
        assert (found.settings.model, found.origins["model"]) == (value, origin)


def test_a_set_pair_is_a_flag_and_a_flag_of_its_own_beats_it(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"max_turns": 3}, {"SLUICE_IDLE_SECONDS": "9"}, pairs=["idle-seconds=5", "max_turns=9"])
    assert found.settings.limits.idle_seconds == 5
    assert found.origins["idle_seconds"] == "flag --set idle_seconds"
    assert found.settings.limits.max_turns == 3


@pytest.mark.parametrize("pair", ["max_turn=3", "max_turns", "=", "max_turns=no"])
def test_a_bad_set_pair_is_refused(tmp_path: Path, pair: str) -> None:
    with pytest.raises(ConfigurationError, match="--set"):
        loaded(tmp_path, pairs=[pair])


def test_the_config_flag_goes_before_the_variables_and_those_before_the_users_file(tmp_path: Path) -> None:
    names = ["flag", "ours", "nca", "user"]
    files = {name: write(tmp_path / f"{name}.toml", f'model = "{name}"') for name in names}
    flags: dict[str, object] = {"config": "flag.toml"}
    environ = {"SLUICE_CONFIG": "ours.toml", "NCA_CONFIG": str(files["nca"])}
    for name in names:
        assert loaded(tmp_path, flags, environ, user_config=files["user"]).settings.model == name
        flags.pop("config", None) or environ.pop("SLUICE_CONFIG", None) or environ.pop("NCA_CONFIG", None)


def test_a_named_config_file_must_exist_and_the_users_own_need_not(tmp_path: Path) -> None:
    assert loaded(tmp_path, user_config=tmp_path / "none.toml").settings == Settings()
    for flags, environ in (({"config": "none.toml"}, {}), ({}, {"SLUICE_CONFIG": "none.toml"})):
        with pytest.raises(ConfigurationError, match=r"none\.toml.*No such file"):
            loaded(tmp_path, flags, environ)


def test_every_bound_can_be_set_by_file_variable_and_flag(tmp_path: Path) -> None:
    for name in (field.name for field in msgspec.structs.fields(Limits)):
        assert keys()[name].limit
        file = write(tmp_path / "c.conf", f"{name.upper()}=7\n")
        assert getattr(loaded(tmp_path, user_config=file).settings.limits, name) == 7
        assert getattr(loaded(tmp_path, environ={f"SLUICE_{name.upper()}": "8"}).settings.limits, name) == 8
        assert getattr(loaded(tmp_path, pairs=[f"{name}=9"]).settings.limits, name) == 9


def test_every_setting_has_a_key_and_every_key_a_setting() -> None:
    fields = {field.name for field in msgspec.structs.fields(Settings)} - {"limits", "config_file", "session"}
    assert fields == {key.name for key in keys().values() if not key.limit}
    for key in keys().values():
        assert Settings().value(key.name) == key.default


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    assert loaded(tmp_path, environ={"SLUICE_MODEL": "", "SLUICE_MAX_TURNS": " "}).settings == Settings()


@pytest.mark.parametrize(
    ("flags", "environ", "words"),
    [
        ({"max_turns": "many"}, {}, "flag --max-turns: max_turns cannot be 'many'; expected a whole number"),
        ({}, {"NCA_MODE": "fake"}, "environment NCA_MODE: mode cannot be 'fake'; expected real or mock"),
        ({}, {"SLUICE_IDLE_SECONDS": "nan"}, "idle_seconds cannot be 'nan'; expected seconds"),
        ({}, {"SLUICE_BASE_URL": "ftp://x"}, "base_url cannot be 'ftp://x'; expected an address"),
        ({"mode": "mock"}, {}, "mode mock needs a fixture"),
        ({"mode": "mock", "mock_fixture": "none.json"}, {}, "none.json"),
        ({"system_prompt_file": "."}, {}, "is a folder"),
        ({"workspace": "a\0b"}, {}, "workspace"),
    ],
)
def test_a_bad_value_names_source_key_value_and_what_is_expected(
    tmp_path: Path, flags: Any, environ: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, flags, environ)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_key_is_a_warning_that_names_the_nearest(tmp_path: Path) -> None:
    file = write(tmp_path / "c.toml", "max_turn = 3\nzzz = 1\n[limits]\nmax_turns = 2\n")
    found = loaded(tmp_path, environ={"SLUICE_MAX_TURNZ": "1", "SLUICE_ELSE": "x"}, user_config=file)
    assert found.settings == Settings(config_file=str(file))
    assert any("'max_turn' is ignored; did you mean max_turns?" in warning for warning in found.warnings)
    assert any("'zzz' is ignored" in warning for warning in found.warnings)
    assert any("'limits'" in warning for warning in found.warnings)
    assert any("SLUICE_MAX_TURNZ" in warning and "SLUICE_MAX_TURNS" in warning for warning in found.warnings)
    assert not any("SLUICE_ELSE" in warning for warning in found.warnings)


# -- the project's file


def project(tmp_path: Path, text: str) -> Path:
    return write(tmp_path / ".sluice" / "config.toml", text)


def test_the_project_may_lower_limits_and_take_tools_away(tmp_path: Path) -> None:
    project(
        tmp_path, 'max_turns = 5\nmax_seconds = 60\ntools = ["a", "b"]\nexclude_tools = ["b"]\nmax_output_tokens = 9'
    )
    found = loaded(tmp_path)
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_turns=5, max_seconds=60.0)
    assert found.settings.limits == limits
    assert [tool for tool in "abc" if found.settings.offers(tool)] == ["a"]
    assert found.settings.max_output_tokens == 9
    assert found.origins["max_turns"].startswith("project file")
    assert found.warnings == []


def test_the_project_widens_nothing(tmp_path: Path) -> None:
    hostile = 'max_turns = 50\nmax_seconds = "none"\ntools = ["a", "c"]\nexclude_tools = []\nno_tools = false\n'
    project(tmp_path, hostile)
    file = write(
        tmp_path / "user.toml",
        'max_turns = 7\nmax_seconds = 60\ntools = ["a", "b"]\nexclude_tools = ["x"]\nno_tools = true',
    )
    plain = load({}, {}, cwd=tmp_path / "elsewhere", user_config=file).settings
    found = loaded(tmp_path, user_config=file)
    assert found.settings == msgspec.structs.replace(plain, tools=("a",))
    assert plain.config_file == str(file)
    for name in ("max_turns", "max_seconds", "no_tools"):
        assert any(name in warning and "only narrow" in warning for warning in found.warnings)


def test_the_project_never_sets_addresses_keys_approvals_or_modes(tmp_path: Path) -> None:
    lines = {
        "base_url": '"https://evil.example/v1"',
        "api_key": '"sk-evil"',
        "allow_mutating_tools": "true",
        "allow_execution_tools": "true",
        "mode": '"mock"',
        "mock_fixture": '"f.json"',
        "model": '"evil"',
        "system_prompt_file": '"evil.md"',
        "record": '"out"',
        "replay": '"in"',
        "workspace": '"/"',
        "debug": "true",
        "output": '"json"',
        "dialect": '"x"',
        "tool_choice": '"bash_execute_safe"',
        "allow_network": "true",
        "accept_healed": "true",
        "allow_host": '["evil.example"]',
    }
    project(tmp_path, "\n".join(f"{key} = {value}" for key, value in lines.items()))
    found = loaded(tmp_path)
    assert found.settings == Settings()
    (warning,) = found.warnings
    assert all(key in warning for key in lines)
    assert "sk-evil" not in warning


def test_hosts_are_listed_by_flag_variable_and_file_in_one_spelling(tmp_path: Path) -> None:
    file = write(tmp_path / "c.toml", 'allow_host = ["HoSt.org", "10.0.0.5:8080", "host.org."]')
    assert loaded(tmp_path, {"config": str(file)}).settings.allow_host == ("host.org", "10.0.0.5:8080")
    assert loaded(tmp_path, {"allow_host": ("A.b:1", "::1")}).settings.allow_host == ("a.b:1", "[::1]")
    assert loaded(tmp_path, environ={"SLUICE_ALLOW_HOST": "a.b, c.d"}).settings.allow_host == ("a.b", "c.d")
    assert loaded(tmp_path, environ={"SLUICE_ALLOW_HOST": ""}).settings.allow_host == ()
    both = loaded(tmp_path, {"allow_host": "a.b", "allow_network": True})
    assert any("no effect beside allow_network" in warning for warning in both.warnings)


@pytest.mark.parametrize(
    "bad", ["*.a.b", "http://a.b", "a b", "127.1", ["a.b", 5], 7, ",".join(f"h{n}.a" for n in range(257))]
)
def test_what_is_no_host_stops_the_start(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"allow[-_]host.*hosts separated by commas"):
        loaded(tmp_path, {"allow_host": bad})


def test_only_keys_that_can_narrow_are_open_to_the_project() -> None:
    narrowing = {key.name for key in keys().values() if key.narrowing != "never" and not key.limit}
    assert narrowing == {"max_output_tokens", "tools", "exclude_tools", "no_tools", "no_agents_md", "rules"}


RULES = '[[rules]]\neffect = "allow"\ncommand = "ls*"\n[[rules]]\neffect = "deny"\ncommand = "rm *"\n'


def test_a_project_may_add_rules_that_deny_and_no_others(tmp_path: Path) -> None:
    file = write(tmp_path / "c.toml", '[[rules]]\neffect = "ask"\ntool = "bash*"\n')
    project(tmp_path, RULES)
    found = loaded(tmp_path, {"config": str(file)})
    assert found.settings.rules.shown() == ("ask:bash*", "deny:*[rm *]")
    assert [rule.origin.split()[0] for rule in found.settings.rules.rules] == ["config", "project"]
    assert any("only the rules that deny" in warning for warning in found.warnings)
    assert loaded(tmp_path).settings.rules.shown() == ("deny:*[rm *]",)


@pytest.mark.parametrize("where", ["user", "project"])
def test_rules_that_cannot_be_used_deny_everything_and_say_so(tmp_path: Path, where: str) -> None:
    bad = RULES + '[[rules]]\neffect = "maybe"\ntool = "x"\n'
    file = write(tmp_path / "c.toml", bad if where == "user" else RULES)
    if where == "project":
        project(tmp_path, bad)
    found = loaded(tmp_path, {"config": str(file)})
    assert "rule 3" in (found.settings.rules.broken or "")
    assert any("every tool is denied" in warning for warning in found.warnings)


def test_an_empty_config_file_denies_everything(tmp_path: Path) -> None:
    file = write(tmp_path / "c.toml", "")
    assert "is empty" in (loaded(tmp_path, {"config": str(file)}).settings.rules.broken or "")
    assert loaded(tmp_path, {"config": "/dev/null"}).settings.rules.broken is None
    assert loaded(tmp_path, {"config": str(write(tmp_path / "d.toml", "# none\n"))}).settings.rules.broken is None


def test_rules_from_a_variable_or_a_flag_deny_everything(tmp_path: Path) -> None:
    assert loaded(tmp_path, environ={"SLUICE_RULES": "allow *"}).settings.rules.broken
    assert loaded(tmp_path, pairs=["rules=[]"]).settings.rules.broken


def test_a_flag_still_beats_the_project(tmp_path: Path) -> None:
    project(tmp_path, "max_turns = 5")
    assert loaded(tmp_path, {"max_turns": 30}).settings.limits.max_turns == 30


def test_a_broken_project_file_stops_the_start(tmp_path: Path) -> None:
    project(tmp_path, "max_turns = ")
    with pytest.raises(ConfigurationError, match="line 1"):
        loaded(tmp_path)


def test_the_projects_file_is_of_the_workspace_given_not_of_the_current_folder(tmp_path: Path) -> None:
    project(tmp_path / "w", "max_turns = 5")
    assert loaded(tmp_path).settings.limits.max_turns == 20
    assert loaded(tmp_path, {"workspace": "w"}).settings.limits.max_turns == 5
    assert loaded(tmp_path, environ={"NCA_WORKSPACE": "w"}).settings.limits.max_turns == 5


@pytest.mark.parametrize("part", [".sluice", ".sluice/config.toml"])
def test_a_project_file_behind_a_link_is_refused(tmp_path: Path, part: str) -> None:
    outside = write(tmp_path / "outside" / "config.toml", "max_turns = 5")
    workspace = tmp_path / "w"
    target = workspace / part
    target.parent.mkdir(parents=True)
    target.symlink_to(outside.parent if part == ".sluice" else outside)
    with pytest.raises(ConfigurationError, match="config file"):
        load({}, {}, cwd=workspace)


def test_a_project_file_that_the_user_names_is_the_users(tmp_path: Path) -> None:
    file = project(tmp_path, 'model = "mine"\nmax_turns = 50')
    found = loaded(tmp_path, {"config": str(file)})
    assert (found.settings.model, found.settings.limits.max_turns) == ("mine", 50)
    assert found.warnings == []


# -- the key


def test_the_key_is_found_in_order_and_never_shown(tmp_path: Path) -> None:
    environ = {"SLUICE_API_KEY": KEY, "NCA_API_KEY": "nca-key", "OPENAI_API_KEY": "openai-key"}
    found = loaded(tmp_path, environ=environ)
    assert found.settings.api_key == KEY
    shown = repr(found.settings) + repr(found.settings.shown()) + repr(found) + str(found.origins)
    assert KEY not in shown
    assert "set (51 characters)" in shown
    environ.pop("SLUICE_API_KEY")
    assert loaded(tmp_path, environ=environ).settings.api_key == "nca-key"
    environ.pop("NCA_API_KEY")
    found = loaded(tmp_path, environ=environ)
    assert (found.settings.api_key, found.origins["api_key"]) == ("openai-key", "environment OPENAI_API_KEY")


@pytest.mark.parametrize(
    "url",
    ["https://other.example/v1", "http://api.openai.com/v1", "http://127.0.0.1:8080", "https://api.openai.com.x/"],
)
def test_the_openai_key_goes_to_openai_only(tmp_path: Path, url: str) -> None:
    assert loaded(tmp_path, {"base_url": url}, {"OPENAI_API_KEY": KEY}).settings.api_key is None


def test_a_bad_key_is_not_printed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, environ={"SLUICE_API_KEY": "sk-secret\nX-Header: 1"})
    assert "sk-secret" not in str(caught.value)


def test_a_bad_address_is_printed_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, {"base_url": "https://me:hidden@host:port/v1"})
    assert "hidden" not in str(caught.value)


def test_a_file_with_a_key_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    file = write(tmp_path / "c.conf", f"api_key={KEY}\n")
    assert loaded(tmp_path, user_config=file).warnings == []
    file.chmod(0o644)
    (warning,) = loaded(tmp_path, user_config=file).warnings
    assert "chmod 600" in warning
    assert KEY not in warning


def test_a_key_over_plain_http_is_a_warning_unless_it_stays_here(tmp_path: Path) -> None:
    environ = {"SLUICE_API_KEY": KEY}
    assert "unencrypted" in loaded(tmp_path, {"base_url": "http://far.example/v1"}, environ).warnings[0]
    assert loaded(tmp_path, {"base_url": "http://localhost:1/v1"}, environ).warnings == []


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost:8080/v1", True),
        ("http://LOCALHOST./v1", True),
        ("http://127.8.9.1/", True),
        ("http://[::1]:80/v1", True),
        ("http://127.0.0.1@far.example/", False),
        ("http://127.0.0.1.far.example/", False),
        ("http://localhost.far.example/", False),
        ("https://api.openai.com/v1", False),
        ("http://0.0.0.0/", False),
    ],
)
def test_a_key_is_needed_unless_the_address_is_loopback(url: str, here: bool) -> None:
    assert is_loopback(url) is here
    settings = Settings(base_url=url)
    if here:
        require_key(settings)
    else:
        with pytest.raises(ConfigurationError, match="SLUICE_API_KEY"):
            require_key(settings)
    require_key(msgspec.structs.replace(settings, api_key=KEY))
    require_key(msgspec.structs.replace(settings, mode="mock"))
    require_key(msgspec.structs.replace(settings, replay="x"))


def test_an_address_is_shown_without_user_and_password() -> None:
    assert without_password("https://me:hidden@host/v1?a=b") == "https://***@host/v1?a=b"
    assert without_password("https://host/v1/@x") == "https://host/v1/@x"
    assert "hidden" not in repr(Settings(base_url="https://me:hidden@host/v1"))


# -- the workspace


def test_the_workspace_is_made_absolute_and_created_only_when_opened(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {"workspace": "a/b"}).settings
    assert absolute_workspace(settings, tmp_path).workspace == str((tmp_path / "a" / "b").resolve())
    assert not (tmp_path / "a").exists()
    opened = open_workspace(settings, tmp_path)
    assert Path(opened.workspace).is_dir()
    assert open_workspace(opened, tmp_path) == opened


def test_a_workspace_whose_name_is_no_text_is_refused_before_it_is_made(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {"workspace": "a\udcffb"}).settings
    with pytest.raises(ConfigurationError, match="has a name that is no UTF-8; rename it"):
        open_workspace(settings, tmp_path)
    assert not list(tmp_path.glob("a*"))


def test_a_workspace_that_is_a_file_or_below_one_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "f", "")
    for name in ("f", "f/below", "a\0b"):
        with pytest.raises(ConfigurationError, match="workspace"):
            open_workspace(Settings(workspace=name), tmp_path)


# -- any text at all


@given(st.sampled_from(sorted(keys())), st.one_of(st.text(), st.integers(), st.floats(), st.booleans()))
def test_a_value_is_usable_or_refused_by_name(name: str, raw: object) -> None:
    key = keys()[name]
    try:
        value = key.parse(raw)
    except ValueError:
        return
    if value is not None:
        assert key.parse(value) == value
    if isinstance(value, int | float):
        assert 0 <= value < float("inf")


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("max_event_bytes", "64KiB", 65536),
        ("max_event_bytes", " 1 mib ", 1048576),
        ("max_event_bytes", "2kB", 2000),
        ("max_turns", "0", ValueError),
        ("max_total_tool_calls", "0", 0),
        ("max_turns", True, ValueError),
        ("max_turns", 2.5, ValueError),
        ("max_turns", "٣", ValueError),
        ("max_turns", "none", ValueError),
        ("max_seconds", "off", None),
        ("max_context_bytes", "none", None),
        ("idle_seconds", "2.5s", 2.5),
        ("idle_seconds", "-1", ValueError),
        ("idle_seconds", 0, ValueError),
        ("idle_seconds", float("nan"), ValueError),
        ("idle_seconds", float("inf"), ValueError),
        ("temperature", "0", 0.0),
        ("debug", "1", True),
        ("debug", "TRUE", True),
        ("debug", "maybe", ValueError),
        ("parallel_tool_calls", "off", False),
        ("tool_choice", "none", "none"),
        ("tools", "a, b,a", ("a", "b")),
        ("tools", [], ()),
        ("tools", "a b", ValueError),
        ("model", "a\nb", ValueError),
        ("base_url", "https://h:99999/", ValueError),
    ],
)
def test_values_are_read_as_documented(name: str, raw: object, value: object) -> None:
    if value is ValueError:
        with pytest.raises(ValueError, match=r"^[a-z]"):
            keys()[name].parse(raw)
    else:
        assert keys()[name].parse(raw) == value
