"""What the sender tells the orchestrator: one JSON object a line, complete or not at all.

A line is shorter than a pipe takes in one piece, and is written by one call, so that a SIGKILL
never leaves half of one before whole ones.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum

REASON_LENGTH_MAX = 200
"""Keeps a line below the 512 bytes that POSIX promises to write in one piece."""


class Kind(StrEnum):
    """What happened to a payment."""

    STARTED = "started"
    ENDED = "ended"
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing that happened. STARTED and ENDED are of attempts, the others of the payment.

    `elapsed_s` counts from the payment's first attempt, over restarts of the sender.
    """

    kind: Kind
    payment_id: str
    status: int | None = None
    attempts: int = 0
    elapsed_s: float = 0.0
    replayed: bool = False
    resumed: bool = False
    reason: str = ""


def to_line(message: Message) -> str:
    """Return the message as one line."""
    return json.dumps(asdict(message)) + "\n"


def from_line(line: str) -> Message:
    """Return the message of a line; the sender is ours, so a wrong one is a bug and raises."""
    content = json.loads(line)
    return Message(**{**content, "kind": Kind(content["kind"])})


def tell(message: Message) -> None:
    """Write a message to stdout, past every buffer of this process."""
    os.write(sys.stdout.fileno(), to_line(message).encode())
