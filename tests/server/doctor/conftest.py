"""Servers and databases to be looked at; those that are misconfigured are nobody else's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from replayfloor.server.stores.maintenance import Keeping
from replayfloor.server.stores.maintenance_postgres import maintain
from replayfloor.server.stores.migrate import migrate
from server.doctor.examined import Patient
from support.services import Postgres, Redis, Services
from support.services.binaries import find_redis
from support.services.postgres_beside import start_beside

KEPT = Keeping(84 * 3600.0)
TEMPLATE = "doctor_template"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def healthy_template(services: Services) -> Iterator[str]:
    """The name of a database that nothing is wrong with."""
    url = services.postgres.database(TEMPLATE)
    migrate(url, keeping=KEPT)
    maintain(url, KEPT, by="a test")
    yield TEMPLATE
    services.postgres.restore()
    services.postgres.drop(TEMPLATE)


@pytest.fixture
def patient(services: Services, healthy_template: str) -> Iterator[Patient]:
    """A database that nothing is wrong with, until the test does something to it."""
    name = f"doctor_{next(_numbers)}"
    yield Patient(services.postgres.database(name, template=healthy_template))
    services.postgres.restore()
    services.postgres.drop(name)


@pytest.fixture(scope="session")
def careless(services: Services) -> Postgres:
    """A server of its own, to be misconfigured as a whole."""
    return start_beside(
        services, "careless", fsync="off", max_connections="20", max_prepared_transactions="5"
    )


@pytest.fixture
def careless_patient(careless: Postgres) -> Iterator[Patient]:
    """A database on that server, which has its usual settings again afterwards."""
    name = f"doctor_{next(_numbers)}"
    made = Patient(careless.database(name))
    migrate(made.url, keeping=KEPT)
    yield made
    careless.restore()
    admin = Patient(careless.url)
    admin.run("alter system reset all")
    admin.run("select pg_reload_conf()")
    careless.drop(name)


@pytest.fixture(scope="session")
def own_redis(services: Services) -> Redis:
    """A Redis of its own, to be misconfigured."""
    server = Redis(services.site, find_redis(), "doctored", appendfsync="everysec")
    services.adopt(server)
    return server
