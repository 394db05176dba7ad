"""Keys for the calls that an execution makes to others, derived from its own. Pure.

A handler that charges a card and sends a message needs an idempotency key for each. Derived, it
is the same key however often the handler runs under its claim: after a takeover, and in the
reconciler that asks the provider what became of the charge. Nothing has to be stored for it.
"""

from __future__ import annotations

import hashlib

from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import ReceiptId

_LABEL = b"replayfloor derived key 1"

DERIVED_CHARS = 32
"""Length of a derived key, 128 bits in hexadecimal. Amazon Pay takes at most 32 characters of
[A-Za-z0-9_-], the tightest limit that a provider publishes, so [0-9a-f]{32} is taken everywhere."""


def derived_key(id_: ReceiptId, name: str) -> str:
    """Return the key of the call `name` of the execution behind a receipt id.

    32 characters of [0-9a-f] (see DERIVED_CHARS). Equal for equal arguments, in every process and
    release; different names, or different operations, do not meet (SHA-256 over counted parts).
    Neither the caller's key nor the id can be read back from it. Raises UsageError for an empty
    name: two calls that were not named would share one key, and the second would not happen.
    """
    if not name:
        raise UsageError('derived_key: name the call that the key is for, such as "charge"')
    digest = hashlib.sha256()
    for part in (_LABEL, bytes(id_), name.encode("utf-8", "surrogatepass")):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:DERIVED_CHARS]
