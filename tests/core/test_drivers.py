"""The drivers: answers are sent, failures are thrown, and cleanup is performed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import pytest
from anyio.lowlevel import checkpoint

from replayfloor.core.drivers import ensure, run, run_async
from replayfloor.core.effects import Effect, Flow


@dataclass(frozen=True)
class Do(Effect[str]):
    """An effect whose answer is its name in capitals; "fail…" raises."""

    name: str


class Failed(Exception):
    """What performing an effect raises."""


class World:
    """Performs `Do`, in both colours, and remembers what and how."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.shielded: list[str] = []

    def perform(self, effect: Effect[object]) -> object:
        assert isinstance(effect, Do)
        self.done.append(effect.name)
        if effect.name.startswith("fail"):
            raise Failed(effect.name)
        return effect.name.upper()

    async def perform_async(self, effect: Effect[object]) -> object:
        if effect == Do("wait"):
            self.done.append("wait")
            await anyio.sleep_forever()
        await checkpoint()
        return self.perform(effect)

    async def perform_shielded(self, effect: Effect[object]) -> object:
        assert isinstance(effect, Do)
        answer: object = None
        with anyio.CancelScope(shield=True):
            answer = await self.perform_async(effect)
            self.shielded.append(effect.name)
        return answer


Driver = Callable[[Flow[str], World], str]


def _sync(flow: Flow[str], world: World) -> str:
    return run(flow, world.perform)


def _async(flow: Flow[str], world: World) -> str:
    return asyncio.run(run_async(flow, world.perform_async, world.perform_shielded))


def _async_without_shield(flow: Flow[str], world: World) -> str:
    return asyncio.run(run_async(flow, world.perform_async))


every_driver = pytest.mark.parametrize("drive", [_sync, _async, _async_without_shield])


def _several(*names: str) -> Flow[str]:
    text = ""
    for name in names:
        answer = yield from Do(name)
        text += f"{answer} "
    return text


def _cleanup() -> Flow[object]:
    return (yield from Do("cleanup"))


@every_driver
def test_every_answer_is_sent_and_the_value_is_returned(drive: Driver) -> None:
    world = World()

    assert drive(_several("a", "b", "c"), world) == "A B C "
    assert world.done == ["a", "b", "c"]


@every_driver
def test_a_flow_without_effects_returns_its_value(drive: Driver) -> None:
    assert drive(_several(), World()) == ""


@every_driver
def test_a_failure_is_thrown_where_the_effect_was_asked_for(drive: Driver) -> None:
    def flow() -> Flow[str]:
        try:
            yield from Do("fail")
        except Failed:
            return (yield from Do("instead"))
        return "not thrown"

    assert drive(flow(), World()) == "INSTEAD"


@every_driver
def test_a_failure_that_the_flow_does_not_catch_comes_out(drive: Driver) -> None:
    world = World()

    with pytest.raises(Failed, match="fail"):
        drive(_several("a", "fail", "b"), world)
    assert world.done == ["a", "fail"]


@every_driver
def test_cleanup_runs_after_a_return(drive: Driver) -> None:
    world = World()

    assert drive(ensure(_several("a"), _cleanup), world) == "A "
    assert world.done == ["a", "cleanup"]


@every_driver
def test_cleanup_runs_after_a_failure_which_comes_out(drive: Driver) -> None:
    world = World()

    with pytest.raises(Failed):
        drive(ensure(_several("fail", "a"), _cleanup), world)
    assert world.done == ["fail", "cleanup"]


def test_a_dropped_flow_cleans_nothing_up() -> None:
    asked: list[str] = []

    def cleanup() -> Flow[object]:
        asked.append("cleanup")
        return (yield from Do("cleanup"))

    flow = ensure(_several("a"), cleanup)
    assert next(flow) == Do("a")
    flow.close()
    del flow
    gc.collect()

    assert asked == []


async def _cancel_task(driving: Awaitable[str]) -> None:
    task = asyncio.ensure_future(driving)
    await anyio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def _cancel_scope(driving: Awaitable[str]) -> None:
    with anyio.move_on_after(0.01) as scope:
        await driving
    assert scope.cancelled_caught


async def _asyncio_timeout(driving: Awaitable[str]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(driving, 0.01)


@pytest.mark.anyio
@pytest.mark.parametrize("cancel", [_cancel_task, _cancel_scope, _asyncio_timeout])
async def test_cleanup_is_performed_under_a_cancellation(
    cancel: Callable[[Awaitable[str]], Awaitable[None]],
) -> None:
    world = World()
    flow = ensure(_several("a", "wait", "b"), _cleanup)

    await cancel(run_async(flow, world.perform_async, world.perform_shielded))

    assert world.done == ["a", "wait", "cleanup"]
    assert world.shielded == ["cleanup"]


@pytest.mark.anyio
async def test_before_a_failure_nothing_is_shielded_and_after_it_everything_is() -> None:
    def flow() -> Flow[str]:
        yield from Do("before")
        with contextlib.suppress(Failed):
            yield from Do("fail")
        yield from Do("after")
        return (yield from Do("later"))

    world = World()

    await run_async(flow(), world.perform_async, world.perform_shielded)
    assert world.shielded == ["after", "later"]
