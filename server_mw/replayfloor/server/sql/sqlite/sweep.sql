-- Promises: up to so many receipts that were finished by a moment are gone, the oldest first.
delete from replayfloor_receipts
where id in (
    select id from replayfloor_receipts
    where finished_ms <= :before_ms
    order by finished_ms, id
    limit :limit)
