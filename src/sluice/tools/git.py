"""git, run so that a repository cannot run anything (P9).

The program is taken by absolute path from outside the workspace and gets an environment of our own making. The repository's
settings and hooks are not switched off one by one: through `GIT_COMMON_DIR` git looks for them in a private folder that
holds only what `git_settings` lets through, and links to the objects' names, logs and ignore files. So no monitor, filter,
diff driver, text conversion, hook, pager, editor, signing program, alias, transport or credential helper is known to it,
whatever attributes ask for. Attributes that need no program (line ends, `binary`) work as always.

Not guarded: a process of the user's that rearranges `.git` while a call is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from sluice.tools import git_settings
from sluice.tools.git_place import GitProblem, Place, find_place, refuse_links
from sluice.tools.output import HeadTail, clipped
from sluice.tools.process import Reader, run_command
from sluice.tools.registry import ToolContext
from sluice.tools.relative_path import relative_parts, visible
from sluice.values.ports import Cancel
from sluice.values.results import ToolResult, failed

_SYSTEM = (
    "/usr/bin/git",
    "/usr/local/bin/git",
    "/opt/homebrew/bin/git",
    "/opt/local/bin/git",
    "/run/current-system/sw/bin/git",
)
END_SECONDS = 5.0  # beyond git's own time: for ending it and answering
_MAX_SETTINGS_BYTES = 1024 * 1024  # of .git/config, which holds a few hundred bytes a branch
_MAX_ERROR_BYTES = 16 * 1024
_SHOWN_ERROR_BYTES = 500
MAX_LISTING_BYTES = 16 * 1024 * 1024  # of one listing that is read for its structure; some 200,000 paths
MAX_PATHSPECS = 100  # enough to name files one by one; more is said with a folder
_LINKED = ("refs", "packed-refs", "logs", "info", "shallow")
_SEARCHED = "/usr/local/bin:/usr/bin:/bin"  # git looks there for programs it is told to run; it is told of none


@dataclass(frozen=True)
class Answer:
    """What git printed. `cut`: there was more than was wanted. `code` is its exit status (0 where `cut`)."""

    out: bytes
    code: int
    cut: bool = False


def program(workspace_root: str) -> str:
    """The absolute path of git. Raises `GitProblem` (`no_git`).

    A program that lies in the workspace, or is a link into it, is not taken, wherever it stands in the user's PATH.
    """
    wall = os.path.join(os.path.realpath(workspace_root), "")
    listed = (os.path.join(f, "git") for f in os.environ.get("PATH", "").split(":") if f.startswith("/"))
    for path in (*_SYSTEM, *listed):
        if os.access(path, os.X_OK) and os.path.isfile(path) and not os.path.realpath(path).startswith(wall):
            return path
    raise GitProblem("no_git", "git is not installed on this machine, or only inside the workspace")


@dataclass(frozen=True)
class Repository:
    """One repository for the time of one call, from `opened`. `prefix` is that of its `Place`.

    `filters` names the filters that were configured and are not run; `identity` is who a commit would be from.
    """

    prefix: bytes
    filters: tuple[str, ...]
    identity: tuple[str, str] | None
    _git: str
    _environment: Mapping[str, str]
    _context: ToolContext
    _private: str
    _deadline: float

    async def run(
        self,
        *arguments: str,
        output: Reader | None = None,
        max_bytes: int = MAX_LISTING_BYTES,
        codes: Sequence[int] = (0,),
        environment: Mapping[str, str | None] | None = None,
        cancel: Cancel | None = None,
    ) -> Answer:
        """Runs one git command in the workspace folder. What it prints goes to `output`, else into the answer.

        At most `max_bytes` are collected, then git is ended and the answer is `cut`; an `output` that wants no more does
        the same. `environment` is added to the usual one; None takes a name out. Raises `GitProblem`: `cancelled`,
        `timeout`, `output_limit`, and `git_failed` for an exit status that is none of `codes`; `OSError` if git cannot be
        started.
        """
        collected = bytearray()
        said = bytearray()

        def collect(data: bytes) -> bool:
            collected.extend(data[: max_bytes - len(collected)])
            return len(collected) >= max_bytes

        def hear(data: bytes) -> None:
            said.extend(data[: _MAX_ERROR_BYTES - len(said)])

        limits = self._context.limits
        wanted = {**self._environment, **(environment or {})}
        folder = self._context.workspace.open_directory()
        try:
            ended = await run_command(
                [self._git, *arguments],
                cwd=folder,
                env={name: value for name, value in wanted.items() if value is not None},
                timeout=max(self._deadline - asyncio.get_running_loop().time(), 0.01),
                output=output or collect,
                errors=hear,
                cancel=cancel or self._context.cancel,
                sweep=False,  # it starts no processes
                watch=self._context.watch,
            )
        finally:
            os.close(folder)
        if ended.cancelled:
            raise GitProblem("cancelled", "the call was cancelled")
        if ended.timed_out:
            raise GitProblem("timeout", f"git took more than {limits.git_seconds:g} s and was ended")
        if ended.excess is not None:
            raise GitProblem("git_failed", f"git held too much and was ended ({ended.excess})")
        if ended.overflowed:
            raise GitProblem("output_limit", "git printed more than can be read")
        if ended.stopped:
            return Answer(bytes(collected), 0, cut=True)
        if ended.exit_code not in codes or ended.exit_code is None:
            words = said.decode("utf-8", "replace").strip() or f"exit status {ended.exit_code}"
            raise GitProblem("git_failed", clipped(f"git {arguments[0]} failed: {words}", _SHOWN_ERROR_BYTES))
        return Answer(bytes(collected), ended.exit_code)

    def inside(self, path: bytes) -> bytes | None:
        """A path from git, relative to the workspace; None if it lies outside."""
        return path[len(self.prefix) :] if path.startswith(self.prefix) else None

    def note(self, name: str, data: bytes) -> str:
        """Writes `data` to a private file of this call and returns its path."""
        path = os.path.join(self._private, name)
        with open(path, "wb") as file:
            file.write(data)
        return path


@contextlib.asynccontextmanager
async def opened(context: ToolContext, *, writes: bool = False) -> AsyncIterator[Repository]:
    """The repository of the workspace for one call, whose commands share `limits.git_seconds`.

    With `writes` it is also checked for links that lead out of it.

    Raises `GitProblem`, `OSError`. Nothing of the private folder is left afterwards.
    """
    root = context.workspace.root
    git = program(root)
    place = find_place(root)
    if writes:
        refuse_links(place)
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.join(place.git, "logs"))  # git makes it, but not through the link that it will see
    configuration = _read_settings(place)
    with tempfile.TemporaryDirectory(prefix="sluice-git-") as private:
        copied = _fill(private, place, configuration)
        environment = _environment(place, private, writes)
        deadline = asyncio.get_running_loop().time() + context.limits.git_seconds
        repository = Repository(place.prefix, (), None, git, environment, context, private, deadline)
        try:
            listing = await repository.run("config", "--file", copied, "--no-includes", "--list", "-z")
        except GitProblem as problem:
            if problem.code != "git_failed":
                raise
            raise GitProblem("broken_repository", "the repository's .git/config cannot be understood") from None
        own = git_settings.parse(listing.out)
        settings = git_settings.kept(own, await _user_settings(repository))
        _write_settings(private, settings)
        yield replace(repository, filters=git_settings.filters(own), identity=git_settings.identity(settings))


def _fill(private: str, place: Place, configuration: bytes) -> str:
    """Makes what git shall take for the repository's common folder; returns the path of the copied settings."""
    copied = os.path.join(private, "repository-settings")
    with open(copied, "wb") as file:
        file.write(configuration)
    for name in _LINKED:
        os.symlink(os.path.join(place.git, name), os.path.join(private, name))
    _write_settings(private, {"core.repositoryformatversion": ["0"]})
    return copied


