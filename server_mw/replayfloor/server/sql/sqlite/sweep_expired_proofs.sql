-- Promises: what a sweep of the same moment and limit deletes stays known as used.
insert into replayfloor_proofs (id, used_ms)
select id, finished_ms from replayfloor_receipts
where expires_ms <= :before_ms
order by expires_ms, id
limit :limit
on conflict (id) do update set used_ms = max(used_ms, excluded.used_ms)
