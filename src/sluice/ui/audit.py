"""The commands `sluice audit …`."""

from __future__ import annotations

import click

from sluice.ui.options import GroupedCommand


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
        rest = [f"{key}={fields[key]}" for key in ("by", "words", "arguments", "code") if fields.get(key)]
        words = " ".join(str(part) for part in (record.get("n", "?"), when, record["event"], *first, *rest))
        click.echo(one_line(words, 1000))
    sys.stdout.buffer.flush()
    return 0


@audit.command("verify", cls=GroupedCommand)
def verify() -> int:
    """Follow the chain of digests through the log. Exit code 0 if it holds, 1 if a line was changed, dropped or put in.

    Lines cut off at the end of the file cannot be seen from the file alone.
    """
    from sluice.run.audit_log import audit_checked
    from sluice.ui.visible import one_line

    found = audit_checked()
    if found.whole:
        click.echo(one_line(f"{found.good} records, every one in the chain: {found.path}", 1000))
        return 0
    click.echo(
        one_line(f"line {found.broken_at} breaks the chain; {found.good} records before it hold: {found.path}", 1000)
    )
    return 1
