"""What a page names is there: tools, keys, flags, commands, variables, files, make targets; and what must be named is."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import click
import pytest

from sluice.limits import DEFAULT_LIMITS
from sluice.policy.rules import Rule, rules_from
from sluice.run.config_keys import keys
from sluice.run.config_template import config_template
from sluice.run.models import BUILT_IN
from sluice.tools.builtin import default_tools
from sluice.tools.registry import Registry
from sluice.ui.cli import sluice
from sluice.ui.tui.slash_commands import NAMES
from sluice.values.calls import ToolSpec

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("README*.md"))]
SPECS = Registry(default_tools(), limits=DEFAULT_LIMITS).specs()
OF_OTHERS = {"--version", "--help", "--strict"}  # every command has the first two; the last is a type checker's
PLACES = {"/tmp"}  # a word with a slash that is no command of the terminal


def without_blocks(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def words(page: Path) -> list[str]:
    """What stands in backticks in the text of a page."""
    return re.findall(r"`([^`\n]+)`", without_blocks(page))


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


FLAGS = {flag for _, c in commands(sluice) for one in c.params for flag in (*one.opts, *one.secondary_opts)} | OF_OTHERS
SOURCE = "\n".join(
    path.read_text("utf-8") for path in sorted((ROOT / "src").rglob("*.*")) if path.suffix in (".py", ".md", ".json")
)
IN_SOURCE = set(re.findall(r"[A-Za-z_]\w+", SOURCE))

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def shown_rules() -> list[Rule]:
    found: list[Rule] = []
    for page in PAGES:
        for block in re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            given = rules_from(tomllib.loads(block).get("rules", ()), page.name)
            assert given.broken is None, page
            found += given.rules
    template = re.sub(r"^# (?=\[\[rules|effect|tool|command)", "", config_template(), flags=re.MULTILINE)
    block = template[template.index("[[rules]]") :]
    return [*found, *rules_from(tomllib.loads(block)["rules"], "sluice init").rules]


def covered(rule: Rule) -> list[str]:
    """The tools that a rule can ever be about."""
    found = [spec for spec in SPECS if fnmatchcase(spec.name, rule.tool)]
    return [spec.name for spec in found if rule.command is None or spec.subject == "command"]


def test_every_rule_that_is_shown_is_about_a_tool_that_there_is() -> None:
    rules = shown_rules()
    assert len(rules) >= 5
    assert [f"{rule.origin}: {rule.named()}" for rule in rules if not covered(rule)] == []


def test_a_rule_about_nothing_would_be_found() -> None:
    assert covered(Rule("deny", "bash")) == []
    assert covered(Rule("allow", "read_file_safe", "cat *")) == []
    assert covered(Rule("allow", "bash_*", "git status *")) == ["bash_execute_safe"]


@each_page
def test_every_flag_is_one_of_ours(page: Path) -> None:
    ours = [word for word in words(page) if word.startswith(("--", "sluice "))]  # what others take is theirs to say
    given = {flag for word in ours for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", word)}
    assert given - FLAGS == set()


@each_page
def test_every_name_with_underscores_is_in_the_source(page: Path) -> None:
    given = {word for word in words(page) if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", word)}
    assert given - IN_SOURCE == set()


@each_page
def test_every_name_that_ends_as_a_tool_or_a_bound_does_is_one(page: Path) -> None:
    given = {
        word for word in words(page) if re.fullmatch(r"\w+_(safe|bounded)|job_\w+|git_(?!seconds)\w+|rg_\w+", word)
    }
    assert given - {spec.name for spec in SPECS} == set()
    bounds = {word for word in words(page) if re.fullmatch(r"(max|allow|price)_\w+|\w+_seconds", word)}
    taken = {name for spec in SPECS for name in spec.parameters.get("properties", {})} | set(ToolSpec.__struct_fields__)
    assert bounds - set(keys()) - taken == set()


@each_page
def test_every_command_of_the_terminal_is_there(page: Path) -> None:
    given = {word for word in words(page) if re.fullmatch(r"/[a-z]+", word)} - PLACES
    assert {word[1:] for word in given} - set(NAMES) == set()


@each_page
def test_every_variable_is_read_by_us(page: Path) -> None:
    text = page.read_text("utf-8")
    ours = {name.lower() for name in re.findall(r"\bSLUICE_([A-Z][A-Z_]*[A-Z])\b", text)}
    assert ours - set(keys()) - {"config", "conformance", "snapshots"} == set()
    of_providers = {name for provider in BUILT_IN.values() for name in provider.key_env}
    shown_in_tables = set(re.findall(r'key_env = "(\w+)"', text))
    named = {name for name in re.findall(r"\b[A-Z]+_API_KEY\b", text) if not name.startswith("SLUICE_")}
    assert named - of_providers - shown_in_tables == set()


@each_page
def test_every_file_of_ours_that_is_named_is_there(page: Path) -> None:
    named = {w for w in words(page) if re.fullmatch(r"(src|tests|docs|bench|scripts|demo|fuzz)/[\w./-]*", w)}
    assert {name for name in named if not (ROOT / name).exists()} == set()
    named = {
        w for w in words(page) if re.fullmatch(r"(wire|turn|policy|values|transport|tools|session|run|ui)/[\w./]+", w)
    }
    assert {name for name in named if not (ROOT / "src" / "sluice" / name).exists()} == set()


@each_page
def test_every_make_target_is_there(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    given = set(re.findall(r"(?:`|^ *)make ([a-z][a-z-]*)", page.read_text("utf-8"), re.MULTILINE))
    assert given - targets == set()


@each_page
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
            assert anchor in slugs, target


def test_a_wrong_name_would_be_found() -> None:
    assert "--allow-mutating-tools" in FLAGS
    assert "--allow-everything" not in FLAGS
    assert "bash_execute_unsafe" not in IN_SOURCE


def test_every_message_that_start_here_explains_is_one_of_ours() -> None:
    table = (DOCS / "index.md").read_text("utf-8").split("| you see |")[1].split("\n\n")[0]
    shown = re.findall(r"`([^`]+)`", " ".join(line.split("|")[1] for line in table.splitlines()[2:]))
    assert len(shown) >= 5
    pieces = {piece.strip() for words in shown for piece in words.split("…") if piece.strip()}
    assert {piece for piece in pieces if piece not in SOURCE} == set()


def test_every_command_is_told_of() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    wanted = [path for path, command in commands(sluice) if path and not isinstance(command, click.Group)]
    assert [path for path in wanted if not re.search(r"\bsluice " + r"\b.*\b".join(path) + r"\b", text)] == []


def test_every_line_of_doctor_is_told_of() -> None:
    page = (DOCS / "safety.md").read_text("utf-8")
    tree = ast.parse((ROOT / "src" / "sluice" / "run" / "doctor.py").read_text("utf-8"))
    firsts = [n.elts[0] for n in ast.walk(tree) if isinstance(n, ast.Tuple) and len(n.elts) == 3]
    firsts += [
        n.args[0]
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "Protection"
    ]
    names = {n.value for n in firsts if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert len(names) >= 12
    assert {name for name in names if f"| {name} |" not in page} == set()
