"""How long a claim is certainly this execution's, by a clock of this process."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import monotonic


class Lease:
    """Begins when the store is asked, not when it answers: it may have begun there at once.

    That it is over does not say that another execution has the key, only that it may.
    """

    __slots__ = ("_clock", "_ended", "_lost", "_until")

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Have begun nothing. `clock` counts seconds and is never set back."""
        self._clock = clock
        self._until = -inf
        self._lost = self._ended = False

    def asked(self) -> float:
        """Return the moment to give to `begin` if the answer is yes."""
        return self._clock()

    def begin(self, asked: float, lease_ms: int) -> None:
        """Last for so long from the moment of asking."""
        if not self._ended:
            self._until = asked + lease_ms / 1000

    def lose(self) -> None:
        """Be over, whatever the time."""
        self._lost = True

    def end(self) -> bool:
        """Stay what it is now, since the claim is settled; say whether nobody has told of a loss.

        That is so if the time ran out while the store, asked for a renewal, did not answer.
        """
        untold = self.over and not self._lost
        self._lost = self.over
        self._ended, self._until = True, inf
        return untold

    @property
    def over(self) -> bool:
        """Whether another execution may have the key."""
        return self._lost or self._clock() >= self._until
