"""Every exception that Sluice raises, and whose fault each one is.

    SluiceError
    ├── ConfigurationError    the user's: a flag, a variable, a config file, a workspace that cannot be used
    ├── RegistrationError     the embedder's: a tool, dialect or hook declared wrongly
    ├── StreamError           the provider's or the network's: a reply that did not arrive whole
    ├── TransportError        the network's or the provider's: no usable exchange at all
    ├── ArgumentsError        the model's: call arguments that are no strict JSON object (becomes a tool result)
    ├── PathError             the model's: a path or file that the workspace wall refuses (becomes a tool result)
    ├── AuditError            the machine's: the audit log cannot be written, so nothing that changes things may run
    ├── StoreError            the machine's: the session store cannot be read or written; nothing in it was destroyed
    └── InternalError         ours: a rule of Sluice's own was broken

What a model can correct becomes a tool result and what a user can correct becomes one line; the faces never let one of
these reach a person as a traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sluice.values.messages import Reply

StreamFault = Literal["incomplete", "provider_error", "malformed_event", "limit", "not_a_stream", "aborted"]

TransportFault = Literal[
    "resolve",  # the name could not be resolved
    "connect",  # no connection: unreachable, reset while connecting, a proxy that fails
    "refused",  # nobody listens there; told apart because one retry is enough
    "tls",  # the certificate or the handshake failed
    "connect_timeout",
    "first_byte_timeout",
    "idle_timeout",
    "total_timeout",
    "broken",  # the connection ended in the middle of a body
    "too_large",  # the body passed max_stream_bytes
    "status",  # an HTTP status that is no success
    "protocol",  # anything else that libcurl calls an error
    "no_recording",  # a cassette or fixture has no answer for this request
]


StoreFault = Literal[
    "full",  # no space, or a quota
    "read_only",  # a disk or a file that may not be written
    "damaged",  # no database, or one that is corrupt
    "newer",  # written by a later version
    "foreign",  # a database of another program
    "held",  # another process works with this session
    "busy",  # another process kept the store for too long
    "refused",  # what was given breaks a rule of the store
    "io",  # any other failure of the disk
]


class SluiceError(Exception):
    """The root of the tree. `str(error)` is one line that says what happened and, where a person can act, what to do."""


class ConfigurationError(SluiceError):
    """A flag, variable, file or folder given by the user cannot be used. Exit code 2."""


class RegistrationError(SluiceError):
    """An embedder declared a tool, dialect or hook that breaks a rule of the registry."""


class InternalError(SluiceError):
    """A rule of Sluice's own was broken; please report it. Nothing was run because of it."""


class AuditError(SluiceError):
    """The audit log could not be written. Mutating and execution calls are refused until it can."""


class StoreError(SluiceError):
    """The session store could not be opened, read or written. What was not acknowledged is not stored.

    `kind` is one of `StoreFault`. What is stored already stays as it is.
    """

    def __init__(self, kind: StoreFault, message: str) -> None:
        super().__init__(message)
        self.kind: StoreFault = kind


class ArgumentsError(SluiceError):
    """Call arguments that are not one strict JSON object.

    `position` is the offset of the fault in characters, `tail` the last 64 characters of the text.
    """

    def __init__(self, reason: str, position: int, tail: str) -> None:
        super().__init__(f"{reason} at position {position}")
        self.reason = reason
        self.position = position
        self.tail = tail


class PathError(SluiceError):
    """The workspace wall refused a path, or a file behind it cannot be used. A tool turns it into a result.

    `code` is one of the words listed in `sluice.tools.workspace`; `path` is the path as given, control characters shown.
    """

    def __init__(self, code: str, message: str, path: str) -> None:
        super().__init__(message)
        self.code = code
        self.path = path


class StreamError(SluiceError):
    """A model's reply did not arrive whole.

    `kind` says how:

    - `incomplete`: the bytes ended before the dialect's own terminal mark;
    - `provider_error`: the provider reported an error inside the stream;
    - `malformed_event`: an event that the dialect cannot mean;
    - `limit`: a bound of `sluice.limits` was passed (named in `bound`);
    - `not_a_stream`: HTML, plain JSON or other bytes instead of a stream;
    - `aborted`: a watcher or the user stopped it.

    `partial` holds what had arrived. No call in it is `whole` unless the dialect itself had closed it.
    `code` is the provider's own error word, if it gave one.
    """

    def __init__(
        self, kind: StreamFault, message: str, partial: Reply, *, bound: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind: StreamFault = kind
        self.partial = partial
        self.bound = bound
        self.code = code


class TransportError(SluiceError):
    """No usable exchange, or one that broke.

    `kind` is one of `TransportFault`. For `status`, `status` holds the HTTP status, `body` at most
    `limits.max_error_body_bytes` of the body as text, `retry_after` the server's wish in seconds.
    """

    def __init__(
        self,
        kind: TransportFault,
        message: str,
        *,
        status: int | None = None,
        body: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: TransportFault = kind
        self.status = status
        self.body = body
        self.retry_after = retry_after
