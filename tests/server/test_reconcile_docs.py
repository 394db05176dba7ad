"""What docs/operating.md says: complete tables, commands that exist, a reconciler that works."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from replayfloor.cli import command
from replayfloor.core.derived import derived_key
from replayfloor.core.problem import ProblemKind
from replayfloor.server.events import WORTH_A_WARNING, EventKind
from replayfloor.server.reconcile import Applied, NotApplied, Orphan, StillUnknown, Verdict
from replayfloor.server.responses import to_response
from server.cli_databases import REQUEST, id_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
ID = id_of("k-1")


@dataclass
class Charge:
    """What a provider says of a payment."""

    id: str
    status: str


class Provider:
    """A provider with one charge per key, or none."""

    def __init__(self, status: str | None) -> None:
        self.status = status
        self.asked: list[str] = []

    def find(self, *, idempotency_key: str) -> Charge | None:
        """Return the charge of a key."""
        self.asked.append(idempotency_key)
        return None if self.status is None else Charge("ch_1", self.status)


@pytest.mark.parametrize("kind", list(ProblemKind))
def test_every_problem_has_its_row(kind: ProblemKind) -> None:
    table = PAGE.split("## What each problem means")[1].split("\n## ")[0]

    assert f"`{kind.value}`" in table


@pytest.mark.parametrize("kind", [*sorted(WORTH_A_WARNING), EventKind.RECONCILED])
def test_every_event_that_is_logged_has_its_row(kind: EventKind) -> None:
    assert re.search(rf"^\| `{kind.value}` \|", PAGE, re.MULTILINE)


GROUPS = ("receipts", "partitions", "storage", "retention", "policy", "providers")
_CALLED = rf"\breplayfloor ((?:(?:{'|'.join(GROUPS)}) )?[a-z]+)"
COMMANDS = sorted(set(re.findall(_CALLED, PAGE)) - set(GROUPS))


def help_of(words: str) -> str:
    """Return the help of a command."""
    done = CliRunner().invoke(command(), [*words.split(), "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_the_options_it_is_shown_with(words: str) -> None:
    shown = re.findall(rf"replayfloor {words}\b((?: [^\n`\\]*(?:\\\n)?)*)", PAGE)
    options = {option for each in shown for option in re.findall(r"--[a-z-]+", each)}

    assert {option for option in options if option not in help_of(words)} == set()


def test_every_option_is_one_of_a_command() -> None:
    helps = "".join(help_of(words) for words in COMMANDS)

    assert {each for each in re.findall(r"--[a-z][a-z-]+", PAGE) if each not in helps} == set()


def test_the_derived_key_can_be_computed_as_the_page_says() -> None:
    (code,) = re.findall(r"python -c '(.*)' ID charge", PAGE)

    done = subprocess.run(
        [sys.executable, "-c", code, ID.hex(), "charge"], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == derived_key(ID, "charge")


@pytest.mark.parametrize(
    ("status", "expected"),
    [(None, NotApplied), ("pending", StillUnknown), ("succeeded", Applied)],
)
def test_the_reconciler_of_the_page_works(
    monkeypatch: pytest.MonkeyPatch, status: str | None, expected: type[Verdict]
) -> None:
    payments, provider = ModuleType("payments"), Provider(status)
    payments.__dict__["provider"] = provider
    monkeypatch.setitem(sys.modules, "payments", payments)
    code, _lifespan = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "operating.md", "exec"), names)
    orphan = Orphan(ID.hex(), datetime.now(UTC), datetime.now(UTC), REQUEST)

    reconciler = names["reconciler"]
    assert callable(reconciler)
    verdict: object = reconciler(orphan)

    assert type(verdict) is expected
    assert provider.asked == [derived_key(ID, "charge")]
    if isinstance(verdict, Applied):
        assert to_response(verdict.response).body == b'{"id": "ch_1"}'


COLLECTOR = """
import asyncio

code = open("docs/operating.md", encoding="utf-8").read().split("```python")[2].split("```")[0]
exec(compile(code, "operating.md", "exec"))


async def start() -> None:
    async with lifespan(None):
        print(gc.get_freeze_count() > 1000, gc.get_threshold()[0])


asyncio.run(start())
"""


def test_the_lifespan_of_the_page_takes_what_is_loaded_from_the_collector() -> None:
    # In a process of its own: the collector is the whole process's.
    done = subprocess.run(
        [sys.executable, "-c", COLLECTOR], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["True", "10000"]
