"""The commands `sluice audit …`."""

from __future__ import annotations

import click

from sluice.ui.options import Days, GroupedCommand


@click.group("audit", short_help="Show and verify what was decided and run.")
def audit() -> None:
    """Show and verify the record of what was decided and run."""


@audit.command("show", cls=GroupedCommand)
@click.option("--last", type=click.IntRange(min=1, max=100_000), metavar="N", help="Only the last N records.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
def show(last: int | None, output: str) -> int:
    """Show the records, the oldest first: a line each, or JSON lines."""
    import sys
    import time

    from sluice.run.audit_log import audit_records
    from sluice.ui.json_stream import as_json
    from sluice.ui.visible import one_line

    for record in audit_records(last):
        if output == "json":
            sys.stdout.buffer.write(as_json(record) + b"\n")
            continue
        fields = dict(record.get("fields") or {})
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.get("at", 0)))
        first = [fields.pop(key) for key in ("tool", "decision", "rule", "status") if fields.get(key)]
        rest = [
            f"{key}={fields[key]}" for key in ("by", "words", "arguments", "code", "file", "follows") if fields.get(key)
        ]
        words = " ".join(str(part) for part in (record.get("n", "?"), when, record["event"], *first, *rest))
        click.echo(one_line(words, 1000))
    sys.stdout.buffer.flush()
    return 0


@audit.command("verify", cls=GroupedCommand)
def verify() -> int:
    """Follow the chain of digests through all files of the log.

    Exit code 0 if it holds, 1 if a line or a file was changed, dropped or put in. Files that `audit prune` removed are
    known from lost ones. Lines cut off at the end of the log cannot be seen from the log alone.
    """
    from sluice.run.audit_log import audit_checked
    from sluice.ui.visible import one_line

    found = audit_checked()
    if found.whole:
        files = f" in {found.files} files" if found.files > 1 else ""
        begins = f"; it begins after {_files(found.removed)} that were removed" if found.removed else ""
        click.echo(one_line(f"{found.good} records{files}, every one in the chain{begins}: {found.path}", 1000))
        return 0
    words = (
        f"line {found.broken_at} breaks the chain ({found.fault}); {found.good} records before it hold: {found.path}"
    )
    click.echo(one_line(words, 1000))
    return 1


@audit.command("prune", cls=GroupedCommand)
@click.option("--older-than", type=Days(), metavar="DAYS", required=True, help="Older than so many days.")
def prune(older_than: float) -> int:
    """Remove old files of the log. A file is closed at 64 MiB; the one that is written stays.

    Each removal is itself recorded, so `audit verify` still holds.
    """
    from sluice.run.audit_log import audit_pruned

    done = audit_pruned(older_than)
    if done.removed:
        click.echo(f"removed {_files(done.removed)} ({done.bytes:,} bytes) older than {older_than:g} days")
    else:
        click.echo(
            f"no closed file of the audit log is older than {older_than:g} days; there are {done.left}", err=True
        )
    return 0


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
