"""The commands about recorded streams: `sluice decode` and `sluice replay-server`."""

from __future__ import annotations

from typing import Any

import click

from sluice.ui.invocation import show_json
from sluice.ui.options import GroupedCommand


@click.command("decode", cls=GroupedCommand)
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
        show_json(found)
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


@click.command("replay-server", cls=GroupedCommand, short_help="Serve recorded streams over loopback HTTP.")
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
