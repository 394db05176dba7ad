"""Does a server keep its word about `Idempotency-Key`? A kit that asks it from outside.

    replayfloor conform https://api.example/payments --body '{"amount": 1}'

Checks are flows (`replayfloor.core.effects`): they say what to send and judge what came back.
Only `shell` sends. Neither side of replayfloor is imported here: any server is asked alike.
"""

from replayfloor.conform.catalogue import CHECKS, select
from replayfloor.conform.effects import Leave, Seen, Sending
from replayfloor.conform.session import Report, run_checks
from replayfloor.conform.target import Kind, Target
from replayfloor.conform.verdicts import Check, Level, Outcome, Result, Verdict

__all__ = [
    "CHECKS",
    "Check",
    "Kind",
    "Leave",
    "Level",
    "Outcome",
    "Report",
    "Result",
    "Seen",
    "Sending",
    "Target",
    "Verdict",
    "run_checks",
    "select",
]
