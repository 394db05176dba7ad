"""The part of an inbox's contract that is about events of one subject. See `inbox_contract`."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from replayfloor.server.webhooks.inbox.effects import Bury, Done, Later
from replayfloor.testing.inbox_subject import (
    LONG_MS,
    InboxSubject,
    item,
    new_fence,
)


@pytest.mark.anyio
class InboxOrderContract:
    """Events of one subject are handed out one by one, in the order of their arrival."""

    async def test_an_event_waits_until_the_one_before_it_was_applied(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item("first", subject="c-1"))
        await subject.put(item("second", subject="c-1"))
        first = await subject.taken()
        while_it_runs = await subject.take()
        await subject.inbox.done(Done(first.id, first.fence))

        assert first.event_id == "first"
        assert while_it_runs is None
        assert (await subject.taken()).event_id == "second"

    async def test_an_event_waits_while_the_one_before_it_is_put_off(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item("first", subject="c-1"))
        await subject.put(item("second", subject="c-1"))
        first = await subject.taken()
        await subject.inbox.later(Later(first.id, first.fence, LONG_MS, "no"))

        assert await subject.take() is None

    async def test_a_dead_event_holds_its_subject_and_no_other(self, subject: InboxSubject) -> None:
        await subject.put(item("first", subject="c-1"))
        await subject.put(item("held", subject="c-1"))
        first = await subject.taken()
        await subject.inbox.bury(Bury(first.id, first.fence, "no"))
        await subject.put(item("other subject", subject="c-2"))
        await subject.put(item("no subject"))
        await subject.put(item("other endpoint", subject="c-1", endpoint="/hooks/other"))
        names = [(await subject.taken()).event_id for _ in range(3)]

        assert names == ["other subject", "no subject", "other endpoint"]
        assert await subject.take() is None

    async def test_an_event_whose_worker_died_comes_before_the_next_of_its_subject(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item("first", subject="c-1"))
        await subject.put(item("second", subject="c-1"))
        await subject.abandoned()

        assert (await subject.taken()).event_id == "first"
        assert await subject.take() is None

    async def test_one_that_was_committed_late_does_not_run_beside_one_that_was_taken(
        self, subject: InboxSubject
    ) -> None:
        """The order of arrival is not always the order in which transactions are committed."""
        async with subject.putting(item("earlier", subject="c-1")) as putting:
            await subject.put(item("later", subject="c-1"))
            later = await subject.taken()
            await putting.commit()
        beside = await subject.take()
        await subject.inbox.done(Done(later.id, later.fence))

        assert later.event_id == "later"
        assert beside is None
        assert (await subject.taken()).event_id == "earlier"

    async def test_one_that_was_begun_comes_first_even_if_an_earlier_one_was_committed_late(
        self, subject: InboxSubject
    ) -> None:
        async with subject.putting(item("earlier", subject="c-1")) as putting:
            await subject.put(item("begun", subject="c-1"))
            await subject.abandoned()
            await putting.commit()

        assert (await subject.taken()).event_id == "begun"
        assert await subject.take() is None

    async def test_of_simultaneous_takes_one_gets_an_event_of_a_subject(
        self, subject: InboxSubject
    ) -> None:
        for number in range(12):
            await subject.put(item(f"evt_{number}", subject=f"c-{number % 3}"))
        taken: list[str] = []

        async def take() -> None:
            for store in (subject.inbox, subject.other):
                found = await store.take(new_fence(), LONG_MS)
                taken.extend([] if found is None else [str(found.subject)])

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(take)

        assert Counter(taken) == {"c-0": 1, "c-1": 1, "c-2": 1}
