-- Promises: the receipt of an id with its answer, if the key is finished.
select id, fingerprint, finished_at, took_ms, status, octet_length(response), response
from replayfloor.receipts
where id = %(id)s
order by finished_at desc
limit 1
