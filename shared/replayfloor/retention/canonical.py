"""A policy as text that is the same wherever it is written, and its digest. Values only.

Where figures come from is left out: a new date of reading is no new policy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

from replayfloor.retention.durations import US_PER_S, exact_us
from replayfloor.retention.terms import UNKNOWN, Term

VERSION: Final = 1
"""Of the text: digests of two versions do not compare."""


def canonical_text(
    direction: str,
    name: str,
    terms: Iterable[tuple[str, Term]],
    results: Mapping[str, float | None],
) -> str:
    """Return a policy as lines.

    `terms` are pairs of whose figure it is ("" for the policy's own) and the figure; `results` are
    what follows from them, in seconds, None if nothing does.
    """
    lines = [f"replayfloor policy {VERSION}", f"{direction} {_quoted(name)}"]
    # Sorted, because nobody orders the lines of a file for the sake of a digest.
    lines += sorted(
        f"{_quoted(owner)} {term.name.value} {_length(term.seconds)}" for owner, term in terms
    )
    lines += [f"= {result} {_length(value_s)}" for result, value_s in results.items()]
    return "\n".join(lines) + "\n"


def digest_of(text: str) -> str:
    """Return the hex SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _quoted(name: str) -> str:
    # A name cannot break out of its place, whatever is in it.
    return json.dumps(name)


def _length(seconds: float | None) -> str:
    # Not `format_duration`: how lengths are shown to people may change, a digest must not.
    if seconds is None:
        return UNKNOWN
    whole, rest = divmod(exact_us(seconds), US_PER_S)
    return f"{whole}.{rest:06d} s" if rest else f"{whole} s"
