-- Promises: what was finished lately, latest first, without any answer.
select id, fingerprint, finished_ms, took_ms, status, length(response)
from replayfloor_receipts
where finished_ms >= :now_ms - :since_ms
order by finished_ms desc, id
limit :limit
