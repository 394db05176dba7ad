"""One timer for all renewals: each begins when it is due, and none that was stopped."""

from __future__ import annotations

import asyncio

import pytest

from replayfloor.server.keeper_async import AsyncAlarm, AsyncLeaseKeeper

SHORT_S, LONG_S = 0.05, 0.15


class Renewals:
    """Who was renewed, in order; a renewal lasts until it is cancelled."""

    def __init__(self, alarm: AsyncAlarm) -> None:
        self.alarm = alarm
        self.begun: list[str] = []
        self.lost: list[str] = []

    def keep(self, name: str, first_s: float) -> AsyncLeaseKeeper:
        async def renew() -> None:
            self.begun.append(name)
            await asyncio.Event().wait()

        return AsyncLeaseKeeper(self.alarm, first_s, renew, lambda: self.lost.append(name))


@pytest.fixture
def renewals() -> Renewals:
    return Renewals(AsyncAlarm())


@pytest.mark.anyio
async def test_renewals_begin_in_the_order_in_which_they_are_due(renewals: Renewals) -> None:
    keepers = [renewals.keep("long", LONG_S), renewals.keep("first", SHORT_S)]
    await asyncio.sleep(SHORT_S / 2)
    keepers.append(renewals.keep("second", SHORT_S))
    assert renewals.begun == []

    await asyncio.sleep(2 * LONG_S)

    assert renewals.begun == ["first", "second", "long"]
    for keeper in keepers:
        keeper.stop()


@pytest.mark.anyio
async def test_what_was_stopped_is_not_renewed_and_the_others_are(renewals: Renewals) -> None:
    stopped, kept = renewals.keep("stopped", SHORT_S), renewals.keep("kept", SHORT_S)
    stopped.stop()
    stopped.stop()

    await asyncio.sleep(3 * SHORT_S)

    assert renewals.begun == ["kept"]
    kept.stop()


@pytest.mark.anyio
async def test_a_renewal_begins_also_after_all_others_had_ended(renewals: Renewals) -> None:
    renewals.keep("before", SHORT_S).stop()
    await asyncio.sleep(3 * SHORT_S)

    kept = renewals.keep("after", SHORT_S)
    await asyncio.sleep(3 * SHORT_S)

    assert renewals.begun == ["after"]
    kept.stop()


def test_another_event_loop_rings_for_itself() -> None:
    """The timer of a loop that has ended never rings; what is set later must not rely on it."""
    alarm = AsyncAlarm()
    renewals = Renewals(alarm)

    async def one_request(name: str, lasts_s: float) -> None:
        keeper = renewals.keep(name, SHORT_S)
        await asyncio.sleep(lasts_s)
        keeper.stop()

    asyncio.run(one_request("in the first loop", 0.0))
    asyncio.run(one_request("in the second loop", 3 * SHORT_S))

    assert renewals.begun == ["in the second loop"]
