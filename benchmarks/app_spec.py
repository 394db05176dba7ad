"""Which application a worker serves: told by its parent, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

Protection: TypeAlias = Literal["bare", "floor", "ours"]


@dataclass(frozen=True, slots=True)
class AppSpec:
    """Which application.

    Attributes:
        protection: what is around the handler.
        receipts: where receipts are, as the middleware takes it.
        lock: where locks are; "local" for none beyond the process.
        atomic: the handler writes one row, in one commit with the receipt.
    """

    protection: Protection = "bare"
    receipts: str = ""
    lock: str = "local"
    atomic: bool = False

    def as_json(self) -> str:
        """Return it as an argument."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> AppSpec:
        """Read an argument."""
        return cls(**json.loads(text))
