"""What is wrong with a SQLite file of receipts is found, and looking at it leaves no trace."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from replayfloor.server.doctor.check_sqlite import GONE_SOON, NETWORK, check_sqlite
from replayfloor.server.doctor.facts_sqlite import SqliteFacts
from replayfloor.server.doctor.findings import Finding
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.read_sqlite import filesystem_of, read_sqlite
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.stores.policies import Declaration
from replayfloor.server.stores.policies_sqlite import declare_policy
from replayfloor.server.stores.sqlite_file import SCHEMA_VERSION, connect
from server.cli_databases import Database, opened
from server.doctor.examined import CRITICAL, NOTE, OK, WARNING, the, worse_than

HOUR, DAY = 3600.0, 86_400.0
ON_A_DISK = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is, or will be."""
    return tmp_path / "receipts.db"


@contextmanager
def _used(path: Path) -> Iterator[Database]:
    with opened(f"sqlite:///{path}") as made:
        yield made


def _examine(
    path: Path,
    *,
    limits: Limits | None = None,
    retention_s: float | None = None,
    later_s: float = 0.0,
    mounts: str = ON_A_DISK,
) -> list[Finding]:
    facts = read_sqlite(
        path, retention_s=retention_s, clock=lambda: time.time() + later_s, mounts=mounts
    )
    roomy = replace(facts, free=facts.disk)  # this machine's disk is not what is tested
    return check_sqlite(roomy, limits)


@pytest.mark.parametrize("open_meanwhile", [True, False])
def test_nothing_is_wrong_with_a_file_that_is_as_it_should_be(
    path: Path, *, open_meanwhile: bool
) -> None:
    with _used(path) as database:
        database.finished()
        found = _examine(path)
    if not open_meanwhile:
        found = _examine(path)

    assert worse_than(OK, found) == {}
    assert the(found, "sqlite.readable").data["receipts"] == 1


def test_looking_leaves_no_file_behind(path: Path) -> None:
    with _used(path) as database:
        database.finished()
    before = {each.name: each.stat().st_mtime_ns for each in path.parent.iterdir()}

    _examine(path)

    assert {each.name: each.stat().st_mtime_ns for each in path.parent.iterdir()} == before


def test_a_file_that_is_not_there_is_not_made(path: Path) -> None:
    assert the(_examine(path), "sqlite.readable").level is WARNING
    assert not path.exists()


def test_a_file_that_is_none_is_critical(path: Path) -> None:
    path.write_bytes(b"this is no database, and is long enough to be looked at as one" * 50)

    assert the(_examine(path), "sqlite.readable").level is CRITICAL


def test_orphans_are_found(path: Path) -> None:
    with _used(path) as database:
        database.in_flight()
        found = the(_examine(path), "sqlite.orphans")
        assert (found.level, found.data["oldest_s"]) == (OK, None)
        database.orphan()
        assert the(_examine(path), "sqlite.orphans").level is NOTE

        found = the(_examine(path, later_s=HOUR), "sqlite.orphans")

    assert found.level is WARNING
    assert found.data["orphans"] == 2
    assert HOUR <= float(str(found.data["oldest_s"])) < HOUR + 60


def test_receipts_that_should_be_gone_are_found(path: Path) -> None:
    with _used(path) as database:
        database.finished()

    def level(later_s: float) -> int:
        found = _examine(path, retention_s=HOUR, later_s=later_s)
        return the(found, "sqlite.expired").level

    assert level(HOUR - 60) is OK
    assert level(HOUR + 60) is NOTE
    assert level(HOUR + DAY + 60) is WARNING
    assert the(_examine(path, later_s=100 * DAY), "sqlite.expired").level is OK


def test_another_journal_is_noted_and_a_long_log_is_a_warning(path: Path) -> None:
    with _used(path) as database:
        database.finished()
        assert the(_examine(path), "sqlite.journal").level is OK
        kept = _examine(path, limits=Limits(sqlite_wal_bytes=100))
        assert the(kept, "sqlite.journal").level is WARNING
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = delete")

    assert the(_examine(path), "sqlite.journal").level is NOTE


@pytest.mark.parametrize(
    ("version", "level"), [(SCHEMA_VERSION, OK), (1, NOTE), (SCHEMA_VERSION + 1, CRITICAL)]
)
def test_the_version_of_the_schema_is_judged(path: Path, version: int, level: int) -> None:
    with _used(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update replayfloor_schema set version = ?", (version,))
        connection.commit()

    assert the(_examine(path), "sqlite.schema").level is level


def test_an_application_file_without_our_tables_is_noted(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table things (name text)")

    found = _examine(path)

    assert the(found, "sqlite.schema").level is NOTE


def test_space_that_holds_nothing_is_noted(path: Path) -> None:
    with _used(path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("create table much (data blob)")
        connection.execute("insert into much values (zeroblob(1000000))")
        assert the(_examine(path), "sqlite.space").level is OK
        connection.execute("delete from much")

        assert the(_examine(path), "sqlite.space").level is NOTE


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("ext4", OK),
        ("xfs", OK),
        *((kind, CRITICAL) for kind in sorted(NETWORK)),
        *((kind, WARNING) for kind in sorted(GONE_SOON)),
    ],
)
def test_a_file_on_a_network_or_on_no_disk_is_found(path: Path, kind: str, level: int) -> None:
    with _used(path):
        pass
    mounts = f"{ON_A_DISK}30 25 0:50 / {path.parent.resolve()} rw shared:1 - {kind} server:/x rw\n"

    assert the(_examine(path, mounts=mounts), "sqlite.filesystem").level is level


def test_where_nobody_tells_the_file_system_that_is_said(path: Path) -> None:
    with _used(path):
        pass

    assert the(_examine(path, mounts=""), "sqlite.filesystem").seen is False


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/data/receipts.db", "nfs4"),
        ("/srv/database/receipts.db", "ext4"),
        ("/srv/my disk/receipts.db", "xfs"),
        ("/srv/over/receipts.db", "tmpfs"),
        ("/receipts.db", "ext4"),
    ],
)
def test_the_nearest_mount_decides(path: str, kind: str) -> None:
    mounts = (
        "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "26 25 0:5 / /srv/data rw shared:9 - nfs4 server:/x rw\n"
        "27 25 8:2 / /srv/my\\040disk rw - xfs /dev/sdb rw\n"
        "28 25 8:3 / /srv/over rw - ext4 /dev/sdc rw\n"
        "29 28 0:6 / /srv/over rw - tmpfs tmpfs rw\n"
        "a broken line\n"
    )

    assert filesystem_of(Path(path), mounts) == kind


def test_a_full_disk_is_found() -> None:
    def level(free: int | None) -> int:
        facts = SqliteFacts("x", filesystem="ext4", free=free, disk=1000)
        return the(check_sqlite(facts), "sqlite.disk").level

    assert level(51) is OK
    assert level(49) is WARNING
    assert level(None) is NOTE


def test_a_policy_that_is_not_the_declared_one_is_found(path: Path) -> None:
    with closing(connect(path, 1.0)) as connection:
        declaration = Declaration("default", "d" * 64, 84 * HOUR, "text")
        declare_policy(connection, declaration=declaration, now_ms=lambda: 1)

    def level(digest: str) -> int:
        wanted = Wanted(retention_s=84 * HOUR, policy="hooks", digest=digest)
        return the(check_sqlite(read_sqlite(path), wanted=wanted), "sqlite.policy").level

    assert level("d" * 64) is OK
    assert level("e" * 64) is WARNING
