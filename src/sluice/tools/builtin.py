"""The tools that come with Sluice, in the order in which they are offered.

A module of its own, because the tools import the registry; whoever needs no tools does not import this.
"""

from __future__ import annotations

from sluice.tools import (
    apply_patch,
    bash,
    build_project,
    git_add,
    git_commit,
    git_diff,
    git_show,
    git_status,
    job_list,
    job_read,
    job_stop,
    list_files,
    read_file,
    rg_search,
    test_project,
    write_file,
)
from sluice.tools.registry import Tool


def default_tools() -> tuple[Tool, ...]:
    """All built-in tools: files, searching, git, running."""
    modules = (
        *(read_file, write_file, apply_patch, list_files, rg_search),
        *(git_status, git_diff, git_show, git_add, git_commit),
        *(bash, build_project, test_project),
        *(job_list, job_read, job_stop),
    )
    return tuple(module.TOOL for module in modules)
