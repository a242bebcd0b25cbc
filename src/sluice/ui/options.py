"""The flags of the command line, in groups, and the pages of help. Only click is imported: `--help` must be quick."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Days(click.FloatRange):
    """A number of days, from 0 on; the text `nan` is none, though it is a number to Python."""

    def __init__(self) -> None:
        super().__init__(min=0, max=1e6)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of days; ends with a usage error for anything else."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is no number of days", param, ctx)
        return found


ENVIRONMENT = [
    ("SLUICE_<KEY>", "any key of the config file, for example SLUICE_MODEL, SLUICE_API_KEY, SLUICE_MAX_TURNS"),
    ("NCA_<KEY>", "the same; SLUICE_<KEY> wins"),
    ("SLUICE_CONFIG, NCA_CONFIG", "the config file, if --config is not given"),
    (
        "OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY",
        "the key, if no other is set, each for that provider's own address only",
    ),
    ("http_proxy, https_proxy, all_proxy, no_proxy", "proxies, as other programs read them"),
    ("NO_COLOR", "no colours"),
]
FILES = [
    ("config.toml", "your own, in the platform's config folder under sluice/ (see: sluice config show)"),
    (".sluice/config.toml", "in the workspace; may only lower limits and take tools away"),
]
EXAMPLES = [
    ("Ask about a project, reading only:", 'sluice -e "What does this project do?"'),
    ("Review a change:", 'git diff | sluice --append-system-prompt "Review this change."'),
    (
        "Let it work, in a sandbox, for at most half a dollar:",
        'sluice -e "Fix the failing test" --allow-mutating-tools --allow-execution-tools --max-cost 0.50',
    ),
    ("Ask a model on this machine:", 'sluice -e "Hello" --base-url http://127.0.0.1:8080/v1 --model local'),
    ("Show it a picture:", 'sluice -e "What is wrong here?" --image screen.png --no-tools'),
    (
        "Take the answer apart in a script:",
        'sluice -e "…" --output stream-json | jq -rj \'select(.type=="text").text\'',
    ),
    ("Go on where the last run ended:", 'sluice -e "And now?" --continue'),
    ("Begin a config file; see what can be asked:", "sluice init; sluice models"),
]
EXIT_CODES = [
    ("0", "completed"),
    ("1", "failed: the provider, the network, an incomplete reply"),
    ("2", "usage or configuration"),
    ("3", "a limit was met, or the run went round in a loop"),
    ("4", "blocked: what was asked for needs an approval"),
    ("130, 143", "ended by Ctrl-C, by SIGTERM"),
]


class GroupedOption(click.Option):
    """An option that says under which heading the help shows it."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


class GroupedCommand(click.Command):
    """A command whose help shows its options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click; adds headings, one-line errors, and no failure when nobody reads."""
        _headed_options(self, ctx, formatter)


class UnreadError(Exception):
    """Whoever read standard output has gone. Stands in for `BrokenPipeError`, which click would make a failure of."""


class SluiceGroup(click.Group):
    """The main command: with no subcommand it runs a prompt. Its help is a page of manual."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """See click; adds headings, one-line errors, and no failure when nobody reads."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except BrokenPipeError:
            raise UnreadError from None

    def invoke(self, ctx: click.Context) -> Any:
        """See click; adds headings, one-line errors, and no failure when nobody reads."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise UnreadError from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click; adds headings, one-line errors, and no failure when nobody reads."""
        _headed_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
        pages = (("Environment", ENVIRONMENT), ("Files", FILES), ("Exit codes", EXIT_CODES))
        for heading, rows in pages:
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=22)
        with formatter.section("Examples"):
            for words, line in EXAMPLES:
                formatter.write_text(words)
                formatter.write(f"      {line}\n")
        formatter.write_paragraph()
        formatter.write_text("The whole manual: sluice man | man -l -")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See click; adds headings, one-line errors, and no failure when nobody reads."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(error.message + ' To run a prompt, write: sluice -e "…"', ctx) from None


