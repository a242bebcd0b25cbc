"""The command `sluice`.

Importing this module brings in click and nothing heavy: what a command needs is imported inside it, so that `--help` and
`--version` stay quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sluice import __version__
from sluice.errors import ConfigurationError, SluiceError
from sluice.ui.audit import audit
from sluice.ui.options import GroupedCommand, SluiceGroup, UnreadError, run_options, show_options, tool_options
from sluice.ui.sessions import sessions

if TYPE_CHECKING:
    from sluice.run.config import Loaded, Settings
    from sluice.ui.headless import Face
    from sluice.values.ports import Approver

MAX_PROMPT_BYTES = 4 * 1024 * 1024  # bytes of a prompt on standard input; the largest file a tool reads


class Invocation:
    """What one invocation carries from the main command to its subcommand."""

    def __init__(self) -> None:
        self.flags: dict[str, Any] = {}
        self.pairs: tuple[str, ...] = ()
        self.debug = False

    def add(self, flags: dict[str, Any], pairs: Sequence[str]) -> None:
        """Takes flags over; those of a subcommand win over those before it."""
        self.flags.update({name: value for name, value in flags.items() if value is not None and value != ()})
        self.pairs = (*self.pairs, *pairs)
        self.debug = self.debug or bool(self.flags.get("debug"))

    def load(self) -> Loaded:
        """The configuration, its warnings said. Raises `ConfigurationError`."""
        from pathlib import Path

        import platformdirs  # found only when a configuration is wanted

        from sluice.run.config import load
        from sluice.ui.visible import visible

        user_config = platformdirs.user_config_path("sluice", appauthor=False) / "config.toml"
        loaded = load(self.flags, os.environ, cwd=Path.cwd(), user_config=user_config, pairs=self.pairs)
        self.debug = self.debug or loaded.settings.debug
        for warning in loaded.warnings:
            click.echo(f"warning: {visible(warning)}", err=True)
        return loaded


@click.group(
    cls=SluiceGroup,
    commands=[sessions, audit],
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@run_options
@click.version_option(__version__, "-v", "--version", message="sluice %(version)s")
@click.pass_context
def sluice(ctx: click.Context, /, execute: str | None, pairs: tuple[str, ...], **flags: Any) -> int:
    """Sluice is a local coding agent whose host stays in control.

    Gives PROMPT to a model, lets it read the workspace, and shows its answer as it arrives. Changing files and running
    commands are blocked unless you allow them.

    \b
      sluice -e "What does this project do?"
      sluice -e "Fix the failing test" --allow-mutating-tools --allow-execution-tools
      git diff | sluice
      sluice -e "Hello" --base-url http://127.0.0.1:8080/v1 --model local
    """
    invocation = ctx.ensure_object(Invocation)
    wishes = {how: flags.pop(how, None) for how in ("continue_", "resume", "fork")}
    invocation.add(flags, pairs)
    if ctx.invoked_subcommand is not None:
        if execute is not None:
            raise click.UsageError(f"-e goes with no command, and {ctx.invoked_subcommand} is one.")
        return 0
    settings = _with_session(invocation.load().settings, wishes)
    prompt = _prompt(execute, flags.get("output") is not None)
    return _dry_run(settings, prompt) if settings.dry_run else _run(settings, prompt, invocation.debug)


def _with_session(settings: Settings, wishes: dict[str, Any]) -> Settings:
    given = [how for how, value in wishes.items() if value]
    if not given:
        return settings
    if len(given) > 1:
        raise click.UsageError("give one of --continue, --resume and --fork")
    import msgspec

    from sluice.run.config import Wish

    how, id, upto = given[0].rstrip("_"), "", None
    if how != "continue":
        id = str(wishes[how])
        if how == "fork" and "@" in id:
            id, _, number = id.rpartition("@")
            if not number.isdecimal():
                raise click.UsageError(f"--fork ID@MESSAGE: {number!r} is no number of a message")
            upto = int(number)
    return msgspec.structs.replace(settings, session=Wish(how=how, id=id, upto=upto))  # type: ignore[arg-type]


def _prompt(execute: str | None, output_given: bool) -> str:
    if execute is None:
        if sys.stdin is None or sys.stdin.isatty():
            hint = 'no prompt: write sluice -e "…", or give it on standard input'
            more = "" if output_given else " (the interactive face is not part of this version)"
            raise click.UsageError(hint + more)
        raw = sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)
        if len(raw) > MAX_PROMPT_BYTES:
            raise click.UsageError(f"the prompt on standard input is larger than {MAX_PROMPT_BYTES} bytes")
        try:
            execute = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"the prompt on standard input is not UTF-8 (byte {error.start})") from None
    if not execute.strip():
        raise click.UsageError("the prompt is empty")
    try:
        execute.encode("utf-8")
    except UnicodeEncodeError:  # bytes of an argument that are no text in this locale
        raise click.UsageError("the prompt is not UTF-8 text") from None
    return execute


def _dry_run(settings: Settings, prompt: str) -> int:
    from pathlib import Path

    from sluice.run.config import absolute_workspace
    from sluice.run.wiring import dry_run

    _show_json(dry_run(absolute_workspace(settings, Path.cwd()), prompt))
    return 0


def _run(settings: Settings, prompt: str, debug: bool) -> int:
    from functools import partial
    from pathlib import Path

    from sluice.run.config import open_workspace, require_key
    from sluice.run.wiring import open_agent
    from sluice.ui.headless import run_prompt, start_logging

    _check(settings)
    stop_logging = start_logging(sys.stderr, debug)
    try:
        settings = open_workspace(settings, Path.cwd())
        require_key(settings)
        wanted: dict[str, Any] = {"approver": _approver(settings)} if settings.ask else {}
        if settings.output == "stream-json" or (settings.output == "text" and _is_live()):
            wanted["intent"] = True
        return run_prompt(partial(open_agent, **wanted), settings, prompt, _face(settings))
    finally:
        stop_logging()


def _approver(settings: Settings) -> Approver | None:
    """Who is asked: the person at the terminal, where the text face is. Nobody, and a warning, anywhere else."""
    from functools import partial

    from sluice.run.approvals import TerminalApprover, has_terminal
    from sluice.ui.visible import visible

    if settings.output != "text" or not has_terminal():
        click.echo("warning: --ask has nobody to ask here; what is not allowed is denied", err=True)
        return None
    return TerminalApprover(partial(visible, strict=True), folder=settings.workspace)


def _check(settings: Settings) -> None:
    """Raises `ConfigurationError` for names and files that cannot be used, before a workspace is made (U6)."""
    import msgspec

    from sluice.run.wiring import find_dialect, find_inline, make_registry, make_transport

    find_dialect(settings)
    find_inline(settings)
    make_registry(settings)
    if settings.mode == "mock" or settings.replay is not None:
        make_transport(msgspec.structs.replace(settings, record=None))  # reads the file and opens nothing


def _face(settings: Settings) -> Face:
    from sluice.ui.json_stream import JsonFace, StreamJsonFace
    from sluice.ui.text import TextFace

    if settings.output == "json":
        return JsonFace(sys.stdout.buffer)
    if settings.output == "stream-json":
        return StreamJsonFace(sys.stdout.buffer)
    colour = _is_live() and not os.environ.get("NO_COLOR")
    return TextFace(sys.stdout, sys.stderr, debug=settings.debug, colour=colour, live=_is_live())


def _is_live() -> bool:
    """Whether standard error is a terminal on which a line can be written over."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@sluice.command("decode", cls=GroupedCommand)
