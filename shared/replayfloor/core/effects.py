"""What a flow is: a generator that yields effects and is sent their answers.

An effect names one atomic operation on one system, as a value. A flow decides, a driver
(`replayfloor.core.drivers`) performs. Between two effects anything may happen: a crash, an expired
lease, another process. That is what makes a flow testable: `replayfloor.testing` visits every
order of the effects of several flows.

Two rules for whoever writes a flow. There is no `yield` inside `finally`: a flow that is dropped
gets GeneratorExit, and a generator that yields then is an error; write cleanup with
`drivers.ensure`. And no clock, randomness, logging or I/O: each of them is an effect.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, TypeAlias, TypeVar

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class Effect(Generic[T_co]):
    """One atomic operation on one system: `answer = yield from effect`, typed as T_co."""

    __slots__ = ()

    def __iter__(self) -> Generator[Effect[object], object, T_co]:
        """Yield the effect itself and return the answer the driver sends."""
        # Not `cast`, which is a call at run time, and made for every effect.
        return (yield self)  # type: ignore[return-value]


Flow: TypeAlias = Generator[Effect[object], object, R]
