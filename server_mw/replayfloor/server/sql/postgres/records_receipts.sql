-- Promises: what was finished lately, latest first, without reading any answer. now() and not
-- clock_timestamp(): only what is constant in a statement lets it leave partitions out.
select id, fingerprint, finished_at, took_ms, status, octet_length(response)
from replayfloor.receipts
where finished_at >= now() - %(since)s
order by finished_at desc, id
limit %(limit)s
