"""Either library, blocking or not: the four ways in which a test against a party is run."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from client.stacks import STACKS, Stack


@dataclass(frozen=True, slots=True)
class Colour:
    """One library, blocking or not."""

    stack: Stack
    blocking: bool

    def __str__(self) -> str:
        return f"{self.stack.name}-{'sync' if self.blocking else 'async'}"


EVERY = [Colour(stack, blocking) for stack in STACKS for blocking in (True, False)]
in_every_colour = pytest.mark.parametrize("colour", EVERY, ids=str)
in_two_colours = pytest.mark.parametrize("colour", [EVERY[0], EVERY[-1]], ids=str)
"""For tests that have to wait: each library and each colour once."""
