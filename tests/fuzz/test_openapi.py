"""The FastAPI example, asked by schemathesis: no failure, and no answer that is not documented.

The server is real, and so is its database; what it promises is the document that it serves.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from support.sources import ROOT
from test_examples import serving

if TYPE_CHECKING:
    import schemathesis
    from schemathesis import checks
else:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    checks = pytest.importorskip("schemathesis.checks")

OPERATIONS = (("/payments", "POST"), ("/payments/{payment_id}", "GET"))
EVERYDAY_EXAMPLES = 60
SLOW_EXAMPLES = 1000

UNDECODABLE = '"There was an error parsing the body"'
KEY_REUSED = "urn:replayfloor:problem:key-reused"


@dataclass(frozen=True)
class Example:
    """The example that is served, its document, and the file with its ledger."""

    url: str
    schema: schemathesis.BaseSchema
    database: Path


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    folder = tmp_path_factory.mktemp("payments")
    database = folder / "payments.db"
    command = ["uvicorn", "--port", "{port}", "payments_documented:app"]
    search_path = f"{ROOT / 'examples'}{os.pathsep}{ROOT / 'tests' / 'fuzz'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", search_path, prepend=os.pathsep)
        environment = {"RECEIPTS": f"sqlite:///{database}"}
        with serving(command, environment, folder) as server:
            schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
            yield Example(server.url, schema, database)


def ask(example: Example, examples: int, mode: schemathesis.GenerationMode) -> None:
    """Send requests, check every answer, and count what was charged."""
    strategies = [
        example.schema[path][method].as_strategy(generation_mode=mode)
        for path, method in OPERATIONS
    ]
    before, charged = charges(example.database), 0

    @seed(1)
    @given(st.one_of(strategies))
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
        ],
    )
    def send(case: schemathesis.Case[schemathesis.APIOperation[Any, Any, Any, Any]]) -> None:
        nonlocal charged
        response = case.call()
        charged += response.status_code == 201 and not response.headers.get("idempotent-replayed")
        # A malformed key is refused before the application says which methods it has.
        excluded = [checks.unsupported_method]
        if response.status_code == 422 and KEY_REUSED in response.text:
            # A key that an earlier example sent: it is refused, however valid the body is.
            excluded.append(checks.positive_data_acceptance)
        if response.status_code == 400 and UNDECODABLE in response.text:
            # FastAPI's own answer to a body that is not UTF-8, which it does not document.
            excluded.append(checks.content_type_conformance)
        case.validate_response(response, excluded_checks=excluded)

    send()
    assert charges(example.database) - before == charged, "each was charged once, and answered"


def charges(database: Path) -> int:
    """Return how many rows the ledger has."""
    with closing(sqlite3.connect(database)) as ledger:
        return int(ledger.execute("select count(*) from ledger").fetchone()[0])


MODES = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
each_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)


@each_mode
def test_no_request_fails_and_every_answer_is_documented(
    mode: schemathesis.GenerationMode, example: Example
) -> None:
    ask(example, EVERYDAY_EXAMPLES, mode)


@pytest.mark.slow
@each_mode
def test_no_request_of_many_fails(mode: schemathesis.GenerationMode, example: Example) -> None:
    ask(example, SLOW_EXAMPLES, mode)
