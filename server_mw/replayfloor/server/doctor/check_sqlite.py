"""What is to be said of a SQLite file of receipts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replayfloor.retention.storage import size_text
from replayfloor.server.doctor.check_noted import check_noted
from replayfloor.server.doctor.facts_sqlite import SqliteFacts
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.doctor.words import about
from replayfloor.server.stores.sqlite_file import SCHEMA_VERSION

NETWORK: Final = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs",
     "lustre", "gfs2", "ocfs2", "beegfs", "virtiofs", "fuse.sshfs", "fuse.glusterfs",
     "fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse"}
)  # fmt: skip

GONE_SOON: Final = {
    "tmpfs": "in memory: it is gone with the next start of the machine",
    "ramfs": "in memory: it is gone with the next start of the machine",
    "overlay": "in the layer of a container, most likely: it is gone with the container",
}

LOST: Final = "without its receipts every retry is executed a second time"


def check_sqlite(
    facts: SqliteFacts, limits: Limits | None = None, wanted: Wanted | None = None
) -> list[Finding]:
    """Return everything that is to be said of the file."""
    return list(_all(facts, limits or Limits(), wanted or Wanted()))


def _all(facts: SqliteFacts, limits: Limits, wanted: Wanted) -> Iterator[Finding]:
    name = "sqlite.readable"
    if facts.missing:
        yield Finding(
            name,
            Level.WARNING,
            "there is no such file",
            "a worker makes it when it first needs it; if it was there before, its receipts are "
            f"gone, and {LOST}",
            "look at the path: a relative one counts from where the worker was started",
        )
        return
    if facts.failed:
        why = "if a worker cannot read it either, every request is answered 503"
        do = "look at its owner and rights; restore it from a backup if it is damaged"
        yield Finding(name, Level.CRITICAL, f"it cannot be read: {facts.failed}", why, do)
        yield _filesystem(facts)
        return
    found = f"{size_text(facts.size)}, {facts.receipts:,} receipts"
    yield ok(name, found, bytes=facts.size, receipts=facts.receipts)
    yield _filesystem(facts)
    yield _disk(facts, limits)
    yield _journal(facts, limits)
    yield _schema(facts)
    yield _space(facts, limits)
    if facts.version is not None:
        yield _orphans(facts, limits)
        yield _expired(facts, limits)
        yield check_noted("sqlite.policy", facts.noted, wanted)


def _filesystem(facts: SqliteFacts) -> Finding:
    name, kind = "sqlite.filesystem", facts.filesystem
    data = {"filesystem": kind}
    if not kind:
        return unseen(name, "this system does not tell what kind of file system it lies on")
    if kind in NETWORK:
        return Finding(
            name,
            Level.CRITICAL,
            f"it lies on {kind}, which is reached over a network",
            "the write-ahead log needs memory that all processes share, and locks that hold: over "
            "a network two machines can claim one key, or damage the file",
            "move it to a local disk; workers on several machines need Postgres",
            data=data,
        )
    if kind in GONE_SOON:
        why = f"it lies {GONE_SOON[kind]}, and {LOST}"
        do = "put it on a disk, or a volume, that stays"
        return Finding(name, Level.WARNING, f"it lies on {kind}", why, do, data=data)
    return ok(name, f"it lies on {kind}", **data)


def _disk(facts: SqliteFacts, limits: Limits) -> Finding:
    name = "sqlite.disk"
    if facts.free is None or not facts.disk:
        return unseen(name, "this system does not tell how full the disk is")
    data = {"free_bytes": facts.free, "disk_bytes": facts.disk}
    found = f"{size_text(facts.free)} of {size_text(facts.disk)} are free"
    if facts.free >= limits.sqlite_free_share * facts.disk:
        return ok(name, found, **data)
    why = "on a full disk nothing can be claimed: every request is answered 503"
    return Finding(name, Level.WARNING, found, why, "make room", data=data)


def _journal(facts: SqliteFacts, limits: Limits) -> Finding:
    name = "sqlite.journal"
    data: dict[str, float | str] = {"journal_mode": facts.journal, "wal_bytes": facts.wal}
    found = f"journal_mode is {facts.journal}, {size_text(facts.wal)} wait in the write-ahead log"
    if facts.wal > limits.sqlite_wal_bytes:
        why = (
            "it is cut back when nobody reads: somebody has kept a transaction open, and each "
            "claim gets slower"
        )
        do = "find who has the file open (fuser), and end that transaction"
        return Finding(name, Level.WARNING, found, why, do, data=data)
    # Synchronous is a matter of each connection, so that nobody can read another's.
    if facts.journal != "wal":
        why = "a worker changes it to wal when it opens the file, with synchronous = full"
        return Finding(name, Level.NOTE, found, why, data=data)
    return ok(name, f"{found}; each worker sets synchronous = full by itself", **data)


def _schema(facts: SqliteFacts) -> Finding:
    name, version = "sqlite.schema", facts.version
    data = {"version": version, "needed": SCHEMA_VERSION}
    if version is None:
        why = f"a worker makes them when it opens the file; if they were there before, {LOST}"
        return Finding(name, Level.NOTE, "it has no tables of ours yet", why, data=data)
    found = f"the schema is version {version}, this release has {SCHEMA_VERSION}"
    if version > SCHEMA_VERSION:
        why = "workers of this release refuse to work with it: every request is answered 503"
        return Finding(name, Level.CRITICAL, found, why, "use the newer release", data=data)
    if version < SCHEMA_VERSION:
        why = "a worker of this release brings it up to date when it opens the file"
        return Finding(name, Level.NOTE, found, why, data=data)
    return ok(name, found, **data)


def _space(facts: SqliteFacts, limits: Limits) -> Finding:
    name = "sqlite.space"
    share = facts.empty_pages / facts.pages if facts.pages else 0.0
    found = f"{share:.0%} of the file hold nothing"
    data = {"pages": facts.pages, "empty_pages": facts.empty_pages}
    if share > limits.sqlite_empty_share:
        why = "that space is used again, and not given back to the disk"
        do = "if the disk needs it: VACUUM, which stops all writers meanwhile"
        return Finding(name, Level.NOTE, found, why, do, data=data)
    return ok(name, found, **data)


def _orphans(facts: SqliteFacts, limits: Limits) -> Finding:
    name = "sqlite.orphans"
    data = {
        "claims": facts.claims,
        "orphans": facts.orphans,
        "oldest_s": facts.oldest_orphan_s if facts.orphans else None,
    }
    if not facts.orphans:
        return ok(name, f"{facts.claims} keys are in flight, none is orphaned", **data)
    found = (
        f"{facts.orphans} of {facts.claims} claims are orphaned, the oldest for "
        f"{about(facts.oldest_orphan_s)}"
    )
    why = (
        "it was begun, and nobody knows how it ended: retries are answered 409 outcome-unknown "
        "until it is settled (those of atomic and repeatable routes are executed)"
    )
    do = "replayfloor receipts list sqlite:///... --orphans; docs/operating.md says how to settle"
    level = Level.WARNING if facts.oldest_orphan_s >= limits.orphan_s else Level.NOTE
    return Finding(name, level, found, why, do, data=data)


def _expired(facts: SqliteFacts, limits: Limits) -> Finding:
    name = "sqlite.expired"
    data = {"expired": facts.expired, "oldest_s": facts.oldest_receipt_s}
    if not facts.expired:
        return ok(name, "no receipt is known to be past its retention", **data)
    found = f"{facts.expired:,} of {facts.receipts:,} receipts are past the retention"
    late_s = (facts.oldest_receipt_s or 0.0) - facts.retention_s
    if late_s < limits.expired_rows_s:
        why = "claims sweep them by and by"
        return Finding(name, Level.NOTE, found, why, data=data)
    why = f"the oldest should have been deleted {about(late_s)} ago; it takes space, no more"
    do = (
        "replayfloor partitions maintain sqlite:///... --policy FILE; it also works without workers"
    )
    return Finding(name, Level.WARNING, found, why, do, data=data)
