-- Promises: up to so many receipts that expired by a moment are gone, the oldest first.
delete from replayfloor_receipts
where id in (
    select id from replayfloor_receipts
    where expires_ms <= :before_ms
    order by expires_ms, id
    limit :limit)
