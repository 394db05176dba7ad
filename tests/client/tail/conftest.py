"""Fixtures of the report's tests: the command, run in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from client.tail.invented import AT_TEXT
from replayfloor.client.tail.cli import tail_app


@pytest.fixture
def report() -> Callable[..., Result]:
    """Run `replayfloor tail report` at the tests' moment."""

    def run(*arguments: object, stdin: str | bytes | None = None) -> Result:
        told = ["report", "--at", AT_TEXT, *map(str, arguments)]
        return CliRunner().invoke(tail_app, told, input=stdin)

    return run
