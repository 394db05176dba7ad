"""The contract of a receipts store, as a test class to inherit from, and the subject of a lock's.

    class TestMyReceipts(ReceiptsContract):
        @pytest.fixture
        async def subject(self):
            yield ReceiptsSubject(...)

Each test is one bullet of the docstrings in `replayfloor.core.claims`, and its name says which.
Needs pytest and anyio's plugin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import anyio
import pytest

from replayfloor.core.claims import (
    Abandon,
    Claim,
    ClaimAnswer,
    Claimed,
    Finish,
    Finished,
    InFlight,
    Orphaned,
    Renew,
)
from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.locks import AsyncLock
from replayfloor.testing.finish_in_contract import FinishInContract
from replayfloor.testing.look_back_contract import LookBackContract
from replayfloor.testing.receipts_subject import (
    AFTER_SHORT_MS,
    LONG_MS,
    OTHER_REQUEST,
    REQUEST,
    SHORT_MS,
    OwnTransaction,
    ReceiptsSubject,
    all_at_once,
    claim,
    new_fence,
    new_id,
    receipt,
)

__all__ = [
    "AFTER_SHORT_MS",
    "LONG_MS",
    "OTHER_REQUEST",
    "REQUEST",
    "SHORT_MS",
    "LockSubject",
    "OwnTransaction",
    "ReceiptsContract",
    "ReceiptsSubject",
    "all_at_once",
    "claim",
    "new_fence",
    "new_id",
    "receipt",
]


@dataclass(frozen=True, slots=True)
class LockSubject:
    """A lock to test, and how its time passes."""

    lock: AsyncLock
    pass_ms: Callable[[int], Awaitable[None]]


@pytest.mark.anyio
class ReceiptsContract(FinishInContract, LookBackContract):
    """What every `AsyncReceipts` promises."""

    async def test_a_free_key_is_claimed(self, subject: ReceiptsSubject) -> None:
        answer = await subject.receipts.claim(claim(new_id(), new_fence()))

        assert answer == Claimed()

    async def test_a_claimed_key_is_in_flight_for_others(self, subject: ReceiptsSubject) -> None:
        id_ = new_id()
        await subject.receipts.claim(claim(id_, new_fence()))
        answer = await subject.other.claim(claim(id_, new_fence(), takeover=True))

        assert isinstance(answer, InFlight)
        assert answer.fingerprint == REQUEST
        assert LONG_MS - 10_000 < answer.left_ms <= LONG_MS

    async def test_claiming_again_with_the_same_fence_is_claimed(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))

        assert await subject.other.claim(claim(id_, fence)) == Claimed()

    async def test_of_simultaneous_claims_exactly_one_is_claimed(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        stores = [subject.receipts, subject.other] * 8
        requests = [(store, claim(id_, new_fence())) for store in stores]
        answers = await all_at_once([partial(store.claim, request) for store, request in requests])

        assert sum(isinstance(answer, Claimed) for answer in answers) == 1
        assert sum(isinstance(answer, InFlight) for answer in answers) == len(stores) - 1

    async def test_a_finished_key_shows_its_receipt_byte_for_byte(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        kept = receipt(bytes(range(256)))
        await subject.receipts.claim(claim(id_, fence))

        assert await subject.receipts.finish(Finish(id_, fence, kept))
        assert await subject.other.claim(claim(id_, new_fence())) == Finished(kept)
        assert await subject.receipts.claim(claim(id_, fence)) == Finished(kept)

    async def test_a_tombstone_stays_one(self, subject: ReceiptsSubject) -> None:
        id_, fence = new_id(), new_fence()
        kept = receipt(tombstone=True)
        await subject.receipts.claim(claim(id_, fence))
        await subject.receipts.finish(Finish(id_, fence, kept))

        assert await subject.receipts.claim(claim(id_, new_fence())) == Finished(kept)

    async def test_a_finished_key_is_never_claimed_however_closely_the_claim_follows(
        self, subject: ReceiptsSubject
    ) -> None:
        for _round in range(20):
            id_, fence = new_id(), new_fence()
            await subject.receipts.claim(claim(id_, fence))
            answers: list[ClaimAnswer] = []

            async def follow(key: ReceiptId = id_, seen: list[ClaimAnswer] = answers) -> None:
                while not seen or isinstance(seen[-1], InFlight):
                    seen.append(await subject.other.claim(claim(key, new_fence())))

            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                await subject.receipts.finish(Finish(id_, fence, receipt()))

            assert answers[-1] == Finished(receipt())

    async def test_a_second_finish_changes_nothing(self, subject: ReceiptsSubject) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))
        await subject.receipts.finish(Finish(id_, fence, receipt(b"first")))

        assert not await subject.receipts.finish(Finish(id_, fence, receipt(b"second")))
        answer = await subject.receipts.claim(claim(id_, new_fence()))
        assert answer == Finished(receipt(b"first"))

    async def test_a_finish_with_another_fence_is_refused(self, subject: ReceiptsSubject) -> None:
        id_ = new_id()
        await subject.receipts.claim(claim(id_, new_fence()))

        assert not await subject.receipts.finish(Finish(id_, new_fence(), receipt()))
        assert isinstance(await subject.receipts.claim(claim(id_, new_fence())), InFlight)

    async def test_an_abandoned_key_is_free(self, subject: ReceiptsSubject) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))

        assert await subject.receipts.abandon(Abandon(id_, fence))
        assert not await subject.receipts.abandon(Abandon(id_, fence))
        assert await subject.receipts.claim(claim(id_, new_fence())) == Claimed()

    async def test_abandoning_with_another_fence_is_refused(self, subject: ReceiptsSubject) -> None:
        id_ = new_id()
        await subject.receipts.claim(claim(id_, new_fence()))

        assert not await subject.receipts.abandon(Abandon(id_, new_fence()))
        assert isinstance(await subject.receipts.claim(claim(id_, new_fence())), InFlight)

    async def test_a_renewed_claim_is_in_flight_beyond_its_first_lease(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence, SHORT_MS))

        assert await subject.receipts.renew(Renew(id_, fence, LONG_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        answer = await subject.other.claim(claim(id_, new_fence(), takeover=True))
        assert isinstance(answer, InFlight)
        assert answer.left_ms > LONG_MS - 10_000

    async def test_a_claim_is_renewed_by_its_own_fence_only_and_only_while_it_stands(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence, SHORT_MS))

        assert not await subject.receipts.renew(Renew(id_, new_fence(), LONG_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        assert await subject.receipts.renew(Renew(id_, fence, LONG_MS))
        assert isinstance(await subject.other.claim(claim(id_, new_fence())), InFlight)
        await subject.receipts.finish(Finish(id_, fence, receipt()))
        assert not await subject.receipts.renew(Renew(id_, fence, LONG_MS))

    async def test_a_claim_that_was_taken_over_cannot_be_renewed(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, old = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, old, SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        await subject.other.claim(claim(id_, new_fence(), takeover=True))

        assert not await subject.receipts.renew(Renew(id_, old, LONG_MS))

    async def test_an_orphan_stays_one_without_takeover(self, subject: ReceiptsSubject) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence, SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        answers = [await subject.other.claim(claim(id_, new_fence())) for _ in range(2)]

        assert all(isinstance(answer, Orphaned) for answer in answers)
        assert await subject.receipts.finish(Finish(id_, fence, receipt()))

    async def test_an_orphan_is_taken_over_and_its_old_fence_can_write_no_more(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, old, new = new_id(), new_fence(), new_fence()
        await subject.receipts.claim(claim(id_, old, SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        answer = await subject.other.claim(claim(id_, new, takeover=True))

        assert answer == Claimed(taken_over=True)
        assert not await subject.receipts.finish(Finish(id_, old, receipt(b"old")))
        assert not await subject.receipts.abandon(Abandon(id_, old))
        assert isinstance(await subject.receipts.claim(claim(id_, old)), InFlight)
        assert await subject.other.finish(Finish(id_, new, receipt(b"new")))

    async def test_an_orphan_is_not_taken_over_by_another_request(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        await subject.receipts.claim(claim(id_, new_fence(), SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        other = Claim(id_, OTHER_REQUEST, new_fence(), LONG_MS, takeover=True)
        answer = await subject.receipts.claim(other)

        assert isinstance(answer, Orphaned)
        assert answer.fingerprint == REQUEST

    async def test_of_simultaneous_takeovers_exactly_one_succeeds(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        await subject.receipts.claim(claim(id_, new_fence(), SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        stores = [subject.receipts, subject.other] * 8
        requests = [(store, claim(id_, new_fence(), takeover=True)) for store in stores]
        answers = await all_at_once([partial(store.claim, request) for store, request in requests])

        assert sum(answer == Claimed(taken_over=True) for answer in answers) == 1
        assert sum(isinstance(answer, InFlight) for answer in answers) == len(stores) - 1

    async def test_keys_do_not_disturb_each_other(self, subject: ReceiptsSubject) -> None:
        first, second = new_id(), new_id()
        await subject.receipts.claim(claim(first, new_fence()))

        assert await subject.receipts.claim(claim(second, new_fence())) == Claimed()

    async def test_a_commit_brings_the_effect_and_the_receipt_together(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))
        transaction = await subject.receipts.begin(id_)
        await subject.write(transaction.connection, id_)

        assert await subject.count(id_) == 0
        assert await transaction.commit(Finish(id_, fence, receipt()))
        assert await subject.count(id_) == 1
        assert await subject.other.claim(claim(id_, new_fence())) == Finished(receipt())

    async def test_a_rollback_leaves_neither_effect_nor_receipt(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))
        transaction = await subject.receipts.begin(id_)
        await subject.write(transaction.connection, id_)
        await transaction.rollback()
        await transaction.rollback()

        assert await subject.count(id_) == 0
        assert isinstance(await subject.other.claim(claim(id_, new_fence())), InFlight)

    async def test_a_commit_of_a_lost_claim_rolls_the_effect_back(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, old, new = new_id(), new_fence(), new_fence()
        await subject.receipts.claim(claim(id_, old, SHORT_MS))
        transaction = await subject.receipts.begin(id_)
        await subject.pass_ms(AFTER_SHORT_MS)
        await subject.other.claim(claim(id_, new, takeover=True))
        await subject.write(transaction.connection, id_)

        assert not await transaction.commit(Finish(id_, old, receipt(b"old")))
        assert await subject.count(id_) == 0
        assert await subject.other.finish(Finish(id_, new, receipt(b"new")))

    async def test_nothing_can_be_written_after_the_transaction_ended(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))
        transaction = await subject.receipts.begin(id_)
        await transaction.commit(Finish(id_, fence, receipt()))

        with pytest.raises(UsageError, match="ended"):
            await subject.write(transaction.connection, id_)

    async def test_a_closed_store_can_be_opened_again(self, subject: ReceiptsSubject) -> None:
        id_ = new_id()
        await subject.receipts.claim(claim(id_, new_fence()))
        await subject.receipts.close()
        await subject.receipts.close()
        await subject.receipts.open()

        assert isinstance(await subject.receipts.claim(claim(id_, new_fence())), InFlight)