def headed_records(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """The flags of a command and their words, under their headings; a command's own ones, without a heading, come first."""
    headed: dict[str, list[tuple[str, str]]] = {}
    rest: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None or isinstance(parameter, click.Argument):  # the usage line and the text tell of those
            continue
        heading = getattr(parameter, "heading", None)
        (rest if heading is None else headed.setdefault(heading, [])).append(record)
    if not rest:
        return headed
    return {**headed, "Other": rest} if isinstance(command, click.Group) else {"Options": rest, **headed}


def _headed_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    for heading, records in headed_records(command, ctx).items():
        with formatter.section(heading):
            formatter.write_dl(records, col_max=34)


def _option(heading: str, *names: str, metavar: str | None = None, help: str, many: bool = False) -> Callable[[F], F]:
    """One flag. Values stay text: `sluice.run.config` reads them all, from wherever they come, in one way."""
    kind: dict[str, Any] = {"metavar": metavar} if metavar else {"is_flag": True}
    kind["shell_complete"] = _completer(metavar)
    return click.option(*names, cls=GroupedOption, heading=heading, default=None, multiple=many, help=help, **kind)


def _completer(metavar: str | None) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """What a shell may offer for a value: files, folders, or the words that the help shows."""

    def complete(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        if metavar in ("FILE", "PATH", "DIR"):
            return [CompletionItem(begun, type="dir" if metavar == "DIR" else "file")]
        words = metavar.split("|") if metavar is not None and "|" in metavar else []
        return [CompletionItem(word) for word in words if word.startswith(begun)]

    return complete


_WORKSPACE = [
    _option(
        "Workspace and configuration",
        "-w",
        "--workspace",
        metavar="DIR",
        help="Folder the tools work in; made if absent. [.]",
    ),
    _option("Workspace and configuration", "--config", metavar="FILE", help="Config file: TOML or key=value lines."),
    _option(
        "Workspace and configuration",
        "--set",
        "pairs",
        metavar="KEY=VALUE",
        many=True,
        help="Set any key, for example --set idle_seconds=120.",
    ),
    _option("Workspace and configuration", "--debug", help="Show notices, logs and tracebacks on standard error."),
]
_APPROVALS = [
    _option("Approvals", "--allow-mutating-tools", help="Let tools change files in the workspace."),
    _option("Approvals", "--allow-execution-tools", help="Let tools run commands, in a sandbox."),
    _option("Approvals", "--ask", help="Ask on the terminal for what is not allowed."),
    _option(
        "Approvals", "--accept-healed", help="Run a cut call that only reads, with its arguments closed by Sluice."
    ),
    _option("Approvals", "--allow-network", help="Let commands reach the network."),
    _option(
        "Approvals",
        "--allow-host",
        metavar="NAME[:PORT]",
        many=True,
        help="Let commands reach this host, by HTTP and HTTPS; may be given more than once.",
    ),
    _option("Approvals", "--allow-unsandboxed", help="Run commands also where no sandbox can be had."),
]
_MODEL = [
    _option(
        "Model",
        "--model",
        metavar="[PROVIDER:]NAME",
        help="Model to ask; PROVIDER is openai, openai-chat, anthropic, gemini, ollama or one of your config. [gpt-4o]",
    ),
    _option("Model", "--base-url", metavar="URL", help="Address of the API. [the provider's, or OpenAI's]"),
    _option(
        "Model",
        "--api-key",
        metavar="KEY",
        help="Others on this machine can see it in the process list: rather set SLUICE_API_KEY.",
    ),
    _option("Model", "--api-key-file", metavar="FILE", help="Read the key from a file that only you can read."),
    _option("Model", "--dialect", metavar="NAME", help="Wire format of the API. [the provider's, or openai_chat]"),
    _option("Model", "--inline", metavar="FORM", help="How the model writes calls inside its text, if it does."),
    _option("Model", "--temperature", metavar="N", help="Sampling temperature; sent only if set."),
    _option("Model", "--max-output-tokens", metavar="N", help="Tokens of one reply; sent only if set."),
    _option(
        "Model", "--reasoning-effort", metavar="WORD", help="low, medium, high or a provider's own; sent only if set."
    ),
    _option("Model", "--system-prompt-file", metavar="FILE", help="Takes the place of the built-in system prompt."),
    _option("Model", "--append-system-prompt", metavar="TEXT", help="Words behind the system prompt."),
    _option("Model", "--no-agents-md", help="Do not give the model what AGENTS.md says, as untrusted text."),
    _option("Model", "--mode", metavar="real|mock", help="mock answers from a fixture, with no network. [real]"),
    _option("Model", "--mock-fixture", metavar="FILE", help="JSON array of assistant messages for --mode mock."),
    _option("Model", "--record", metavar="FILE", help="Write every exchange to a cassette (without the key)."),
    _option("Model", "--replay", metavar="FILE", help="Answer from a cassette, with no network."),
]
_TOOLS = [
    _option("Tools", "--tools", metavar="NAME,…", help="Offer only these tools."),
    _option("Tools", "--exclude-tools", metavar="NAME,…", help="Do not offer these tools."),
    _option("Tools", "--no-tools", help="Offer no tools."),
]
_LIMITS = [
    _option("Limits", "--max-turns", metavar="N", help="Replies in a run. [20]"),
    _option("Limits", "--max-tool-calls-per-turn", metavar="N", help="Calls in one reply. [8]"),
    _option("Limits", "--max-total-tool-calls", metavar="N", help="Calls in a run. [50]"),
    _option("Limits", "--max-tool-output-bytes", metavar="SIZE", help="Of one result, shown to the model. [16KiB]"),
    _option("Limits", "--max-context-bytes", metavar="SIZE", help="Conversation before it is shrunk. [auto]"),
    _option("Limits", "--max-seconds", metavar="N", help="Time of a run. [no limit]"),
    _option("Limits", "--max-cost", metavar="DOLLARS", help="Cost of a run in US dollars. [no limit]"),
    _option("Limits", "--max-calls-per-minute", metavar="N", help="Calls of one kind begun in 60 s. [no limit]"),
    _option("Limits", "--max-tokens-total", metavar="N", help="Tokens of a run, all requests and replies. [no limit]"),
]
_SESSION = [
    _option("Session", "--session-store", metavar="PATH", help="Database of sessions; :memory: keeps nothing. [auto]"),
    _option("Session", "--continue", "continue_", help="Go on with this project's last session."),
    _option("Session", "--resume", metavar="ID", help="Go on with the session ID."),
    _option("Session", "--fork", metavar="ID[@MESSAGE]", help="Begin a session with a copy of what ID holds."),
]
_RUN = [
    _option("Run", "-e", "--execute", metavar="PROMPT", help="The prompt. Without it, standard input is the prompt."),
    _option("Run", "--image", "images", metavar="FILE", many=True, help="Show the model an image; may be given again."),
    _option("Run", "--output", metavar="text|json|stream-json", help="What standard output holds. [text]"),
    _option("Run", "--dry-run", help="Show the configuration and the request; send nothing."),
]


def run_options(function: F) -> F:
    """All flags of the main command."""
    return _add(function, _RUN + _SESSION + _MODEL + _APPROVALS + _TOOLS + _LIMITS + _WORKSPACE)


def session_options(function: F) -> F:
    """The flags of `sluice sessions …` that are settings."""
    return _add(function, [_SESSION[0], *_WORKSPACE])


def tool_options(function: F) -> F:
    """The flags of `sluice tool` that are settings."""
    return _add(function, _APPROVALS + _WORKSPACE)


def show_options(function: F) -> F:
    """The flags of `sluice config show` that are settings."""
    return _add(function, _SESSION[:1] + _MODEL + _APPROVALS + _TOOLS + _LIMITS + _WORKSPACE)


def models_options(function: F) -> F:
    """The flags of `sluice models` that are settings."""
    return _add(function, _MODEL[:4] + _WORKSPACE)


def _add(function: F, options: list[Callable[[Any], Any]]) -> F:
    for option in reversed(options):
        function = option(function)
    return function
