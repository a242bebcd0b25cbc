"""The documentation builds from the source, loads nothing from elsewhere, and names only what there is."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import click
import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READ = [*PAGES, *sorted(ROOT.glob("README*.md"))]
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
NOT_LOADED = {"canonical", "next", "prev", "alternate"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it. Every broken link, anchor, quote or drawing ends the build."""
    if shutil.which("dot") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "NOT CHECKED: the drawings need Graphviz (package graphviz)"
        )
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="session")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "scripts" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Page(HTMLParser):
    """What a browser would fetch for a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and NOT_LOADED & set((given.get("rel") or "").split()):
            return
        self.fetched += [given[name] or "" for kind, name in LOADED if kind == tag and given.get(name)]
        self.fetched += re.findall(r"url\(([^)]*)\)", given.get("style") or "")


def foreign(address: str) -> bool:
    parts = urlsplit(address.strip("'\" "))
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    found = {(page.name, a) for page in pages for a in Page(page.read_text("utf-8")).fetched if foreign(a)}
    for sheet in site.rglob("*.css"):
        text = sheet.read_text("utf-8")
        found |= {(sheet.name, a) for a in re.findall(r"(?:url\(|@import\s*)([^);]*)", text) if foreign(a)}
    assert found == set()


def test_a_foreign_address_would_be_found() -> None:
    page = Page('<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//fonts.example/a.css">')
    assert [foreign(address) for address in page.fetched] == [True, True]
    assert not foreign("assets/x.js")
    assert not foreign("data:image/svg+xml,x")


def test_the_source_is_quoted_and_drawings_are_drawn(site: Path) -> None:
    chapter = (site / "pipeline" / "2-wire.html").read_text("utf-8")
    assert "EventTooLarge" in chapter
    assert "sluice/wire/sse.py" in chapter
    assert "<svg" in (site / "pipeline" / "4-turn.html").read_text("utf-8")
    assert "judging_again" in (site / "pipeline" / "4-turn.html").read_text("utf-8")


def test_a_name_that_is_not_in_the_source_ends_the_build(hooks: ModuleType) -> None:
    with pytest.raises(hooks.SiteError, match="no NoSuchThing"):
        hooks.on_page_markdown("::: sluice.wire.sse.NoSuchThing")
    with pytest.raises(hooks.SiteError, match="nothing is made"):
        hooks.on_page_markdown("<!-- made: nothing -->")


def test_every_key_is_on_the_page_about_configuration(hooks: ModuleType) -> None:
    from sluice.run.config_keys import keys

    text = hooks.on_page_markdown((DOCS / "configuration.md").read_text("utf-8"))
    assert [name for name in keys() if not re.search(rf"^\| `{name}` \|", text, re.MULTILINE)] == []


def test_every_tool_and_every_provider_is_in_its_table(hooks: ModuleType) -> None:
    from sluice.limits import DEFAULT_LIMITS
    from sluice.run.models import BUILT_IN
    from sluice.tools.builtin import default_tools
    from sluice.tools.registry import Registry

    specs = Registry(default_tools(), limits=DEFAULT_LIMITS).specs()
    assert [spec.name for spec in specs if f"| `{spec.name}` |" not in hooks.made("tools")] == []
    text = (DOCS / "tools.md").read_text("utf-8")
    assert [spec.name for spec in specs if f"`{spec.name}`" not in text] == []
    assert [name for name in BUILT_IN if f"| `{name}:…` |" not in hooks.made("models")] == []


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in READ:
        for block in re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            found.append((page.relative_to(ROOT).as_posix(), block))
    return found


def test_every_python_block_can_be_compiled() -> None:
    found = blocks("python")
    assert found
    for page, block in found:
        compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_toml_block_is_a_config_without_a_warning(tmp_path: Path) -> None:
    from sluice.run.config import load

    found = blocks("toml")
    assert found
    for number, (page, block) in enumerate(found):
        path = tmp_path / f"{number}.toml"
        path.write_text(block, "utf-8")
        path.chmod(0o600)
        loaded = load({"config": str(path)}, {}, cwd=tmp_path)
        assert loaded.warnings == [], page


def commands() -> list[tuple[str, list[str]]]:
    """Each command line of ours that a page shows: in blocks of shell, indented blocks of the README, and in backticks."""
    found = []
    for page in READ:
        lines: list[str] = []
        text = page.read_text("utf-8")
        for block in re.findall(r"^ *```(?:bash|sh|console)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
            lines += block.splitlines()
        text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        lines += re.findall(r"^ {4,}(.*\bsluice .*)$", text, re.MULTILINE)
        lines += re.findall(r"`(sluice [^`\n]+)`", text)
        for line in lines:
            for part in parts(line):
                words = [word for word in part if not re.fullmatch(r"[A-Z_]+=.*|\$", word)]
                if words and words[0].rpartition("/")[2] == "sluice":
                    found.append((page.name, words[1:]))
    return found


def parts(line: str) -> list[list[str]]:
    """The commands of a line of shell, in words."""
    reader = shlex.shlex(line.strip(), posix=True, punctuation_chars="|;&")
    reader.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in reader:
        if set(word) <= set("|;&"):
            found.append([])
        else:
            found[-1].append(word)
    return found


@pytest.mark.parametrize(("page", "words"), commands())
def test_every_command_line_that_a_page_shows_can_be_read(page: str, words: list[str]) -> None:
    from sluice.ui.cli import sluice

    command: click.Command = sluice
    context = click.Context(command, info_name="sluice", **command.context_settings)
    while True:
        assert isinstance(command, click.Command)
        parser = command.make_parser(context)
        _values, left, _order = parser.parse_args(args=list(words))
        if not isinstance(command, click.Group) or not left:
            break
        name, found, words = command.resolve_command(context, list(left))
        assert found is not None, f"{page}: there is no command {left[0]!r}"
        command, context = found, click.Context(found, info_name=name, parent=context, **found.context_settings)
