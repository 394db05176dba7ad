-- Promises: an orphan passes to this fence, and the old fence can write no more. Since when the
-- key has been claimed stays as it was.
update replayfloor_claims set fence = :fence, lease_ms = :now_ms + :lease_ms
where id = :id and lease_ms <= :now_ms
