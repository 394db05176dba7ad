"""The two drivers, and the one way to write cleanup. No decision is taken here.

A driver sends each answer into the flow, and throws each failure into it, so that the flow can
still ask for cleanup; it never closes a flow. Only the way of waiting differs between the two.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from replayfloor.core.effects import Effect, Flow

R = TypeVar("R")
Perform = Callable[[Effect[object]], object]
AsyncPerform = Callable[[Effect[object]], Awaitable[object]]


def run(flow: Flow[R], perform: Perform) -> R:
    """Drive a flow to its end, performing each effect with a blocking call."""
    try:
        effect = next(flow)
        while True:
            try:
                answer = perform(effect)
            except BaseException as error:  # noqa: BLE001 - the flow decides, not we
                failure = error
            else:
                effect = flow.send(answer)
                continue
            # Outside of the handler, so that what the flow raises has no context of ours.
            effect = flow.throw(failure)
            del failure
    except StopIteration as stop:
        return _value(stop)


async def run_async(
    flow: Flow[R], perform: AsyncPerform, perform_shielded: AsyncPerform | None = None
) -> R:
    """Drive a flow to its end, performing each effect with an await.

    After a failure has been thrown into the flow, `perform_shielded` is used (if given). The
    failure may be a cancellation, and under an anyio cancel scope every further await would be
    cancelled at once: without the shield the cleanup is asked for and not performed, and the key
    stays locked for a whole lease.
    """
    answer: object = None
    failure: BaseException | None = None
    current = perform
    while True:
        try:
            effect = flow.send(answer) if failure is None else flow.throw(failure)
        except StopIteration as stop:
            return _value(stop)
        failure = None
        try:
            answer = await current(effect)
        except BaseException as error:  # noqa: BLE001 - the flow decides, not we
            current = perform_shielded or perform
            failure = error


def ensure(flow: Flow[R], cleanup: Callable[[], Flow[object]]) -> Flow[R]:
    """Run `flow`, then `cleanup()` whether it returned or raised, and pass on what it did.

    A dropped flow (a simulated crash, garbage collection) gets GeneratorExit, and nothing may be
    yielded then: a process that died does not clean up either.
    """
    try:
        result = yield from flow
    except GeneratorExit:
        raise
    except BaseException:
        yield from cleanup()
        raise
    yield from cleanup()
    return result


def _value(stop: StopIteration) -> R:  # type: ignore[type-var]
    return stop.value  # type: ignore[no-any-return]
