"""The journal's contract on every Postgres version that is supported and that is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from contract.journal_postgres import JournalOnTestClock, prepare
from replayfloor.client.journal import Journal, PostgresJournal
from replayfloor.core.journal import BeginOperation, ReadHistory
from replayfloor.testing.journal_contract import ENTRY, JournalContract
from support.services import Postgres
from support.services.postgres_versions import SUPPORTED

DATABASE = "journal_versions"

# The newest is what all other tests run on, and differences are likeliest at the ends.
QUICK = (15,)
VERSIONS = [
    pytest.param(major, marks=() if major in QUICK else pytest.mark.slow) for major in SUPPORTED
]


# One database for all tests of a version: each of them finds it empty.
@pytest.fixture(scope="module", params=VERSIONS)
def versioned_url(
    request: pytest.FixtureRequest, postgres_versions: Callable[[int], Postgres]
) -> Iterator[str]:
    """The address of a prepared database of a version."""
    postgres = postgres_versions(request.param)
    url = postgres.database(DATABASE)
    prepare(url)
    yield url
    postgres.drop(DATABASE)


class TestOnVersions(JournalContract):
    @pytest.fixture
    def journal(self, versioned_url: str) -> Iterator[Journal]:
        with closing(JournalOnTestClock(versioned_url)) as journal:
            yield journal


# -- a database with an order of its own ----------------------------------------------------------

WITH_ICU = 15  # the builds of the others here cannot do it
IN_ENGLISH = "template template0 encoding utf8 locale_provider icu icu_locale 'en-US'"
NAMES = ("B", "a", "a b", "aa", "z", "ä")


@pytest.fixture
def english_url(postgres_versions: Callable[[int], Postgres]) -> Iterator[str]:
    """The address of a database that orders texts as a dictionary does."""
    postgres = postgres_versions(WITH_ICU)
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute(f"create database english {IN_ENGLISH}")
    yield postgres.url_of("english")
    postgres.drop("english")


def test_texts_are_ordered_by_code_points_whatever_the_database_orders_by(english_url: str) -> None:
    with closing(PostgresJournal(english_url)) as journal:
        for name in reversed(NAMES):
            entry = replace(ENTRY, operation_id=name, key=name, provider=name)
            journal.begin(BeginOperation(entry))

        assert tuple(entry.operation_id for entry in journal.history()) == NAMES
        assert tuple(each.provider for each in journal.count_pending()) == NAMES
        after = ReadHistory(after=(ENTRY.namespace, "a"))
        assert tuple(each.operation_id for each in journal.history(after)) == NAMES[2:]
