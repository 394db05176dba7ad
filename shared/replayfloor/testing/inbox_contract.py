"""The contract of an inbox, as a test class to inherit from.

    class TestMyInbox(InboxContract):
        @pytest.fixture
        async def subject(self):
            yield InboxSubject(...)

Each test is one promise of `replayfloor.server.webhooks.inbox.effects`, and its name says which.
The order within a subject is in `inbox_order_contract`. Needs pytest and anyio's plugin.
"""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from replayfloor.core.claims import Renew
from replayfloor.server.sealing import Sealer
from replayfloor.server.stores.inbox import commit_of
from replayfloor.server.stores.inbox_put import open_request
from replayfloor.server.webhooks.inbox.effects import Bury, CommitDone, Done, Later
from replayfloor.testing.inbox_order_contract import InboxOrderContract
from replayfloor.testing.inbox_subject import (
    AFTER_SHORT_MS,
    ELSEWHERE,
    LONG_MS,
    SHORT_MS,
    InboxSubject,
    item,
    new_fence,
)


@pytest.mark.anyio
class InboxContract(InboxOrderContract):
    """What every `AsyncInbox` promises."""

    # -- putting ----------------------------------------------------------------------------------

    async def test_what_was_put_in_is_what_is_taken_out(self, subject: InboxSubject) -> None:
        put = replace(item(), subject="c-1", past_horizon=True)
        assert await subject.put(put)
        taken = await subject.taken()
        request = open_request(taken.stored, Sealer(None), sealed=taken.sealed)

        assert taken.item(request) == put
        assert (taken.attempts, taken.taken_over) == (1, False)
        assert taken.age_ms is not None
        assert taken.age_ms > 0

    async def test_an_event_is_put_in_once(self, subject: InboxSubject) -> None:
        event = item()

        assert [await subject.put(event) for _ in range(2)] == [True, False]
        assert (await subject.taken()).id == event.id
        assert await subject.take() is None

    async def test_an_event_that_is_taken_is_not_put_in_again(self, subject: InboxSubject) -> None:
        event = item()
        await subject.put(event)
        await subject.taken()

        assert not await subject.put(event)
        assert await subject.take() is None

    async def test_an_event_whose_transaction_is_not_committed_is_not_there(
        self, subject: InboxSubject
    ) -> None:
        async with subject.putting(item()):
            assert await subject.take() is None
        assert await subject.take() is None

    async def test_any_text_can_be_put_in(self, subject: InboxSubject) -> None:
        odd = "a\0b \ud800 \N{SNOWMAN}"
        await subject.put(replace(item(odd, subject=odd), source="s\0", endpoint=odd))

        assert (await subject.taken()).event_id == "a\\x00b \\ud800 \N{SNOWMAN}"

    # -- taking -----------------------------------------------------------------------------------

    async def test_simultaneous_takes_each_get_another_event(self, subject: InboxSubject) -> None:
        put = [item(f"evt_{number}") for number in range(24)]
        for each in put:
            await subject.put(each)
        taken: list[str] = []

        async def take() -> None:
            for store in (subject.inbox, subject.other) * 2:
                found = await store.take(new_fence(), LONG_MS)
                assert found is not None
                taken.append(found.event_id)

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(take)

        assert sorted(taken) == sorted(each.event_id for each in put)
        assert await subject.take() is None

    async def test_what_was_put_in_first_is_taken_first(self, subject: InboxSubject) -> None:
        for name in ("a", "b", "c"):
            await subject.put(item(name))

        assert [(await subject.taken()).event_id for _ in range(3)] == ["a", "b", "c"]

    async def test_an_event_of_another_namespace_is_not_taken(self, subject: InboxSubject) -> None:
        await subject.put(item(namespace=ELSEWHERE))

        assert await subject.take() is None
        assert await subject.elsewhere.take(new_fence(), LONG_MS) is not None

    async def test_an_event_is_nobody_elses_until_its_lease_has_run_out(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item())
        first = await subject.taken()
        while_it_lasts = await subject.other.take(new_fence(), LONG_MS)
        await subject.inbox.renew(Renew(first.id, first.fence, SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        second = await subject.other.take(new_fence(), LONG_MS)

        assert while_it_lasts is None
        assert second is not None
        assert second.id == first.id
        assert (second.attempts, second.taken_over) == (2, True)

    async def test_a_take_whose_answer_was_lost_is_answered_again(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item("a"))
        await subject.put(item("b"))
        first = await subject.taken()
        again = await subject.inbox.take(first.fence, LONG_MS, again=True)

        assert again == replace(first, age_ms=again.age_ms if again else None)

    async def test_a_take_that_was_never_made_can_be_made_again(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item("a"))

        again = await subject.inbox.take(new_fence(), LONG_MS, again=True)
        assert again is not None
        assert again.attempts == 1

    # -- renewing ---------------------------------------------------------------------------------

    async def test_a_renewed_lease_lasts(self, subject: InboxSubject) -> None:
        await subject.put(item())
        taken = await subject.taken(SHORT_MS)

        assert await subject.inbox.renew(Renew(taken.id, taken.fence, LONG_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        assert await subject.take() is None

    async def test_a_lease_that_ran_out_is_renewed_unless_the_event_was_taken_over(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item())
        first = await subject.abandoned()
        before = await subject.inbox.renew(Renew(first.id, first.fence, SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        await subject.taken()

        assert before
        assert not await subject.inbox.renew(Renew(first.id, first.fence, LONG_MS))

    # -- settling ---------------------------------------------------------------------------------

    async def test_an_event_that_was_applied_is_gone(self, subject: InboxSubject) -> None:
        await subject.put(item())
        taken = await subject.taken(SHORT_MS)

        assert await subject.inbox.done(Done(taken.id, taken.fence))
        assert not await subject.inbox.done(Done(taken.id, taken.fence))
        await subject.pass_ms(AFTER_SHORT_MS)
        assert await subject.take() is None

    async def test_an_event_that_was_put_off_is_not_due_before(self, subject: InboxSubject) -> None:
        await subject.put(item())
        taken = await subject.taken()

        assert await subject.inbox.later(Later(taken.id, taken.fence, LONG_MS, "ValueError"))
        assert await subject.take() is None

    async def test_an_event_that_was_put_off_is_due_afterwards(self, subject: InboxSubject) -> None:
        await subject.put(item())
        taken = await subject.taken()
        await subject.inbox.later(Later(taken.id, taken.fence, SHORT_MS, "ValueError"))
        await subject.pass_ms(AFTER_SHORT_MS)
        again = await subject.taken()

        assert (again.attempts, again.taken_over) == (2, False)

    async def test_an_attempt_that_does_not_count_is_as_if_it_had_not_been_made(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item())
        taken = await subject.taken()
        await subject.inbox.later(Later(taken.id, taken.fence, 0, counts=False))

        assert (await subject.taken()).attempts == 1

    async def test_a_dead_event_is_not_taken(self, subject: InboxSubject) -> None:
        await subject.put(item())
        taken = await subject.taken(SHORT_MS)

        assert await subject.inbox.bury(Bury(taken.id, taken.fence, "why " * 1000))
        await subject.pass_ms(AFTER_SHORT_MS)
        assert await subject.take() is None

    # -- the fence --------------------------------------------------------------------------------

    async def test_nothing_of_a_worker_counts_after_another_took_its_event_over(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item())
        first = await subject.abandoned()
        second = await subject.taken()

        assert not await subject.inbox.done(Done(first.id, first.fence))
        assert not await subject.inbox.later(Later(first.id, first.fence, 0, "late"))
        assert not await subject.inbox.bury(Bury(first.id, first.fence, "late"))
        assert await subject.inbox.done(Done(second.id, second.fence))

    async def test_a_stalled_workers_late_commit_is_refused_and_its_writes_are_undone(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item())
        first = await subject.taken(SHORT_MS)
        stalled = await subject.inbox.begin()
        await subject.write(stalled.connection, "stalled")
        await subject.pass_ms(AFTER_SHORT_MS)
        second = await subject.taken()
        transaction = await subject.other.begin()
        await subject.write(transaction.connection, "second")
        late = await stalled.commit(commit_of(CommitDone(first.id, first.fence)))
        in_time = await transaction.commit(commit_of(CommitDone(second.id, second.fence)))

        assert (late, in_time) == (False, True)
        assert await subject.written() == ["second"]

    async def test_what_a_handler_writes_and_the_removal_are_one_commit(
        self, subject: InboxSubject
    ) -> None:
        await subject.put(item())
        taken = await subject.taken()
        transaction = await subject.inbox.begin()
        await subject.write(transaction.connection, "once")
        before = await subject.written()
        committed = await transaction.commit(commit_of(CommitDone(taken.id, taken.fence)))

        assert before == []
        assert committed
        assert await subject.written() == ["once"]
        assert not await subject.inbox.done(Done(taken.id, taken.fence))

    async def test_after_a_rollback_neither_is_there(self, subject: InboxSubject) -> None:
        await subject.put(item())
        taken = await subject.taken()
        transaction = await subject.inbox.begin()
        await subject.write(transaction.connection, "never")
        await transaction.rollback()

        assert await subject.written() == []
        assert await subject.inbox.done(Done(taken.id, taken.fence))
