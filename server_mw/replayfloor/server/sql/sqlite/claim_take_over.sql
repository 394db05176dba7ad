-- Promises: an orphan passes to this fence, and the old fence can write no more.
update replayfloor_claims set fence = :fence, claimed_ms = :now_ms, lease_ms = :now_ms + :lease_ms
where id = :id and lease_ms <= :now_ms
