"""Fixtures of the tests on the wire."""

from client.peers.certificates import identity

__all__ = ["identity"]