def _read_settings(place: Place) -> bytes:
    path = os.path.join(place.git, "config")
    try:
        opened_file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise GitProblem("broken_repository", f".git/config cannot be read: {error.strerror}", ".git/config") from None
    with open(opened_file, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened_file).st_mode):
            raise GitProblem("broken_repository", ".git/config is no plain file", ".git/config")
        data = file.read(_MAX_SETTINGS_BYTES + 1)
    if len(data) > _MAX_SETTINGS_BYTES:
        message = f".git/config has more than {_MAX_SETTINGS_BYTES} bytes"
        raise GitProblem("broken_repository", message, ".git/config")
    return data


def _write_settings(private: str, settings: git_settings.Settings) -> None:
    with open(os.path.join(private, "config"), "wb") as file:
        file.write(git_settings.text(settings).encode("utf-8", "surrogateescape"))


async def _user_settings(repository: Repository) -> git_settings.Settings:
    """The user's own settings that git may see; their `includeIf` for this repository hold. Printing runs nothing."""
    home = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if os.environ.get(name, "").startswith("/")}
    if "HOME" not in home:
        return {}
    pattern = "^(" + "|".join(name.replace(".", "[.]") for name in git_settings.FROM_USER) + ")$"
    listing = await repository.run(
        "config",
        "--includes",
        "-z",
        "--get-regexp",
        pattern,
        codes=(0, 1),
        environment={**home, "GIT_CONFIG_NOSYSTEM": None},
    )
    return {**_usual_files(home), **git_settings.parse(listing.out)}


