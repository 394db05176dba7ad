"""What docs/operating-client.md says: complete tables, real commands, a function that works."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from typer.testing import CliRunner

from client.cli.commands import Place, body_file, lose_answer, run
from client.loopback import Loopback
from replayfloor.client.cli import app
from replayfloor.core.journal import OperationState
from replayfloor.core.outcome import Outcome

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operating-client.md").read_text("utf-8")
COMMANDS = sorted(set(re.findall(r"\breplayfloor (client [a-z]+)", PAGE)))
LINES_MAX = 140


def help_of(words: str) -> str:
    """Return the help of a command."""
    done = CliRunner().invoke(app, [*words.split(), "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    return done.output


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= LINES_MAX


@pytest.mark.parametrize("word", [*OperationState, *(each.label for each in Outcome)])
def test_every_state_and_outcome_has_its_row(word: str) -> None:
    table = PAGE.split("## What the words mean")[1].split("\n## ")[0]

    assert re.search(rf"^\| `{word}` \|", table, re.MULTILINE)


def test_every_command_of_the_group_is_on_the_page() -> None:
    group = help_of("client").split("Commands")[1]

    assert {f"client {name}" for name in re.findall(r"^│ ([a-z]+) ", group, re.MULTILINE)} == set(
        COMMANDS
    )


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_the_options_it_is_shown_with(words: str) -> None:
    shown = re.findall(rf"replayfloor {words}\b((?: [^\n`\\]*(?:\\\n)?)*)", PAGE)
    options = {option for each in shown for option in re.findall(r"--[a-z-]+", each)}

    assert {option for option in options if option not in help_of(words)} == set()


def test_every_option_is_one_of_a_command() -> None:
    helps = "".join(help_of(words) for words in COMMANDS)

    assert {each for each in re.findall(r"--[a-z][a-z-]+", PAGE) if each not in helps} == set()


def test_the_commands_of_the_page_do_what_it_says(
    place: Place, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "Bearer t")
    monkeypatch.chdir(tmp_path)
    Path(body_file(tmp_path)).rename(tmp_path / "order.json")
    shown = re.findall(r"^    replayfloor client (.*(?:\\\n.*)?)", PAGE, re.MULTILINE)
    codes: dict[str, int] = {}
    for line in shown:
        if "payments_ops" in line:
            continue
        lose_answer(place, loopback, f"invoice-{len(codes)}")
        words = [
            word.strip("'")
            for word in re.findall(r"'[^']*'|[^\s\\]+", line.replace("URL", place.url))
        ]
        words = [word.replace("OPERATION_ID", f"invoice-{len(codes)}") for word in words]
        more = ["--quoted"] if words[0] == "resume" else []
        codes[line] = run(*words, *more).code

    assert codes
    assert set(codes.values()) == {0}


class Orders:
    """Where a request can be found again."""

    request = {"amount": 4200}  # noqa: RUF012 - read only

    def find(self, operation_id: str) -> Orders:
        """Return the order of an operation."""
        assert operation_id == "invoice-1"
        return self


def test_the_function_of_the_page_sends_the_operation_again(
    place: Place, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    payments = ModuleType("payments")
    with place.client() as client:
        body = httpx.Request("POST", loopback.url(), json=Orders.request).content
        lose_answer(place, loopback, "invoice-1", body=body)
        payments.__dict__.update(client=client, orders=Orders())
        monkeypatch.setitem(sys.modules, "payments", payments)
        (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        ops = ModuleType("payments_ops")
        exec(compile(code, "operating-client.md", "exec"), ops.__dict__)
        monkeypatch.setitem(sys.modules, "payments_ops", ops)

        done = run("resume", place.url, "--with", "payments_ops:resend")

    assert done.code == 0, done.err
    assert loopback.bodies() == [body]
    assert loopback.keys() == [f'"{place.entry("invoice-1").key}"']
