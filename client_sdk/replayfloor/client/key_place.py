"""Where and how a profile writes its key, as a part of what tells a request from others. Pure.

A server reads `k` and `"k"` as two keys, and does not look for one in another field. So an
operation that was begun in one form must not be sent in another: it would be executed again. The
form is mixed into the fingerprint that the journal keeps, and a change of the profile between two
attempts is found like a change of the request. It needs no column of its own, and so no change of
any journal's schema; and it is refused, rather than the old form restored, because whoever changed
the profile may have been right: then the first attempts were sent without a key that counts.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from replayfloor.client.profiles import Profile
from replayfloor.core.fingerprint import DIGEST_BYTES, PARTS, Fingerprint

PLACES_MAX: Final = 64
"""Forms remembered: one for each profile of a process, of which few have more than some."""

_MIXED_BYTES: Final = DIGEST_BYTES - len(PARTS)
"""Those of the whole request. The others tell its parts apart, and the form is none of them."""


def with_place(fingerprint: Fingerprint, profile: Profile) -> Fingerprint:
    """Return the fingerprint of a request whose key is written as the profile says."""
    mask = _mask(profile.header, profile.body_field, quoted=profile.quoted)
    return Fingerprint((int.from_bytes(fingerprint, "big") ^ mask).to_bytes(DIGEST_BYTES, "big"))


@lru_cache(PLACES_MAX)
def _mask(header: str, body_field: str, *, quoted: bool) -> int:
    form = ("body", body_field) if body_field else ("header", header.lower(), str(quoted))
    digest = hashlib.sha256("\n".join(form).encode()).digest()[:_MIXED_BYTES]
    return int.from_bytes(digest, "big") << 8 * len(PARTS)
