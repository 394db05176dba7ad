"""Where a profile's figures come from. Data only; what a figure means is said in `profiles`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNKNOWN: Final = "unknown"
"""No source states it. It is a value like any other, and never replaced by a guess."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place where a figure was read.

    `read_on` is the date of the page, commit or API version, as YYYY-MM-DD, or "unknown": then it
    counts as old. `says` is what it says, in our words.
    """

    at: str
    read_on: str
    says: str

    def __str__(self) -> str:
        """Return the place with its date, for messages."""
        return f"{self.at} (read on: {self.read_on})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One figure of a profile.

    `value` is the figure as text, or "unknown". `confidence` is "documented" by the provider, read
    from its "official SDK", "third-party", "presumed" by us, "given" by the caller, or "not found".
    `conflict` says how sources disagree; the figure is then the safer one.
    """

    figure: str
    value: str
    confidence: str
    sources: tuple[Source, ...]
    conflict: str = ""

    def __str__(self) -> str:
        """Return the figure with its sources, for messages."""
        return f"{self.figure} = {self.value}, {self.confidence}: " + "; ".join(
            str(source) for source in self.sources
        )
