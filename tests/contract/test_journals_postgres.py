"""The journal's contract on Postgres, directly and through PgBouncer in transaction mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from contract.journal_postgres import JournalOnTestClock, prepare
from contract.journal_sequences import SEQUENCES, follows_the_rules
from replayfloor.client.journal import Journal
from replayfloor.testing.journal_contract import JournalContract
from support.services import Services
from support.services.pgbouncer import PgBouncer

DATABASE = "journal_contract"


# One database for all tests: each of them finds it empty.
@pytest.fixture(scope="module")
def url(services: Services) -> Iterator[str]:
    """The address of a prepared database."""
    url = services.postgres.database(DATABASE)
    prepare(url)
    yield url
    services.postgres.drop(DATABASE)


class TestPostgresJournal(JournalContract):
    @pytest.fixture
    def journal(self, url: str) -> Iterator[Journal]:
        with closing(JournalOnTestClock(url)) as journal:
            yield journal


class TestThroughPgBouncer(JournalContract):
    @pytest.fixture
    def journal(self, pgbouncer: PgBouncer, url: str) -> Iterator[Journal]:
        with closing(JournalOnTestClock(pgbouncer.url_of(DATABASE), direct_url=url)) as journal:
            yield journal


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_after_any_sequence_of_effects_the_database_says_what_the_rules_say(
    seed: int, url: str
) -> None:
    with closing(JournalOnTestClock(url)) as journal:
        assert follows_the_rules(journal, seed)
