"""Every check, in the order in which they are run and shown; and how some are chosen."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from replayfloor.conform import (
    checks_answers,
    checks_browser,
    checks_gone,
    checks_keys,
    checks_malformed,
    checks_mismatch,
    checks_problems,
    checks_replay,
    checks_together,
)
from replayfloor.conform.verdicts import Check
from replayfloor.core.errors import UsageError

CHECKS: Final[tuple[Check, ...]] = (
    *checks_keys.CHECKS,
    *checks_malformed.CHECKS,
    *checks_replay.CHECKS,
    *checks_mismatch.CHECKS,
    *checks_together.CHECKS,
    *checks_answers.CHECKS,
    *checks_gone.CHECKS,
    *checks_problems.CHECKS,
    *checks_browser.CHECKS,
)


def select(ids: Collection[str]) -> tuple[Check, ...]:
    """Return the checks that have one of these ids, or look at a rule with one; all for none.

    Raises UsageError for an id that no check has.
    """
    if not ids:
        return CHECKS
    known = {name for check in CHECKS for name in (check.id, *check.rules)}
    strange = sorted(set(ids) - known)
    if strange:
        raise UsageError(f"no check has the id {', '.join(strange)}")
    return tuple(check for check in CHECKS if {check.id, *check.rules} & set(ids))
