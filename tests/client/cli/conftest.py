"""Fixtures of the command line's tests: a journal in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.cli.commands import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A journal in a file that is not there yet."""
    return Place(f"sqlite:///{tmp_path}/outbound.db")
