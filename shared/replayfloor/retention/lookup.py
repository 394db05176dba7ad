"""What a policy file needs of a catalogue: figures of senders and providers, by name."""

from __future__ import annotations

from typing import Protocol

from replayfloor.retention.parties import Provider, Sender


class Catalogue(Protocol):
    """Where published figures are looked up."""

    def sender(self, name: str) -> Sender | None:
        """Return who delivers to us under that name; None if it is not listed."""
        ...

    def provider(self, name: str) -> Provider | None:
        """Return who takes our requests under that name; None if it is not listed."""
        ...

    def sender_names(self) -> tuple[str, ...]:
        """Return the names that `sender` knows."""
        ...

    def provider_names(self) -> tuple[str, ...]:
        """Return the names that `provider` knows."""
        ...


class NoCatalogue:
    """A catalogue without entries."""

    def sender(self, name: str) -> Sender | None:
        """Return None."""
        del name
        return None

    def provider(self, name: str) -> Provider | None:
        """Return None."""
        del name
        return None

    def sender_names(self) -> tuple[str, ...]:
        """Return ()."""
        return ()

    def provider_names(self) -> tuple[str, ...]:
        """Return ()."""
        return ()
