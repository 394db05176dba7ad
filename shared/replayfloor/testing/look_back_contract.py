"""What every receipts store promises about receipts that have expired: a part of its contract."""

from __future__ import annotations

from functools import partial

from replayfloor.core.claims import (
    Abandon,
    Claim,
    Claimed,
    Expired,
    Finish,
    Finished,
    InFlight,
    Orphaned,
    Reuse,
)
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.testing.receipts_subject import (
    AFTER_SHORT_MS,
    LONG_MS,
    REQUEST,
    SHORT_MS,
    ReceiptsSubject,
    all_at_once,
    new_fence,
    new_id,
    receipt,
)


async def _finished(subject: ReceiptsSubject, id_: ReceiptId) -> None:
    fence = new_fence()
    await subject.receipts.claim(Claim(id_, REQUEST, fence, LONG_MS))
    assert await subject.receipts.finish(Finish(id_, fence, receipt()))


def _claim(
    id_: ReceiptId, reuse: Reuse, retention_ms: int | None = SHORT_MS, *, proofs: bool = False
) -> Claim:
    return Claim(
        id_,
        REQUEST,
        new_fence(),
        LONG_MS,
        retention_ms=retention_ms,
        reuse=reuse,
        proofs=proofs,
    )


class LookBackContract:
    """Tests; what they run on is the fixture `subject`."""

    async def test_a_receipt_is_live_for_its_retention_and_says_how_long_still(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        await _finished(subject, id_)
        await subject.pass_ms(AFTER_SHORT_MS)
        for reuse in Reuse:
            answer = await subject.other.claim(_claim(id_, reuse, LONG_MS))

            assert isinstance(answer, Finished)
            assert answer.receipt == receipt()
            assert answer.left_ms is not None
            assert 0 < answer.left_ms <= LONG_MS - AFTER_SHORT_MS

    async def test_without_a_retention_a_receipt_is_live_for_ever(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        await _finished(subject, id_)
        await subject.pass_ms(AFTER_SHORT_MS)

        assert await subject.other.claim(_claim(id_, Reuse.NEVER, None)) == Finished(receipt())

    async def test_an_expired_receipt_is_not_replayed_and_its_key_is_refused(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        await _finished(subject, id_)
        await subject.pass_ms(AFTER_SHORT_MS)
        for reuse in (Reuse.REFUSE, Reuse.NEVER, Reuse.REFUSE):
            assert await subject.other.claim(_claim(id_, reuse)) == Expired()

        # Nothing was left behind, and nothing was taken away.
        assert isinstance(await subject.other.claim(_claim(id_, Reuse.NEVER, LONG_MS)), Finished)

    async def test_an_expired_key_may_be_taken_as_a_new_one_and_is_told_to_be_used(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        await _finished(subject, id_)
        await subject.pass_ms(AFTER_SHORT_MS)
        again = _claim(id_, Reuse.TELL)

        assert await subject.other.claim(again) == Claimed(reused=True)
        assert isinstance(await subject.receipts.claim(_claim(id_, Reuse.TELL)), InFlight)
        assert await subject.other.finish(Finish(id_, again.fence, receipt(b"second")))
        found = await subject.receipts.claim(_claim(id_, Reuse.NEVER, LONG_MS))
        assert isinstance(found, Finished)
        assert found.receipt == receipt(b"second")

    async def test_a_key_that_was_taken_again_in_vain_is_still_known_as_used(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        await _finished(subject, id_)
        await subject.pass_ms(AFTER_SHORT_MS)
        again = _claim(id_, Reuse.TELL, proofs=True)
        await subject.other.claim(again)

        assert await subject.other.claim(again) == Claimed(reused=True)
        assert await subject.other.abandon(Abandon(id_, again.fence))
        refused = _claim(id_, Reuse.REFUSE, proofs=True)
        assert await subject.receipts.claim(refused) == Expired()
        told = _claim(id_, Reuse.TELL, proofs=True)
        assert await subject.receipts.claim(told) == Claimed(reused=True)

    async def test_a_takeover_is_told_that_the_key_was_used(self, subject: ReceiptsSubject) -> None:
        id_ = new_id()
        await _finished(subject, id_)
        await subject.pass_ms(AFTER_SHORT_MS)
        dead = Claim(id_, REQUEST, new_fence(), SHORT_MS, retention_ms=SHORT_MS, proofs=True)
        await subject.receipts.claim(dead)
        await subject.pass_ms(AFTER_SHORT_MS)
        heir = Claim(
            id_, REQUEST, new_fence(), LONG_MS, takeover=True, retention_ms=SHORT_MS, proofs=True
        )

        assert await subject.other.claim(heir) == Claimed(taken_over=True, reused=True)

    async def test_a_key_that_was_never_used_is_taken_unless_it_is_known_to_be_old(
        self, subject: ReceiptsSubject
    ) -> None:
        for reuse, answer in (
            (Reuse.TELL, Claimed()),
            (Reuse.REFUSE, Claimed()),
            (Reuse.NEVER, Expired()),
        ):
            id_ = new_id()
            assert await subject.receipts.claim(_claim(id_, reuse, proofs=True)) == answer

    async def test_a_refusal_leaves_no_claim(self, subject: ReceiptsSubject) -> None:
        id_ = new_id()
        await subject.receipts.claim(_claim(id_, Reuse.NEVER))

        assert await subject.other.claim(_claim(id_, Reuse.TELL)) == Claimed()

    async def test_a_claim_that_stands_comes_before_every_age(
        self, subject: ReceiptsSubject
    ) -> None:
        busy, dead = new_id(), new_id()
        await subject.receipts.claim(Claim(busy, REQUEST, new_fence(), LONG_MS))
        await subject.receipts.claim(Claim(dead, REQUEST, new_fence(), SHORT_MS))
        await subject.pass_ms(AFTER_SHORT_MS)

        assert isinstance(await subject.other.claim(_claim(busy, Reuse.NEVER)), InFlight)
        assert isinstance(await subject.other.claim(_claim(dead, Reuse.NEVER)), Orphaned)

    async def test_of_simultaneous_claims_of_an_expired_key_one_is_claimed(
        self, subject: ReceiptsSubject
    ) -> None:
        id_ = new_id()
        await _finished(subject, id_)
        await subject.pass_ms(AFTER_SHORT_MS)
        stores = [subject.receipts, subject.other] * 8
        answers = await all_at_once(
            [partial(store.claim, _claim(id_, Reuse.TELL)) for store in stores]
        )

        assert sum(answer == Claimed(reused=True) for answer in answers) == 1
        assert sum(isinstance(answer, InFlight) for answer in answers) == len(stores) - 1
