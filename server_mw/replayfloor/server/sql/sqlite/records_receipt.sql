-- Promises: the receipt of an id with its answer, if the key is finished.
select id, fingerprint, finished_ms, took_ms, status, length(response), response
from replayfloor_receipts
where id = :id
