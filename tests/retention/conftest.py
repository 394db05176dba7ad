"""Fixtures of the tests on policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from retention.policy_cli import Folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)
