"""How a call of the flow begins: its key, its entry in the journal, and the lease to send. Pure.

Of several calls of one operation, in one process or in several, one sends at a time. The others
wait until it is done and then ask for its answer with the same key, or read the one that was kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from replayfloor.client.effects import NOW, Emit, Entropy, Moment, Operation, Sleep
from replayfloor.client.events import Ending, JournalFailed, WaitReason, WaitStarted
from replayfloor.client.flow_entry import entry_from
from replayfloor.client.policy import lease_poll_s
from replayfloor.client.profile_keys import KEY_ENTROPY_BYTES
from replayfloor.client.progress import UNPROVEN, Progress, Terms, Verdict
from replayfloor.client.support import (
    RecallSupport,
    Support,
    deadline_after,
    place_of,
)
from replayfloor.core.effects import Flow
from replayfloor.core.errors import ReceiptCorrupt, StoreUnavailable
from replayfloor.core.fingerprint import differing_parts
from replayfloor.core.journal import (
    LATCHED,
    LEASE_OWNER_BYTES,
    BeginOperation,
    Begun,
    JournalEntry,
    OperationState,
    ReadOperation,
    RenewLease,
    StartAttempt,
)
from replayfloor.core.journal_rules import NS_PER_S, leased_to_another
from replayfloor.core.message import Response
from replayfloor.core.outcome import Outcome
from replayfloor.core.receipt import decode_receipt

LEASE_WAIT_MIN_S: Final = 0.05
"""Least wait between two looks at another call's lease. Its end is a moment of the journal's clock,
which may be a database's: the clock here may show that it has ended, and the journal not."""

_CALL_ENTROPY: Final = Entropy(max(KEY_ENTROPY_BYTES, LEASE_OWNER_BYTES))
_NS_PER_MS = 1_000_000
_BUSY = "another call of this operation is sending it"


