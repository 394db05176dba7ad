"""The profiles that are shipped, for tests that need one of each."""

from __future__ import annotations

from replayfloor.client.catalogue import profile
from replayfloor.client.profiles import Profile

HOUR_S = 3600.0


def any_profile(name: str) -> Profile:
    """Return a profile of the catalogue: with an hour, which every published retention covers."""
    return profile(name, retention_s=HOUR_S)
