"""Sequences of effects that chance decides, to hold a journal against the rules."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from replayfloor.client.journal import Journal, MemoryJournal
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    BeginOperation,
    CloseOperation,
    EndAttempt,
    PruneOperations,
    ReadOperation,
    ReleaseLease,
    RenewLease,
    Settlement,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.journal_contract import ENTRY

SEQUENCES = 12
EFFECTS_EACH = 40


def follows_the_rules(journal: Journal, seed: int) -> bool:
    """Perform a sequence; return whether every answer was that of the rules, as they are in memory.

    The journal's clock, if it has one, has to show the moments of the effects.
    """
    reference = MemoryJournal()
    ours, theirs = random.Random(seed), random.Random(seed)
    return all(
        _perform_any(journal, ours) == _perform_any(reference, theirs) for _ in range(EFFECTS_EACH)
    )


def _perform_any(journal: Journal, chance: random.Random) -> object:
    """Perform an effect that chance decides; equal chances decide the same for every journal."""
    place = ("provider", chance.choice(("invoice-1", "invoice-2")))
    at_ns, elapsed_ns = chance.randrange(20), chance.randrange(20)
    owner, lease_s = chance.choice((b"", b"\x00" * 16, b"\xff" * 16)), chance.choice((0.0, 5e-9))
    entry = replace(
        ENTRY,
        namespace=place[0],
        operation_id=place[1],
        key=chance.choice(("key-1", "key-2")),
        first_attempt_at_ns=at_ns,
        last_attempt_at_ns=at_ns,
        last_seen_at_ns=at_ns,
        send_deadline_ns=at_ns + 3,
        lease_owner=owner if lease_s else b"",
    )
    ended = EndAttempt(
        *place,
        at_ns,
        chance.choice(list(Outcome)),
        f"evidence {at_ns}",
        done=chance.random() < 0.2,
        final_status=chance.choice((None, 201)),
        elapsed_ns=elapsed_ns,
        lease_owner=owner,
        response=chance.choice((None, b"", b"answer")),
        retention_s=chance.choice((None, 0.0, 2.5)),
        send_deadline_ns=elapsed_ns,
    )
    settlement = chance.choice(list(Settlement))
    performs: list[Callable[[], object]] = [
        lambda: journal.begin(BeginOperation(entry, lease_s)),
        lambda: journal.start_attempt(StartAttempt(*place, at_ns, elapsed_ns, owner, lease_s)),
        lambda: journal.start_attempt(StartAttempt(*place, at_ns, elapsed_ns, owner, lease_s)),
        lambda: journal.end_attempt(ended),
        lambda: journal.renew_lease(RenewLease(*place, at_ns, owner, lease_s)),
        lambda: journal.release_lease(ReleaseLease(*place, owner)),
        lambda: journal.close_operation(CloseOperation(*place, at_ns, elapsed_ns)),
        lambda: journal.settle(SettleOperation(*place, at_ns, settlement, f"note {at_ns}")),
        lambda: journal.prune(PruneOperations(None, at_ns)),
        lambda: journal.read(ReadOperation(*place)),
        journal.history,
        journal.count_pending,
    ]
    weights = [4, 4, 4, 4, 3, 2, 1, 1, 1, 1, 1, 1]
    (perform,) = chance.choices(performs, weights)
    try:
        return perform()
    except StoreUnavailable as error:
        return str(error)
