"""Fixtures of the tests against other parties."""

from client.peers.certificates import identity

__all__ = ["identity"]
