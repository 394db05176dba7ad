"""The entry that a call proposes: the blank one of its transport, and what is the call's own. Pure.

What the fields are is said in `replayfloor.core.journal`, what fills them in `flow_begin`.
"""

from __future__ import annotations

from typing import Final, Protocol

from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.journal import JournalEntry
from replayfloor.core.making import changer


class MakesEntry(Protocol):
    """Return the entry of a call, from the blank one."""

    def __call__(
        self,
        value: JournalEntry,
        *,
        operation_id: str,
        key: str,
        method: str,
        origin: str,
        path: str,
        fingerprint: Fingerprint,
        first_attempt_at_ns: int,
        boot_id: str,
        first_boot_ns: int,
        send_deadline_ns: int,
        last_attempt_at_ns: int,
        last_seen_at_ns: int,
        lease_owner: bytes,
        lease_until_ns: int,
    ) -> JournalEntry: ...


entry_from: Final[MakesEntry] = changer(
    JournalEntry,
    "operation_id", "key", "method", "origin", "path", "fingerprint", "first_attempt_at_ns",
    "boot_id", "first_boot_ns", "send_deadline_ns", "last_attempt_at_ns", "last_seen_at_ns",
    "lease_owner", "lease_until_ns",
)  # fmt: skip