def propose(operation: Operation, terms: Terms) -> Flow[Progress]:
    """Return the call with the entry that it would write; nothing is written here."""
    moment = yield NOW
    assert isinstance(moment, Moment)
    # Names the call, and makes its key if it has none: both have to differ from those of every
    # other call, and whoever can see or write the one in the journal can do so with the other.
    owner = yield _CALL_ENTROPY
    assert isinstance(owner, bytes)
    profile = terms.profile
    # Taken before the journal's commit, so earlier than the provider's own count begins.
    first_ns = moment.wall_ns
    key = operation.key
    if key is None:
        # Made once, before everything else: whatever is repeated below is repeated under it.
        key = profile.mint_key(first_ns // _NS_PER_MS, owner[:KEY_ENTROPY_BYTES])
    place = place_of(terms.learning, operation.origin, operation.path)
    support = yield RecallSupport(place)
    entry = entry_from(
        terms.blank,
        operation_id=operation.operation_id or key,
        key=key,
        method=operation.method,
        origin=operation.origin,
        path=operation.path,
        fingerprint=operation.fingerprint,
        first_attempt_at_ns=first_ns,
        boot_id=moment.boot_id,
        first_boot_ns=moment.boot_ns,
        send_deadline_ns=deadline_after(profile, terms.blank.retention_s, first_ns),
        last_attempt_at_ns=first_ns,
        last_seen_at_ns=first_ns,
        lease_owner=owner,
        # By the clock here; a journal with a clock of its own says when it ends.
        lease_until_ns=first_ns + int(terms.policy.lease_s * NS_PER_S),
    )
    progress = Progress(terms, entry, owner, moment)
    if support is not None:
        assert isinstance(support, Support)
        progress.expect(support)
    return progress


def begin(progress: Progress, operation: Operation) -> Flow[Verdict | None]:
    """Write ahead, or take up the operation that stands; return a verdict if it may not go on."""
    try:
        begun = yield BeginOperation(progress.entry, progress.terms.policy.lease_s)
        assert isinstance(begun, Begun)
    except StoreUnavailable as error:
        progress.entry = replace(progress.entry, attempts=0)
        progress.leased = False
        if operation.operation_id is not None or operation.key is not None:
            # An earlier call may have sent it, and only the journal could tell.
            progress.known = Outcome.UNKNOWN
        return (yield from _journal_failed(progress, error))
    if not begun.resumed:
        progress.take(begun.entry)
        return None
    progress.adopt(begun.entry)
    if difference := _difference(begun.entry, operation):
        return progress.verdict(Ending.MISMATCH, difference)
    return _over(progress)


def _difference(standing: JournalEntry, operation: Operation) -> str | None:
    """Return how the request differs from the one that stands under its operation id or key."""
    if operation.operation_id not in (None, standing.operation_id):
        return f"the key belongs to the operation {standing.operation_id!r}"
    if operation.key not in (None, standing.key) and not operation.key_yields:
        return f"the operation was begun with another key, {standing.key!r}"
    now = (operation.method, operation.origin, operation.path)
    before = (standing.method, standing.origin, standing.path)
    if now != before:
        return "it was begun as {} {}{}, and is now {} {}{}".format(*before, *now)
    if standing.fingerprint not in (operation.fingerprint, operation.fingerprint_before):
        if not differing_parts(standing.fingerprint, operation.fingerprint):
            return (
                "the profile writes its key in another form than the one it was begun with (its "
                "header, quoted or body_field), and the server would take it for another key"
            )
        return "the request differs from the first one in its query, media type or body"
    return None


def _over(progress: Progress) -> Verdict | None:
    """Return the verdict on an operation that needs no attempt, or gets none."""
    if progress.entry.state in LATCHED:
        return progress.latched()
    if progress.entry.state is not OperationState.DONE:
        return None
    if kept_answer(progress.entry) is not None:
        return progress.verdict(Ending.KEPT)
    # Asked for again, it might be executed again.
    return progress.verdict(Ending.CLOSED, UNPROVEN) if progress.unproven else None


def kept_answer(entry: JournalEntry) -> Response | None:
    """Return the answer that the journal kept; None if it kept none, or none that can be read."""
    if entry.response is None:
        return None
    try:
        return decode_receipt(entry.fingerprint, entry.response).response
    except ReceiptCorrupt:
        return None


def take_lease(progress: Progress) -> Flow[Verdict | None]:
    """Count an attempt that the journal does not know of yet, once nobody else is sending.

    The count and the lease are one compare-and-set. Between the look that finds the lease free and
    the taking of it another call may be faster; then the wait goes on. Whether it has ended is for
    the journal to say, by its own clock; the one here only says when it is worth asking again.
    """
    looks = 0
    while True:
        start = StartAttempt(
            progress.entry.namespace,
            progress.entry.operation_id,
            progress.seen.wall_ns,
            progress.elapsed_ns,
            progress.owner,
            progress.terms.policy.lease_s,
        )
        try:
            # Asked for, and perhaps had: a call that is cancelled here has to give it back.
            progress.leased = True
            entry = yield from start
        except StoreUnavailable as error:
            return (yield from _journal_failed(progress, error))
        progress.take(entry)
        if entry.state in LATCHED:
            return progress.latched()  # another call closed it meanwhile
        if entry.lease_owner in (b"", progress.owner):
            progress.counted = True
            return None
        progress.leased = False
        refused_ns = progress.elapsed_ns
        while True:
            verdict = yield from _wait_for_another(progress, looks)
            if verdict is not None:
                return verdict
            looks += 1
            if _worth_asking(progress, refused_ns):
                break


def _worth_asking(progress: Progress, refused_ns: int) -> bool:
    """Return whether the lease that was refused at this elapsed time may have ended by now.

    The clock here may be behind the journal's by any time, and the lease seem to last for as long:
    after the length of a lease it is asked for in any case.
    """
    waited_ns = progress.elapsed_ns - refused_ns
    if waited_ns >= progress.terms.policy.lease_s * NS_PER_S:
        return True
    return not leased_to_another(progress.entry, progress.owner, progress.seen.wall_ns)


def _wait_for_another(progress: Progress, looks: int) -> Flow[Verdict | None]:
    """Wait a little and look what the other call has come to; return a verdict if that is it."""
    progress.hear(progress.entry)
    left_s = (progress.entry.lease_until_ns - progress.seen.wall_ns) / NS_PER_S
    wait_s = lease_poll_s(looks)
    if left_s > 0:
        wait_s = max(LEASE_WAIT_MIN_S, min(left_s, wait_s))
    if not progress.fits(wait_s):
        return progress.stopped(_BUSY)
    if looks == 0:
        reason = WaitReason.ANOTHER_CALL
        waiting = WaitStarted(**progress.facts(), wait_s=max(wait_s, left_s), reason=reason)
        yield from Emit(waiting)
    yield from Sleep(wait_s)
    progress.slept(wait_s)
    progress.see((yield from NOW))
    try:
        entry = yield from ReadOperation(progress.entry.namespace, progress.entry.operation_id)
    except StoreUnavailable as error:
        return (yield from _journal_failed(progress, error))
    if entry is None:
        return progress.stopped("the journal has no entry of this operation any more")
    progress.hear(entry)
    return _over(progress)


def keep_lease(progress: Progress, wait_s: float) -> Flow[None]:
    """Keep the lease over a wait that is longer than it: the server has asked everybody to wait."""
    entry, lease_s = progress.entry, progress.terms.policy.lease_s
    by_the_clock_ns = entry.lease_until_ns - progress.seen.wall_ns
    # If the journal's clock is ahead of the one here, the lease only seems to last.
    by_the_count_ns = lease_s * NS_PER_S - (progress.elapsed_ns - progress.attempt_began_ns)
    if min(by_the_clock_ns, by_the_count_ns) > wait_s * NS_PER_S or not progress.leased:
        return
    place = (entry.namespace, entry.operation_id, progress.seen.wall_ns)
    try:
        progress.take((yield from RenewLease(*place, progress.owner, wait_s + lease_s)))
    except StoreUnavailable as error:
        yield from Emit(JournalFailed(**progress.facts(), evidence=str(error)))


def _journal_failed(progress: Progress, error: StoreUnavailable) -> Flow[Verdict]:
    """Nothing is sent that the journal does not know of."""
    yield from Emit(JournalFailed(**progress.facts(), evidence=str(error)))
    if progress.finding is None:
        return progress.verdict(Ending.JOURNAL_UNAVAILABLE, str(error), error)
    return progress.stopped(cause=error)
