"""The option `maintain=`: the maintenance as a part of the middleware. Which worker does it is
settled in the database; see `maintenance`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.maintenance import Maintenance
from replayfloor.server.options import OnEvent, RetentionOption
from replayfloor.server.stores.maintenance import Outcome, Run


@dataclass(frozen=True, slots=True)
class Maintain:
    """What the maintenance goes by: the middleware's own options."""

    retention: RetentionOption
    policy: InboundPolicy | None
    audit_retention: timedelta | float | None

    def of(self, receipts: object, on_event: OnEvent | None) -> Maintenance:
        """Return the maintenance of a middleware's receipts. Raises ConfigurationError."""
        if not isinstance(receipts, str):
            raise ConfigurationError(
                "maintain=True needs the receipts as a URL; for a store that was made elsewhere, "
                "start a replayfloor.server.maintenance.Maintenance beside it"
            )

        def tell(run: Run) -> None:
            if on_event is not None:
                on_event(_event(run))

        return Maintenance(
            receipts,
            retention=self.retention,
            policy=self.policy,
            audit_retention=self.audit_retention,
            on_run=tell,
        )


def _event(run: Run) -> ServerEvent:
    if run.outcome is not Outcome.DONE:
        return ServerEvent(EventKind.MAINTENANCE_FAILED, "", run.detail)
    made = f"{run.made} partitions made, {run.dropped} dropped, {run.removed} receipts deleted"
    return ServerEvent(EventKind.MAINTAINED, "", made)
