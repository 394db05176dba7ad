"""Running `replayfloor policy …` in a folder with a policy file."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from replayfloor.retention.cli import app

_FIGURE = '{ value = "%s", source = "https://shop.example/hooks", read_on = %s, confidence = "%s" }'
SHOP = f"""\
[senders.shop]
automatic_retry = {_FIGURE % ("72h", "2026-09-30", "documented")}
manual_resend = {_FIGURE % ("30d", "2025-01-31", "documented")}
"""
HOOKS = SHOP + '\n[inbound.hooks]\nsenders = ["shop"]\nsafety_margin = "5d"\n'
REFUNDS = """
[outbound.refunds]
key_retention = "24h"
retry_budget = "120s"
manual_rerun = "20h"
"""


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    text: str
    errors: str

    @property
    def lines(self) -> list[str]:
        """The lines of stdout."""
        return self.text.splitlines()

    @property
    def data(self) -> list[dict[str, object]]:
        """The JSON document of stdout."""
        found: list[dict[str, object]] = json.loads(self.text)
        return found


@dataclass(frozen=True)
class Folder:
    """The current folder of the command."""

    path: Path

    def write(self, text: str, name: str = "replayfloor.toml") -> None:
        """Write a file."""
        (self.path / name).write_text(text, encoding="utf-8")

    def policy(self, *arguments: str, charset: str = "utf-8") -> Done:
        """Run `replayfloor policy …` with a terminal of an encoding."""
        result = CliRunner(charset=charset).invoke(app, ["policy", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def git(self, *arguments: str) -> None:
        """Run git in the folder, as nobody in particular."""
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(
            ["git", *who, *arguments], cwd=self.path, check=True, capture_output=True, timeout=60
        )

    def commit(self) -> None:
        """Commit everything that is there."""
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "x")