@click.argument("file")
@click.option("--dialect", metavar="NAME", default="auto", show_default=True, help="Wire format of the bytes.")
@click.option("--chunk-bytes", type=click.IntRange(min=1), metavar="N", default=65536, help="Bytes fed at a time.")
@click.option("--output", type=click.Choice(["json", "text"]), default="json", show_default=True, help="What is shown.")
def decode(file: str, dialect: str, chunk_bytes: int, output: str) -> int:
    """Decode a recorded stream in FILE (- for standard input).

    Exit code 0 if the reply in it is whole; 1 if not, with the error and what had arrived as JSON.
    """
    from sluice.run.decoding import decode_file

    code, found, _events = decode_file(file, dialect, chunk_bytes)
    if output == "json" or code != 0:
        _show_json(found)
    else:
        _show_reply(found)
    return code


def _show_reply(reply: dict[str, Any]) -> None:
    from sluice.ui.visible import one_line, visible

    text = visible(str(reply.get("text") or ""))
    if text:
        click.echo(text, nl=not text.endswith("\n"))
    for call in reply.get("tool_calls") or ():
        words = f"{call.get('name')} {call.get('arguments')} ({call.get('status')})"
        click.echo(f"→ {one_line(words, 2000)}")


@sluice.command("tool", cls=GroupedCommand, short_help="Run one tool call and print its result.")
@click.argument("name")
@click.option("--args", "arguments", metavar="JSON", default="{}", help="Arguments; - reads them from standard input.")
@click.option("--seen", metavar="PATH", multiple=True, help="A file that counts as read, so that it may be changed.")
@tool_options
@click.pass_obj
def tool(
    invocation: Invocation, /, name: str, arguments: str, seen: tuple[str, ...], pairs: tuple[str, ...], **flags: Any
) -> int:
    """Run one call of the tool NAME through schema, policy and executor, and print its result as JSON.

    Exit codes: 0 ok, 1 failed, 2 unusable arguments, 4 blocked.
    """
    from pathlib import Path

    from sluice.run.config import open_workspace
    from sluice.run.one_call import one_call
    from sluice.ui.headless import start_logging

    invocation.add(flags, pairs)
    settings = invocation.load().settings
    if arguments == "-":
        arguments = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    stop_logging = start_logging(sys.stderr, invocation.debug)
    try:
        settings = open_workspace(settings, Path.cwd())
        code, result = one_call(settings, name, arguments, list(seen))
    finally:
        stop_logging()
    _show_json(result)
    return code


@sluice.group("config")
def config() -> None:
    """Look at the configuration."""


