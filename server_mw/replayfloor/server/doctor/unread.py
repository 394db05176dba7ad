"""What stands for a fact that could not be read. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands for what could not be read, and why."""

    reason: str


Read: TypeAlias = T | Unread
