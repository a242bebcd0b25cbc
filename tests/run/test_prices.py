"""Windows and prices by name, the user's own figures, and that the table can be made again."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from pathlib import Path

import pytest

from sluice.run.config import Settings
from sluice.run.prices import UNKNOWN, ModelEntry, Step, find_model, with_prices
from sluice.run.wiring import model_entry, unpriced
from sluice.values.messages import Usage

ROOT = Path(__file__).resolve().parent.parent.parent
OPENAI = "https://api.openai.com/v1"


def test_a_model_is_found_by_its_name_and_address() -> None:
    known = find_model("gpt-4o", OPENAI)
    assert (known.window, known.input, known.output) == (128_000, 2.5, 10.0)
    assert find_model("GPT-4o-2024-08-06", OPENAI) == known
    claude = find_model("claude-opus-4-6-20260205", "https://api.anthropic.com")
    assert claude.window == 1_000_000
    assert claude.cache_write is not None
    routed = find_model("anthropic/claude-opus-4.6", "https://openrouter.ai/api/v1")
    assert routed.input is not None


def test_elsewhere_a_name_tells_the_window_and_no_price_and_on_this_machine_nothing() -> None:
    assert find_model("gpt-4o", "https://gateway.example/v1") == ModelEntry(window=128_000)
    assert find_model("gpt-4o", "http://127.0.0.1:8000/v1") == UNKNOWN
    assert find_model("no-such-model", OPENAI) == UNKNOWN


def test_the_cost_of_a_reply() -> None:
    entry = ModelEntry(input=2.0, output=10.0, cached=0.5, cache_write=4.0)
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, cache_write_tokens=100_000, output_tokens=100_000)
    assert entry.cost(usage) == pytest.approx(0.5 * 2 + 0.4 * 0.5 + 0.1 * 4 + 0.1 * 10)
    assert entry.cost(Usage(input_tokens=1, cost=7.5)) == 7.5, "what the provider says goes first"
    assert UNKNOWN.cost(Usage(input_tokens=1, cost=7.5)) == 7.5
    assert UNKNOWN.cost(usage) is None
    assert ModelEntry(input=1.0).cost(usage) is None


def test_a_step_counts_for_the_whole_request() -> None:
    entry = ModelEntry(input=1.0, output=1.0, above=(Step(tokens=10, input=3.0),))
    assert entry.cost(Usage(input_tokens=10)) == pytest.approx(10e-6)
    assert entry.cost(Usage(input_tokens=11, output_tokens=1)) == pytest.approx(34e-6)


def test_the_users_own_figures_go_first() -> None:
    own = with_prices(ModelEntry(window=5, input=1.0, output=1.0, above=(Step(tokens=1, input=9.0),)), input=2.0)
    assert own.cost(Usage(input_tokens=1_000_000)) == 2.0
    assert own.window == 5
    entry = model_entry(Settings(base_url="http://127.0.0.1:1/v1", window_tokens=9, price_input=1.0, price_output=0.0))
    assert (entry.window, entry.input, entry.output) == (9, 1.0, 0.0)


def test_a_bound_on_unknown_costs_is_told() -> None:
    import msgspec

    settings = Settings(base_url="http://127.0.0.1:1/v1")
    assert unpriced(settings, UNKNOWN) == []
    bounded = msgspec.structs.replace(settings, limits=msgspec.structs.replace(settings.limits, max_cost=1.0))
    (line,) = unpriced(bounded, UNKNOWN)
    assert "price_input" in line
    assert unpriced(bounded, ModelEntry(input=1.0, output=1.0)) == []


def test_the_table_can_be_made_again() -> None:
    """With the version that it names. Anything else is said loudly, and is no failure of the code."""
    stored = (ROOT / "src/sluice/run/models.json").read_text("utf-8")
    source = json.loads(stored)["source"]
    if importlib.util.find_spec("genai_prices") is None:
        pytest.skip("!!! genai-prices is not installed, so models.json was NOT made again")
    from importlib.metadata import version

    if source != f"genai-prices {version('genai-prices')}":
        pytest.skip(f"!!! models.json is from {source}, and another version is installed: it was NOT made again")
    spec = importlib.util.spec_from_file_location("make_models", ROOT / "scripts" / "make_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a package that is not ours
        spec.loader.exec_module(module)
        made = module.text()
    assert made == stored


def test_the_package_is_never_imported_at_run_time() -> None:
    import subprocess

    code = "import sys, sluice.ui.cli, sluice.run.wiring, sluice.run.prices as p; p.find_model('x', 'http://x/'); "
    code += "sys.exit('genai_prices' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
