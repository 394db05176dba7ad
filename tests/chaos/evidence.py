"""What is found after a run, past every server: ledgers, receipts, claims, workers' trails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from chaos.bank import Bank, Effect
from chaos.trail import Note, read_trails
from replayfloor.core.message import Response
from replayfloor.core.receipt import decode_receipt

LEDGER = "select payment, charge, amount, run, at from ledger"
RECEIPTS = "select id, fingerprint, response from replayfloor.receipts"
CLAIMS = """
select id, extract(epoch from claimed_at)::double precision, lease_until <= clock_timestamp()
from replayfloor.claims
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """A claim that stands; `over` says that its lease has ended."""

    at: float
    over: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """By payment: what was done. By receipt id: what was kept, what stands, what was noted."""

    effects: dict[str, list[Effect]]
    receipts: dict[str, list[Response]]
    claims: dict[str, Standing]
    notes: dict[str, list[Note]]

    @classmethod
    def gather(cls, url: str, bank: Bank, trails: Iterable[Path]) -> Evidence:
        """Read everything; nobody may be writing any more."""
        effects = defaultdict[str, list[Effect]](list)
        receipts = defaultdict[str, list[Response]](list)
        with psycopg.connect(url) as database:
            charged = [Effect(*row) for row in database.execute(LEDGER).fetchall()]
            for id_, fingerprint, response in database.execute(RECEIPTS).fetchall():
                receipt = decode_receipt(fingerprint.bytes, response)
                receipts[id_.hex].append(receipt.response)
            claims = {
                id_.hex: Standing(at, over) for id_, at, over in database.execute(CLAIMS).fetchall()
            }
        for effect in (*charged, *bank.effects):
            effects[effect.payment].append(effect)
        return cls(effects, receipts, claims, read_trails(trails))

    def done(self, payment: str) -> list[Effect]:
        """Return the charges of a payment: a call that the bank recognised charged nothing."""
        return [effect for effect in self.effects.get(payment, ()) if not effect.repeated]

    def noted(self, receipt: str) -> Sequence[Note]:
        """Return what the workers noted about a receipt, oldest first."""
        return self.notes.get(receipt, ())
