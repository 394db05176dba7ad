"""The receipts contract on every Postgres version that is supported and that is here."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from contract.subjects import blocking_postgres_subject, postgres_subject
from replayfloor.testing.contract import ReceiptsContract, ReceiptsSubject
from support.services import Postgres
from support.services.postgres_versions import SUPPORTED

_numbers = itertools.count(1)

# The newest is what all other tests run on: the oldest is the farthest from it.
QUICK = (15,)
VERSIONS = [
    pytest.param(major, marks=() if major in QUICK else pytest.mark.slow) for major in SUPPORTED
]


# One database for all tests of a version: none of them meets another's keys.
@pytest.fixture(scope="module", params=VERSIONS)
def versioned_url(
    request: pytest.FixtureRequest, postgres_versions: Callable[[int], Postgres]
) -> Iterator[str]:
    """The address of an empty database of a version."""
    postgres = postgres_versions(request.param)
    name = f"version_{next(_numbers)}"
    yield postgres.database(name)
    postgres.drop(name)


class TestAsyncOnVersions(ReceiptsContract):
    """AsyncPostgresReceipts."""

    @pytest.fixture
    async def subject(self, versioned_url: str) -> AsyncIterator[ReceiptsSubject]:
        async with postgres_subject(versioned_url) as subject:
            yield subject


@pytest.mark.slow  # what differs by version is on the server, and the colours share that
class TestBlockingOnVersions(ReceiptsContract):
    """PostgresReceipts."""

    @pytest.fixture
    async def subject(self, versioned_url: str) -> AsyncIterator[ReceiptsSubject]:
        async with blocking_postgres_subject(versioned_url) as subject:
            yield subject
