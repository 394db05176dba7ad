"""What is to be said of the settings: what a commit is worth, and who may make one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from replayfloor.server.doctor.facts_postgres import Answering, Override, PostgresFacts
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.unread import Read, Unread

SECOND_EXECUTION: Final = "a claim or a receipt that is lost lets a retry execute a second time"

SYNCHRONOUS: Final = "synchronous_commit"
READ_ONLY: Final = "default_transaction_read_only"
ISOLATION: Final = "default_transaction_isolation"


def check_settings(facts: PostgresFacts) -> Iterator[Finding]:
    """Yield what is to be said of the settings."""
    settings = facts.settings
    if isinstance(settings, Unread):
        yield unseen("postgres.settings", settings.reason)
        return
    overrides = () if isinstance(facts.overrides, Unread) else facts.overrides
    yield _writable(facts.answering, settings, overrides)
    yield _isolation(settings, overrides)
    yield _fsync(settings)
    yield _full_pages(settings)
    yield _synchronous(settings, overrides)
    yield _autovacuum(settings)


def _elsewhere(overrides: tuple[Override, ...], name: str, *values: str) -> str:
    """Return who is told one of the values, as an end of a sentence; "" for nobody."""
    told = [each for each in overrides if each.name == name and each.value in values]
    return "; ".join(f"{each.value} for {each.who}" for each in told)


def _writable(
    answering: Read[Answering], settings: Mapping[str, str], overrides: tuple[Override, ...]
) -> Finding:
    name = "postgres.writable"
    why = "no key can be claimed: every request is answered 503 and none is executed"
    if isinstance(answering, Answering) and answering.standby:
        found = "this server is a standby, which takes no writes"
        do = "name the primary; with several hosts in the URL: ?target_session_attrs=read-write"
        return Finding(name, Level.CRITICAL, found, why, do)
    if settings.get(READ_ONLY) == "on":
        found = f"{READ_ONLY} is on for this role"
        return Finding(name, Level.CRITICAL, found, why, f"ALTER ROLE ... RESET {READ_ONLY}")
    if told := _elsewhere(overrides, READ_ONLY, "on"):
        found = f"{READ_ONLY} is {told}"
        why = f"right for a role that only looks; for a worker's, {why}"
        return Finding(name, Level.NOTE, found, why)
    return ok(name, "it takes writes")


def _isolation(settings: Mapping[str, str], overrides: tuple[Override, ...]) -> Finding:
    name, usual = "postgres.isolation", "read committed"
    why = (
        "a claim looks at the receipts in a second statement, which has to see what was committed "
        "meanwhile; under another isolation it is refused, and no request is executed"
    )
    do = f"ALTER ROLE ... SET {ISOLATION} = 'read committed', for the workers' role"
    actual = settings.get(ISOLATION, usual)
    if actual != usual:
        return Finding(name, Level.CRITICAL, f"{ISOLATION} is {actual}", why, do)
    if told := _elsewhere(overrides, ISOLATION, "repeatable read", "serializable"):
        return Finding(name, Level.WARNING, f"{ISOLATION} is {told}", why, do)
    return ok(name, f"{ISOLATION} is {usual}")


def _fsync(settings: Mapping[str, str]) -> Finding:
    if settings.get("fsync") != "off":
        return ok("postgres.fsync", "fsync is on")
    return Finding(
        "postgres.fsync",
        Level.CRITICAL,
        "fsync is off",
        "what was committed is not on the disk: after a crash of the machine the last minutes are "
        f"gone, or the whole database; {SECOND_EXECUTION}",
        "ALTER SYSTEM SET fsync = on, then reload; nothing in replayfloor can make up for it",
    )


def _full_pages(settings: Mapping[str, str]) -> Finding:
    name = "postgres.full_page_writes"
    if settings.get("full_page_writes") != "off":
        return ok(name, "full_page_writes is on")
    return Finding(
        name,
        Level.WARNING,
        "full_page_writes is off",
        "a crash in the middle of a write leaves a page half new, also of the index that refuses "
        "second claims, unless the file system writes whole pages (as ZFS does)",
        "ALTER SYSTEM SET full_page_writes = on, then reload",
    )


def _synchronous(settings: Mapping[str, str], overrides: tuple[Override, ...]) -> Finding:
    name, value = "postgres.synchronous_commit", settings.get(SYNCHRONOUS, "on")
    standbys = settings.get("synchronous_standby_names", "")
    found = f"{SYNCHRONOUS} is {value}"
    if told := _elsewhere(overrides, SYNCHRONOUS, "off", "local", "remote_write"):
        found += f" here, and {told}"
    data = {"value": value}
    if "off" in (value, *(each.value for each in overrides if each.name == SYNCHRONOUS)):
        why = (
            "claims and receipts wait for the disk all the same, their functions see to that; "
            "what a handler commits by itself (effects='external') does not, and after a crash of "
            "the server a retry is told of an effect that is gone"
        )
        do = f"leave {SYNCHRONOUS} on for the roles that handlers write with"
        return Finding(name, Level.WARNING, found, why, do, data=data)
    if standbys and ("local" in found or "remote_write" in found):
        local = "local" in found
        why = (
            f"commits do not wait for the standbys ({standbys}): after a failover the last ones "
            f"are gone; {SECOND_EXECUTION}"
            if local
            else "a standby has received the commit, and may not have it on its disk: it is lost "
            "only if both machines fail at once"
        )
        level = Level.WARNING if local else Level.NOTE
        return Finding(name, level, found, why, f"set {SYNCHRONOUS} to on", data=data)
    return ok(name, found, **data)


def _autovacuum(settings: Mapping[str, str]) -> Finding:
    off = [each for each in ("autovacuum", "track_counts") if settings.get(each) == "off"]
    if not off:
        return ok("postgres.autovacuum", "autovacuum is on")
    return Finding(
        "postgres.autovacuum",
        Level.WARNING,
        f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: no table is vacuumed",
        "each key leaves a dead row in the claims, and each claim has to step over them: the table "
        "grows and claims get slower without end",
        f"ALTER SYSTEM SET {off[0]} = on, then reload",
    )
