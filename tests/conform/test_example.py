"""The command line on our FastAPI example, as its users run it: payments are counted by id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conform.serving import HOST, running
from replayfloor.conform.cli import app
from support.services.server import free_port
from support.sources import ROOT

BODY = '{"id": "{id}", "amount_minor": 4200, "currency": "EUR"}'
COUNT = "/payments/{id}#/charges"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("example"), free_port()
    command = ["uvicorn", "--app-dir", str(ROOT / "examples"), "--port", str(port)]
    environment = {"RECEIPTS": f"sqlite:///{folder}/payments.db", "HOME": str(folder)}
    with running([*command, "payments_fastapi:app"], port, environment):
        yield f"http://{HOST}:{port}/payments"


def test_the_example_passes_what_applies_to_it(address: str, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    options = ["--body", BODY, "--count-url", COUNT, "--json", "--junit", str(junit)]

    done = CliRunner().invoke(app, [address, *options])

    results = json.loads(done.stdout)["results"]
    verdicts = {each["id"]: each["verdict"] for each in results}
    assert {name for name, verdict in verdicts.items() if verdict == "fail"} == set()
    assert done.exit_code == 0
    # It has one path and one tenant, so this is what cannot be seen of it.
    assert {name for name, verdict in verdicts.items() if verdict == "not applicable"} <= {
        "B-21", "A16", "A10", "S-3", "RA-1", "H9-6",
        "B-19", "B-18", "A4", "B-23", "B-38", "B-24", "B-08", "B-35", "B-36",
    }  # fmt: skip
    assert verdicts["B-01"] == verdicts["E-2"] == verdicts["B-12"] == "pass"
    assert f'tests="{len(results)}" failures="0"' in junit.read_text()


def test_without_a_count_answers_and_marks_are_the_evidence(address: str) -> None:
    ids = "E-2,H-2,B-01,U7-7,A12"

    done = CliRunner().invoke(app, [address, "--body", BODY, "--only", ids, "--json"])

    verdicts = {each["id"]: each["verdict"] for each in json.loads(done.stdout)["results"]}
    assert verdicts["E-2"] == verdicts["H-2"] == verdicts["B-01"] == verdicts["A12"] == "pass"
