"""Every bound of Sluice in one frozen struct. Field names are the keys of the config file.

Each field's comment gives its unit and why it has this value. `None` means no bound.
"""

from __future__ import annotations

import msgspec

KIB = 1024
MIB = 1024 * KIB


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All bounds. Immutable; `msgspec.structs.replace(limits, max_turns=5)` makes another."""

    # -- the wire: what one reply may cost in memory
    max_event_bytes: int = 256 * KIB  # bytes of one unfinished event in a dialect of fragments; real ones are < 64 KiB
    max_whole_event_bytes: int = 8 * MIB  # bytes; the same where one event may carry a whole reply or an image
    max_stream_bytes: int = 100 * MIB  # bytes of one reply's body: a server that never stops must be stopped
    max_calls_per_reply: int = 32  # distinct calls; four times the calls a turn may run
    max_output_items: int = (
        1024  # output items of a reply of Responses, each of which costs memory; real ones have dozens
    )
    max_arguments_bytes: int = MIB  # bytes of one call's arguments; a larger file is written in pieces

    # -- the transport: how long to wait
    connect_seconds: float = 10.0  # seconds until connected and TLS is up
    first_byte_seconds: float = 300.0  # seconds until the first body byte: models think before they speak
    first_byte_loopback_seconds: float = 600.0  # seconds; the same for loopback: local servers prefill slowly
    idle_seconds: float = 60.0  # seconds between two reads of a body; 30 s was seen to cut healthy reasoning
    keepalive_seconds: float = 300.0  # seconds in which comments and pings alone count as life
    total_seconds: float | None = None  # seconds for one whole reply; off: a total time kills healthy long answers
    max_error_body_bytes: int = 64 * KIB  # bytes read of an error response
    max_attempts: int = 3  # attempts at one model call, the first included
    max_retry_after_seconds: float = 60.0  # seconds; a server that asks for a longer wait is not waited for

    # -- the loop: how far one run may go
    max_turns: int = 20  # model replies in a run
    max_continuations: int = 2  # turns in a row that go on with an answer cut at its length; 0: it ends the run
    max_tool_calls_per_turn: int = 8  # calls in one reply
    max_total_tool_calls: int = 50  # calls in a run
    max_tool_output_bytes: int = 16 * KIB  # bytes of one result shown to the model
    max_context_bytes: int | None = (
        None  # bytes of conversation before shrinking; None: by the model's window, else 200 KiB
    )
    max_seconds: float | None = None  # seconds a run may take
    max_cost: float | None = None  # US dollars a run may cost; what has no known price does not count
    max_tokens_total: int | None = None  # tokens of all requests and replies of a run, cached ones included
    max_images: int = 20  # images in one prompt; each is sent again with every request of the session
    max_image_bytes: int = 5 * MIB  # bytes of one image file; a provider refuses more
    max_calls_per_minute: int | None = None  # started calls of one category in 60 s
    max_instructions_bytes: int = 32 * KIB  # bytes of AGENTS.md files given to the model; sent with every request

    # -- tools: the seed's numbers (P4)
    max_file_bytes: int = 4 * MIB  # bytes of a file that is read or written
    list_results: int = 100  # entries a listing shows unless asked
    max_list_results: int = 500  # entries a listing may show
    search_matches: int = 50  # matches a search shows unless asked
    max_search_matches: int = 200  # matches a search may show
    snippet_bytes: int = 160  # bytes of a matching line that are shown unless asked
    max_snippet_bytes: int = 400  # bytes of a matching line that may be shown
    search_seconds: float = 20.0  # seconds one search or listing may take
    git_seconds: float = 30.0  # seconds the git commands of one call may take together
    status_entries: int = 200  # changed paths a git status shows
    max_status_entries: int = 500  # changed paths whose state is kept for faces and the session
    diff_context_lines: int = 3  # unchanged lines around a change that are shown unless asked
    max_diff_context_lines: int = 1000  # unchanged lines around a change that may be shown
    build_seconds: float = 120.0  # seconds a build or a test run may take unless the model asks for more
    build_output_bytes: int = 64 * KIB  # bytes of a build's or test run's output that are kept unless asked
    max_build_output_bytes: int = MIB  # bytes of that output that may be kept
    max_command_lines: int = 200  # lines of a command's output that are shown
    command_seconds: float = 30.0  # seconds a command may take unless the model asks for more
    max_command_seconds: float = 600.0  # seconds the model may ask for
    command_drain_seconds: float = 0.2  # seconds pipes are read after the command itself has ended
    max_spill_bytes: int = 64 * MIB  # bytes of one result kept on disk for reading later
    max_command_output_bytes: int = 1024 * MIB  # bytes a command may print before its tree is ended
    max_jobs: int = 8  # commands in the background at one time
    max_job_output_bytes: int = 256 * KIB  # bytes of a job's output that wait to be read

    # -- the sandbox: what one command may take of the machine, as far as the kernel holds it
    max_command_processes: int = 1024  # processes and threads at one time; a parallel build takes a few hundred
    max_command_memory_bytes: int = 8 * 1024 * MIB  # bytes of data of one process; linkers take a few GiB
    max_run_memory_bytes: int = 16 * 1024 * MIB  # bytes of all of a run's commands together; watched, not held
    max_command_file_bytes: int = 4 * 1024 * MIB  # bytes of one file a command writes
    max_command_cpu_seconds: float = 3600.0  # seconds of one process's computing; a job may outlive any timeout


DEFAULT_LIMITS = Limits()
