"""The part of the receipts contract that is about a handler's own transaction: `finish_in`."""

from __future__ import annotations

import pytest

from replayfloor.core.claims import Finish, Finished, InFlight
from replayfloor.core.errors import UsageError
from replayfloor.testing.receipts_subject import (
    AFTER_SHORT_MS,
    SHORT_MS,
    ReceiptsSubject,
    claim,
    new_fence,
    new_id,
    receipt,
)


@pytest.mark.anyio
class FinishInContract:
    """What `finish_in` of every `AsyncReceipts` promises; part of `ReceiptsContract`.

    On its own it is for further kinds of connections that a store can finish in.
    """

    async def test_a_receipt_of_an_own_transaction_comes_with_its_commit(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))
        async with subject.own() as own:
            await own.write(id_)
            assert await subject.receipts.finish_in(own.connection, Finish(id_, fence, receipt()))
            assert await subject.count(id_) == 0
            await own.commit()

        assert await subject.count(id_) == 1
        assert await subject.other.claim(claim(id_, new_fence())) == Finished(receipt())
        assert not await subject.receipts.finish(Finish(id_, fence, receipt(b"second")))

    async def test_a_receipt_of_an_own_transaction_goes_with_its_rollback(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))
        async with subject.own() as own:
            await own.write(id_)
            assert await subject.receipts.finish_in(own.connection, Finish(id_, fence, receipt()))
            await own.rollback()

        assert await subject.count(id_) == 0
        assert isinstance(await subject.other.claim(claim(id_, new_fence())), InFlight)
        assert await subject.receipts.finish(Finish(id_, fence, receipt()))

    async def test_a_lost_claim_is_not_finished_in_an_own_transaction(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, old, new = new_id(), new_fence(), new_fence()
        await subject.receipts.claim(claim(id_, old, SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)
        await subject.other.claim(claim(id_, new, takeover=True))
        async with subject.own() as own:
            await own.write(id_)
            finish = Finish(id_, old, receipt(b"old"))
            assert not await subject.receipts.finish_in(own.connection, finish)
            await own.rollback()

        assert await subject.count(id_) == 0
        assert await subject.other.finish(Finish(id_, new, receipt(b"new")))

    async def test_what_would_be_committed_at_once_is_refused(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))
        async with subject.autocommitting() as own:
            with pytest.raises(UsageError, match="autocommit"):
                await subject.receipts.finish_in(own.connection, Finish(id_, fence, receipt()))

        assert isinstance(await subject.other.claim(claim(id_, new_fence())), InFlight)

    async def test_what_is_no_connection_to_the_receipts_is_refused(
        self, subject: ReceiptsSubject
    ) -> None:
        id_, fence = new_id(), new_fence()
        await subject.receipts.claim(claim(id_, fence))

        with pytest.raises(UsageError, match="usable"):
            await subject.receipts.finish_in(object(), Finish(id_, fence, receipt()))