def _usual_files(home: Mapping[str, str]) -> git_settings.Settings:
    """The user's ignore and attribute files where git looks for them when no setting names others."""
    folder = os.path.join(home.get("XDG_CONFIG_HOME") or os.path.join(home["HOME"], ".config"), "git")
    files = {
        "core.excludesfile": os.path.join(folder, "ignore"),
        "core.attributesfile": os.path.join(folder, "attributes"),
    }
    return {name: [path] for name, path in files.items() if os.path.isfile(path)}


def _environment(place: Place, private: str, writes: bool) -> dict[str, str]:
    return {
        "PATH": _SEARCHED,
        "HOME": private,  # where no settings of the user are
        "LC_ALL": "C",
        "GIT_DIR": place.git,
        "GIT_COMMON_DIR": private,
        "GIT_OBJECT_DIRECTORY": os.path.join(place.git, "objects"),
        "GIT_WORK_TREE": place.top,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "1" if writes else "0",
    }


def pathspecs(given: Sequence[str] | None) -> tuple[str, ...]:
    """Pathspecs as git may get them: each begins with `./`, so that none is taken for an option or for magic words.

    `*` and `?` mean what they mean to git. None stands for the whole workspace. Raises `PathError` for absolute and
    escaping paths and the like, `GitProblem` (`magic_pathspec`, `no_pathspecs`, `too_many_pathspecs`).
    """
    if given is None:
        return ("./",)
    if not given:
        raise GitProblem("no_pathspecs", "pathspecs is empty; name at least one file or folder", "$.pathspecs")
    if len(given) > MAX_PATHSPECS:
        message = f"{len(given)} pathspecs are too many, at most {MAX_PATHSPECS}; name folders"
        raise GitProblem("too_many_pathspecs", message, "$.pathspecs")
    out = []
    for spec in given:
        if spec.startswith(":"):
            shown = visible(spec)
            message = (
                f"{shown} begins with ':', git's sign for magic words, which are refused; a file of that name is ./:…"
            )
            raise GitProblem("magic_pathspec", message, shown)
        out.append("./" + "/".join(relative_parts(spec)))
    return tuple(out)


async def answered(
    tool: str,
    context: ToolContext,
    work: Callable[[Repository], Awaitable[ToolResult]],
    *,
    writes: bool = False,
) -> ToolResult:
    """The result of `work` on the repository, or of what went wrong on the way. Raises `PathError`."""
    try:
        async with opened(context, writes=writes) as repository:
            return await work(repository)
    except GitProblem as problem:
        return problem_result(tool, problem)
    except OSError as error:
        message = f"git could not be used: {error.strerror or error}"
        return failed(tool, "not_started", message, content=message)


def problem_result(tool: str, problem: GitProblem) -> ToolResult:
    """A problem as the result of a call: time over is retryable, all else needs inspection."""
    message = str(problem)
    if problem.code == "cancelled":
        return failed(tool, problem.code, message, failure="none", status="cancelled")
    if problem.code == "timeout":
        result = failed(tool, problem.code, message, failure="retryable", status="timed_out", content=message)
        return msgspec.structs.replace(result, timed_out=True)
    return failed(tool, problem.code, message, path=problem.path, content=message)


def head_tail(context: ToolContext, max_bytes: int) -> HeadTail:
    """A collector for what git prints at length, of `max_bytes` shown; all of it goes to the spill (P11)."""
    return HeadTail(max_bytes=max_bytes, spill=context.spill, max_spill_bytes=context.limits.max_spill_bytes)
