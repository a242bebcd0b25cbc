"""The commands `sluice sessions …`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sluice.errors import StoreError
from sluice.ui.options import Days, GroupedCommand, session_options

if TYPE_CHECKING:
    from sluice.run.config import Settings

F = TypeVar("F", bound=Callable[..., Any])


@click.group("sessions", short_help="List, show, remove, check; undo changes.")
def sessions() -> None:
    """List, show, export, remove, check and repair sessions; undo what one did to files."""


def _all(function: F) -> F:
    return click.option("--all", "everywhere", is_flag=True, help="Of every project.")(function)


def _named(_context: click.Context, _parameter: click.Parameter, given: Any) -> Any:
    """The ID, or those, as given; an empty one is an unset variable in a script, and means no session."""
    for one in given if isinstance(given, tuple) else (given,):
        if one is not None and not one.strip():
            raise click.UsageError("an empty ID names no session")
    return "" if given is None else given


def _settings(invocation: Any, flags: dict[str, Any], pairs: tuple[str, ...]) -> Settings:
    from pathlib import Path

    from sluice.run.config import absolute_workspace

    invocation.add(flags, pairs)
    return absolute_workspace(invocation.load().settings, Path.cwd())


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _json(value: object) -> None:
    from sluice.ui.json_stream import as_json

    sys.stdout.buffer.write(as_json(value) + b"\n")
    sys.stdout.buffer.flush()


@sessions.command("list", cls=GroupedCommand)
@session_options
@_all
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
@click.pass_obj
def list_sessions(invocation: Any, /, everywhere: bool, output: str, pairs: tuple[str, ...], **flags: Any) -> int:
    """List the sessions of this project, the one used last first."""
    import time

    from sluice.run.sessions import listed, none_words
    from sluice.ui.visible import one_line

    settings = _settings(invocation, flags, pairs)
    found = listed(settings, everywhere)
    if output == "json":
        _json(found)
        return 0
    for one in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last_run_at))
        state = "" if one.outcome in (None, "completed") else f" [{one.outcome}]"
        if one.held_by is not None:
            state = f" [in use by process {one.held_by}]"
        if one.pending:
            state += f" [waiting for your approval: {', '.join(one.pending)}]"
        where = f"  {one.project}" if everywhere else ""
        click.echo(one_line(f"{one.id}  {when}  {one.messages:>4} messages  {one.title}{state}{where}", 400))
    for store in dict.fromkeys(one.store for one in found if everywhere):
        click.echo(one_line(f"(in {store}: {sum(one.store == store for one in found)})", 1000), err=True)
    if not found:
        click.echo(one_line(none_words(settings, everywhere), 1000), err=True)
    return 0


@sessions.command("show", cls=GroupedCommand)
@click.argument("id", required=False, callback=_named)
@session_options
@_all
@click.pass_obj
def show(invocation: Any, /, id: str, everywhere: bool, pairs: tuple[str, ...], **flags: Any) -> int:
    """Show the session ID (the one used last if left out) to read, and what it used of tokens and money."""
    from sluice.run.sessions import exported, named, spent_lines
    from sluice.ui.visible import visible

    settings = _settings(invocation, flags, pairs)
    id = named(settings, everywhere, id)  # once: another session may be begun while this one is read
    for piece in exported(settings, id, "md", everywhere):
        click.echo(visible(piece.decode("utf-8")), nl=False)
    click.echo("\n## Used\n")
    for line in spent_lines(settings, id, everywhere):
        click.echo(line)
    return 0


@sessions.command("export", cls=GroupedCommand)
@click.argument("id", required=False, callback=_named)
@click.option("--format", "form", type=click.Choice(["json", "md"]), default="json", show_default=True, help="Form.")
@session_options
@_all
@click.pass_obj
def export(invocation: Any, /, id: str, form: str, everywhere: bool, pairs: tuple[str, ...], **flags: Any) -> int:
    """Write all that is stored of the session ID to standard output."""
    from sluice.run.sessions import exported

    for piece in exported(_settings(invocation, flags, pairs), id, form, everywhere):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return 0


@sessions.command("rm", cls=GroupedCommand)
@click.argument("ids", metavar="[ID]...", nargs=-1, callback=_named)
@click.option("--older-than", type=Days(), metavar="DAYS", help="Those unused for so many days.")
@session_options
@_all
@click.pass_obj
def rm(
    invocation: Any,
    /,
    ids: tuple[str, ...],
    older_than: float | None,
    everywhere: bool,
    pairs: tuple[str, ...],
    **flags: Any,
) -> int:
    """Remove sessions for good. What they changed in files stays.

    Pre-images that no session refers to any more go too, once they are 30 days old.
    """
    from sluice.run.keeping import given_back, in_words
    from sluice.run.sessions import pruned, removed, stayed_in_use
    from sluice.run.wiring import state_folder

    if not ids and older_than is None:
        raise click.UsageError("name the sessions, or give --older-than DAYS")
    settings = _settings(invocation, flags, pairs)
    try:
        gone = removed(settings, ids, everywhere, older_than)
    except StoreError as error:
        if error.kind != "full" or not pruned(settings, state_folder())[0]:
            raise
        gone = removed(settings, ids, everywhere, older_than)  # pre-images gone from a full disk may be room enough
    click.echo(f"removed {_count(len(gone), 'session')}" + (f": {', '.join(gone)}" if gone else ""))
    if older_than is not None and (held := stayed_in_use(settings, everywhere, older_than)):
        click.echo(f"{_count(len(held), 'session')} in use stayed: {', '.join(held)}", err=True)
    count, size = pruned(settings, state_folder())
    if count:
        click.echo(f"removed {_count(count, 'old pre-image')} that no session refers to ({size:,} bytes)")
    try:
        freed = given_back(settings, everywhere)
    except StoreError as error:
        if error.kind != "full":  # making a file smaller takes room for its copy first
            raise
        freed = 0
    if freed:
        click.echo(f"the disk has {in_words(freed)} of sessions back")
    return 0


@sessions.command("adopt", cls=GroupedCommand)
@click.argument("folder")
@session_options
@click.pass_obj
def adopt(invocation: Any, /, folder: str, pairs: tuple[str, ...], **flags: Any) -> int:
    """Take the sessions of FOLDER along, which was moved or renamed and is this project now."""
    from sluice.run.elsewhere import adopted
    from sluice.ui.visible import one_line

    settings = _settings(invocation, flags, pairs)
    taken = adopted(settings, os.path.abspath(folder))
    much = f"{_count(len(taken), 'session')}: {', '.join(taken)}" if taken else "what sessions of other folders changed"
    click.echo(one_line(f"taken along into {settings.workspace}: {much}", 1000))
    return 0


@sessions.command("check", cls=GroupedCommand)
@session_options
@_all
@click.pass_obj
def check(invocation: Any, /, everywhere: bool, pairs: tuple[str, ...], **flags: Any) -> int:
    """Check every promise about stored sessions. Exit code 0 if all hold, 1 if not, or if a store cannot be checked."""
    from sluice.run.session_check import checked
    from sluice.run.wiring import state_folder
    from sluice.ui.visible import one_line

    found = checked(_settings(invocation, flags, pairs), everywhere, state=state_folder(), environ=os.environ)
    for line in (*found.broken, *found.unchecked):
        click.echo(one_line(line, 1000))
    for session in found.unended:
        click.echo(f"{session}: its last run was interrupted; it gets its end when the session is opened (--resume)")
    much = f"checked {_count(found.sessions, 'session')} and {_count(found.runs, 'run')} in {_count(found.stores, 'store')}"
    if not found.stores:
        much = "nothing is stored here yet"
    failed = [f"promises broken: {len(found.broken)}"] if found.broken else []
    failed += [f"{_count(len(found.unchecked), 'store')} not checked"] if found.unchecked else []
    holds = ["all promises hold"] if found.stores and not failed else []
    click.echo(": ".join([much, *(["; ".join(failed)] if failed else holds)]))
    return 1 if failed else 0


@sessions.command("repair", cls=GroupedCommand)
@session_options
@click.pass_obj
def repair(invocation: Any, /, pairs: tuple[str, ...], **flags: Any) -> int:
    """Save what can be read of this project's damaged session store into a new one; the old file is kept aside.

    A store that is not damaged is left as it is. Exit code 0 if nothing was lost, 1 if something was.
    """
    from sluice.run.sessions import repaired
    from sluice.ui.visible import one_line

    lost = 0
    found = repaired(_settings(invocation, flags, pairs))
    for path, done in found:
        if done.aside is None:
            click.echo(one_line(f"{path} is not damaged; nothing was done", 1000))
            continue
        for line in (*done.lost, *(f"still broken: {line}" for line in done.left)):
            click.echo(one_line(line, 1000))
        lost += len(done.lost) + len(done.left)
        much = f"{_count(done.sessions, 'session')} with {_count(done.messages, 'message')}"
        click.echo(one_line(f"saved {much} in {path}", 1000))
        click.echo(one_line(f"the damaged store is kept as {done.aside}; remove it when you do not need it", 1000))
    if not found:
        click.echo("there is no session store", err=True)
    return 1 if lost else 0


@sessions.command("undo", cls=GroupedCommand)
@click.argument("id", required=False, callback=_named)
@click.option("--run", "number", type=click.IntRange(min=1), metavar="N", help="Take back run N of the session.")
@click.option("--dry-run", "dry", is_flag=True, help="Show what would be done; change nothing.")
@session_options
@click.pass_obj
def undo(invocation: Any, /, id: str, number: int | None, dry: bool, pairs: tuple[str, ...], **flags: Any) -> int:
    """Take back what the last run of session ID that changed files of this folder did to them.

    A second undo takes back the run before that one. Files that were changed since are named and not touched; what a
    command changed is not known and not taken back. Exit code 0 if all is as it was before the run, 1 if a file was left.
    """
    from sluice.run.undoing import undone
    from sluice.run.wiring import state_folder
    from sluice.ui.visible import one_line

    done = undone(_settings(invocation, flags, pairs), id, state_folder(), dry=dry, number=number)
    for line in done.lines(dry):
        click.echo(one_line(line, 1000))
    if done.unmarked:
        words = (
            f"this undo is not kept in the session, so the next one begins with run {done.run} again: {done.unmarked}"
        )
        click.echo(one_line(words, 1000), err=True)
    return 1 if done.left else 0
