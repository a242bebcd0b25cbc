"""What the build of the documentation adds to its pages, as hooks of mkdocs.

- ` ::: sluice.wire.sse.EventDecoder.feed` on a line of its own: the real source of that name, quoted;
- ` ```dot ` blocks: drawings, made by Graphviz while the site is built, and put into the page as SVG;
- ` <!-- made: NAME --> `: a table or a drawing made from the program itself (see `MADE`).

A name that is not in the source, or a drawing that cannot be made, ends the build.
"""

from __future__ import annotations

import ast
import html
import re
import subprocess
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

_QUOTE = re.compile(r"^::: (sluice[\w.]*)$", re.MULTILINE)
_DOT = re.compile(r"^```dot\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MADE = re.compile(r"^<!-- made: ([\w-]+) -->$", re.MULTILINE)
_COLOUR = "#5f7f9f"  # stands for the page's own, in docs/assets/site.css
_STYLE = (
    'bgcolor="transparent" fontname="sans-serif" node [shape=box style="rounded" fontname="sans-serif" fontsize=11 '
    'color="#5f7f9f" fontcolor="#5f7f9f"] edge [fontname="sans-serif" fontsize=10 color="#5f7f9f" fontcolor="#5f7f9f"] '
)


class SiteError(Exception):
    """A page asks for something that is not there."""


def on_page_markdown(markdown: str, **_given: Any) -> str:
    """The page with its quotes, drawings and tables put in. Called by mkdocs."""
    markdown = _MADE.sub(lambda found: made(found[1]), markdown)
    markdown = _QUOTE.sub(lambda found: quoted(found[1]), markdown)
    return _DOT.sub(lambda found: drawn(found[1]), markdown)


def quoted(name: str) -> str:
    """The source of a module's class, function or constant as a fenced block, with the file it stands in."""
    path, rest = _module(name)
    text = path.read_text("utf-8")
    node = _node(ast.parse(text), rest, name)
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    lines = text.splitlines()[first - 1 : node.end_lineno]
    title = path.relative_to(ROOT).as_posix()
    return f'```python title="{title}"\n{textwrap.dedent(chr(10).join(lines))}\n```'


def _module(name: str) -> tuple[Path, list[str]]:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        base = SOURCE.joinpath(*parts[:length])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file() and length < len(parts):
                return path, parts[length:]
    raise SiteError(f"a page quotes {name}, which is in no module")


def _node(tree: ast.AST, rest: list[str], name: str) -> Any:
    found: Any = tree
    for part in rest:
        inside = [one for one in found.body if part in _names(one)]
        if not inside:
            raise SiteError(f"a page quotes {name}; there is no {part} in it")
        found = inside[-1]
    return found


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return [getattr(node, "name", "")]


@cache
def drawn(source: str) -> str:
    """A Graphviz drawing as SVG, to be put into a page. Colours suit a light and a dark page."""
    source = source.replace("{", "{ " + _STYLE, 1)
    try:
        done = subprocess.run(["dot", "-Tsvg"], input=source, capture_output=True, text=True, timeout=60, check=True)  # noqa: S607
    except FileNotFoundError:
        raise SiteError("the drawings need Graphviz: apt-get install graphviz") from None
    except subprocess.CalledProcessError as error:
        raise SiteError(f"Graphviz: {error.stderr.strip()}") from None
    svg = done.stdout[done.stdout.index("<svg") :]
    svg = re.sub(
        r'<svg width="(\d+)pt" height="[^"]*"',
        lambda found: f'<svg width="{found[1]}pt" style="min-width: min({found[1]}pt, 32rem)"',
        svg,
        count=1,
    ).replace(_COLOUR, "currentColor")
    return f'<div class="drawing" markdown="0">{re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)}</div>'.replace(
        "\n", ""
    )


def made(name: str) -> str:
    """What the program itself says, as Markdown."""
    if name not in MADE:
        raise SiteError(f"nothing is made under the name {name}; there are: {', '.join(MADE)}")
    return MADE[name]()


def _configuration() -> str:
    from sluice.run.config_keys import Key, keys
    from sluice.run.config_template import SECTIONS

    projects = {
        "never": "not taken",
        "lower": "may lower it",
        "fewer": "may take away",
        "more": "may add to it",
        "on": "may switch it on",
        "deny": "may add rules that deny",
    }
    words = {name: said for section in SECTIONS.values() for name, said in section.items()}
    words |= {"rules": "See [Rules](#rules).", "providers": "See [Models and keys](#models-and-keys)."}
    groups = {**{heading: list(named) for heading, named in SECTIONS.items()}, "Tables": ["providers", "rules"]}

    def row(key: Key) -> str:
        default = (
            "–" if key.default in (None, (), "") or key.kind == "rules" else f"`{_written(key.default, key.kind)}`"
        )
        said = words[key.name].replace("|", "\\|")
        return f"| `{key.name}` | {said} | {default} | {projects[key.narrowing]} |"

    parts = []
    for heading, named in groups.items():
        rows = "\n".join(row(keys()[name]) for name in named)
        parts.append(f"### {heading}\n\n| key | says | default | a project's file |\n|---|---|---|---|\n{rows}")
    return "\n\n".join(parts)


def _written(value: object, kind: str) -> str:
    """A default as a config file may have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if kind == "bytes" and isinstance(value, int):
        units = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
        return next((f"{value // size}{unit}" for unit, size in units if value % size == 0), str(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _models() -> str:
    from sluice.run.models import BUILT_IN

    rows = ["| `--model` | address | dialect | key from |", "|---|---|---|---|"]
    for one in BUILT_IN.values():
        variables = ", ".join(f"`{name}`" for name in one.key_env) or "none needed"
        address = one.base_url.partition("://")[2]
        rows.append(f"| `{one.name}:…` | {address} | `{one.dialect}` | {variables} |")
    rows.append(f"| a bare name | `base_url`, or OpenAI's | `{BUILT_IN['openai-chat'].dialect}` | `SLUICE_API_KEY` |")
    return "\n".join(rows)


def _tools() -> str:
    from sluice.limits import DEFAULT_LIMITS
    from sluice.tools.builtin import default_tools
    from sluice.tools.registry import Registry

    words = {"read_only": "reads", "mutating": "changes files", "execution": "runs commands"}
    rows = ["| tool | does | what it takes | its time at most |", "|---|---|---|---|"]
    for spec in Registry(default_tools(), limits=DEFAULT_LIMITS).specs():
        takes = ", ".join(f"`{name}`" for name in spec.parameters.get("properties", {})) or "nothing"
        rows.append(f"| `{spec.name}` | {words[spec.category]} | {takes} | {spec.timeout_seconds:g} s |")
    return "\n".join(rows)


def _limits() -> str:
    from sluice.run.config_keys import keys
    from sluice.run.config_template import limit_words

    words = limit_words()
    rows = ["| key | default | what it bounds |", "|---|---|---|"]
    for key in keys().values():
        if key.limit:
            default = "none" if key.default is None else _written(key.default, key.kind)
            said = html.escape(words.get(key.name, "")).replace("|", "\\|")
            rows.append(f"| `{key.name}` | `{default}` | {said} |")
    return "\n".join(rows)


def _dialects() -> str:
    from sluice.wire.dialects import DIALECTS
    from sluice.wire.inline_calls import INLINE_FORMS

    rows = ["| dialect | what it reads and writes |", "|---|---|"]
    for name in DIALECTS:
        module = ast.parse((SOURCE / "sluice" / "wire" / "dialects" / f"{name}.py").read_text("utf-8"))
        rows.append(f"| `{name}` | {(ast.get_docstring(module) or '').splitlines()[0]} |")
    return (
        "\n".join(rows)
        + "\n\nForms of calls inside text (`inline`): "
        + ", ".join(f"`{n}`" for n in INLINE_FORMS)
        + "."
    )


def _call_states() -> str:
    from sluice.turn.states import CALL_TABLE, CallState

    label: dict[tuple[str, str], list[str]] = {}
    late = {CallState.WITHDRAWING, CallState.WITHDRAWN}
    for (state, event), after in CALL_TABLE.items():
        if not (state is after and state in late):
            label.setdefault((state.value, after.value), []).append(event.value)
    edges = [f'"{before}" -> "{after}" [label="{", ".join(events)}"]' for (before, after), events in label.items()]
    return "```dot\ndigraph {\n" + "\n".join(edges) + "\n}\n```"


def _benchmarks() -> str:
    text = (ROOT / "bench" / "README.md").read_text("utf-8")
    return text.partition("\n")[2].strip()  # without its title


MADE = {
    "benchmarks": _benchmarks,
    "configuration": _configuration,
    "tools": _tools,
    "limits": _limits,
    "models": _models,
    "dialects": _dialects,
    "call-states": _call_states,
}
