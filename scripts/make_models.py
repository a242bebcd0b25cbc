"""Makes src/sluice/run/models.json: what models can hold and what they cost, by patterns of their names.

The figures come from the package `genai-prices`, a development dependency that is never imported at run time: importing
it takes longer than starting Sluice. The same version of it makes the same file, byte for byte; a test holds that.

    python scripts/make_models.py            writes the file
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "src" / "sluice" / "run" / "models.json"
# Who makes models comes before who serves those of others: a name alone means the maker's own offer.
MAKERS = (
    "anthropic",
    "openai",
    "google",
    "deepseek",
    "mistral",
    "x-ai",
    "cohere",
    "moonshotai",
    "minimax",
    "zai",
    "meta",
)
SERVERS = ("groq", "cerebras", "together", "fireworks", "novita", "perplexity", "azure", "aws", "openrouter")
PRICES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


def patterns(clause: Any) -> list[str]:
    """Shell patterns for a clause; none for what they cannot say."""
    words = vars(clause)
    if "or_" in words:
        return [pattern for part in clause.or_ for pattern in patterns(part)]
    for key, form in (("equals", "{}"), ("starts_with", "{}*"), ("ends_with", "*{}"), ("contains", "*{}*")):
        if key in words:
            return [form.format(words[key].lower().replace("[", "[[]"))]
    return []


def newest(prices: Any) -> Any:
    """The prices that were valid last, at any hour of the day."""
    if not isinstance(prices, list):
        return prices
    plain = [one for one in prices if one.constraint is None]
    dated = [one for one in prices if type(one.constraint).__name__ == "StartDateConstraint"]
    dated.sort(key=lambda one: one.constraint.start_date)
    chosen = (plain + dated)[-1:]
    return chosen[0].prices if chosen else None


def figures(prices: Any) -> dict[str, Any]:
    """US dollars for a million tokens, by kind; `above` holds the steps by the size of the input."""
    found: dict[str, Any] = {}
    steps: dict[int, dict[str, float]] = {}
    for name, field in PRICES.items():
        value = getattr(prices, field, None) if prices is not None else None
        if isinstance(value, Decimal):
            found[name] = float(value)
        elif value is not None:
            found[name] = float(value.base)
            for tier in value.tiers:
                steps.setdefault(tier.start, {})[name] = float(tier.price)
    if steps:
        found["above"] = [{"tokens": start, **steps[start]} for start in sorted(steps)]
    return found


def table() -> dict[str, Any]:
    """The whole content of the file."""
    from genai_prices.data import providers  # a development dependency: this script only

    by_id = {provider.id: provider for provider in providers}
    found = []
    for name in (*MAKERS, *SERVERS):
        provider = by_id[name]
        models = []
        for model in provider.models:
            one: dict[str, Any] = {"match": patterns(model.match)}
            if model.context_window:
                one["window"] = model.context_window
            one.update(figures(newest(model.prices)))
            if one["match"] and len(one) > 1:
                models.append(one)
        maker = name in MAKERS
        found.append({"id": name, "maker": maker, "api": provider.api_pattern, "models": models})
    return {"source": f"genai-prices {version('genai-prices')}", "providers": found}


def text() -> str:
    """The file's text: one model a line, so that a new version shows what it changed."""
    made = table()
    lines = ["{", f'"source": {json.dumps(made["source"])},', '"providers": [']
    for at, provider in enumerate(made["providers"]):
        head = {key: provider[key] for key in ("id", "maker", "api")}
        lines.append(json.dumps(head)[:-1] + ', "models": [')
        models = [json.dumps(model, sort_keys=True) for model in provider["models"]]
        lines += [line + "," for line in models[:-1]] + models[-1:]
        lines.append("]}" + ("," if at + 1 < len(made["providers"]) else ""))
    return "\n".join([*lines, "]", "}", ""])


def main() -> int:
    """Writes the file."""
    TARGET.write_text(text(), "utf-8")
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
