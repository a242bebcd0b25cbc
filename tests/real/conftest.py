"""The model server of a test module. Where it cannot be had, its tests are skipped, which the end of the run says loudly."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from model_server import PYTHON, Server


@pytest.fixture(scope="module")
def packages() -> None:
    if not PYTHON.exists():
        pytest.skip("the real model is missing: `make test` installs it into .venv-model; NOTHING was run against it")
    found = subprocess.run([PYTHON, "-c", "import xllamacpp"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(f"the real model could not be installed; NOTHING was run against it: {found.stderr.strip()[-200:]}")


@pytest.fixture(scope="module")
def server(packages: None) -> Iterator[Server]:
    one = Server()
    yield one
    one.close()
