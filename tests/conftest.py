"""Fixtures for every test: the private servers, started by the first test that needs one."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from functools import cache

import pytest
from hypothesis import settings

from replayfloor.server.stores.migrate import migrate
from support.garbage import to_be_kept
from support.services import Postgres, Redis, RedisCluster, RedisSentinels, Services
from support.services.databases import Databases
from support.services.pgbouncer import PgBouncer, find_pgbouncer
from support.services.postgres_beside import start_beside
from support.services.postgres_versions import find_versions

LONGEST = ("tests/chaos/", "tests/test_demo.py", "tests/faults/", "tests/test_benchmarks.py")
"""What takes long is begun first: of several processes none is left alone with it at the end."""


EVERYDAY_EXAMPLES = 40
"""Of a property, where its test names no number: hypothesis' own 100 are for the slow run."""


def pytest_configure(config: pytest.Config) -> None:
    """Let properties be tried with fewer examples every day."""
    settings.register_profile("everyday", max_examples=EVERYDAY_EXAMPLES)
    if config.getoption("markexpr") != "slow":
        settings.load_profile("everyday")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect thirteen thousand tests without looking for garbage among them, then or later."""
    with to_be_kept():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes longest at the beginning, in the order of LONGEST."""
    places = {prefix: place for place, prefix in enumerate(LONGEST)}

    def place(item: pytest.Item) -> int:
        return next(
            (at for prefix, at in places.items() if item.nodeid.startswith(prefix)), len(places)
        )

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads a key or a password file of the user, nor leaves a socket in their home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run `@pytest.mark.anyio` tests on asyncio: psycopg and redis know no other."""
    return "asyncio"


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """The servers of this run; nothing is started before it is asked for."""
    with pytest.MonkeyPatch.context() as patch, Services() as running:
        for name in [name for name in os.environ if _is_libpq(name)]:
            patch.delenv(name)
        yield running


def _is_libpq(name: str) -> bool:
    # PGHOST, PGSSLMODE, PGOPTIONS… of a developer's shell would change what psycopg does.
    return name.startswith("PG") and "_" not in name


@pytest.fixture(scope="session")
def _empty_databases(services: Services) -> Databases:
    return Databases(services.postgres, "test")


@pytest.fixture(scope="session")
def _migrated_databases(services: Services) -> Databases:
    return Databases(services.postgres, "migrated", migrate)


@pytest.fixture
def postgres_url(_empty_databases: Databases) -> Iterator[str]:
    """The address of an empty database, as a new one is; nobody else's until the test is over."""
    with _empty_databases.lent() as url:
        yield url


@pytest.fixture
def migrated_own_url(_migrated_databases: Databases) -> Iterator[str]:
    """The same with our schema, as `migrate` makes it in a new one: ten times as fast.

    For a test to which it matters how large a table is on disk, or how many dead rows it has,
    `postgres_url` is the one to migrate.
    """
    with _migrated_databases.lent() as url:
        yield url


@pytest.fixture
def redis_url(services: Services) -> Iterator[str]:
    """The address of an empty logical database."""
    yield services.redis.database()
    services.redis.restore()


@pytest.fixture
def postgres_server(services: Services) -> Iterator[Postgres]:
    """The server itself, to kill or freeze; it runs again after the test."""
    yield services.postgres
    services.postgres.restore()


@pytest.fixture
def redis_server(services: Services) -> Iterator[Redis]:
    """The server itself, to kill or freeze; it runs again after the test."""
    yield services.redis
    services.redis.restore()


@pytest.fixture
def redis_cluster(services: Services) -> Iterator[RedisCluster]:
    """The cluster itself, to kill or freeze nodes of; it is whole again after the test."""
    yield services.redis_cluster
    services.redis_cluster.restore()


@pytest.fixture
def redis_sentinels(services: Services) -> Iterator[RedisSentinels]:
    """The watched servers, to kill or freeze; one follows the other again after the test."""
    yield services.redis_sentinels
    services.redis_sentinels.restore()


@pytest.fixture(scope="session")
def pgbouncer(services: Services) -> PgBouncer:
    """A PgBouncer in transaction mode in front of the Postgres; skips where none is installed."""
    program = find_pgbouncer()
    if program is None:
        pytest.skip("there is no pgbouncer: it is a package of the system (Debian: pgbouncer)")
    bouncer = PgBouncer(program, services.postgres)
    services.adopt(bouncer)
    return bouncer


@pytest.fixture(scope="session")
def postgres_versions(services: Services) -> Callable[[int], Postgres]:
    """Return the server of a major version, started by the first who asks; skips if absent."""
    binaries = find_versions()

    @cache
    def start(major: int) -> Postgres:
        if major not in binaries:
            pytest.skip(f"there is no Postgres {major} here; found: {sorted(binaries)}")
        return start_beside(services, f"pg{major}", binaries[major])

    return start
