-- Promises: what a sweep of the same moment and limit deletes stays known as used.
insert into replayfloor_proofs (id, used_ms)
select id, finished_ms from replayfloor_receipts
where finished_ms <= :before_ms and coalesce(expires_ms, 0) <= :now_ms
order by finished_ms, id
limit :limit
on conflict (id) do update set used_ms = max(used_ms, excluded.used_ms)
