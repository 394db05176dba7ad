-- Promises: up to so many receipts that were finished by a moment are gone, the oldest first; none
-- that its own namespace keeps for longer.
delete from replayfloor_receipts
where id in (
    select id from replayfloor_receipts
    where finished_ms <= :before_ms and coalesce(expires_ms, 0) <= :now_ms
    order by finished_ms, id
    limit :limit)
