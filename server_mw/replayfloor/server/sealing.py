"""Keeps answers enciphered at rest, with a cipher that the user brings. No cryptography of ours.

Sealed and opened where effects are performed, so that neither the flow nor a store nor a lock
knows of it: what reaches Postgres and Redis is the status and a ciphertext.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Protocol

from replayfloor.core.claims import Cached, ClaimAnswer, Finish, Finished, LockAnswer, Release
from replayfloor.core.errors import ConfigurationError
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt, decode_content, encode_content

log = logging.getLogger("replayfloor.server")


class Cipher(Protocol):
    """What `response_cipher` has to do; `cryptography.fernet.MultiFernet` does, with rotation."""

    def encrypt(self, data: bytes, /) -> bytes:
        """Return the ciphertext, authenticated, under the newest key."""
        ...

    def decrypt(self, token: bytes, /) -> bytes:
        """Return the plaintext; raise any exception if no key fits."""
        ...


class Sealer:
    """Seals receipts on their way to a store and opens them on their way back."""

    def __init__(self, cipher: Cipher | None) -> None:
        """Do nothing without a cipher. Raises ConfigurationError for one that is none."""
        for method in ("encrypt", "decrypt"):
            if cipher is not None and not callable(getattr(cipher, method, None)):
                raise ConfigurationError(
                    "response_cipher: expected an object with encrypt(bytes) and decrypt(bytes), "
                    "such as cryptography.fernet.MultiFernet"
                )
        self._cipher = cipher

    def seal(self, receipt: Receipt) -> Receipt:
        """Return the receipt with headers and body enciphered; the status stays readable."""
        if self._cipher is None:
            return receipt
        token = self._cipher.encrypt(encode_content(receipt.response))
        return replace(receipt, response=Response(receipt.response.status, (), token), sealed=True)

    def open(self, receipt: Receipt) -> Receipt:
        """Return the receipt as it was.

        One that cannot be opened (its key is gone, or no cipher is configured) is returned as a
        tombstone: the request was executed and must not be again, whatever was lost.
        """
        if not receipt.sealed:
            return receipt
        status = receipt.response.status
        try:
            if self._cipher is None:
                raise ConfigurationError("no response_cipher is configured")
            response = decode_content(status, self._cipher.decrypt(receipt.response.body))
        except Exception:
            log.exception("a sealed receipt cannot be opened; its answer is not replayed")
            response, tombstone = Response(status, (), b""), True
        else:
            tombstone = receipt.tombstone
        return Receipt(receipt.fingerprint, response, tombstone)

    # -- what passes between a flow and the stores ------------------------------------------------

    def seal_finish(self, finish: Finish) -> Finish:
        """Return the effect with its receipt sealed."""
        return replace(finish, receipt=self.seal(finish.receipt)) if self._cipher else finish

    def seal_release(self, release: Release) -> Release:
        """Return the effect with its receipt sealed, if it has one."""
        if self._cipher is None or release.receipt is None:
            return release
        return replace(release, receipt=self.seal(release.receipt))

    def open_claim(self, answer: ClaimAnswer) -> ClaimAnswer:
        """Return the answer with its receipt opened, if it has one."""
        if not isinstance(answer, Finished) or not answer.receipt.sealed:
            return answer
        return replace(answer, receipt=self.open(answer.receipt))

    def open_lock(self, answer: LockAnswer) -> LockAnswer:
        """Return the answer with its receipt opened, if it has one."""
        if not isinstance(answer, Cached) or not answer.receipt.sealed:
            return answer
        return Cached(self.open(answer.receipt))