@config.command("show", cls=GroupedCommand)
@show_options
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
@click.pass_obj
def show(invocation: Invocation, /, output: str, pairs: tuple[str, ...], **flags: Any) -> int:
    """Show every key, its value, and where the value came from. Keys and passwords are not shown."""
    invocation.add(flags, pairs)
    loaded = invocation.load()
    values = loaded.settings.shown()
    if output == "json":
        _show_json({key: {"value": value, "from": loaded.origins[key]} for key, value in values.items()})
        return 0
    from sluice.ui.visible import visible

    rows = [(key, _plain(key, value), loaded.origins[key]) for key, value in values.items()]
    wide = max(len(key) for key, _value, _origin in rows)
    broad = min(48, max(len(value) for _key, value, _origin in rows))
    for key, value, origin in rows:
        click.echo(visible(f"{key:<{wide}}  {value:<{broad}}  {origin}"))
    return 0


def _plain(key: str, value: Any) -> str:
    if value is None:
        return "not set" if key == "api_key" else "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | dict):
        return ", ".join(value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


@sluice.command("doctor", cls=GroupedCommand)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
def doctor(output: str) -> int:
    """Show which protections this machine gives to commands, by trying them.

    Exit code 0 if commands can be run in a sandbox, 1 if not.
    """
    from sluice.run.doctor import examine

    report = examine()
    if output == "json":
        _show_json(report)
    else:
        click.echo(f"sandbox: {report.sandbox}  (bubblewrap: {report.bubblewrap or 'not found'}; Landlock: "
                   f"{'version ' + str(report.landlock) if report.landlock else 'not here'})")  # fmt: skip
        for one in report.protections:
            mark = {True: "yes", False: "NO", None: "not known"}[one.holds]
            click.echo(f"  {mark:<9}  {one.name}" + (f"  ({one.note})" if one.note else ""))
        if report.sandbox == "none":
            click.echo("No sandbox works here: commands are refused unless you give --allow-unsandboxed.")
    return 1 if report.sandbox == "none" else 0


@sluice.command("replay-server", cls=GroupedCommand, short_help="Serve recorded streams over loopback HTTP.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port; 0 takes a free one. [0]")
@click.option("--pace", type=click.IntRange(min=0), default=0, metavar="MS", help="Milliseconds between pieces. [0]")
@click.option("--split", type=click.IntRange(min=0), default=0, metavar="N", help="Bytes of a piece; 0: as it is. [0]")
@click.option("--fault", metavar="NAME[@N]", help="A fault to show, for example 503, cut@100, stall@100, html.")
@click.option("--once", is_flag=True, help="End when each FILE has been served once.")
def replay_server(files: tuple[str, ...], port: int, pace: int, split: int, fault: str | None, once: bool) -> int:
    """Serve recorded streams over HTTP on 127.0.0.1: FILE k answers request k, the last one all later requests.

    The first line on standard output is `listening on http://127.0.0.1:PORT`. Ends on SIGTERM.
    """
    from sluice.testing.replay_server import serve

    return serve(list(files), port=port, pace_ms=pace, split=split, fault=fault, once=once)


def _show_json(value: object) -> None:
    from sluice.ui.json_stream import as_json

    sys.stdout.buffer.write(as_json(value) + b"\n")
    sys.stdout.buffer.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code. Never lets an exception out, and no traceback unless asked."""
    invocation = Invocation()
    _open_standard_streams()
    try:
        code = _call(invocation, argv)
    except UnreadError:
        code = 0
    except KeyboardInterrupt:
        code = 130
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            code = code or _complain(f"standard output: {error.strerror or error}", 1)
        # The interpreter flushes once more when it ends: give it a place that takes it.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    return code


def _open_standard_streams() -> None:
    """Fills descriptors 0 to 2 where our starter closed them, so that no file of ours gets one of these numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that cannot show a character gets an escape instead of our failure.
        sys.stdout.reconfigure(errors="backslashreplace")


def _call(invocation: Invocation, argv: Sequence[str] | None) -> int:
    args = None if argv is None else list(argv)
    try:
        code = sluice.main(args, prog_name="sluice", standalone_mode=False, obj=invocation)
        return code if isinstance(code, int) else 0
    except click.exceptions.Abort:  # click's word for Ctrl-C
        return 130
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "sluice"
        return _complain(f"{error.format_message().rstrip('.')}; see {command} --help", error.exit_code)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except ConfigurationError as error:
        return _complain(str(error), 2)
    except UnreadError:
        raise
    except SluiceError as error:
        return _complain(str(error), 1, invocation.debug)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _complain(f"{error.strerror or error}{where}", 1, invocation.debug)
    except Exception as error:
        words = f"this is a fault of Sluice: {type(error).__name__}: {error}"
        return _complain(words + ("" if invocation.debug else " (--debug shows more)"), 1, invocation.debug)


def _complain(words: str, code: int, trace: bool = False) -> int:
    from sluice.ui.visible import one_line, visible

    if trace:
        import traceback

        click.echo(visible(traceback.format_exc()), err=True)
    click.echo(f"error: {one_line(words, 1000)}", err=True)
    return code
