"""The maintenance on every Postgres version that is supported and that is here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replayfloor.server.stores.maintenance import Keeping
from replayfloor.server.stores.maintenance_postgres import convert
from replayfloor.server.stores.migrate import migrate
from server.partitions import DAY, START, Database, assert_no_gap
from support.services import Postgres
from support.services.postgres_versions import SUPPORTED

KEPT = Keeping(84 * 3600.0, audit_s=400 * 86400.0)

# The newest is what all other tests run on, and the oldest is looked at every day elsewhere.
VERSIONS = [pytest.param(m, marks=pytest.mark.slow) for m in SUPPORTED]


@pytest.mark.parametrize("major", VERSIONS)
def test_every_version_makes_drops_keeps_proofs_and_converts(
    postgres_versions: Callable[[int], Postgres], major: int
) -> None:
    postgres = postgres_versions(major)
    database = Database(postgres.database("partitions"))
    try:
        migrate(database.url, keeping=KEPT, layout="plain")
        (swept,) = database.insert(START - 9 * DAY)
        database.set_clock(START)
        assert database.maintain(KEPT).removed == 1
        (kept,) = database.insert(START)
        assert convert(database.url, KEPT)
        assert database.ids() == {kept}
        database.set_clock(START + 20 * DAY)

        assert database.maintain(KEPT).proofs == 1
        assert (database.ids(), database.ids("proofs")) == (set(), {swept, kept})
        assert_no_gap(database.bounds())
    finally:
        postgres.drop("partitions")
